// SPDX-License-Identifier: BSD-3-Clause
// Whether this process is attached to: at most once at a time.
#pragma once

namespace clusterprof::agent {

bool take_attachment() noexcept;  // false: it is already
void leave_attachment() noexcept;

// In the child of a fork, which has none of our threads.
void forget_attachment() noexcept;

}  // namespace clusterprof::agent
