// SPDX-License-Identifier: BSD-3-Clause
// Tables that several builders of one analysis fill, each for its own ranks, and that are then merged element
// by element. Merging is commutative and associative.
#pragma once

#include <algorithm>
#include <bit>
#include <cereal/archives/binary.hpp>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/analysis/cells.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {

// A position that no rank has.
inline constexpr std::uint32_t kNoPosition = shard::kNone;

inline void unite(std::uint64_t& into, std::uint64_t from) { into += from; }

// Members of a set.
struct Bits64 {
  std::uint64_t bits = 0;
};
inline void unite(Bits64& into, Bits64 from) { into.bits |= from.bits; }
inline bool has(const std::vector<Bits64>& set, std::size_t member) {
  return member / 64 < set.size() && (set[member / 64].bits >> member % 64 & 1) != 0;
}
inline void insert(std::vector<Bits64>& set, std::size_t member, bool yes = true) {
  set[member / 64].bits |= std::uint64_t{yes} << member % 64;
}
constexpr std::size_t words_of(std::size_t members) { return (members + 63) / 64; }

// How a quantity is distributed over ranks. Most ranks may have none of it.
struct Extremes {
  std::uint64_t min = 0, max = 0;
  std::uint32_t ranks = 0;                   // that have some
  std::uint32_t max_position = kNoPosition;  // of the first rank with max

  // Call once for each rank that has some.
  void add(std::uint64_t amount, std::uint32_t position) { unite_with({amount, amount, 1, position}); }
  void unite_with(const Extremes& other) {
    if (other.ranks == 0) return;
    if (ranks == 0 || other.max > max || (other.max == max && other.max_position < max_position))
      max = other.max, max_position = other.max_position;
    min = ranks == 0 ? other.min : std::min(min, other.min);
    ranks += other.ranks;
  }
};
inline void unite(Extremes& into, const Extremes& from) { into.unite_with(from); }

// The ranks of a head in the order of their numbers.
struct RankOrder {
  explicit RankOrder(const shard::ShardData& head);
  [[nodiscard]] std::int32_t number(std::uint32_t at) const { return at < numbers.size() ? numbers[at] : -1; }
  // The spread of a quantity in nanoseconds with this sum over all ranks.
  [[nodiscard]] RankSpread spread(std::uint64_t total, const Extremes& of) const;

  std::vector<std::uint32_t> ascending;  // rows of the head's ranks
  std::vector<std::uint32_t> position;   // by row of the head's ranks
  std::vector<std::int32_t> numbers;     // by position
};

// Each stage of an analysis passes its tables to a SumsWriter or SumsReader: table(rows, size). `rows` has
// `size` elements, or none as long as no rank has any. table.by_cell(rows): a table by the numbers of Cells,
// which differ between builders. table.append(rows): rows of single ranks, in any order.
class SumsWriter {
 public:
  explicit SumsWriter(cereal::BinaryOutputArchive& archive) : archive_(archive) {}
  void cells(const Cells& cells) const {
    archive_(static_cast<std::uint64_t>(cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i)
      archive_(cells[i].path, static_cast<std::uint8_t>(cells[i].category));
  }
  template <typename T>
  void by_cell(const std::vector<T>& rows) const {
    (*this)(rows, rows.size());
  }
  template <typename T>
  void append(const std::vector<T>& rows) const {
    (*this)(rows, rows.size());
  }
  template <typename T>
  void operator()(const std::vector<T>& rows, std::size_t /*size*/) const {
    static_assert(std::is_trivially_copyable_v<T>);
    archive_(static_cast<std::uint64_t>(rows.size()));
    if (!rows.empty()) archive_(cereal::binary_data(rows.data(), rows.size() * sizeof(T)));
  }

 private:
  cereal::BinaryOutputArchive& archive_;
};

// Merges what was written into what is there. Throws cereal::Exception if it does not fit.
class SumsReader {
 public:
  explicit SumsReader(cereal::BinaryInputArchive& archive) : archive_(archive) {}
  // Comes before the tables by cell. `cells` then has those of the writer, too.
  void cells(std::size_t paths, Cells& cells) {
    std::uint64_t stored = 0;
    archive_(stored);
    if (stored > paths * shard::kCategories) throw cereal::Exception("more cells than there can be");
    cell_numbers_.reserve(stored);
    for (std::uint64_t i = 0; i < stored; ++i) {
      std::uint32_t path = 0;
      std::uint8_t category = 0;
      archive_(path, category);
      if (path >= paths || category >= shard::kCategories) throw cereal::Exception("a cell that cannot be");
      cell_numbers_.push_back(cells.find_or_add(path, static_cast<shard::Category>(category)));
    }
    cells_ = cells.size();
  }
  template <typename T>
  void by_cell(std::vector<T>& rows) const {
    std::uint64_t stored = 0;
    archive_(stored);
    if (stored == 0) return;
    if (stored > cell_numbers_.size()) throw cereal::Exception("a table of another size");
    grow(rows, cells_);
    read<T>(stored, [&](std::size_t at, const T& row) { unite(rows[cell_numbers_[at]], row); });
  }
  template <typename T>
  void append(std::vector<T>& rows) const {
    std::uint64_t stored = 0;
    archive_(stored);
    read<T>(stored, [&](std::size_t /*at*/, const T& row) { rows.push_back(row); });
  }
  template <typename T>
  void operator()(std::vector<T>& rows, std::size_t size) const {
    std::uint64_t stored = 0;
    archive_(stored);
    if (stored == 0) return;
    if (stored != size) throw cereal::Exception("a table of another size");
    rows.resize(size);
    read<T>(size, [&](std::size_t at, const T& row) { unite(rows[at], row); });
  }

 private:
  static constexpr std::size_t kPart = 4096;

  template <typename T, typename Use>
  void read(std::size_t size, const Use& use) const {
    std::vector<T> part(std::min<std::size_t>(size, kPart));
    for (std::size_t at = 0; at < size; at += part.size()) {
      const std::size_t count = std::min(part.size(), size - at);
      archive_(cereal::binary_data(part.data(), count * sizeof(T)));
      for (std::size_t i = 0; i < count; ++i) use(at + i, part[i]);
    }
  }

  cereal::BinaryInputArchive& archive_;
  std::vector<std::uint32_t> cell_numbers_;  // here, by the writer's
  std::size_t cells_ = 0;
};

// The nodes of a tree that one rank uses. Parents have lower numbers than their children; the root, 0, is
// never among the nodes.
class TouchedTree {
 public:
  explicit TouchedTree(std::size_t nodes) : words_(words_of(nodes), 0) {}

  // Adds a node and its ancestors.
  template <typename ParentOf>
  void touch(std::uint32_t node, const ParentOf& parent_of) {
    for (; node != 0 && (words_[node / 64] >> node % 64 & 1) == 0; node = parent_of(node))
      words_[node / 64] |= std::uint64_t{1} << node % 64;
  }
  // Visits the nodes, children before their parents, and forgets them.
  template <typename Use>
  void drain(const Use& use) {
    for (std::size_t w = words_.size(); w-- > 0;)
      for (std::uint64_t& word = words_[w]; word != 0;) {
        const auto bit = static_cast<std::uint32_t>(63 - std::countl_zero(word));
        word &= ~(std::uint64_t{1} << bit);
        use(static_cast<std::uint32_t>(w * 64 + bit));
      }
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace clusterprof::report
