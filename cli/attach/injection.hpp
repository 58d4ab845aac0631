// SPDX-License-Identifier: BSD-3-Clause
// Makes a thread of another process call pthread_create, once, and go on as if nothing had happened. The new
// thread loads the agent. ptrace(2) holds the one thread, for milliseconds; the others run.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

#include "formats/wire/attach.h"

namespace clusterprof::cli::attach {

// Times are from when a thread was told to stop, and so are too long where it did not run at that instant.
struct Injected {
  pid_t thread = 0;                          // that was used
  std::chrono::nanoseconds held{0};          // for so long
  unsigned refused = 0;                      // stops of threads that could not be used there
  std::chrono::nanoseconds refused_held{0};  // the longest of these
  std::uint64_t block = 0;                   // address of the wire::AttachBlock in the process
};

enum class InjectionProblem : std::uint8_t {
  kNotPermitted,  // EPERM
  kGone,
  kNoThread,  // none that could be used; see the text
  kLate,      // a thread did not stop in time. It goes on when this process ends
  kOther,
};

struct InjectionFailed {
  InjectionProblem what;
  std::string text;
};

struct Injection {
  pid_t pid = 0;
  std::string agent;                         // path of the agent
  std::string options;                       // NAME=VALUE with a NUL each
  std::chrono::milliseconds patience{3000};  // for a thread that can be used
};

// Signals must be blocked: whoever ends this process in between leaves the thread where it is.
std::variant<Injected, InjectionFailed> inject(const Injection& injection);

// What has become of it: waits for the agent's answer. The text is what the loader says.
struct AgentAnswer {
  wire::AttachStatus status =
      wire::AttachStatus::kStarting;  // kStarting: no answer in time, or the process is gone
  bool is_gone = false;
  std::string text;
};
AgentAnswer wait_for_agent(pid_t pid, const Injected& injected, std::chrono::milliseconds patience);

}  // namespace clusterprof::cli::attach
