// SPDX-License-Identifier: BSD-3-Clause
// The section on memory that the program names by space and label.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kFewSpaces = 3;  // whose labels are shown where they were not asked for

void print_spaces(Page& page, const LabelledMemory& memory, const ResourceOptions& options) {
  const std::size_t shown = rows_shown(memory.spaces.size(), options);
  print_table(page,
              {{"peak"}, {"@rank"}, {"after"}, {"all ranks"}, {"at end"}, {"freed"}, {"space", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const MemorySpaceRow& row = memory.spaces[i];
                  const bool held = !row.ranks.empty();
                  table.row({held ? bytes_cell(row.ranks.front().peak_bytes) : "-",
                             held ? std::to_string(row.ranks.front().rank) : "-",
                             held ? seconds(row.ranks.front().peak_at_s) : "-", bytes_cell(row.peaks_bytes),
                             bytes_cell(row.live_end_bytes),
                             fmt::format("{} of {}", count_cell(row.frees), count_cell(row.allocations)),
                             room == 0 ? "" : shorten_middle(printable(row.name), room)});
                }
              });
  note_the_rest(page, shown, memory.spaces.size());
  if (options.full)
    page.line("  all ranks: their peaks together, which may be at different times", Style::kDim);
  for (const MemorySpaceRow& row : memory.spaces)
    if (row.unknown_frees != 0)
      page.paragraph({"  "}, fmt::format("{} was freed {} in {}, and not seen to be allocated.",
                                         bytes_cell(row.unknown_bytes), plural(row.unknown_frees, "time"),
                                         printable(row.name)));
}

void print_labels(Page& page, const MemorySpaceRow& space, const ResourceOptions& options) {
  if (space.labels.empty()) return;
  title(page, space.rank_count == 1 ? fmt::format("At the peak of {}", printable(space.name))
                                    : fmt::format("At the peaks of {} on {}", printable(space.name),
                                                  plural(space.rank_count, "rank")));
  const std::size_t shown = rows_shown(space.labels.size(), options);
  std::vector<Table::Column> columns{{"held"}, {"%"}, {"most"}, {"@rank"}};
  if (options.full) columns.insert(columns.end(), {{"own peak"}, {"at end"}, {"times"}});
  columns.push_back({"label", Align::kLeft});
  print_table(page, columns, [&](Table& table, std::size_t room) {
    for (std::size_t i = 0; i < shown; ++i) {
      const MemoryLabelRow& row = space.labels[i];
      const bool held = row.max_rank_bytes != 0;
      std::vector<std::string> cells{
          row.space_peak_bytes == 0 ? "-" : bytes_cell(row.space_peak_bytes),
          share_cell(static_cast<double>(row.space_peak_bytes), static_cast<double>(space.peaks_bytes)),
          held ? bytes_cell(row.max_rank_bytes) : "-", held ? std::to_string(row.max_rank) : "-"};
      if (options.full) {
        cells.push_back(bytes_cell(row.peak_bytes));
        cells.push_back(row.live_end_bytes == 0 ? "-" : bytes_cell(row.live_end_bytes));
        cells.push_back(count_cell(row.allocations));
      }
      cells.push_back(
          room == 0 ? "" : shorten_middle(row.name.empty() ? "(no label)" : printable(row.name), room));
      table.row(std::move(cells));
    }
  });
  note_the_rest(page, shown, space.labels.size());
}

void print_copies(Page& page, const LabelledMemory& memory, const ResourceOptions& options) {
  if (memory.copies.empty()) return;
  title(page, "Deep copies");
  const std::size_t shown = rows_shown(memory.copies.size(), options);
  print_table(page,
              {{"copied"}, {"times"}, {"most"}, {"@rank"}, {"from", Align::kLeft}, {"to", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const MemoryCopiesRow& row = memory.copies[i];
                  table.row({bytes_cell(row.bytes), count_cell(row.count), bytes_cell(row.max_rank_bytes),
                             std::to_string(row.max_rank), printable(row.from),
                             room == 0 ? "" : shorten_middle(printable(row.to), room)});
                }
              });
  note_the_rest(page, shown, memory.copies.size());
}

}  // namespace

void print_labelled_memory(Page& page, const Analysis& a, const ResourceOptions& options) {
  const LabelledMemory& memory = a.labelled_memory;
  page.section("Memory by label", "as the program names it; every allocation counted");
  if (!memory.spaces.empty()) print_spaces(page, memory, options);
  for (std::size_t i = 0; i < memory.spaces.size() && (options.full || i < kFewSpaces); ++i)
    print_labels(page, memory.spaces[i], options);
  if (options.full || memory.spaces.empty()) print_copies(page, memory, options);
}

}  // namespace clusterprof::report::text
