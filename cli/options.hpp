// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/collector_options.hpp"
#include "base/secrets.hpp"
#include "cli/identity.hpp"
#include "cli/sample_event.hpp"

namespace CLI {
class App;
}

namespace clusterprof::cli {

// The problem that slurm/activation found in a user's request (slurm/start/decide.hpp).
inline constexpr const char* kStartProblemVariable = "CLUSTERPROF_START_PROBLEM";

// Where the plugin of Slurm passes on what the site says about runs that nobody asked for: CLUSTERPROF_START_
// and the name of an option. Only for commands with --started.
inline constexpr const char* kSiteVariablePrefix = "CLUSTERPROF_START_";
// 1: say why a command is not recorded, or its recording is not kept.
inline constexpr const char* kExplainVariable = "CLUSTERPROF_EXPLAIN";

enum class SampleClock { kWall, kCpu };

// Whether nodes exchange their clocks: where that is safe, never, or always, because the user says that it is
// safe.
enum class ClockSync { kAuto, kNever, kAlways };

// A record command line, checked. The command line wins over CLUSTERPROF_<OPTION>.
struct Options {
  std::string output;  // --output; empty: choose a name
  int rate_hz = 100;
  // --mode light: little enough for a site that records every job. What it leaves out can be asked for by
  // name.
  bool light = false;
  bool standby = false;  // --standby: record nothing until `clusterprof start`
  SampleClock clock = SampleClock::kWall;
  ClockSync clock_sync = ClockSync::kAuto;
  std::vector<std::string> events;
  SampleOn sample_on;
  bool no_python = false;
  bool no_native = false;
  bool no_mpi = false;
  bool no_children = false;
  bool no_stderr = false;
  bool only_regions = false;
  bool torch_ops = false;                                 // --torch-ops: operators of PyTorch are regions
  std::uint64_t memory_interval_bytes = 0;                // --memory; 0: allocations are not recorded
  CommandDetail command_detail = CommandDetail::kMasked;  // what is stored of the command line
  CollectorOptions collector;
  bool no_html = false;
  bool no_source = false;
  std::vector<std::string> own;            // --own, absolute
  std::vector<std::pair<int, int>> ranks;  // closed intervals; empty: all
  // Shorter and smaller runs leave nothing behind. 0: all are kept.
  std::chrono::seconds min_duration{0};
  int min_ranks = 0;
  std::chrono::seconds hang_after{0};  // 0: nobody looks
  bool hang_abort = false;
  bool quiet = false;
  bool strict = false;
  int repeat = 0;                    // --repeat, which only `clusterprof run` takes; 0: not given
  std::vector<std::string> command;  // never empty
  SpawnedAs spawned;                 // --spawned, which the wrapper of MPI_Comm_spawn gives
  // --started, which slurm/start adds: the batch system was asked to record, and the command runs whether or
  // not that works; with --argv0, under that name.
  bool started = false;
  std::string argv0;
  // Of a started command: why it cannot be recorded. Only the command is set then.
  std::string problem;
  // All given options but --output, --spawned and --argv0, as the words of an equivalent command line.
  std::vector<std::string> words;

  [[nodiscard]] bool wants_rank(int rank) const;
  // The selected ranks below `world_size`: the lowest (-1: none) and their number.
  struct Selection {
    int lowest = -1, count = 0;
  };
  [[nodiscard]] Selection selected_ranks(int world_size) const;
  // The list as text: "0-3,8"; empty: all.
  [[nodiscard]] std::string rank_list() const;
};

// The command line asks for no recording: print, then exit.
struct Leave {
  int status = 0;
  std::string output;  // to stdout: help, version
  std::string error;   // one line for stderr, or empty
};

// `arguments` lack the program's name and a leading "record". Options end at the first word that is not one,
// or after "--": the options of the command itself are never looked at.
std::variant<Options, Leave> parse_record_options(const std::vector<std::string>& arguments,
                                                  const Environment& environment);

// Passes the defined options to `use`, for manual pages and completion; they live no longer than the call.
void with_record_options(const std::function<void(CLI::App&)>& use);

// The verbs that programs in libexec/clusterprof carry out.
const std::vector<std::string>& analysis_verbs();
bool is_analysis_verb(const std::string& word);
// The verb that was probably meant by a word that is none; empty: none.
std::string meant_verb(const std::string& word);

// "0-3,8": closed intervals of ranks; false when it is no such list.
bool parse_rank_list(const std::string& text, std::vector<std::pair<int, int>>& out);

}  // namespace clusterprof::cli
