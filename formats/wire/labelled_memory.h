// SPDX-License-Identifier: BSD-3-Clause
// Memory that the program itself names, as Kokkos does with its views: by memory space ("Host", "Cuda") and
// label. Exact sums, and who held how much when a space held the most. Design:
// docs/design/0028-regions-of-other-interfaces.md.
#pragma once

#include <atomic>
#include <cstdint>

namespace clusterprof::wire {

inline constexpr std::uint32_t kMemorySpaces = 16, kSpaceNameBytes = 64;
// The last space stands for all that found no room, if there are so many.
inline constexpr std::uint32_t kNamedSpaces = kMemorySpaces - 1;
inline constexpr char kOtherSpacesName[] = "(other spaces)";
// A longer label is cut, and ends in kLabelCut. Kokkos itself cuts labels to 119 bytes in places: both forms
// have to be one label, so that what is freed is found.
inline constexpr std::uint32_t kLabelBytes = 112;
inline constexpr char kLabelCut[] = "\xe2\x80\xa6";  // an ellipsis
// Labels of all spaces together that have a row of their own. They are in a hash table that is never more
// than half full. Before it there is a row for each space, for the labels that found no room.
inline constexpr std::uint32_t kMaxLabels = 1024, kLabelPlaces = 2 * kMaxLabels;
inline constexpr std::uint32_t kLabelRows = kMemorySpaces + kLabelPlaces;
inline constexpr char kOtherLabelsName[] = "(other labels)";

struct MemorySpace {
  std::atomic<std::uint32_t> ready;  // 1 when the name is complete
  std::uint32_t reserved;
  char name[kSpaceNameBytes];  // terminated
  std::atomic<std::uint64_t> allocations, frees, alloc_bytes, live_bytes;
  std::atomic<std::uint64_t> peak_bytes, peak_ns;  // CLOCK_MONOTONIC
  std::atomic<std::uint64_t> peaks;                // how often peak_bytes has grown
  // What was freed and had not been seen to be allocated: by the parent of this process, for example.
  std::atomic<std::uint64_t> unknown_frees, unknown_bytes;
};
static_assert(sizeof(MemorySpace) == 144);

struct MemoryLabel {
  std::atomic<std::uint64_t> key;    // 0 = free; hash of space and name
  std::atomic<std::uint32_t> ready;  // 1 when space and name are complete
  std::uint32_t space;               // index
  char name[kLabelBytes];            // terminated
  std::atomic<std::uint64_t> allocations, frees, alloc_bytes, live_bytes, peak_bytes;
  // What it held at the space's peak number `saved_peaks`. If the space has had more of them since, the label
  // has not changed since the last one, and held live_bytes.
  std::atomic<std::uint64_t> saved_bytes, saved_peaks;
  std::uint64_t reserved;
};
static_assert(sizeof(MemoryLabel) == 192);

struct MemoryCopies {
  std::atomic<std::uint64_t> count, bytes;
};

// Written under a lock of the process.
struct LabelledMemory {
  std::atomic<std::uint64_t> changes;  // odd while the rest is changed
  std::atomic<std::uint32_t> space_count, label_count;
  MemorySpace spaces[kMemorySpaces];
  MemoryCopies copies[kMemorySpaces][kMemorySpaces];  // to, from
  MemoryLabel labels[kLabelRows];
};

}  // namespace clusterprof::wire
