// SPDX-License-Identifier: BSD-3-Clause
// Call frame information: finds the FDE of a pc through .eh_frame_hdr and interprets it in place. Formats:
// Linux Standard Base 5.0 "Exception Frames", DWARF 5 section 6.4, x86-64 psABI register numbers.
//
// Everything here is async-signal-safe and reads only inside the module's range [cfi_start, cfi_end).
// Malformed or unknown information is rejected (false), never guessed. If the module may have been unmapped
// meanwhile, run under a guard.
#pragma once

#include <cstdint>

#include "agent/sigsafe/dwarf.h"
#include "agent/sigsafe/modules.h"

namespace clusterprof::agent {

// One function, or the hot or cold part of one.
struct Fde {
  std::uint64_t begin, end;  // runtime addresses
  Bytes initial;             // the CIE's program
  Bytes program;
  std::uint64_t code_align;
  std::int64_t data_align;
  std::uint8_t pointer_encoding;
  bool signal_frame;
};

enum class RuleKind : std::uint8_t {
  kUnspecified = 0,  // callee-saved registers: same value
  kSameValue,
  kUndefined,
  kOffset,       // saved at CFA + value
  kValueOffset,  // is CFA + value
  kRegister,     // is register number `value`
  kExpression,   // saved at the address the expression yields (CFA on its stack)
  kValueExpression,
};

struct RegisterRule {
  RuleKind kind;
  std::uint8_t expression_bytes;
  std::int64_t value;  // or the address of the expression
};

// How to get from a frame to its caller's frame, at one pc.
struct CfiRow {
  bool cfa_is_expression;
  bool cfa_is_loaded;  // what is at register + offset; only of rows from code_flow.h
  std::uint32_t cfa_register;
  std::int64_t cfa_offset;
  Bytes cfa_expression;
  RegisterRule registers[kDwarfRegisters];
};

bool find_fde(const Module& module, std::uint64_t pc, Fde& out) noexcept;

// The row that applies at pc, which must lie in [fde.begin, fde.end).
bool compute_row(const Fde& fde, std::uint64_t pc, CfiRow& out) noexcept;

}  // namespace clusterprof::agent
