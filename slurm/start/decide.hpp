// SPDX-License-Identifier: BSD-3-Clause
// Decides whether a process that has the starter in it is to be recorded. Makes no system calls (start.cpp
// does), so tests can pretend to be any process. Uses no libc: see start.cpp.
#pragma once

namespace clusterprof::start {

inline constexpr const char* kStartVariable = "CLUSTERPROF_START";  // the launcher's absolute path
// Set for batch scripts and shells, which are no tasks of srun: their SLURM_STEP_ID may be left over from the
// step that the job was submitted from.
inline constexpr const char* kBatchVariable = "CLUSTERPROF_START_BATCH";
// Why the launcher must not record, if that could not be reported earlier.
inline constexpr const char* kProblemVariable = "CLUSTERPROF_START_PROBLEM";
// What the site says of all runs: commands that are never recorded.
inline constexpr const char* kNotCommandsVariable = "CLUSTERPROF_START_NOT_COMMANDS";
// What it says of runs that nobody asked for. The launcher reads the last one.
inline constexpr const char* kCommandsVariable = "CLUSTERPROF_START_COMMANDS";
inline constexpr const char* kMinRanksVariable = "CLUSTERPROF_START_MIN_RANKS";
inline constexpr const char* kMinDurationVariable = "CLUSTERPROF_START_MIN_DURATION";
// The user has asked for recording, and is told if there is none.
inline constexpr const char* kAskedVariable = "CLUSTERPROF_START_ASKED";
// 1: say why something is not recorded.
inline constexpr const char* kExplainVariable = "CLUSTERPROF_EXPLAIN";
inline constexpr const char* kObjectName = "libclusterprof_start.so";

enum class Action {
  kLeave,      // leave it alone; what it starts inherits the starter
  kStepAside,  // leave it alone, and remove the starter from what it starts
  kSubmit,     // the same; it submits a job, which must not be recorded only because this one is
  kStart,      // start it again below the launcher
};

struct Process {
  const char* path;              // as given to execve
  const char* executable;        // the file that the kernel runs: of a script, the interpreter; "" if unknown
  const char* const* variables;  // its environment
  long pid;
};

Action decide(const Process& process) noexcept;

// Of a process that would be started again: why the site does not want it to be recorded, as one word.
// nullptr: it does.
const char* reason_against(const Process& process) noexcept;
// What becomes of such a process. What a task of Slurm executes later has its process id, and what else it
// starts has not. Under an MPI launcher nothing tells them apart: each program that it starts would be taken
// for the rank, and the first one's launcher would wait for the other ranks, which wait for this one.
Action action_against(const Process& process) noexcept;
// Whether the user is told the reason.
bool is_explained(const char* const* variables) noexcept;

// The value of a variable. nullptr: not set.
const char* value_of(const char* const* variables, const char* name) noexcept;

bool same(const char* a, const char* b) noexcept;

// The index of the first argument that the user has given. For a script, the kernel inserts others before it.
// -1: not known.
int first_argument(const char* path, bool is_script, int argc, const char* const* argv) noexcept;

// Removes the starter from LD_PRELOAD (and the variable, if nothing is left) and CLUSTERPROF_START. Works in
// place.
void remove_starter(char** variables) noexcept;

// Removes the plugin's option, which Slurm passes on from a job to the jobs that it submits. Works in place.
void remove_option(char** variables) noexcept;

// Whether this rank prints messages that would be the same on every rank.
bool speaks_for_all(const char* const* variables) noexcept;
// Whether this is the first rank of its node.
bool speaks_for_node(const char* const* variables) noexcept;

}  // namespace clusterprof::start
