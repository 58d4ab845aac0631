// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/x86_displacement.h"

namespace clusterprof::agent::x86 {
namespace {

// Sizes in bytes: of an element, and of the whole vector.
int element_bytes(const Evex& evex) noexcept { return evex.wide ? 8 : 4; }

// Conversions 78 to 7b, between integers without sign, or of 64 bits, and floating point.
int unit_of_conversion(const Evex& evex, std::uint8_t opcode) noexcept {
  const int element = element_bytes(evex), vector = evex.bytes;
  const bool scalar = evex.prefix >= 2;
  if (evex.prefix == 3 && opcode >= 0x7a) return opcode == 0x7b || evex.wide ? element : vector;
  if (scalar && opcode != 0x7a) return opcode == 0x7b ? element : evex.prefix == 3 ? 8 : 4;
  return evex.wide || (evex.prefix == 0 && opcode < 0x7a) ? vector : vector / 2;
}

int unit_of_0f(const Evex& evex, std::uint8_t opcode) noexcept {
  static constexpr Opcodes kScalarWithPrefix = {{0x10, 0x11}, 0x2a, 0x51, {0x58, 0x59}, {0x5c, 0x5f}, 0xc2};
  static constexpr Opcodes kElement = {{0x2e, 0x2f}, 0x6e};
  static constexpr Opcodes kShiftCounts = {{0xd1, 0xd3}, {0xe1, 0xe2}, {0xf1, 0xf3}};
  const int element = element_bytes(evex), vector = evex.bytes;
  const bool scalar = evex.prefix >= 2;
  if (kScalarWithPrefix.has(opcode)) return scalar ? element : vector;
  if (kElement.has(opcode)) return element;
  if (kShiftCounts.has(opcode)) return 16;
  switch (opcode) {
    case 0x2c:
    case 0x2d:  // conversions to integers: W is of the integer, the prefix of what is in memory
      return !scalar ? vector : evex.prefix == 3 ? 8 : 4;
    case 0x12:
    case 0x16:
      if (evex.prefix == 2) return vector;
      return evex.prefix == 3 && vector > 16 ? vector : 8;
    case 0x13:
    case 0x17:
    case 0xd6:
      return 8;
    case 0x5a:
      return scalar ? element : evex.prefix == 0 ? vector / 2 : vector;
    case 0x78:
    case 0x79:
    case 0x7a:
    case 0x7b:
      return unit_of_conversion(evex, opcode);
    case 0x7e:
      return evex.prefix == 2 ? 8 : element;
    case 0xc4:
    case 0xc5:
      return 2;
    case 0xe6:
      return evex.prefix == 2 && !evex.wide ? vector / 2 : vector;
    default:
      return vector;
  }
}

int unit_of_0f38(const Evex& evex, std::uint8_t opcode) noexcept {
  static constexpr Opcodes kElement = {0x2d, 0x43, 0x4d, 0x4f, {0x88, 0x8b}, 0xcb, 0xcd};
  const int element = element_bytes(evex), vector = evex.bytes;
  const bool widens = (opcode >= 0x20 && opcode <= 0x25) || (opcode >= 0x30 && opcode <= 0x35) ||
                      (evex.prefix == 2 && opcode >= 0x10 && opcode <= 0x15);
  if (widens) {  // or, with f3, narrows
    const unsigned kind = opcode & 7u;
    return kind == 2 ? vector / 8 : kind == 1 || kind == 4 ? vector / 4 : vector / 2;
  }
  const bool scalar_multiply_and_add = opcode >= 0x96 && opcode <= 0xbf && (opcode & 9) == 9;
  if (scalar_multiply_and_add || kElement.has(opcode)) return element;
  switch (opcode) {
    case 0x13:
      return vector / 2;
    case 0x18:
    case 0x58:
      return 4;
    case 0x19:
    case 0x59:
      return 8;
    case 0x1a:
    case 0x5a:
      return 16;
    case 0x1b:
    case 0x5b:
      return 32;
    case 0x62:
    case 0x63:
      return evex.wide ? 2 : 1;
    case 0x78:
      return 1;
    case 0x79:
      return 2;
    default:
      return vector;
  }
}

int unit_of_0f3a(const Evex& evex, std::uint8_t opcode) noexcept {
  static constexpr Opcodes kElement = {{0x0a, 0x0b}, 0x16, 0x22, 0x27, 0x51, 0x55, 0x57, 0x67};
  static constexpr Opcodes k1Byte = {0x14, 0x20}, k4Bytes = {0x17, 0x21};
  static constexpr Opcodes k16Bytes = {{0x18, 0x19}, {0x38, 0x39}}, k32Bytes = {{0x1a, 0x1b}, {0x3a, 0x3b}};
  if (kElement.has(opcode)) return element_bytes(evex);
  if (k1Byte.has(opcode)) return 1;
  if (opcode == 0x15) return 2;
  if (k4Bytes.has(opcode)) return 4;
  if (k16Bytes.has(opcode)) return 16;
  if (k32Bytes.has(opcode)) return 32;
  return opcode == 0x1d ? evex.bytes / 2 : evex.bytes;
}

}  // namespace

int displacement_unit(const Evex& evex, Map map, std::uint8_t opcode) noexcept {
  if (evex.broadcast) return element_bytes(evex);
  switch (map) {
    case k0f:
      return unit_of_0f(evex, opcode);
    case k0f38:
      return unit_of_0f38(evex, opcode);
    default:
      return unit_of_0f3a(evex, opcode);
  }
}

}  // namespace clusterprof::agent::x86
