// SPDX-License-Identifier: BSD-3-Clause
// How a function without call frame information returns, from its instructions: they are followed from pc on
// to a return, along the straight path, keeping account of what rsp and the registers that a caller relies on
// hold. Compilers and people leave the stack balanced on every path, so any way out tells the caller's frame.
#pragma once

#include <cstdint>

#include "agent/sigsafe/cfi.h"

namespace clusterprof::agent {

// The row in force at pc, the start of an instruction. Reads code in [low, high) only, some thousand
// instructions at most. False when no return is found or what it does to rbp is not known.
// May fault where the range is not mapped: only under a guard (guard.h). Async-signal-safe.
bool derive_row(std::uint64_t pc, std::uint64_t low, std::uint64_t high, CfiRow& out) noexcept;

}  // namespace clusterprof::agent
