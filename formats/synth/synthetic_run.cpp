// SPDX-License-Identifier: BSD-3-Clause
#include "formats/synth/synthetic_run.hpp"

#include <algorithm>

#include "formats/synth/node_builder.hpp"
#include "formats/synth/program.hpp"
#include "formats/synth/series.hpp"

namespace clusterprof::synth {

SyntheticRun::SyntheticRun(const Shape& shape)
    : shape_(shape), program_(std::make_unique<const Program>(shape)) {
  shape_.counters = std::min<std::uint32_t>(shape_.counters, kCounters.size());
}
SyntheticRun::~SyntheticRun() = default;

shard::ShardData SyntheticRun::shard(std::uint32_t node) const { return build_node(shape_, *program_, node); }

shard::ShardData shard_of_node(const Shape& shape, std::uint32_t node) {
  return SyntheticRun(shape).shard(node);
}

}  // namespace clusterprof::synth
