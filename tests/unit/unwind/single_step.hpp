// SPDX-License-Identifier: BSD-3-Clause
// The truth about a stack, by construction: a function runs with the processor's trap flag set, the handler
// of the trap keeps a list of the calls that were made and not returned from, and compares it with what
// walk_native finds at that very instruction. Call frame information plays no part in the list.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace clusterprof::agent::test {

struct StepResult {
  std::uint64_t instructions = 0;
  std::uint64_t equal = 0;
  std::uint64_t truncated = 0;    // a right beginning, and marked as cut
  std::uint64_t skipped = 0;      // marked as cut, callers in the right order but not all
  std::uint64_t wrong = 0;        // anything else
  std::uint64_t overwritten = 0;  // a return address was replaced on the stack: no truth to compare with
  // What the code alone says about the frame at the instruction, with or without call frame information.
  std::uint64_t derived = 0, derived_right = 0;
  std::map<std::string, std::uint64_t> wrong_in, truncated_in;  // by function or module
  std::string first_wrong, first_truncated;
  std::string report() const;
};

// Walks at each instruction of `function`, with a cache that lives as long as the run, and at some of them
// without one. One run at a time.
// With `every` > 1 only at each of so many, so that between two walks calls return and others are made.
StepResult step_through(const std::function<void()>& function, std::uint64_t every = 1);

}  // namespace clusterprof::agent::test
