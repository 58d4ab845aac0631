// SPDX-License-Identifier: BSD-3-Clause
// Interposed waits for events on an epoll descriptor. Each is libc's own call between two readings of the
// clock. Nothing here has a destructor, so that a thread which is cancelled in a wait, or jumps out of it
// from a handler, leaves nothing behind: such a wait has not returned, and no turn begins.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/event_loops.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "agent/lifecycle/interpose.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/timed_calls.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

CLUSTERPROF_REAL(epoll_wait, int(int, void*, int, int));
CLUSTERPROF_REAL(epoll_pwait, int(int, void*, int, int, const sigset_t*));
CLUSTERPROF_REAL(epoll_pwait2, int(int, void*, int, const timespec*, const sigset_t*));

using Word = std::atomic<std::uint64_t>;

std::uint64_t get(const Word& word) noexcept { return word.load(std::memory_order_relaxed); }
void set(Word& word, std::uint64_t value) noexcept { word.store(value, std::memory_order_relaxed); }
// Of words that only this thread writes.
void add(Word& word, std::uint64_t value) noexcept { set(word, get(word) + value); }

wire::EventLoop* find_loop(wire::ThreadSlot& slot, std::uint32_t descriptor) noexcept {
  for (wire::EventLoop& loop : slot.event_loops.loops)
    if (loop.descriptor.load(std::memory_order_relaxed) == descriptor) return &loop;
  return nullptr;
}

// If the table is full, the new loop replaces the entry with the fewest turns, if these are so few that it is
// no loop (kFewestTurns).
[[gnu::cold, gnu::noinline]] wire::EventLoop* begin_loop(wire::ThreadSlot& slot,
                                                         std::uint32_t descriptor) noexcept {
  wire::EventLoop* place = find_loop(slot, 0);
  if (place == nullptr)
    for (wire::EventLoop& loop : slot.event_loops.loops)
      if (get(loop.turns) < wire::kFewestTurns && (place == nullptr || get(loop.turns) < get(place->turns)))
        place = &loop;
  if (place == nullptr) {
    count_drop(g_process.segment.load(std::memory_order_acquire), wire::DropReason::kEventLoopTableFull);
    return nullptr;
  }
  place->descriptor.store(0, std::memory_order_relaxed);
  for (Word* const word :
       {&place->turn_began_ns, &place->wait_began_ns, &place->turns, &place->busy_ns, &place->idle_ns,
        &place->blocked, &place->blocked_ns, &place->longest_ns, &place->longest_began_ns})
    set(*word, 0);
  for (Word& count : place->lengths) set(count, 0);
  place->descriptor.store(descriptor, std::memory_order_release);
  return place;
}

// A wait of the calling thread that is under way.
struct Wait {
  wire::ThreadSlot* slot;  // null: nothing is noted
  wire::EventLoop* loop;
  std::uint64_t began_ns;
  wire::BlockedTurn* after;  // the turn that it ended, if that was blocked
  std::uint32_t phase;       // of recording (g_process.record_phase), when it began
};

[[gnu::cold, gnu::noinline]] wire::BlockedTurn* note_blocked(wire::ThreadLoops& loops, wire::EventLoop& loop,
                                                             std::uint64_t begin_ns,
                                                             std::uint64_t end_ns) noexcept {
  const std::uint64_t length_ns = end_ns - begin_ns;
  add(loop.blocked, 1);
  add(loop.blocked_ns, length_ns);
  if (length_ns > get(loop.longest_ns)) {
    set(loop.longest_ns, length_ns);
    set(loop.longest_began_ns, begin_ns);
  }
  const std::uint64_t number = get(loops.blocked_turns);
  wire::BlockedTurn& turn = loops.blocked[number % wire::kBlockedTurns];
  set(turn.begin_ns, begin_ns);
  set(turn.end_ns, end_ns);
  turn.descriptor.store(loop.descriptor.load(std::memory_order_relaxed), std::memory_order_relaxed);
  turn.awaited.store(static_cast<std::uint32_t>(wire::Awaited::kNotKnown), std::memory_order_relaxed);
  loops.blocked_turns.store(number + 1, std::memory_order_release);
  return &turn;
}

// With --standby, a turn counts that has begun since recording was turned on.
bool is_of_this_window(std::uint64_t time_ns) noexcept {
  const wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  return segment == nullptr || began_in_this_window(segment, time_ns);
}

Wait begin_wait(int descriptor) noexcept {
  ThreadContext& context = t_context;
  wire::ThreadSlot* const slot = context.slot;
  // Inside MPI it is the library that polls, between two steps of a call.
  if (slot == nullptr || descriptor < 0 || context.mpi_depth != 0 || recording_has_ended() ||
      g_process.attached)
    return {};
  const std::uint32_t number = static_cast<std::uint32_t>(descriptor) + 1;
  wire::EventLoop* loop = find_loop(*slot, number);
  if (loop == nullptr) loop = begin_loop(*slot, number);
  if (loop == nullptr) return {};
  const std::uint64_t turn_began_ns = get(loop->turn_began_ns);
  set(loop->turn_began_ns, 0);
  const std::uint32_t phase = g_process.record_phase.load(std::memory_order_relaxed);
  if (!is_recording(context)) return {};
  Wait wait = {slot, loop, monotonic_ns(), nullptr, phase};
  if (turn_began_ns != 0 && wait.began_ns >= turn_began_ns && is_of_this_window(turn_began_ns)) {
    const std::uint64_t length_ns = wait.began_ns - turn_began_ns;
    add(loop->turns, 1);
    add(loop->busy_ns, length_ns);
    add(loop->lengths[wire::turn_bin(length_ns)], 1);
    if (length_ns >= wire::kBlockedTurnNs)
      wait.after = note_blocked(slot->event_loops, *loop, turn_began_ns, wait.began_ns);
  }
  set(loop->wait_began_ns, wait.began_ns);
  return wait;
}

// ready: what the wait returned. failed: it did not wait, since its arguments are wrong.
void end_wait(const Wait& wait, int ready, bool failed) noexcept {
  // A handler may have forked during the wait: then this is another process, with a slot of its own.
  if (wait.slot == nullptr || t_context.slot != wait.slot) return;
  const std::uint64_t now_ns = monotonic_ns();
  set(wait.loop->wait_began_ns, 0);
  const std::uint32_t phase = g_process.record_phase.load(std::memory_order_relaxed);
  if (failed || wire::is_off_phase(phase)) return;
  const std::uint64_t waited_ns = now_ns > wait.began_ns ? now_ns - wait.began_ns : 0;
  if (phase == wait.phase) add(wait.loop->idle_ns, waited_ns);
  set(wait.loop->turn_began_ns, now_ns);
  if (wait.after == nullptr || phase != wait.phase) return;
  const bool at_once = ready > 0 && waited_ns < wire::kAtOnceNs;
  wait.after->awaited.store(static_cast<std::uint32_t>(at_once ? wire::Awaited::kYes : wire::Awaited::kNo),
                            std::memory_order_release);
}

// timeout_ms: 0 where nothing has to be known of it (timed_calls.h).
template <typename Function>
[[gnu::always_inline]] inline int waiting(int descriptor, const void* events, int timeout_ms,
                                          Function function) {
  const Wait wait = begin_wait(descriptor);
  ThreadRecord* const record =
      begin_timed_call(events, timeout_ms, __builtin_frame_address(0), wait.began_ns);
  const int ready = function();
  end_timed_call(record);
  end_wait(wait, ready, ready < 0 && errno != EINTR);
  return ready;
}

}  // namespace

void watch_event_loops() noexcept {
  g_epoll_wait.find();
  g_epoll_pwait.find();
  g_epoll_pwait2.find();
}

void end_event_loop(int descriptor) noexcept {
  wire::ThreadSlot* const slot = t_context.slot;
  if (slot == nullptr || descriptor < 0) return;
  wire::EventLoop* const loop = find_loop(*slot, static_cast<std::uint32_t>(descriptor) + 1);
  if (loop == nullptr) return;
  // A child of vfork has its parent's memory: the parent's loop goes on.
  if (recording_has_ended() || raw_syscall(SYS_getpid) != g_process.pid) return;
  set(loop->turn_began_ns, 0);
}

void forget_event_loops(wire::ThreadSlot& slot) noexcept {
  for (wire::EventLoop& loop : slot.event_loops.loops) loop.descriptor.store(0, std::memory_order_relaxed);
  slot.event_loops.blocked_turns.store(0, std::memory_order_relaxed);
}

}  // namespace clusterprof::agent

using namespace clusterprof::agent;

CLUSTERPROF_STANDS_FOR(int, epoll_wait, int descriptor, void* events, int most, int timeout_ms) {
  return waiting(descriptor, events, timeout_ms,
                 [=] { return g_epoll_wait(descriptor, events, most, timeout_ms); });
}

CLUSTERPROF_STANDS_FOR(int, epoll_pwait, int descriptor, void* events, int most, int timeout_ms,
                       const sigset_t* mask) {
  return waiting(descriptor, events, timeout_ms,
                 [=] { return g_epoll_pwait(descriptor, events, most, timeout_ms, mask); });
}

CLUSTERPROF_STANDS_FOR(int, epoll_pwait2, int descriptor, void* events, int most, const timespec* timeout,
                       const sigset_t* mask) {
  return waiting(descriptor, events, 0,
                 [=] { return g_epoll_pwait2(descriptor, events, most, timeout, mask); });
}
