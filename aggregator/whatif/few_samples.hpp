// SPDX-License-Identifier: BSD-3-Clause
// What samples say of a gap between two MPI calls, or of a span of a thread.
#pragma once

namespace clusterprof::aggregator::whatif {

// With fewer samples a gap says nothing about what was done in it: then all such gaps of its call site do, or
// if these have as few, all gaps. A span of a thread is treated alike.
inline constexpr double kFewSamples = 5;
// How many samples those of a gap or span may be away from its length.
inline constexpr double kSamplesAside = 2;

}  // namespace clusterprof::aggregator::whatif
