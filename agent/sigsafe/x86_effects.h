// SPDX-License-Identifier: BSD-3-Clause
// What instructions do to the stack pointer and to the other general registers. A value is known only as what
// a register held at the start plus a constant, or as what is in memory at such an address. Everything else
// is not known.
#pragma once

#include <cstdint>

#include "agent/sigsafe/x86_instruction.h"

namespace clusterprof::agent::x86 {

enum class Known : std::uint8_t {
  kNothing,
  kSum,     // what `base` held at the start, plus offset
  kLoaded,  // what is at that address, plus added
};

struct Value {
  std::int32_t offset;
  Known known;
  std::uint8_t base;
  std::int16_t added;
};

constexpr Value kUnknownValue{0, Known::kNothing, 0, 0};

// A base register of its own: the value of rsp after it was realigned.
constexpr std::uint8_t kRealigned = 16;

struct Saved {
  Value address;  // kSum
  Value value;
};

constexpr unsigned kSavedValues = 12;

// The registers, and what was stored to memory.
struct State {
  Value reg[kRegisters];
  Saved saved[kSavedValues];
  std::uint32_t saved_count;

  void start() noexcept {
    saved_count = 0;
    for (unsigned i = 0; i < kRegisters; ++i) reg[i] = {0, Known::kSum, static_cast<std::uint8_t>(i), 0};
  }

  void forget(unsigned number) noexcept { reg[number].known = Known::kNothing; }

  static Value plus(Value value, std::int64_t amount) noexcept {
    constexpr std::int64_t kFar = 1 << 30;
    if (value.known == Known::kLoaded && value.added + amount >= -64 && value.added + amount <= 64) {
      value.added = static_cast<std::int16_t>(value.added + amount);
      return value;
    }
    const std::int64_t sum = value.offset + amount;
    if (value.known != Known::kSum || amount > kFar || amount < -kFar || sum > kFar || sum < -kFar)
      return kUnknownValue;
    return {static_cast<std::int32_t>(sum), Known::kSum, value.base, 0};
  }

  void store(Value address, Value value) noexcept {
    if (address.known != Known::kSum) return;
    for (std::uint32_t i = 0; i < saved_count; ++i) {
      if (saved[i].address.base != address.base || saved[i].address.offset != address.offset) continue;
      saved[i].value = value;
      return;
    }
    if (saved_count < kSavedValues) saved[saved_count++] = {address, value};
  }

  Value load(Value address) const noexcept {
    if (address.known != Known::kSum) return kUnknownValue;
    for (std::uint32_t i = 0; i < saved_count; ++i)
      if (saved[i].address.base == address.base && saved[i].address.offset == address.offset)
        return saved[i].value;
    return {address.offset, Known::kLoaded, address.base, 0};
  }

  void push(Value value) noexcept {
    reg[kRsp] = plus(reg[kRsp], -8);
    store(reg[kRsp], value);
  }

  Value pop() noexcept {
    const Value value = load(reg[kRsp]);
    reg[kRsp] = plus(reg[kRsp], 8);
    return value;
  }
};

// What follows the instruction: the next one, nothing here because of a return, what it jumps to, either of
// these, or nothing that is known.
enum class Flow : std::uint8_t { kOn, kReturn, kJump, kBranch, kEnd };

// Async-signal-safe.
Flow execute(const Instruction& in, State& state) noexcept;

}  // namespace clusterprof::agent::x86
