// SPDX-License-Identifier: BSD-3-Clause
// What samples a thread while it runs: a timer, or a performance event.
#pragma once

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// What threads are to have (ProcessState::tick). Once, at start.
Tick choose_tick() noexcept;

// From any thread. Counts a failure.
void start_ticks(ThreadRecord& record) noexcept;
void arm_timer(const ThreadRecord& record) noexcept;
void stop_ticks(ThreadRecord& record) noexcept;
void forget_ticks(ThreadRecord& record) noexcept;  // in the child of a fork

// From the watcher, whose table of descriptors is another one: the events' are left to the next thread that
// starts or stops its ticks.
void abandon_ticks(ThreadRecord& record) noexcept;

// From the watcher, for a thread that runs and is not signalled: the program may have closed the descriptor
// of its event.
void replace_lost_event(ThreadRecord& record) noexcept;

// Around an exec of the calling thread: performance events end too late for a signal not to outlive the
// program.
void pause_events(ThreadRecord& record) noexcept;
void resume_events(ThreadRecord& record) noexcept;
// Where the program jumps out of the exec, nothing else would start the event again: a timer, whose signals
// do not outlive the program, wakes the handler.
void resume_when_left(ThreadRecord& record) noexcept;

// Of the calling thread, some signal having been lost. In handlers.
void revive_event(ThreadRecord& record) noexcept;

}  // namespace clusterprof::agent
