// SPDX-License-Identifier: BSD-3-Clause
// The section on calls on files: by call site, by file, directory and file system.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/base_name.hpp"
#include "report/analysis/file_io.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kWideCalls = 100;  // columns of the page

std::string file_name(std::string_view path) {
  return path.empty() ? "(other files)" : printable(base_name(path));
}

// The calls of one operation at one line, on all files together.
struct CallLine {
  const IoCallRow* most = nullptr;
  RankWithMost ranks;
  double time_s = 0, longest_s = 0;  // longest: a single call
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
    line.ranks.add(row);
    line.time_s += row.time_s;
    line.longest_s = std::max(line.longest_s, row.max_s);
    line.count += row.count;
    line.failed += row.failed;
    line.bytes += row.bytes;
    ++line.files;
  }
  std::vector<CallLine> result;
  for (auto& [key, line] : lines) result.push_back(std::move(line));
  std::stable_sort(result.begin(), result.end(),
                   [](const CallLine& x, const CallLine& y) { return x.time_s > y.time_s; });
  return result;
}

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
          line.files == 1 ? shorten_middle(file_name(row.path), 24) : fmt::format("{} files", line.files));
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
      if (wide) cells.push_back(seconds(line.longest_s));
      cells.push_back(std::to_string(line.ranks.rank()));
      cells.push_back(room == 0 ? "" : call);
      table.row(std::move(cells));
    }
  });
  note_the_rest(page, shown, lines.size());
}

// What the tables leave out or have in part, in numbers.
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
        fmt::format("{} operations ({}, {}) are counted by file only: the table of their callers was full",
                    count_cell(io.by_file_only.operations), bytes_cell(io.by_file_only.bytes),
                    seconds(io.by_file_only.time_s)));
  if (const std::uint64_t number = dropped("io_file_table_full"); number != 0)
    page.paragraph({"  incomplete  ", Style::kWarning},
                   fmt::format("{} operations are on files beyond the table: they are counted for all such "
                               "files of a directory together, as DIRECTORY/*",
                               count_cell(number)));
}

// A file, or several files whose names differ only in digits.
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

// Files, those that have the same pattern together; largest times first.
std::vector<ShownFile> shown_files(const FileIo& io) {
  std::vector<ShownFile> files;
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
  return files;
}

void print_by_file(Page& page, const FileIo& io, const TimeScale& scale, const ResourceOptions& options) {
  const std::vector<ShownFile> files = shown_files(io);
  if (files.size() > rows_shown(files.size(), options) || !io.patterns.empty()) {
    std::vector<ShownFile> directories;
    title(page, "By directory; sync: fsync and the like, meta: open, close, stat and the like");
    for (const IoGroupRow& row : io.directories)
      directories.push_back(
          shown_file(row, fmt::format("{} ({})", printable(row.path), plural(row.files, "file"))));
    print_files(page, directories, scale, options, "directory");
  }
  title(page, "By file; sync: fsync and the like, meta: open, close, stat and the like");
  print_files(page, files, scale, options, "file");
}

void print_by_file_system(Page& page, const FileIo& io, const TimeScale& scale) {
  title(page, "By file system");
  print_table(page, {{"read"}, {"written"}, {"time"}, {"sync"}, {"meta"}, {"file system", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (const FileSystemRow& row : io.file_systems)
                  table.row({bytes_cell(row.read_bytes), bytes_cell(row.written_bytes),
                             scale(row.read_s + row.write_s), scale(row.sync_s), scale(row.meta_s),
                             row.name.empty() ? "not known" : shorten_middle(printable(row.name), room)});
              });
}

// How the times here differ from the category io.
void print_io_legend(Page& page, const Analysis& a) {
  const std::optional<double>& main_s = a.category_s[static_cast<std::size_t>(shard::Category::kIo)];
  const std::optional<double>& all_s = a.activity_s[index(Activity::kIo)];
  page.line("  time: of the calls, of all threads, also inside MPI", Style::kDim);
  if (main_s && all_s) {
    page.line("  category io: outside MPI, with sockets and pipes:", Style::kDim);
    page.line(fmt::format("    {} of all threads, {} of main threads", seconds(*all_s), seconds(*main_s)),
              Style::kDim);
  }
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
        {"  "}, fmt::format("File calls are timed one by one, on all threads, inside MPI too. The category "
                            "io ({}) is sampled on main threads outside MPI, and includes sockets and pipes.",
                            seconds(*a.category_s[kIo])));
  if (!moving.empty()) print_call_lines(page, a, moving, scale, paths, options, true);
  if (!naming.empty()) {
    title(page, "Metadata: open, close, stat and the like");
    print_call_lines(page, a, naming, scale, paths, options, false);
  }
  print_io_remarks(page, a);
  if (!options.full) return;
  print_by_file(page, io, scale, options);
  print_by_file_system(page, io, scale);
  print_io_legend(page, a);
}

}  // namespace clusterprof::report::text
