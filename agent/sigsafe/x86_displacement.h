// SPDX-License-Identifier: BSD-3-Clause
// A displacement of one byte in an instruction with an EVEX prefix counts in units of the size that the
// instruction reads or writes (Intel SDM volume 2, 2.7.5).
#pragma once

#include <cstdint>

#include "agent/sigsafe/x86_opcodes.h"

namespace clusterprof::agent::x86 {

struct Evex {
  bool present, wide, broadcast;
  std::uint8_t prefix;  // 0: none, 1: 66, 2: f3, 3: f2
  std::uint8_t bytes;   // of the vector
};

// In bytes.
int displacement_unit(const Evex& evex, Map map, std::uint8_t opcode) noexcept;

}  // namespace clusterprof::agent::x86
