// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>

namespace clusterprof::collector {

// A file server that does not answer must not keep the job from ending.
inline constexpr std::chrono::seconds kWithdrawPatience{1};

}  // namespace clusterprof::collector
