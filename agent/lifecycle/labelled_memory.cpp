// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/labelled_memory.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/segment.h"
#include "formats/wire/table_place.h"

namespace clusterprof::agent {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

constinit std::atomic<std::uint32_t> g_lock = 0;

using Word = std::atomic<std::uint64_t>;
std::uint64_t get(const Word& word) noexcept { return word.load(kRelaxed); }
void set(Word& word, std::uint64_t value) noexcept { word.store(value, kRelaxed); }
void add(Word& word, std::uint64_t value) noexcept { set(word, get(word) + value); }

// All signals are blocked meanwhile, since a handler of the program may allocate. The collector sees that the
// tables change.
class Changing {
 public:
  explicit Changing(wire::LabelledMemory& memory) noexcept : memory_(memory), mask_(block_all_signals()) {
    wait_until([] { return g_lock.exchange(1, std::memory_order_acquire) == 0; });
    add(memory_.changes, 1);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Changing() {
    memory_.changes.store(get(memory_.changes) + 1, std::memory_order_release);
    g_lock.store(0, std::memory_order_release);
    restore_signals(mask_);
  }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

 private:
  wire::LabelledMemory& memory_;
  std::uint64_t mask_;
};

wire::LabelledMemory* memory_of(wire::SegmentHeader* segment) noexcept {
  if (segment == nullptr || recording_has_ended()) return nullptr;
  if (segment->has_labelled_memory.load(kRelaxed) == 0) segment->has_labelled_memory.store(1, kRelaxed);
  return reinterpret_cast<wire::LabelledMemory*>(reinterpret_cast<std::uint8_t*>(segment) +
                                                 segment->labelled_memory_offset);
}

// Not in the middle of a character. What is no UTF-8 is cut anywhere.
std::size_t cut_before(const char* text, std::size_t length) noexcept {
  constexpr std::size_t kLongestCharacter = 4;
  for (std::size_t back = 0; back < kLongestCharacter && back < length; ++back)
    if ((static_cast<std::uint8_t>(text[length - back]) & 0xc0) != 0x80) return length - back;
  return length;
}

struct Label {
  explicit Label(const char* given) noexcept {
    if (given == nullptr) given = "";
    bytes = strnlen(given, wire::kLabelBytes);
    if (bytes < wire::kLabelBytes) {
      memcpy(text, given, bytes);
    } else {
      constexpr std::size_t kMark = sizeof wire::kLabelCut - 1;
      bytes = cut_before(given, wire::kLabelBytes - 1 - kMark);
      memcpy(text, given, bytes);
      memcpy(text + bytes, wire::kLabelCut, kMark);
      bytes += kMark;
    }
    text[bytes] = 0;
  }
  [[nodiscard]] std::uint64_t key(
      std::uint32_t space) const noexcept {  // FNV-1a, and MurmurHash3's finalizer
    std::uint64_t hash = 0xcbf2'9ce4'8422'2325ull + space;
    for (std::size_t i = 0; i < bytes; ++i)
      hash = (hash ^ static_cast<std::uint8_t>(text[i])) * 0x100'0000'01b3ull;
    hash = (hash ^ (hash >> 33)) * 0xff51'afd7'ed55'8ccdull;
    hash = (hash ^ (hash >> 33)) * 0xc4ce'b9fe'1a85'ec53ull;
    hash ^= hash >> 33;
    return hash != 0 ? hash : 1;
  }

  std::size_t bytes;
  char text[wire::kLabelBytes];
};

void name_space(wire::LabelledMemory& memory, std::uint32_t index, const char* name,
                std::size_t bytes) noexcept {
  wire::MemorySpace& space = memory.spaces[index];
  memcpy(space.name, name, bytes);
  space.name[bytes] = 0;
  space.ready.store(1, std::memory_order_release);
  memory.space_count.store(index + 1, kRelaxed);
  wire::MemoryLabel& others = memory.labels[index];
  others.space = index;
  memcpy(others.name, wire::kOtherLabelsName, sizeof wire::kOtherLabelsName);
  others.key.store(1, kRelaxed);
  others.ready.store(1, std::memory_order_release);
}

// The index of a space, which is made if there is none.
std::uint32_t space_of(wire::LabelledMemory& memory, const char* name) noexcept {
  const std::size_t bytes = strnlen(name, wire::kSpaceNameBytes - 1);
  const std::uint32_t count = memory.space_count.load(kRelaxed);
  for (std::uint32_t i = 0; i < count && i < wire::kNamedSpaces; ++i)
    if (memcmp(memory.spaces[i].name, name, bytes) == 0 && memory.spaces[i].name[bytes] == 0) return i;
  if (count < wire::kNamedSpaces) {
    name_space(memory, count, name, bytes);
    return count;
  }
  if (count == wire::kNamedSpaces)
    name_space(memory, wire::kNamedSpaces, wire::kOtherSpacesName, sizeof wire::kOtherSpacesName - 1);
  return wire::kNamedSpaces;
}

// Null: there is none. `make`: then it is made, if there is room.
wire::MemoryLabel* find_label(wire::LabelledMemory& memory, std::uint32_t space, const Label& label,
                              bool make) noexcept {
  const std::uint64_t key = label.key(space);
  for (std::uint32_t probe = 0; probe < wire::kLabelPlaces; ++probe) {
    wire::MemoryLabel& row =
        memory.labels[wire::kMemorySpaces + wire::table_place(key, probe, wire::kLabelPlaces)];
    const std::uint64_t there = get(row.key);
    if (there == key) return &row;
    if (there != 0) continue;
    const std::uint32_t count = memory.label_count.load(kRelaxed);
    if (!make || count >= wire::kMaxLabels) return nullptr;
    memory.label_count.store(count + 1, kRelaxed);
    row.space = space;
    memcpy(row.name, label.text, label.bytes + 1);
    set(row.key, key);
    row.ready.store(1, std::memory_order_release);
    return &row;
  }
  return nullptr;
}

// What the label held at the space's last peak would be lost by a change.
void save_for_peak(const wire::MemorySpace& space, wire::MemoryLabel& label) noexcept {
  const std::uint64_t peaks = get(space.peaks);
  if (get(label.saved_peaks) == peaks) return;
  set(label.saved_bytes, get(label.live_bytes));
  set(label.saved_peaks, peaks);
}

}  // namespace

void note_labelled_allocation(const char* space_name, const char* label_text, std::uint64_t bytes) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  wire::LabelledMemory* const memory = memory_of(segment);
  if (memory == nullptr) return;
  const Label name(label_text);
  const Changing changing(*memory);
  const std::uint32_t index = space_of(*memory, space_name);
  wire::MemorySpace& space = memory->spaces[index];
  wire::MemoryLabel* label = find_label(*memory, index, name, true);
  if (label == nullptr) {
    label = &memory->labels[index];
    count_drop(segment, wire::DropReason::kMemoryLabelTableFull);
  }
  save_for_peak(space, *label);
  add(label->allocations, 1);
  add(label->alloc_bytes, bytes);
  add(label->live_bytes, bytes);
  if (get(label->live_bytes) > get(label->peak_bytes)) set(label->peak_bytes, get(label->live_bytes));
  add(space.allocations, 1);
  add(space.alloc_bytes, bytes);
  add(space.live_bytes, bytes);
  if (get(space.live_bytes) <= get(space.peak_bytes)) return;
  set(space.peak_bytes, get(space.live_bytes));
  set(space.peak_ns, monotonic_ns());
  add(space.peaks, 1);
}

void note_labelled_free(const char* space_name, const char* label_text, std::uint64_t bytes) noexcept {
  wire::LabelledMemory* const memory = memory_of(g_process.segment.load(std::memory_order_acquire));
  if (memory == nullptr) return;
  const Label name(label_text);
  const Changing changing(*memory);
  const std::uint32_t index = space_of(*memory, space_name);
  wire::MemorySpace& space = memory->spaces[index];
  wire::MemoryLabel* label = find_label(*memory, index, name, false);
  if (label == nullptr) label = &memory->labels[index];
  if (get(label->live_bytes) < bytes || get(label->allocations) == get(label->frees)) {
    add(space.unknown_frees, 1);
    add(space.unknown_bytes, bytes);
    return;
  }
  save_for_peak(space, *label);
  add(label->frees, 1);
  set(label->live_bytes, get(label->live_bytes) - bytes);
  add(space.frees, 1);
  set(space.live_bytes, get(space.live_bytes) - bytes);
}

void note_labelled_copy(const char* to_space, const char* from_space, std::uint64_t bytes) noexcept {
  wire::LabelledMemory* const memory = memory_of(g_process.segment.load(std::memory_order_acquire));
  if (memory == nullptr) return;
  const Changing changing(*memory);
  const std::uint32_t to = space_of(*memory, to_space), from = space_of(*memory, from_space);
  add(memory->copies[to][from].count, 1);
  add(memory->copies[to][from].bytes, bytes);
}

void reset_labelled_memory_after_fork() noexcept { store_if_other(g_lock, 0u); }

}  // namespace clusterprof::agent
