// SPDX-License-Identifier: BSD-3-Clause
// Reads what one process tells about its memory (formats/wire/memory.h): changes from its ring, and sums from
// its tables. Where the ring was full, the sums say what lives. The process is not trusted. One thread at a
// time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collector/memory/memory_amounts.hpp"
#include "collector/rings/drop_counts.hpp"
#include "collector/rings/process_start.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

class MemoryReader {
 public:
  // All must outlive it.
  MemoryReader(const SegmentView& segment, const ProcessStart& start, StackResolver& stacks,
               DropCounts& drops);

  // Whether the process records its memory.
  [[nodiscard]] bool is_on() const noexcept { return segment_.layout().memory_rings != 0; }

  // Reads the ring. Returns how full it was, 0 to 1.
  double poll(std::uint64_t now_ns);
  // The process has ended: nobody writes any more, and the sums are final.
  void finish(std::uint64_t end_ns);
  // Changes since the last call, nearly in the order of time. Some may be later than the poll's now_ns.
  [[nodiscard]] std::vector<MemoryChange> take_changes();
  // What it has, as of the changes so far.
  [[nodiscard]] std::vector<MemoryChange> live(std::uint64_t now_ns);
  // Of a process that has ended: what it still had, by path and domain, and that all of it is given back.
  [[nodiscard]] std::vector<MemoryLeft> left(std::uint64_t end_ns);
  [[nodiscard]] std::vector<MemoryChange> release(std::uint64_t end_ns);

  using Sums = std::unordered_map<RawMemoryKey, RawMemory, RawMemoryKeyHash>;
  [[nodiscard]] Sums sums(std::uint64_t now_ns);

 private:
  // The path and domain of a row of the table of call sites.
  RawMemoryKey key_of(std::uint32_t site);
  void change(std::uint64_t time_ns, std::int64_t bytes, std::uint32_t site);
  // Lets what lives be what the sums say.
  void follow_sums(std::uint64_t now_ns);
  // Calls visit(key, part of the process's life, bytes) for each recorded block that lives.
  template <typename Visit>
  void for_each_block(std::uint64_t now_ns, Visit&& visit);

  const SegmentView& segment_;
  const ProcessStart& start_;
  StackResolver& stacks_;
  DropCounts& drops_;
  std::vector<std::int64_t> live_;                        // by site, as of the changes
  std::unordered_map<std::uint32_t, RawMemoryKey> keys_;  // by site
  std::vector<MemoryChange> changes_;
  std::uint64_t events_lost_ = 0;
  // The latest time of all changes, and of those that have been taken: what is found out besides comes no
  // earlier, since it builds on them.
  std::uint64_t latest_ns_ = 0, taken_ns_ = 0;
  std::uint64_t known_events_ = 0;  // of the ring: what they say was in the sums when these were followed
  bool has_ended_ = false;
  // A writer that has a place and has not written: since when, and where.
  std::uint64_t waiting_since_ns_ = 0, waiting_at_ = 0;
};

}  // namespace clusterprof::collector
