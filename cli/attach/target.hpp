// SPDX-License-Identifier: BSD-3-Clause
// What /proc tells of a process that is to be attached to, and why it cannot be.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/mpi_flavour.hpp"

namespace clusterprof::cli::attach {

enum class Machine : std::uint8_t { kUnknown, kX86_64, k32Bit, kOther };

struct SystemCallFilter {
  int mode = 0;   // 2: filters
  int count = 0;  // of filters; 0: not known
};

struct TargetFacts {
  pid_t pid = 0;
  bool exists = false;
  char state = '?';             // as in /proc/PID/stat
  pid_t process = 0;            // that it is a thread of; 0: not known
  bool is_own_program = false;  // one that clusterprof has installed for itself
  bool is_kernel_thread = false;
  std::vector<uid_t> uids;  // real, effective, saved
  pid_t tracer = 0;
  SystemCallFilter filter;
  std::string other_namespace;    // "mount", "network", ...: the first one that is not ours; empty: none
  bool has_shadow_stack = false;  // a thread that is led elsewhere could not return from there
  Machine machine = Machine::kUnknown;
  bool knows_objects = false;        // `objects` could be read
  std::vector<std::string> objects;  // files that are mapped with code
};

// The process that attaches.
struct OwnFacts {
  uid_t uid = 0;               // effective
  bool may_trace_all = false;  // CAP_SYS_PTRACE
  SystemCallFilter filter;
  int ptrace_scope = -1;  // of Yama; -1: there is no Yama
};

// proc: "/proc", or a directory like it.
TargetFacts read_target(pid_t pid, const std::string& proc);
OwnFacts read_own(const std::string& proc);

// For programs: never renamed.
enum class Refusal : std::uint8_t {
  kGone,
  kStopped,
  kKernelThread,
  kOtherUser,
  kNamespace,
  kTraced,
  k32Bit,
  kOtherMachine,
  kStatic,
  kOtherLibc,
  kReplaced,
  kNoThreads,
  kFilter,
  kShadowStack,
  kSanitizer,
  kNotPermitted,
  kThread,
  kOwnProgram,
};

struct Refused {
  Refusal why;
  std::string text;  // one line: the reason and what to do
};

// No value: it may be tried.
std::optional<Refused> refusal_of(const TargetFacts& target, const OwnFacts& own);
// The kernel has answered EPERM.
Refused not_permitted(const TargetFacts& target, const OwnFacts& own);

// Of the MPI library that the process has loaded.
MpiFlavour flavour_of(const TargetFacts& target);

}  // namespace clusterprof::cli::attach
