// SPDX-License-Identifier: BSD-3-Clause
// Sections of the text report on files, blocked time, regions, the timeline and nodes.
#include "report/text/resources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "report/analysis/file_io.hpp"
#include "report/analysis/placement.hpp"
#include "report/analysis/timeline.hpp"
#include "report/text/waiting.hpp"

namespace clusterprof::report::text {
namespace {

using Align = Table::Align;

constexpr std::size_t kFewRows = 5;
constexpr std::size_t kWideCalls = 100;  // columns of the page
constexpr std::size_t kMostRankRows = 16;
constexpr std::size_t kTimelineName = 16;
constexpr std::size_t kTimelineColumns = 60;  // on a page of 80 columns

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }
std::string share_cell(double part, double whole) {
  return fmt::format("{:.1f}", 100 * share_of(part, whole));
}
std::string count_cell(std::uint64_t number) { return count(static_cast<double>(number)); }
std::string bytes_cell(std::uint64_t number) { return bytes(static_cast<double>(number)); }
template <typename T>
std::string optional_bytes(const std::optional<T>& number) {
  return number ? bytes(static_cast<double>(*number)) : "-";
}
std::string known_bytes(std::uint64_t number) { return number == 0 ? "-" : bytes_cell(number); }

std::size_t rows_shown(std::size_t all, const ResourceOptions& options) {
  return std::min(all, options.full ? options.rows : std::min(kFewRows, options.rows));
}

void note_the_rest(Page& page, std::size_t shown, std::size_t all) {
  if (all > shown) page.line(fmt::format("  .. and {} more", all - shown), Style::kDim);
}

void title(Page& page, std::string_view text) {
  page.blank();
  page.line(fmt::format("  {}", text), Style::kDim);
}

// A table whose last column takes the room that is left: `fill(table, room)` adds the rows.
template <typename Fill>
void print_table(Page& page, const std::vector<Table::Column>& columns, const Fill& fill) {
  Table narrow(columns);
  fill(narrow, 0);
  Table table(columns);
  fill(table, narrow.room(page.width()));
  table.print(page);
}

std::string place_of(std::string_view function, shard::FrameKind kind, std::string_view file,
                     std::uint32_t line, const ShortPaths& paths, std::size_t room) {
  if (function.empty() && file.empty()) return shorten_middle("code that is not known", room);
  return name_and_place(function_label(function, kind), paths.place(file, line), room);
}

// With the library function behind it, where there is room.
std::string with_called(std::string place, const std::string& called, std::size_t room) {
  if (called.empty()) return place;
  const std::string behind = fmt::format(" ({})", printable(called));
  return columns(place) + columns(behind) <= room ? place + behind : place;
}

std::string base_name(std::string_view path) {
  return path.empty() ? "(other files)" : printable(path.substr(path.find_last_of('/') + 1));
}

// Calls of one operation at one line, on whatever files.
struct CallLine {
  const IoCallRow* most = nullptr;
  double time_s = 0;
  std::uint64_t count = 0, failed = 0, bytes = 0;
  std::size_t files = 0;
};

std::vector<CallLine> lines_of(const std::vector<IoCallRow>& calls) {
  using Key = std::tuple<shard::IoOperation, bool, std::string_view, std::string_view, std::uint32_t,
                         std::string_view>;
  std::map<Key, CallLine> lines;
  for (const IoCallRow& row : calls) {  // largest first
    CallLine& line = lines[{row.operation, row.in_background, row.mpi, row.file, row.line, row.function}];
    if (line.most == nullptr) line.most = &row;
    line.time_s += row.time_s;
    line.count += row.count;
    line.failed += row.failed;
    line.bytes += row.bytes;
    ++line.files;
  }
  std::vector<CallLine> result;
  for (const auto& [key, line] : lines) result.push_back(line);
  std::stable_sort(result.begin(), result.end(),
                   [](const CallLine& x, const CallLine& y) { return x.time_s > y.time_s; });
  return result;
}

// "1 processor each, of their own" where the ranks of a node have disjoint sets of equal size; else empty.
std::string processors_of_their_own(
    const std::map<std::pair<std::string, std::string>, std::vector<std::int32_t>>& placement) {
  std::vector<std::uint32_t> all;
  std::size_t size = 0;
  for (const auto& [where, ranks] : placement) {
    const auto processors = parse_list(where.first);
    if (!processors || ranks.size() != 1 || (size != 0 && processors->size() != size)) return {};
    size = processors->size();
    all.insert(all.end(), processors->begin(), processors->end());
  }
  std::sort(all.begin(), all.end());
  if (std::adjacent_find(all.begin(), all.end()) != all.end()) return {};
  return fmt::format("{} each, of their own", plural(size, "processor"));
}

}  // namespace

namespace {

struct IoTotals {
  double longest_s = 0, time_s = 0;
  std::uint64_t read_bytes = 0, written_bytes = 0;
};

IoTotals totals_of(const FileIo& io, const std::vector<CallLine>& lines) {
  IoTotals totals;
  for (const CallLine& row : lines) {
    totals.longest_s = std::max(totals.longest_s, row.time_s);
    totals.time_s += row.time_s;
  }
  for (const IoFileRow& row : io.files) {
    totals.longest_s = std::max(totals.longest_s, row.read_s + row.write_s + row.sync_s + row.meta_s);
    totals.read_bytes += row.read_bytes;
    totals.written_bytes += row.written_bytes;
  }
  for (const IoGroupRow& row : io.directories)
    totals.longest_s = std::max(totals.longest_s, row.read_s + row.write_s + row.sync_s + row.meta_s);
  return totals;
}

void print_call_lines(Page& page, const Analysis& a, const std::vector<CallLine>& lines,
                      const TimeScale& scale, const ShortPaths& paths, const ResourceOptions& options,
                      bool moves) {
  const std::size_t shown = rows_shown(lines.size(), options);
  const bool wide = page.width() >= kWideCalls;
  std::vector<Table::Column> titles{{"time"}, {"%"}, {"calls"}, {moves ? "bytes" : "failed"}};
  if (wide) titles.push_back({"longest"});
  titles.insert(titles.end(), {{"@rank"}, {"call", Align::kLeft}});
  print_table(page, titles, [&](Table& table, std::size_t room) {
    for (std::size_t i = 0; i < shown; ++i) {
      const CallLine& line = lines[i];
      const IoCallRow& row = *line.most;
      std::string call = fmt::format(
          "{} {}", shard::kIoOperationNames[static_cast<std::size_t>(row.operation)],
          line.files == 1 ? shorten_middle(base_name(row.path), 24) : fmt::format("{} files", line.files));
      if (!row.mpi.empty()) call += " in " + printable(row.mpi);
      const std::size_t used = columns(call) + 4;
      if (room > used + 8)
        call += " <- " + with_called(place_of(row.function, row.kind, row.file, row.line, paths, room - used),
                                     row.called, room - used);
      const std::uint64_t amount = moves ? line.bytes : line.failed;
      std::vector<std::string> cells{scale(line.time_s), share_cell(line.time_s, a.rank_seconds),
                                     count_cell(line.count),
                                     amount == 0 ? "-"
                                     : moves     ? bytes_cell(amount)
                                                 : count_cell(amount)};
      if (wide) cells.push_back(seconds(row.max_s));
      cells.push_back(std::to_string(row.max_rank));
      cells.push_back(room == 0 ? "" : call);
      table.row(std::move(cells));
    }
  });
  note_the_rest(page, shown, lines.size());
}

// What is not in the tables, or only in part of them, with the numbers.
void print_io_remarks(Page& page, const Analysis& a) {
  const FileIo& io = *a.io;
  const auto of_mpi = [](const IoCallRow& row) {
    return row.mpi.starts_with("MPI_Init") || row.mpi.starts_with("MPI_Finalize");
  };
  std::uint64_t calls = 0;
  double time_s = 0, kernel_s = 0;  // of MPI's; kernel: on its own files
  for (const IoCallRow& row : io.calls) {
    if (!of_mpi(row)) continue;
    if (row.of_kernel) {
      kernel_s += row.time_s;
    } else {
      calls += row.count;
      time_s += row.time_s;
    }
  }
  std::string systems;
  std::uint64_t system_calls = 0;
  double systems_s = 0;
  for (const FileSystemRow& row : io.file_systems) {
    if (!row.of_kernel) continue;
    systems += fmt::format("{}{}", systems.empty() ? "" : ", ", printable(row.name));
    system_calls += row.calls;
    systems_s += row.read_s + row.write_s + row.sync_s + row.meta_s;
  }
  if (system_calls != 0) {
    const char* const most = kernel_s >= 0.995 * systems_s ? "all" : nullptr;
    page.paragraph({"  left out  ", Style::kDim},
                   fmt::format("the kernel's own files ({}): {} calls, {}{}", systems,
                               count_cell(system_calls), seconds(systems_s),
                               kernel_s > 0 ? fmt::format(", {} of it in MPI_Init and MPI_Finalize",
                                                          most != nullptr ? most : seconds(kernel_s))
                                            : ""));
  }
  if (calls != 0)
    page.paragraph({"  left out  ", Style::kDim},
                   fmt::format("what MPI_Init and MPI_Finalize do with other files: {} calls, {}",
                               count_cell(calls), seconds(time_s)));
  const auto dropped = [&](const char* reason) {
    const auto found = a.run.dropped.find(reason);
    return found == a.run.dropped.end() ? std::uint64_t{0} : found->second;
  };
  if (dropped("io_site_table_full") + dropped("io_path_room_full") != 0)
    page.paragraph(
        {"  incomplete  ", Style::kWarning},
        fmt::format("{} operations ({}, {}) found no room for their callers: they are counted by file "
                    "only",
                    count_cell(io.by_file_only.operations), bytes_cell(io.by_file_only.bytes),
                    seconds(io.by_file_only.time_s)));
  if (const std::uint64_t number = dropped("io_file_table_full"); number != 0)
    page.paragraph({"  incomplete  ", Style::kWarning},
                   fmt::format("{} operations are on files beyond the table: they are counted for all such "
                               "files of a directory together, as DIRECTORY/*",
                               count_cell(number)));
}

// A file, or several whose names differ in digits alone.
struct ShownFile {
  std::string name;
  std::uint64_t reads = 0, read_bytes = 0, writes = 0, written_bytes = 0;
  double time_s = 0, sync_s = 0, meta_s = 0;
};

template <typename Row>
ShownFile shown_file(const Row& row, std::string name) {
  return {std::move(name),          row.reads,  row.read_bytes, row.writes, row.written_bytes,
          row.read_s + row.write_s, row.sync_s, row.meta_s};
}

void print_files(Page& page, const std::vector<ShownFile>& files, const TimeScale& scale,
                 const ResourceOptions& options, const char* last) {
  const std::size_t shown = rows_shown(files.size(), options);
  print_table(
      page,
      {{"reads"}, {"read"}, {"writes"}, {"written"}, {"time"}, {"sync"}, {"meta"}, {last, Align::kLeft}},
      [&](Table& table, std::size_t room) {
        for (std::size_t i = 0; i < shown; ++i) {
          const ShownFile& row = files[i];
          table.row({count_cell(row.reads), bytes_cell(row.read_bytes), count_cell(row.writes),
                     bytes_cell(row.written_bytes), scale(row.time_s), scale(row.sync_s), scale(row.meta_s),
                     shorten_middle(row.name, room)});
        }
      });
  note_the_rest(page, shown, files.size());
}

}  // namespace

void print_io(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  if (!a.io) return;
  const FileIo& io = *a.io;
  const std::vector<CallLine> all = lines_of(io.calls);
  std::vector<CallLine> moving, naming;
  for (const CallLine& line : all)
    if (!line.most->in_background) (moves_bytes(line.most->operation) ? moving : naming).push_back(line);
  const IoTotals totals = totals_of(io, all);
  const TimeScale scale(totals.longest_s);
  page.section("File I/O",
               fmt::format("in {}; {} read and {} written in {}", scale.unit(), bytes_cell(totals.read_bytes),
                           bytes_cell(totals.written_bytes), seconds(totals.time_s)));
  constexpr auto kIo = static_cast<std::size_t>(shard::Category::kIo);
  if (a.category_s[kIo])
    page.paragraph(
        {"  "},
        fmt::format("Calls on files are timed one by one, on all threads, inside MPI too. The category io "
                    "({}) is sampled, of main threads outside MPI, and has sockets and pipes in it.",
                    seconds(*a.category_s[kIo])));
  if (!moving.empty()) print_call_lines(page, a, moving, scale, paths, options, true);
  if (!naming.empty()) {
    title(page, "Metadata: calls on names and descriptors");
    print_call_lines(page, a, naming, scale, paths, options, false);
  }
  print_io_remarks(page, a);
  if (!options.full) return;

  std::vector<ShownFile> files, directories;
  std::set<std::pair<std::string, std::string>> alike;
  for (const IoGroupRow& row : io.patterns) {
    alike.emplace(row.path, row.file_system);
    files.push_back(
        shown_file(row, fmt::format("{} ({} files)", printable(row.path), count_cell(row.files))));
  }
  for (const IoFileRow& row : io.files)
    if (!is_file_system_of_kernel(row.file_system) &&
        alike.count({pattern_of(row.path), row.file_system}) == 0)
      files.push_back(shown_file(row, row.path.empty() ? "(other files)" : printable(row.path)));
  std::stable_sort(files.begin(), files.end(), [](const ShownFile& x, const ShownFile& y) {
    return x.time_s + x.sync_s + x.meta_s > y.time_s + y.sync_s + y.meta_s;
  });
  if (files.size() > rows_shown(files.size(), options) || !io.patterns.empty()) {
    title(page, "By directory; sync: fsync and its kin, meta: calls on names and descriptors");
    for (const IoGroupRow& row : io.directories)
      directories.push_back(
          shown_file(row, fmt::format("{} ({})", printable(row.path), plural(row.files, "file"))));
    print_files(page, directories, scale, options, "directory");
  }
  title(page, "By file; sync: fsync and its kin, meta: calls on names and descriptors");
  print_files(page, files, scale, options, "file");
  title(page, "By file system");
  print_table(page, {{"read"}, {"written"}, {"time"}, {"sync"}, {"meta"}, {"file system", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (const FileSystemRow& row : io.file_systems)
                  table.row({bytes_cell(row.read_bytes), bytes_cell(row.written_bytes),
                             scale(row.read_s + row.write_s), scale(row.sync_s), scale(row.meta_s),
                             row.name.empty() ? "not known" : shorten_middle(printable(row.name), room)});
              });
  const std::optional<double>& main_s = a.category_s[static_cast<std::size_t>(shard::Category::kIo)];
  const std::optional<double>& all_s = a.activity_s[index(Activity::kIo)];
  page.line("  time: of the calls, of all threads, also inside MPI", Style::kDim);
  if (main_s && all_s) {
    page.line("  category io: outside MPI, with sockets and pipes:", Style::kDim);
    page.line(fmt::format("    {} of all threads, {} of main threads", seconds(*all_s), seconds(*main_s)),
              Style::kDim);
  }
}

void print_off_cpu(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  if (!a.off_cpu) return;
  const std::vector<OffCpuRow>& rows = *a.off_cpu;
  double main_s = 0;
  std::array<double, kOffCpuKinds> kinds{};
  std::vector<const OffCpuRow*> order;
  for (const OffCpuRow& row : rows) {
    main_s += row.main_thread_s;
    kinds[static_cast<std::size_t>(row.kind)] += row.main_thread_s;
    if (options.full || row.main_thread_s > 0) order.push_back(&row);
  }
  // Main threads first: pools of idle helpers would hide them.
  std::stable_sort(order.begin(), order.end(), [](const OffCpuRow* x, const OffCpuRow* y) {
    return x->main_thread_s > y->main_thread_s;
  });
  const double longest = rows.empty() ? 0 : rows.front().time_s;
  const TimeScale scale(longest);
  page.section("Blocked outside MPI",
               fmt::format("in {}; main threads {}, {} of rank time", scale.unit(), seconds(main_s),
                           percent(share_of(main_s, a.rank_seconds))));
  std::vector<std::pair<double, std::size_t>> by_kind;
  for (std::size_t k = 0; k < kOffCpuKinds; ++k)
    if (kinds[k] > 0) by_kind.emplace_back(-kinds[k], k);
  std::sort(by_kind.begin(), by_kind.end());
  std::string text;
  for (const auto& [minus_s, k] : by_kind)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kOffCpuNames[k],
                        percent(share_of(-minus_s, a.rank_seconds)));
  if (!text.empty()) page.paragraph({"  main threads  "}, text);
  const std::size_t shown = rows_shown(order.size(), options);
  print_table(page, {{"main"}, {"%"}, {"all"}, {"@rank"}, {"for", Align::kLeft}, {"line", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const OffCpuRow& row = *order[i];
                  table.row({scale(row.main_thread_s), share_cell(row.main_thread_s, a.rank_seconds),
                             scale(row.time_s), std::to_string(row.max_rank),
                             kOffCpuNames[static_cast<std::size_t>(row.kind)],
                             room == 0 ? ""
                                       : with_called(place_of(row.function, row.frame_kind, row.file,
                                                              row.line, paths, room),
                                                     row.called, room)});
                }
              });
  note_the_rest(page, shown, order.size());
  page.line("  main: of main threads, %: of their time; all: of all threads", Style::kDim);
}

void print_regions(Page& page, const Analysis& a, const ResourceOptions& options) {
  if (a.regions.empty()) return;
  double longest = 0;
  for (const RegionRow& row : a.regions) longest = std::max({longest, row.time_s.value_or(0), row.sampled_s});
  const TimeScale scale(longest);
  page.section("Regions", fmt::format("in {}; all ranks", scale.unit()));
  const std::size_t shown = rows_shown(a.regions.size(), options);
  const auto name = [](const RegionRow& row) {
    return std::string(2 * (std::min<std::size_t>(row.names.size(), 12) - 1), ' ') +
           printable(row.names.back());
  };
  print_table(page,
              {{"time"},
               {"% run"},
               {"count"},
               {"longest"},
               {"n"},
               {"parallel"},
               {"bound by", Align::kLeft},
               {"region", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const RegionRow& row = a.regions[i];
                  table.row({row.time_s ? scale(*row.time_s) : "-", fmt::format("{:.1f}", 100 * row.share),
                             count_cell(row.count), row.max_s ? seconds(*row.max_s) : "-",
                             row.max_n ? std::to_string(*row.max_n) : "-",
                             row.efficiency.parallel ? percent(*row.efficiency.parallel) : "-",
                             row.bottleneck.empty() ? "-" : row.bottleneck,
                             room == 0 ? "" : shorten_middle(name(row), room)});
                }
              });
  note_the_rest(page, shown, a.regions.size());
  page.line("  % run: sampled; n: the program's number of the longest; parallel: efficiency", Style::kDim);
  if (!options.full) return;
  title(page, "What they are made of, in %, and time by rank");
  print_table(page,
              {{"python"},
               {"native"},
               {"system"},
               {"mpi"},
               {"io"},
               {"idle"},
               {"ready"},
               {"min"},
               {"max"},
               {"@rank"},
               {"region", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const RegionRow& row = a.regions[i];
                  std::vector<std::string> cells;
                  for (std::size_t c = 0; c < shard::kCategories; ++c)
                    cells.push_back(row.sampled_s > 0 ? share_cell(row.category_s[c], row.sampled_s) : "-");
                  cells.push_back(row.time_s ? scale(row.spread.min_s) : "-");
                  cells.push_back(row.time_s ? scale(row.spread.max_s) : "-");
                  cells.push_back(row.time_s ? std::to_string(row.spread.max_rank) : "-");
                  cells.push_back(room == 0 ? "" : shorten_middle(name(row), room));
                  table.row(std::move(cells));
                }
              });
}

namespace {

// The bins of series joined to the columns of a page.
class Columns {
 public:
  Columns(const Timeline& timeline, std::size_t most)
      : timeline_(timeline), number_(std::max<std::size_t>(1, std::min(timeline.bins, most))) {}

  [[nodiscard]] std::size_t size() const { return number_; }
  [[nodiscard]] double seconds_of(std::size_t column) const {
    return static_cast<double>(first(column + 1) - first(column)) * timeline_.bin_s;
  }
  // Adds a row's values of one series; the largest where it is a level.
  void add(const TimelineRow& row, std::string_view series, bool level, std::vector<double>& to) const {
    for (const auto& [index, values] : row.values) {
      if (timeline_.series[index] != series) continue;
      for (std::size_t column = 0; column < number_; ++column) {
        double sum = 0;
        for (std::size_t bin = first(column); bin < std::min(first(column + 1), values.size()); ++bin) {
          const auto value = static_cast<double>(values[bin]);
          sum = level ? std::max(sum, value) : sum + value;
        }
        to[column] += sum;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t first(std::size_t column) const { return column * timeline_.bins / number_; }
  const Timeline& timeline_;
  std::size_t number_;
};

}  // namespace

void print_timeline(Page& page, const Analysis& a, const ResourceOptions& options) {
  if (!a.timeline || a.timeline->bins == 0) return;
  const Timeline& timeline = *a.timeline;
  const std::size_t wider = page.width() + kTimelineColumns;
  const std::size_t most = wider > 88 ? wider - 80 : 8;
  const Columns columns(timeline, most);
  const std::size_t repeat = most / columns.size();
  const double length_s = static_cast<double>(timeline.bins) * timeline.bin_s;
  page.section("Over time",
               fmt::format("{} in {}, from {} after the start", seconds(length_s),
                           plural(columns.size(), "step"), seconds(std::max(0.0, timeline.begin_s))));

  // Ranks with the same lot of columns together when there are many.
  const std::size_t per_row = (timeline.ranks.size() + kMostRankRows - 1) / kMostRankRows;
  std::array<std::vector<double>, shard::kCategories> all;
  all.fill(std::vector<double>(columns.size(), 0.0));
  for (std::size_t begin = 0; begin < timeline.ranks.size(); begin += per_row) {
    const std::size_t end = std::min(begin + per_row, timeline.ranks.size());
    std::array<std::vector<double>, shard::kCategories> sums;
    sums.fill(std::vector<double>(columns.size(), 0.0));
    for (std::size_t c = 0; c < shard::kCategories; ++c) {
      const std::string series = category_series(c);
      for (std::size_t r = begin; r < end; ++r) columns.add(timeline.ranks[r], series, false, sums[c]);
      for (std::size_t i = 0; i < columns.size(); ++i) all[c][i] += sums[c][i];
    }
    const std::int32_t first = timeline.ranks[begin].rank, last = timeline.ranks[end - 1].rank;
    std::string who = first == last ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, last);
    if (who.size() > kTimelineName - 3) who = fmt::format("{}-{}", first, last);
    std::vector<Span> spans{{fmt::format("  {:<{}}|", shorten(who, kTimelineName - 3), kTimelineName - 2)}};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::size_t top = 0;
      for (std::size_t c = 1; c < shard::kCategories; ++c)
        if (sums[c][i] > sums[top][i]) top = c;
      const bool any = sums[top][i] > 0;
      const std::string cell(repeat, any ? category_letter(top) : ' ');
      const Style style = any ? category_style(top) : Style::kPlain;
      if (spans.size() > 1 && spans.back().style == style)
        spans.back().text += cell;
      else
        spans.push_back({cell, style});
    }
    spans.push_back({"|"});
    page.line(spans);
  }
  std::string legend;
  for (const std::size_t c : kBarOrder)
    legend +=
        fmt::format("{}{} {}", legend.empty() ? "" : "  ", category_letter(c), shard::kCategoryNames[c]);
  page.line("  " + legend, Style::kDim);
  page.line("  (each step shows the category with most time)", Style::kDim);
  title(page, options.unicode ? "all ranks; full height: 100 % of their time"
                              : "all ranks; blank . : - = + * % #: 0 to 100 % of their time");
  const auto band = [&](std::string_view name, const std::vector<double>& values, const auto& whole_of) {
    std::vector<std::optional<double>> shares;
    bool any = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double share = share_of(values[i], whole_of(i));
      any = any || share >= 0.005;
      shares.insert(shares.end(), repeat, share);
    }
    if (any)
      page.line(fmt::format("  {:<{}}{}", name, kTimelineName - 2, sparkline(shares, options.unicode)));
  };
  std::vector<double> recorded(columns.size(), 0.0);
  for (const std::vector<double>& category : all)
    std::transform(recorded.begin(), recorded.end(), category.begin(), recorded.begin(), std::plus<>());
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    band(shard::kCategoryNames[c], all[c], [&](std::size_t i) { return recorded[i]; });
  std::vector<double> busy(columns.size(), 0.0), used(columns.size(), 0.0);
  double processors = 0, memory = 0;
  for (const TimelineRow& row : timeline.nodes) {
    columns.add(row, "cpu_busy_ns", false, busy);
    columns.add(row, "memory_used_bytes", true, used);
    processors += a.nodes[row.node].cpus;
    memory += static_cast<double>(a.nodes[row.node].memory_bytes);
  }
  band("nodes' CPUs", busy, [&](std::size_t i) { return columns.seconds_of(i) * 1e9 * processors; });
  band("nodes' memory", used, [&](std::size_t) { return memory; });
}

namespace {

// Of many nodes: least, mean and most of what is known of them, and who has most.
void print_node_distributions(Page& page, const Analysis& a) {
  using Value = std::function<std::optional<double>(const NodeInfo&)>;
  const auto amount = [](std::optional<std::uint64_t> NodeInfo::*member) -> Value {
    return [member](const NodeInfo& node) {
      return node.*member ? std::optional(static_cast<double>(*(node.*member))) : std::nullopt;
    };
  };
  const auto share = [](double value) { return fmt::format("{:.0f} %", 100 * value); };
  const std::tuple<const char*, Value, std::function<std::string(double)>> quantities[] = {
      {"ranks", [](const NodeInfo& node) { return static_cast<double>(node.ranks.size()); }, count},
      {"busy", [](const NodeInfo& node) { return node.busy; }, share},
      {"memory used", amount(&NodeInfo::memory_used_bytes), bytes},
      {"network in", amount(&NodeInfo::received_bytes), bytes},
      {"network out", amount(&NodeInfo::sent_bytes), bytes},
      {"disk in", amount(&NodeInfo::disk_read_bytes), bytes},
      {"disk out", amount(&NodeInfo::disk_written_bytes), bytes}};
  print_table(page, {{"", Align::kLeft}, {"min"}, {"mean"}, {"max"}, {"max on", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (const auto& [name, of, shown] : quantities) {
                  double least = 0, sum = 0, most = 0;
                  const NodeInfo* who = nullptr;
                  std::size_t number = 0;
                  for (const NodeInfo& node : a.nodes) {
                    const std::optional<double> value = of(node);
                    if (!value) continue;
                    if (who == nullptr || *value > most) most = *value, who = &node;
                    least = number == 0 ? *value : std::min(least, *value);
                    sum += *value;
                    ++number;
                  }
                  if (who != nullptr)
                    table.row({name, shown(least), shown(sum / static_cast<double>(number)), shown(most),
                               room == 0 ? "" : shorten_middle(printable(who->name), room)});
                }
              });
  page.blank();
}

}  // namespace

void print_nodes(Page& page, const Analysis& a, const ResourceOptions& options) {
  if (a.nodes.empty()) return;
  page.section("Nodes", "sums over the run; memory: the most");
  std::vector<std::size_t> order(a.nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool many = a.nodes.size() > std::max<std::size_t>(options.rows, kMostRankRows);
  if (many) {
    print_node_distributions(page, a);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      return a.nodes[x].busy.value_or(-1) > a.nodes[y].busy.value_or(-1);
    });
    page.line("  the busiest:", Style::kDim);
  }
  const std::size_t shown = many ? std::min(kFewRows, options.rows) : a.nodes.size();
  print_table(
      page,
      {{"ranks"},
       {"cpus"},
       {"busy"},
       {"memory"},
       {"used"},
       {"net in"},
       {"out"},
       {"disk in"},
       {"out"},
       {"node", Align::kLeft}},
      [&](Table& table, std::size_t room) {
        for (std::size_t i = 0; i < shown; ++i) {
          const NodeInfo& node = a.nodes[order[i]];
          table.row({std::to_string(node.ranks.size()), node.cpus == 0 ? "-" : std::to_string(node.cpus),
                     node.busy ? fmt::format("{:.0f} %", 100 * *node.busy) : "-",
                     known_bytes(node.memory_bytes), optional_bytes(node.memory_used_bytes),
                     optional_bytes(node.received_bytes), optional_bytes(node.sent_bytes),
                     optional_bytes(node.disk_read_bytes), optional_bytes(node.disk_written_bytes),
                     room == 0 ? "" : shorten_middle(printable(node.name), room)});
        }
      });
  note_the_rest(page, shown, a.nodes.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t n = order[i];
    const NodeInfo& node = a.nodes[n];
    std::map<std::pair<std::string, std::string>, std::vector<std::int32_t>> placement;
    for (const RankInfo& rank : a.ranks)
      if (rank.node == n && !rank.affinity.empty())
        placement[{rank.affinity, rank.numa}].push_back(rank.rank);
    std::string facts;
    if (!node.cpu_model.empty()) facts = printable(node.cpu_model);
    if (node.cache_bytes != 0)
      facts += fmt::format("{}largest cache {}", facts.empty() ? "" : ", ", bytes_cell(node.cache_bytes));
    if (node.numa_nodes != 0)
      facts += fmt::format("{}{}", facts.empty() ? "" : ", ", plural(node.numa_nodes, "memory node"));
    if (facts.empty() && placement.empty()) continue;
    page.blank();
    page.paragraph({fmt::format("  {}  ", shorten_middle(printable(node.name), 24)), Style::kDim}, facts);
    if (const std::string own = processors_of_their_own(placement); placement.size() > 1 && !own.empty()) {
      page.paragraph({fmt::format("    {:<16} ", fmt::format("ranks {}", rank_list(node.ranks, 3)))}, own);
      continue;
    }
    std::vector<std::pair<std::int32_t, std::string>> rows;  // by the first rank
    for (const auto& [where, ranks] : placement) {
      const std::string who = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", rank_list(ranks, 3));
      const std::string memory =
          where.second.empty() ? "" : fmt::format("; memory of {}", printable(where.second));
      rows.emplace_back(ranks.front(),
                        fmt::format("{:<16} processors {}{}", who, printable(where.first), memory));
    }
    std::sort(rows.begin(), rows.end());
    for (std::size_t row = 0; row < std::min(rows.size(), options.rows); ++row)
      page.paragraph({"    "}, rows[row].second);
    note_the_rest(page, std::min(rows.size(), options.rows), rows.size());
  }
}

void print_derived(Page& page, const std::vector<Derived>& derived) {
  for (const Derived& row : derived) {
    const std::string_view unit = row.unit;
    std::string value;
    if (unit == "B/s")
      value = bytes(row.value) + "/s";
    else if (unit == "share")
      value = percent(row.value);
    else if (unit == "1/s")
      value = count(row.value) + "/s";
    else
      value = fmt::format("{:.2f}", row.value);
    page.line({{fmt::format("  {:<24}{:>12}  ", row.name, value)}, {row.formula, Style::kDim}});
  }
}

}  // namespace clusterprof::report::text
