// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/file_io.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::IoOperation;

double time_of(const IoFileRow& row) { return row.read_s + row.write_s + row.sync_s + row.meta_s; }
double time_of(const FileSystemRow& row) { return row.read_s + row.write_s + row.sync_s + row.meta_s; }

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
};

}  // namespace

bool records_resources(const shard::ShardData& data) {
  return data.time_axis.bin_ns != 0 || !data.io_calls.empty() ||
         std::any_of(data.nodes.begin(), data.nodes.end(),
                     [](const shard::Node& node) { return node.cpus != 0; });
}

void find_file_io(const shard::ShardData& data, const CallPaths& paths,
                  const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  if (!records_resources(data)) return;
  FileIo& io = analysis.io.emplace();
  using Text = std::string_view;
  using File = std::pair<Text, Text>;  // path, file system
  // Operation, file of the data; file, line and function of the caller.
  using Site = std::tuple<IoOperation, Text, Text, std::uint32_t, Text>;
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
      add_times(call, row);
      add_times(call, file_systems[file.file_system]);

      const std::uint32_t place = call.path < paths.size() ? paths.place(call.path) : 0;
      const shard::Frame* const frame = paths.frame(place);
      const Site site = frame == nullptr ? Site{call.operation, file.path, {}, 0, {}}
                                         : Site{call.operation, file.path, paths.text(frame->file),
                                                frame->line, paths.text(frame->name)};
      CallSum& sum = calls[site];
      if (!sum.touched) touched.push_back(&sum);
      sum.touched = true;
      if (frame != nullptr) sum.row.kind = frame->kind;
      sum.row.count += call.count;
      sum.row.failed += call.failed;
      sum.row.bytes += call.bytes;
      sum.time_ns += call.time_ns;
      sum.max_ns = std::max(sum.max_ns, call.max_ns);
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
    io.file_systems.push_back(std::move(row));
  }
  for (auto& [site, sum] : calls) {
    std::tie(sum.row.operation, sum.row.path, sum.row.file, sum.row.line, sum.row.function) = site;
    sum.row.time_s = to_seconds(sum.time_ns);
    sum.row.max_s = to_seconds(sum.max_ns);
    sum.row.rank_time_s = to_seconds(sum.rank_ns);
    io.calls.push_back(std::move(sum.row));
  }
  const auto longer = [](const auto& x, const auto& y) { return time_of(x) > time_of(y); };
  std::stable_sort(io.files.begin(), io.files.end(), longer);
  std::stable_sort(io.file_systems.begin(), io.file_systems.end(), longer);
  std::stable_sort(io.calls.begin(), io.calls.end(),
                   [](const IoCallRow& x, const IoCallRow& y) { return x.time_s > y.time_s; });
}

}  // namespace clusterprof::report
