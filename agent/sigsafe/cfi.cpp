// SPDX-License-Identifier: BSD-3-Clause
// Reads DWARF call frame information: finds the entry for a pc in .eh_frame_hdr, and runs its program up to
// the pc. What it does not understand yields no rule; it never guesses.
#include "agent/sigsafe/cfi.h"

namespace clusterprof::agent {
namespace {

bool inside(const Module& module, std::uint64_t address, std::uint64_t bytes) noexcept {
  return address >= module.cfi_start && address < module.cfi_end && module.cfi_end - address >= bytes;
}

// The body of the CIE or FDE at `address`: what follows its length field. `id_at` is where its CIE id or
// CIE pointer stands.
bool open_entry(const Module& module, std::uint64_t address, DwarfReader& out) noexcept {
  if (!inside(module, address, 4)) return false;
  DwarfReader cursor{reinterpret_cast<const std::uint8_t*>(address),
                     reinterpret_cast<const std::uint8_t*>(module.cfi_end)};
  std::uint64_t length = cursor.fixed<std::uint32_t>();
  if (length == 0xffff'ffffu) length = cursor.fixed<std::uint64_t>();
  if (!cursor.ok || length < 4 || !cursor.has(length)) return false;
  cursor.end = cursor.position + length;
  out = cursor;
  return true;
}

bool parse_cie(const Module& module, std::uint64_t address, Fde& out, bool& augmented) noexcept {
  DwarfReader cursor{nullptr, nullptr};
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
    DwarfReader fields{data.begin, data.end};
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
  DwarfReader cursor{nullptr, nullptr};
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

// Runs the programs of call frame information.
class Interpreter {
 public:
  // `initial` is null while the CIE's program runs. `remembered` has room for kRememberedRows.
  Interpreter(const Fde& fde, std::uint64_t pc, CfiRow& row, const CfiRow* initial,
              CfiRow* remembered) noexcept
      : fde_(fde), pc_(pc), location_(fde.begin), row_(row), initial_(initial), remembered_(remembered) {}

  // False: malformed. Stops where the location passes pc.
  bool run(Bytes program) noexcept {
    DwarfReader reader{program.begin, program.end};
    while (reader.position < reader.end) {
      const std::uint8_t opcode = *reader.position++;
      const std::uint8_t low_bits = opcode & 0x3f;
      Next next = Next::kOn;
      switch (opcode >> 6) {
        case 1:
          next = advance(reader, low_bits);
          break;
        case 2:
          set_offset(reader, low_bits);
          break;
        case 3:
          restore(low_bits);
          break;
        default:
          next = execute(reader, low_bits);
          break;
      }
      if (next != Next::kOn) return next == Next::kPastPc;
    }
    return reader.ok;
  }

 private:
  // Functions that take the reader are inlined into run(), so that it stays in registers.
  enum class Next : std::uint8_t { kOn, kPastPc, kMalformed };

  [[gnu::always_inline]] Next advance(const DwarfReader& reader, std::uint64_t factor) noexcept {
    if (!reader.ok) return Next::kMalformed;
    location_ += factor * fde_.code_align;
    return location_ > pc_ ? Next::kPastPc : Next::kOn;
  }

  void set(std::uint64_t number, RuleKind kind, std::int64_t value) noexcept {
    if (number < kDwarfRegisters) row_.registers[number] = {kind, 0, value};
  }

  [[gnu::always_inline]] void set_offset(DwarfReader& reader, std::uint64_t number) noexcept {
    set(number, RuleKind::kOffset, product(reader.uleb(), fde_.data_align));
  }

  bool set_expression(std::uint64_t number, RuleKind kind, Bytes block) noexcept {
    if (number >= kDwarfRegisters) return true;
    const std::int64_t bytes = block.end - block.begin;
    if (bytes > 255) return false;
    row_.registers[number] = {kind, static_cast<std::uint8_t>(bytes),
                              static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(block.begin))};
    return true;
  }

  void restore(std::uint64_t number) noexcept {
    if (number < kDwarfRegisters)
      row_.registers[number] = initial_ != nullptr ? initial_->registers[number] : RegisterRule{};
  }

  // Instructions without an operand in their opcode.
  [[gnu::always_inline]] Next execute(DwarfReader& reader, std::uint8_t opcode) noexcept {
    switch (opcode) {
      case 0x00:  // nop
        return Next::kOn;
      case 0x01:  // set_loc
        location_ = reader.encoded_pointer(fde_.pointer_encoding, 0);
        return advance(reader, 0);
      case 0x02:
        return advance(reader, reader.byte());
      case 0x03:
        return advance(reader, reader.fixed<std::uint16_t>());
      case 0x04:
        return advance(reader, reader.fixed<std::uint32_t>());
      case 0x0a:  // remember_state
        if (depth_ == kRememberedRows) return Next::kMalformed;
        remembered_[depth_++] = row_;
        return Next::kOn;
      case 0x0b:  // restore_state
        if (depth_ == 0) return Next::kMalformed;
        row_ = remembered_[--depth_];
        return Next::kOn;
      case 0x0c:
      case 0x0d:
      case 0x0e:
      case 0x0f:
      case 0x12:
      case 0x13:
        set_cfa(reader, opcode);
        return Next::kOn;
      case 0x2e:  // GNU_args_size
        reader.uleb();
        return Next::kOn;
      default:
        return set_rule(reader, opcode, reader.uleb()) ? Next::kOn : Next::kMalformed;
    }
  }

  [[gnu::always_inline]] void set_cfa(DwarfReader& reader, std::uint8_t opcode) noexcept {
    switch (opcode) {
      case 0x0c:  // def_cfa
        set_cfa_register(reader);
        row_.cfa_offset = static_cast<std::int64_t>(reader.uleb());
        break;
      case 0x0d:  // def_cfa_register
        set_cfa_register(reader);
        break;
      case 0x0e:  // def_cfa_offset
        row_.cfa_offset = static_cast<std::int64_t>(reader.uleb());
        break;
      case 0x0f:  // def_cfa_expression
        row_.cfa_is_expression = true;
        row_.cfa_expression = reader.block();
        break;
      case 0x12:  // def_cfa_sf
        set_cfa_register(reader);
        row_.cfa_offset = product(reader.sleb(), fde_.data_align);
        break;
      default:  // def_cfa_offset_sf
        row_.cfa_offset = product(reader.sleb(), fde_.data_align);
        break;
    }
  }

  [[gnu::always_inline]] void set_cfa_register(DwarfReader& reader) noexcept {
    row_.cfa_is_expression = false;
    row_.cfa_register = static_cast<std::uint32_t>(reader.uleb());
  }

  // False for an unknown instruction, too.
  [[gnu::always_inline]] bool set_rule(DwarfReader& reader, std::uint8_t opcode,
                                       std::uint64_t number) noexcept {
    switch (opcode) {
      case 0x05:  // offset_extended
        set_offset(reader, number);
        return true;
      case 0x06:
        restore(number);
        return true;
      case 0x07:
        set(number, RuleKind::kUndefined, 0);
        return true;
      case 0x08:
        set(number, RuleKind::kSameValue, 0);
        return true;
      case 0x09:  // register
        set(number, RuleKind::kRegister, static_cast<std::int64_t>(reader.uleb()));
        return true;
      case 0x10:  // expression
        return set_expression(number, RuleKind::kExpression, reader.block());
      case 0x16:  // val_expression
        return set_expression(number, RuleKind::kValueExpression, reader.block());
      case 0x11:  // offset_extended_sf
        set(number, RuleKind::kOffset, product(reader.sleb(), fde_.data_align));
        return true;
      case 0x14:  // val_offset
        set(number, RuleKind::kValueOffset, product(reader.uleb(), fde_.data_align));
        return true;
      case 0x15:  // val_offset_sf
        set(number, RuleKind::kValueOffset, product(reader.sleb(), fde_.data_align));
        return true;
      case 0x2f:  // GNU_negative_offset_extended
        set(number, RuleKind::kOffset, product(0 - reader.uleb(), fde_.data_align));
        return true;
      default:
        return false;
    }
  }

  const Fde& fde_;
  std::uint64_t pc_;
  std::uint64_t location_;
  CfiRow& row_;
  const CfiRow* initial_;
  CfiRow* remembered_;
  unsigned depth_ = 0;
};

}  // namespace

bool find_fde(const Module& module, std::uint64_t pc, Fde& out) noexcept {
  if (module.eh_frame_hdr == nullptr) return false;
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(module.eh_frame_hdr);
  if (!inside(module, base, module.eh_frame_hdr_bytes)) return false;
  DwarfReader cursor{module.eh_frame_hdr, module.eh_frame_hdr + module.eh_frame_hdr_bytes};
  if (cursor.byte() != 1) return false;
  const std::uint8_t frame_encoding = cursor.byte();
  const std::uint8_t count_encoding = cursor.byte();
  const std::uint8_t table_encoding = cursor.byte();
  if (!cursor.ok || count_encoding == kEncodingOmit || table_encoding == kEncodingOmit) return false;
  if (frame_encoding != kEncodingOmit) cursor.encoded_value(frame_encoding);
  const std::uint64_t count = cursor.encoded_value(count_encoding);
  if (!cursor.ok || count == 0) return false;
  const std::uint64_t room = static_cast<std::uint64_t>(cursor.end - cursor.position);
  std::uint64_t fde_address = 0;
  if (table_encoding == (kEncodingDataRelative | 0x0b)) {
    if (count > room / 8) return false;
    if (!search_table<std::int32_t>(cursor.position, count, base, pc, fde_address)) return false;
  } else if (table_encoding == (kEncodingDataRelative | 0x0c)) {
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
  Interpreter before(fde, ~std::uint64_t{0}, out, nullptr, remembered);
  if (!before.run(fde.initial)) return false;
  const CfiRow initial = out;
  Interpreter body(fde, pc, out, &initial, remembered);
  return body.run(fde.program);
}

}  // namespace clusterprof::agent
