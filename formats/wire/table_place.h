// SPDX-License-Identifier: BSD-3-Clause
// Where a key may be in an open hash table whose entries are never removed.
//
// The tables are large, and most processes need a small part of them. With plain linear probing each new key
// would touch a page of its own. So a table is divided into parts, each eight times as large as the one
// before, and a key tries a few places of each: a table fills from its beginning, and pages that are not
// needed are never touched.
#pragma once

#include <cstdint>

namespace clusterprof::wire {

// Place number `probe` of the key, in a table of `places`. Readers and writers try 0, 1, 2... up to the first
// one that is free or has the key.
constexpr std::uint32_t table_place(std::uint64_t key, std::uint32_t probe, std::uint32_t places) noexcept {
  constexpr std::uint32_t kFirstPlaces = 256, kGrowth = 8, kProbesInPart = 8;
  std::uint64_t begin = 0, size = kFirstPlaces;
  for (; begin + 2 * size < places; begin += size, size *= kGrowth) {
    if (probe < kProbesInPart) return static_cast<std::uint32_t>(begin + (key + probe) % size);
    probe -= kProbesInPart;
  }
  return static_cast<std::uint32_t>(begin + (key + probe) % (places - begin));  // all that is left
}

}  // namespace clusterprof::wire
