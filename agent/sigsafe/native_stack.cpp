// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/native_stack.h"

#include "agent/sigsafe/cfi.h"
#include "agent/unwind/module_table.h"

namespace clusterprof::agent {
namespace {

// --- compact rules -------------------------------------------------------------------------
//
// What nearly every function's call frame information amounts to: a CFA from rsp or rbp, the return address
// just below it, and perhaps a saved rbp. One word:
//   bits 0..3 CfaKind, 4..5 RbpKind, 8..15 RBP offset / 8 (signed; threshold for kPlt),
//   16..39 CFA offset (signed), 40..63 epoch of the module table the rule was made from

enum CfaKind : unsigned {
  kEmpty = 0,
  kRsp,        // CFA = rsp + offset
  kRbp,        // CFA = rbp + offset
  kRbpLoad,    // CFA = *(rbp + offset): functions that realign their stack
  kPlt,        // CFA = rsp + offset + ((rip & 15) >= threshold ? 8 : 0): a procedure linkage table
  kOutermost,  // the return address is undefined
  kComplex,    // the row has to be computed each time
  kNoCfi,
};

enum RbpKind : unsigned { kRbpKept = 0, kRbpAtCfa, kRbpAtRbp };

constexpr std::uint64_t kEpochMask = 0xff'ffff;

constexpr std::uint64_t pack(CfaKind kind, std::int64_t cfa_offset, RbpKind rbp,
                             std::int64_t small) noexcept {
  return static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(rbp) << 4 |
         (static_cast<std::uint64_t>(small) & 0xff) << 8 |
         (static_cast<std::uint64_t>(cfa_offset) & 0xff'ffff) << 16;
}
constexpr CfaKind kind_of(std::uint64_t rule) noexcept { return static_cast<CfaKind>(rule & 15); }
constexpr RbpKind rbp_kind_of(std::uint64_t rule) noexcept { return static_cast<RbpKind>(rule >> 4 & 3); }
constexpr std::int64_t small_of(std::uint64_t rule) noexcept {
  return static_cast<std::int8_t>(rule >> 8 & 0xff);
}
constexpr std::int64_t cfa_offset_of(std::uint64_t rule) noexcept {
  return static_cast<std::int64_t>(rule << 24) >> 40;
}
static_assert(cfa_offset_of(pack(kRsp, -40, kRbpAtCfa, -2)) == -40);
static_assert(small_of(pack(kRsp, -40, kRbpAtCfa, -2)) == -2);

constexpr std::int64_t kMaxCfaOffset = (1 << 23) - 1;

struct CacheEntry {
  std::uint64_t pc;
  std::uint64_t rule;
};
constexpr unsigned kCacheBits = 12;

}  // namespace

struct NativeCache {
  CacheEntry entries[1u << kCacheBits];
};

std::uint64_t native_cache_bytes() noexcept { return sizeof(NativeCache); }

namespace {

// The linkers' expression for .plt: breg7 offset; breg16 0; lit15; and; lit<n>; ge; lit3; shl; plus.
bool match_plt(Bytes expression, std::int64_t& offset, std::int64_t& threshold) noexcept {
  const std::uint8_t* const code = expression.begin;
  if (expression.end - expression.begin != 11) return false;
  if (code[0] != 0x77 || (code[1] & 0x80) != 0 || code[2] != 0x80 || code[3] != 0 || code[4] != 0x3f ||
      code[5] != 0x1a || code[6] < 0x30 || code[6] > 0x4f || code[7] != 0x2a || code[8] != 0x33 ||
      code[9] != 0x24 || code[10] != 0x22)
    return false;
  offset = (code[1] & 0x40) != 0 ? code[1] - 0x80 : code[1];
  threshold = code[6] - 0x30;
  return true;
}

// breg6 offset, and nothing else (or deref).
bool match_rbp(Bytes expression, bool loaded, std::int64_t& offset) noexcept {
  const std::uint8_t* const code = expression.begin;
  const std::int64_t bytes = expression.end - expression.begin;
  if (bytes != (loaded ? 3 : 2) || code[0] != 0x76 || (code[1] & 0x80) != 0) return false;
  if (loaded && code[2] != 0x06) return false;
  offset = (code[1] & 0x40) != 0 ? code[1] - 0x80 : code[1];
  return true;
}

bool fits_small(std::int64_t offset) noexcept {
  return offset % 8 == 0 && offset / 8 >= -128 && offset / 8 <= 127;
}

std::uint64_t compress(const CfiRow& row, bool signal_frame) noexcept {
  constexpr std::uint64_t complex = kComplex;
  const RegisterRule& return_address = row.registers[kDwarfReturnAddress];
  if (return_address.kind == RuleKind::kUndefined) return kOutermost;
  if (signal_frame || return_address.kind != RuleKind::kOffset || return_address.value != -8) return complex;
  if (row.registers[kDwarfRsp].kind != RuleKind::kUnspecified) return complex;

  RbpKind rbp = kRbpKept;
  std::int64_t small = 0;
  const RegisterRule& saved = row.registers[kDwarfRbp];
  switch (saved.kind) {
    case RuleKind::kUnspecified:
    case RuleKind::kSameValue:
      break;
    case RuleKind::kOffset:
      if (!fits_small(saved.value)) return complex;
      rbp = kRbpAtCfa;
      small = saved.value / 8;
      break;
    case RuleKind::kExpression: {
      const auto* const code = reinterpret_cast<const std::uint8_t*>(saved.value);
      std::int64_t offset = 0;
      if (!match_rbp({code, code + saved.expression_bytes}, false, offset) || !fits_small(offset))
        return complex;
      rbp = kRbpAtRbp;
      small = offset / 8;
      break;
    }
    default:
      return complex;
  }

  if (row.cfa_is_expression) {
    std::int64_t offset = 0;
    std::int64_t threshold = 0;
    if (match_rbp(row.cfa_expression, true, offset)) return pack(kRbpLoad, offset, rbp, small);
    if (rbp == kRbpKept && match_plt(row.cfa_expression, offset, threshold))
      return pack(kPlt, offset, rbp, threshold);
    return complex;
  }
  if (row.cfa_offset > kMaxCfaOffset || row.cfa_offset < -kMaxCfaOffset) return complex;
  if (row.cfa_register == kDwarfRsp) return pack(kRsp, row.cfa_offset, rbp, small);
  if (row.cfa_register == kDwarfRbp) return pack(kRbp, row.cfa_offset, rbp, small);
  return complex;
}

bool find_row(const ModuleTable* table, std::uint64_t pc, CfiRow& row, bool& signal_frame) noexcept {
  Module module;
  Fde fde;
  if (!find_module(table, pc, module) || !find_fde(module, pc, fde)) return false;
  signal_frame = fde.signal_frame;
  return compute_row(fde, pc, row);
}

__attribute__((noinline)) std::uint64_t make_rule(const ModuleTable* table, std::uint64_t pc) noexcept {
  CfiRow row;
  bool signal_frame = false;
  return find_row(table, pc, row, signal_frame) ? compress(row, signal_frame) : std::uint64_t{kNoCfi};
}

// --- code without call frame information ---------------------------------------------------

// True when the bytes before `address`, in known code, are a call instruction.
bool is_return_address(const ModuleTable* table, std::uint64_t address) noexcept {
  Module module;
  if (!find_module(table, address - 1, module) || address - module.start < 8) return false;
  std::uint8_t code[8];  // code[8 - n] is the byte n before the address
  __builtin_memcpy(code, reinterpret_cast<const void*>(address - 8), 8);
  if (code[3] == 0xe8) return true;  // call rel32
  // call r/m64: ff /2, by length.
  const auto operand = [&](unsigned at) noexcept { return static_cast<unsigned>(code[at]); };
  const auto is_call = [&](unsigned at) noexcept {
    return code[at] == 0xff && (operand(at + 1) & 0x38) == 0x10;
  };
  const auto mode = [&](unsigned at) noexcept { return operand(at + 1) >> 6; };
  const auto base = [&](unsigned at) noexcept { return operand(at + 1) & 7; };
  if (is_call(6) && (mode(6) == 3 || (mode(6) == 0 && base(6) != 4 && base(6) != 5))) return true;
  if (is_call(5) && ((mode(5) == 1 && base(5) != 4) || (mode(5) == 0 && base(5) == 4))) return true;
  if (is_call(4) && mode(4) == 1 && base(4) == 4) return true;
  if (is_call(2) && ((mode(2) == 2 && base(2) != 4) || (mode(2) == 0 && base(2) == 5))) return true;
  return is_call(1) && mode(1) == 2 && base(1) == 4;
}

// Where the call before `return_address` goes, when the instruction says so: directly, through a procedure
// linkage table or through a table entry at a fixed place.
bool called_function(const ModuleTable* table, std::uint64_t return_address, std::uint64_t& out) noexcept {
  const auto at = [](std::uint64_t address) { return reinterpret_cast<const std::uint8_t*>(address); };
  const auto displaced = [&](std::uint64_t end) {  // a 32-bit displacement that ends at `end`, from there
    std::int32_t distance = 0;
    __builtin_memcpy(&distance, at(end - 4), 4);
    return end + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
  };
  if (at(return_address)[-6] == 0xff && at(return_address)[-5] == 0x15) {
    __builtin_memcpy(&out, at(displaced(return_address)), 8);
    return true;
  }
  if (at(return_address)[-5] != 0xe8) return false;
  out = displaced(return_address);
  Module module;
  if (!find_module(table, out, module) || module.end - out < 16) return false;
  const std::uint8_t* code = at(out);
  if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa) code += 4;  // endbr64
  if (code[0] == 0xf2) ++code;                                                              // bnd
  if (code[0] == 0xff && code[1] == 0x25)
    __builtin_memcpy(&out, at(displaced(reinterpret_cast<std::uint64_t>(code) + 6)), 8);
  return true;
}

struct Caller {
  std::uint64_t cfa, pc, rbp;
};

bool load(const Machine& machine, std::uint64_t address, std::uint64_t& out) noexcept {
  return load_word(machine, address, out);
}

// Follows the instructions from pc to a near return when there is nothing but the end of a function between
// them: stack adjustments and pops. Exact where it succeeds.
bool run_epilogue(const std::uint8_t* code, const std::uint8_t* end, const Machine& machine,
                  Caller& out) noexcept {
  std::uint64_t rsp = machine.value[kDwarfRsp];
  std::uint64_t rbp = machine.value[kDwarfRbp];
  for (unsigned steps = 0; steps < 16; ++steps) {
    std::uint8_t window[8] = {};
    const std::uint64_t room = static_cast<std::uint64_t>(end - code);
    __builtin_memcpy(window, code, room < 8 ? room : 8);
    std::int32_t wide = 0;
    __builtin_memcpy(&wide, window + 3, 4);
    unsigned bytes = 0;
    if (window[0] == 0xc3 || window[0] == 0xc2 || (window[0] == 0xf3 && window[1] == 0xc3)) {
      if (!load(machine, rsp, out.pc)) return false;
      out.cfa = rsp + 8;
      out.rbp = rbp;
      return true;
    }
    if (window[0] == 0x48 && window[1] == 0x83 && window[2] == 0xc4) {  // add $imm8, %rsp
      rsp += static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int8_t>(window[3])));
      bytes = 4;
    } else if (window[0] == 0x48 && window[1] == 0x81 && window[2] == 0xc4) {  // add $imm32, %rsp
      rsp += static_cast<std::uint64_t>(static_cast<std::int64_t>(wide));
      bytes = 7;
    } else if (window[0] == 0x48 && window[1] == 0x8d && window[2] == 0x65) {  // lea imm8(%rbp), %rsp
      rsp = rbp + static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int8_t>(window[3])));
      bytes = 4;
    } else if (window[0] == 0x48 && window[1] == 0x8d && window[2] == 0xa5) {  // lea imm32(%rbp), %rsp
      rsp = rbp + static_cast<std::uint64_t>(static_cast<std::int64_t>(wide));
      bytes = 7;
    } else if (window[0] == 0x5d) {  // pop %rbp
      if (!load(machine, rsp, rbp)) return false;
      rsp += 8;
      bytes = 1;
    } else if (window[0] >= 0x58 && window[0] <= 0x5f && window[0] != 0x5c) {  // pop
      rsp += 8;
      bytes = 1;
    } else if (window[0] == 0x41 && window[1] >= 0x58 && window[1] <= 0x5f) {  // pop %r8...%r15
      rsp += 8;
      bytes = 2;
    } else if (window[0] == 0xc9) {  // leave
      if (!load(machine, rbp, out.rbp)) return false;
      rsp = rbp + 8;
      rbp = out.rbp;
      bytes = 1;
    } else if (window[0] == 0xc5 && window[1] == 0xf8 && window[2] == 0x77) {  // vzeroupper
      bytes = 3;
    } else if (window[0] == 0x90) {
      bytes = 1;
    } else {
      return false;
    }
    if (bytes >= room) return false;
    code += bytes;
  }
  return false;
}

// The chain of saved rbp values. A link counts when it leads to a return address in known code; links through
// unknown code (JIT) must go up the stack and reach such a one. What rbp held before is not judged: a caller
// without frame pointer may keep anything there.
bool follow_frame_pointer(const ModuleTable* table, const Machine& machine, bool in_module,
                          Caller& out) noexcept {
  const std::uint64_t first = machine.value[kDwarfRbp];
  if (first < machine.value[kDwarfRsp] || first % 8 != 0) return false;
  if (!load(machine, first, out.rbp) || !load(machine, first + 8, out.pc)) return false;
  out.cfa = first + 16;
  std::uint64_t link = first;
  std::uint64_t next = out.rbp;
  std::uint64_t address = out.pc;
  for (unsigned links = 0; links < 32; ++links) {
    if (is_return_address(table, address)) return true;
    Module module;
    if (in_module || find_module(table, address, module)) return false;
    if (next <= link || next % 8 != 0) return false;
    link = next;
    if (!load(machine, link, next) || !load(machine, link + 8, address)) return false;
  }
  return false;
}

// Hand-written code (OpenBLAS kernels) often has no CFI. Its functions are found by their shape: an aligned
// address that begins like a function, after a return or jump and nothing but padding.

// Length of the no-operation instruction at code, 0 when there is none.
unsigned nop_bytes(const std::uint8_t* code, const std::uint8_t* end) noexcept {
  unsigned prefixes = 0;
  while (code + prefixes < end && (code[prefixes] == 0x66 || code[prefixes] == 0x2e)) ++prefixes;
  const std::uint8_t* const at = code + prefixes;
  if (at < end && (*at == 0x90 || (prefixes == 0 && *at == 0xcc))) return prefixes + 1;
  if (end - at < 3 || at[0] != 0x0f || at[1] != 0x1f) return 0;
  const unsigned mode = at[2] >> 6;
  const unsigned sib = (at[2] & 7) == 4 ? 1 : 0;
  const unsigned displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0;
  const unsigned bytes = prefixes + 3 + sib + displacement;
  return mode != 3 && code + bytes <= end ? bytes : 0;
}

bool follows_function(const std::uint8_t* start, const std::uint8_t* low) noexcept {
  constexpr unsigned kMaxPadding = 512;
  for (unsigned padding = 0; padding <= kMaxPadding && start - low > padding + 5; ++padding) {
    const std::uint8_t* const after = start - padding;
    if (after[-1] != 0xc3 && after[-2] != 0xeb && after[-5] != 0xe9) continue;  // ret, jmp
    const std::uint8_t* at = after;
    while (at < start) {
      const unsigned bytes = nop_bytes(at, start);
      if (bytes == 0) break;
      at += bytes;
    }
    if (at == start) return true;
  }
  return false;
}

// What a prologue did: how far it moved rsp and where, relative to the CFA, it saved rbp (0: nowhere).
struct Prologue {
  std::int64_t depth = 8;
  std::int64_t rbp_at = 0;
  unsigned base = kDwarfRsp;  // the register that was given rsp, when one was, at
  std::int64_t base_depth = 0;
};

// Runs the pushes, rsp adjustments, register saves and argument loads from `code`, up to `stop` at the
// latest.
Prologue read_prologue(const std::uint8_t* code, const std::uint8_t* stop) noexcept {
  Prologue result;
  for (;;) {
    const std::int64_t room = stop - code;
    if (room <= 0) return result;
    std::uint8_t window[8] = {};
    __builtin_memcpy(window, code, room < 8 ? static_cast<std::uint64_t>(room) : 8);
    std::int64_t bytes = 0;
    std::int64_t depth = result.depth;
    std::int64_t rbp_at = result.rbp_at;
    unsigned base = result.base;
    const bool wide = (window[0] & 0xfb) == 0x48;  // REX.W, perhaps REX.R
    if (window[0] >= 0x50 && window[0] <= 0x57) {
      bytes = 1;
      depth += 8;
      if (window[0] == 0x55) rbp_at = -depth;
    } else if (window[0] == 0x41 && window[1] >= 0x50 && window[1] <= 0x57) {
      bytes = 2;
      depth += 8;
    } else if (window[0] == 0x48 && window[1] == 0x83 && window[2] == 0xec) {
      bytes = 4;
      depth += static_cast<std::int8_t>(window[3]);
    } else if (window[0] == 0x48 && window[1] == 0x81 && window[2] == 0xec) {
      std::int32_t amount = 0;
      __builtin_memcpy(&amount, window + 3, 4);
      bytes = 7;
      depth += amount;
    } else if (window[0] == 0xf3 && window[1] == 0x0f && window[2] == 0x1e && window[3] == 0xfa) {
      bytes = 4;  // endbr64
    } else if (window[0] == 0xc5 && window[1] == 0xf8 && window[2] == 0x77) {
      bytes = 3;  // vzeroupper
    } else if (window[0] == 0x0f && window[1] == 0x77) {
      bytes = 2;  // emms
    } else if ((window[0] == 0x48 || window[0] == 0x49) && window[1] == 0x89 && (window[2] & 0xf8) == 0xe0) {
      static constexpr std::uint8_t kNumbers[8] = {0, 2, 1, 3, 7, 6, 4, 5};  // from instruction encoding
      const unsigned number = window[0] == 0x49 ? 8u + (window[2] & 7u) : kNumbers[window[2] & 7];
      bytes = 3;  // mov %rsp, %reg
      if (base == kDwarfRsp) {
        base = number;
        result.base_depth = depth;
      }
    } else if (wide && (window[1] == 0x89 || window[1] == 0x8b) && (window[2] & 7) == 4 &&
               window[3] == 0x24) {
      // mov between a register and displacement(%rsp)
      const unsigned mode = window[2] >> 6;
      if (mode == 3) return result;
      const std::int64_t displacement = mode == 1 ? static_cast<std::int8_t>(window[4]) : 0;
      bytes = mode == 0 ? 4 : mode == 1 ? 5 : 8;
      const unsigned number = window[2] >> 3 & 7;
      if (window[1] == 0x8b && window[0] == 0x48 && (number == 4 || number == 5)) return result;
      if (window[1] == 0x89 && mode != 2 && window[0] == 0x48 && number == 5) rbp_at = displacement - depth;
    } else {
      return result;
    }
    if (bytes > room) return result;
    code += bytes;
    result.depth = depth;
    result.rbp_at = rbp_at;
    result.base = base;
  }
}

constexpr std::uint64_t kMaxFunctionBytes = 64 << 10;

// Finds the start of the function and undoes its prologue. A function that realigned its stack keeps the
// value rsp had after the prologue in a register. Only a return address that follows a call is accepted.
bool run_prologue(const ModuleTable* table, const Module& module, std::uint64_t pc, const Machine& machine,
                  Caller& out) noexcept {
  const std::uint64_t low = pc - module.start > kMaxFunctionBytes ? pc - kMaxFunctionBytes : module.start;
  for (std::uint64_t start = pc & ~std::uint64_t{15}; start > low; start -= 16) {
    const auto* const code = reinterpret_cast<const std::uint8_t*>(start);
    const Prologue prologue = read_prologue(code, reinterpret_cast<const std::uint8_t*>(pc));
    if (prologue.depth <= 8) continue;  // makes no frame; leaves are returned from without this
    if (!follows_function(code, reinterpret_cast<const std::uint8_t*>(low))) continue;
    // rbp frames have their own step; and before code with CFI is no function around pc.
    Fde fde;
    if (prologue.base == kDwarfRbp || find_fde(module, start, fde)) return false;
    // rsp, unless it was copied: then it may have been realigned since.
    const unsigned base = prologue.base;
    if ((machine.known >> base & 1) == 0 || machine.value[base] < machine.value[kDwarfRsp]) continue;
    const std::int64_t depth = base == kDwarfRsp ? prologue.depth : prologue.base_depth;
    const std::uint64_t cfa = machine.value[base] + static_cast<std::uint64_t>(depth);
    if (!load(machine, cfa - 8, out.pc) || !is_return_address(table, out.pc)) continue;
    std::uint64_t called = 0;
    if (called_function(table, out.pc, called) && called != start) continue;
    out.cfa = cfa;
    out.rbp = machine.value[kDwarfRbp];
    return prologue.rbp_at == 0 || load(machine, cfa + static_cast<std::uint64_t>(prologue.rbp_at), out.rbp);
  }
  return false;
}

// End of the first stack: argc, argv[0...argc), null.
bool is_process_entry(const Machine& machine) noexcept {
  const std::uint64_t sp = machine.value[kDwarfRsp];
  std::uint64_t count = 0;
  std::uint64_t word = 0;
  if (!load(machine, sp, count) || count == 0 || count > 1'000'000) return false;
  if (!load(machine, sp + 8, word) || word <= sp || word >= machine.stack_high) return false;
  return load(machine, sp + 8 * (count + 1), word) && word == 0;
}

bool is_sigreturn(const Module& module, std::uint64_t pc) noexcept {
  if (pc < module.start || module.end - pc < 9) return false;
  // mov $15, %rax; syscall
  static constexpr std::uint8_t kCode[9] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  const auto* const code = reinterpret_cast<const std::uint8_t*>(pc);
  for (unsigned i = 0; i < sizeof(kCode); ++i)
    if (code[i] != kCode[i]) return false;
  return true;
}

// --- the walk ------------------------------------------------------------------------------

enum class Step : std::uint8_t {
  kFrame,         // the machine is now that of the caller
  kEnd,           // this frame was the outermost
  kLost,          // no way on
  kNeedsPrecise,  // a rule refers to a register that the quick walk does not follow
};

constexpr std::uint32_t bit(std::uint32_t number) noexcept { return 1u << number; }
constexpr std::uint32_t kAlways = bit(kDwarfRsp) | bit(kDwarfRbp) | bit(kDwarfReturnAddress);
constexpr std::uint32_t kCalleeSaved = bit(kDwarfRbx) | bit(kDwarfRbp) | bit(kDwarfR12) | bit(kDwarfR12 + 1) |
                                       bit(kDwarfR12 + 2) | bit(kDwarfR12 + 3);
constexpr std::uint64_t kUnknownStackBytes = 8ull << 20;

constexpr bool is_user_address(std::uint64_t address) noexcept {
  return address >= 4096 && address < std::uint64_t{1} << 47;
}

struct Walk {
  const ModuleTable* table;
  NativeCache* cache;
  std::uint64_t stack_low, stack_high;  // of the thread, 0 when unknown
  Machine machine;
  bool exact;    // pc is an interrupted instruction, not a return address
  bool trusted;  // pc came from call frame information or the kernel
  bool precise;  // follow all callee-saved registers
  unsigned stack_changes;
  std::uint64_t return_slot;  // where the pc was read from

  std::uint64_t& pc() noexcept { return machine.value[kDwarfReturnAddress]; }
  std::uint64_t& sp() noexcept { return machine.value[kDwarfRsp]; }
  std::uint64_t& rbp() noexcept { return machine.value[kDwarfRbp]; }

  void use_stack_of(std::uint64_t address) noexcept {
    if (address >= stack_low && address < stack_high) {
      machine.stack_low = stack_low;
      machine.stack_high = stack_high;
    } else {
      machine.stack_low = address;
      machine.stack_high =
          address + kUnknownStackBytes < address ? ~std::uint64_t{0} : address + kUnknownStackBytes;
    }
  }

  void start(const Registers& from) noexcept {
    std::uint64_t* const value = machine.value;
    value[kDwarfRbx] = from.rbx, value[kDwarfRbp] = from.rbp, value[kDwarfRsp] = from.rsp;
    value[kDwarfR10] = from.r10, value[kDwarfR12] = from.r12, value[kDwarfR12 + 1] = from.r13;
    value[kDwarfR12 + 2] = from.r14, value[kDwarfR12 + 3] = from.r15;
    value[kDwarfReturnAddress] = from.rip;
    machine.known = kAlways | kCalleeSaved | bit(kDwarfR10);
    exact = true;
    trusted = true;
    stack_changes = 0;
    return_slot = 0;
    use_stack_of(from.rsp);
  }

  std::uint64_t rule_for(std::uint64_t lookup) noexcept {
    const std::uint64_t epoch = table->epoch & kEpochMask;
    if (cache == nullptr) return make_rule(table, lookup);
    CacheEntry& entry = cache->entries[lookup * 0x9e37'79b9'7f4a'7c15ull >> (64 - kCacheBits)];
    if (entry.pc == lookup && entry.rule >> 40 == epoch && kind_of(entry.rule) != kEmpty) return entry.rule;
    const std::uint64_t rule = make_rule(table, lookup);
    // A fault or signal between the stores must not leave another pc's rule behind.
    entry.rule = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    entry.pc = lookup;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    entry.rule = rule | epoch << 40;
    return rule;
  }

  // A CFA beyond the end of the stack ends the walk: properly when it is the very end.
  Step beyond(std::uint64_t cfa) const noexcept {
    return cfa >= machine.stack_high && cfa - machine.stack_high <= 64 ? Step::kEnd : Step::kLost;
  }

  Step quick_step(std::uint64_t rule) noexcept {
    std::uint64_t cfa = static_cast<std::uint64_t>(cfa_offset_of(rule));
    switch (kind_of(rule)) {
      case kRsp:
        cfa += sp();
        break;
      case kRbp:
        cfa += rbp();
        break;
      case kRbpLoad:
        if (!load(machine, rbp() + cfa, cfa)) return Step::kLost;
        break;
      default:
        cfa += sp() + ((pc() & 15) >= static_cast<std::uint64_t>(small_of(rule)) ? 8 : 0);
        break;
    }
    if (cfa <= sp()) return Step::kLost;
    std::uint64_t next = 0;
    if (!load(machine, cfa - 8, next)) return beyond(cfa);
    const std::uint64_t offset = static_cast<std::uint64_t>(small_of(rule) * 8);
    switch (rbp_kind_of(rule)) {
      case kRbpKept:
        break;
      case kRbpAtCfa:
        if (!load(machine, cfa + offset, rbp())) return Step::kLost;
        break;
      case kRbpAtRbp:
        if (!load(machine, rbp() + offset, rbp())) return Step::kLost;
        break;
    }
    machine.known = kAlways;
    pc() = next;
    sp() = cfa;
    return_slot = cfa - 8;
    exact = false;
    trusted = true;
    return next == 0 ? Step::kEnd : Step::kFrame;
  }

  Step unknown_register() const noexcept { return precise ? Step::kLost : Step::kNeedsPrecise; }

  // Restores every register that the row describes.
  __attribute__((noinline)) Step full_step(std::uint64_t lookup) noexcept {
    CfiRow row;
    bool signal_frame = false;
    if (!find_row(table, lookup, row, signal_frame)) return Step::kLost;
    if (row.registers[kDwarfReturnAddress].kind == RuleKind::kUndefined) return Step::kEnd;
    std::uint64_t cfa = 0;
    if (row.cfa_is_expression) {
      const Evaluation result = evaluate(row.cfa_expression, machine, false, 0, cfa);
      if (result == Evaluation::kUnknownRegister) return unknown_register();
      if (result == Evaluation::kFailed) return Step::kLost;
    } else {
      if (row.cfa_register >= kDwarfRegisters) return Step::kLost;
      if ((machine.known & bit(row.cfa_register)) == 0) return unknown_register();
      cfa = machine.value[row.cfa_register] + static_cast<std::uint64_t>(row.cfa_offset);
    }
    if (!signal_frame && cfa <= sp()) return Step::kLost;

    Machine caller = machine;
    caller.known = machine.known & (signal_frame ? ~0u : kCalleeSaved);
    caller.known |= bit(kDwarfRsp);
    caller.value[kDwarfRsp] = cfa;
    return_slot = 0;
    for (std::uint32_t number = 0; number < kDwarfRegisters; ++number) {
      const RegisterRule& rule = row.registers[number];
      std::uint64_t value = 0;
      switch (rule.kind) {
        case RuleKind::kUnspecified:
        case RuleKind::kSameValue:
          continue;
        case RuleKind::kUndefined:
          caller.known &= ~bit(number);
          continue;
        case RuleKind::kOffset: {
          const std::uint64_t slot = cfa + static_cast<std::uint64_t>(rule.value);
          if (!load(machine, slot, value)) return number == kDwarfReturnAddress ? beyond(cfa) : Step::kLost;
          if (number == kDwarfReturnAddress) return_slot = slot;
          break;
        }
        case RuleKind::kValueOffset:
          value = cfa + static_cast<std::uint64_t>(rule.value);
          break;
        case RuleKind::kRegister:
          if (rule.value < 0 || rule.value >= static_cast<std::int64_t>(kDwarfRegisters)) return Step::kLost;
          if ((machine.known & bit(static_cast<std::uint32_t>(rule.value))) == 0) {
            if (number != kDwarfReturnAddress && number != kDwarfRbp) {
              caller.known &= ~bit(number);
              continue;
            }
            return unknown_register();
          }
          value = machine.value[rule.value];
          break;
        case RuleKind::kExpression:
        case RuleKind::kValueExpression: {
          const auto* const code = reinterpret_cast<const std::uint8_t*>(rule.value);
          const Evaluation result = evaluate({code, code + rule.expression_bytes}, machine, true, cfa, value);
          if (result == Evaluation::kUnknownRegister) return unknown_register();
          if (result == Evaluation::kFailed) return Step::kLost;
          if (rule.kind == RuleKind::kExpression) {
            const std::uint64_t slot = value;
            if (!load(machine, slot, value)) return Step::kLost;
            if (number == kDwarfReturnAddress && !signal_frame) return_slot = slot;
          }
          break;
        }
      }
      caller.value[number] = value;
      caller.known |= bit(number);
    }
    if (row.registers[kDwarfReturnAddress].kind == RuleKind::kUnspecified) return Step::kLost;
    const std::uint64_t previous_sp = sp();
    machine = caller;
    exact = signal_frame;
    trusted = true;
    return settle(previous_sp, signal_frame);
  }

  // After a frame that put rsp somewhere.
  Step settle(std::uint64_t previous_sp, bool signal_frame) noexcept {
    const bool same_stack = sp() >= machine.stack_low && sp() <= machine.stack_high && sp() > previous_sp;
    if (!same_stack) {
      // A handler on an alternate stack; once, so that a damaged stack cannot lead in circles.
      if (!signal_frame || ++stack_changes > 1) return Step::kLost;
      use_stack_of(sp());
    }
    return pc() == 0 ? Step::kEnd : Step::kFrame;
  }

  // The kernel's signal frame, for a sigreturn trampoline without call frame information. rsp points to the
  // ucontext_t; its general registers begin at 40.
  Step signal_step() noexcept {
    static constexpr std::uint8_t kOrder[17] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};
    const std::uint64_t registers_at = sp() + 40;
    const std::uint64_t previous_sp = sp();
    Machine caller = machine;
    for (unsigned i = 0; i < 17; ++i)
      if (!load(machine, registers_at + 8 * i, caller.value[kOrder[i]])) return Step::kLost;
    caller.known = (1u << kDwarfRegisters) - 1;
    machine = caller;
    exact = true;
    trusted = true;
    return_slot = 0;
    return settle(previous_sp, true);
  }

  void take(const Caller& caller) noexcept {
    pc() = caller.pc;
    sp() = caller.cfa;
    rbp() = caller.rbp;
    machine.known = kAlways;
    return_slot = caller.cfa - 8;
    exact = false;
  }

  __attribute__((noinline)) Step step_without_cfi() noexcept {
    const std::uint64_t address = pc();
    Module module;
    const bool in_module = find_module(table, exact ? address : address - 1, module);
    if (in_module && is_sigreturn(module, address)) return signal_step();
    if (!exact && is_process_entry(machine)) return Step::kEnd;

    Caller caller{};
    // A pc that call frame information led to is code, mapped or not known to the loader.
    if (in_module || (trusted && is_user_address(address))) {
      const auto* const code = reinterpret_cast<const std::uint8_t*>(address);
      const auto* const end = in_module ? reinterpret_cast<const std::uint8_t*>(module.end) : code + 64;
      if (code < end && run_epilogue(code, end, machine, caller) && is_return_address(table, caller.pc)) {
        take(caller);
        return Step::kFrame;
      }
    }
    // The return address on top of the stack: certain when its call goes to the function around pc, otherwise
    // worth a try after what is more specific.
    Caller leaf{sp() + 8, 0, rbp()};
    const bool may_be_leaf = exact && load(machine, sp(), leaf.pc) && is_return_address(table, leaf.pc);
    std::uint64_t called = 0;
    if (may_be_leaf && in_module && called_function(table, leaf.pc, called) && called <= address &&
        called >= module.start && address - called < kMaxFunctionBytes) {
      take(leaf);
      return Step::kFrame;
    }
    trusted = false;
    if (in_module && run_prologue(table, module, address, machine, caller)) {
      take(caller);
      return Step::kFrame;
    }
    if (may_be_leaf) {
      take(leaf);
      return Step::kFrame;
    }
    if (follow_frame_pointer(table, machine, in_module, caller)) {
      take(caller);
      return Step::kFrame;
    }
    return Step::kLost;
  }

  Step step() noexcept {
    const std::uint64_t lookup = exact ? pc() : pc() - 1;
    const std::uint64_t rule = rule_for(lookup);
    switch (kind_of(rule)) {
      case kRsp:
      case kRbp:
      case kRbpLoad:
      case kPlt:
        return precise ? full_step(lookup) : quick_step(rule);
      case kOutermost:
        return Step::kEnd;
      case kComplex:
        return full_step(lookup);
      default:
        return step_without_cfi();
    }
  }
};

// Stores of the frames must not sink below the count: a fault may end the walk at any load.
inline void publish_count(NativeStack& out, std::uint32_t count) noexcept {
  __atomic_store_n(&out.count, count, __ATOMIC_RELEASE);
}

}  // namespace

void walk_native(const Registers& registers, std::uint64_t stack_low, std::uint64_t stack_high,
                 NativeCache* cache, NativeStack& out) noexcept {
  __atomic_store_n(&out.truncated, true, __ATOMIC_RELEASE);
  publish_count(out, 0);
  Walk walk;
  walk.table = module_table();
  if (walk.table == nullptr) return;
  walk.cache = cache;
  walk.stack_low = stack_low;
  walk.stack_high = stack_high;
  walk.precise = false;
  walk.start(registers);
  std::uint32_t count = 0;
  for (;;) {
    if (count == kMaxNativeFrames || (count != 0 && !is_user_address(walk.pc()))) return;
    out.frames[count].pc = walk.pc() + (walk.exact && count != 0 ? 1 : 0);
    out.frames[count].sp = walk.sp();
    out.return_slot[count] = count == 0 ? 0 : walk.return_slot;
    publish_count(out, ++count);
    switch (walk.step()) {
      case Step::kFrame:
        break;
      case Step::kEnd:
        out.truncated = false;
        return;
      case Step::kLost:
        return;
      case Step::kNeedsPrecise:
        walk.precise = true;
        walk.start(registers);
        count = 0;
        break;
    }
  }
}

bool find_function_range(std::uint64_t pc, std::uint64_t& begin, std::uint64_t& end) noexcept {
  const ModuleTable* const table = module_table();
  Module module;
  Fde fde;
  if (table == nullptr || !find_module(table, pc, module) || !find_fde(module, pc, fde)) return false;
  begin = fde.begin;
  end = fde.end;
  return true;
}

}  // namespace clusterprof::agent
