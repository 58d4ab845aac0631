// SPDX-License-Identifier: BSD-3-Clause
// Memory by the spaces and labels that the program gave (wire::LabelledMemory), of one process or of several
// of a rank. Plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "formats/wire/labelled_memory.h"

namespace clusterprof::collector {

struct RawMemoryLabel {
  std::uint64_t allocations = 0, frees = 0, alloc_bytes = 0, live_bytes = 0, peak_bytes = 0;
  std::uint64_t space_peak_bytes = 0;  // held when its space held the most
};

struct RawMemorySpace {
  std::uint64_t processes = 0;  // that had memory in it
  std::uint64_t allocations = 0, frees = 0, alloc_bytes = 0, live_bytes = 0;
  std::uint64_t peak_bytes = 0;  // of the process that had the largest one
  std::int64_t peak_utc_ns = 0;
  std::uint64_t unknown_frees = 0, unknown_bytes = 0;
  std::map<std::string, RawMemoryLabel> labels;
};

struct RawMemoryCopies {
  std::uint64_t count = 0, bytes = 0;
};

struct RawLabelledMemory {
  std::map<std::string, RawMemorySpace> spaces;
  std::map<std::pair<std::string, std::string>, RawMemoryCopies> copies;  // to, from

  static constexpr std::size_t kMaxSpaces = 2 * wire::kMemorySpaces, kMaxLabels = 4 * wire::kMaxLabels;

  // Adds another process of the same rank. The processes' peaks are of different times, so the largest one is
  // the rank's, with what labels held then.
  void add(const RawLabelledMemory& other) {
    for (const auto& [name, space] : other.spaces) add(name, space);
    for (const auto& [between, amounts] : other.copies) {
      const bool has_room = copies.size() < kMaxSpaces * kMaxSpaces || copies.contains(between);
      RawMemoryCopies& sum = copies[has_room ? between
                                             : std::pair<std::string, std::string>(wire::kOtherSpacesName,
                                                                                   wire::kOtherSpacesName)];
      add_up(sum.count, amounts.count);
      add_up(sum.bytes, amounts.bytes);
    }
  }

  // Adds a space of a process of the rank.
  void add(const std::string& name, const RawMemorySpace& from) {
    const bool has_room = spaces.size() < kMaxSpaces || spaces.contains(name);
    RawMemorySpace& to = spaces[has_room ? name : wire::kOtherSpacesName];
    const bool higher = from.peak_bytes > to.peak_bytes;
    if (higher) {
      to.peak_bytes = from.peak_bytes;
      to.peak_utc_ns = from.peak_utc_ns;
      for (auto& [label, row] : to.labels) row.space_peak_bytes = 0;
    }
    add_up(to.processes, from.processes);
    add_up(to.allocations, from.allocations);
    add_up(to.frees, from.frees);
    add_up(to.alloc_bytes, from.alloc_bytes);
    add_up(to.live_bytes, from.live_bytes);
    add_up(to.unknown_frees, from.unknown_frees);
    add_up(to.unknown_bytes, from.unknown_bytes);
    for (const auto& [label, row] : from.labels) {
      const bool fits = to.labels.size() < kMaxLabels || to.labels.contains(label);
      RawMemoryLabel& sum = to.labels[fits ? label : wire::kOtherLabelsName];
      add_up(sum.allocations, row.allocations);
      add_up(sum.frees, row.frees);
      add_up(sum.alloc_bytes, row.alloc_bytes);
      add_up(sum.live_bytes, row.live_bytes);
      sum.peak_bytes = std::max(sum.peak_bytes, row.peak_bytes);
      if (higher) add_up(sum.space_peak_bytes, row.space_peak_bytes);
    }
  }

  // The process may have written anything.
  static void add_up(std::uint64_t& sum, std::uint64_t amount) {
    sum += std::min(amount, std::numeric_limits<std::uint64_t>::max() - sum);
  }
};

}  // namespace clusterprof::collector
