// SPDX-License-Identifier: BSD-3-Clause
// Cells and tables of sections that list rows by call site or file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

inline constexpr std::size_t kFewRows = 5;  // of tables that are not asked for in full

std::string share_cell(double part, double whole);  // in %, without the sign
std::string count_cell(std::uint64_t number);
std::string bytes_cell(std::uint64_t number);
std::string known_bytes(std::uint64_t number);  // 0: not known
template <typename T>
std::string optional_bytes(const std::optional<T>& number) {
  return number ? format::bytes(static_cast<double>(*number)) : "-";
}

// How many of `all` rows a table shows.
std::size_t rows_shown(std::size_t all, const ResourceOptions& options);
// The title of one of several tables in a section.
void title(Page& page, std::string_view text);

// Prints a table whose last column takes the room that is left: `fill(table, room)` adds the rows.
// Returns the columns that there was room for.
template <typename Fill>
std::vector<bool> print_table(Page& page, const std::vector<Table::Column>& columns, const Fill& fill) {
  Table narrow(columns);
  fill(narrow, 0);
  Table table(columns);
  fill(table, narrow.room(page.width()));
  return table.print(page);
}

// "step() train.py:57", in at most `room` columns.
std::string place_of(std::string_view function, shard::FrameKind kind, std::string_view file,
                     std::uint32_t line, const format::ShortPaths& paths, std::size_t room);
// Adds the library function that is called there, where there is room.
std::string with_called(std::string place, const std::string& called, std::size_t room);
// Both; "-" where the place is not known.
std::string place_cell(const SourceLocation& place, const format::ShortPaths& paths, std::size_t room);
// "8 x worker", with the name in at most so many columns.
std::string counted_name(std::uint64_t count, const std::string& name,
                         std::size_t columns = std::string::npos);

}  // namespace clusterprof::report::text
