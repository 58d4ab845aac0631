// SPDX-License-Identifier: BSD-3-Clause
// The segment's table of Python code objects: each is described once, by the first walk that meets it.
#include "agent/sigsafe/code_table.h"

#include <cstring>

#include "agent/sigsafe/peek.h"
#include "formats/wire/table_place.h"

namespace clusterprof::agent {

std::atomic<std::uint64_t> g_known_codes[kKnownCodes];
std::atomic<std::uint64_t> g_hidden_code{0};
std::atomic<std::uint64_t> g_handle_run{0};

namespace {

// One bit per hashed code id that did not fit, so that it is not counted again.
constexpr std::uint32_t kRefusedWords = 2048;
std::atomic<std::uint32_t> g_refused[kRefusedWords];

void remember(std::uint64_t code_id, std::uint64_t generation) noexcept {
  const std::uint64_t first = g_known_codes[code_id % kFirstKnownCodes].load(std::memory_order_relaxed);
  const std::uint32_t places = first == 0 ? kFirstKnownCodes : kKnownCodes;
  g_known_codes[code_id % places].store(code_id ^ generation, std::memory_order_relaxed);
}

void refuse(wire::SegmentHeader& segment, std::uint64_t code_id, std::uint64_t generation) noexcept {
  const std::uint64_t hash = (code_id ^ generation) >> 16;
  const std::uint32_t bit = 1u << (hash % 32);
  std::atomic<std::uint32_t>& word = g_refused[(hash / 32) % kRefusedWords];
  if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) {
    segment.drops[static_cast<std::uint32_t>(wire::DropReason::kCodeTableFull)].fetch_add(
        1, std::memory_order_relaxed);
  }
  remember(code_id, generation);
}

// The text of a str object, as found in memory.
struct Text {
  std::uint64_t data = 0;
  std::uint64_t length = 0;  // code points
  std::uint32_t kind = 1;    // bytes per code point
};

// Empty if the object is not a compact str.
Text text_of(const PythonRuntime& runtime, std::uint64_t object) noexcept {
  const PythonLayout& layout = runtime.layout;
  Text text;
  if (!is_plausible_object(object) || peek<std::uint64_t>(object + layout.object_type) != runtime.str_type)
    return text;
  const std::uint32_t state = peek<std::uint32_t>(object + layout.str_state) >> layout.str_state_shift;
  const std::uint32_t kind = (state >> kStrKindShift) & kStrKindMask;
  if ((state & kStrCompact) == 0 || (kind != 1 && kind != 2 && kind != 4)) return text;
  const auto length = peek<std::int64_t>(object + layout.str_length);
  if (length <= 0) return text;
  text.data = object + ((state & kStrAscii) != 0 ? layout.str_ascii_data : layout.str_compact_data);
  text.length = static_cast<std::uint64_t>(length);
  text.kind = kind;
  return text;
}

std::uint32_t code_point(const Text& text, std::uint64_t index) noexcept {
  const std::uint64_t address = text.data + index * text.kind;
  if (text.kind == 1) return peek<std::uint8_t>(address);
  if (text.kind == 2) return peek<std::uint16_t>(address);
  return peek<std::uint32_t>(address);
}

// Whether the `length` last characters of the text are these.
bool has_last(const Text& text, const char* expected, std::uint64_t length) noexcept {
  if (text.length < length) return false;
  for (std::uint64_t i = 0; i < length; ++i)
    if (code_point(text, text.length - length + i) != static_cast<std::uint8_t>(expected[i])) return false;
  return true;
}

std::uint32_t utf8_bytes(std::uint32_t point) noexcept {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

// Converts to UTF-8 of at most kMaxNameBytes, cut between code points. Writes if `out` is given. Returns the
// size. Surrogates (undecodable bytes of a file name) have no UTF-8 and are replaced by U+FFFD.
std::uint32_t to_utf8(const Text& text, std::uint8_t* out, std::uint32_t limit) noexcept {
  std::uint32_t size = 0;
  for (std::uint64_t i = 0; i < text.length; ++i) {
    std::uint32_t point = code_point(text, i);
    if ((point >= 0xd800 && point < 0xe000) || point > 0x10ffff) point = 0xfffd;
    const std::uint32_t bytes = utf8_bytes(point);
    if (bytes > limit - size) break;
    if (out != nullptr) {
      std::uint8_t* at = out + size;
      if (bytes == 1) {
        at[0] = static_cast<std::uint8_t>(point);
      } else {
        constexpr std::uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
        for (std::uint32_t k = bytes - 1; k > 0; --k) {
          at[k] = static_cast<std::uint8_t>(0x80 | (point & 0x3f));
          point >>= 6;
        }
        at[0] = static_cast<std::uint8_t>(kLead[bytes] | point);
      }
    }
    size += bytes;
  }
  return size;
}

bool is_handle_run(const Text& filename, const Text& name) noexcept {
  constexpr char kName[] = "_run", kQualifiedName[] = "Handle._run", kFile[] = "/asyncio/events.py";
  const bool named =
      (name.length == sizeof kName - 1 && has_last(name, kName, sizeof kName - 1)) ||
      (name.length == sizeof kQualifiedName - 1 && has_last(name, kQualifiedName, sizeof kQualifiedName - 1));
  return named && has_last(filename, kFile, sizeof kFile - 1);
}

// Whether a location table (3.11 and later) consists of entries without location: one byte each.
bool has_no_lines(std::uint64_t table, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kLongestOfInternalCode = 8;
  constexpr std::uint8_t kNoLocation = 0xf8;  // the low three bits are a length
  if (bytes > kLongestOfInternalCode) return false;
  for (std::uint64_t i = 0; i < bytes; ++i) {
    if ((peek<std::uint8_t>(table + i) & kNoLocation) != kNoLocation) return false;
  }
  return true;
}

// The slot of code_id, claimed now if it had none (then `claimed` is set). Null if the table is full.
wire::CodeSlot* find_slot(wire::SegmentHeader& segment, std::uint64_t code_id, bool& claimed) noexcept {
  claimed = false;
  const std::uint32_t slots = segment.code_slots;
  if (slots == 0) return nullptr;
  auto* table = reinterpret_cast<wire::CodeSlot*>(reinterpret_cast<std::uint8_t*>(&segment) +
                                                  segment.code_slots_offset);
  for (std::uint32_t probe = 0; probe < wire::kCodeProbes && probe < slots; ++probe) {
    wire::CodeSlot& slot = table[wire::table_place(code_id, probe, slots)];
    std::uint64_t key = slot.key.load(std::memory_order_relaxed);
    if (key == 0 && slot.key.compare_exchange_strong(key, code_id, std::memory_order_relaxed)) {
      claimed = true;
      return &slot;
    }
    if (key == code_id) return &slot;
  }
  return nullptr;
}

// The offset of `bytes` in the code arena, or `none`.
constexpr std::uint64_t kNone = ~std::uint64_t{0};
std::uint64_t take_arena(wire::SegmentHeader& segment, std::uint64_t bytes) noexcept {
  std::uint64_t used = segment.code_arena_used.load(std::memory_order_relaxed);
  do {
    if (used > segment.code_arena_bytes || bytes > segment.code_arena_bytes - used) return kNone;
  } while (!segment.code_arena_used.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return used;
}

}  // namespace

std::uint32_t copy_text(const PythonRuntime& runtime, std::uint64_t object, char* out,
                        std::uint32_t limit) noexcept {
  return to_utf8(text_of(runtime, object), reinterpret_cast<std::uint8_t*>(out), limit);
}

bool has_text(const PythonRuntime& runtime, std::uint64_t object, const char* expected, std::uint32_t length,
              bool whole) noexcept {
  const Text text = text_of(runtime, object);
  return (!whole || text.length == length) && has_last(text, expected, length);
}

std::uint64_t segment_generation(const wire::SegmentHeader& segment) noexcept {
  return (segment.start_mono_ns + static_cast<std::uint32_t>(segment.pid)) * 0x9e3779b97f4a7c15ull;
}

bool describe_code(const PythonRuntime& runtime, wire::SegmentHeader& segment, std::uint64_t generation,
                   const CodeFingerprint& fingerprint, std::uint64_t code_id) noexcept {
  const PythonLayout& layout = runtime.layout;
  const auto table = peek<std::uint64_t>(fingerprint.code + layout.code_line_table);
  std::uint64_t table_bytes = 0;
  if (is_plausible_object(table) && peek<std::uint64_t>(table + layout.object_type) == runtime.bytes_type) {
    table_bytes = peek<std::uint64_t>(table + layout.bytes_size);
    if (layout.chain != FrameChain::kFrameObjects && has_no_lines(table + layout.bytes_data, table_bytes)) {
      g_hidden_code.store(code_id, std::memory_order_relaxed);
      return false;
    }
    if (table_bytes > kMaxLineTableBytes) table_bytes = 0;
  }

  bool claimed;
  wire::CodeSlot* slot = find_slot(segment, code_id, claimed);
  if (slot == nullptr) {
    refuse(segment, code_id, generation);
    return true;
  }
  if (!claimed) {
    // Another thread has described it, or is about to; nobody waits for anybody.
    remember(code_id, generation);
    return true;
  }

  const Text filename = text_of(runtime, fingerprint.filename);
  const Text name = text_of(runtime, fingerprint.name);
  if (is_handle_run(filename, name)) g_handle_run.store(code_id, std::memory_order_relaxed);
  wire::CodeEntry entry;
  entry.code_id = code_id;
  entry.first_line = fingerprint.first_line;
  entry.filename_bytes = to_utf8(filename, nullptr, kMaxNameBytes);
  entry.name_bytes = to_utf8(name, nullptr, kMaxNameBytes);
  entry.line_table_bytes = static_cast<std::uint32_t>(table_bytes);
  const std::uint64_t bytes =
      (sizeof entry + entry.filename_bytes + entry.name_bytes + entry.line_table_bytes + 7) / 8 * 8;
  const std::uint64_t offset = take_arena(segment, bytes);
  if (offset == kNone) {
    slot->entry_offset.store(wire::kNoCodeEntry, std::memory_order_release);
    refuse(segment, code_id, generation);
    return true;
  }

  std::uint8_t* at = reinterpret_cast<std::uint8_t*>(&segment) + segment.code_arena_offset + offset;
  std::memcpy(at, &entry, sizeof entry);
  at += sizeof entry;
  to_utf8(filename, at, entry.filename_bytes);
  at += entry.filename_bytes;
  to_utf8(name, at, entry.name_bytes);
  at += entry.name_bytes;
  std::memcpy(at, reinterpret_cast<const void*>(table + layout.bytes_data), table_bytes);
  slot->entry_offset.store(offset + 1, std::memory_order_release);
  remember(code_id, generation);
  return true;
}

}  // namespace clusterprof::agent
