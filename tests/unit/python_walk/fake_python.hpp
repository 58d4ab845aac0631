// SPDX-License-Identifier: BSD-3-Clause
// Just enough of an interpreter in memory for the walk: objects laid out as a PythonLayout says.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "agent/sigsafe/python_runtime.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

class Memory {
 public:
  explicit Memory(std::size_t bytes) : words_((bytes + 7) / 8) {}

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(words_.data()); }
  template <typename T>
  Memory& set(std::size_t offset, T value) {
    std::memcpy(reinterpret_cast<std::uint8_t*>(words_.data()) + offset, &value, sizeof value);
    return *this;
  }
  Memory& copy(std::size_t offset, const void* data, std::size_t bytes) {
    std::memcpy(reinterpret_cast<std::uint8_t*>(words_.data()) + offset, data, bytes);
    return *this;
  }

 private:
  std::vector<std::uint64_t> words_;
};

class FakePython {
 public:
  explicit FakePython(const PythonLayout& layout) : layout_(layout) {
    runtime.layout = layout;
    runtime.layout_is_compiled_in = true;
    runtime.code_type = code_type_.address();
    runtime.str_type = str_type_.address();
    runtime.bytes_type = bytes_type_.address();
  }

  Memory& make(std::size_t bytes) { return objects_.emplace_back(bytes); }

  // kind: bytes per character; `data` holds the characters.
  std::uint64_t make_str(const void* data, std::size_t length, std::uint32_t kind, bool ascii) {
    Memory& object = make(layout_.str_compact_data + (length + 1) * kind);
    object.set(layout_.object_type, runtime.str_type).set(layout_.str_length, std::uint64_t{length});
    object.set(layout_.str_state, (kind << kStrKindShift | kStrCompact | (ascii ? kStrAscii : 0))
                                      << layout_.str_state_shift);
    object.copy(ascii ? layout_.str_ascii_data : layout_.str_compact_data, data, length * kind);
    return object.address();
  }
  std::uint64_t make_str(const std::string& text) { return make_str(text.data(), text.size(), 1, true); }

  std::uint64_t make_code(std::uint64_t name, std::uint64_t filename, std::int32_t first_line,
                          const std::string& line_table = "table") {
    Memory& table = make(layout_.bytes_data + line_table.size());
    table.set(layout_.object_type, runtime.bytes_type)
        .set(layout_.bytes_size, std::uint64_t{line_table.size()});
    table.copy(layout_.bytes_data, line_table.data(), line_table.size());
    Memory& code = make(512);
    constexpr std::uint64_t kUnits = 100;  // of instructions
    code.set(layout_.bytes_size, kUnits);
    code.set(layout_.object_type, runtime.code_type)
        .set(layout_.code_name, name)
        .set(layout_.code_filename, filename);
    code.set(layout_.code_first_line, first_line).set(layout_.code_line_table, table.address());
    return code.address();
  }

  PythonRuntime runtime{};

 private:
  PythonLayout layout_;
  Memory code_type_{8}, str_type_{8}, bytes_type_{8};
  std::deque<Memory> objects_;
};

class FakeSegment {
 public:
  explicit FakeSegment(std::uint32_t slots = 64, std::uint64_t arena_bytes = 1 << 20)
      : words_((kSlotsAt + slots * sizeof(wire::CodeSlot) + arena_bytes) / 8) {
    wire::SegmentHeader& segment = header();
    segment.code_slots = slots;
    segment.code_slots_offset = kSlotsAt;
    segment.code_arena_offset = kSlotsAt + slots * sizeof(wire::CodeSlot);
    segment.code_arena_bytes = arena_bytes;
    segment.start_mono_ns = ++serial_;
    segment.python_state = static_cast<std::uint32_t>(wire::PythonState::kActive);
  }
  wire::SegmentHeader& header() { return *reinterpret_cast<wire::SegmentHeader*>(words_.data()); }

  std::uint64_t dropped() {
    return header().drops[static_cast<std::uint32_t>(wire::DropReason::kCodeTableFull)].load();
  }

  // As the collector reads it. Null when there is no complete entry.
  struct Entry {
    std::string filename, name, line_table;
    std::uint32_t first_line;
  };
  std::unique_ptr<Entry> find(std::uint64_t code_id) {
    const auto* base = reinterpret_cast<const std::uint8_t*>(words_.data());
    const auto* slots = reinterpret_cast<const wire::CodeSlot*>(base + header().code_slots_offset);
    for (std::uint32_t i = 0; i < header().code_slots; ++i) {
      const std::uint64_t offset = slots[i].entry_offset.load();
      if (slots[i].key.load() != code_id || offset == 0 || offset == wire::kNoCodeEntry) continue;
      wire::CodeEntry entry;
      const std::uint8_t* at = base + header().code_arena_offset + offset - 1;
      std::memcpy(&entry, at, sizeof entry);
      if (entry.code_id != code_id) return nullptr;
      const char* text = reinterpret_cast<const char*>(at + sizeof entry);
      const std::string all(text, entry.filename_bytes + entry.name_bytes + entry.line_table_bytes);
      return std::make_unique<Entry>(
          Entry{all.substr(0, entry.filename_bytes), all.substr(entry.filename_bytes, entry.name_bytes),
                all.substr(entry.filename_bytes + entry.name_bytes), entry.first_line});
    }
    return nullptr;
  }
  // CodeSlot::entry_offset; 0 for one without a slot.
  std::uint64_t place(std::uint64_t code_id) {
    const auto* slots = reinterpret_cast<const wire::CodeSlot*>(
        reinterpret_cast<const std::uint8_t*>(words_.data()) + header().code_slots_offset);
    for (std::uint32_t i = 0; i < header().code_slots; ++i)
      if (slots[i].key.load() == code_id) return slots[i].entry_offset.load();
    return 0;
  }
  std::uint32_t slots_used() {
    const auto* slots = reinterpret_cast<const wire::CodeSlot*>(
        reinterpret_cast<const std::uint8_t*>(words_.data()) + header().code_slots_offset);
    std::uint32_t used = 0;
    for (std::uint32_t i = 0; i < header().code_slots; ++i) used += slots[i].key.load() != 0;
    return used;
  }

 private:
  static constexpr std::uint64_t kSlotsAt = (sizeof(wire::SegmentHeader) + 63) / 64 * 64;
  static inline std::uint64_t serial_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace clusterprof::agent
