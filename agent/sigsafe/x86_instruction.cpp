// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/x86_instruction.h"

#include "agent/sigsafe/x86_displacement.h"

namespace clusterprof::agent::x86 {
namespace {

constexpr Opcodes kOneByteWithModrm = {{0x00, 0x03}, {0x08, 0x0b}, {0x10, 0x13}, {0x18, 0x1b}, {0x20, 0x23},
                                       {0x28, 0x2b}, {0x30, 0x33}, {0x38, 0x3b}, 0x63,         0x69,
                                       0x6b,         {0x80, 0x8f}, {0xc0, 0xc1}, {0xc6, 0xc7}, {0xd0, 0xd3},
                                       {0xd8, 0xdf}, {0xf6, 0xf7}, {0xfe, 0xff}};
constexpr Opcodes k0fWithoutModrm = {{0x04, 0x0c}, 0x0e,         {0x30, 0x37}, 0x77,
                                     {0x80, 0x8f}, {0xa0, 0xa2}, {0xa8, 0xaa}, {0xc8, 0xcf}};

bool has_modrm(Map map, std::uint8_t opcode) noexcept {
  if (map == kOneByte) return kOneByteWithModrm.has(opcode);
  return map != k0f || !k0fWithoutModrm.has(opcode);
}

// In 64-bit mode.
constexpr Opcodes kInvalid = {{0x06, 0x07}, 0x0e, {0x16, 0x17}, {0x1e, 0x1f}, 0x27, 0x2f, 0x37, 0x3f,
                              {0x60, 0x61}, 0x82, 0x9a,         0xce,         0xd4, 0xd5, 0xd6, 0xea};

// Immediate operands of one-byte opcodes, by their size.
constexpr Opcodes kByteImmediate = {0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c,         0x34,
                                    0x3c, 0x6a, 0x6b, 0x80, 0x83, {0x70, 0x7f}, {0xb0, 0xb7},
                                    0xa8, 0xc0, 0xc1, 0xc6, 0xcd, 0xeb,         {0xe0, 0xe7}};
// Four bytes, or two with an operand size prefix.
constexpr Opcodes kFullImmediate = {0x05, 0x0d, 0x15, 0x1d, 0x25, 0x2d, 0x35,
                                    0x3d, 0x68, 0x69, 0x81, 0xa9, 0xc7};
constexpr Opcodes k0fByteImmediate = {{0x70, 0x73}, 0xc2, {0xc4, 0xc6}};
constexpr Opcodes k0fByteImmediateUnlessVector = {0x0f, 0xa4, 0xac, 0xba};

unsigned immediate_bytes_of_0f(const Instruction& in) noexcept {
  if (k0fByteImmediate.has(in.opcode)) return 1;
  if (in.vector) return 0;
  if (in.opcode >= 0x80 && in.opcode <= 0x8f) return 4;
  return k0fByteImmediateUnlessVector.has(in.opcode) ? 1 : 0;
}

unsigned immediate_bytes_of_one_byte(const Instruction& in) noexcept {
  const unsigned full = in.narrow && !in.wide() ? 2 : 4;
  const std::uint8_t opcode = in.opcode;
  if (kByteImmediate.has(opcode)) return 1;
  if (kFullImmediate.has(opcode)) return full;
  if (opcode >= 0xa0 && opcode <= 0xa3) return 8;
  if (opcode >= 0xb8 && opcode <= 0xbf) return in.wide() ? 8 : full;
  switch (opcode) {
    case 0xc2:
    case 0xca:
      return 2;
    case 0xc8:
      return 3;
    case 0xe8:
    case 0xe9:
      return 4;
    case 0xf6:
      return in.extension() < 2 ? 1 : 0;
    case 0xf7:
      return in.extension() < 2 ? full : 0;
    default:
      return 0;
  }
}

unsigned immediate_bytes(const Instruction& in) noexcept {
  switch (in.map) {
    case kOneByte:
      return immediate_bytes_of_one_byte(in);
    case k0f:
      return immediate_bytes_of_0f(in);
    case k0f38:
      return 0;
    default:
      return 1;
  }
}

std::int64_t read_signed(const std::uint8_t* at, unsigned bytes) noexcept {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(at[i]) << 8 * i;
  if (bytes == 0 || bytes >= 8) return static_cast<std::int64_t>(value);
  const unsigned unused = 64 - 8 * bytes;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

// The steps in their order. Each is false if the bytes are no instruction or end too early.
class Decoder {
 public:
  Decoder(const std::uint8_t* begin, const std::uint8_t* limit, Instruction& out) noexcept
      : out_(out), at_(begin), limit_(limit) {
    out_ = {};
    out_.index = kRsp;
  }

  void read_prefixes() noexcept {
    for (; left() >= 2; ++at_) {
      switch (*at_) {
        case 0x66:
          out_.narrow = true;
          break;
        case 0x67:
          out_.narrow_address = true;
          break;
        case 0x64:
        case 0x65:
          out_.own_segment = true;
          break;
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0xf0:
        case 0xf2:
        case 0xf3:
          break;
        default:
          return;
      }
    }
  }

  bool read_opcode() noexcept {
    if (left() < 1) return false;
    if ((*at_ & 0xf0) == 0x40) out_.rex = *at_++;
    if (left() < 1) return false;
    out_.opcode = *at_++;
    switch (out_.opcode) {
      case 0xc5:
        return read_vector_opcode(1);
      case 0xc4:
        return read_vector_opcode(2);
      case 0x62:
        return read_vector_opcode(3);
      case 0x0f:
        return read_longer_opcode();
      default:
        return !kInvalid.has(out_.opcode);
    }
  }

  bool read_operands() noexcept {
    const bool is_vzero = out_.vector && out_.map == k0f && out_.opcode == 0x77;
    out_.has_modrm = !is_vzero && (out_.vector || has_modrm(out_.map, out_.opcode));
    return (!out_.has_modrm || read_modrm()) && read_immediate();
  }

  const std::uint8_t* position() const noexcept { return at_; }

 private:
  unsigned left() const noexcept { return static_cast<unsigned>(limit_ - at_); }

  bool read_longer_opcode() noexcept {
    if (left() < 1) return false;
    out_.map = k0f;
    out_.opcode = *at_++;
    if (out_.opcode == 0x38 || out_.opcode == 0x3a) {
      out_.map = out_.opcode == 0x38 ? k0f38 : k0f3a;
      if (left() < 1) return false;
      out_.opcode = *at_++;
    }
    return true;
  }

  // The rest of a VEX (1 or 2 bytes) or EVEX (3 bytes) prefix, and the opcode.
  bool read_vector_opcode(unsigned payload) noexcept {
    if (left() < payload + 1) return false;
    unsigned map = 1;
    out_.vector = true;
    out_.rex = static_cast<std::uint8_t>(0x40 | ((at_[0] & 0x80) == 0 ? 4 : 0));
    if (payload > 1) {
      out_.rex = static_cast<std::uint8_t>(out_.rex | ((at_[0] & 0x40) == 0 ? 2 : 0) |
                                           ((at_[0] & 0x20) == 0 ? 1 : 0) | ((at_[1] & 0x80) != 0 ? 8 : 0));
      map = at_[0] & (payload == 3 ? 7 : 31);
    }
    out_.vvvv = static_cast<std::uint8_t>(~(at_[payload == 1 ? 0 : 1] >> 3) & 15);
    if (payload == 3) {
      const unsigned length = at_[2] >> 5 & 3;
      evex_ = {true, (at_[1] & 0x80) != 0, (at_[2] & 0x10) != 0, static_cast<std::uint8_t>(at_[1] & 3),
               static_cast<std::uint8_t>(16u << (length < 3 ? length : 2))};
    }
    at_ += payload;
    if (!set_vector_map(map)) return false;
    out_.opcode = *at_++;
    return true;
  }

  bool set_vector_map(unsigned number) noexcept {
    switch (number) {
      case 1:
        out_.map = k0f;
        return true;
      case 2:
      case 5:  // half precision, as 6: no immediates, as in map 2
      case 6:
        out_.map = k0f38;
        return true;
      case 3:
        out_.map = k0f3a;
        return true;
      default:
        return false;
    }
  }

  bool read_modrm() noexcept {
    if (left() < 1) return false;
    const std::uint8_t modrm = *at_++;
    out_.mode = modrm >> 6;
    out_.reg = static_cast<std::uint8_t>((modrm >> 3 & 7) | ((out_.rex & 4) != 0 ? 8 : 0));
    out_.rm = modrm & 7;
    if (!out_.rm_is_register() && out_.rm == 4 && !read_sib()) return false;
    const unsigned bytes = out_.mode == 1 ? 1 : out_.mode == 2 || out_.has_no_base() ? 4 : 0;
    out_.rm = static_cast<std::uint8_t>(out_.rm | ((out_.rex & 1) != 0 ? 8 : 0));
    if (left() < bytes) return false;
    out_.displacement = read_signed(at_, bytes);
    if (evex_.present && bytes == 1) out_.displacement *= displacement_unit(evex_, out_.map, out_.opcode);
    at_ += bytes;
    return true;
  }

  bool read_sib() noexcept {
    if (left() < 1) return false;
    const std::uint8_t sib = *at_++;
    out_.has_sib = true;
    out_.index = static_cast<std::uint8_t>((sib >> 3 & 7) | ((out_.rex & 2) != 0 ? 8 : 0));
    out_.scale = static_cast<std::uint8_t>(1u << (sib >> 6));
    out_.rm = sib & 7;
    return true;
  }

  bool read_immediate() noexcept {
    const unsigned bytes = immediate_bytes(out_);
    if (left() < bytes) return false;
    out_.immediate = read_signed(at_, bytes);
    at_ += bytes;
    return true;
  }

  Instruction& out_;
  Evex evex_ = {};
  const std::uint8_t* at_;
  const std::uint8_t* limit_;
};

}  // namespace

bool decode(const std::uint8_t* begin, const std::uint8_t* end, Instruction& out) noexcept {
  constexpr unsigned kMaxBytes = 15;
  Decoder decoder(begin, end - begin > kMaxBytes ? begin + kMaxBytes : end, out);
  decoder.read_prefixes();
  if (!decoder.read_opcode() || !decoder.read_operands()) return false;
  out.bytes = static_cast<std::uint8_t>(decoder.position() - begin);
  return true;
}

}  // namespace clusterprof::agent::x86
