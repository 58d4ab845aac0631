// SPDX-License-Identifier: BSD-3-Clause
// Evaluates DWARF expressions (DWARF 5 section 2.5), as far as they occur in call frame information.
// Async-signal-safe. What it does not understand fails; it never guesses.
#pragma once

#include <cstdint>

#include "agent/sigsafe/dwarf.h"

namespace clusterprof::agent {

// What an expression may read.
struct Machine {
  std::uint64_t value[kDwarfRegisters];
  std::uint32_t known;                  // bit r: value[r] is valid
  std::uint64_t stack_low, stack_high;  // loads are allowed in [stack_low, stack_high)
};

inline bool load_word(const Machine& machine, std::uint64_t address, std::uint64_t& out) noexcept {
  if (address < machine.stack_low || address >= machine.stack_high || machine.stack_high - address < 8)
    return false;
  __builtin_memcpy(&out, reinterpret_cast<const void*>(address), 8);
  return true;
}

enum class Evaluation : std::uint8_t { kOk, kUnknownRegister, kFailed };

// Evaluates a DWARF expression. If has_initial is set, `initial` (the CFA) is on the stack at the start.
Evaluation evaluate(Bytes expression, const Machine& machine, bool has_initial, std::uint64_t initial,
                    std::uint64_t& out) noexcept;

}  // namespace clusterprof::agent
