// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/drops.hpp"

#include <algorithm>
#include <iterator>

namespace clusterprof::report::words {
namespace {

struct Reason {
  std::string_view name, meaning;
};
constexpr Reason kReasons[] = {
    {"ring_full", "samples are missing: the collector did not fetch them in time"},
    {"reentrant", "samples are missing: the signal came while clusterprof's own code ran"},
    {"throttled",
     "samples were left out, since they would have taken the program's time: those that remain stand for "
     "more"},
    {"damaged_record", "samples cannot be true: the program wrote over them"},
    {"damaged_ring", "times the samples of a thread were lost: the program wrote over them"},
    {"no_thread_slot", "threads are not recorded: a process has room for 512 at a time"},
    {"timer_failed", "threads have no timer and are not sampled while they run"},
    {"signal_blocked",
     "threads are not sampled: they block the signal that samples are taken with, or their process filters "
     "system calls"},
    {"code_table_full", "Python functions have no name: the table of code objects is full"},
    {"damaged_code", "Python functions have no name: the program wrote over what described them"},
    {"module_arena_full", "libraries are not known, nor the names of functions in them: their table is full"},
    {"damaged_module",
     "times a library is not known, nor those after it: the program wrote over what described them"},
    {"fault_in_walk", "call paths are cut short: memory on the way could not be read"},
    {"counter_failed", "threads have no counters: PAPI could not count there"},
    {"path_arena_full", "MPI calls have no callers: the room for call paths is full"},
    {"mpi_site_table_full", "MPI calls are not told apart by call site: the table of call sites is full"},
    {"damaged_mpi_site", "MPI call sites cannot be true: the program wrote over them"},
    {"mpi_peer_table_full", "messages are missing between pairs of ranks: the table of partners is full"},
    {"damaged_mpi_peer", "pairs of ranks are missing: the program wrote over what they sent"},
    {"communicator_table_full", "communicators are not told apart: their table is full"},
    {"mpi_event_ring_full",
     "MPI calls are missing in the analysis of waiting: the collector did not fetch them in time, or they "
     "are of a thread beyond the 64th"},
    {"mpi_stretch_ring_full",
     "MPI calls are missing in stretches of time that a replay needs: the collector did not fetch them in "
     "time"},
    {"mpi_event_budget",
     "MPI calls are missing in the analysis of waiting: they are beyond what is kept of a rank"},
    {"damaged_mpi_event", "MPI calls are missing in the analysis of waiting: the program wrote over them"},
    {"damaged_mpi_call",
     "MPI calls that threads are in are not known: the program wrote over what described them"},
    {"calls_under_way_full",
     "threads ended inside MPI calls that are not listed: there were too many of them"},
    {"damaged_mpi_event_ring",
     "times MPI calls of a thread are missing in the analysis of waiting: the program wrote over them"},
    {"mpi_error_table_full", "errors that MPI calls returned are not listed: their table is full"},
    {"damaged_mpi_error", "errors that MPI calls returned cannot be true: the program wrote over them"},
    {"damaged_open_requests",
     "requests that were not complete at MPI_Finalize cannot be true: the program wrote over them"},
    {"damaged_clock_measurement",
     "comparisons of the nodes' clocks cannot be true: the program wrote over them"},
    {"region_table_full",
     "instances of regions count for the region around them: the table of regions is full"},
    {"region_mismatch", "ends of regions are not of the innermost one, or of none"},
    {"torch_forward_lost", "backward operators of PyTorch have no line of their forward operator"},
    {"torch_other_thread",
     "ranges of PyTorch ended on another thread than they began on: their regions end with those around "
     "them"},
    {"damaged_region", "regions cannot be true: the program wrote over them"},
    {"io_file_table_full",
     "operations on files are counted with other files of the directory: the table of files is full"},
    {"io_site_table_full",
     "operations on files are counted by file only, without their callers: the table of call sites is full"},
    {"io_path_room_full", "operations on files have no callers: the room for their call paths is full"},
    {"openmp_table_full",
     "parts of OpenMP regions are not counted: their table is full, or they are nested too deeply"},
    {"damaged_openmp", "OpenMP regions cannot be true: the program wrote over them"},
    {"event_loop_table_full", "waits for events are not counted: their thread has four event loops already"},
    {"event_loop_turns",
     "turns in which an event loop was blocked are counted, but not listed: the collector did not fetch them "
     "in time"},
    {"event_loop_rows", "event loops are left out: their rank has more than are listed"},
    {"damaged_event_loop", "turns of event loops cannot be true: the program wrote over them"},
    {"memory_site_table_full",
     "recorded allocations are counted without their callers: the table of call sites is full"},
    {"memory_path_room_full", "recorded allocations have no callers: the room for their call paths is full"},
    {"memory_block_table_full",
     "recorded blocks count as freed at once, or mappings not at all: the table of those that live is full"},
    {"memory_label_table_full",
     "allocations are counted with other labels of their memory space: the table of labels is full"},
    {"damaged_memory_label", "labels of memory cannot be true: the program wrote over them"},
    {"generated_arena_full", "descriptions of generated code did not fit: functions of it have no name"},
    {"generated_table_full",
     "descriptions of generated code are not read: there are more than 16,384 at a time, and functions of "
     "the "
     "others have no name"},
    {"generated_lists_full",
     "compilers describe generated code in lists beyond the 8th: functions of theirs have no name"},
    {"generated_list_cut",
     "lists of generated code were not read to their end: functions of it may have no name"},
    {"generated_not_elf",
     "descriptions of generated code are in a format of their compiler's own: functions of it have no name"},
    {"generated_unreadable",
     "descriptions of generated code are in memory that cannot be read: functions of it have no name"},
    {"damaged_generated", "descriptions of generated code cannot be true: the program wrote over them"},
    {"memory_ring_full",
     "changes of the memory that lives have no time of their own: the collector did not fetch them in time"},
    {"damaged_memory_site", "call sites of allocations cannot be true: the program wrote over them"},
    {"damaged_memory_event", "changes of the memory that lives cannot be true: the program wrote over them"},
    {"damaged_io_file", "files have no name: the program wrote over it"},
    {"damaged_io_site", "call sites of operations on files cannot be true: the program wrote over them"},
};

}  // namespace

std::string_view meaning_of_drop(std::string_view reason) {
  const Reason* const found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                           [&](const Reason& row) { return row.name == reason; });
  return found != std::end(kReasons) ? found->meaning : std::string_view();
}

}  // namespace clusterprof::report::words
