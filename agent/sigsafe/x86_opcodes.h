// SPDX-License-Identifier: BSD-3-Clause
// Opcodes of x86-64 instructions, and sets of them.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace clusterprof::agent::x86 {

// Opcodes of one byte, and those behind the bytes 0f, 0f 38 and 0f 3a.
enum Map : std::uint8_t { kOneByte, k0f, k0f38, k0f3a };

// A set of opcodes of one map.
class Opcodes {
 public:
  struct Range {
    constexpr Range(int one) noexcept : first(one), last(one) {}
    constexpr Range(int from, int to) noexcept : first(from), last(to) {}
    int first, last;
  };

  constexpr Opcodes(std::initializer_list<Range> ranges) noexcept {
    for (const Range& range : ranges) {
      for (int opcode = range.first; opcode <= range.last; ++opcode)
        bits_[opcode / 64] |= std::uint64_t{1} << opcode % 64;
    }
  }

  constexpr bool has(std::uint8_t opcode) const noexcept {
    return (bits_[opcode / 64] >> opcode % 64 & 1) != 0;
  }

 private:
  std::uint64_t bits_[4] = {};
};

}  // namespace clusterprof::agent::x86
