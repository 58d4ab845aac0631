// SPDX-License-Identifier: BSD-3-Clause
// Whether this process is attached to: at most once at a time, by a thread of our own
// (lifecycle/attached.cpp).
#pragma once

namespace clusterprof::agent {

// By the calling thread. False: it is attached to already.
bool take_attachment() noexcept;
void leave_attachment() noexcept;

// In the child of a fork, which has none of our threads.
void forget_attachment() noexcept;

// Before the program sets a filter of system calls, which may kill it for what our thread has to call: waits,
// for a bounded time, until that thread has let the process go and has ended.
void end_attachment() noexcept;
// The thread is asked to let the process go.
bool attachment_is_to_end() noexcept;

}  // namespace clusterprof::agent
