// SPDX-License-Identifier: BSD-3-Clause
// Our versions of the exec functions.
#pragma once

namespace clusterprof::agent {

void watch_exec() noexcept;

}  // namespace clusterprof::agent
