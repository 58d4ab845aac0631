// SPDX-License-Identifier: BSD-3-Clause
// What DWARF data is made of: numbers of registers, blocks of bytes, and a reader of encoded values.
// Async-signal-safe.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// DWARF numbers of x86-64 registers.
enum DwarfRegister : std::uint32_t {
  kDwarfRbx = 3,
  kDwarfRbp = 6,
  kDwarfRsp = 7,
  kDwarfR10 = 10,
  kDwarfR12 = 12,  // r13, r14, r15 follow
  kDwarfReturnAddress = 16,
  kDwarfRegisters = 17,
};

struct Bytes {
  const std::uint8_t* begin;
  const std::uint8_t* end;
};

// Pointer encodings (DW_EH_PE_*).
inline constexpr std::uint8_t kEncodingOmit = 0xff;
inline constexpr std::uint8_t kEncodingIndirect = 0x80;
inline constexpr std::uint8_t kEncodingPcRelative = 0x10;
inline constexpr std::uint8_t kEncodingDataRelative = 0x30;

// Reads forward inside [position, end). A read past the end yields 0 and clears ok.
struct DwarfReader {
  const std::uint8_t* position;
  const std::uint8_t* end;
  bool ok = true;

  bool has(std::uint64_t bytes) noexcept {
    if (static_cast<std::uint64_t>(end - position) >= bytes) return true;
    ok = false;
    position = end;
    return false;
  }

  template <typename T>
  T fixed() noexcept {
    T value{};
    if (!has(sizeof(T))) return value;
    __builtin_memcpy(&value, position, sizeof(T));
    position += sizeof(T);
    return value;
  }

  std::uint8_t byte() noexcept { return fixed<std::uint8_t>(); }

  std::uint64_t uleb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (!has(1)) return 0;
      const std::uint8_t next = *position++;
      if (shift < 64) value |= static_cast<std::uint64_t>(next & 0x7f) << shift;
      if ((next & 0x80) == 0) return value;
    }
  }

  std::int64_t sleb() noexcept {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t next = 0;
    do {
      if (!has(1)) return 0;
      next = *position++;
      if (shift < 64) value |= static_cast<std::uint64_t>(next & 0x7f) << shift;
      shift += 7;
    } while ((next & 0x80) != 0);
    if (shift < 64 && (next & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }

  void skip(std::uint64_t bytes) noexcept {
    if (has(bytes)) position += bytes;
  }

  Bytes block() noexcept {
    const std::uint64_t bytes = uleb();
    const std::uint8_t* const begin = position;
    if (!ok || !has(bytes)) return {end, end};
    position += bytes;
    return {begin, position};
  }

  // The value part of an encoded pointer, without its base.
  std::uint64_t encoded_value(std::uint8_t encoding) noexcept {
    switch (encoding & 0x0f) {
      case 0x00:  // absolute
      case 0x04:  // udata8
      case 0x0c:  // sdata8
        return fixed<std::uint64_t>();
      case 0x01:
        return uleb();
      case 0x02:
        return fixed<std::uint16_t>();
      case 0x03:
        return fixed<std::uint32_t>();
      case 0x09:
        return static_cast<std::uint64_t>(sleb());
      case 0x0a:
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(fixed<std::int16_t>()));
      case 0x0b:
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(fixed<std::int32_t>()));
      default:
        ok = false;
        return 0;
    }
  }

  std::uint64_t encoded_pointer(std::uint8_t encoding, std::uint64_t data_base) noexcept {
    const std::uint64_t here = reinterpret_cast<std::uint64_t>(position);
    const std::uint64_t value = encoded_value(encoding);
    if ((encoding & kEncodingIndirect) != 0) {
      ok = false;  // only personality routines are indirect, and those are skipped
      return 0;
    }
    switch (encoding & 0x70) {
      case 0x00:
        return value;
      case kEncodingPcRelative:
        return here + value;
      case kEncodingDataRelative:
        return data_base + value;
      default:
        ok = false;
        return 0;
    }
  }
};

}  // namespace clusterprof::agent
