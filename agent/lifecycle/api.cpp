// SPDX-License-Identifier: BSD-3-Clause
// The functions that the agent offers to mpi-wrap (agent_api.h): entering and leaving an MPI call, its call
// path, start and end of MPI, and an estimate of what the wrappers cost.
#include <errno.h>

#include <algorithm>
#include <cstring>

#include "agent/agent_api.h"
#include "agent/lifecycle/start.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/counters_read.h"
#include "agent/sigsafe/process_state.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

void* segment() { return g_process.segment.load(std::memory_order_acquire); }

std::uint64_t now_ns() { return monotonic_ns(); }

// Looked up once for each segment of the process.
[[gnu::noinline]] wire::MpiEventRing* find_event_ring(ThreadContext& context, wire::SegmentHeader* header) {
  context.event_ring = nullptr;
  context.event_ring_of = header;
  context.event_ring_generation = g_process.generation;
  const auto index = static_cast<std::uint64_t>(context.record - g_process.records);
  if (header == nullptr || index >= header->mpi_event_rings) return nullptr;
  auto* const rings = reinterpret_cast<wire::MpiEventRing*>(reinterpret_cast<std::uint8_t*>(header) +
                                                            header->mpi_event_rings_offset);
  return context.event_ring = rings + index;
}

wire::MpiEventRing* event_ring(ThreadContext& context, wire::SegmentHeader* header) {
  const bool is_known =
      context.event_ring_of == header && context.event_ring_generation == g_process.generation;
  return is_known ? context.event_ring : find_event_ring(context, header);
}

clusterprof_mpi_exit leave_mpi();

// A prime number, so that no call of a loop is always skipped.
constexpr std::uint32_t kCallsPerTimedOne = 251;

// What the wrapper has cost up to the call itself. Stack walks are counted where they are made.
void time_wrapper(ThreadContext& context, std::uint64_t begin_ns, std::uint64_t walks_before_ns,
                  std::uint64_t enter_ns) {
  context.mpi_timed = true;
  context.wrapper_ns = enter_ns - begin_ns - (context.walks_ns - walks_before_ns);
}

void wrapper_ended() {
  ThreadContext& context = t_context;
  wire::SegmentHeader* const header = g_process.segment.load(std::memory_order_acquire);
  if (!context.mpi_timed || header == nullptr) return;
  context.mpi_timed = false;
  std::uint64_t cost_ns = context.wrapper_ns + monotonic_ns() - context.wrapper_left_ns;
  // Bounded, since the wrapper may have lost the processor, and its time stands for the calls in between,
  // too.
  constexpr std::uint64_t kFirstAtMostNs = 1'000, kAtMostTimes = 4, kParts = 8;
  const std::uint64_t usual_ns = context.usual_wrapper_ns;
  const std::uint64_t most_ns = usual_ns != 0 ? kAtMostTimes * usual_ns : kFirstAtMostNs;
  if (cost_ns > most_ns) cost_ns = most_ns;
  context.usual_wrapper_ns = usual_ns != 0 ? usual_ns - usual_ns / kParts + cost_ns / kParts : cost_ns;
  header->handler_ns.fetch_add(cost_ns * kCallsPerTimedOne, std::memory_order_relaxed);
}

void describe_call(wire::MpiCallUnderWay& record, const clusterprof_mpi_call& call,
                   const clusterprof_call_path& path, bool paused) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  // A reader that sees any of this must also see that the previous call is over.
  std::atomic_thread_fence(std::memory_order_release);
  record.channel.store(call.channel, kRelaxed);
  record.path_offset.store(path.offset, kRelaxed);
  record.path_words.store(path.words, kRelaxed);
  record.communicator.store(call.communicator, kRelaxed);
  // Numbers from when this process was attached to say nothing beside those of others.
  record.sequence.store(g_process.attached ? wire::kNoSequence : call.sequence, kRelaxed);
  record.peer.store(call.peer, kRelaxed);
  record.tag.store(call.tag, kRelaxed);
  record.root.store(call.root, kRelaxed);
  record.op.store(static_cast<std::uint16_t>(call.op), kRelaxed);
  record.state.store(paused ? wire::kCallPaused : wire::kCallDescribed, kRelaxed);
  record.requests.store(call.requests, kRelaxed);
  record.pending_kinds.store(call.pending_kinds, kRelaxed);
  for (std::uint32_t i = 0; call.pending_kinds >> (i * wire::kPendingKindBits) != 0; ++i)
    record.pending_peers[i].store(call.pending_peers[i], kRelaxed);
  record.open_requests.store(call.open_requests, kRelaxed);
  record.agreed.store(call.agreed, kRelaxed);
}

void count_change(wire::MpiCallUnderWay& record) {
  record.changes.store(record.changes.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// Whether the call that has this frame is made inside no other one. A call that the program has left without
// returning from it, by longjmp, is ended.
[[gnu::always_inline]] inline bool is_outermost(const ThreadContext& context, std::uintptr_t frame) {
  if (context.mpi_depth == 0) return true;
  // A call made inside that one would be below it on the stack.
  if (!is_left(context, context.mpi_frame, frame + 1)) return false;
  leave_mpi();
  return true;
}

std::uint64_t enter_mpi_off(std::uint32_t op);

[[gnu::noinline]] void note_pauses(const ThreadContext& context, std::uint64_t recorded_ns) {
  if (context.regions == nullptr) return;
  std::uint64_t resumed_ns = g_process.resumed_ns.load(std::memory_order_relaxed);
  if (g_process.only_regions) resumed_ns = std::max(resumed_ns, context.regions->outside.entered_ns);
  context.regions->pauses.begin(paused_until(context, recorded_ns), resumed_ns);
}

// At the end of a call.
[[gnu::noinline]] void tell_pauses(ThreadContext& context, const wire::MpiCallUnderWay& record,
                                   std::uint64_t time_ns, clusterprof_mpi_exit& left) {
  if (context.regions == nullptr) return;
  PausesOfCalls& pauses = context.regions->pauses;
  left.paused_ns = pauses.paused_ns();
  left.resumed_ns = pauses.resumed_ns;
  const std::uint64_t until_ns = recorded_clock().at(time_ns);
  const std::uint64_t from_ns = record.recorded_before_ns.load(std::memory_order_relaxed);
  pauses.end(paused_until(context, until_ns), until_ns > from_ns ? until_ns - from_ns : 0,
             context.mpi_paused);
}

std::uint64_t enter_mpi(const clusterprof_mpi_call* call) {
  ThreadContext& context = t_context;
  wire::ThreadSlot* const slot = slot_of(context);
  if (slot == nullptr) return 0;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (!is_outermost(context, frame)) return 0;
  const wire::RecordedClock clock = recorded_clock();
  if (clock.is_off()) [[unlikely]]
    return enter_mpi_off(call->op);
  const bool timed = ++context.mpi_calls == kCallsPerTimedOne;
  std::uint64_t begin_ns = 0, walks_before_ns = 0;
  if (timed) [[unlikely]] {
    context.mpi_calls = 0;
    begin_ns = monotonic_ns();
    walks_before_ns = context.walks_ns;
  }
  context.mpi_depth = 1;
  context.mpi_frame = frame;
  context.mpi_phase = clock.phase;
  context.mpi_paused = has_paused(context);
  // Before the clock is read, because finding the path is not part of the call.
  context.mpi_path = context.mpi_paused ? clusterprof_call_path{} : clusterprof_call_path_entry();
  describe_call(slot->mpi_call, *call, context.mpi_path, context.mpi_paused);
  if (g_process.counts_mpi && !context.mpi_paused) {
    const int error = errno;
    enter_mpi_counters(context.record->counters);
    errno = error;
  }
  const std::uint64_t time_ns = monotonic_ns();
  context.mpi_timed = false;
  if (timed) [[unlikely]]
    time_wrapper(context, begin_ns, walks_before_ns, time_ns);
  slot->mpi_op.store(call->op + 1, std::memory_order_release);
  slot->mpi_call.enter_ns.store(time_ns, std::memory_order_relaxed);
  slot->mpi_call.recorded_before_ns.store(clock.at(time_ns), std::memory_order_relaxed);
  if (may_have_paused()) [[unlikely]]
    note_pauses(context, clock.at(time_ns));
  count_change(slot->mpi_call);
  return time_ns;
}

// While recording is off. The call may still be under way when it is turned on: then it counts from there.
std::uint64_t enter_mpi_off(std::uint32_t op) {
  ThreadContext& context = t_context;
  wire::ThreadSlot* const slot = slot_of(context);
  if (slot == nullptr) return 0;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (!is_outermost(context, frame)) return 0;
  const wire::RecordedClock clock = recorded_clock();
  if (!clock.is_off()) [[unlikely]] {
    const clusterprof_mpi_call call{
        op, wire::kNoPath, 0, wire::kNoSequence, wire::kNoPeer, wire::kNoTag, wire::kNoPeer, 0, 0, {}, 0, 0};
    return enter_mpi(&call);
  }
  constexpr auto kRelaxed = std::memory_order_relaxed;
  context.mpi_depth = 1;
  context.mpi_frame = frame;
  context.mpi_phase = clock.phase;
  context.mpi_paused = has_paused(context);
  context.mpi_timed = false;
  wire::MpiCallUnderWay& record = slot->mpi_call;
  std::atomic_thread_fence(std::memory_order_release);
  record.op.store(static_cast<std::uint16_t>(op), kRelaxed);
  record.state.store(context.mpi_paused ? wire::kCallPaused : wire::kCallUndescribed, kRelaxed);
  record.enter_ns.store(clock.off_ns, kRelaxed);
  record.recorded_before_ns.store(clock.at(clock.off_ns), kRelaxed);
  if (may_have_paused()) note_pauses(context, clock.at(clock.off_ns));
  slot->mpi_op.store(op + 1, std::memory_order_release);
  count_change(record);
  return clock.off_ns;
}

// Recording was turned on or off during the call. What was recorded of it counts as one stretch, which ends
// when the last recorded part did.
[[gnu::noinline]] void cut_to_window(ThreadContext& context, const wire::MpiCallUnderWay& record,
                                     clusterprof_mpi_exit& left) {
  if (wire::is_off_phase(context.mpi_phase)) context.mpi_path = {};  // it is that of another call
  const wire::RecordedClock clock = recorded_clock();
  const std::uint64_t until_ns = clock.is_off() ? clock.off_ns : left.time_ns;
  const std::uint64_t recorded_ns = clock.at(until_ns);
  const std::uint64_t before_ns = record.recorded_before_ns.load(std::memory_order_relaxed);
  if (recorded_ns <= before_ns) {
    left.paused = 1;
    return;
  }
  left.time_ns = until_ns;
  left.enter_ns = until_ns - (recorded_ns - before_ns);
  if (context.mpi_path.hash == 0 && left.paused == 0) context.mpi_path = clusterprof_call_path_entry();
}

// Nothing of the call was recorded.
clusterprof_mpi_exit leave_mpi_off(ThreadContext& context, wire::ThreadSlot& slot) {
  slot.mpi_op.store(0, std::memory_order_relaxed);
  count_change(slot.mpi_call);
  context.mpi_depth = 0;
  const std::uint64_t off_ns = slot.mpi_call.enter_ns.load(std::memory_order_relaxed);
  return {off_ns, 0, segment(), nullptr, 1, 0, nullptr, {}, slot.is_main == 1 ? 0u : 1u, 0, 0, 0, 0};
}

clusterprof_mpi_exit leave_mpi() {
  ThreadContext& context = t_context;
  wire::ThreadSlot* const slot = slot_of(context);
  const std::uint32_t phase = g_process.record_phase.load(std::memory_order_acquire);
  if (wire::is_off_phase(phase) && context.mpi_phase == phase && slot != nullptr && context.mpi_depth != 0)
    return leave_mpi_off(context, *slot);
  std::uint64_t time_ns = monotonic_ns();
  // The process was let go during the call, and perhaps attached to again: how much of the call counts is not
  // known.
  if ((slot == nullptr && context.slot != nullptr) || (g_process.attached && context.mpi_depth == 0))
    return {time_ns, 0, segment(), nullptr, 1, 0, nullptr, {}, 0, 0, 0, 0, 0};
  // Neither is true in the child of a fork that was made inside the call.
  if (slot == nullptr || context.mpi_depth == 0)
    return {time_ns, 0, segment(), nullptr, 0, 0, nullptr, {}, 0, 0, 0, 0, 0};
  slot->mpi_op.store(0, std::memory_order_relaxed);
  wire::SegmentHeader* const header = g_process.segment.load(std::memory_order_acquire);
  const std::uint64_t enter_ns = slot->mpi_call.enter_ns.load(std::memory_order_relaxed);
  // What comes after the site has turned recording off does not count.
  const std::uint64_t off_ns = header == nullptr ? 0 : header->turned_off_ns.load(std::memory_order_relaxed);
  if (off_ns != 0) [[unlikely]]
    time_ns = std::min(time_ns, std::max(off_ns, enter_ns));
  const std::uint64_t before_ns = slot->mpi_time_ns.load(std::memory_order_relaxed);
  clusterprof_mpi_exit left = {
      time_ns, before_ns, header, event_ring(context, header),  context.mpi_paused ? 1u : 0u,
      0,       nullptr,   {},     slot->is_main == 1 ? 0u : 1u, context.mpi_timed ? 1u : 0u,
      0,       0,         0};
  if (context.mpi_phase != phase) [[unlikely]]
    cut_to_window(context, slot->mpi_call, left);
  if (may_have_paused()) [[unlikely]]
    tell_pauses(context, slot->mpi_call, time_ns, left);
  left.path = context.mpi_path;
  const std::uint64_t spent_ns = left.time_ns - (left.enter_ns != 0 ? left.enter_ns : enter_ns);
  if (left.paused == 0) slot->mpi_time_ns.store(before_ns + spent_ns, std::memory_order_relaxed);
  count_change(slot->mpi_call);
  context.mpi_depth = 0;
  context.wrapper_left_ns = time_ns;
  if (g_process.counts_mpi && !wire::is_off_phase(context.mpi_phase)) {
    const int error = errno;
    CounterState& counters = context.record->counters;
    left.counter_count = leave_mpi_counters(counters);
    left.counters = counters.call;
    errno = error;
  }
  return left;
}

void add_wrapper_range(std::uintptr_t start, std::uintptr_t end) {
  const std::uint32_t index = g_process.own_ranges.load(std::memory_order_acquire);
  if (index == ProcessState::kMaxOwnRanges || start >= end) return;
  g_process.own_start[index] = start;
  g_process.own_end[index] = end;
  g_process.own_ranges.store(index + 1, std::memory_order_release);
}

// The words of the first line, separated by one blank: libraries have tabs in it.
template <std::size_t kBytes>
void copy_first_line(const char* text, char (&line)[kBytes]) {
  std::size_t used = 0;
  bool blank = false;
  for (; *text != 0 && *text != '\n' && *text != '\r'; ++text) {
    if (static_cast<unsigned char>(*text) <= ' ' || *text == '\x7f') {
      blank = used != 0;
      continue;
    }
    if (used + (blank ? 2 : 1) >= kBytes) break;
    if (blank) line[used++] = ' ';
    line[used++] = *text;
    blank = false;
  }
  line[used] = 0;
}

void mpi_started(std::int32_t rank, std::int32_t size, const char* library_version) {
  wire::SegmentHeader* const header = g_process.segment.load(std::memory_order_acquire);
  if (header == nullptr) return;
  if (library_version != nullptr) copy_first_line(library_version, header->mpi_library);
  header->mpi_rank.store(rank, std::memory_order_relaxed);
  header->mpi_size.store(size, std::memory_order_relaxed);
  header->mpi_init_ns.store(monotonic_ns(), std::memory_order_relaxed);
  header->mpi_state.store(static_cast<std::uint32_t>(wire::MpiState::kInitialised),
                          std::memory_order_release);
}

void mpi_ended() {
  wire::SegmentHeader* const header = g_process.segment.load(std::memory_order_acquire);
  if (header == nullptr) return;
  header->mpi_finalize_ns.store(monotonic_ns(), std::memory_order_relaxed);
  header->mpi_state.store(static_cast<std::uint32_t>(wire::MpiState::kFinalised), std::memory_order_release);
}

void count_loss(std::uint32_t reason) {
  if (reason < wire::kDropReasons)
    count_drop(g_process.segment.load(std::memory_order_acquire), static_cast<wire::DropReason>(reason));
}

static_assert(sizeof g_process.record_phase == sizeof(std::uint32_t));

constexpr clusterprof_agent_api kApi = {10,
                                        segment,
                                        now_ns,
                                        enter_mpi,
                                        leave_mpi,
                                        clusterprof_call_path_entry,
                                        add_wrapper_range,
                                        mpi_started,
                                        mpi_ended,
                                        count_loss,
                                        wrapper_ended,
                                        &g_process.record_phase,
                                        enter_mpi_off};

}  // namespace
}  // namespace clusterprof::agent

extern "C" [[gnu::visibility("default")]] const clusterprof_agent_api* clusterprof_agent_v1(void) {
  clusterprof::agent::ensure_started();
  return &clusterprof::agent::kApi;
}
