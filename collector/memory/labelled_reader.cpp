// SPDX-License-Identifier: BSD-3-Clause
#include "collector/memory/labelled_reader.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

namespace clusterprof::collector {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

struct Row {
  std::uint32_t space = 0;
  std::string name;
  RawMemoryLabel amounts;
};

// One look at the tables.
struct Look {
  std::uint32_t spaces = 0;
  std::array<std::string, wire::kMemorySpaces> names;
  std::array<RawMemorySpace, wire::kMemorySpaces> sums;
  std::array<std::uint64_t, wire::kMemorySpaces> peak_ns{};
  std::vector<Row> rows;
  std::uint64_t damaged = 0;
};

void look_at_spaces(const wire::LabelledMemory& memory, Look& look) {
  look.spaces = std::min(memory.space_count.load(std::memory_order_acquire), wire::kMemorySpaces);
  for (std::uint32_t i = 0; i < look.spaces; ++i) {
    const wire::MemorySpace& space = memory.spaces[i];
    look.names[i] = bounded_text(space.name, sizeof space.name);
    RawMemorySpace& sum = look.sums[i];
    sum.allocations = space.allocations.load(kRelaxed);
    sum.frees = space.frees.load(kRelaxed);
    sum.alloc_bytes = space.alloc_bytes.load(kRelaxed);
    sum.live_bytes = space.live_bytes.load(kRelaxed);
    sum.peak_bytes = space.peak_bytes.load(kRelaxed);
    sum.unknown_frees = space.unknown_frees.load(kRelaxed);
    sum.unknown_bytes = space.unknown_bytes.load(kRelaxed);
    sum.processes = sum.allocations != 0 ? 1 : 0;
    look.peak_ns[i] = space.peak_ns.load(kRelaxed);
  }
}

void look_at_labels(const SegmentView& segment, Look& look) {
  const wire::LabelledMemory& memory = segment.labelled_memory();
  const std::uint64_t offset =
      segment.layout().labelled_memory_offset + offsetof(wire::LabelledMemory, labels);
  segment.for_each_touched(offset, wire::kLabelRows, sizeof(wire::MemoryLabel), [&](std::uint32_t i) {
    const wire::MemoryLabel& label = memory.labels[i];
    if (label.ready.load(std::memory_order_acquire) != 1) return;
    Row row;
    row.space = label.space;
    if (row.space >= look.spaces) {
      ++look.damaged;
      return;
    }
    row.amounts.allocations = label.allocations.load(kRelaxed);
    if (row.amounts.allocations == 0) return;
    row.name = bounded_text(label.name, sizeof label.name);
    row.amounts.frees = label.frees.load(kRelaxed);
    row.amounts.alloc_bytes = label.alloc_bytes.load(kRelaxed);
    row.amounts.live_bytes = label.live_bytes.load(kRelaxed);
    row.amounts.peak_bytes = label.peak_bytes.load(kRelaxed);
    const bool has_changed =
        label.saved_peaks.load(kRelaxed) == memory.spaces[row.space].peaks.load(kRelaxed);
    row.amounts.space_peak_bytes = has_changed ? label.saved_bytes.load(kRelaxed) : row.amounts.live_bytes;
    look.rows.push_back(std::move(row));
  });
}

Look look_at(const SegmentView& segment) {
  constexpr int kTries = 8;
  const wire::LabelledMemory& memory = segment.labelled_memory();
  Look look;
  for (int i = 0; i < kTries; ++i) {
    look = {};
    const std::uint64_t before = memory.changes.load(std::memory_order_acquire);
    look_at_spaces(memory, look);
    look_at_labels(segment, look);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && memory.changes.load(kRelaxed) == before) break;
  }
  return look;
}

}  // namespace

RawLabelledMemory read_labelled_memory(const SegmentView& segment, std::int64_t start_utc_ns,
                                       std::uint64_t start_mono_ns, std::uint64_t now_ns,
                                       std::map<std::string, std::uint64_t>& drops) {
  RawLabelledMemory result;
  if (segment.header().has_labelled_memory.load(std::memory_order_acquire) == 0) return result;
  Look look = look_at(segment);
  if (look.damaged != 0) drops["damaged_memory_label"] += look.damaged;
  for (Row& row : look.rows) look.sums[row.space].labels[std::move(row.name)] = row.amounts;
  for (std::uint32_t i = 0; i < look.spaces; ++i) {
    RawMemorySpace& sum = look.sums[i];
    const std::uint64_t peak_ns = std::clamp(look.peak_ns[i], start_mono_ns, std::max(start_mono_ns, now_ns));
    if (sum.peak_bytes != 0)
      sum.peak_utc_ns = start_utc_ns + static_cast<std::int64_t>(peak_ns - start_mono_ns);
    for (auto& [name, label] : sum.labels)
      label.space_peak_bytes = std::min(label.space_peak_bytes, sum.peak_bytes);
    if (sum.allocations == 0 && sum.unknown_frees == 0) continue;
    result.add(look.names[i], sum);  // a damaged table may name two spaces alike
  }
  const wire::LabelledMemory& memory = segment.labelled_memory();
  for (std::uint32_t to = 0; to < look.spaces; ++to)
    for (std::uint32_t from = 0; from < look.spaces; ++from) {
      const std::uint64_t count = memory.copies[to][from].count.load(kRelaxed);
      if (count == 0) continue;
      RawMemoryCopies& sum = result.copies[{look.names[to], look.names[from]}];
      RawLabelledMemory::add_up(sum.count, count);
      RawLabelledMemory::add_up(sum.bytes, memory.copies[to][from].bytes.load(kRelaxed));
    }
  return result;
}

}  // namespace clusterprof::collector
