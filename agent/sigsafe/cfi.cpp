// SPDX-License-Identifier: BSD-3-Clause
// Reads DWARF call frame information: finds the entry for a pc in .eh_frame_hdr, runs its program up to the
// pc, and evaluates expressions. What it does not understand yields no rule; it never guesses.
#include "agent/sigsafe/cfi.h"

namespace clusterprof::agent {
namespace {

// Pointer encodings (DW_EH_PE_*).
constexpr std::uint8_t kOmit = 0xff;
constexpr std::uint8_t kIndirect = 0x80;
constexpr std::uint8_t kPcRelative = 0x10;
constexpr std::uint8_t kDataRelative = 0x30;

// Reads forward inside [position, end). A read past the end yields 0 and clears ok.
struct Cursor {
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
    if ((encoding & kIndirect) != 0) {
      ok = false;  // only personality routines are indirect, and those are skipped
      return 0;
    }
    switch (encoding & 0x70) {
      case 0x00:
        return value;
      case kPcRelative:
        return here + value;
      case kDataRelative:
        return data_base + value;
      default:
        ok = false;
        return 0;
    }
  }
};

bool inside(const Module& module, std::uint64_t address, std::uint64_t bytes) noexcept {
  return address >= module.cfi_start && address < module.cfi_end && module.cfi_end - address >= bytes;
}

// The body of the CIE or FDE at `address`: what follows its length field. `id_at` is where its CIE id or
// CIE pointer stands.
bool open_entry(const Module& module, std::uint64_t address, Cursor& out) noexcept {
  if (!inside(module, address, 4)) return false;
  Cursor cursor{reinterpret_cast<const std::uint8_t*>(address),
                reinterpret_cast<const std::uint8_t*>(module.cfi_end)};
  std::uint64_t length = cursor.fixed<std::uint32_t>();
  if (length == 0xffff'ffffu) length = cursor.fixed<std::uint64_t>();
  if (!cursor.ok || length < 4 || !cursor.has(length)) return false;
  cursor.end = cursor.position + length;
  out = cursor;
  return true;
}

bool parse_cie(const Module& module, std::uint64_t address, Fde& out, bool& augmented) noexcept {
  Cursor cursor{nullptr, nullptr};
  if (!open_entry(module, address, cursor)) return false;
  if (cursor.fixed<std::uint32_t>() != 0) return false;  // an FDE
  const std::uint8_t version = cursor.byte();
  if (version != 1 && version != 3 && version != 4) return false;
  const std::uint8_t* augmentation = cursor.position;
  while (cursor.byte() != 0) {
  }
  if (!cursor.ok) return false;
  if (version == 4 && (cursor.byte() != 8 || cursor.byte() != 0)) return false;  // address, segment size
  out.code_align = cursor.uleb();
  out.data_align = cursor.sleb();
  const std::uint64_t return_register = version == 1 ? cursor.byte() : cursor.uleb();
  if (return_register != kDwarfReturnAddress) return false;
  out.pointer_encoding = 0;
  out.signal_frame = false;
  augmented = *augmentation == 'z';
  if (augmented) {
    const Bytes data = cursor.block();
    Cursor fields{data.begin, data.end};
    for (++augmentation; *augmentation != 0; ++augmentation) {
      if (*augmentation == 'R') {
        out.pointer_encoding = fields.byte();
      } else if (*augmentation == 'P') {
        const std::uint8_t encoding = fields.byte();
        if (encoding == 0x50) return false;  // aligned: not seen on this ABI
        fields.encoded_value(encoding);
      } else if (*augmentation == 'L') {
        fields.byte();
      } else if (*augmentation == 'S') {
        out.signal_frame = true;
      } else if (*augmentation != 'B' && *augmentation != 'G') {
        return false;
      }
    }
    if (!fields.ok) return false;
  } else if (*augmentation != 0) {
    return false;
  }
  if (!cursor.ok) return false;
  out.initial = {cursor.position, cursor.end};
  return true;
}

bool parse_fde(const Module& module, std::uint64_t address, Fde& out) noexcept {
  Cursor cursor{nullptr, nullptr};
  if (!open_entry(module, address, cursor)) return false;
  const std::uint64_t pointer_at = reinterpret_cast<std::uint64_t>(cursor.position);
  const std::uint32_t distance = cursor.fixed<std::uint32_t>();
  if (distance == 0) return false;  // a CIE
  bool augmented = false;
  if (!parse_cie(module, pointer_at - distance, out, augmented)) return false;
  out.begin = cursor.encoded_pointer(out.pointer_encoding, 0);
  const std::uint64_t length = cursor.encoded_value(out.pointer_encoding & 0x0f);
  if (augmented) cursor.block();
  if (!cursor.ok || out.begin + length < out.begin) return false;
  out.end = out.begin + length;
  out.program = {cursor.position, cursor.end};
  return true;
}

// Finds the last table entry that starts at or before pc: initial locations and FDE addresses, both
// relative to the start of .eh_frame_hdr, sorted.
template <typename T>
bool search_table(const std::uint8_t* table, std::uint64_t count, std::uint64_t base, std::uint64_t pc,
                  std::uint64_t& fde_address) noexcept {
  const auto at = [&](std::uint64_t index, unsigned field) noexcept {
    T value{};
    __builtin_memcpy(&value, table + (index * 2 + field) * sizeof(T), sizeof(T));
    return base + static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  };
  std::uint64_t low = 0;
  std::uint64_t high = count;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (at(middle, 0) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  fde_address = at(low - 1, 1);
  return true;
}

constexpr unsigned kRememberedRows = 8;

// The factors come from the file and may be of any size, so products wrap around.
std::int64_t product(std::uint64_t factor, std::int64_t align) noexcept {
  return static_cast<std::int64_t>(factor * static_cast<std::uint64_t>(align));
}
std::int64_t product(std::int64_t factor, std::int64_t align) noexcept {
  return product(static_cast<std::uint64_t>(factor), align);
}

struct Interpreter {
  const Fde& fde;
  std::uint64_t pc;
  std::uint64_t location;
  CfiRow& row;
  const CfiRow* initial;  // null while the CIE's program runs
  CfiRow* remembered;
  unsigned depth = 0;

  void set(std::uint64_t number, RuleKind kind, std::int64_t value) noexcept {
    if (number < kDwarfRegisters) row.registers[number] = {kind, 0, value};
  }

  bool set_expression(std::uint64_t number, RuleKind kind, Bytes block) noexcept {
    if (number >= kDwarfRegisters) return true;
    const std::int64_t bytes = block.end - block.begin;
    if (bytes > 255) return false;
    row.registers[number] = {kind, static_cast<std::uint8_t>(bytes),
                             static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(block.begin))};
    return true;
  }

  void restore(std::uint64_t number) noexcept {
    if (number < kDwarfRegisters)
      row.registers[number] = initial != nullptr ? initial->registers[number] : RegisterRule{};
  }

  // False: malformed. Stops where the location passes pc.
  bool run(Bytes program) noexcept {
    Cursor cursor{program.begin, program.end};
    while (cursor.position < cursor.end) {
      const std::uint8_t opcode = *cursor.position++;
      const std::uint8_t low_bits = opcode & 0x3f;
      std::uint64_t advance = 0;
      switch (opcode >> 6) {
        case 1:
          advance = low_bits;
          break;
        case 2:
          set(low_bits, RuleKind::kOffset, product(cursor.uleb(), fde.data_align));
          continue;
        case 3:
          restore(low_bits);
          continue;
        default:
          switch (low_bits) {
            case 0x00:  // nop
              continue;
            case 0x01:  // set_loc
              location = cursor.encoded_pointer(fde.pointer_encoding, 0);
              if (!cursor.ok) return false;
              if (location > pc) return true;
              continue;
            case 0x02:
              advance = cursor.byte();
              break;
            case 0x03:
              advance = cursor.fixed<std::uint16_t>();
              break;
            case 0x04:
              advance = cursor.fixed<std::uint32_t>();
              break;
            case 0x05: {  // offset_extended
              const std::uint64_t number = cursor.uleb();
              set(number, RuleKind::kOffset, product(cursor.uleb(), fde.data_align));
              continue;
            }
            case 0x06:
              restore(cursor.uleb());
              continue;
            case 0x07:
              set(cursor.uleb(), RuleKind::kUndefined, 0);
              continue;
            case 0x08:
              set(cursor.uleb(), RuleKind::kSameValue, 0);
              continue;
            case 0x09: {  // register
              const std::uint64_t number = cursor.uleb();
              set(number, RuleKind::kRegister, static_cast<std::int64_t>(cursor.uleb()));
              continue;
            }
            case 0x0a:  // remember_state
              if (depth == kRememberedRows) return false;
              remembered[depth++] = row;
              continue;
            case 0x0b:  // restore_state
              if (depth == 0) return false;
              row = remembered[--depth];
              continue;
            case 0x0c:  // def_cfa
              row.cfa_is_expression = false;
              row.cfa_register = static_cast<std::uint32_t>(cursor.uleb());
              row.cfa_offset = static_cast<std::int64_t>(cursor.uleb());
              continue;
            case 0x0d:  // def_cfa_register
              row.cfa_is_expression = false;
              row.cfa_register = static_cast<std::uint32_t>(cursor.uleb());
              continue;
            case 0x0e:  // def_cfa_offset
              row.cfa_offset = static_cast<std::int64_t>(cursor.uleb());
              continue;
            case 0x0f:  // def_cfa_expression
              row.cfa_is_expression = true;
              row.cfa_expression = cursor.block();
              continue;
            case 0x10:
            case 0x16: {  // expression, val_expression
              const std::uint64_t number = cursor.uleb();
              const RuleKind kind = low_bits == 0x10 ? RuleKind::kExpression : RuleKind::kValueExpression;
              if (!set_expression(number, kind, cursor.block())) return false;
              continue;
            }
            case 0x11: {  // offset_extended_sf
              const std::uint64_t number = cursor.uleb();
              set(number, RuleKind::kOffset, product(cursor.sleb(), fde.data_align));
              continue;
            }
            case 0x12:  // def_cfa_sf
              row.cfa_is_expression = false;
              row.cfa_register = static_cast<std::uint32_t>(cursor.uleb());
              row.cfa_offset = product(cursor.sleb(), fde.data_align);
              continue;
            case 0x13:  // def_cfa_offset_sf
              row.cfa_offset = product(cursor.sleb(), fde.data_align);
              continue;
            case 0x14:
            case 0x15: {  // val_offset, val_offset_sf
              const std::uint64_t number = cursor.uleb();
              const std::int64_t factor =
                  low_bits == 0x14 ? static_cast<std::int64_t>(cursor.uleb()) : cursor.sleb();
              set(number, RuleKind::kValueOffset, product(factor, fde.data_align));
              continue;
            }
            case 0x2e:  // GNU_args_size
              cursor.uleb();
              continue;
            case 0x2f: {  // GNU_negative_offset_extended
              const std::uint64_t number = cursor.uleb();
              set(number, RuleKind::kOffset, product(0 - cursor.uleb(), fde.data_align));
              continue;
            }
            default:
              return false;
          }
      }
      if (!cursor.ok) return false;
      location += advance * fde.code_align;
      if (location > pc) return true;
    }
    return cursor.ok;
  }
};

}  // namespace

bool find_fde(const Module& module, std::uint64_t pc, Fde& out) noexcept {
  if (module.eh_frame_hdr == nullptr) return false;
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(module.eh_frame_hdr);
  if (!inside(module, base, module.eh_frame_hdr_bytes)) return false;
  Cursor cursor{module.eh_frame_hdr, module.eh_frame_hdr + module.eh_frame_hdr_bytes};
  if (cursor.byte() != 1) return false;
  const std::uint8_t frame_encoding = cursor.byte();
  const std::uint8_t count_encoding = cursor.byte();
  const std::uint8_t table_encoding = cursor.byte();
  if (!cursor.ok || count_encoding == kOmit || table_encoding == kOmit) return false;
  if (frame_encoding != kOmit) cursor.encoded_value(frame_encoding);
  const std::uint64_t count = cursor.encoded_value(count_encoding);
  if (!cursor.ok || count == 0) return false;
  const std::uint64_t room = static_cast<std::uint64_t>(cursor.end - cursor.position);
  std::uint64_t fde_address = 0;
  if (table_encoding == (kDataRelative | 0x0b)) {
    if (count > room / 8) return false;
    if (!search_table<std::int32_t>(cursor.position, count, base, pc, fde_address)) return false;
  } else if (table_encoding == (kDataRelative | 0x0c)) {
    if (count > room / 16) return false;
    if (!search_table<std::int64_t>(cursor.position, count, base, pc, fde_address)) return false;
  } else {
    return false;
  }
  return parse_fde(module, fde_address, out) && pc >= out.begin && pc < out.end;
}

bool compute_row(const Fde& fde, std::uint64_t pc, CfiRow& out) noexcept {
  // Not initialised: rows are copied in before they are copied out.
  CfiRow remembered[kRememberedRows];
  __builtin_memset(&out, 0, sizeof(out));
  // The CIE's program gives the first row whatever the location.
  Interpreter before{fde, ~std::uint64_t{0}, fde.begin, out, nullptr, remembered};
  if (!before.run(fde.initial)) return false;
  const CfiRow initial = out;
  Interpreter body{fde, pc, fde.begin, out, &initial, remembered};
  return body.run(fde.program);
}

Evaluation evaluate(Bytes expression, const Machine& machine, bool has_initial, std::uint64_t initial,
                    std::uint64_t& out) noexcept {
  constexpr unsigned kDepth = 32;
  constexpr unsigned kMaxOperations = 1024;  // an expression may loop
  std::uint64_t stack[kDepth];
  unsigned depth = 0;
  if (has_initial) stack[depth++] = initial;
  Cursor cursor{expression.begin, expression.end};
  for (unsigned operations = 0; cursor.position < cursor.end; ++operations) {
    if (operations == kMaxOperations || depth > kDepth - 1) return Evaluation::kFailed;
    const std::uint8_t opcode = cursor.byte();
    std::uint64_t pushed = 0;
    if (opcode >= 0x30 && opcode <= 0x4f) {  // lit0...31
      pushed = opcode - 0x30u;
    } else if (opcode >= 0x70 && opcode <= 0x8f) {  // breg0...31
      const std::uint32_t number = opcode - 0x70u;
      const std::int64_t offset = cursor.sleb();
      if (number >= kDwarfRegisters) return Evaluation::kFailed;
      if ((machine.known >> number & 1) == 0) return Evaluation::kUnknownRegister;
      pushed = machine.value[number] + static_cast<std::uint64_t>(offset);
    } else {
      switch (opcode) {
        case 0x03:  // addr
        case 0x0e:  // const8u
        case 0x0f:  // const8s
          pushed = cursor.fixed<std::uint64_t>();
          break;
        case 0x08:
          pushed = cursor.byte();
          break;
        case 0x09:
          pushed = static_cast<std::uint64_t>(static_cast<std::int64_t>(cursor.fixed<std::int8_t>()));
          break;
        case 0x0a:
          pushed = cursor.fixed<std::uint16_t>();
          break;
        case 0x0b:
          pushed = static_cast<std::uint64_t>(static_cast<std::int64_t>(cursor.fixed<std::int16_t>()));
          break;
        case 0x0c:
          pushed = cursor.fixed<std::uint32_t>();
          break;
        case 0x0d:
          pushed = static_cast<std::uint64_t>(static_cast<std::int64_t>(cursor.fixed<std::int32_t>()));
          break;
        case 0x10:
          pushed = cursor.uleb();
          break;
        case 0x11:
          pushed = static_cast<std::uint64_t>(cursor.sleb());
          break;
        case 0x12:  // dup
          if (depth < 1) return Evaluation::kFailed;
          pushed = stack[depth - 1];
          break;
        case 0x14:  // over
          if (depth < 2) return Evaluation::kFailed;
          pushed = stack[depth - 2];
          break;
        case 0x15: {  // pick
          const std::uint8_t index = cursor.byte();
          if (index >= depth) return Evaluation::kFailed;
          pushed = stack[depth - 1 - index];
          break;
        }
        case 0x13:  // drop
          if (depth < 1) return Evaluation::kFailed;
          --depth;
          continue;
        case 0x16: {  // swap
          if (depth < 2) return Evaluation::kFailed;
          const std::uint64_t top = stack[depth - 1];
          stack[depth - 1] = stack[depth - 2];
          stack[depth - 2] = top;
          continue;
        }
        case 0x17: {  // rot
          if (depth < 3) return Evaluation::kFailed;
          const std::uint64_t top = stack[depth - 1];
          stack[depth - 1] = stack[depth - 2];
          stack[depth - 2] = stack[depth - 3];
          stack[depth - 3] = top;
          continue;
        }
        case 0x06:    // deref
        case 0x94: {  // deref_size
          const std::uint8_t bytes = opcode == 0x06 ? std::uint8_t{8} : cursor.byte();
          if (depth < 1 || bytes < 1 || bytes > 8) return Evaluation::kFailed;
          std::uint64_t word = 0;
          if (!load_word(machine, stack[depth - 1], word)) return Evaluation::kFailed;
          stack[depth - 1] = bytes == 8 ? word : word & ((std::uint64_t{1} << bytes * 8) - 1);
          continue;
        }
        case 0x19:  // abs
          if (depth < 1) return Evaluation::kFailed;
          if (static_cast<std::int64_t>(stack[depth - 1]) < 0) stack[depth - 1] = 0 - stack[depth - 1];
          continue;
        case 0x1f:  // neg
          if (depth < 1) return Evaluation::kFailed;
          stack[depth - 1] = 0 - stack[depth - 1];
          continue;
        case 0x20:  // not
          if (depth < 1) return Evaluation::kFailed;
          stack[depth - 1] = ~stack[depth - 1];
          continue;
        case 0x23: {  // plus_uconst
          const std::uint64_t added = cursor.uleb();
          if (depth < 1) return Evaluation::kFailed;
          stack[depth - 1] += added;
          continue;
        }
        case 0x28:    // bra
        case 0x2f: {  // skip
          const std::int16_t distance = cursor.fixed<std::int16_t>();
          if (opcode == 0x28) {
            if (depth < 1) return Evaluation::kFailed;
            if (stack[--depth] == 0) continue;
          }
          if (!cursor.ok || distance < expression.begin - cursor.position ||
              distance > expression.end - cursor.position)
            return Evaluation::kFailed;
          cursor.position += distance;
          continue;
        }
        case 0x96:  // nop
          continue;
        case 0x1a:
        case 0x1b:
        case 0x1c:
        case 0x1d:
        case 0x1e:
        case 0x21:
        case 0x22:
        case 0x24:
        case 0x25:
        case 0x26:
        case 0x27:
        case 0x29:
        case 0x2a:
        case 0x2b:
        case 0x2c:
        case 0x2d:
        case 0x2e: {
          if (depth < 2) return Evaluation::kFailed;
          const std::uint64_t right = stack[--depth];
          const std::uint64_t left = stack[--depth];
          const std::int64_t signed_left = static_cast<std::int64_t>(left);
          const std::int64_t signed_right = static_cast<std::int64_t>(right);
          switch (opcode) {
            case 0x1a:
              pushed = left & right;
              break;
            case 0x1b:  // div, signed
              if (right == 0 || signed_right == -1) {
                if (right == 0) return Evaluation::kFailed;
                pushed = 0 - left;
              } else {
                pushed = static_cast<std::uint64_t>(signed_left / signed_right);
              }
              break;
            case 0x1c:
              pushed = left - right;
              break;
            case 0x1d:  // mod, unsigned
              if (right == 0) return Evaluation::kFailed;
              pushed = left % right;
              break;
            case 0x1e:
              pushed = left * right;
              break;
            case 0x21:
              pushed = left | right;
              break;
            case 0x22:
              pushed = left + right;
              break;
            case 0x24:
              pushed = right < 64 ? left << right : 0;
              break;
            case 0x25:
              pushed = right < 64 ? left >> right : 0;
              break;
            case 0x26:
              pushed = static_cast<std::uint64_t>(signed_left >> (right < 64 ? right : 63));
              break;
            case 0x27:
              pushed = left ^ right;
              break;
            case 0x29:
              pushed = left == right;
              break;
            case 0x2a:
              pushed = signed_left >= signed_right;
              break;
            case 0x2b:
              pushed = signed_left > signed_right;
              break;
            case 0x2c:
              pushed = signed_left <= signed_right;
              break;
            case 0x2d:
              pushed = signed_left < signed_right;
              break;
            default:
              pushed = left != right;
              break;
          }
          break;
        }
        default:
          return Evaluation::kFailed;
      }
    }
    if (!cursor.ok) return Evaluation::kFailed;
    stack[depth++] = pushed;
  }
  if (!cursor.ok || depth == 0) return Evaluation::kFailed;
  out = stack[depth - 1];
  return Evaluation::kOk;
}

}  // namespace clusterprof::agent
