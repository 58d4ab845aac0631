// SPDX-License-Identifier: BSD-3-Clause
// Reads what a process keeps of its OpenMP regions in its shared memory. Impossible rows are counted
// ("damaged_openmp") and left out. Only the thread that polls the process may call this.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "collector/process/process_report.hpp"
#include "collector/rings/process_start.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/raw_store.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

class OpenMpTables {
 public:
  // All of them must outlive it.
  OpenMpTables(const SegmentView& segment, const ProcessStart& start, RawStore& store, StackResolver& stacks)
      : segment_(segment), start_(start), store_(store), stacks_(stacks) {}

  // Adds the tables as they are now to a report that has none of them yet, but what the main thread has spent
  // in MPI until now.
  void read(ProcessReport& report, std::uint64_t now_ns);

 private:
  // No value: it is not described (yet), or cannot be true.
  [[nodiscard]] std::optional<RawOmpRegionKey> key_of_region(std::uint32_t site);
  void read_regions(ProcessReport& report);
  void read_rows(ProcessReport& report);
  void read_region_under_way(ProcessReport& report, std::uint64_t now_ns);
  // The path of a construct below that of its region.
  [[nodiscard]] std::uint32_t path_of_construct(std::uint32_t site, std::uint32_t region_path,
                                                std::uint64_t code);

  const SegmentView& segment_;
  const ProcessStart& start_;
  RawStore& store_;
  StackResolver& stacks_;
  std::unordered_map<std::uint32_t, std::uint32_t> construct_paths_;  // by site
};

}  // namespace clusterprof::collector
