// SPDX-License-Identifier: BSD-3-Clause
#include "collector/rings/thread_slots.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kSlotSearchIntervalNs = 1'000'000'000;
// A thread is counted a moment before it appears in its slot, so look more than once.
constexpr int kSearches = 3;

}  // namespace

const std::vector<std::uint32_t>& ThreadSlots::find(std::uint64_t now_ns) {
  const std::uint64_t seen = segment_.header().threads_seen.load(std::memory_order_acquire);
  if (seen != threads_seen_) searches_left_ = kSearches;
  if (searches_left_ == 0 && now_ns < next_search_ns_) return slots_;
  if (searches_left_ > 0) --searches_left_;
  threads_seen_ = seen;
  next_search_ns_ = now_ns + kSlotSearchIntervalNs;
  const auto& layout = segment_.layout();
  slots_.clear();
  segment_.for_each_touched(layout.thread_slots_offset, layout.thread_slots, sizeof(wire::ThreadSlot),
                            [&](std::uint32_t i) { slots_.push_back(i); });
  return slots_;
}

}  // namespace clusterprof::collector
