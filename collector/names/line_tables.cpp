// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/line_tables.hpp"

#include <cstddef>

#include "formats/wire/sample.h"

namespace clusterprof::collector {
namespace {

using Line = std::optional<std::uint32_t>;

// Lines are kept in 64 bits while adding up deltas, which may be damaged.
Line as_line(std::int64_t line) {
  if (line < 0 || line > 0x7fff'ffff) return std::nullopt;
  return static_cast<std::uint32_t>(line);
}

// co_lnotab: a pair takes effect from the address it leads to.
Line line_in_lnotab(std::int64_t line, std::span<const std::uint8_t> table, std::uint64_t offset) {
  std::uint64_t address = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    address += table[i];
    if (address > offset) break;
    line += static_cast<std::int8_t>(table[i + 1]);
  }
  return as_line(line);
}

// 3.10: a pair describes the bytes it covers.
Line line_in_ranges(std::int64_t line, std::span<const std::uint8_t> table, std::uint64_t offset) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto delta = static_cast<std::int8_t>(table[i + 1]);
    end += table[i];
    if (delta != -128) line += delta;
    if (offset < end) return delta == -128 ? std::nullopt : as_line(line);
  }
  return std::nullopt;
}

// 3.11 on. Entries: 1cccclll, then what the code c says; a byte with bit 7 set begins the next entry.
Line line_in_locations(std::int64_t line, std::span<const std::uint8_t> table, std::uint64_t instruction) {
  constexpr unsigned kLong = 14;
  constexpr unsigned kNoColumns = 13;
  constexpr unsigned kNone = 15;
  std::uint64_t end = 0;
  std::size_t at = 0;
  while (at < table.size()) {
    const std::uint8_t first = table[at++];
    if ((first & 0x80) == 0) return std::nullopt;
    const unsigned code = first >> 3 & 15;
    end += (first & 7u) + 1;
    if (code == kLong || code == kNoColumns) {  // the line delta is a signed variable length integer
      std::uint64_t value = 0;
      for (unsigned shift = 0;; shift += 6) {
        if (at == table.size() || (table[at] & 0x80) != 0 || shift > 30) return std::nullopt;
        const std::uint8_t byte = table[at++];
        value |= static_cast<std::uint64_t>(byte & 0x3f) << shift;
        if ((byte & 0x40) == 0) break;
      }
      const auto magnitude = static_cast<std::int64_t>(value >> 1);
      line += (value & 1) != 0 ? -magnitude : magnitude;
    } else if (code >= 10 && code <= 12) {
      line += static_cast<std::int64_t>(code) - 10;
    }
    if (instruction < end) return code == kNone ? std::nullopt : as_line(line);
    while (at < table.size() && (table[at] & 0x80) == 0) ++at;  // columns
  }
  return std::nullopt;
}

}  // namespace

Line python_line(std::uint32_t python_minor, std::uint32_t first_line, std::span<const std::uint8_t> table,
                 std::uint32_t instruction) {
  if (instruction == wire::kInstructionNotStarted) return as_line(first_line);
  const std::uint64_t offset = std::uint64_t{instruction} * 2;
  if (python_minor == 8 || python_minor == 9) return line_in_lnotab(first_line, table, offset);
  if (python_minor == 10) return line_in_ranges(first_line, table, offset);
  if (python_minor >= 11 && python_minor <= 15) return line_in_locations(first_line, table, instruction);
  return std::nullopt;
}

}  // namespace clusterprof::collector
