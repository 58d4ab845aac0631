// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/rank_rows.hpp"

#include <algorithm>
#include <cstddef>

#include "formats/shard/row_order.hpp"

namespace clusterprof::shard {
namespace {

// The columns that distinguish rows of one rank and path, in order.
std::uint32_t detail(const Value& row) {
  return static_cast<std::uint32_t>(row.category) << 1 | (row.main_thread ? 0u : 1u);
}
std::uint32_t detail(const PathCounter& row) { return row.counter; }
std::uint32_t detail(const DataAccess&) { return 0; }

std::uint64_t place(const auto& row, RowOrder order) {
  return order == RowOrder::kByRank ? std::uint64_t{row.rank} << 32 | row.path
                                    : std::uint64_t{row.path} << 32 | row.rank;
}

template <typename Row>
bool is_sorted(std::span<const Row> rows, RowOrder order) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::uint64_t before = place(rows[i - 1], order), here = place(rows[i], order);
    if (here < before || (here == before && detail(rows[i]) < detail(rows[i - 1]))) return false;
  }
  return true;
}

// Sorts `items` by 32-bit keys, keeping the order of equal ones: a counting sort where keys are dense enough.
struct Item {
  std::uint32_t row;
  std::uint32_t key;
};
void sort_items(std::vector<Item>& items, std::vector<Item>& scratch, std::vector<std::uint32_t>& starts) {
  std::uint32_t largest = 0;
  for (const Item& item : items) largest = std::max(largest, item.key);
  if (largest / 8 > items.size()) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.key < b.key; });
    return;
  }
  starts.assign(std::size_t{largest} + 2, 0);
  for (const Item& item : items) ++starts[item.key + 1];
  for (std::size_t key = 1; key < starts.size(); ++key) starts[key] += starts[key - 1];
  scratch.resize(items.size());
  for (const Item& item : items) scratch[starts[item.key]++] = item;
  items.swap(scratch);
}

template <typename Row>
void sort_by_place(std::vector<Row>& rows, RowOrder order) {
  const auto in_order = [order](const Row& a, const Row& b) { return place(a, order) < place(b, order); };
  if (std::is_sorted(rows.begin(), rows.end(), in_order)) return;
  std::vector<Item> items(rows.size()), scratch;
  std::vector<std::uint32_t> starts;
  for (std::uint32_t i = 0; i < rows.size(); ++i)
    items[i] = {i, order == RowOrder::kByRank ? rows[i].path : rows[i].rank};
  const auto by_key = [](const Item& a, const Item& b) { return a.key < b.key; };
  if (!std::is_sorted(items.begin(), items.end(), by_key)) sort_items(items, scratch, starts);
  for (Item& item : items) item.key = order == RowOrder::kByRank ? rows[item.row].rank : rows[item.row].path;
  sort_items(items, scratch, starts);
  std::vector<Row> sorted;
  sorted.reserve(rows.size());
  for (const Item& item : items) sorted.push_back(rows[item.row]);
  rows = std::move(sorted);
}

template <typename Row>
void sort_rows(std::vector<Row>& rows, RowOrder order) {
  if (is_sorted(std::span<const Row>(rows), order)) return;
  sort_by_place(rows, order);
  // Few rows are equal so far.
  for (auto begin = rows.begin(); begin != rows.end();) {
    const auto end = std::find_if(begin + 1, rows.end(),
                                  [&](const Row& row) { return place(row, order) != place(*begin, order); });
    if (end - begin > 1)
      std::stable_sort(begin, end, [](const Row& a, const Row& b) { return detail(a) < detail(b); });
    begin = end;
  }
}

// Takes the rows of `rank` from the front of `rows`, which are by rank.
template <typename Row>
std::span<const Row> take(std::span<const Row>& rows, std::uint32_t rank) {
  std::size_t count = 0;
  while (count < rows.size() && rows[count].rank == rank) ++count;
  const std::span<const Row> taken = rows.first(count);
  rows = rows.subspan(count);
  return taken;
}

void hand_out(std::span<const Value> values, std::span<const PathCounter> path_counters,
              std::span<const DataAccess> data_accesses, const std::function<void(const RankRows&)>& use) {
  while (!values.empty() || !path_counters.empty() || !data_accesses.empty()) {
    std::uint32_t rank = kNone;
    if (!values.empty()) rank = std::min(rank, values.front().rank);
    if (!path_counters.empty()) rank = std::min(rank, path_counters.front().rank);
    if (!data_accesses.empty()) rank = std::min(rank, data_accesses.front().rank);
    const std::span<const Value> own_values = take(values, rank);
    const std::span<const PathCounter> own_counters = take(path_counters, rank);
    use({rank, own_values, own_counters, take(data_accesses, rank)});
  }
}

}  // namespace

void sort_rows(MatrixRows& rows, RowOrder order) {
  sort_rows(rows.values, order);
  sort_rows(rows.path_counters, order);
  sort_rows(rows.data_accesses, order);
}

bool is_sorted(const MatrixRows& rows, RowOrder order) {
  return is_sorted(std::span<const Value>(rows.values), order) &&
         is_sorted(std::span<const PathCounter>(rows.path_counters), order) &&
         is_sorted(std::span<const DataAccess>(rows.data_accesses), order);
}

void for_each_rank_of_sorted(const MatrixRows& rows, const std::function<void(const RankRows&)>& use) {
  hand_out(rows.values, rows.path_counters, rows.data_accesses, use);
}

void for_each_rank_of(MatrixRows rows, const std::function<void(const RankRows&)>& use) {
  sort_rows(rows, RowOrder::kByRank);
  for_each_rank_of_sorted(rows, use);
}

void InMemoryRows::for_each_rank(const std::function<void(const RankRows&)>& use) const {
  // Copies only the rows that are not in order.
  MatrixRows sorted;
  const auto in_order = [](const auto& rows, auto& copy) {
    using Row = typename std::remove_cvref_t<decltype(rows)>::value_type;
    if (is_sorted(std::span<const Row>(rows), RowOrder::kByRank)) return std::span<const Row>(rows);
    copy = rows;
    sort_rows(copy, RowOrder::kByRank);
    return std::span<const Row>(copy);
  };
  const auto values = in_order(data_.values, sorted.values);
  const auto path_counters = in_order(data_.path_counters, sorted.path_counters);
  hand_out(values, path_counters, in_order(data_.data_accesses, sorted.data_accesses), use);
}

}  // namespace clusterprof::shard
