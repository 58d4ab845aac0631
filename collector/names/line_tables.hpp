// SPDX-License-Identifier: BSD-3-Clause
// The line tables of CPython code objects: which source line an instruction belongs to. Formats:
//   3.8, 3.9   co_lnotab: pairs (bytecode bytes: u8, lines: i8)
//   3.10       co_linetable: pairs (bytecode bytes: u8, lines: i8), -128 = no line
//   3.11 on    co_linetable: "location table", see Objects/locations.md of CPython
// Tables come out of another process's memory: any bytes are accepted, damaged ones give no line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace clusterprof::collector {

// The line of instruction number `instruction` (16-bit code units from the start of the bytecode, as
// wire::SampleRecord has it). `python_minor` is the x of 3.x. wire::kInstructionNotStarted gives first_line.
// No value: the instruction has no line, or one beyond 2^31, lies beyond the table, or the version is not
// known.
[[nodiscard]] std::optional<std::uint32_t> python_line(std::uint32_t python_minor, std::uint32_t first_line,
                                                       std::span<const std::uint8_t> table,
                                                       std::uint32_t instruction);

}  // namespace clusterprof::collector
