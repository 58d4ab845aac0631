// SPDX-License-Identifier: BSD-3-Clause
// Starts this node's collector for processes that are attached to.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "cli/attach/options.hpp"
#include "cli/identity.hpp"
#include "cli/install_layout.hpp"
#include "formats/run/run_directory.hpp"

namespace clusterprof::cli::attach {

struct Collector {
  pid_t pid = -1;
  UniqueFd control;         // to it
  std::string socket_name;  // for agents
};

struct CollectorRequest {
  std::string run;  // the directory
  int world_size = 0, nodes = 1;
  std::chrono::nanoseconds lasting{0};  // 0: until somebody asks
  std::vector<std::string> command;     // of the first process
};

// It goes on when this process has ended, in a session of its own.
Result<Collector> start_collector(const InstallLayout& layout, const Identity& identity,
                                  const Options& options, const CollectorRequest& request,
                                  const HashKey& secret);

// The agent of that process has greeted the collector: it is this rank.
void tell_attached(const Collector& collector, pid_t pid, int rank);

}  // namespace clusterprof::cli::attach
