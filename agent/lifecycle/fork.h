// SPDX-License-Identifier: BSD-3-Clause
// The child of a fork is another process of the same rank.
#pragma once

namespace clusterprof::agent {

void watch_fork() noexcept;

// True for the first file that a thread opens through stdio after a fork, if it is the only thread that the
// program knows of. CPython 3.12 and later read there whether they have several threads, and warn if there is
// one that they do not know.
bool asks_for_threads_after_fork(const char* path) noexcept;

}  // namespace clusterprof::agent
