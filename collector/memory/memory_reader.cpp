// SPDX-License-Identifier: BSD-3-Clause
#include "collector/memory/memory_reader.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "formats/wire/c10d_functions.h"

namespace clusterprof::collector {
namespace {

// No process has more: sums of such numbers do not overflow.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kMostAllocated = std::uint64_t{1} << 60;  // in its life
constexpr std::uint64_t kPatienceNs = 1'000'000'000;  // with a writer that has a place and has not written

}  // namespace

MemoryReader::MemoryReader(const SegmentView& segment, const ProcessStart& start, StackResolver& stacks,
                           DropCounts& drops)
    : segment_(segment),
      start_(start),
      stacks_(stacks),
      drops_(drops),
      live_(segment.layout().memory_sites) {}

RawMemoryKey MemoryReader::key_of(std::uint32_t index) {
  if (const auto known = keys_.find(index); known != keys_.end()) return known->second;
  const wire::MemorySite& site =
      segment_.table<wire::MemorySite>(segment_.layout().memory_sites_offset)[index];
  RawMemoryKey key;
  if (site.ready.load(std::memory_order_acquire) != 1) return key;  // it may be described yet
  const auto domain = static_cast<std::uint8_t>(site.domain);
  const std::uint16_t mpi_op = site.mpi_op;
  const bool sane =
      domain < wire::kMemoryDomains && mpi_op <= segment_.layout().mpi_ops && mpi_op <= wire::kFunctionCount;
  const std::optional<std::uint32_t> path =
      sane ? stacks_.call_site_path(site.path_offset, site.path_words, mpi_op) : std::nullopt;
  if (path) {
    key = {*path, static_cast<wire::MemoryDomain>(domain)};
  } else {
    drops_.add("damaged_memory_site");
  }
  return keys_[index] = key;
}

void MemoryReader::change(std::uint64_t time_ns, std::int64_t bytes, std::uint32_t site) {
  // More than there is cannot be given back.
  bytes = std::max(bytes, -live_[site]);
  if (bytes == 0) return;
  live_[site] += bytes;
  latest_ns_ = std::max(latest_ns_, time_ns);
  changes_.push_back({time_ns, bytes, key_of(site)});
}

double MemoryReader::poll(std::uint64_t now_ns) {
  if (!is_on()) return 0;
  wire::MemoryRing& ring = segment_.memory_ring();
  const std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  const std::uint64_t filled = ring.claimed.load(std::memory_order_acquire) - read;
  const bool gives_up =
      waiting_since_ns_ != 0 && waiting_at_ == read && now_ns - waiting_since_ns_ >= kPatienceNs;
  const std::uint64_t begin_ns = start_.not_after(now_ns);
  const bool waits = wire::drain_memory_events(
      ring, gives_up,
      [&](std::uint64_t time_ns, std::int64_t bytes, std::uint32_t site) {
        if (site >= live_.size() || bytes > static_cast<std::int64_t>(kMostBytes) ||
            bytes < -static_cast<std::int64_t>(kMostBytes) ||
            live_[site] > static_cast<std::int64_t>(kMostBytes)) {
          drops_.add("damaged_memory_event");
          return;
        }
        // Some happened since now_ns: other processes were looked at first.
        change(std::clamp(time_ns, begin_ns, now_ns + kClockToleranceNs), bytes, site);
      },
      known_events_);
  const std::uint64_t waits_at = ring.read.load(std::memory_order_relaxed);
  if (!waits) {
    waiting_since_ns_ = 0;
  } else if (waiting_since_ns_ == 0 || waits_at != waiting_at_) {
    waiting_since_ns_ = now_ns;
    waiting_at_ = waits_at;
  }
  const std::uint64_t lost = segment_.header().memory.events_lost.load(std::memory_order_relaxed);
  // What a writer that was given up has not told, the sums say.
  if (std::exchange(events_lost_, lost) != lost || (gives_up && !has_ended_)) follow_sums(now_ns);
  return std::min(1.0, static_cast<double>(filled) / wire::kMemoryEvents);
}

void MemoryReader::follow_sums(std::uint64_t now_ns) {
  now_ns = std::max(now_ns, latest_ns_);
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::MemorySite>(layout.memory_sites_offset);
  // A writer adds to the sums before it takes a place in the ring. What the process does while the sums are
  // read may be in them and in the ring, so they are read at once.
  known_events_ = segment_.memory_ring().claimed.load(std::memory_order_acquire);
  std::vector<std::pair<std::uint32_t, std::int64_t>> live_by_site;
  live_by_site.reserve(layout.memory_sites);
  segment_.for_each_touched(
      layout.memory_sites_offset, layout.memory_sites, sizeof(wire::MemorySite), [&](std::uint32_t i) {
        if (sites[i].key.load(std::memory_order_acquire) == 0) return;
        const std::uint64_t freed = sites[i].freed_bytes.load(std::memory_order_relaxed);
        const std::uint64_t allocated = sites[i].alloc_bytes.load(std::memory_order_relaxed);
        const std::uint64_t live = allocated - std::min(allocated, freed);
        if (live <= kMostBytes) live_by_site.emplace_back(i, static_cast<std::int64_t>(live));
      });
  for (const auto& [site, live] : live_by_site) change(now_ns, live - live_[site], site);
}

void MemoryReader::finish(std::uint64_t end_ns) {
  if (!is_on()) return;
  has_ended_ = true;
  wire::MemoryRing& ring = segment_.memory_ring();
  // Writers that were killed on the way.
  for (std::uint32_t i = 0; i < wire::kMemoryEvents; ++i) {
    waiting_since_ns_ = i == 0 ? 0 : 1;
    waiting_at_ = ring.read.load(std::memory_order_relaxed);
    poll(end_ns);
    if (waiting_since_ns_ == 0) break;
  }
  latest_ns_ = std::max(end_ns, taken_ns_);
  for (MemoryChange& change : changes_) change.time_ns = std::min(change.time_ns, latest_ns_);
  follow_sums(end_ns);
}

std::vector<MemoryChange> MemoryReader::take_changes() {
  taken_ns_ = latest_ns_;
  return std::exchange(changes_, {});
}

std::vector<MemoryChange> MemoryReader::live(std::uint64_t now_ns) {
  now_ns = std::max(now_ns, latest_ns_);
  std::vector<MemoryChange> live;
  for (std::uint32_t site = 0; site < live_.size(); ++site)
    if (live_[site] != 0) live.push_back({now_ns, live_[site], key_of(site)});
  return live;
}

std::vector<MemoryChange> MemoryReader::release(std::uint64_t end_ns) {
  end_ns = std::max(end_ns, latest_ns_);
  for (std::uint32_t site = 0; site < live_.size(); ++site)
    if (live_[site] != 0) change(end_ns, -live_[site], site);
  return take_changes();
}

std::vector<MemoryLeft> MemoryReader::left(std::uint64_t end_ns) {
  std::map<RawMemoryKey, MemoryLeft> rows;
  for (std::uint32_t site = 0; site < live_.size(); ++site)
    if (live_[site] != 0) rows[key_of(site)].bytes += static_cast<std::uint64_t>(live_[site]);
  for_each_block(end_ns, [&](const RawMemoryKey& key, std::size_t part, std::uint64_t bytes) {
    rows[key].by_age[part] += bytes;
  });
  std::vector<MemoryLeft> left;
  left.reserve(rows.size());
  for (auto& [key, row] : rows) {
    row.of = key;
    left.push_back(row);
  }
  return left;
}

MemoryReader::Sums MemoryReader::sums(std::uint64_t now_ns) {
  Sums sums;
  if (!is_on()) return sums;
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::MemorySite>(layout.memory_sites_offset);
  segment_.for_each_touched(
      layout.memory_sites_offset, layout.memory_sites, sizeof(wire::MemorySite), [&](std::uint32_t i) {
        const wire::MemorySite& site = sites[i];
        if (site.key.load(std::memory_order_acquire) == 0 || site.ready.load(std::memory_order_acquire) != 1)
          return;
        constexpr auto kRelaxed = std::memory_order_relaxed;
        RawMemory raw;
        raw.alloc_bytes = site.alloc_bytes.load(kRelaxed);
        raw.alloc_count = site.alloc_count.load(kRelaxed);
        raw.copy_bytes = site.copy_bytes.load(kRelaxed);
        raw.copy_count = site.copy_count.load(kRelaxed);
        if (raw.alloc_bytes > kMostAllocated || raw.alloc_count > kMostAllocated ||
            raw.copy_bytes > kMostAllocated || raw.copy_count > kMostAllocated) {
          drops_.add("damaged_memory_site");
          return;
        }
        raw.soon_bytes = std::min(site.soon_bytes.load(kRelaxed), raw.alloc_bytes);
        raw.soon_count = std::min(site.soon_count.load(kRelaxed), raw.alloc_count);
        raw.variance = std::min(site.variance.load(kRelaxed), kMostAllocated);
        if (raw.alloc_bytes != 0 || raw.copy_bytes != 0) sums[key_of(i)].add(raw);
      });
  if (has_ended_) return sums;
  for_each_block(now_ns, [&](const RawMemoryKey& key, std::size_t part, std::uint64_t bytes) {
    if (const auto row = sums.find(key); row != sums.end()) row->second.live_by_age[part] += bytes;
  });
  return sums;
}

template <typename Visit>
void MemoryReader::for_each_block(std::uint64_t now_ns, Visit&& visit) {
  if (!is_on()) return;
  const auto& layout = segment_.layout();
  const std::uint64_t begin_ns = start_.not_after(now_ns);
  const auto lasted_ns = static_cast<double>(std::max<std::uint64_t>(now_ns - begin_ns, 1));
  const auto* const addresses = segment_.table<std::atomic<std::uint64_t>>(layout.memory_addresses_offset);
  const auto* const blocks = segment_.table<wire::MemoryBlock>(layout.memory_blocks_offset);
  segment_.for_each_touched(
      layout.memory_addresses_offset, layout.memory_blocks, sizeof(std::uint64_t), [&](std::uint32_t i) {
        const std::uint64_t address = addresses[i].load(std::memory_order_acquire);
        if (address <= wire::kBusyBlock) return;
        const wire::MemoryBlock block = blocks[i];
        std::atomic_thread_fence(std::memory_order_acquire);
        if (addresses[i].load(std::memory_order_relaxed) != address || block.site >= layout.memory_sites ||
            block.weight > kMostBytes)
          return;
        constexpr std::size_t kParts = shard::MemorySite::kAges;
        const auto since_ns = static_cast<double>(std::clamp(block.time_ns, begin_ns, now_ns) - begin_ns);
        const auto part = static_cast<std::size_t>(since_ns / lasted_ns * static_cast<double>(kParts));
        visit(key_of(block.site), std::min(part, kParts - 1), block.weight);
      });
}

}  // namespace clusterprof::collector
