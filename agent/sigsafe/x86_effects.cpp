// SPDX-License-Identifier: BSD-3-Clause
// In this order: what follows an instruction; instructions that move the stack pointer, copy registers or add
// to them; registers that the other instructions overwrite.
#include "agent/sigsafe/x86_effects.h"

namespace clusterprof::agent::x86 {
namespace {

Flow flow_of_group_ff(const Instruction& in) noexcept {
  switch (in.extension()) {
    case 3:
    case 5:
      return Flow::kEnd;
    case 4:  // a procedure linkage table's or another tail call; else a switch, or unknown
      return in.has_no_base() && !in.has_sib ? Flow::kReturn : Flow::kEnd;
    default:
      return Flow::kOn;
  }
}

Flow flow_of(const Instruction& in) noexcept {
  static constexpr Opcodes kBranches = {{0x70, 0x7f}, {0xe0, 0xe3}};
  static constexpr Opcodes kEnds = {0xc8, {0xca, 0xcd}, 0xcf, 0xf4};  // c8 is enter, which nobody uses
  static constexpr Opcodes k0fEnds = {0x0b, 0xb9, 0xff};              // ud2, ud1, ud0
  const std::uint8_t opcode = in.opcode;
  if (in.map != kOneByte) {
    if (in.map != k0f || in.vector) return Flow::kOn;
    if (opcode >= 0x80 && opcode <= 0x8f) return Flow::kBranch;
    return k0fEnds.has(opcode) ? Flow::kEnd : Flow::kOn;
  }
  if (kBranches.has(opcode)) return Flow::kBranch;
  if (kEnds.has(opcode)) return Flow::kEnd;
  switch (opcode) {
    case 0xc2:
    case 0xc3:
      return Flow::kReturn;
    case 0xe9:
    case 0xeb:
      return Flow::kJump;
    case 0xff:
      return flow_of_group_ff(in);
    default:
      return Flow::kOn;
  }
}

void forget_caller_saved(State& state) noexcept {
  for (const unsigned number : {0u, 1u, 2u, 6u, 7u, 8u, 9u, 10u, 11u}) state.forget(number);
}

void forget_rm(const Instruction& in, State& state) noexcept {
  if (in.rm_is_register()) state.forget(in.rm);
}

Value address_of(const State& state, const Instruction& in) noexcept {
  if (in.has_no_base() || in.index != kRsp) return kUnknownValue;
  return State::plus(state.reg[in.rm], in.displacement);
}

// Pushes and pops. False for other instructions.
bool move_stack(const Instruction& in, State& state) noexcept {
  const std::uint8_t opcode = in.opcode;
  if (opcode >= 0x50 && opcode <= 0x57) {
    state.push(state.reg[in.opcode_register()]);
    return true;
  }
  if (opcode >= 0x58 && opcode <= 0x5f) {
    const Value value = state.pop();
    state.reg[in.opcode_register()] = value;
    return true;
  }
  switch (opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c:  // pushf
      state.push(kUnknownValue);
      return true;
    case 0x9d:  // popf
      state.pop();
      return true;
    case 0x8f: {
      const Value value = state.pop();
      if (in.rm_is_register()) state.reg[in.rm] = value;
      return true;
    }
    case 0xc9: {  // leave
      state.reg[kRsp] = state.reg[kRbp];
      const Value value = state.pop();
      state.reg[kRbp] = value;
      return true;
    }
    case 0xff:
      if (in.extension() != 6) return false;
      state.push(kUnknownValue);
      return true;
    default:
      return false;
  }
}

// mov from a register.
void store_register(const Instruction& in, State& state) noexcept {
  const bool byte = in.opcode == 0x88;
  const bool whole = !byte && in.wide();
  if (!in.rm_is_register()) {
    // Only whole registers are saved; a part of one is something else.
    state.store(address_of(state, in), whole ? state.reg[in.reg] : kUnknownValue);
  } else if (whole) {
    state.reg[in.rm] = state.reg[in.reg];
  } else {
    state.forget(byte ? in.byte_register(in.rm) : in.rm);
  }
}

// add, sub and others with an immediate operand.
void compute_with_immediate(const Instruction& in, State& state) noexcept {
  const unsigned operation = in.extension();
  constexpr unsigned kAdd = 0, kAnd = 4, kSub = 5, kCompare = 7;
  if (operation == kCompare || !in.rm_is_register()) return;
  if (in.wide() && (operation == kAdd || operation == kSub)) {
    state.reg[in.rm] = State::plus(state.reg[in.rm], operation == kAdd ? in.immediate : -in.immediate);
  } else if (in.wide() && operation == kAnd && in.rm == kRsp) {
    state.reg[kRsp] = {0, Known::kSum, kRealigned, 0};
  } else {
    state.forget(in.rm);
  }
}

// Moves and additions, whose results may be known. False for other instructions.
bool compute(const Instruction& in, State& state) noexcept {
  switch (in.opcode) {
    case 0x88:
    case 0x89:
      store_register(in, state);
      return true;
    case 0x8b:  // mov to a register
      if (!in.wide()) {
        state.forget(in.reg);
      } else {
        state.reg[in.reg] = in.rm_is_register() ? state.reg[in.rm] : state.load(address_of(state, in));
      }
      return true;
    case 0x8d:  // lea
      state.reg[in.reg] = in.wide() ? address_of(state, in) : kUnknownValue;
      return true;
    case 0x81:
    case 0x83:
      compute_with_immediate(in, state);
      return true;
    default:
      return false;
  }
}

// What an instruction of two operands overwrites. The lowest bit of the opcode tells bytes from the other
// sizes, the next one whether the reg field is the result.
void forget_results_of_two_operands(const Instruction& in, State& state) noexcept {
  const std::uint8_t opcode = in.opcode;
  const bool bytes = (opcode & 1) == 0;
  const auto number = [&](unsigned encoded) { return bytes ? in.byte_register(encoded) : encoded; };
  const bool has_second = opcode < 0x40 || opcode == 0x86 || opcode == 0x87 || opcode == 0x8a;
  if (in.rm_is_register()) state.forget(number(in.rm));
  if (has_second && ((opcode & 2) != 0 || opcode >= 0x86)) state.forget(number(in.reg));
}

// Groups f6 and f7: test, not, neg, mul, imul, div, idiv.
void forget_results_of_group_f6(const Instruction& in, State& state) noexcept {
  if (in.extension() < 2) return;
  if (in.extension() >= 4) {
    state.forget(kRax);
    state.forget(kRdx);
  } else if (in.rm_is_register()) {
    state.forget(in.opcode == 0xf6 ? in.byte_register(in.rm) : in.rm);
  }
}

void forget_results_of_one_byte(const Instruction& in, State& state) noexcept {
  static constexpr Opcodes kNone = {{0x38, 0x3b}, {0x84, 0x85}, 0x90, {0xd8, 0xde}};  // cmp, test, nop, x87
  static constexpr Opcodes kReg = {0x63, 0x69, 0x6b};
  static constexpr Opcodes kStringsAndTests = {{0xa4, 0xaf}};
  const std::uint8_t opcode = in.opcode;
  if (kNone.has(opcode)) return;
  if (kReg.has(opcode)) return state.forget(in.reg);
  if (kStringsAndTests.has(opcode)) {
    for (const unsigned number : {kRax, kRcx, kRsi, kRdi}) state.forget(number);
    return;
  }
  if (opcode > 0x90 && opcode <= 0x97) {  // xchg
    state.forget(in.opcode_register());
    return state.forget(kRax);
  }
  if (opcode >= 0xb0 && opcode <= 0xb7) return state.forget(in.byte_register(in.opcode_register()));
  if (opcode >= 0xb8 && opcode <= 0xbf) return state.forget(in.opcode_register());
  switch (opcode) {
    case 0x80:
      if (in.extension() != 7 && in.rm_is_register()) state.forget(in.byte_register(in.rm));
      return;
    case 0x98:
    case 0x99:
      state.forget(kRax);
      return state.forget(kRdx);
    case 0xdf:
      if (in.rm_is_register()) state.forget(kRax);  // fnstsw
      return;
    case 0xf6:
    case 0xf7:
      return forget_results_of_group_f6(in, state);
    case 0xff:
      return forget_rm(in, state);
    default:
      break;
  }
  if (!in.has_modrm) return state.forget(kRax);
  forget_results_of_two_operands(in, state);
}

void forget_results_of_0f(const Instruction& in, State& state) noexcept {
  static constexpr Opcodes kRegAlsoOfVector = {0x2c, 0x2d, 0x50, 0xc5, 0xd7};
  static constexpr Opcodes kReg = {0x02, 0x03, {0x40, 0x4f}, 0xaf, {0xb6, 0xb8}, {0xbc, 0xbf}, {0xc0, 0xc1}};
  static constexpr Opcodes kRm = {{0x20, 0x21}, {0xa4, 0xa5}, {0xab, 0xad}, {0xb0, 0xb1},
                                  0xb3,         {0xba, 0xbb}, {0xc0, 0xc1}, 0xc7};
  static constexpr Opcodes kCompareAndExchange = {{0xb0, 0xb1}};
  static constexpr Opcodes kFixed = {0x01, 0x05, 0x31, 0xa2};  // rdtscp and xgetbv, syscall, rdtsc, cpuid
  const std::uint8_t opcode = in.opcode;
  if (kRegAlsoOfVector.has(opcode)) return state.forget(in.reg);
  if (opcode == 0x7e) return forget_rm(in, state);
  if (in.vector) {
    if (opcode == 0x93) state.forget(in.reg);  // kmov
    return;
  }
  if (opcode >= 0x90 && opcode <= 0x9f) {  // set
    if (in.rm_is_register()) state.forget(in.byte_register(in.rm));
    return;
  }
  if (opcode >= 0xc8 && opcode <= 0xcf) return state.forget(in.opcode_register());  // bswap
  if (kReg.has(opcode)) state.forget(in.reg);
  if (kRm.has(opcode)) forget_rm(in, state);
  if (kCompareAndExchange.has(opcode)) state.forget(kRax);
  if (kFixed.has(opcode)) {
    for (const unsigned number : {kRax, kRcx, kRdx}) state.forget(number);
    if (opcode == 0xa2) state.forget(kRbx);
  }
}

void forget_results_of_longer_opcodes(const Instruction& in, State& state) noexcept {
  const std::uint8_t opcode = in.opcode;
  switch (in.map) {
    case k0f38:
      if (opcode < 0xf0 || opcode > 0xf7) return;
      state.forget(in.reg);
      if (in.vector) state.forget(in.vvvv);
      return;
    case k0f3a:
      if (opcode == 0xf0) state.forget(in.reg);
      if (opcode >= 0x14 && opcode <= 0x17) forget_rm(in, state);  // pextr, extractps
      return;
    default:
      forget_results_of_0f(in, state);
  }
}

}  // namespace

Flow execute(const Instruction& in, State& state) noexcept {
  const Flow flow = flow_of(in);
  if (in.map != kOneByte) {
    forget_results_of_longer_opcodes(in, state);
  } else if (flow != Flow::kOn) {
    const bool counts = in.opcode >= 0xe0 && in.opcode <= 0xe2;  // loop, and its kin
    if (counts) state.forget(kRcx);
  } else if (in.is_call()) {
    forget_caller_saved(state);
  } else if (!move_stack(in, state) && !compute(in, state)) {
    forget_results_of_one_byte(in, state);
  }
  return flow;
}

}  // namespace clusterprof::agent::x86
