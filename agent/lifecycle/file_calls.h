// SPDX-License-Identifier: BSD-3-Clause
// Interposed functions that open, read and write files.
#pragma once

namespace clusterprof::agent {

void watch_file_calls() noexcept;

}  // namespace clusterprof::agent
