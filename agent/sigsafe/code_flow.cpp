// SPDX-License-Identifier: BSD-3-Clause
// Decodes x86-64 instructions as far as needed to know their length, whether they jump, and what they do to
// the stack pointer and to registers that hold addresses. If code has no call frame information, the caller
// is found by following the code to its return.
#include "agent/sigsafe/code_flow.h"

#include <initializer_list>

namespace clusterprof::agent {
namespace {

// Numbers of registers as encoded in instructions.
enum Encoded : unsigned { kRax = 0, kRcx, kRdx, kRbx, kRsp, kRbp, kRsi, kRdi };
constexpr unsigned kEncodedRegisters = 16;
constexpr std::uint8_t kDwarfNumber[kEncodedRegisters] = {0, 2, 1,  3,  7,  6,  4,  5,
                                                          8, 9, 10, 11, 12, 13, 14, 15};

// --- instructions --------------------------------------------------------------------------
//
// Intel SDM volume 2, chapter 2 and appendix A; AVX-512 through its EVEX prefix. Lengths have to be right for
// all of them, meaning only for what moves the stack or writes a general register.

enum Map : std::uint8_t { kOne, kTwo, k38, k3A };

struct Instruction {
  std::uint8_t bytes;
  Map map;
  bool vector;  // VEX or EVEX
  std::uint8_t opcode;
  std::uint8_t rex;  // 0x40 and W, R, X, B; VEX's count as well
  std::uint8_t vvvv;
  bool narrow;                       // operand size prefix
  bool narrow_address, own_segment;  // address size prefix, fs or gs
  bool has_modrm, has_sib;
  std::uint8_t mode, reg, rm;  // rm with REX.B: the register, or the base of the address
  std::uint8_t index;          // 4: none
  std::uint8_t scale;          // of the index: 1, 2, 4 or 8
  std::int64_t displacement, immediate;
};

bool has_modrm(Map map, std::uint8_t opcode) noexcept {
  if (map != kOne && map != kTwo) return true;
  if (map == kOne) {
    if (opcode < 0x40) return (opcode & 7) < 4;
    if (opcode >= 0x80 && opcode <= 0x8f) return true;
    if (opcode >= 0xd8 && opcode <= 0xdf) return true;
    switch (opcode) {
      case 0x63:
      case 0x69:
      case 0x6b:
      case 0xc0:
      case 0xc1:
      case 0xc6:
      case 0xc7:
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3:
      case 0xf6:
      case 0xf7:
      case 0xfe:
      case 0xff:
        return true;
      default:
        return false;
    }
  }
  if ((opcode >= 0x80 && opcode <= 0x8f) || (opcode >= 0xc8 && opcode <= 0xcf) ||
      (opcode >= 0x30 && opcode <= 0x37) || (opcode >= 0x04 && opcode <= 0x0c && opcode != 0x0d))
    return false;
  switch (opcode) {
    case 0x0e:
    case 0x77:
    case 0xa0:
    case 0xa1:
    case 0xa2:
    case 0xa8:
    case 0xa9:
    case 0xaa:
      return false;
    default:
      return true;
  }
}

unsigned immediate_bytes(const Instruction& in, bool wide) noexcept {
  const unsigned full = in.narrow && !wide ? 2 : 4;
  const std::uint8_t opcode = in.opcode;
  if (in.map == k3A) return 1;
  if (in.map == k38) return 0;
  if (in.map == kTwo) {
    if (!in.vector && opcode >= 0x80 && opcode <= 0x8f) return 4;
    switch (opcode) {
      case 0x70:
      case 0x71:
      case 0x72:
      case 0x73:
      case 0xc2:
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return 1;
      case 0x0f:
      case 0xa4:
      case 0xac:
      case 0xba:
        return in.vector ? 0 : 1;
      default:
        return 0;
    }
  }
  if (opcode < 0x40) return (opcode & 7) == 4 ? 1 : (opcode & 7) == 5 ? full : 0;
  if (opcode >= 0x70 && opcode <= 0x7f) return 1;
  if (opcode >= 0xa0 && opcode <= 0xa3) return 8;
  if (opcode >= 0xb0 && opcode <= 0xb7) return 1;
  if (opcode >= 0xb8 && opcode <= 0xbf) return wide ? 8 : full;
  if (opcode >= 0xe0 && opcode <= 0xe7) return 1;
  switch (opcode) {
    case 0x6a:
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xa8:
    case 0xc0:
    case 0xc1:
    case 0xc6:
    case 0xcd:
    case 0xeb:
      return 1;
    case 0xc2:
    case 0xca:
      return 2;
    case 0xc8:
      return 3;
    case 0x68:
    case 0x69:
    case 0x81:
    case 0xa9:
    case 0xc7:
      return full;
    case 0xe8:
    case 0xe9:
      return 4;
    case 0xf6:
      return (in.reg & 7) < 2 ? 1 : 0;
    case 0xf7:
      return (in.reg & 7) < 2 ? full : 0;
    default:
      return 0;
  }
}

bool is_invalid(std::uint8_t opcode) noexcept {  // in the first map, in 64-bit mode
  if (opcode < 0x40)
    return (opcode & 7) >= 6 && opcode != 0x26 && opcode != 0x2e && opcode != 0x36 && opcode != 0x3e;
  switch (opcode) {
    case 0x60:
    case 0x61:
    case 0x82:
    case 0x9a:
    case 0xce:
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xea:
      return true;
    default:
      return false;
  }
}

std::int64_t read_signed(const std::uint8_t* at, unsigned bytes) noexcept {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(at[i]) << 8 * i;
  if (bytes == 0 || bytes >= 8) return static_cast<std::int64_t>(value);
  const unsigned unused = 64 - 8 * bytes;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

struct Evex {
  bool present, wide, broadcast;
  std::uint8_t prefix;  // 0: none, 1: 66, 2: f3, 3: f2
  std::uint8_t bytes;   // of the vector
};

// EVEX: a displacement of one byte counts in units of the size that the instruction reads or writes.
int displacement_unit(const Evex& evex, const Instruction& in) noexcept {
  const int element = evex.wide ? 8 : 4, all = evex.bytes;
  const std::uint8_t opcode = in.opcode;
  if (evex.broadcast) return element;
  if (in.map == kTwo) {
    const bool scalar = evex.prefix >= 2;
    switch (opcode) {
      case 0x10:
      case 0x11:
      case 0x2a:
      case 0x2c:
      case 0x2d:
      case 0x51:
      case 0x58:
      case 0x59:
      case 0x5c:
      case 0x5d:
      case 0x5e:
      case 0x5f:
      case 0xc2:
        if (!scalar) return all;
        // Conversions to and from integers have W for the integer; in memory is what the prefix says of a
        // conversion to one.
        if (opcode == 0x2c || opcode == 0x2d) return evex.prefix == 3 ? 8 : 4;
        return element;
      case 0x12:
      case 0x16:
        if (evex.prefix == 2) return all;
        return evex.prefix == 3 && all > 16 ? all : 8;
      case 0x13:
      case 0x17:
        return 8;
      case 0x2e:
      case 0x2f:
      case 0x6e:
        return element;
      case 0x5a:
        return scalar ? element : evex.prefix == 0 ? all / 2 : all;
      case 0x5b:
        return all;
      case 0x78:
      case 0x79:
      case 0x7a:
      case 0x7b:
        if (evex.prefix == 3 && opcode >= 0x7a) return opcode == 0x7b || evex.wide ? element : all;
        if (scalar && opcode != 0x7a) return opcode == 0x7b ? element : evex.prefix == 3 ? 8 : 4;
        return evex.wide || (evex.prefix == 0 && opcode < 0x7a) ? all : all / 2;
      case 0x7e:
        return evex.prefix == 2 ? 8 : element;
      case 0xd6:
        return 8;
      case 0xc4:
      case 0xc5:
        return 2;
      case 0xd1:
      case 0xd2:
      case 0xd3:
      case 0xe1:
      case 0xe2:
      case 0xf1:
      case 0xf2:
      case 0xf3:
        return 16;
      case 0xe6:
        return evex.prefix == 2 ? (evex.wide ? all : all / 2) : all;
      default:
        return all;
    }
  }
  if (in.map == k38) {
    const bool widens = (opcode >= 0x20 && opcode <= 0x25) || (opcode >= 0x30 && opcode <= 0x35) ||
                        (evex.prefix == 2 && opcode >= 0x10 && opcode <= 0x15);
    if (widens) {  // or, with f3, narrows
      const unsigned kind = opcode & 7u;
      return kind == 2 ? all / 8 : kind == 1 || kind == 4 ? all / 4 : all / 2;
    }
    if (opcode >= 0x96 && opcode <= 0xbf && (opcode & 9) == 9) return element;  // scalar multiply and add
    switch (opcode) {
      case 0x13:
        return all / 2;
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
      case 0x2d:
      case 0x43:
      case 0x4d:
      case 0x4f:
      case 0x88:
      case 0x89:
      case 0x8a:
      case 0x8b:
      case 0xcb:
      case 0xcd:
        return element;
      default:
        return all;
    }
  }
  switch (opcode) {
    case 0x0a:
    case 0x0b:
    case 0x16:
    case 0x22:
    case 0x27:
    case 0x51:
    case 0x55:
    case 0x57:
    case 0x67:
      return element;
    case 0x14:
    case 0x20:
      return 1;
    case 0x15:
      return 2;
    case 0x17:
    case 0x21:
      return 4;
    case 0x18:
    case 0x19:
    case 0x38:
    case 0x39:
      return 16;
    case 0x1a:
    case 0x1b:
    case 0x3a:
    case 0x3b:
      return 32;
    case 0x1d:
      return all / 2;
    default:
      return all;
  }
}

bool decode(const std::uint8_t* const begin, const std::uint8_t* const end, Instruction& out) noexcept {
  constexpr unsigned kLongest = 15;
  const std::uint8_t* const limit = end - begin > kLongest ? begin + kLongest : end;
  const std::uint8_t* at = begin;
  const auto left = [&] { return static_cast<unsigned>(limit - at); };
  out = {};
  out.index = kRsp;
  Evex evex = {};
  for (;; ++at) {
    if (left() < 2) break;
    const std::uint8_t prefix = *at;
    if (prefix == 0x66) {
      out.narrow = true;
    } else if (prefix == 0x67) {
      out.narrow_address = true;
    } else if (prefix == 0x64 || prefix == 0x65) {
      out.own_segment = true;
    } else if (prefix != 0xf0 && prefix != 0xf2 && prefix != 0xf3 && prefix != 0x2e && prefix != 0x36 &&
               prefix != 0x3e && prefix != 0x26) {
      break;
    }
  }
  if (left() < 1) return false;
  if ((*at & 0xf0) == 0x40) out.rex = *at++;
  if (left() < 1) return false;
  out.opcode = *at++;
  if (out.opcode == 0xc5 || out.opcode == 0xc4 || out.opcode == 0x62) {
    const unsigned payload = out.opcode == 0xc5 ? 1 : out.opcode == 0xc4 ? 2 : 3;
    if (left() < payload + 1) return false;
    unsigned map = 1;
    out.vector = true;
    out.rex = static_cast<std::uint8_t>(0x40 | ((at[0] & 0x80) == 0 ? 4 : 0));
    if (payload > 1) {
      out.rex = static_cast<std::uint8_t>(out.rex | ((at[0] & 0x40) == 0 ? 2 : 0) |
                                          ((at[0] & 0x20) == 0 ? 1 : 0) | ((at[1] & 0x80) != 0 ? 8 : 0));
      map = at[0] & (payload == 3 ? 7 : 31);
    }
    out.vvvv = static_cast<std::uint8_t>(~(at[payload == 1 ? 0 : 1] >> 3) & 15);
    if (payload == 3) {
      evex.present = true;
      evex.prefix = at[1] & 3;
      evex.wide = (at[1] & 0x80) != 0;
      evex.broadcast = (at[2] & 0x10) != 0;
      const unsigned length = at[2] >> 5 & 3;
      evex.bytes = static_cast<std::uint8_t>(16u << (length < 3 ? length : 2));
    }
    at += payload;
    // Maps 5 and 6 are half precision: no immediates, as in map 2.
    if (map == 1) {
      out.map = kTwo;
    } else if (map == 2 || map == 5 || map == 6) {
      out.map = k38;
    } else if (map == 3) {
      out.map = k3A;
    } else {
      return false;
    }
    out.opcode = *at++;
  } else if (out.opcode == 0x0f) {
    if (left() < 1) return false;
    out.map = kTwo;
    out.opcode = *at++;
    if (out.opcode == 0x38 || out.opcode == 0x3a) {
      out.map = out.opcode == 0x38 ? k38 : k3A;
      if (left() < 1) return false;
      out.opcode = *at++;
    }
  } else if (is_invalid(out.opcode)) {
    return false;
  }
  const bool vzero = out.vector && out.map == kTwo && out.opcode == 0x77;
  out.has_modrm = !vzero && (out.vector || has_modrm(out.map, out.opcode));
  if (out.has_modrm) {
    if (left() < 1) return false;
    const std::uint8_t modrm = *at++;
    out.mode = modrm >> 6;
    out.reg = static_cast<std::uint8_t>((modrm >> 3 & 7) | ((out.rex & 4) != 0 ? 8 : 0));
    out.rm = modrm & 7;
    unsigned displacement = out.mode == 1 ? 1 : out.mode == 2 ? 4 : out.mode == 0 && out.rm == 5 ? 4 : 0;
    if (out.mode != 3 && out.rm == 4) {
      if (left() < 1) return false;
      const std::uint8_t sib = *at++;
      out.has_sib = true;
      out.index = static_cast<std::uint8_t>((sib >> 3 & 7) | ((out.rex & 2) != 0 ? 8 : 0));
      out.scale = static_cast<std::uint8_t>(1u << (sib >> 6));
      out.rm = sib & 7;
      if (out.mode == 0 && out.rm == 5) displacement = 4;
    }
    out.rm = static_cast<std::uint8_t>(out.rm | ((out.rex & 1) != 0 ? 8 : 0));
    if (left() < displacement) return false;
    out.displacement = read_signed(at, displacement);
    if (evex.present && displacement == 1) out.displacement *= displacement_unit(evex, out);
    at += displacement;
  }
  const unsigned immediate = immediate_bytes(out, (out.rex & 8) != 0 && !out.vector);
  if (left() < immediate) return false;
  out.immediate = read_signed(at, immediate);
  at += immediate;
  out.bytes = static_cast<std::uint8_t>(at - begin);
  return true;
}

// --- what they do --------------------------------------------------------------------------

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

// A base register of its own: the value of rsp after it was realigned.
constexpr std::uint8_t kRealigned = 16;

struct Saved {
  Value address;  // kSum
  Value value;
};

constexpr unsigned kSavedValues = 12;

struct State {
  Value reg[kEncodedRegisters];
  Saved saved[kSavedValues];
  std::uint32_t saved_count;

  void forget(unsigned number) noexcept { reg[number].known = Known::kNothing; }

  static Value plus(Value value, std::int64_t amount) noexcept {
    constexpr std::int64_t kFar = 1 << 30;
    if (value.known == Known::kLoaded && value.added + amount >= -64 && value.added + amount <= 64) {
      value.added = static_cast<std::int16_t>(value.added + amount);
      return value;
    }
    const std::int64_t sum = value.offset + amount;
    if (value.known != Known::kSum || amount > kFar || amount < -kFar || sum > kFar || sum < -kFar)
      return {0, Known::kNothing, 0, 0};
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
    if (address.known != Known::kSum) return {0, Known::kNothing, 0, 0};
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

enum class Flow : std::uint8_t { kOn, kReturn, kJump, kBranch, kEnd };

Value address_of(const State& state, const Instruction& in) noexcept {
  const bool without_base = in.mode == 0 && (in.rm & 7) == 5;  // rip-relative, or absolute
  if (without_base || in.index != kRsp) return {0, Known::kNothing, 0, 0};
  return State::plus(state.reg[in.rm], in.displacement);
}

// Without a REX prefix, byte registers 4 to 7 are the second bytes of the first four registers.
unsigned byte_register(const Instruction& in, unsigned number) noexcept {
  return in.rex == 0 ? number & 3 : number;
}

void forget_results_of_0f(const Instruction& in, State& state) noexcept {
  const std::uint8_t opcode = in.opcode;
  const auto forget_rm = [&] {
    if (in.mode == 3) state.forget(in.rm);
  };
  if (in.map == k38) {
    if (opcode >= 0xf0 && opcode <= 0xf7) {
      state.forget(in.reg);
      if (in.vector) state.forget(in.vvvv);
    }
    return;
  }
  if (in.map == k3A) {
    if (opcode == 0xf0) state.forget(in.reg);
    if (opcode >= 0x14 && opcode <= 0x17) forget_rm();  // pextr, extractps
    return;
  }
  switch (opcode) {
    case 0x2c:
    case 0x2d:
    case 0x50:
    case 0x93:  // kmov, when a vector instruction
    case 0xc5:
    case 0xd7:
      if (opcode != 0x93 || in.vector) {
        state.forget(in.reg);
      } else {
        forget_rm();
      }
      return;
    case 0x7e:
      forget_rm();
      return;
    default:
      break;
  }
  if (in.vector) return;
  if (opcode >= 0x40 && opcode <= 0x4f) {  // cmov
    state.forget(in.reg);
  } else if (opcode >= 0x90 && opcode <= 0x9f) {  // set
    if (in.mode == 3) state.forget(byte_register(in, in.rm));
  } else if (opcode >= 0xc8 && opcode <= 0xcf) {  // bswap
    state.forget((opcode & 7u) | ((in.rex & 1) != 0 ? 8u : 0u));
  } else {
    switch (opcode) {
      case 0xaf:
      case 0xb6:
      case 0xb7:
      case 0xb8:
      case 0xbc:
      case 0xbd:
      case 0xbe:
      case 0xbf:
      case 0x02:
      case 0x03:
        state.forget(in.reg);
        break;
      case 0xa4:
      case 0xa5:
      case 0xab:
      case 0xac:
      case 0xad:
      case 0xb3:
      case 0xba:
      case 0xbb:
      case 0xc7:
      case 0x20:
      case 0x21:
        forget_rm();
        break;
      case 0xb0:
      case 0xb1:
        state.forget(kRax);
        forget_rm();
        break;
      case 0xc0:
      case 0xc1:
        state.forget(in.reg);
        forget_rm();
        break;
      case 0xa2:  // cpuid
        state.forget(kRbx);
        [[fallthrough]];
      case 0x01:  // rdtscp, xgetbv
      case 0x05:  // syscall
      case 0x31:  // rdtsc
        state.forget(kRax);
        state.forget(kRcx);
        state.forget(kRdx);
        break;
      default:
        break;
    }
  }
}

void forget_caller_saved(State& state) noexcept {
  for (const unsigned number : {0u, 1u, 2u, 6u, 7u, 8u, 9u, 10u, 11u}) state.forget(number);
}

Flow execute(const Instruction& in, State& state) noexcept {
  const bool wide = (in.rex & 8) != 0;
  const unsigned low_register = (in.opcode & 7u) | ((in.rex & 1) != 0 ? 8u : 0u);
  const unsigned extension = in.reg & 7;
  if (in.map != kOne) {
    if (in.map == kTwo && !in.vector) {
      if (in.opcode >= 0x80 && in.opcode <= 0x8f) return Flow::kBranch;
      if (in.opcode == 0x0b || in.opcode == 0xff || in.opcode == 0xb9) return Flow::kEnd;  // ud2, ud0, ud1
    }
    forget_results_of_0f(in, state);
    return Flow::kOn;
  }
  const std::uint8_t opcode = in.opcode;
  if (opcode >= 0x50 && opcode <= 0x57) {
    state.push(state.reg[low_register]);
    return Flow::kOn;
  }
  if (opcode >= 0x58 && opcode <= 0x5f) {
    const Value value = state.pop();
    state.reg[low_register] = value;
    return Flow::kOn;
  }
  if (opcode >= 0x70 && opcode <= 0x7f) return Flow::kBranch;
  if (opcode >= 0xb0 && opcode <= 0xbf) {
    state.forget(opcode < 0xb8 ? byte_register(in, low_register) : low_register);
    return Flow::kOn;
  }
  if (opcode >= 0xd8 && opcode <= 0xdf) {
    if (opcode == 0xdf && in.mode == 3) state.forget(kRax);  // fnstsw
    return Flow::kOn;
  }
  if (opcode > 0x90 && opcode <= 0x97) {  // xchg
    state.forget(low_register);
    state.forget(kRax);
    return Flow::kOn;
  }
  switch (opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c:  // pushf
      state.push({0, Known::kNothing, 0, 0});
      return Flow::kOn;
    case 0x9d:
      state.pop();
      return Flow::kOn;
    case 0x8f:
      if (in.mode == 3) {
        const Value value = state.pop();
        state.reg[in.rm] = value;
      } else {
        state.pop();
      }
      return Flow::kOn;
    case 0xc2:
    case 0xc3:
      return Flow::kReturn;
    case 0xc9: {  // leave
      state.reg[kRsp] = state.reg[kRbp];
      const Value value = state.pop();
      state.reg[kRbp] = value;
      return Flow::kOn;
    }
    case 0xe8:
      forget_caller_saved(state);
      return Flow::kOn;
    case 0xe9:
    case 0xeb:
      return Flow::kJump;
    case 0xe0:
    case 0xe1:
    case 0xe2:
      state.forget(kRcx);
      return Flow::kBranch;
    case 0xe3:
      return Flow::kBranch;
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcd:
    case 0xcf:
    case 0xf4:
    case 0xc8:  // enter: nobody uses it
      return Flow::kEnd;
    case 0x89:
    case 0x88:
      if (in.mode == 3) {
        if (opcode == 0x88) {
          state.forget(byte_register(in, in.rm));
        } else if (wide) {
          state.reg[in.rm] = state.reg[in.reg];
        } else {
          state.forget(in.rm);
        }
      } else {
        // Only whole registers are saved; a part of one is something else.
        state.store(address_of(state, in),
                    opcode == 0x89 && wide ? state.reg[in.reg] : Value{0, Known::kNothing, 0, 0});
      }
      return Flow::kOn;
    case 0x8b:
      if (!wide) {
        state.forget(in.reg);
      } else {
        state.reg[in.reg] = in.mode == 3 ? state.reg[in.rm] : state.load(address_of(state, in));
      }
      return Flow::kOn;
    case 0x8d:
      state.reg[in.reg] = wide ? address_of(state, in) : Value{0, Known::kNothing, 0, 0};
      return Flow::kOn;
    case 0x81:
    case 0x83:
      if (extension == 7 || in.mode != 3) return Flow::kOn;
      if (wide && (extension == 0 || extension == 5)) {
        state.reg[in.rm] = State::plus(state.reg[in.rm], extension == 0 ? in.immediate : -in.immediate);
      } else if (wide && extension == 4 && in.rm == kRsp) {
        state.reg[kRsp] = {0, Known::kSum, kRealigned, 0};
      } else {
        state.forget(in.rm);
      }
      return Flow::kOn;
    case 0x38:
    case 0x39:
    case 0x3a:
    case 0x3b:
    case 0x84:
    case 0x85:
    case 0x90:
      return Flow::kOn;
    case 0xff:
      if (extension == 2) {
        forget_caller_saved(state);
        return Flow::kOn;
      }
      if (extension == 4)  // a procedure linkage table's or another tail call; else a switch, or unknown
        return in.mode == 0 && (in.rm & 7) == 5 && !in.has_sib ? Flow::kReturn : Flow::kEnd;
      if (extension == 6) {
        state.push({0, Known::kNothing, 0, 0});
        return Flow::kOn;
      }
      if (extension == 3 || extension == 5) return Flow::kEnd;
      if (in.mode == 3) state.forget(in.rm);
      return Flow::kOn;
    case 0xf6:
    case 0xf7:
      if (extension < 2) return Flow::kOn;
      if (extension >= 4) {
        state.forget(kRax);
        state.forget(kRdx);
      } else if (in.mode == 3) {
        state.forget(opcode == 0xf6 ? byte_register(in, in.rm) : in.rm);
      }
      return Flow::kOn;
    case 0x63:
    case 0x69:
    case 0x6b:
      state.forget(in.reg);
      return Flow::kOn;
    case 0x80:
      if (extension != 7 && in.mode == 3) state.forget(byte_register(in, in.rm));
      return Flow::kOn;
    case 0x98:
    case 0x99:
      state.forget(kRax);
      state.forget(kRdx);
      return Flow::kOn;
    default:
      break;
  }
  if (opcode >= 0xa4 && opcode <= 0xaf) {  // string operations, and test with rax
    for (const unsigned number : {0u, 1u, 6u, 7u}) state.forget(number);
    return Flow::kOn;
  }
  if (!in.has_modrm) {  // operations on rax
    state.forget(kRax);
    return Flow::kOn;
  }
  const bool bytes = (opcode & 1) == 0;
  const auto number = [&](unsigned encoded) { return bytes ? byte_register(in, encoded) : encoded; };
  const bool has_second = opcode < 0x40 || opcode == 0x86 || opcode == 0x87 || opcode == 0x8a;
  if (in.mode == 3) state.forget(number(in.rm));
  if (has_second && ((opcode & 2) != 0 || opcode >= 0x86)) state.forget(number(in.reg));
  return Flow::kOn;
}

// --- ways out ------------------------------------------------------------------------------

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
        (in.map == kOne && in.opcode == 0x90) || (in.map == kTwo && in.opcode == 0x1f && !in.vector);
    const bool begin = in.map == kTwo && in.opcode == 0x1e && !in.vector && code[0] == 0xf3;  // endbr64
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
  __builtin_memset(&state, 0, sizeof(state));
  for (unsigned i = 0; i < kEncodedRegisters; ++i)
    state.reg[i] = {0, Known::kSum, static_cast<std::uint8_t>(i), 0};

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
      if (in.map == kOne && (in.opcode == 0xe8 || (in.opcode == 0xff && (in.reg & 7) == 2)) &&
          ends_function(at, high))
        flow = Flow::kEnd;
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

namespace {

// True if the instruction accesses the program's data in memory, at an address that general registers give.
bool has_data_operand(const Instruction& in) noexcept {
  if (in.own_segment || !in.has_modrm || in.mode == 3) return false;
  const std::uint8_t opcode = in.opcode;
  switch (in.map) {
    case kOne: {
      const unsigned extension = in.reg & 7;
      if (opcode == 0xff) return extension < 2;  // not calls, jumps and pushes
      return opcode != 0x8d && opcode != 0x8f;   // lea, pop
    }
    case kTwo:
      if (in.vector) return true;
      return opcode != 0x0d && opcode != 0x01 && (opcode < 0x18 || opcode > 0x1f);  // prefetches, hints
    case k38:
      // Gathers, scatters and their prefetches have vectors of addresses.
      return !in.vector || !((opcode >= 0x90 && opcode <= 0x93) || (opcode >= 0xa0 && opcode <= 0xa3) ||
                             opcode == 0xc6 || opcode == 0xc7);
    default:
      return true;
  }
}

bool is_string_operation(const Instruction& in) noexcept {
  return in.map == kOne && !in.own_segment && in.opcode >= 0xa4 && in.opcode <= 0xaf && in.opcode != 0xa8 &&
         in.opcode != 0xa9;
}

// False if the address is not known, or is on the stack as far as the instruction tells.
bool operand_address(const Instruction& in, const State& state, std::uint64_t behind,
                     const std::uint64_t (&registers)[kEncodedRegisters], std::uint64_t& address) noexcept {
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
    const bool without_base = in.mode == 0 && (in.rm & 7) == 5;
    if (without_base) {
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

bool find_data_address(const CodeAt& code, const std::uint64_t (&registers)[kEncodedRegisters],
                       std::uint64_t stack_low, std::uint64_t stack_high, std::uint64_t& address) noexcept {
  constexpr unsigned kMaxInstructions = 4;
  constexpr std::uint64_t kLowest = 1u << 16, kHighest = std::uint64_t{1} << 47;
  State state;
  state.saved_count = 0;
  for (unsigned i = 0; i < kEncodedRegisters; ++i)
    state.reg[i] = {0, Known::kSum, static_cast<std::uint8_t>(i), 0};
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
    if (flow != Flow::kOn ||
        (in.map == kOne && (in.opcode == 0xe8 || (in.opcode == 0xff && (in.reg & 7) == 2))))
      return false;
  }
  return false;
}

}  // namespace clusterprof::agent
