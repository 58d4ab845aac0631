// SPDX-License-Identifier: BSD-3-Clause
// Decodes x86-64 instructions (Intel SDM volume 2, chapter 2 and appendix A; AVX-512 through its EVEX
// prefix). Lengths are right for all of them. Operands are told only as far as they are needed to follow the
// stack pointer and the general registers (x86_effects.h) and to find the data that an instruction uses.
#pragma once

#include <cstdint>

#include "agent/sigsafe/x86_opcodes.h"

namespace clusterprof::agent::x86 {

// Numbers of registers as encoded in instructions; r8 to r15 have their own numbers.
enum Register : unsigned { kRax = 0, kRcx, kRdx, kRbx, kRsp, kRbp, kRsi, kRdi };
constexpr unsigned kRegisters = 16;

struct Instruction {
  std::uint8_t bytes;
  Map map;
  bool vector;  // has a VEX or EVEX prefix
  std::uint8_t opcode;
  std::uint8_t rex;  // 0x40 and W, R, X, B, which VEX and EVEX have as well; 0: no such prefix
  std::uint8_t vvvv;
  bool narrow;          // operand size prefix
  bool narrow_address;  // address size prefix
  bool own_segment;     // fs or gs
  bool has_modrm, has_sib;
  std::uint8_t mode, reg;
  std::uint8_t rm;     // with REX.B: the register, or the base of the address
  std::uint8_t index;  // kRsp: none
  std::uint8_t scale;  // of the index: 1, 2, 4 or 8
  std::int64_t displacement, immediate;

  bool wide() const noexcept { return (rex & 8) != 0; }

  // Some opcodes stand for several operations. Which one it is stands in the reg field.
  unsigned extension() const noexcept { return reg & 7; }

  // The register in the low bits of the opcode.
  unsigned opcode_register() const noexcept { return (opcode & 7u) | ((rex & 1) != 0 ? 8u : 0u); }

  // Without a REX prefix, byte registers 4 to 7 are the second bytes of the first four registers.
  unsigned byte_register(unsigned number) const noexcept { return rex == 0 ? number & 3 : number; }

  bool rm_is_register() const noexcept { return mode == 3; }

  // The address is relative to rip, or absolute.
  bool has_no_base() const noexcept { return mode == 0 && (rm & 7) == 5; }

  bool is_call() const noexcept {
    return map == kOneByte && (opcode == 0xe8 || (opcode == 0xff && extension() == 2));
  }
};

// False for bytes that are no instruction, and for an instruction that does not end before `end`.
bool decode(const std::uint8_t* begin, const std::uint8_t* end, Instruction& out) noexcept;

}  // namespace clusterprof::agent::x86
