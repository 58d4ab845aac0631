// SPDX-License-Identifier: BSD-3-Clause
// Finds out how a function without call frame information returns. Its instructions are followed from pc to a
// return, along the straight path, and the values of rsp and of the registers that a caller relies on are
// tracked. Compilers and people keep the stack balanced on every path, so any path to a return gives the
// caller's frame.
#pragma once

#include <cstdint>

#include "agent/sigsafe/cfi.h"

namespace clusterprof::agent {

// The row that applies at pc, which is the start of an instruction. Reads only code in [low, high), and at
// most a few thousand instructions. False if no return is found, or if the effect on rbp is not known. May
// fault where the range is not mapped: run it only under a guard (guard.h). Async-signal-safe.
bool derive_row(std::uint64_t pc, std::uint64_t low, std::uint64_t high, CfiRow& out) noexcept;

}  // namespace clusterprof::agent
