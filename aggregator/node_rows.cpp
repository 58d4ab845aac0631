// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/node_rows.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "aggregator/unite.hpp"

namespace clusterprof::aggregator {

using namespace shard;

HeadIndex::HeadIndex(const ShardData& head)
    : head_(head), path_index_(head.paths), ranks_of_(head.nodes.size()) {
  place_in_node_.reserve(head.ranks.size());
  for (std::uint32_t i = 0; i < head.ranks.size(); ++i) {
    std::vector<std::uint32_t>& of_node = ranks_of_[head.ranks[i].node];
    place_in_node_.push_back(static_cast<std::uint32_t>(of_node.size()));
    of_node.push_back(i);
  }
}

std::vector<std::uint32_t> HeadIndex::ranks(std::span<const std::int32_t> world_ranks) const {
  std::vector<std::uint32_t> rows;
  rows.reserve(world_ranks.size());
  for (const std::int32_t rank : world_ranks) {
    const auto found =
        std::lower_bound(head_.ranks.begin(), head_.ranks.end(), rank,
                         [](const Rank& row, std::int32_t number) { return row.rank < number; });
    const bool there = found != head_.ranks.end() && found->rank == rank;
    rows.push_back(there ? static_cast<std::uint32_t>(found - head_.ranks.begin()) : kNone);
  }
  return rows;
}

std::vector<std::uint32_t> HeadIndex::counters(std::span<const std::string> names) const {
  std::vector<std::uint32_t> rows;
  for (const std::string& name : names) {
    const auto found = std::lower_bound(head_.counters.begin(), head_.counters.end(), name);
    const bool there = found != head_.counters.end() && *found == name;
    rows.push_back(there ? static_cast<std::uint32_t>(found - head_.counters.begin()) : kNone);
  }
  return rows;
}

std::uint32_t HeadIndex::node(const std::string& name) const {
  const auto found =
      std::lower_bound(head_.nodes.begin(), head_.nodes.end(), name,
                       [](const Node& node, const std::string& text) { return node.name < text; });
  const bool there = found != head_.nodes.end() && found->name == name;
  return there ? static_cast<std::uint32_t>(found - head_.nodes.begin()) : kNone;
}

void NodeRows::begin(std::uint32_t node) {
  node_ = node;
  rows_ = {};
}

bool NodeRows::add(MatrixRows rows, std::span<const std::uint32_t> new_path,
                   std::span<const std::uint32_t> new_rank, std::span<const std::uint32_t> new_counter) {
  const auto translate = [&](auto& from, auto& into) {
    std::size_t kept = 0;
    for (auto& row : from) {
      const std::uint32_t rank = new_rank[row.rank];
      if (rank == kNone) continue;
      row.rank = rank;
      row.path = new_path[row.path];
      if (row.path == kNone) return false;
      if constexpr (requires { row.counter; }) {
        row.counter = new_counter[row.counter];
        if (row.counter == kNone) return false;
      }
      from[kept++] = row;
    }
    from.resize(kept);
    if (into.empty())
      into = std::move(from);
    else
      into.insert(into.end(), from.begin(), from.end());
    return true;
  };
  return translate(rows.values, rows_.values) && translate(rows.path_counters, rows_.path_counters) &&
         translate(rows.data_accesses, rows_.data_accesses);
}

// A stable counting sort.
template <typename Row, typename Key>
void NodeRows::sort(std::vector<Row>& rows, std::size_t keys, Key key_of) {
  if (std::is_sorted(rows.begin(), rows.end(),
                     [&](const Row& a, const Row& b) { return key_of(a) < key_of(b); }))
    return;
  first_.assign(keys + 1, 0);
  for (const Row& row : rows) ++first_[key_of(row) + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  auto& sorted = std::get<std::vector<Row>>(sorted_);
  sorted.resize(rows.size());
  for (const Row& row : rows) sorted[first_[key_of(row)]++] = row;
  rows.swap(sorted);
}

template <typename Row>
void NodeRows::by_path(std::vector<Row>& rows) {
  sort(rows, index_.head().paths.size(), [](const Row& row) { return row.path; });
}

template <typename Row>
bool is_arranged(const std::vector<Row>& rows) {
  const auto place = [](const Row& row) { return std::uint64_t{row.rank} << 32 | row.path; };
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::uint64_t before = place(rows[i - 1]), here = place(rows[i]);
    if (here < before || (here == before && !(key(rows[i - 1]) < key(rows[i])))) return false;
  }
  return true;
}

// Brings rows into the order of rank, path and the rest of the key.
template <typename Row>
void NodeRows::arrange(std::vector<Row>& rows) {
  if (is_arranged(rows)) return;
  by_path(rows);
  sort(rows, index_.ranks_of(node_).size(), [&](const Row& row) { return index_.place_in_node(row.rank); });
  const auto before = [](const Row& a, const Row& b) { return key(a) < key(b); };
  const auto same_path = [](const Row& a, const Row& b) { return a.rank == b.rank && a.path == b.path; };
  std::size_t kept = 0;
  for (std::size_t i = 0, end = 0; i < rows.size(); i = end) {
    for (end = i + 1; end < rows.size() && same_path(rows[i], rows[end]);) ++end;
    if (end - i > 1) {
      const auto first = rows.begin() + static_cast<std::ptrdiff_t>(i);
      const auto last = rows.begin() + static_cast<std::ptrdiff_t>(end);
      if (!std::is_sorted(first, last, before)) std::sort(first, last, before);
    }
    for (std::size_t row = i; row < end; ++row) {
      if (row > i && key(rows[kept - 1]) == key(rows[row]))
        unite(rows[kept - 1], rows[row]);
      else
        rows[kept++] = rows[row];
    }
  }
  rows.resize(kept);
}

void NodeRows::correct(TimeCorrector& corrector) {
  arrange(rows_.values);
  std::vector<Value>& corrected = std::get<std::vector<Value>>(sorted_);
  corrected.clear();
  std::size_t most_rows = rows_.values.size();
  for (const std::uint32_t rank : index_.ranks_of(node_)) most_rows += corrector.most_added_rows(rank);
  corrected.reserve(most_rows);
  std::span<const Value> left = rows_.values;
  for (const std::uint32_t rank : index_.ranks_of(node_)) {
    std::size_t count = 0;
    while (count < left.size() && left[count].rank == rank) ++count;
    corrector.correct(rank, left.first(count), corrected);
    left = left.subspan(count);
  }
  rows_.values.swap(corrected);
}

void NodeRows::arrange() {
  arrange(rows_.values);
  arrange(rows_.path_counters);
  arrange(rows_.data_accesses);
}

void NodeRows::for_each_rank(const std::function<void(const RankRows&)>& use) {
  arrange();
  for_each_rank_of_sorted(rows_, use);
}

MatrixRows NodeRows::take_by_path() {
  by_path(rows_.values);
  by_path(rows_.path_counters);
  by_path(rows_.data_accesses);
  return std::exchange(rows_, {});
}

}  // namespace clusterprof::aggregator
