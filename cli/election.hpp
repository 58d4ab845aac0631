// SPDX-License-Identifier: BSD-3-Clause
// One collector per node and run: the process that binds the abstract socket of that name starts the
// collector, and the others announce themselves to it. An abstract name goes away with its last holder, so a
// crash leaves nothing to clean up.
#pragma once

#include <chrono>
#include <string>

#include "base/keyed_hash.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "formats/wire/hello.h"

namespace clusterprof::cli {

// Abstract name without the leading NUL: clusterprof/<uid>/<hash>. The hash is of the run (its key and
// directory) and the node. Who does not know the secret cannot foresee it, even knowing that of another node:
// all users can see names that are in use.
std::string collector_socket_name(const HashKey& secret, const std::string& run, const std::string& node);

struct Announcement {
  wire::Announce process;
  std::string command;  // base/command_text.hpp
};

struct ElectionResult {
  // The listening socket (close-on-exec) when this process is elected; none when a collector
  // has accepted our announcement.
  UniqueFd listening;
  // The collector does not record this process; it has already said why.
  bool not_recorded = false;
};

// Fails when there is no answer within `patience` or the name is held by another user.
Result<ElectionResult> elect(const std::string& socket_name, const Announcement& announcement,
                             std::chrono::milliseconds patience);

// Announces a process to the collector of that name and waits for its answer.
Result<void> announce_to(const std::string& socket_name, const Announcement& announcement,
                         std::chrono::milliseconds patience);

}  // namespace clusterprof::cli
