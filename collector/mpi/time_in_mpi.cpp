// SPDX-License-Identifier: BSD-3-Clause
#include "collector/mpi/time_in_mpi.hpp"

#include <algorithm>
#include <atomic>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMaxCallsAtEnd = 4096;  // a process may keep ending threads inside calls

bool is_rank(std::int32_t rank) {
  return rank >= wire::kAnyPeer && rank < static_cast<std::int32_t>(shard::kMaxWorldSize);
}

// A consistent copy of a record that the thread may be writing at the same time.
struct Copy {
  RawCallUnderWay call;  // without its path and times that are derived
  std::uint64_t path_offset = 0;
  std::uint32_t path_words = 0, communicator = 0;
  bool paused = false;
  std::uint64_t recorded_before_ns = 0;
};

// No value: no call is under way, or the record keeps changing, so the thread does not hang in a call.
std::optional<Copy> copy_of(const wire::MpiCallUnderWay& record) {
  constexpr int kTries = 4;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t changes = record.changes.load(std::memory_order_acquire);
    if (changes % 2 == 0) return std::nullopt;
    Copy copy;
    RawCallUnderWay& call = copy.call;
    call.channel = record.channel.load(kRelaxed);
    call.op = record.op.load(kRelaxed);
    call.sequence = record.sequence.load(kRelaxed);
    call.peer = record.peer.load(kRelaxed);
    call.tag = record.tag.load(kRelaxed);
    call.root = record.root.load(kRelaxed);
    call.enter_ns = record.enter_ns.load(kRelaxed);
    copy.path_offset = record.path_offset.load(kRelaxed);
    copy.path_words = record.path_words.load(kRelaxed);
    copy.communicator = record.communicator.load(kRelaxed);
    const std::uint16_t state = record.state.load(kRelaxed);
    copy.paused = state == wire::kCallPaused;
    copy.recorded_before_ns = record.recorded_before_ns.load(kRelaxed);
    call.requests = record.requests.load(kRelaxed);
    call.open_requests = record.open_requests.load(kRelaxed);
    call.agreed = record.agreed.load(kRelaxed);
    const std::uint32_t kinds = record.pending_kinds.load(kRelaxed);
    for (std::uint32_t p = 0; p < wire::kMaxPending; ++p) {
      const wire::PendingKind kind = wire::pending_kind(kinds, p);
      if (kind != wire::PendingKind::kNone)
        call.pending.push_back({kind, record.pending_peers[p].load(kRelaxed)});
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (record.changes.load(kRelaxed) != changes) continue;
    if (state == wire::kCallUndescribed) {  // the rest is of an earlier call
      RawCallUnderWay begun;
      begun.op = call.op;
      begun.enter_ns = call.enter_ns;
      copy.call = std::move(begun);
      copy.path_words = 0;
      copy.communicator = wire::kNoPath;
    }
    return copy;
  }
  return std::nullopt;
}

}  // namespace

// What was recorded of a call that began when the process's clock of recorded time was at `before_ns`.
std::uint64_t TimeInMpi::recorded_since(std::uint64_t before_ns, std::uint64_t now_ns) const {
  const wire::RecordedClock clock = wire::recorded_clock_of(segment_.header());
  const std::uint64_t recorded_ns = clock.at(now_ns);
  return recorded_ns > before_ns ? std::min(recorded_ns - before_ns, now_ns - start_.not_after(now_ns)) : 0;
}

std::uint64_t TimeInMpi::of_slot(const wire::ThreadSlot& slot, std::uint64_t now_ns) const {
  std::uint64_t total = slot.mpi_time_ns.load(std::memory_order_relaxed);
  const wire::MpiCallUnderWay& call = slot.mpi_call;
  const bool inside = call.changes.load(std::memory_order_acquire) % 2 == 1;
  if (inside && call.state.load(std::memory_order_relaxed) != wire::kCallPaused)
    total += recorded_since(call.recorded_before_ns.load(std::memory_order_relaxed), now_ns);
  return total;
}

std::uint64_t TimeInMpi::in_call_ns(const wire::ThreadSlot& slot, std::uint64_t now_ns) {
  const wire::MpiCallUnderWay& call = slot.mpi_call;
  const std::uint64_t changes = call.changes.load(std::memory_order_acquire);
  const std::uint64_t enter_ns = call.enter_ns.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool is_inside = changes % 2 == 1 && call.changes.load(std::memory_order_relaxed) == changes;
  return is_inside ? now_ns - std::min(now_ns, enter_ns) : 0;
}

HelperThreads TimeInMpi::of_helper(const Thread& thread, const wire::ThreadSlot& slot,
                                   std::uint64_t now_ns) const {
  if (thread.main) return {};
  if (thread.ended_ns) now_ns = std::min(now_ns, *thread.ended_ns);
  const std::uint64_t begin = std::clamp(thread.start_ns, start_.not_after(now_ns), now_ns);
  const std::uint64_t recorded_ns = windows_.recorded_ns(begin, now_ns);
  const std::uint64_t mpi_ns = std::min(of_slot(slot, now_ns), recorded_ns);
  return mpi_ns == 0 ? HelperThreads{} : HelperThreads{1, recorded_ns, mpi_ns};
}

std::optional<RawCallUnderWay> TimeInMpi::call_under_way(const Thread& thread, const wire::ThreadSlot& slot,
                                                         std::uint64_t now_ns) const {
  const auto& layout = segment_.layout();
  std::optional<Copy> copy = copy_of(slot.mpi_call);
  if (!copy) return std::nullopt;
  RawCallUnderWay& call = copy->call;
  if (copy->paused || call.enter_ns >= now_ns) return std::nullopt;
  const std::uint64_t lasted_ns = recorded_since(copy->recorded_before_ns, now_ns);
  if (lasted_ns == 0) return std::nullopt;
  const std::optional<std::uint32_t> path =
      call.op < layout.mpi_ops ? stacks_.call_site_path(copy->path_offset, copy->path_words, call.op + 1u)
                               : std::nullopt;
  const bool peers_are_ranks =
      std::all_of(call.pending.begin(), call.pending.end(),
                  [](const RawCallUnderWay::Pending& pending) { return is_rank(pending.peer); });
  if (!path || !is_rank(call.peer) || !is_rank(call.root) || !peers_are_ranks) {
    drops_.add("damaged_mpi_call");
    return std::nullopt;
  }
  call.tid = thread.tid;
  call.main_thread = thread.main;
  call.path = *path;
  call.enter_ns = std::max(call.enter_ns, start_.not_after(now_ns));
  call.lasted_ns = lasted_ns;
  // As for its call site: several communicators may share a row of the table.
  if (copy->communicator < layout.communicators) {
    const auto& row = segment_.table<wire::MpiCommunicator>(layout.communicators_offset)[copy->communicator];
    if (row.ready.load(std::memory_order_acquire) == 1) call.channel = row.identity;
  }
  return std::move(call);
}

void TimeInMpi::end_thread(const Thread& thread, const wire::ThreadSlot& slot, std::uint64_t now_ns) {
  if (thread.main) ended_main_ns_ += of_slot(slot, now_ns);
  ended_helpers_.add(of_helper(thread, slot, now_ns));
  if (const auto call = call_under_way(thread, slot, now_ns)) {
    if (calls_at_end_.size() < kMaxCallsAtEnd)
      calls_at_end_.push_back(*call);
    else
      drops_.add("calls_under_way_full");
  }
}

}  // namespace clusterprof::collector
