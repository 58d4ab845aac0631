// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/gc_state.h"

#include "agent/sigsafe/peek.h"

namespace clusterprof::agent {

GcSearch g_gc_search;

namespace {

constexpr std::uint64_t kGenerations = 3;
// The low bits of the links of list heads and their neighbours are flags of the collector.
constexpr std::uint64_t kLinkMask = ~std::uint64_t{3};

// The GC state lies well inside the first page of PyInterpreterState; all of it is larger than that.
constexpr std::uint64_t kInterpreterBytes = 4096;

bool is_count(std::uint64_t address) noexcept { return peek<std::int32_t>(address) >= 0; }

// A head of a doubly linked list, empty (linked to itself) or not. While a collection is under way
// the links of its objects hold other things.
bool is_list(std::uint64_t head, bool collecting) noexcept {
  const auto next = peek<std::uint64_t>(head) & kLinkMask;
  const auto previous = peek<std::uint64_t>(head + kGcHeadPrevious) & kLinkMask;
  if (!is_plausible_object(next) || !is_plausible_object(previous)) return false;
  if (collecting) return true;
  return (peek<std::uint64_t>(next + kGcHeadPrevious) & kLinkMask) == head &&
         (peek<std::uint64_t>(previous) & kLinkMask) == head;
}

bool is_gc_state(std::uint64_t at) noexcept {
  if (peek<std::uint64_t>(at + kGcGeneration0) != at + kGcGenerations) return false;
  const auto collecting = peek<std::uint32_t>(at + kGcCollecting);
  if (collecting > 1 || peek<std::uint32_t>(at + kGcEnabled) > 1) return false;
  constexpr std::uint32_t kDebugFlags = 0x3f;
  if (peek<std::uint32_t>(at + kGcDebug) > kDebugFlags) return false;
  for (std::uint64_t i = 0; i < kGenerations; ++i) {
    const std::uint64_t generation = at + kGcGenerations + i * kGcGenerationBytes;
    if (!is_list(generation, collecting != 0) || !is_count(generation + kGcThreshold) ||
        !is_count(generation + kGcCount)) {
      return false;
    }
  }
  if (!is_list(at + kGcPermanent, false)) return false;
  for (std::uint64_t word = at + kGcStats; word < at + kGcCollecting; word += 8) {
    if (peek<std::int64_t>(word) < 0) return false;
  }
  return true;
}

std::uint64_t finished_collections(std::uint64_t collecting) noexcept {
  constexpr std::uint64_t kStatsBytes = (kGcCollecting - kGcStats) / kGenerations;
  std::uint64_t count = 0;
  for (std::uint64_t i = 1; i <= kGenerations; ++i)
    count += peek<std::uint64_t>(collecting - i * kStatsBytes);
  return count;
}

std::uint64_t interpreter_of(const PythonRuntime& runtime, std::uint64_t tstate) noexcept {
  return peek<std::uint64_t>(tstate + runtime.layout.tstate_interp);
}

}  // namespace

std::uint32_t find_collecting(std::uint64_t base, std::uint64_t bytes) noexcept {
  std::uint32_t found = 0;
  for (std::uint64_t offset = 0; offset + kGcCollecting + 8 <= bytes; offset += 8) {
    if (!is_gc_state(base + offset)) continue;
    if (found != 0) return 0;
    found = static_cast<std::uint32_t>(offset + kGcCollecting);
  }
  return found;
}

GcKnown gc_state(const PythonRuntime& runtime, std::uint64_t tstate) noexcept {
  const bool in_runtime = runtime.gc_in.begin != 0;
  const std::uint64_t base = in_runtime ? runtime.gc_in.begin : interpreter_of(runtime, tstate);
  if (!is_plausible_object(base)) return GcKnown::kNo;
  std::uint32_t offset = runtime.gc_collecting;
  if (offset == 0) offset = g_gc_search.collecting.load(std::memory_order_relaxed);
  if (offset == 0) {
    if (runtime.gc_is_described || g_gc_search.searches.load(std::memory_order_relaxed) >= kMaxGcSearches)
      return GcKnown::kGivenUp;
    // Counted first: the search may fault.
    g_gc_search.searches.fetch_add(1, std::memory_order_relaxed);
    offset = find_collecting(base, in_runtime ? runtime.gc_in.end - base : kInterpreterBytes);
    if (offset == 0) return GcKnown::kNo;
    g_gc_search.collecting.store(offset, std::memory_order_relaxed);
  }
  GcSearch& search = g_gc_search;
  const bool is_last = search.collects_in.load(std::memory_order_relaxed) == base;
  if (peek<std::uint32_t>(base + offset) == 0) {
    if (is_last) search.collector.store(0, std::memory_order_relaxed);
    return GcKnown::kIdle;
  }
  const std::uint64_t collection = runtime.gc_is_described ? 0 : finished_collections(base + offset);
  if (!is_last || search.collector.load(std::memory_order_relaxed) == 0 ||
      search.collection.load(std::memory_order_relaxed) != collection) {
    search.collection.store(collection, std::memory_order_relaxed);
    search.collects_in.store(base, std::memory_order_relaxed);
    search.collector.store(tstate, std::memory_order_relaxed);
  }
  return search.collector.load(std::memory_order_relaxed) == tstate ? GcKnown::kCollecting
                                                                    : GcKnown::kCollectsElsewhere;
}

}  // namespace clusterprof::agent
