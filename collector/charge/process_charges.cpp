// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/process_charges.hpp"

#include <algorithm>

#include "collector/rings/segment_view.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMaxAccesses = 1u << 16;

std::uint64_t row_number(const RawValueKey& key) {
  static_assert(shard::kCategories <= 8);
  return (std::uint64_t{key.path} << 4) | (static_cast<std::uint64_t>(key.category) << 1) |
         (key.main_thread ? 1u : 0u);
}

}  // namespace

std::uint32_t ProcessCharges::find_row(const RawValueKey& key) const noexcept {
  return row_index_.find(row_number(key));
}

bool ProcessCharges::has_room_for_row() {
  const StoreLimits& limits = store_.limits();
  const std::size_t cost = 1 + counter_numbers_.size();  // it may have one of each counter
  if (rows_.size() < limits.process_rows && store_.take_rows(cost)) {
    rows_taken_ += cost;
    return true;
  }
  return rows_.size() < limits.fewest_rows;
}

std::uint32_t ProcessCharges::row_of(RawValueKey key) {
  if (const std::uint32_t row = find_row(key); row != FlatIndex::kAbsent) return row;
  if (!has_room_for_row()) {
    key.path = store_.shorten(key.path);
    if (const std::uint32_t row = find_row(key); row != FlatIndex::kAbsent) return row;
    if (short_rows_ >= store_.limits().short_rows) {
      key.path = store_.shortest();
      if (const std::uint32_t row = find_row(key); row != FlatIndex::kAbsent) return row;
    }
    ++short_rows_;
  }
  left_callers_out_ = left_callers_out_ || store_.is_short(key.path);
  const auto row = static_cast<std::uint32_t>(rows_.size());
  rows_.push_back({key, {}});
  row_index_.insert(row_number(key), row);
  return row;
}

void ProcessCharges::take_new(LiveTimes* times) {
  taken_ns_.resize(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto& [key, amount] = rows_[i];
    const std::uint64_t ns = key.main_thread ? amount.wall_ns : amount.cpu_ns;
    if (ns <= taken_ns_[i]) continue;
    if (times != nullptr) times->add(key.path, key.category, ns - taken_ns_[i]);
    taken_ns_[i] = ns;
  }
}

ChargeTarget ProcessCharges::target(const RawValueKey& key) { return target_of_row(row_of(key)); }

void ProcessCharges::read_counter_names(const wire::SegmentHeader& header) {
  const std::uint32_t count = std::min(header.counter_count, wire::kMaxCounters);
  for (auto i = static_cast<std::uint32_t>(counter_numbers_.size()); i < count; ++i)
    counter_numbers_.push_back(
        store_.counter(bounded_text(header.counter_names[i], wire::kCounterNameBytes)));
}

void ProcessCharges::add_access(std::uint32_t row, bool has_address, std::uint64_t data_address) {
  if (access_of_row_.size() <= row)
    access_of_row_.resize(std::max<std::size_t>(rows_.capacity(), row + 1), FlatIndex::kAbsent);
  std::uint32_t& index = access_of_row_[row];
  if (index == FlatIndex::kAbsent) {
    if (accesses_.size() >= kMaxAccesses) return;
    index = static_cast<std::uint32_t>(accesses_.size());
    accesses_.push_back({row, {}});
  }
  RawAccess& amount = accesses_[index].amount;
  ++amount.samples;
  if (!has_address) return;
  has_addresses_ = true;
  ++amount.accesses;
  const std::uint64_t bit = mix(data_address / shard::DataAccess::kBlockBytes) % 256;
  amount.blocks[bit / 64] |= std::uint64_t{1} << bit % 64;
}

std::unordered_map<std::uint32_t, RawAccess> ProcessCharges::accesses() const {
  std::unordered_map<std::uint32_t, RawAccess> by_path;
  if (has_addresses_)
    for (const Access& access : accesses_) by_path[rows_[access.row].key.path].add(access.amount);
  return by_path;
}

}  // namespace clusterprof::collector
