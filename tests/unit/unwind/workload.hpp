// SPDX-License-Identifier: BSD-3-Clause
// Code with every kind of frame that compilers make. Compiled twice, with and without frame pointers.
#pragma once

#include <cstdint>
#include <functional>

namespace clusterprof::agent::test {

// Calls `at_the_bottom` once, through recursion, frames of varying size, realigned frames, qsort,
// std::sort and an exception's landing pad.
void with_frame_pointers_call(int depth, const std::function<void()>& at_the_bottom);
void without_frame_pointers_call(int depth, const std::function<void()>& at_the_bottom);

// Computes for some milliseconds: calls through the PLT, libm, memcpy, qsort, recursion, exceptions.
double with_frame_pointers_compute(std::uint64_t seed);
double without_frame_pointers_compute(std::uint64_t seed);

// A function that aligns its stack anew, and what it calls.
void with_frame_pointers_realigned(int bytes, const std::function<void()>& inside);
void without_frame_pointers_realigned(int bytes, const std::function<void()>& inside);

}  // namespace clusterprof::agent::test
