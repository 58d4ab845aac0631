// SPDX-License-Identifier: BSD-3-Clause
// Threads of one process that share numbered pieces of work.
#pragma once

#include <cstddef>
#include <functional>

namespace clusterprof::aggregator {

// How many threads are of use to a process that merges alone: one for each processor it may run on, few
// enough that they do not wait for each other most of the time.
[[nodiscard]] std::size_t useful_threads();

// Calls work(worker, item) once for each item below `items`. Each worker, 0 to `threads` - 1, has a thread
// and one item at a time; worker 0 is the caller. Items begin in ascending order, and none begins while one
// that is kMostAhead or more before it lasts: so what has to be kept until an earlier item has ended is
// limited.
//
// When an item throws, no further one begins, and the first exception is thrown again. Where the system has
// no room for a thread, there are fewer.
void share_work(std::size_t threads, std::size_t items,
                const std::function<void(std::size_t worker, std::size_t item)>& work);

inline constexpr std::size_t kMostAhead = 8;

}  // namespace clusterprof::aggregator
