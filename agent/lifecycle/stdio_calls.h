// SPDX-License-Identifier: BSD-3-Clause
// Interposed functions of stdio.
#pragma once

namespace clusterprof::agent {

void watch_stdio_calls() noexcept;

}  // namespace clusterprof::agent
