// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/events.hpp"

#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

SpinLock lock;
// Set when the level last rose: the ring that was full, and how far it had been written.
const wire::SegmentHeader* raised_segment;
const wire::MpiEventRing* raised_ring;
std::uint64_t raised_written;

}  // namespace

[[gnu::cold, gnu::noinline]] void lose_event(const EndedCall& call, std::uint32_t level) noexcept {
  agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiEventRingFull));
  if (call.ring == nullptr || level >= wire::kMaxEventLevel) return;
  const LockIf held(lock, true);
  if (raised_segment == call.segment && raised_ring->read.load(std::memory_order_relaxed) < raised_written)
    return;
  // Fails when the collector has raised it in the meantime: that is a step, too.
  call.segment->mpi_event_level.compare_exchange_strong(level, level + 1, std::memory_order_relaxed);
  raised_segment = call.segment;
  raised_ring = call.ring;
  raised_written = call.ring->written.load(std::memory_order_relaxed);
}

[[gnu::cold, gnu::noinline]] void lose_event_of_stretch() noexcept {
  agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiStretchRingFull));
}

[[gnu::cold, gnu::noinline]] void lose_track(wire::MpiUnseen what) noexcept {
  auto* const segment = static_cast<wire::SegmentHeader*>(agent->segment());
  if (segment != nullptr && (segment->mpi_unseen.load(std::memory_order_relaxed) & what) == 0)
    segment->mpi_unseen.fetch_or(what, std::memory_order_relaxed);
}

}  // namespace clusterprof::mpi_wrap
