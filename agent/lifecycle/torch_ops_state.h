// SPDX-License-Identifier: BSD-3-Clause
// What became of --torch-ops (agent/annotations/torch_ops.cpp) in this process.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Also of the children of its forks. set: in the segment that it has, too.
wire::TorchOps torch_ops_state() noexcept;
void set_torch_ops_state(wire::TorchOps state) noexcept;

}  // namespace clusterprof::agent
