// SPDX-License-Identifier: BSD-3-Clause
// Why a run failed: what is known of the rank at fault. choose_failure.hpp finds it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/analysis/finding.hpp"

namespace clusterprof::report {

enum class FailureKind : std::uint8_t {
  kDeadlock = 0,  // then the analysis has a hang
  kExit,
  kSignal,
  kAbort,        // MPI_Abort
  kException,    // of Python or C++ that nobody caught
  kOutOfMemory,  // killed by the kernel
  kTimeLimit,    // of the job
  kNode,         // it went away
  kHang,         // all ranks were ended because none made progress (--hang-abort), and it is no deadlock
};
inline constexpr std::size_t kFailureKinds = 9;
// For programs: never renamed.
inline constexpr std::array<const char*, kFailureKinds> kFailureKindNames = {
    "deadlock", "exit", "signal", "abort", "exception", "oom", "time_limit", "node", "hang"};
constexpr const char* name_of(FailureKind kind) { return kFailureKindNames[static_cast<std::size_t>(kind)]; }

struct Failure {
  FailureKind kind = FailureKind::kExit;
  std::int32_t rank = -1;  // that failed first, or that is at fault; -1: not known
  std::optional<std::int32_t> status, signal;
  std::optional<std::uint64_t> address;  // of the fault
  std::string instruction;               // that faulted: "solver+0x11d3"; empty: not known
  bool stack_overflow = false;
  bool ended_by_mpi = false;  // the library ended the rank, because a call had failed: what `message` says
  std::optional<std::int32_t> abort_code;
  std::string exception;  // its type; empty: there was none
  // The exception's, or that of assert() and the like, or "MPI_ERR_TRUNCATE in MPI_Recv: message truncated"
  // where MPI itself has ended the rank; empty: there was none.
  std::string message;
  SourceLocation place;                    // where the exception was raised, or where the rank was last seen
  std::vector<SourceLocation> call_path;   // where the rank was last seen, the outermost frame first
  std::optional<std::string> stderr_tail;  // no value: nothing was seen, or it was not kept
  // Where MPI itself ended the rank in a collective operation that is not the same on all members.
  std::vector<MismatchedRanks> mismatch;
};

}  // namespace clusterprof::report
