// SPDX-License-Identifier: BSD-3-Clause
// Transfers of data that a signal of ours may have cut in the middle.
#pragma once

namespace clusterprof::agent {

void watch_transfers() noexcept;

}  // namespace clusterprof::agent
