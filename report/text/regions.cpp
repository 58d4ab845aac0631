// SPDX-License-Identifier: BSD-3-Clause
// The section on regions of the program.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/base_name.hpp"
#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

using Rows = std::vector<const RegionRow*>;

// The last part of the name, indented by the regions around it; and who names it, where that is not the
// program. A backward operator has the line of its forward one.
std::string indented_name(const RegionRow& row) {
  std::string name =
      std::string(2 * (std::min<std::size_t>(row.names.size(), 12) - 1), ' ') + printable(row.names.back());
  if (!row.domain.empty()) name += fmt::format("  [{}]", printable(row.domain));
  if (!row.forward_file.empty())
    name += fmt::format("  of {}:{}", printable(base_name(row.forward_file)), row.forward_line);
  return name;
}

// by_rank: there are several.
void print_region_parts(Page& page, const Rows& rows, const TimeScale& scale, std::size_t shown,
                        bool by_rank) {
  title(page, by_rank ? "What they are made of, in %, and time by rank" : "What they are made of, in %");
  std::vector<Table::Column> columns = {{"python"}, {"native"}, {"system"}, {"mpi"},
                                        {"io"},     {"idle"},   {"ready"}};
  if (by_rank) columns.insert(columns.end(), {{"min"}, {"max"}, {"@rank"}});
  columns.push_back({"region", Align::kLeft});
  print_table(page, columns, [&](Table& table, std::size_t room) {
    for (std::size_t i = 0; i < shown; ++i) {
      const RegionRow& row = *rows[i];
      std::vector<std::string> cells;
      for (std::size_t c = 0; c < shard::kCategories; ++c)
        cells.push_back(row.sampled_s > 0 ? share_cell(row.category_s[c], row.sampled_s) : "-");
      if (by_rank) {
        cells.push_back(row.time_s ? scale(row.spread.min_s) : "-");
        cells.push_back(row.time_s ? scale(row.spread.max_s) : "-");
        cells.push_back(row.time_s ? std::to_string(row.spread.max_rank) : "-");
      }
      cells.push_back(room == 0 ? "" : shorten_middle(indented_name(row), room));
      table.row(std::move(cells));
    }
  });
}

void print_region_memory(Page& page, const Rows& rows, std::size_t shown) {
  title(page, "Memory of what they allocated");
  print_table(
      page,
      {{"at node's peak"}, {"at rank's"}, {"at end"}, {"allocated"}, {"copied"}, {"region", Align::kLeft}},
      [&](Table& table, std::size_t room) {
        for (std::size_t i = 0; i < shown; ++i) {
          const RegionRow& row = *rows[i];
          const RegionMemory memory = row.memory.value_or(RegionMemory());
          table.row({bytes_cell(memory.node_peak_bytes), bytes_cell(memory.rank_peak_bytes),
                     bytes_cell(memory.live_end_bytes), bytes_cell(memory.alloc_bytes),
                     bytes_cell(memory.copy_bytes),
                     room == 0 ? "" : shorten_middle(indented_name(row), room)});
        }
      });
}

void print_rows(Page& page, const Rows& rows, const TimeScale& scale, std::size_t shown) {
  const auto any = [&](auto has) {
    return std::any_of(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(shown), has);
  };
  const bool numbers = any([](const RegionRow* row) { return row->max_n.has_value(); });
  const bool efficiencies = any([](const RegionRow* row) { return row->efficiency.parallel.has_value(); });
  std::vector<Table::Column> columns = {{"time"}, {"% run"}, {"count"}, {"longest"}};
  if (numbers) columns.push_back({"n"});
  if (efficiencies) columns.push_back({"parallel"});
  columns.push_back({"bound by", Align::kLeft});
  columns.push_back({"region", Align::kLeft});
  print_table(page, columns, [&](Table& table, std::size_t room) {
    for (std::size_t i = 0; i < shown; ++i) {
      const RegionRow& row = *rows[i];
      std::vector<std::string> cells = {row.time_s ? scale(*row.time_s) : "-",
                                        fmt::format("{:.1f}", 100 * row.share), count_cell(row.count),
                                        row.max_s ? seconds(*row.max_s) : "-"};
      if (numbers) cells.push_back(row.max_n ? std::to_string(*row.max_n) : "-");
      if (efficiencies) cells.push_back(row.efficiency.parallel ? percent(*row.efficiency.parallel) : "-");
      cells.push_back(row.bottleneck.empty() ? "-" : row.bottleneck);
      cells.push_back(room == 0 ? "" : shorten_middle(indented_name(row), room));
      table.row(std::move(cells));
    }
  });
  note_the_rest(page, shown, rows.size());
}

}  // namespace

void print_regions(Page& page, const Analysis& a, const ResourceOptions& options) {
  if (a.regions.empty()) return;
  double longest = 0;
  Rows own, of_libraries;
  for (const RegionRow& row : a.regions) {
    longest = std::max({longest, row.time_s.value_or(0), row.sampled_s});
    (row.is_of_library ? of_libraries : own).push_back(&row);
  }
  const TimeScale scale(longest);
  page.section("Regions", fmt::format("in {}; all ranks", scale.unit()));
  const std::size_t shown = rows_shown(own.size(), options);
  if (!own.empty()) print_rows(page, own, scale, shown);
  if (!of_libraries.empty() && (options.full || own.empty())) {
    title(page, "Named by libraries");
    print_rows(page, of_libraries, scale, rows_shown(of_libraries.size(), options));
  }
  page.line("  % run: sampled; n: the program's number of the longest; parallel: efficiency", Style::kDim);
  if (!options.full || own.empty()) return;
  print_region_parts(page, own, scale, shown, a.ranks.size() > 1);
  if (a.memory) print_region_memory(page, own, shown);
}

}  // namespace clusterprof::report::text
