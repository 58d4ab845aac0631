// SPDX-License-Identifier: BSD-3-Clause
// Writer and Reader: the two directions in which a table of rows goes between memory and HDF5. Both have the
// same functions, so one list of columns (tables.cpp) serves both. Internal to formats/shard.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/h5/h5.hpp"
#include "formats/shard/format_file.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// --- how a field is stored -----------------------------------------------------------------

template <typename T>
struct StoredAs {
  using type = T;
};
template <>
struct StoredAs<bool> {
  using type = std::uint8_t;
};
template <typename T>
requires std::is_enum_v<T>
struct StoredAs<T> {
  using type = std::underlying_type_t<T>;
};

template <typename Row, typename Field>
using FieldType = std::remove_cvref_t<std::invoke_result_t<Field, Row&>>;

// The order of rows in the tables that can be read rank by rank.
template <typename Row>
requires requires(const Row& row) { row.rank, row.path; }
std::uint64_t place_by_rank(const Row& row) { return std::uint64_t{row.rank} << 32 | row.path; }
inline auto place_by_rank(const RankSeries& row) {
  return std::pair(std::uint64_t{row.rank} << 32 | row.series, row.bin);
}
inline std::uint64_t place_by_rank(const CallUnderWay& row) {
  return std::uint64_t{row.rank} << 32 | static_cast<std::uint32_t>(row.tid);
}
inline std::uint64_t place_by_rank(const PendingRequest& row) {
  return std::uint64_t{row.rank} << 32 | static_cast<std::uint32_t>(row.tid);
}
inline std::uint64_t place_by_rank(const GroupNumber& row) {
  return std::uint64_t{row.rank} << 32 | row.communicator;
}
inline auto place_by_rank(const GroupMessages& row) {
  return std::pair(std::uint64_t{row.rank} << 32 | row.communicator, row.destination);
}

template <typename Row>
bool before_by_rank(const Row& a, const Row& b) {
  return place_by_rank(a) < place_by_rank(b);
}

// --- writing -------------------------------------------------------------------------------

template <typename Row>
class TableWriter {
 public:
  TableWriter(h5::Group group, std::span<const Row> rows) : group_(std::move(group)), rows_(rows) {}

  template <typename Field>
  void column(const char* name, Field field) {
    using Stored = typename StoredAs<FieldType<const Row, Field>>::type;
    std::vector<Stored> column(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i)
      column[i] = static_cast<Stored>(std::invoke(field, rows_[i]));
    group_.write_column<Stored>(name, column);
  }
  template <typename Field>
  void strings(const char* name, Field field) {
    std::vector<std::string> column;
    column.reserve(rows_.size());
    for (const Row& row : rows_) column.push_back(std::invoke(field, row));
    group_.write_strings(name, column);
  }
  // For values that files store by their names: `name_of` gives a value's name, `by_name` finds the value.
  template <typename Field, typename NameOf, typename ByName>
  void named(const char* name, Field field, NameOf name_of, ByName) {
    strings(name, [&](const Row& row) { return std::string(name_of(std::invoke(field, row))); });
  }
  void rank_offsets(std::size_t ranks) {
    std::vector<std::uint64_t> offsets(ranks + 1);
    for (const Row& row : rows_) ++offsets[row.rank + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    group_.write_column<std::uint64_t>("rank_offsets", offsets);
  }

 private:
  h5::Group group_;
  std::span<const Row> rows_;
};

class Writer {
 public:
  Writer(h5::Group& root, bool profile) : root_(root), profile_(profile) {}
  [[nodiscard]] bool is_profile() const { return profile_; }

  // HDF5 takes as long for an empty column as for a short one, and most tables of most shards are empty.
  template <typename Row, typename Columns>
  void table(const char* name, const std::vector<Row>& rows, Columns columns) {
    if (!profile_ && rows.empty()) return;
    TableWriter<Row> writer(root_.create_group(name), rows);
    columns(writer);
  }
  template <typename Row, typename Columns>
  void ranked_table(const char* name, const std::vector<Row>& rows, std::size_t ranks, Columns columns) {
    if (!profile_ && rows.empty()) return;
    std::vector<Row> sorted;
    const bool is_sorted = std::is_sorted(rows.begin(), rows.end(), before_by_rank<Row>);
    if (!is_sorted) {
      sorted = rows;
      std::stable_sort(sorted.begin(), sorted.end(), before_by_rank<Row>);
    }
    TableWriter<Row> writer(root_.create_group(name), is_sorted ? rows : sorted);
    writer.rank_offsets(ranks);
    columns(writer);
  }
  void list(const char* table, const char* column, const std::vector<std::string>& rows) {
    root_.create_group(table).write_strings(column, rows);
  }
  void run(const Run& run) {
    h5::Group group = root_.create_group("run");
    group.write_attribute("id", run.id);
    group.write_attribute("start_utc_ns", run.start_utc_ns);
    group.write_attribute("world_size", run.world_size);
    group.write_attribute("rate_hz", run.rate_hz);
    group.write_attribute("clock", run.clock);
    group.write_attribute("version", run.version);
    group.write_attribute("mpi_library", run.mpi_library);
    group.write_attribute("complete", static_cast<std::uint8_t>(run.complete));
    group.write_attribute("sample_on", run.sample_on);
    group.write_attribute("launcher", run.launcher);
    group.write_attribute("only_regions", static_cast<std::uint8_t>(run.only_regions));
    group.write_attribute("standby", static_cast<std::uint8_t>(run.standby));
    group.write_attribute("counters_multiplexed", static_cast<std::uint8_t>(run.counters_multiplexed));
    group.write_strings("command", run.command);
    group.write_strings("own", run.own);
  }
  template <typename Fields>
  void attributes(const char* name, Fields fields) {
    h5::Group group = root_.create_group(name);
    fields([&](const char* attribute, const auto& value) {
      if constexpr (sizeof value == sizeof(std::uint64_t))
        group.write_attribute(attribute, static_cast<std::int64_t>(value));
      else
        group.write_attribute(
            attribute, static_cast<typename StoredAs<std::remove_cvref_t<decltype(value)>>::type>(value));
    });
  }

 private:
  h5::Group& root_;
  bool profile_;
};

// --- reading -------------------------------------------------------------------------------

template <typename Row>
class TableReader {
 public:
  TableReader(h5::Group group, std::vector<Row>& rows) : group_(std::move(group)), rows_(rows) {}

  // Opens the column. finish() reads all columns together, a piece of each at a time, while the rows that it
  // fills are in the cache.
  template <typename Field>
  void column(const char* name, Field field) {
    using Item = FieldType<Row, Field>;
    using Stored = typename StoredAs<Item>::type;
    h5::ColumnStream column = group_.open_column<Stored>(name);
    set_count(name, column.rows());
    columns_.push_back([this, name = std::string(name), field,
                        column = std::make_shared<h5::ColumnStream>(std::move(column))](std::span<Row> rows) {
      const std::span<Stored> stored(reinterpret_cast<Stored*>(piece_.data()), rows.size());
      column->next(stored);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if constexpr (std::same_as<Item, bool>) {
          if (stored[i] > 1)
            throw h5::H5Error("column " + group_.name() + "/" + name + " is neither 0 nor 1");
        }
        std::invoke(field, rows[i]) = static_cast<Item>(stored[i]);
      }
    });
  }
  template <typename Field>
  void strings(const char* name, Field field) {
    std::vector<std::string> column = group_.read_strings(name);
    set_count(name, column.size());
    columns_.push_back(
        [field, column = std::move(column), done = std::size_t{0}](std::span<Row> rows) mutable {
          for (Row& row : rows) std::invoke(field, row) = std::move(column[done++]);
        });
  }
  template <typename Field, typename NameOf, typename ByName>
  void named(const char* name, Field field, NameOf, ByName by_name) {
    std::vector<std::string> column = group_.read_strings(name);
    set_count(name, column.size());
    columns_.push_back([this, name = std::string(name), field, by_name, column = std::move(column),
                        done = std::size_t{0}](std::span<Row> rows) mutable {
      for (Row& row : rows) {
        const auto value = by_name(column[done++]);
        if (!value) throw h5::H5Error("column " + group_.name() + "/" + name + " has an unknown name");
        std::invoke(field, row) = *value;
      }
    });
  }
  void rank_offsets(std::size_t ranks) {
    offsets_ = group_.read_column<std::uint64_t>("rank_offsets");
    if (offsets_.size() != ranks + 1 || offsets_.front() != 0 ||
        !std::is_sorted(offsets_.begin(), offsets_.end()))
      throw h5::H5Error("column " + group_.name() + "/rank_offsets does not fit the ranks");
  }
  void finish() {
    if (!offsets_.empty() && offsets_.back() != count_)
      throw h5::H5Error("column " + group_.name() + "/rank_offsets does not fit the rows");
    rows_.clear();
    // Safe to allocate: open_column() has checked that the file can hold that many rows.
    rows_.reserve(count_);
    piece_.resize(std::min<std::uint64_t>(count_, h5::kChunkRows) * sizeof(std::uint64_t));
    std::size_t rank = 0;
    do {  // once even without rows, or the checksums would not be checked
      const std::size_t begin = rows_.size();
      rows_.resize(std::min<std::size_t>(begin + h5::kChunkRows, count_));
      const std::span<Row> rows = std::span(rows_).subspan(begin);
      for (const auto& column : columns_) column(rows);
      if constexpr (requires(const Row& row) { place_by_rank(row); })
        if (!offsets_.empty()) set_ranks(begin, rank);
    } while (rows_.size() < count_);
  }

 private:
  void set_count(const char* name, std::uint64_t count) {
    if (sized_ && count != count_)
      throw h5::H5Error("column " + group_.name() + "/" + name + " is not as long as the others");
    count_ = count;
    sized_ = true;
  }
  // Sets the rank of the rows from `begin` on. `rank` is the rank of the row before them.
  void set_ranks(std::size_t begin, std::size_t& rank) {
    for (std::size_t i = begin; i < rows_.size(); ++i) {
      while (i >= offsets_[rank + 1]) ++rank;
      rows_[i].rank = static_cast<std::uint32_t>(rank);
      if (i != 0 && before_by_rank(rows_[i], rows_[i - 1]))
        throw h5::H5Error("table " + group_.name() + " is not in order");
    }
  }

  h5::Group group_;
  std::vector<Row>& rows_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::function<void(std::span<Row>)>> columns_;
  std::vector<std::byte> piece_;  // the stored values of one column
  std::uint64_t count_ = 0;
  bool sized_ = false;
};

class Reader {
 public:
  explicit Reader(const h5::Group& root)
      : root_(root), profile_(root.has_attribute("format") && root.read_string("format") == kProfileFormat) {}
  [[nodiscard]] bool is_profile() const { return profile_; }

  template <typename Row, typename Columns>
  void table(const char* name, std::vector<Row>& rows, Columns columns) {
    if (has_no_rows(name)) return rows.clear();
    TableReader<Row> reader(root_.open_group(name), rows);
    columns(reader);
    reader.finish();
  }
  template <typename Row, typename Columns>
  void ranked_table(const char* name, std::vector<Row>& rows, std::size_t ranks, Columns columns) {
    if (has_no_rows(name)) return rows.clear();
    TableReader<Row> reader(root_.open_group(name), rows);
    reader.rank_offsets(ranks);
    columns(reader);
    reader.finish();
  }
  void list(const char* table, const char* column, std::vector<std::string>& rows) {
    rows = root_.open_group(table).read_strings(column);
  }
  void run(Run& run) {
    const h5::Group group = root_.open_group("run");
    run.id = group.read_string("id");
    run.start_utc_ns = group.read_integer("start_utc_ns", std::numeric_limits<std::int64_t>::min(),
                                          std::numeric_limits<std::int64_t>::max());
    constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
    run.world_size = static_cast<std::uint32_t>(group.read_integer("world_size", 0, kMaxWorldSize));
    run.rate_hz = static_cast<std::uint32_t>(group.read_integer("rate_hz", 0, kMax));
    run.clock = group.read_string("clock");
    run.version = group.read_string("version");
    run.mpi_library = group.read_string("mpi_library");
    run.complete = group.read_integer("complete", 0, 1) != 0;
    run.sample_on = group.read_string("sample_on");
    run.launcher = group.read_string("launcher");
    run.only_regions = group.read_integer("only_regions", 0, 1) != 0;
    run.standby = group.read_integer("standby", 0, 1) != 0;
    run.counters_multiplexed = group.read_integer("counters_multiplexed", 0, 1) != 0;
    run.command = group.read_strings("command");
    run.own = group.read_strings("own");
  }
  template <typename Fields>
  void attributes(const char* name, Fields fields) {
    const h5::Group group = root_.open_group(name);
    fields([&](const char* attribute, auto& value) {
      using Item = std::remove_cvref_t<decltype(value)>;
      constexpr std::int64_t kMax = sizeof value == sizeof(std::uint64_t)
                                        ? std::numeric_limits<std::int64_t>::max()
                                        : static_cast<std::int64_t>(std::numeric_limits<Item>::max());
      value = static_cast<Item>(group.read_integer(attribute, 0, kMax));
    });
  }

 private:
  [[nodiscard]] bool has_no_rows(const char* table) const { return !profile_ && !root_.has(table); }

  const h5::Group& root_;
  bool profile_;
};

}  // namespace clusterprof::shard
