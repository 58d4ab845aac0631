// SPDX-License-Identifier: BSD-3-Clause
// Functions in front of those of stdio.
#pragma once

namespace clusterprof::agent {

void watch_stdio_calls() noexcept;

}  // namespace clusterprof::agent
