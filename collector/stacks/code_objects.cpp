// SPDX-License-Identifier: BSD-3-Clause
#include "collector/stacks/code_objects.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "formats/wire/table_place.h"

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kCodeSearchIntervalNs = 1'000'000'000;

}  // namespace

// Looks in the places where the agent may have put it (describe_code).
CodeObjects::State CodeObjects::find(std::uint64_t code_id) {
  if (index_.contains(code_id)) return State::kKnown;
  const auto& layout = segment_.layout();
  const auto* const slots = segment_.table<wire::CodeSlot>(layout.code_slots_offset);
  const std::uint32_t probes = std::min(wire::kCodeProbes, layout.code_slots);
  if (code_id == 0) return State::kNever;
  for (std::uint32_t probe = 0; probe < probes; ++probe) {
    const wire::CodeSlot& slot = slots[wire::table_place(code_id, probe, layout.code_slots)];
    const std::uint64_t key = slot.key.load(std::memory_order_acquire);
    if (key == 0) return State::kNotYet;
    if (key != code_id) continue;
    const std::uint64_t offset = slot.entry_offset.load(std::memory_order_acquire);
    if (offset == 0) return State::kNotYet;
    if (offset == wire::kNoCodeEntry) return State::kNever;
    index_.emplace(code_id, read(offset - 1));
    return State::kKnown;
  }
  return State::kNever;
}

std::optional<std::uint32_t> CodeObjects::index(std::uint64_t code_id) const {
  const auto found = index_.find(code_id);
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

bool CodeObjects::may_have_news(std::uint64_t now_ns) {
  const std::uint64_t used = segment_.header().code_arena_used.load(std::memory_order_acquire);
  if (used == arena_used_ && now_ns < next_search_ns_) return false;
  arena_used_ = used;
  next_search_ns_ = now_ns + kCodeSearchIntervalNs;
  return true;
}

std::uint32_t CodeObjects::read(std::uint64_t offset) {
  const auto& layout = segment_.layout();
  const std::uint64_t arena = layout.code_arena_offset, bytes = layout.code_arena_bytes;
  const std::uint32_t version = segment_.header().python_version.load(std::memory_order_relaxed);
  wire::CodeEntry entry;
  const bool sane = segment_.copy(arena, bytes, offset, &entry, sizeof entry) &&
                    entry.filename_bytes <= kMaxTextBytes && entry.name_bytes <= kMaxTextBytes &&
                    entry.line_table_bytes <= bytes &&
                    // Checked before memory is allocated.
                    std::uint64_t{entry.filename_bytes} + entry.name_bytes + entry.line_table_bytes <=
                        bytes - offset - sizeof entry;
  if (!sane) {
    drops_.add("damaged_code");
    return store_.code(CodeInfo{"", "<damaged>", 0, version, {}});
  }
  CodeInfo info{std::string(entry.filename_bytes, '\0'), std::string(entry.name_bytes, '\0'),
                entry.first_line, version, std::vector<std::uint8_t>(entry.line_table_bytes)};
  std::uint64_t at = offset + sizeof entry;
  const auto take = [&](void* to, std::size_t size) {
    const bool taken = segment_.copy(arena, bytes, at, to, size);
    at += size;
    return taken;
  };
  if (!take(info.file.data(), info.file.size()) || !take(info.name.data(), info.name.size()) ||
      !take(info.line_table.data(), info.line_table.size()))
    drops_.add("damaged_code");
  return store_.code(std::move(info));
}

}  // namespace clusterprof::collector
