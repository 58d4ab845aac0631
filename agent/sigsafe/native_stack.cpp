// SPDX-License-Identifier: BSD-3-Clause
// The native walk: for each frame a rule says where its caller's frame is. Rules come from call frame
// information or, where a function has none, from its instructions (code_flow.h); they are remembered by pc.
#include "agent/sigsafe/native_stack.h"

#include "agent/sigsafe/cfi.h"
#include "agent/sigsafe/code_flow.h"
#include "agent/sigsafe/dwarf_expression.h"
#include "agent/sigsafe/modules.h"

namespace clusterprof::agent {
namespace {

// --- compact rules -------------------------------------------------------------------------
//
// What nearly every function's call frame information amounts to: a CFA from rsp or rbp, the return address
// just below it, and perhaps a saved rbp. One word:
//   bits 0..3 CfaKind, 4..5 RbpKind, 6 derived from the code, 7 of code that no module holds, 8..15 RBP
//   offset / 8 (signed; threshold for kPlt), 16..39 CFA offset (signed; kRegister: 16..35, and its register
//   in 36..39), 40..63 epoch of the module table the rule was made from

enum CfaKind : unsigned {
  kEmpty = 0,
  kRsp,        // CFA = rsp + offset
  kRbp,        // CFA = rbp + offset
  kRbpLoad,    // CFA = *(rbp + offset): functions that realign their stack
  kPlt,        // CFA = rsp + offset + ((rip & 15) >= threshold ? 8 : 0): a procedure linkage table
  kRegister,   // CFA = some other register + offset
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

// For code without call frame information. Whether the caller also has none is checked each time.
constexpr std::uint64_t kDerived = 1u << 6;
// No epoch tells when such code (JIT) is replaced, so its bytes are compared.
constexpr std::uint64_t kGenerated = 1u << 7;

constexpr std::uint32_t register_of(std::uint64_t rule) noexcept {
  return static_cast<std::uint32_t>(rule >> 36 & 15);
}
constexpr std::int64_t register_offset_of(std::uint64_t rule) noexcept {
  return static_cast<std::int64_t>(rule << 28) >> 44;
}
constexpr std::uint64_t pack_register(std::uint32_t number, std::int64_t cfa_offset, RbpKind rbp,
                                      std::int64_t small) noexcept {
  return pack(kRegister, (cfa_offset & 0xf'ffff) | static_cast<std::int64_t>(number) << 20, rbp, small);
}
static_assert(register_offset_of(pack_register(13, -40, kRbpAtCfa, -2)) == -40);
static_assert(register_of(pack_register(13, -40, kRbpAtCfa, -2)) == 13);

constexpr std::int64_t kMaxCfaOffset = (1 << 23) - 1;
constexpr std::int64_t kMaxRegisterOffset = (1 << 19) - 1;

struct CacheEntry {
  std::uint64_t pc;
  std::uint64_t rule;
};
constexpr unsigned kCacheBits = 12;
constexpr unsigned kFirstBits =
    9;  // of the part that is used first: most threads touch two pages, not sixteen

// One frame of the last walk: the registers on arrival at the frame, and where rbp was read from.
struct WalkedFrame {
  std::uint64_t pc, sp, rbp;
  std::uint64_t rbp_slot;  // or one of:
};
constexpr std::uint64_t kRbpNotRead = 0;
constexpr std::uint64_t kNotRepeatable = 1;  // by more than a return address and an rbp

}  // namespace

struct NativeCache {
  CacheEntry entries[1u << kCacheBits];
  // The last walk, outermost frame last, in [first, kMaxNativeFrames).
  WalkedFrame walked[kMaxNativeFrames];
  WalkedFrame fresh[kMaxNativeFrames];  // of the walk that goes on, leaf first
  std::uint64_t stack_high;
  std::uint32_t frames;  // kMaxNativeFrames - first
  std::uint32_t epoch;
  bool complete;  // the last one ends the stack, whatever memory holds
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

  if (row.cfa_is_loaded)
    return row.cfa_register == kDwarfRbp && row.cfa_offset >= -kMaxCfaOffset &&
                   row.cfa_offset <= kMaxCfaOffset
               ? pack(kRbpLoad, row.cfa_offset, rbp, small)
               : complex;
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
  if (row.cfa_register < 16 && row.cfa_offset <= kMaxRegisterOffset && row.cfa_offset >= -kMaxRegisterOffset)
    return pack_register(row.cfa_register, row.cfa_offset, rbp, small);
  return complex;
}

// --- code without call frame information ---------------------------------------------------

// True if the bytes before `address` are a call instruction, either in known code or, if `from` is in unknown
// code (JIT), near `from`.
bool is_return_address(const ModuleTable* table, std::uint64_t address, std::uint64_t from = 0) noexcept {
  constexpr std::uint64_t kNearBytes = 1 << 20;
  Module module;
  if (find_module(table, address - 1, module)) {
    if (address - module.start < 8) return false;
  } else if (address - 4096 >= (std::uint64_t{1} << 47) - 4096 ||
             address - from + kNearBytes >= 2 * kNearBytes || find_module(table, from, module)) {
    return false;
  }
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

struct Caller {
  std::uint64_t cfa, pc, rbp;
};

bool load(const Machine& machine, std::uint64_t address, std::uint64_t& out) noexcept {
  return load_word(machine, address, out);
}

// Follows the chain of saved rbp values. A link counts if it leads to a return address in known code. Links
// through unknown code (JIT) must go up the stack and reach such an address. The previous value of rbp is not
// checked: a caller without frame pointer may keep anything there.
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

// --- rules ---------------------------------------------------------------------------------

// For an interrupted instruction. The effect of a return is known whatever the call frame information says.
bool is_return(const Module& module, std::uint64_t pc, CfiRow& row) noexcept {
  if (module.end - pc < 2) return false;
  const auto* const code = reinterpret_cast<const std::uint8_t*>(pc);
  if (code[0] != 0xc3 && code[0] != 0xc2 && (code[0] != 0xf3 || code[1] != 0xc3)) return false;
  __builtin_memset(&row, 0, sizeof(row));
  row.cfa_register = kDwarfRsp;
  row.cfa_offset = 8;
  row.registers[kDwarfReturnAddress] = {RuleKind::kOffset, 0, -8};
  return true;
}

// mov %rsp, %rbp: before it ran, rbp is the caller's. For functions that realign their stack, GCC says too
// early that rbp points to where it was saved, and again after they have restored it.
bool is_frame_pointer_set_up(const Module& module, std::uint64_t pc) noexcept {
  const auto* const code = reinterpret_cast<const std::uint8_t*>(pc);
  return module.end - pc >= 3 && code[0] == 0x48 && code[1] == 0x89 && code[2] == 0xe5;
}

enum class Source : std::uint8_t { kNone, kCfi, kCode, kGeneratedCode, kStart };

// The row for `lookup`: the address of an interrupted instruction if exact, else the last byte of a call.
Source find_row(const ModuleTable* table, std::uint64_t lookup, bool exact, CfiRow& row,
                bool& signal_frame) noexcept {
  signal_frame = false;
  const std::uint64_t pc = exact ? lookup : lookup + 1;
  constexpr std::uint64_t kUnknownCodeBytes = 64 << 10;
  std::uint64_t low = pc - kUnknownCodeBytes;
  std::uint64_t high = pc + kUnknownCodeBytes;
  Module module;
  const bool in_module = find_module(table, lookup, module);
  if (in_module) {
    Fde fde;
    if (exact && is_return(module, pc, row)) return Source::kCfi;
    if (find_fde(module, lookup, fde)) {
      signal_frame = fde.signal_frame;
      if (!compute_row(fde, lookup, row)) return Source::kNone;
      if (exact && row.registers[kDwarfRbp].kind == RuleKind::kExpression && row.cfa_register == kDwarfR10 &&
          !row.cfa_is_expression) {
        CfiRow derived;
        if (is_frame_pointer_set_up(module, pc)) {
          row.registers[kDwarfRbp] = {};
        } else if (derive_row(pc, fde.begin, fde.end, derived)) {
          row.registers[kDwarfRbp] = derived.registers[kDwarfRbp];
        }
      }
      return Source::kCfi;
    }
    // makecontext and its like put the address of a function where a return address is expected.
    if (!exact && find_fde(module, pc, fde) && fde.begin == pc && !is_return_address(table, pc))
      return Source::kStart;
    if (is_sigreturn(module, pc)) return Source::kNone;
    low = module.start;
    high = module.end;
  } else if (pc < 2 * kUnknownCodeBytes || pc >= (std::uint64_t{1} << 47) - kUnknownCodeBytes) {
    return Source::kNone;
  }
  if (!derive_row(pc, low, high, row)) return Source::kNone;
  return in_module ? Source::kCode : Source::kGeneratedCode;
}

__attribute__((noinline)) std::uint64_t make_rule(const ModuleTable* table, std::uint64_t lookup,
                                                  bool exact) noexcept {
  CfiRow row;
  bool signal_frame = false;
  const Source source = find_row(table, lookup, exact, row, signal_frame);
  if (source == Source::kNone) return kNoCfi;
  if (source == Source::kStart) return kOutermost;
  const std::uint64_t rule = compress(row, signal_frame);
  if (source == Source::kCfi) return rule;
  if (kind_of(rule) == kComplex) return kNoCfi;
  return rule | kDerived | (source == Source::kGeneratedCode ? kGenerated : 0);
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

// The general registers in a signal frame, in DWARF's numbers.
constexpr std::uint8_t kSavedOrder[kDwarfRegisters] = {8, 9, 10, 11, 12, 13, 14, 15, 5,
                                                       4, 6, 3,  1,  0,  2,  7,  16};

struct Walk {
  const ModuleTable* table;
  NativeCache* cache;
  std::uint64_t stack_low, stack_high;  // of the thread, 0 when unknown
  Machine machine;
  bool exact;      // pc is an interrupted instruction, not a return address
  bool precise;    // follow all callee-saved registers
  bool uncertain;  // somewhere only a chain of frame pointers led on
  bool ended_by_rule;
  std::uint64_t rbp_slot;  // of the last step, as in WalkedFrame
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
      constexpr std::uint64_t kRedZoneBytes = 128;  // what was popped is still there, and may be asked for
      machine.stack_low = address - kRedZoneBytes;
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
    if (precise && from.interrupted != nullptr) {
      for (unsigned i = 0; i < kDwarfRegisters; ++i)
        value[kSavedOrder[i]] = static_cast<std::uint64_t>(from.interrupted[i]);
      machine.known = (1u << kDwarfRegisters) - 1;
    }
    exact = true;
    uncertain = false;
    ended_by_rule = false;
    rbp_slot = kNotRepeatable;
    stack_changes = 0;
    return_slot = 0;
    use_stack_of(from.rsp);
  }

  std::uint64_t rule_for(std::uint64_t lookup) noexcept {
    if (cache == nullptr) return make_rule(table, lookup, exact);
    CacheEntry& entry = entry_of(lookup);
    if (entry.pc == lookup && kind_of(entry.rule) != kEmpty && entry.rule >> 40 == stamp(entry.rule))
      return entry.rule;
    const std::uint64_t rule = make_rule(table, lookup, exact);
    remember(entry, lookup, rule);
    return rule;
  }

  void remember(CacheEntry& entry, std::uint64_t lookup, std::uint64_t rule) const noexcept {
    // A fault or signal between the stores must not leave another pc's rule behind.
    entry.rule = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    entry.pc = lookup;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    entry.rule = rule | stamp(rule) << 40;
  }

  std::uint64_t stamp(std::uint64_t rule) const noexcept {
    const std::uint64_t epoch = table->epoch & kEpochMask;
    if ((rule & kGenerated) == 0) return epoch;
    std::uint64_t code;
    __builtin_memcpy(&code, reinterpret_cast<const void*>(machine.value[kDwarfReturnAddress]), 8);
    return ((code + epoch) * 0x9e37'79b9'7f4a'7c15ull) >> 40;
  }

  CacheEntry& entry_of(std::uint64_t lookup) const noexcept {
    const std::uint64_t hash = lookup * 0x9e37'79b9'7f4a'7c15ull;
    CacheEntry& first = cache->entries[hash >> (64 - kFirstBits)];
    if (first.pc == lookup || kind_of(first.rule) == kEmpty) return first;
    return cache->entries[hash >> (64 - kCacheBits)];
  }

  // A CFA beyond the end of the stack ends the walk: properly when it is the very end.
  Step beyond(std::uint64_t cfa) const noexcept {
    return cfa >= machine.stack_high && cfa - machine.stack_high <= 64 ? Step::kEnd : Step::kLost;
  }

  Step quick_step(std::uint64_t rule) noexcept {
    std::uint64_t cfa = static_cast<std::uint64_t>(cfa_offset_of(rule));
    std::uint64_t from_rbp = kRbpNotRead;
    switch (kind_of(rule)) {
      case kRsp:
        cfa += sp();
        break;
      case kRbp:
        cfa += rbp();
        break;
      case kRbpLoad:
        if (!load(machine, rbp() + cfa, cfa)) return Step::kLost;
        from_rbp = kNotRepeatable;
        break;
      case kRegister: {
        const std::uint32_t number = register_of(rule);
        if ((machine.known & bit(number)) == 0) return unknown_register();
        cfa = machine.value[number] + static_cast<std::uint64_t>(register_offset_of(rule));
        from_rbp = kNotRepeatable;
        break;
      }
      default:
        cfa += sp() + ((pc() & 15) >= static_cast<std::uint64_t>(small_of(rule)) ? 8 : 0);
        break;
    }
    if (cfa <= sp()) return Step::kLost;
    std::uint64_t next = 0;
    if (!load(machine, cfa - 8, next)) return beyond(cfa);
    if ((rule & kDerived) != 0 && !is_return_address(table, next, pc())) return Step::kLost;
    const std::uint64_t offset = static_cast<std::uint64_t>(small_of(rule) * 8);
    std::uint64_t saved_at = 0;
    switch (rbp_kind_of(rule)) {
      case kRbpKept:
        break;
      case kRbpAtCfa:
        saved_at = cfa + offset;
        break;
      case kRbpAtRbp:
        saved_at = rbp() + offset;
        break;
    }
    if (saved_at != 0) {
      if (!load(machine, saved_at, rbp())) return Step::kLost;
      if (from_rbp == kRbpNotRead) from_rbp = saved_at;
    }
    rbp_slot = from_rbp;
    machine.known = kAlways;
    pc() = next;
    sp() = cfa;
    return_slot = cfa - 8;
    exact = false;
    return next == 0 ? Step::kEnd : Step::kFrame;
  }

  Step unknown_register() const noexcept { return precise ? Step::kLost : Step::kNeedsPrecise; }

  // Here and in the next two: kFrame if it was found.
  Step step_of(Evaluation evaluation) const noexcept {
    if (evaluation == Evaluation::kUnknownRegister) return unknown_register();
    return evaluation == Evaluation::kOk ? Step::kFrame : Step::kLost;
  }

  Step find_cfa(const CfiRow& row, std::uint64_t& cfa) const noexcept {
    if (row.cfa_is_expression) return step_of(evaluate(row.cfa_expression, machine, false, 0, cfa));
    if (row.cfa_register >= kDwarfRegisters) return Step::kLost;
    if ((machine.known & bit(row.cfa_register)) == 0) return unknown_register();
    cfa = machine.value[row.cfa_register] + static_cast<std::uint64_t>(row.cfa_offset);
    return row.cfa_is_loaded && !load(machine, cfa, cfa) ? Step::kLost : Step::kFrame;
  }

  // Sets the caller's register by its rule.
  Step restore_register(std::uint32_t number, const RegisterRule& rule, std::uint64_t cfa, bool signal_frame,
                        Machine& caller) noexcept {
    const bool of_return_address = number == kDwarfReturnAddress;
    std::uint64_t value = 0;
    switch (rule.kind) {
      case RuleKind::kUnspecified:
      case RuleKind::kSameValue:
        return Step::kFrame;
      case RuleKind::kUndefined:
        caller.known &= ~bit(number);
        return Step::kFrame;
      case RuleKind::kOffset: {
        const std::uint64_t slot = cfa + static_cast<std::uint64_t>(rule.value);
        if (!load(machine, slot, value)) return of_return_address ? beyond(cfa) : Step::kLost;
        if (of_return_address) return_slot = slot;
        break;
      }
      case RuleKind::kValueOffset:
        value = cfa + static_cast<std::uint64_t>(rule.value);
        break;
      case RuleKind::kRegister:
        if (rule.value < 0 || rule.value >= static_cast<std::int64_t>(kDwarfRegisters)) return Step::kLost;
        if ((machine.known & bit(static_cast<std::uint32_t>(rule.value))) == 0) {
          if (of_return_address || number == kDwarfRbp) return unknown_register();
          caller.known &= ~bit(number);
          return Step::kFrame;
        }
        value = machine.value[rule.value];
        break;
      case RuleKind::kExpression:
      case RuleKind::kValueExpression: {
        const auto* const code = reinterpret_cast<const std::uint8_t*>(rule.value);
        const Step found = step_of(evaluate({code, code + rule.expression_bytes}, machine, true, cfa, value));
        if (found != Step::kFrame) return found;
        if (rule.kind == RuleKind::kExpression) {
          const std::uint64_t slot = value;
          if (!load(machine, slot, value)) return Step::kLost;
          if (of_return_address && !signal_frame) return_slot = slot;
        }
        break;
      }
    }
    caller.value[number] = value;
    caller.known |= bit(number);
    return Step::kFrame;
  }

  // Restores every register that the row describes.
  __attribute__((noinline)) Step full_step(std::uint64_t lookup) noexcept {
    CfiRow row;
    bool signal_frame = false;
    rbp_slot = kNotRepeatable;
    const Source source = find_row(table, lookup, exact, row, signal_frame);
    if (source == Source::kStart) return Step::kEnd;
    if (source == Source::kNone) return Step::kLost;
    if (row.registers[kDwarfReturnAddress].kind == RuleKind::kUndefined) return Step::kEnd;
    std::uint64_t cfa = 0;
    const Step found = find_cfa(row, cfa);
    if (found != Step::kFrame) return found;
    if (!signal_frame && cfa <= sp()) return Step::kLost;

    Machine caller = machine;
    caller.known = machine.known & (signal_frame ? ~0u : kCalleeSaved);
    caller.known |= bit(kDwarfRsp);
    caller.value[kDwarfRsp] = cfa;
    return_slot = 0;
    for (std::uint32_t number = 0; number < kDwarfRegisters; ++number) {
      const Step restored = restore_register(number, row.registers[number], cfa, signal_frame, caller);
      if (restored != Step::kFrame) return restored;
    }
    if (row.registers[kDwarfReturnAddress].kind == RuleKind::kUnspecified) return Step::kLost;
    const bool derived = source == Source::kCode || source == Source::kGeneratedCode;
    if (derived && !is_return_address(table, caller.value[kDwarfReturnAddress], pc())) return Step::kLost;
    const std::uint64_t previous_sp = sp();
    machine = caller;
    exact = signal_frame;
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
    const std::uint64_t registers_at = sp() + 40;
    const std::uint64_t previous_sp = sp();
    Machine caller = machine;
    for (unsigned i = 0; i < kDwarfRegisters; ++i)
      if (!load(machine, registers_at + 8 * i, caller.value[kSavedOrder[i]])) return Step::kLost;
    caller.known = (1u << kDwarfRegisters) - 1;
    machine = caller;
    exact = true;
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
    rbp_slot = kNotRepeatable;
    const std::uint64_t address = pc();
    Module module;
    const bool in_module = find_module(table, exact ? address : address - 1, module);
    if (in_module && is_sigreturn(module, address)) return signal_step();
    if (!exact && is_process_entry(machine)) return Step::kEnd;

    // What is left are guesses: a function that has no frame yet, or one that uses rbp for it.
    uncertain = true;
    Caller caller{};
    Caller leaf{sp() + 8, 0, rbp()};
    const bool may_be_leaf = exact && load(machine, sp(), leaf.pc) && is_return_address(table, leaf.pc);
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
      case kRegister: {
        const Machine before = machine;
        const Step result = precise ? full_step(lookup) : quick_step(rule);
        if (result != Step::kLost || (rule & kDerived) == 0) return result;
        machine = before;
        return step_without_cfi();
      }
      case kOutermost:
        ended_by_rule = true;
        return Step::kEnd;
      case kComplex:
        return full_step(lookup);
      default:
        return step_without_cfi();
    }
  }
};

// Stores to the frames must not move after the store of the count: a fault may end the walk at any load.
inline void publish_count(NativeStack& out, std::uint32_t count) noexcept {
  __atomic_store_n(&out.count, count, __ATOMIC_RELEASE);
}

// The previous walk of the same thread. If the new walk arrives somewhere with the same registers, the rest
// of the previous walk holds again as long as the slots it read are unchanged. That takes one or two
// comparisons instead of a step.
class LastWalk {
 public:
  explicit LastWalk(Walk& walk) noexcept : walk_(walk), cache_(walk.cache) {
    // On other stacks the bounds are not known, and so not whether the slots may be read.
    recording_ = cache_ != nullptr && walk.stack_high != 0 && walk.machine.stack_high == walk.stack_high;
    const bool usable =
        recording_ && cache_->epoch == walk.table->epoch && cache_->stack_high == walk.stack_high;
    at_ = usable ? kMaxNativeFrames - cache_->frames : kMaxNativeFrames;
  }

  void note(std::uint32_t index) noexcept {
    if (recording_)
      cache_->fresh[index] = {walk_.pc(), walk_.sp(), walk_.rbp(),
                              walk_.exact ? kNotRepeatable : walk_.rbp_slot};
  }

  // True when the frame just noted is one of the last walk's.
  bool joins() noexcept {
    const std::uint64_t sp = walk_.sp();
    while (at_ < kMaxNativeFrames && cache_->walked[at_].sp < sp) ++at_;
    if (at_ >= kMaxNativeFrames || walk_.exact) return false;
    const WalkedFrame& frame = cache_->walked[at_];
    return frame.sp == sp && frame.pc == walk_.pc() && frame.rbp == walk_.rbp();
  }

  // Appends what still holds. True when that reached the outermost frame, else the walk stands at the last
  // one.
  bool take_over(NativeStack& out, std::uint32_t& count) noexcept {
    const std::uint32_t joined = at_;
    const std::uint32_t own = count;
    while (at_ + 1 < kMaxNativeFrames && count < kMaxNativeFrames) {
      const WalkedFrame& next = cache_->walked[at_ + 1];
      if (next.rbp_slot == kNotRepeatable || word(next.sp - 8) != next.pc) break;
      if (next.rbp_slot != kRbpNotRead && word(next.rbp_slot) != next.rbp) break;
      ++at_;
      out.frames[count] = {next.pc, next.sp};
      out.return_slot[count] = next.sp - 8;
      ++count;
    }
    publish_count(out, count);
    if (at_ + 1 == kMaxNativeFrames && cache_->complete && !walk_.uncertain) {
      // The outer part stays where it is; the frames up to the joint are new.
      if (own <= joined + 1) {
        const std::uint32_t frames = kMaxNativeFrames - (joined + 1 - own);
        cache_->frames = 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        for (std::uint32_t i = 0; i < own; ++i) cache_->walked[joined + 1 - own + i] = cache_->fresh[i];
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        cache_->frames = frames;
      }
      return true;
    }
    if (count == own) return false;
    for (std::uint32_t i = own; i < count; ++i) cache_->fresh[i] = cache_->walked[joined + 1 + (i - own)];
    const WalkedFrame& here = cache_->walked[at_];
    walk_.pc() = here.pc;
    walk_.sp() = here.sp;
    walk_.rbp() = here.rbp;
    walk_.machine.known = kAlways;
    walk_.return_slot = here.sp - 8;
    walk_.rbp_slot = here.rbp_slot;
    walk_.exact = false;
    return false;
  }

  // The first `count` frames are what the next walk compares with.
  void replace(std::uint32_t count, bool complete) noexcept {
    if (!recording_) return;
    cache_->frames = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    WalkedFrame* const to = cache_->walked + (kMaxNativeFrames - count);
    for (std::uint32_t i = 0; i < count; ++i) to[i] = cache_->fresh[i];
    cache_->epoch = walk_.table->epoch;
    cache_->stack_high = walk_.stack_high;
    cache_->complete = complete;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    cache_->frames = count;
  }

  // A precise walk follows more registers than are compared.
  void forgo() noexcept {
    recording_ = false;
    at_ = kMaxNativeFrames;
  }

 private:
  static std::uint64_t word(std::uint64_t address) noexcept {
    std::uint64_t value;
    __builtin_memcpy(&value, reinterpret_cast<const void*>(address), 8);
    return value;
  }

  Walk& walk_;
  NativeCache* cache_;
  std::uint32_t at_;
  bool recording_;
};

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
  LastWalk last(walk);
  std::uint32_t count = 0;
  for (;;) {
    if (count == kMaxNativeFrames || (count != 0 && !is_user_address(walk.pc())))
      return last.replace(count, false);
    out.frames[count].pc = walk.pc() + (walk.exact && count != 0 ? 1 : 0);
    out.frames[count].sp = walk.sp();
    out.return_slot[count] = count == 0 ? 0 : walk.return_slot;
    last.note(count);
    publish_count(out, ++count);
    if (last.joins() && last.take_over(out, count)) {
      out.truncated = walk.uncertain;
      return;
    }
    switch (walk.step()) {
      case Step::kFrame:
        break;
      case Step::kEnd:
        out.truncated = walk.uncertain;
        return last.replace(count, walk.ended_by_rule && !walk.uncertain);
      case Step::kLost:
        return last.replace(count, false);
      case Step::kNeedsPrecise:
        walk.precise = true;
        walk.start(registers);
        last.forgo();
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
