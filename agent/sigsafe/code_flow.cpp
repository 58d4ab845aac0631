// SPDX-License-Identifier: BSD-3-Clause
// If code has no call frame information, the caller is found by following the code to its return.
// Instructions are decoded (x86_instruction.h) and their effects on registers are tracked (x86_effects.h).
#include "agent/sigsafe/code_flow.h"

#include "agent/sigsafe/x86_effects.h"
#include "agent/sigsafe/x86_instruction.h"

namespace clusterprof::agent {
namespace {

using namespace x86;

constexpr std::uint8_t kDwarfNumber[kRegisters] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};

// Branches that were not taken yet. A function mostly ends with its return, so the branches that go farthest
// are tried first.
struct Paths {
  static constexpr unsigned kMost = 3, kMaxSeen = 24;
  struct Path {
    std::uint64_t target;
    State state;
  };
  Path path[kMost];
  std::uint64_t seen[kMaxSeen];  // targets: once is enough
  unsigned count, seen_count;

  bool is_new(std::uint64_t target) noexcept {
    for (unsigned i = 0; i < seen_count; ++i)
      if (seen[i] == target) return false;
    if (seen_count == kMaxSeen) return false;
    seen[seen_count++] = target;
    return true;
  }

  void add(std::uint64_t target, const State& state) noexcept {
    unsigned at = count;
    for (unsigned i = 0; i < count; ++i)
      if (path[i].target == target) return;
    if (count == kMost) {
      at = 0;
      for (unsigned i = 1; i < count; ++i)
        if (path[i].target < path[at].target) at = i;
      if (path[at].target >= target) return;
    } else {
      ++count;
    }
    path[at].target = target;
    path[at].state = state;
  }

  bool take(std::uint64_t& target, State& state) noexcept {
    while (count != 0) {
      unsigned best = 0;
      for (unsigned i = 1; i < count; ++i)
        if (path[i].target > path[best].target) best = i;
      target = path[best].target;
      state = path[best].state;
      path[best] = path[--count];
      if (is_new(target)) return true;
    }
    return false;
  }
};

constexpr unsigned kCalleeSavedCount = 6;
constexpr std::uint8_t kCalleeSavedRegisters[kCalleeSavedCount] = {kRbx, kRbp, 12, 13, 14, 15};

bool describe_return(const State& state, CfiRow& out) noexcept {
  const Value sp = state.reg[kRsp];
  const bool loaded = sp.known == Known::kLoaded && sp.added == -8;  // functions that realign their stack
  if (sp.known == Known::kSum && sp.base == kRsp && sp.offset < 0) return false;  // a path astray
  if (sp.base == kRealigned || (sp.known != Known::kSum && !loaded)) return false;
  __builtin_memset(&out, 0, sizeof(out));
  out.cfa_register = kDwarfNumber[sp.base];
  out.cfa_is_loaded = loaded;
  out.cfa_offset = loaded ? sp.offset : sp.offset + 8;
  out.registers[kDwarfReturnAddress] = {RuleKind::kOffset, 0, -8};
  for (const std::uint8_t number : kCalleeSavedRegisters) {
    const Value value = state.reg[number];
    RegisterRule& rule = out.registers[kDwarfNumber[number]];
    if (value.known == Known::kSum && value.base == number && value.offset == 0) continue;
    if (value.known == Known::kLoaded && value.added == 0 && value.base == sp.base && !loaded) {
      rule = {RuleKind::kOffset, 0, value.offset - out.cfa_offset};
    } else if (number == kRbp && loaded && value.known == Known::kLoaded && value.base == kRbp &&
               value.added == 0 && value.offset == 0) {
      static constexpr std::uint8_t kAtRbp[2] = {0x76, 0};  // breg6 0
      rule = {RuleKind::kExpression, sizeof(kAtRbp),
              static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(kAtRbp))};
    } else if (number == kRbp) {
      return false;
    } else {
      rule.kind = RuleKind::kUndefined;
    }
  }
  return true;
}

// True after a call that does not return: the code that follows is padding up to where the next function may
// begin, or the first instruction of that function.
bool ends_function(std::uint64_t at, std::uint64_t high) noexcept {
  constexpr std::uint64_t kAlignment = 16;
  while (at < high) {
    Instruction in;
    const auto* const code = reinterpret_cast<const std::uint8_t*>(at);
    if (!decode(code, reinterpret_cast<const std::uint8_t*>(high), in)) return true;
    const bool nop =
        (in.map == kOneByte && in.opcode == 0x90) || (in.map == k0f && in.opcode == 0x1f && !in.vector);
    const bool begin = in.map == k0f && in.opcode == 0x1e && !in.vector && code[0] == 0xf3;  // endbr64
    if (begin) return true;
    if (!nop) return false;
    at += in.bytes;
    if (at % kAlignment == 0) return true;
  }
  return true;
}

}  // namespace

bool derive_row(std::uint64_t pc, std::uint64_t low, std::uint64_t high, CfiRow& out) noexcept {
  constexpr unsigned kMaxInstructions = 4000;
  constexpr unsigned kPatience = 128;  // instructions on one path, while there are others
  Paths paths;
  paths.count = paths.seen_count = 0;
  State state;
  state.start();

  std::uint64_t at = pc;
  unsigned on_path = 0;
  for (unsigned count = 0; count < kMaxInstructions; ++count) {
    Instruction in;
    Flow flow = Flow::kEnd;
    std::uint64_t target = 0;
    if (at >= low && at < high &&
        decode(reinterpret_cast<const std::uint8_t*>(at), reinterpret_cast<const std::uint8_t*>(high), in)) {
      flow = execute(in, state);
      at += in.bytes;
      if (in.is_call() && ends_function(at, high)) flow = Flow::kEnd;
      target = at + static_cast<std::uint64_t>(in.immediate);
    }
    if (flow == Flow::kReturn) {
      if (describe_return(state, out)) return true;
      flow = Flow::kEnd;
    } else if (flow == Flow::kBranch) {
      if (target > at && target < high) paths.add(target, state);
    } else if (flow == Flow::kJump) {
      // A second time there: round and round, and the way out is a branch.
      flow = paths.is_new(target) ? Flow::kOn : Flow::kEnd;
      at = target;
    }
    if (flow == Flow::kEnd) {
      if (!paths.take(at, state)) return false;
      on_path = 0;
    } else if (++on_path >= kPatience && paths.count != 0) {
      const std::uint64_t here = at;
      const State before = state;
      paths.take(at, state);
      paths.add(here, before);
      on_path = 0;
    }
  }
  return false;
}

}  // namespace clusterprof::agent
