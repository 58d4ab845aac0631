// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/data_address.h"

#include "agent/sigsafe/x86_effects.h"
#include "agent/sigsafe/x86_instruction.h"

namespace clusterprof::agent {
namespace {

using namespace x86;

// True if the instruction accesses the program's data in memory, at an address that general registers give.
bool has_data_operand(const Instruction& in) noexcept {
  if (in.own_segment || !in.has_modrm || in.rm_is_register()) return false;
  const std::uint8_t opcode = in.opcode;
  switch (in.map) {
    case kOneByte:
      if (opcode == 0xff) return in.extension() < 2;  // not calls, jumps and pushes
      return opcode != 0x8d && opcode != 0x8f;        // lea, pop
    case k0f:
      if (in.vector) return true;
      return opcode != 0x0d && opcode != 0x01 && (opcode < 0x18 || opcode > 0x1f);  // prefetches, hints
    case k0f38:
      // Gathers, scatters and their prefetches have vectors of addresses.
      return !in.vector || !((opcode >= 0x90 && opcode <= 0x93) || (opcode >= 0xa0 && opcode <= 0xa3) ||
                             opcode == 0xc6 || opcode == 0xc7);
    default:
      return true;
  }
}

bool is_string_operation(const Instruction& in) noexcept {
  return in.map == kOneByte && !in.own_segment && in.opcode >= 0xa4 && in.opcode <= 0xaf &&
         in.opcode != 0xa8 && in.opcode != 0xa9;
}

// False if the address is not known, or is on the stack as far as the instruction tells.
bool operand_address(const Instruction& in, const State& state, std::uint64_t behind,
                     const std::uint64_t (&registers)[kRegisters], std::uint64_t& address) noexcept {
  std::uint64_t sum = 0;
  const auto add = [&](unsigned number, unsigned scale) {
    const Value value = state.reg[number];
    if (value.known != Known::kSum || value.base == kRealigned) return false;
    sum += (registers[value.base] + static_cast<std::uint64_t>(std::int64_t{value.offset})) * scale;
    return true;
  };
  if (is_string_operation(in)) {
    const bool stores_only = in.opcode == 0xaa || in.opcode == 0xab || in.opcode >= 0xae;
    if (!add(stores_only ? kRdi : kRsi, 1)) return false;
  } else {
    if (in.has_no_base()) {
      if (!in.has_sib) sum = behind;
    } else if (in.rm == kRsp || !add(in.rm, 1)) {
      return false;
    }
    if (in.index != kRsp && !add(in.index, in.scale)) return false;
    sum += static_cast<std::uint64_t>(in.displacement);
  }
  address = in.narrow_address ? sum & 0xffff'ffffu : sum;
  return true;
}

}  // namespace

bool find_data_address(const CodeAt& code, const std::uint64_t (&registers)[kRegisters],
                       std::uint64_t stack_low, std::uint64_t stack_high, std::uint64_t& address) noexcept {
  constexpr unsigned kMaxInstructions = 4;
  constexpr std::uint64_t kLowest = 1u << 16, kHighest = std::uint64_t{1} << 47;
  State state;
  state.start();
  const std::uint8_t* at = code.begin;
  for (unsigned count = 0; count < kMaxInstructions; ++count) {
    Instruction in;
    if (!decode(at, code.end, in)) return false;
    at += in.bytes;
    const std::uint64_t behind = code.pc + static_cast<std::uint64_t>(at - code.begin);
    std::uint64_t found = 0;
    if ((has_data_operand(in) || is_string_operation(in)) &&
        operand_address(in, state, behind, registers, found) && found >= kLowest && found < kHighest &&
        (found < stack_low || found >= stack_high)) {
      address = found;
      return true;
    }
    const Flow flow = execute(in, state);
    if (flow == Flow::kBranch || flow == Flow::kJump) {
      if (in.immediate >= 0 || in.immediate < code.low - at) return false;
      at += in.immediate;
      continue;
    }
    if (flow != Flow::kOn || in.is_call()) return false;
  }
  return false;
}

}  // namespace clusterprof::agent
