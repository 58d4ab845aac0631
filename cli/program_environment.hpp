// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/options.hpp"

namespace clusterprof::cli {

// Changes to the environment of the recorded program: name and value; an empty value removes.
using EnvironmentChanges = std::vector<std::pair<std::string, std::string>>;

struct ProgramEnvironment {
  std::string socket_name;
  int rank = -1;
  int world_size = -1;
  std::vector<std::string> preloads;  // ours, absolute paths
  bool by_library_token = false;      // LD_PRELOAD names them with the token (library_token.hpp)
  std::string clock_rendezvous;       // for wire::kClockVariable; empty: no exchange of clocks
  std::string sample_event;           // for wire::kSampleEventVariable; empty: the clock
  std::string spawn, world;           // for wire::kSpawnVariable and wire::kWorldVariable; or empty
  std::string launch;                 // for wire::kLaunchVariable
  bool needs_asan = false;            // the program is linked to AddressSanitizer's shared run time
  bool records_memory = false;        // what stands in front of malloc is among the preloads
};

// The variables that the agent and mpi-wrap read, and those that name the agent to others
// (formats/wire/hello.h).
EnvironmentChanges program_environment(const Options& options, const ProgramEnvironment& facts,
                                       const Environment& current);

// LD_PRELOAD with `ours` in it once: before the user's entries, so that our wrappers see the calls first, but
// after an AddressSanitizer run time, which has to be first.
std::string merge_preloads(const std::vector<std::string>& ours, const std::string& users);

// Whether the user has AddressSanitizer's run time preloaded.
bool asks_for_asan(const Environment& current);

void apply(const EnvironmentChanges& changes);

}  // namespace clusterprof::cli
