// SPDX-License-Identifier: BSD-3-Clause
// Sums up file operations by file, call site, directory, name pattern and file system. Definitions:
// docs/metrics.md, "File I/O".
#include "report/analysis/file_io.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::IoOperation;

// Fewer names that differ only in digits are shown one by one.
constexpr std::size_t kMinAlike = 4;

template <typename Row>
double time_of(const Row& row) {
  return row.read_s + row.write_s + row.sync_s + row.meta_s;
}

template <typename Row>
void add_times(const shard::IoCall& call, Row& row) {
  const double time_s = to_seconds(call.time_ns);
  switch (call.operation) {
    case IoOperation::kRead:
      row.read_bytes += call.bytes;
      row.read_s += time_s;
      break;
    case IoOperation::kWrite:
      row.written_bytes += call.bytes;
      row.write_s += time_s;
      break;
    case IoOperation::kSync:
      row.sync_s += time_s;
      break;
    case IoOperation::kOpen:
    case IoOperation::kClose:
    case IoOperation::kSeek:
    case IoOperation::kMetadata:
    case IoOperation::kMap:
      row.meta_s += time_s;
      break;
  }
}

struct CallSum {
  IoCallRow row;
  std::uint64_t time_ns = 0, max_ns = 0;
  std::uint64_t here_ns = 0, here_count = 0;  // of the rank at hand
  std::uint64_t rank_ns = 0;
  bool touched = false;
  std::map<std::string, std::uint64_t> called;  // its time by library function
};

void add(const IoFileRow& file, IoGroupRow& group) {
  ++group.files;
  group.opens += file.opens;
  group.reads += file.reads;
  group.writes += file.writes;
  group.read_bytes += file.read_bytes;
  group.written_bytes += file.written_bytes;
  group.meta_calls += file.meta_calls;
  group.read_s += file.read_s;
  group.write_s += file.write_s;
  group.sync_s += file.sync_s;
  group.meta_s += file.meta_s;
}

std::string_view folder_of(std::string_view path) {
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

template <typename Row>
void sort_by_time(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& x, const Row& y) { return time_of(x) > time_of(y); });
}

void group_files(FileIo& io) {
  using Key = std::pair<std::string, std::string_view>;  // path, file system
  std::set<std::string_view> folders;
  for (const IoFileRow& file : io.files) folders.insert(folder_of(file.path));
  std::map<Key, IoGroupRow> directories, patterns;
  for (const IoFileRow& file : io.files) {
    if (file.path.empty() || is_file_system_of_kernel(file.file_system)) continue;
    // The row of a directory itself counts operations on names in it; it is not one of its files.
    const bool is_folder = folders.count(file.path) != 0;
    const std::string_view folder = is_folder ? std::string_view(file.path) : folder_of(file.path);
    IoGroupRow& directory = directories[{std::string(folder), file.file_system}];
    add(file, directory);
    if (is_folder) --directory.files;
    if (!is_folder)
      if (std::string pattern = pattern_of(file.path); pattern != file.path)
        add(file, patterns[{std::move(pattern), file.file_system}]);
  }
  const auto take = [](std::map<Key, IoGroupRow>& from, std::size_t fewest, std::vector<IoGroupRow>& to) {
    for (auto& [key, row] : from) {
      if (row.files < fewest) continue;
      row.path = key.first;
      row.file_system = key.second;
      to.push_back(std::move(row));
    }
    sort_by_time(to);
  };
  take(directories, 0, io.directories);
  take(patterns, kMinAlike, io.patterns);
}

}  // namespace

bool records_resources(const shard::ShardData& data) {
  return data.time_axis.bin_ns != 0 || !data.io_calls.empty() ||
         std::any_of(data.nodes.begin(), data.nodes.end(),
                     [](const shard::Node& node) { return node.cpus != 0; });
}

bool is_file_system_of_kernel(std::string_view file_system) {
  static constexpr std::array<std::string_view, 7> kTypes = {"proc",    "sysfs",   "cgroup",    "cgroup2",
                                                             "debugfs", "tracefs", "securityfs"};
  const std::string_view type = file_system.substr(0, file_system.find(' '));
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

std::string pattern_of(std::string_view path) {
  const std::size_t name = path.rfind('/') + 1;  // 0 without a slash
  std::string pattern(path.substr(0, name));
  for (std::size_t i = name; i < path.size(); ++i) {
    const bool digit = path[i] >= '0' && path[i] <= '9';
    if (!digit)
      pattern += path[i];
    else if (pattern.size() == name || pattern.back() != '*' || path[i - 1] == '*')
      pattern += '*';
  }
  return pattern;
}

bool moves_bytes(IoOperation operation) {
  return operation == IoOperation::kRead || operation == IoOperation::kWrite ||
         operation == IoOperation::kSync;
}

std::int32_t RankWithMost::rank() const {
  const auto most = std::max_element(time_s_.begin(), time_s_.end(),
                                     [](const auto& x, const auto& y) { return x.second < y.second; });
  return most == time_s_.end() ? -1 : most->first;
}

void find_file_io(const shard::ShardData& data, const CallPaths& paths,
                  const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  if (!records_resources(data)) return;
  FileIo& io = analysis.io.emplace();
  using Text = std::string_view;
  using File = std::pair<Text, Text>;  // path, file system
  // Operation, file of the data, MPI function; file, line and function of the caller.
  using Site = std::tuple<IoOperation, Text, Text, Text, std::uint32_t, Text>;
  std::map<File, IoFileRow> files;
  std::map<File, std::int32_t> last_rank;
  std::map<Text, FileSystemRow> file_systems;
  std::map<Site, CallSum> calls;
  std::vector<CallSum*> touched;

  const ByRank by = by_rank(data.io_calls, data.ranks.size());
  for (const std::uint32_t rank : ascending) {
    const std::int32_t number = data.ranks[rank].rank;
    touched.clear();
    for (std::uint32_t i = by.starts[rank]; i < by.starts[rank + 1]; ++i) {
      const shard::IoCall& call = data.io_calls[by.order[i]];
      if (call.file >= data.io_files.size() ||
          static_cast<std::size_t>(call.operation) >= shard::kIoOperations)
        continue;
      const shard::IoFile& file = data.io_files[call.file];
      const File name{file.path, file.file_system};
      IoFileRow& row = files[name];
      const auto [seen, is_new] = last_rank.try_emplace(name, number);
      if (is_new || seen->second != number) ++row.ranks;
      seen->second = number;
      if (call.operation == IoOperation::kOpen) row.opens += call.count;
      if (call.operation == IoOperation::kRead) row.reads += call.count;
      if (call.operation == IoOperation::kWrite) row.writes += call.count;
      if (!moves_bytes(call.operation)) row.meta_calls += call.count;
      add_times(call, row);
      FileSystemRow& system = file_systems[file.file_system];
      system.calls += call.count;
      add_times(call, system);
      if (call.path == 0) {
        io.by_file_only.operations += call.count;
        io.by_file_only.bytes += call.bytes;
        io.by_file_only.time_s += to_seconds(call.time_ns);
      }

      const std::uint32_t path = call.path < paths.size() ? call.path : 0;
      const std::uint32_t place = paths.place(path);
      const shard::Frame* const frame = paths.frame(place);
      const shard::Frame* const leaf = paths.frame(path);
      const Text mpi =
          leaf != nullptr && leaf->kind == shard::FrameKind::kMpi ? paths.text(leaf->name) : Text{};
      const Site site = frame == nullptr
                            ? Site{call.operation, file.path, mpi, {}, 0, {}}
                            : Site{call.operation,          file.path,   mpi,
                                   paths.text(frame->file), frame->line, paths.text(frame->name)};
      CallSum& sum = calls[site];
      if (!sum.touched) touched.push_back(&sum);
      sum.touched = true;
      if (frame != nullptr) sum.row.kind = frame->kind;
      sum.row.of_kernel = is_file_system_of_kernel(file.file_system);
      sum.row.in_background =
          sum.row.of_kernel || mpi.starts_with("MPI_Init") || mpi.starts_with("MPI_Finalize");
      sum.row.count += call.count;
      sum.row.failed += call.failed;
      sum.row.bytes += call.bytes;
      sum.time_ns += call.time_ns;
      const std::uint32_t library = mpi.empty() ? paths.called(path) : 0;
      sum.called[library == 0 ? std::string() : paths.library_name(library)] += call.time_ns;
      if (sum.row.longest_rank < 0 || call.max_ns > sum.max_ns) {
        sum.max_ns = call.max_ns;
        sum.row.longest_rank = number;
      }
      sum.here_ns += call.time_ns;
      sum.here_count += call.count;
    }
    for (CallSum* const sum : touched) {
      if (sum->row.max_rank < 0 || sum->here_ns > sum->rank_ns) {
        sum->row.max_rank = number;
        sum->rank_ns = sum->here_ns;
        sum->row.rank_count = sum->here_count;
      }
      sum->here_ns = sum->here_count = 0;
      sum->touched = false;
    }
  }
  for (auto& [name, row] : files) {
    std::tie(row.path, row.file_system) = name;
    io.files.push_back(std::move(row));
  }
  for (auto& [name, row] : file_systems) {
    row.name = name;
    row.of_kernel = is_file_system_of_kernel(name);
    io.file_systems.push_back(std::move(row));
  }
  for (auto& [site, sum] : calls) {
    std::tie(sum.row.operation, sum.row.path, sum.row.mpi, sum.row.file, sum.row.line, sum.row.function) =
        site;
    sum.row.called = most_of(sum.called);
    sum.row.time_s = to_seconds(sum.time_ns);
    sum.row.max_s = to_seconds(sum.max_ns);
    sum.row.rank_time_s = to_seconds(sum.rank_ns);
    io.calls.push_back(std::move(sum.row));
  }
  sort_by_time(io.files);
  sort_by_time(io.file_systems);
  std::stable_sort(io.calls.begin(), io.calls.end(),
                   [](const IoCallRow& x, const IoCallRow& y) { return x.time_s > y.time_s; });
  group_files(io);
  const auto to_the_end = [](auto& rows, const auto& of_background) {
    std::stable_partition(rows.begin(), rows.end(), [&](const auto& row) { return !of_background(row); });
  };
  to_the_end(io.files, [](const IoFileRow& row) { return is_file_system_of_kernel(row.file_system); });
  to_the_end(io.file_systems, [](const FileSystemRow& row) { return row.of_kernel; });
  to_the_end(io.calls, [](const IoCallRow& row) { return row.in_background; });
}

}  // namespace clusterprof::report
