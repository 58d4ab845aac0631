// SPDX-License-Identifier: BSD-3-Clause
// Finds which data of the program the next instructions use.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// Instructions from pc on. [low, end) is the code itself or a copy of it; `begin` is the byte at pc.
struct CodeAt {
  const std::uint8_t *low, *begin, *end;
  std::uint64_t pc;
};

// The address of the program's data that the instruction at pc, or one of the next three, reads or writes.
// `registers` are in the order of their encoding: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15. Not
// data: addresses in the given stack; addresses relative to rsp, fs or gs; pushes, pops and calls. Vectors of
// addresses are left out. Backward branches, as in loops, are taken; the search ends at other branches. False
// if no address follows from these registers. Async-signal-safe; reads no other memory.
bool find_data_address(const CodeAt& code, const std::uint64_t (&registers)[16], std::uint64_t stack_low,
                       std::uint64_t stack_high, std::uint64_t& address) noexcept;

}  // namespace clusterprof::agent
