// SPDX-License-Identifier: BSD-3-Clause
// What is to be different in a replay: the CHANGE of `clusterprof whatif`. Grammar: docs/whatif.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace clusterprof::aggregator::whatif {

enum class ChangeKind : std::uint8_t {
  kLine = 0,     // FILE:N and what it calls takes `factor` of its time outside MPI
  kFunction,     // likewise
  kRegion,       // likewise
  kIo,           // time in input and output does
  kRankMean,     // a rank takes as long between calls as the others on average
  kBalance,      // a function takes as long on all ranks as it does on average
  kCallRemoved,  // an MPI call takes no time and waits for nothing
  kLatency,      // the network's latency is `factor` of what it was
  kBandwidth,    // likewise
  kThreads,      // OpenMP regions have so many threads
};

struct Change {
  ChangeKind kind = ChangeKind::kFunction;
  std::string text;  // as it was asked for
  std::string name;  // of a function, a region or an MPI function
  std::string file;
  std::uint32_t line = 0;
  std::int32_t rank = -1;
  double factor = 1;
};

Result<Change> parse_change(std::string_view text);

}  // namespace clusterprof::aggregator::whatif
