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
  std::string_view meaning;
};
constexpr Reason kReasons[] = {
    {"ring_full", Dropped::kSamples, "samples are missing: the collector did not fetch them in time"},
    {"reentrant", Dropped::kSamples, "samples are missing: the signal came while clusterprof's own code ran"},
    {"throttled", Dropped::kSamples,
     "samples were left out, since they would have taken the program's time: those that remain stand for "
     "more"},
    {"damaged_record", Dropped::kSamples, "samples cannot be true: the program wrote over them"},
    {"damaged_ring", Dropped::kOther, "times the samples of a thread were lost: the program wrote over them"},
    {"no_thread_slot", Dropped::kOther, "threads are not recorded: a process has room for 512 at a time"},
    {"timer_failed", Dropped::kOther, "threads have no timer and are not sampled while they run"},
    {"signal_blocked", Dropped::kOther,
     "threads are not sampled: they block the signal that samples are taken with, or their process filters "
     "system calls"},
    {"code_table_full", Dropped::kOther, "Python functions have no name: the table of code objects is full"},
    {"damaged_code", Dropped::kOther,
     "Python functions have no name: the program wrote over what described them"},
    {"module_arena_full", Dropped::kOther,
     "libraries are not known, nor the names of functions in them: their table is full"},
    {"damaged_module", Dropped::kOther,
     "times a library is not known, nor those after it: the program wrote over what described them"},
    {"fault_in_walk", Dropped::kOther, "call paths are cut short: memory on the way could not be read"},
    {"counter_failed", Dropped::kOther, "threads have no counters: PAPI could not count there"},
    {"path_arena_full", Dropped::kMpiCalls, "MPI calls have no callers: the room for call paths is full"},
    {"mpi_site_table_full", Dropped::kMpiCalls,
     "MPI calls are not told apart by call site: the table of call sites is full"},
    {"damaged_mpi_site", Dropped::kMpiCalls, "MPI call sites cannot be true: the program wrote over them"},
    {"mpi_peer_table_full", Dropped::kMpiCalls,
     "messages are missing between pairs of ranks: the table of partners is full"},
    {"damaged_mpi_peer", Dropped::kMpiCalls,
     "pairs of ranks are missing: the program wrote over what they sent"},
    {"communicator_table_full", Dropped::kMpiCalls, "communicators are not told apart: their table is full"},
    {"mpi_event_ring_full", Dropped::kMpiEvents,
     "MPI calls are missing in the analysis of waiting: the collector did not fetch them in time, or they "
     "are "
     "of a thread beyond the 64th"},
    {"mpi_event_budget", Dropped::kMpiEvents,
     "MPI calls are missing in the analysis of waiting: they are beyond what is kept of a rank"},
    {"damaged_mpi_event", Dropped::kMpiEvents,
     "MPI calls are missing in the analysis of waiting: the program wrote over them"},
    {"damaged_mpi_call", Dropped::kMpiCalls,
     "MPI calls that threads are in are not known: the program wrote over what described them"},
    {"calls_under_way_full", Dropped::kMpiCalls,
     "threads ended inside MPI calls that are not listed: there were too many of them"},
    {"damaged_mpi_event_ring", Dropped::kMpiEvents,
     "times MPI calls of a thread are missing in the analysis of waiting: the program wrote over them"},
    {"damaged_clock_measurement", Dropped::kOther,
     "comparisons of the nodes' clocks cannot be true: the program wrote over them"},
    {"region_table_full", Dropped::kOther,
     "instances of regions count for the region around them: the table of regions is full"},
    {"region_mismatch", Dropped::kOther, "ends of regions are not of the innermost one, or of none"},
    {"damaged_region", Dropped::kOther, "regions cannot be true: the program wrote over them"},
    {"io_file_table_full", Dropped::kFileOperations,
     "operations on files are counted with other files of the directory: the table of files is full"},
    {"io_site_table_full", Dropped::kFileOperations,
     "operations on files are counted by file only, without their callers: the table of call sites is full"},
    {"io_path_room_full", Dropped::kFileOperations,
     "operations on files have no callers: the room for their call paths is full"},
    {"damaged_io_file", Dropped::kFileOperations, "files have no name: the program wrote over it"},
    {"damaged_io_site", Dropped::kFileOperations,
     "call sites of operations on files cannot be true: the program wrote over them"},
};

const Reason* find(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                         [&](const Reason& reason) { return reason.name == name; });
  return found == std::end(kReasons) ? nullptr : found;
}

}  // namespace

Dropped what_was_dropped(std::string_view reason) {
  const Reason* const found = find(reason);
  return found != nullptr ? found->what : Dropped::kOther;
}

std::string_view meaning_of_drop(std::string_view reason) {
  const Reason* const found = find(reason);
  return found != nullptr ? found->meaning : std::string_view();
}

bool drop_matters(std::string_view reason, std::uint64_t count, std::uint64_t samples) {
  return what_was_dropped(reason) != Dropped::kSamples ||
         static_cast<double>(count) >= thresholds::kDropped * static_cast<double>(samples + count);
}

}  // namespace clusterprof::report
