// SPDX-License-Identifier: BSD-3-Clause
// Who waits for whom in a run that is not getting on. hang_search.hpp finds it; docs/design/0020-hangs.md
// says what a deadlock is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/analysis/source_location.hpp"

namespace clusterprof::report {

// What a rank does that others wait for.
enum class MissingState : std::uint8_t {
  kNotKnown = 0,
  kComputes,  // its call path changes
  kInIo,      // or waits for a file, a connection or an event
  kChild,     // waits for a child process
  kInCall,    // in another MPI call
  kInFinalize,
  kEnded,
  kAsleep,
  kBlocked,  // by a lock or a condition
  kInLoop,
};
inline constexpr std::size_t kMissingStates = 10;
// For programs: never renamed.
inline constexpr std::array<const char*, kMissingStates> kMissingStateNames = {
    "not_known",   "computes", "io",     "child",   "in_call",
    "in_finalize", "ended",    "asleep", "blocked", "in_loop"};
constexpr const char* name_of(MissingState state) {
  return kMissingStateNames[static_cast<std::size_t>(state)];
}

// Ranks that others wait for and that do the same thing.
struct MissingRanks {
  std::vector<std::int32_t> ranks;
  MissingState state = MissingState::kNotKnown;
  SourceLocation place;                                  // where they were last seen
  std::optional<double> for_s;                           // the shortest; empty: not known
  std::optional<std::int32_t> exit_status, exit_signal;  // of the first
};

// Ranks that wait for the same, in one operation or at one place.
struct HangWait {
  static constexpr std::size_t kMostMissing = 8;  // groups in `missing`

  std::vector<std::int32_t> ranks;
  SourceLocation place;                   // of the first; with its MPI function
  std::string communicator;               // its name; empty: not known
  std::uint32_t communicator_size = 0;    // 0: not known
  std::optional<std::uint32_t> sequence;  // of a collective operation, on its communicator
  double for_s = 0;                       // the shortest
  std::vector<std::int32_t> missing_ranks;
  std::vector<MissingRanks> missing;  // the same by what they do; those that will not come first
};

// Members of one communicator whose operations with the same number differ.
struct MismatchedRanks {
  std::vector<std::int32_t> ranks;
  std::string op;
  std::optional<std::int32_t> root;  // world rank; where the roots differ
  // Where the sizes differ that the standard wants to be equal: of MPI_Bcast, its count times the size of its
  // datatype.
  std::optional<std::uint64_t> bytes;
};

struct Hang {
  static constexpr std::size_t kMostWaits = 64;

  // Nobody will complete what they wait for. Otherwise they wait for a rank that may still come.
  bool is_deadlock = false;
  // A rank failed, and others wait for it: the failure is the reason.
  bool follows_failure = false;
  std::vector<HangWait> waiting;    // the first explains the others
  std::vector<std::int32_t> cycle;  // each waits for the next, and the last one for the first
  std::vector<MismatchedRanks> mismatch;
  std::int32_t rank = -1;  // at fault: missing, in the cycle, or among the fewest with another operation
  SourceLocation place;    // where it is
  std::vector<SourceLocation> call_path;  // the outermost frame first
};

}  // namespace clusterprof::report
