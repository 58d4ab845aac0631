// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::report {

// A source location as a report names it: the innermost frame of a call path that belongs to the program. In
// MPI, its caller.
struct SourceLocation {
  std::string op;                                     // the MPI function the path ends in; empty outside MPI
  std::string function, file;                         // empty: not known
  std::string module;                                 // of native code
  std::uint32_t line = 0;                             // 0 unknown
  shard::FrameKind kind = shard::FrameKind::kNative;  // of the function
  // The library function that most of the line's time is spent in: "numpy.dot"; empty: none, or not known.
  std::string called{};
};

}  // namespace clusterprof::report
