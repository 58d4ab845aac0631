// SPDX-License-Identifier: BSD-3-Clause
// One collector per node and run: whoever binds the abstract socket of that name starts it, the
// others tell it that they are there. An abstract name goes away with its last holder, so there
// is nothing to clean up after a crash.
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "formats/wire/hello.h"

namespace clusterprof::cli {

// Abstract name without the leading NUL: clusterprof/<uid>/<run_id>/<node>; a node's name too
// long for a socket address is hashed.
std::string collector_socket_name(const std::string& run_id, const std::string& node);

struct ElectionResult {
  // The listening socket (close-on-exec) when this process is elected; none when a collector
  // has accepted our announcement.
  UniqueFd listening;
  // The collector, which has said why, does not record this process.
  bool not_recorded = false;
};

// Fails when there is no answer within `patience` or the name is held by another user.
Result<ElectionResult> elect(const std::string& socket_name, const wire::Announce& announce,
                             std::chrono::milliseconds patience);

// Announces a process to the collector of that name and waits for its answer.
Result<void> announce_to(const std::string& socket_name, const wire::Announce& announce,
                         std::chrono::milliseconds patience);

}  // namespace clusterprof::cli
