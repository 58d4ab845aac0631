// SPDX-License-Identifier: BSD-3-Clause
// Waits with a relative timeout that the kernel does not count down. If a signal of ours interrupts one, it
// is made again, and its whole timeout would start again. So the function of ours that makes it notes when it
// has to be over, and the handler repeats it with what is left (sigsafe/interrupted_call.cpp).
#pragma once

#include <cstdint>

namespace clusterprof::agent {

class NextFunctions;
struct ThreadRecord;

// Called right before and right after libc's function, on the same thread; end_timed_call gets what
// begin_timed_call returned. `frame` is an address in the caller's own frame, above everything that libc's
// function runs; `array` and `timeout_ms` are that function's arguments. `now_ns`: CLOCK_MONOTONIC, 0: it is
// read here. Neither allocates nor changes errno. If the thread jumps out of the call, the second one is left
// out (TimedCall).
ThreadRecord* begin_timed_call(const void* array, int timeout_ms, const void* frame,
                               std::uint64_t now_ns = 0) noexcept;
void end_timed_call(const ThreadRecord* record) noexcept;

// Finds libc's functions; once, when the agent starts.
void watch_timed_calls(const NextFunctions& next) noexcept;

}  // namespace clusterprof::agent
