// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/drops.hpp"

#include <algorithm>
#include <iterator>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {
namespace {

struct Reason {
  std::string_view name;
  Dropped what;
};
// All others are kOther.
constexpr Reason kReasons[] = {
    {"ring_full", Dropped::kSamples},
    {"reentrant", Dropped::kSamples},
    {"throttled", Dropped::kSamples},
    {"damaged_record", Dropped::kSamples},
    {"path_arena_full", Dropped::kMpiCalls},
    {"mpi_site_table_full", Dropped::kMpiCalls},
    {"damaged_mpi_site", Dropped::kMpiCalls},
    {"mpi_peer_table_full", Dropped::kMpiCalls},
    {"damaged_mpi_peer", Dropped::kMpiCalls},
    {"communicator_table_full", Dropped::kMpiCalls},
    {"mpi_event_ring_full", Dropped::kMpiEvents},
    {"mpi_stretch_ring_full", Dropped::kMpiEvents},
    {"mpi_event_budget", Dropped::kMpiEvents},
    {"damaged_mpi_event", Dropped::kMpiEvents},
    {"damaged_mpi_call", Dropped::kMpiCalls},
    {"calls_under_way_full", Dropped::kMpiCalls},
    {"damaged_mpi_event_ring", Dropped::kMpiEvents},
    {"io_file_table_full", Dropped::kFileOperations},
    {"io_site_table_full", Dropped::kFileOperations},
    {"io_path_room_full", Dropped::kFileOperations},
    {"damaged_io_file", Dropped::kFileOperations},
    {"damaged_io_site", Dropped::kFileOperations},
};

}  // namespace

Dropped what_was_dropped(std::string_view reason) {
  const Reason* const found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                           [&](const Reason& row) { return row.name == reason; });
  return found != std::end(kReasons) ? found->what : Dropped::kOther;
}

bool drop_matters(std::string_view reason, std::uint64_t count, std::uint64_t samples) {
  return what_was_dropped(reason) != Dropped::kSamples ||
         static_cast<double>(count) >= thresholds::kDropped * static_cast<double>(samples + count);
}

}  // namespace clusterprof::report
