// SPDX-License-Identifier: BSD-3-Clause
#include "report/diff/joined_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/base_name.hpp"
#include "base/library_name.hpp"

namespace clusterprof::report {
namespace {

// What rows of different runs must agree in to be about the same thing. Installations differ in their
// folders, and lines move with the functions that they are in.
using RowKey = std::tuple<shard::FrameKind, std::string, std::string, std::string, std::string, std::int64_t>;

// How much of a file's name counts. The less, the more alike are other installations; if that stands for
// several files in one run, more counts.
enum class PlaceDetail : std::uint8_t { kWithoutVersion = 0, kName, kWholePath };
constexpr std::size_t kShortDetails = 2;

std::string place_text(const std::string& place, PlaceDetail detail) {
  switch (detail) {
    case PlaceDetail::kWithoutVersion:
      return unversioned_name(place);
    case PlaceDetail::kName:
      return std::string(base_name(place));
    case PlaceDetail::kWholePath:
      break;
  }
  return place;
}

RowKey key_of(const FactRow& row, PlaceDetail detail) {
  const Subject& subject = row.subject;
  const std::string& place = subject.file.empty() ? subject.module : subject.file;
  const bool derived = row.table == DiffTable::kDerived;
  const bool has_line =
      row.table == DiffTable::kLines || row.table == DiffTable::kMpiCalls || row.table == DiffTable::kMemory;
  const std::int64_t line =
      !has_line ? 0
                : std::int64_t{subject.line} -
                      (subject.start != 0 && subject.start <= subject.line ? subject.start : 0);
  return {subject.kind,     subject.name,  derived ? "" : place_text(place, detail),
          subject.function, subject.space, line};
}

// By detail: short names that stand for several files in one run.
using Ambiguous = std::array<std::set<RowKey>, kShortDetails>;
Ambiguous find_ambiguous(std::span<const RunFacts* const> runs, DiffTable table) {
  Ambiguous ambiguous;
  for (const RunFacts* run : runs) {
    std::array<std::map<RowKey, RowKey>, kShortDetails> seen;
    for (const FactRow& row : run->rows) {
      if (row.table != table) continue;
      const RowKey whole = key_of(row, PlaceDetail::kWholePath);
      for (std::size_t d = 0; d < kShortDetails; ++d) {
        RowKey key = key_of(row, static_cast<PlaceDetail>(d));
        const auto [first, is_new] = seen[d].try_emplace(key, whole);
        if (!is_new && first->second != whole) ambiguous[d].insert(std::move(key));
      }
    }
  }
  return ambiguous;
}

// The shortest that stands for one file in each run.
RowKey key_of(const FactRow& row, const Ambiguous& ambiguous) {
  for (std::size_t d = 0; d < kShortDetails; ++d)
    if (RowKey key = key_of(row, static_cast<PlaceDetail>(d)); !ambiguous[d].contains(key)) return key;
  return key_of(row, PlaceDetail::kWholePath);
}

}  // namespace

const FactRow& JoinedRow::last() const {
  const auto found =
      std::find_if(of_run.rbegin(), of_run.rend(), [](const FactRow* row) { return row != nullptr; });
  return **found;
}

std::vector<JoinedRow> join_rows(std::span<const RunFacts* const> runs, DiffTable table) {
  const Ambiguous ambiguous = find_ambiguous(runs, table);
  std::vector<std::optional<double>> absent;
  for (const RunFacts* run : runs)
    absent.push_back(run->zero_if_absent[static_cast<std::size_t>(table)] ? std::optional(0.0)
                                                                          : std::nullopt);
  std::vector<JoinedRow> rows;
  std::map<RowKey, std::size_t> known;
  std::set<std::tuple<std::size_t, std::size_t, std::size_t>> seen;  // row, column, run: has a value
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (const FactRow& row : runs[r]->rows) {
      if (row.table != table) continue;
      const auto [found, is_new] = known.try_emplace(key_of(row, ambiguous), rows.size());
      if (is_new) rows.push_back({std::vector<const FactRow*>(runs.size()), {}});
      const std::size_t at = found->second;
      JoinedRow& joined = rows[at];
      joined.of_run[r] = &row;
      for (std::size_t c = 0; c < row.values.size(); ++c) {
        if (c == joined.columns.size()) joined.columns.push_back({row.values[c], absent});
        std::optional<double>& cell = joined.columns[c].values[r];
        const std::optional<double>& value = row.values[c].value;
        if (seen.insert({at, c, r}).second)
          cell = value;
        else if (value)
          cell = cell.value_or(0) + *value;
      }
    }
  return rows;
}

}  // namespace clusterprof::report
