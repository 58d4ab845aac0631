// SPDX-License-Identifier: BSD-3-Clause
// What samples a running thread: a timer or a performance event.
#pragma once

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// Chooses the kind of tick of all threads (ProcessState::tick). Once, at start.
Tick choose_tick() noexcept;

// From any thread. A failure is counted.
void start_ticks(ThreadRecord& record) noexcept;
void start_timer_ticks(ThreadRecord& record) noexcept;  // also from the watcher: opens no event
void arm_timer(const ThreadRecord& record) noexcept;
void stop_ticks(ThreadRecord& record) noexcept;
// Queues our signal for a thread, with the record's address, by which the handler recognises it. False: it
// was not sent.
bool queue_sample_signal(const ThreadRecord& record) noexcept;
// Before the timer of another thread is stopped or set anew while it runs. From Linux 6.13 on, that drops a
// tick that still waits for the thread. A call that the tick has woken up, and that does not start again by
// itself, would then fail with EINTR, with no handler that has it made again. A queued signal is not dropped.
void stand_in_for_tick(const ThreadRecord& record) noexcept;
// After stop_timers(), or when the period has changed. From any thread; not for events.
void restart_ticks(ThreadRecord& record) noexcept;
void forget_ticks(ThreadRecord& record) noexcept;  // in the child of a fork

// For the watcher, which has its own table of descriptors: the descriptors of the events are closed by the
// next thread that starts or stops its ticks.
void abandon_ticks(ThreadRecord& record) noexcept;

// For the watcher, for a thread that runs and gets no signals: the program may have closed the descriptor of
// its event.
void replace_lost_event(ThreadRecord& record) noexcept;

// Call around an exec of the calling thread: performance events end so late that a signal of theirs could
// reach the new program.
void pause_events(ThreadRecord& record) noexcept;
void resume_events(ThreadRecord& record) noexcept;
// If the program jumps out of the exec, nothing else would start the event again. So a timer, whose signals
// do not reach the new program, wakes the handler.
void resume_when_left(ThreadRecord& record) noexcept;

// For the calling thread, after some signal was lost. Called in handlers.
void revive_event(ThreadRecord& record) noexcept;

}  // namespace clusterprof::agent
