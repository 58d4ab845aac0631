// SPDX-License-Identifier: BSD-3-Clause
// What the signal handler reads of object files: call frame information, DWARF expressions and instructions.
// The first byte says which, and where the rest lies; nothing outside that may be read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "agent/sigsafe/cfi.h"
#include "agent/sigsafe/code_flow.h"
#include "agent/sigsafe/data_address.h"
#include "agent/sigsafe/dwarf_expression.h"
#include "tests/fuzz/guarded_bytes.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

using namespace clusterprof;
using namespace clusterprof::agent;
using fuzz::Input;

constexpr std::size_t kMaxBytes = 1 << 16;

std::uint64_t address_of(const std::uint8_t* place) { return reinterpret_cast<std::uint64_t>(place); }
Bytes all_of(std::span<std::uint8_t> bytes) { return {bytes.data(), bytes.data() + bytes.size()}; }

Machine machine_of(Input& input, bool at_the_end) {
  static fuzz::GuardedBytes memory(256);
  const std::span<std::uint8_t> stack = memory.hold(input.take(64), at_the_end);
  Machine machine{};
  machine.known = input.number<std::uint32_t>() & ((1u << kDwarfRegisters) - 1);
  for (std::uint64_t& value : machine.value)
    value = address_of(stack.data()) + static_cast<std::uint64_t>(static_cast<std::int8_t>(input.byte()));
  machine.stack_low = address_of(stack.data());
  machine.stack_high = machine.stack_low + stack.size();
  return machine;
}

void use(const Fde& fde, std::uint64_t pc, const Machine& machine) {
  CfiRow row;
  if (!compute_row(fde, pc, row)) return;
  std::uint64_t value = 0;
  if (row.cfa_is_expression) evaluate(row.cfa_expression, machine, false, 0, value);
  for (const RegisterRule& rule : row.registers) {
    if (rule.kind != RuleKind::kExpression && rule.kind != RuleKind::kValueExpression) continue;
    const auto* const begin = reinterpret_cast<const std::uint8_t*>(rule.value);
    evaluate({begin, begin + rule.expression_bytes}, machine, true, machine.stack_low, value);
  }
}

// .eh_frame_hdr and, behind it, .eh_frame.
void sections(Input& input, std::span<std::uint8_t> content, const Machine& machine) {
  Module module{};
  module.cfi_start = address_of(content.data());
  module.cfi_end = module.cfi_start + content.size();
  module.eh_frame_hdr = content.data();
  module.eh_frame_hdr_bytes = input.number<std::uint16_t>();
  const std::uint16_t row = input.number<std::uint16_t>();
  const std::uint64_t distance = input.number<std::uint16_t>();
  // The place of a function as the table has it, and somewhat behind.
  std::int32_t place = 0;
  const std::size_t at = 12 + 8 * std::size_t{row};
  if (at + 4 <= content.size()) std::memcpy(&place, content.data() + at, 4);
  const std::uint64_t begin = module.cfi_start + static_cast<std::uint64_t>(std::int64_t{place});
  for (const std::uint64_t pc : {begin, begin + distance, ~std::uint64_t{0}}) {
    Fde fde;
    if (!find_fde(module, pc, fde)) continue;
    if (pc < fde.begin || pc >= fde.end) std::abort();
    use(fde, pc, machine);
    use(fde, fde.end - 1, machine);
  }
}

void programs(Input& input, std::span<std::uint8_t> content, const Machine& machine) {
  Fde fde{};
  fde.begin = 0x1000;
  fde.end = 0x2000;
  fde.code_align = input.number<std::uint64_t>();
  fde.data_align = input.number<std::int64_t>();
  fde.pointer_encoding = input.byte();
  const std::size_t initial = std::min<std::size_t>(input.byte(), content.size());
  fde.initial = all_of(content.first(initial));
  fde.program = all_of(content.subspan(initial));
  const std::uint64_t offset = input.number<std::uint16_t>() & 0xfff;
  use(fde, fde.begin + offset, machine);
}

void instructions(Input& input, std::span<std::uint8_t> content, bool wants_data) {
  const std::size_t at = content.empty() ? 0 : input.number<std::uint16_t>() % content.size();
  const std::uint8_t* const low = content.data();
  const std::uint8_t* const end = low + content.size();
  if (!wants_data) {
    CfiRow row;
    derive_row(address_of(low) + at, address_of(low), address_of(end), row);
    return;
  }
  std::uint64_t registers[16];
  for (std::uint64_t& value : registers) value = input.number<std::uint64_t>();
  const std::uint64_t pc = input.number<std::uint64_t>();
  std::uint64_t address = 0;
  find_data_address({low, low + at, end, pc}, registers, registers[4], registers[4] + 4096, address);
}

}  // namespace

// Layout: what and where (1), a machine (64 + 4 + 17), 160 bytes of which each kind takes what it needs, the
// content.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static fuzz::GuardedBytes memory(kMaxBytes);
  Input input(bytes, size);
  const std::uint8_t what = input.byte();
  const bool at_the_end = (what & 0x80) == 0;
  const Machine machine = machine_of(input, at_the_end);
  const auto numbers = input.take(160);
  Input parameters(numbers.data(), numbers.size());
  const std::span<std::uint8_t> content = memory.hold(input.take(kMaxBytes), at_the_end);
  switch ((what & 0x7f) % 5) {
    case 0:
      sections(parameters, content, machine);
      break;
    case 1:
      programs(parameters, content, machine);
      break;
    case 2: {
      const bool has_initial = (parameters.byte() & 1) != 0;
      std::uint64_t value = 0;
      evaluate(all_of(content), machine, has_initial, parameters.number<std::uint64_t>(), value);
      break;
    }
    case 3:
      instructions(parameters, content, false);
      break;
    default:
      instructions(parameters, content, true);
      break;
  }
  return 0;
}
