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
#include "formats/shard/openmp_sums.hpp"

namespace clusterprof::collector {

class OpenMpTables {
 public:
  // All of them must outlive it.
  OpenMpTables(const SegmentView& segment, const ProcessStart& start, RawStore& store, StackResolver& stacks)
      : segment_(segment), start_(start), store_(store), stacks_(stacks) {}

  // Adds the tables as they are now to a report that has none of them yet, but what the main thread has spent
  // in MPI until now.
  void read(ProcessReport& report, std::uint64_t now_ns);

  [[nodiscard]] bool is_recorded() const noexcept { return method() != wire::OmpMethod::kNone; }
  // What has ended, quickly: the sums of what read() gives without the region under way.
  [[nodiscard]] shard::OmpSums sums() const;
  // The region in which the main thread is; no value: in none. `mpi_ns`: what it has spent in MPI until now.
  struct UnderWay {
    std::uint32_t site = 0;
    RawOmpRegionKey team;  // without its path
    std::uint64_t since_ns = 0, time_ns = 0, mpi_ns = 0;
  };
  [[nodiscard]] std::optional<UnderWay> region_under_way(std::uint64_t mpi_ns, std::uint64_t now_ns) const;
  // What `under_way` has of the sums.
  [[nodiscard]] static shard::OmpSums sums_of(const UnderWay& under_way);

 private:
  [[nodiscard]] wire::OmpMethod method() const noexcept;
  // Without its path. No value: it is not described (yet), or cannot be true.
  [[nodiscard]] std::optional<RawOmpRegionKey> team_of_region(std::uint32_t site) const;
  [[nodiscard]] std::optional<RawOmpRegionKey> key_of_region(std::uint32_t site);
  [[nodiscard]] std::uint32_t path_of_region(std::uint32_t site);
  // What the table says of a region that has ended; no value: it has not, or is not described yet.
  [[nodiscard]] std::optional<RawOmpRegion> region_at(std::uint32_t site) const;
  struct Row {
    std::uint32_t site = 0, number = 0;
    wire::OmpConstruct construct = wire::OmpConstruct::kCount;  // kCount: it cannot be true
    RawOmpThread amounts;
  };
  // No value: it has nothing yet.
  [[nodiscard]] std::optional<Row> row_at(std::uint32_t index) const;
  void read_regions(ProcessReport& report);
  void read_rows(ProcessReport& report);
  // The path of a construct below that of its region.
  [[nodiscard]] std::uint32_t path_of_construct(std::uint32_t site, std::uint32_t region_path,
                                                std::uint64_t code);

  const SegmentView& segment_;
  const ProcessStart& start_;
  RawStore& store_;
  StackResolver& stacks_;
  std::unordered_map<std::uint32_t, std::uint32_t> construct_paths_;  // by site
  std::uint64_t openings_seen_ = 0;
};

}  // namespace clusterprof::collector
