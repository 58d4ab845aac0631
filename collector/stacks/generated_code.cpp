// SPDX-License-Identifier: BSD-3-Clause
#include "collector/stacks/generated_code.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "collector/names/generated_object.hpp"

namespace clusterprof::collector {

bool GeneratedCode::take_news() noexcept { return std::exchange(has_news_, false); }

bool GeneratedCode::take_replaced() noexcept { return std::exchange(has_replaced_, false); }

void GeneratedCode::read() {
  const auto& layout = segment_.layout();
  const std::uint64_t used = std::min(segment_.header().generated_arena_used.load(std::memory_order_acquire),
                                      layout.generated_arena_bytes);
  while (bytes_read_ < used) {
    wire::GeneratedObject entry;
    const bool sane = segment_.copy(layout.generated_arena_offset, used, bytes_read_, &entry, sizeof entry) &&
                      entry.entry_bytes >= sizeof entry && entry.entry_bytes % 8 == 0 &&
                      entry.entry_bytes <= used - bytes_read_ &&
                      entry.object_bytes <= entry.entry_bytes - sizeof entry;
    if (!sane) {
      drops_.add("damaged_generated");
      bytes_read_ = layout.generated_arena_bytes;
      break;
    }
    const auto number = static_cast<std::uint32_t>(objects_.size());
    objects_.push_back({bytes_read_ + sizeof entry, entry.object_bytes, entry.epoch});
    bytes_read_ += entry.entry_bytes;
    for (const AddressRange& range : functions_of_object(copy_of(objects_.back()))) {
      add(range.begin, range.end, number);
      has_news_ = true;
    }
  }
}

std::vector<std::uint8_t> GeneratedCode::copy_of(const Object& object) const {
  const auto& layout = segment_.layout();
  std::vector<std::uint8_t> bytes(object.bytes);
  if (!segment_.copy(layout.generated_arena_offset, layout.generated_arena_bytes, object.offset, bytes.data(),
                     bytes.size()))
    bytes.clear();
  return bytes;
}

void GeneratedCode::add(std::uint64_t begin, std::uint64_t end, std::uint32_t object) {
  auto at = pieces_.upper_bound(begin);
  if (at != pieces_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != pieces_.end() && at->first < end) {
    const auto [first, piece] = *at;
    has_replaced_ = true;
    at = pieces_.erase(at);
    if (first < begin) pieces_.emplace(first, Piece{begin, piece.object});
    if (piece.end > end) {
      pieces_.emplace(end, piece);
      break;
    }
  }
  pieces_.emplace(begin, Piece{end, object});
}

std::optional<GeneratedCode::Place> GeneratedCode::find(std::uint64_t address) {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin() || address >= std::prev(after)->second.end) return std::nullopt;
  Object& object = objects_[std::prev(after)->second.object];
  const bool may_have_room = object.module == kNoModule && object.openings != store_.openings();
  if (may_have_room && !object.is_damaged) {
    object.openings = store_.openings();
    const std::vector<std::uint8_t> bytes = copy_of(object);
    object.moved_by = common_move(bytes);
    if (auto placed = placed_object(bytes, object.moved_by)) {
      object.module = store_.generated_module(std::move(*placed));
      if (object.module == kNoModule) drops_.add("generated_arena_full");
    } else {
      drops_.add("damaged_generated");
      object.is_damaged = true;
    }
  }
  if (object.is_damaged) return std::nullopt;
  return Place{object.module, object.epoch, object.moved_by};
}

RawFrame GeneratedCode::frame(const Place& place, RawKind kind, std::uint64_t word) {
  if (place.module == kNoModule) return {RawKind::kNamed, store_.name("[unknown]"), 0};
  return {kind, place.module, word - place.moved_by};
}

}  // namespace clusterprof::collector
