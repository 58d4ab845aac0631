// SPDX-License-Identifier: BSD-3-Clause
// Whether a process with the starter in it is to be recorded; system calls are left to start.cpp, so that
// tests can be any process. No libc: see start.cpp.
#pragma once

namespace clusterprof::start {

inline constexpr const char* kStartVariable = "CLUSTERPROF_START";  // the launcher's absolute path
// Set where it is no task of srun that begins, but a batch script or a shell: SLURM_STEP_ID may be left from
// the step that the job was submitted from.
inline constexpr const char* kBatchVariable = "CLUSTERPROF_START_BATCH";
// Why the launcher is not to record; for what cannot be said earlier.
inline constexpr const char* kProblemVariable = "CLUSTERPROF_START_PROBLEM";
inline constexpr const char* kObjectName = "libclusterprof_start.so";

enum class Action {
  kLeave,      // as it is: what it starts inherits the starter
  kStepAside,  // neither it nor what it starts is for the starter
  kSubmit,     // the same, and the job that it submits has not been asked to be recorded by this one's having
               // been
  kStart,      // begin anew below the launcher
};

struct Process {
  const char* path;              // as it was given to execve
  const char* executable;        // the file that the kernel runs: of a script, the interpreter; "" if unknown
  const char* const* variables;  // its environment
  long pid;
};

Action decide(const Process& process) noexcept;

// The value of a variable, nullptr when unset.
const char* value_of(const char* const* variables, const char* name) noexcept;

bool same(const char* a, const char* b) noexcept;

// The first of argv that the user has given: behind what the kernel puts before it for a script. -1: cannot
// be told.
int first_argument(const char* path, bool is_script, int argc, const char* const* argv) noexcept;

// Takes the starter out of LD_PRELOAD, and that variable out when nothing is left, and CLUSTERPROF_START; in
// place.
void remove_starter(char** variables) noexcept;

// Takes the plugin's option out, which Slurm hands down from a job to the jobs it submits; in place.
void remove_option(char** variables) noexcept;

// Messages that would be the same on every rank are for one of them.
bool speaks_for_all(const char* const* variables) noexcept;

}  // namespace clusterprof::start
