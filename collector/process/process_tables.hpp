// SPDX-License-Identifier: BSD-3-Clause
// Reads the tables of sums that agent and wrappers keep in a process's shared memory into a ProcessReport:
// MPI calls by call site, communicators, traffic between ranks, sizes of messages, errors of MPI, requests
// that stayed open, regions, calls on files, measurements of the clock.
//
// Every index and length is checked before it is used; impossible rows are counted ("damaged_...") and left
// out. Rows keep growing while they are read, so numbers that belong together may differ by one call. Times
// are in nanoseconds. Only the thread that polls the process may call this.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collector/charge/process_charges.hpp"
#include "collector/mpi/call_sites.hpp"
#include "collector/process/process_report.hpp"
#include "collector/rings/drop_counts.hpp"
#include "collector/rings/process_start.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/raw_store.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

class ProcessTables {
 public:
  // All of them must outlive it.
  ProcessTables(const SegmentView& segment, const ProcessStart& start, RawStore& store, StackResolver& stacks,
                MpiCallSites& sites, ProcessCharges& charges, DropCounts& drops)
      : segment_(segment),
        start_(start),
        store_(store),
        stacks_(stacks),
        sites_(sites),
        charges_(charges),
        drops_(drops) {}

  // Adds all tables, as they are now, to a report that has none of them yet.
  void read(ProcessReport& report, std::uint64_t now_ns);
  // Adds communicators and collective operations only. Returns identities by row of the table; 0: none.
  std::vector<std::uint64_t> read_communicators(ProcessReport& report) const;

  // Adds what performance counters counted inside MPI since the last call to the series of counters. Call it
  // about once a second.
  void update_mpi_counters(std::uint64_t now_ns);

 private:
  void read_call_sites(ProcessReport& report, const std::vector<std::uint64_t>& identities);
  void read_traffic(ProcessReport& report, const std::vector<std::uint64_t>& identities) const;
  void read_message_sizes(ProcessReport& report) const;
  void read_errors(ProcessReport& report, std::uint64_t now_ns);
  void read_open_requests(ProcessReport& report);
  void read_regions(ProcessReport& report);
  void read_files(ProcessReport& report);
  void read_clocks(ProcessReport& report, std::uint64_t now_ns) const;
  // RawTables::files of a row of the process's table of files, index < layout().io_files.
  std::uint32_t file(std::uint32_t index);
  // The call path of a row of the process's table of calls on files.
  std::uint32_t file_call_path(std::uint32_t index);

  const SegmentView& segment_;
  const ProcessStart& start_;
  RawStore& store_;
  StackResolver& stacks_;
  MpiCallSites& sites_;
  ProcessCharges& charges_;
  DropCounts& drops_;
  std::unordered_map<std::uint32_t, std::uint32_t> files_, file_call_paths_;  // by row
  std::uint64_t openings_seen_ = 0;
  std::array<std::uint64_t, wire::kMaxCounters> counted_in_mpi_{};  // that is in the series
  std::uint64_t counted_in_mpi_until_ns_ = 0;
};

}  // namespace clusterprof::collector
