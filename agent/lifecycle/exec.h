// SPDX-License-Identifier: BSD-3-Clause
// The exec functions.
#pragma once

namespace clusterprof::agent {

void watch_exec() noexcept;

}  // namespace clusterprof::agent
