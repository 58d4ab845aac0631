// SPDX-License-Identifier: BSD-3-Clause
// How a function without call frame information returns, from its instructions: they are followed from pc on
// to a return, along the straight path, keeping account of what rsp and the registers that a caller relies on
// hold. Compilers and people leave the stack balanced on every path, so any way out tells the caller's frame.
// And what data the next instructions are about.
#pragma once

#include <cstdint>

#include "agent/sigsafe/cfi.h"

namespace clusterprof::agent {

// The row in force at pc, the start of an instruction. Reads code in [low, high) only, some thousand
// instructions at most. False when no return is found or what it does to rbp is not known.
// May fault where the range is not mapped: only under a guard (guard.h). Async-signal-safe.
bool derive_row(std::uint64_t pc, std::uint64_t low, std::uint64_t high, CfiRow& out) noexcept;

// Instructions from pc on: [low, end) is what is there, or a copy of it, and `begin` what is at pc.
struct CodeAt {
  const std::uint8_t *low, *begin, *end;
  std::uint64_t pc;
};

// The address of the program's data that the instruction at pc, or one of the next three, reads or writes.
// `registers` as they are encoded: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15. What lies in the stack
// given, is relative to rsp, fs or gs, pushes, pops and calls is no data; vectors of addresses are left out.
// Branches back, which are those of loops, are taken; at others the search ends. False when no address is
// found that follows from these registers. Async-signal-safe; reads no other memory.
bool find_data_address(const CodeAt& code, const std::uint64_t (&registers)[16], std::uint64_t stack_low,
                       std::uint64_t stack_high, std::uint64_t& address) noexcept;

}  // namespace clusterprof::agent
