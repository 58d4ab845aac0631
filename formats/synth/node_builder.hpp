// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "formats/shard/shard_data.hpp"
#include "formats/synth/program.hpp"
#include "formats/synth/shape.hpp"

namespace clusterprof::synth {

// The shard of one node.
shard::ShardData build_node(const Shape& shape, const Program& program, std::uint32_t node);

}  // namespace clusterprof::synth
