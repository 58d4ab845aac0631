// SPDX-License-Identifier: BSD-3-Clause
// Transfers of data that one of our signals may have ended in the middle.
#pragma once

namespace clusterprof::agent {

void watch_transfers() noexcept;

}  // namespace clusterprof::agent
