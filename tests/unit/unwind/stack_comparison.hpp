// SPDX-License-Identifier: BSD-3-Clause
// Compares walk_native with libgcc's unwinder on the same stack: from an ordinary function, or from a
// signal handler at whatever instruction a timer interrupts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/sigsafe/native_stack.h"

struct ucontext_t;

namespace clusterprof::agent::test {

Registers registers_of(const ucontext_t& context);

// Both walks from the caller on. Empty when equal, else what differs.
std::string compare_here();

struct SignalComparison {
  std::uint64_t samples = 0;
  std::uint64_t equal = 0;
  std::uint64_t reference_stopped = 0;  // libgcc ended early, with the same frames up to there
  std::uint64_t different = 0;
  // Call frame information is wrong for a few instructions where libgcc enters an exception's handler: its
  // own walk faulted or went below the stack pointer, and ours gave up.
  std::uint64_t wrong_cfi = 0;
  // Behind `pop %rbp` of a function that realigned its stack GCC's call frame information still has the
  // caller's rbp where rbp points to, for the two instructions `lea -8(%r10),%rsp; ret`. libgcc follows it
  // and leaves frames out or makes some up; ours has the callers of the instruction before, or ends.
  std::uint64_t rbp_was_popped = 0;
  std::uint64_t truncated = 0;  // walk_native did not reach the outermost frame
  std::uint64_t frames = 0;
  std::string first_difference;
  std::string first_stopped;
};

// A timer of the calling thread interrupts it at `hertz` until stop_sampling; every stack is compared.
// alternate_stack: the handler runs on one.
void start_sampling(unsigned hertz, bool alternate_stack);
SignalComparison stop_sampling();
std::uint64_t samples_so_far();

// Runs `work` on the calling thread a single instruction at a time and compares the stacks at each of its
// first `most` instructions: the same ones on every processor.
SignalComparison compare_at_each_instruction(std::uint64_t most, const std::function<void()>& work);

}  // namespace clusterprof::agent::test
