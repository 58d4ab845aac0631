// SPDX-License-Identifier: BSD-3-Clause
// The section on memory: who held it at the peaks, by line and rank, what is never freed, and what the kernel
// says beside it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kWideMemory = 100;  // columns of the page

const char* domain_name(const MemoryLine& line) {
  return shard::kMemoryDomainNames[static_cast<std::size_t>(line.domain)];
}

std::string line_cell(const MemoryLine& line, const ShortPaths& paths, std::size_t room) {
  const std::string name = function_label(line.function, line.kind),
                    place = paths.place(line.file, line.line);
  if (!line.file.empty() && columns(name) + 1 + columns(place) > room)
    return place_and_name(place, name, room);
  return with_called(place_of(line.function, line.kind, line.file, line.line, paths, room), line.called,
                     room);
}

std::string held_cell(std::uint64_t bytes) { return bytes == 0 ? "-" : bytes_cell(bytes); }

void print_lines(Page& page, const std::vector<const MemoryLine*>& lines, const ShortPaths& paths,
                 const ResourceOptions& options) {
  const std::size_t shown = rows_shown(lines.size(), options);
  const bool wide = page.width() >= kWideMemory;
  std::vector<Table::Column> columns{{"node peak"}, {"rank peak"}, {"at end"}, {"allocated"}};
  if (wide) columns.insert(columns.end(), {{"+/-"}, {"calls"}});
  columns.insert(columns.end(), {{"@rank"}, {"kind", Align::kLeft}, {"line", Align::kLeft}});
  print_table(page, columns, [&](Table& table, std::size_t room) {
    for (std::size_t i = 0; i < shown; ++i) {
      const MemoryLine& line = *lines[i];
      std::vector<std::string> cells{held_cell(line.node_peak_bytes), held_cell(line.rank_peak_bytes),
                                     held_cell(line.live_end_bytes), held_cell(line.alloc_bytes)};
      if (wide) {
        cells.push_back(bytes(line.error_bytes));
        cells.push_back(count_cell(line.alloc_count));
      }
      cells.push_back(line.max_rank_bytes == 0 ? "-" : std::to_string(line.max_rank));
      cells.emplace_back(domain_name(line));
      cells.push_back(room == 0 ? "" : line_cell(line, paths, room));
      table.row(std::move(cells));
    }
  });
  note_the_rest(page, shown, lines.size());
}

void print_leaks(Page& page, const HeldMemory& memory, const ShortPaths& paths,
                 const ResourceOptions& options) {
  std::vector<const MemoryLine*> leaks;
  for (const MemoryLine& line : memory.lines)
    if (line.leak) leaks.push_back(&line);
  if (leaks.empty()) return;
  std::stable_sort(leaks.begin(), leaks.end(), [](const MemoryLine* a, const MemoryLine* b) {
    return a->growth_bytes_per_s > b->growth_bytes_per_s;
  });
  title(page, "Never freed, and growing all the time");
  const std::size_t shown = rows_shown(leaks.size(), options);
  print_table(page, {{"per second"}, {"at end"}, {"sure"}, {"line", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i)
                  table.row({bytes(leaks[i]->growth_bytes_per_s), held_cell(leaks[i]->live_end_bytes),
                             fmt::format("{:.0f} %", 100 * leaks[i]->leak_confidence),
                             room == 0 ? "" : line_cell(*leaks[i], paths, room)});
              });
  note_the_rest(page, shown, leaks.size());
}

// The lines with the most of one amount.
void print_most(Page& page, const HeldMemory& memory, const char* what, const char* column,
                std::uint64_t MemoryLine::*amount, std::uint64_t MemoryLine::*calls, const ShortPaths& paths,
                const ResourceOptions& options) {
  std::vector<const MemoryLine*> lines;
  for (const MemoryLine& line : memory.lines)
    if (line.*amount != 0) lines.push_back(&line);
  if (lines.empty()) return;
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const MemoryLine* a, const MemoryLine* b) { return a->*amount > b->*amount; });
  title(page, what);
  const std::size_t shown = rows_shown(lines.size(), options);
  print_table(page, {{column}, {"calls"}, {"kind", Align::kLeft}, {"line", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i)
                  table.row({bytes_cell(lines[i]->*amount), count_cell(lines[i]->*calls),
                             domain_name(*lines[i]), room == 0 ? "" : line_cell(*lines[i], paths, room)});
              });
  note_the_rest(page, shown, lines.size());
}

void print_ranks(Page& page, const Analysis& a, const ResourceOptions& options) {
  std::vector<const HeldRank*> ranks;
  for (const HeldRank& rank : a.memory->ranks) ranks.push_back(&rank);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const HeldRank* x, const HeldRank* y) { return x->peak_bytes > y->peak_bytes; });
  // Most runs have none of these.
  struct Rare {
    const char* title;
    std::optional<std::uint64_t> HeldRank::*bytes;
  };
  std::vector<Rare> rare = {
      {"huge", &HeldRank::huge_bytes}, {"swap", &HeldRank::swap_bytes}, {"far", &HeldRank::far_bytes}};
  std::erase_if(rare, [&](const Rare& column) {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](const HeldRank* rank) { return (rank->*column.bytes).value_or(0) == 0; });
  });
  std::vector<Table::Column> columns{{"rank"}, {"peak"},   {"after"}, {"at end"},
                                     {"RSS"},  {"unseen"}, {"PSS"},   {"dirty"}};
  for (const Rare& column : rare) columns.push_back({column.title});
  if (a.nodes.size() > 1) columns.push_back({"node", Align::kLeft});
  title(page, "By rank");
  const std::size_t shown = rows_shown(ranks.size(), options);
  print_table(page, columns, [&](Table& table, std::size_t room) {
    for (std::size_t i = 0; i < shown; ++i) {
      const HeldRank& rank = *ranks[i];
      const auto info = std::find_if(a.ranks.begin(), a.ranks.end(),
                                     [&](const RankInfo& of) { return of.rank == rank.rank; });
      const std::uint64_t anon = rank.max_anon_bytes.value_or(0),
                          live = std::min(rank.live_at_max_anon_bytes.value_or(0), anon);
      std::vector<std::string> cells{std::to_string(rank.rank),
                                     bytes_cell(rank.peak_bytes),
                                     rank.peak_at_s ? seconds(*rank.peak_at_s) : "-",
                                     bytes_cell(rank.live_end_bytes),
                                     info != a.ranks.end() ? optional_bytes(info->max_rss_bytes) : "-",
                                     rank.max_anon_bytes ? bytes_cell(anon - live) : "-",
                                     optional_bytes(rank.pss_bytes),
                                     optional_bytes(rank.private_dirty_bytes)};
      for (const Rare& column : rare) cells.push_back(optional_bytes(rank.*column.bytes));
      if (a.nodes.size() > 1)
        cells.push_back(room == 0 ? "" : shorten_middle(printable(a.nodes[rank.node].name), room));
      table.row(std::move(cells));
    }
  });
  note_the_rest(page, shown, ranks.size());
  page.line("  unseen: anonymous memory in RAM, when that was the most, less what was held", Style::kDim);
  const bool far = !rare.empty() && rare.back().bytes == &HeldRank::far_bytes;
  page.line(std::string("  dirty: written and not shared") +
                (far ? "; far: on the memory of other processors" : ""),
            Style::kDim);
}

void print_nodes(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  if (a.memory->nodes.empty()) return;
  title(page, "By node");
  const std::size_t shown = rows_shown(a.memory->nodes.size(), options);
  print_table(page,
              {{"peak"},
               {"after"},
               {"limit"},
               {"used"},
               {"of files"},
               {"kernel"},
               {"at limit"},
               {"asked for"},
               {"node", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const HeldNode& held = a.memory->nodes[i];
                  const NodeInfo& node = a.nodes[held.node];
                  table.row({bytes_cell(held.peak_bytes), held.peak_at_s ? seconds(*held.peak_at_s) : "-",
                             known_bytes(node.group.limit_bytes), known_bytes(node.group.max_used_bytes),
                             known_bytes(node.group.file_bytes), known_bytes(node.group.kernel_bytes),
                             node.group.limit_bytes == 0 ? "-" : count_cell(node.group.limit_hits),
                             known_bytes(node.requested_memory_bytes),
                             room == 0 ? "" : shorten_middle(printable(node.name), room)});
                }
              });
  note_the_rest(page, shown, a.memory->nodes.size());
  const HeldNode& fullest =
      *std::max_element(a.memory->nodes.begin(), a.memory->nodes.end(),
                        [](const HeldNode& x, const HeldNode& y) { return x.peak_bytes < y.peak_bytes; });
  if (fullest.held.empty()) return;
  title(page, fmt::format("At the peak of {}, by line and rank", printable(a.nodes[fullest.node].name)));
  const std::size_t parts = rows_shown(fullest.held.size(), options);
  print_table(page, {{"held"}, {"rank"}, {"kind", Align::kLeft}, {"line", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < parts; ++i) {
                  const HeldPart& part = fullest.held[i];
                  const MemoryLine& line = a.memory->lines[part.line];
                  table.row({bytes_cell(part.bytes), std::to_string(part.rank), domain_name(line),
                             room == 0 ? "" : line_cell(line, paths, room)});
                }
              });
  note_the_rest(page, parts, fullest.held.size());
}

}  // namespace

void print_memory(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  if (!a.memory) return;
  const HeldMemory& memory = *a.memory;
  std::uint64_t peak = 0;
  for (const HeldNode& node : memory.nodes) peak += node.peak_bytes;
  page.section("Memory", fmt::format("{} held at the peaks of {}; one byte in {} sampled", bytes_cell(peak),
                                     plural(memory.nodes.size(), "node"), bin_bytes(memory.interval_bytes)));
  std::vector<const MemoryLine*> lines;
  for (const MemoryLine& line : memory.lines)
    if (line.alloc_bytes != 0) lines.push_back(&line);
  print_lines(page, lines, paths, options);
  if (options.full) {
    page.line("  node peak, rank peak: held when all ranks of the node, or the rank, held most", Style::kDim);
    page.line("  kind: python: objects; mmap: from the kernel; mpi: inside MPI calls", Style::kDim);
  }
  print_leaks(page, memory, paths, options);
  if (!options.full) return;
  print_ranks(page, a, options);
  print_nodes(page, a, paths, options);
  print_most(page, memory, "Freed within 100 ms", "freed", &MemoryLine::soon_bytes, &MemoryLine::alloc_count,
             paths, options);
  print_most(page, memory, "Copied", "copied", &MemoryLine::copy_bytes, &MemoryLine::copy_count, paths,
             options);
}

void print_memory_at(Page& page, const Analysis& a, const HeldAt& held, const ShortPaths& paths,
                     const ResourceOptions& options) {
  page.section(fmt::format("Memory at {}", seconds(held.at_s)),
               fmt::format("{} held, the mean from {} to {} after the start", bytes_cell(held.bytes),
                           seconds(held.begin_s), seconds(held.end_s)));
  if (held.lines.empty()) page.line("  Nothing was held then.");
  const std::size_t shown = rows_shown(held.lines.size(), options);
  if (shown != 0)
    print_table(page, {{"held"}, {"%"}, {"line", Align::kLeft}}, [&](Table& table, std::size_t room) {
      for (std::size_t i = 0; i < shown; ++i)
        table.row({bytes_cell(held.lines[i].bytes),
                   share_cell(static_cast<double>(held.lines[i].bytes), static_cast<double>(held.bytes)),
                   room == 0 ? "" : line_cell(a.memory->lines[held.lines[i].line], paths, room)});
    });
  note_the_rest(page, shown, held.lines.size());
  if (held.ranks.empty()) return;
  std::vector<HeldAt::Rank> ranks = held.ranks;
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const HeldAt::Rank& x, const HeldAt::Rank& y) { return x.bytes > y.bytes; });
  title(page, "By rank, the most about that time");
  const std::size_t rows = rows_shown(ranks.size(), options);
  print_table(page, {{"rank"}, {"held", Align::kLeft}}, [&](Table& table, std::size_t /*room*/) {
    for (std::size_t i = 0; i < rows; ++i)
      table.row({std::to_string(ranks[i].rank), bytes_cell(ranks[i].bytes)});
  });
  note_the_rest(page, rows, ranks.size());
}

}  // namespace clusterprof::report::text
