// SPDX-License-Identifier: BSD-3-Clause
#include "formats/synth/series.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/path_times.hpp"
#include "formats/synth/random.hpp"

namespace clusterprof::synth {
namespace {

using namespace shard;

// Rows of table series. The categories come first.
enum SeriesRow : std::uint32_t {
  kCpuUser = kCategories,
  kCpuSystem,
  kMinorFaults,
  kVoluntarySwitches,
  kInvoluntarySwitches,
  kResident,
  kReadBytes,
  kWriteBytes,
  kFirstCounter,
};
// The series of nodes follow those of the counters.
enum NodeSeriesRow : std::uint32_t {
  kCpuBusy = 0,
  kMemoryUsed,
  kNetworkReceived,
  kNetworkSent,
  kDiskRead,
  kDiskWritten,
  kNodeSeries,
};

}  // namespace

void SeriesBuilder::describe() {
  const auto add = [&](std::string_view name, SeriesKind kind = SeriesKind::kSum) {
    data_.series.push_back({interner_.string(name), kind});
  };
  for (const char* category : kCategoryNames) add(std::string(category) + "_ns");
  for (const char* name :
       {"cpu_user_ns", "cpu_system_ns", "minor_faults", "voluntary_switches", "involuntary_switches"})
    add(name);
  add("rss_bytes", SeriesKind::kMaximum);
  add("read_bytes");
  add("write_bytes");
  for (const std::string& name : data_.counters) add(name);
  first_node_series_ = static_cast<std::uint32_t>(data_.series.size());
  add("cpu_busy_ns");
  add("memory_used_bytes", SeriesKind::kMaximum);
  for (const char* name :
       {"network_received_bytes", "network_sent_bytes", "disk_read_bytes", "disk_written_bytes"})
    add(name);

  data_.time_axis = axis_of(shape_.bins);
  bins_ = bins_of(data_.time_axis);
}

std::uint64_t SeriesBuilder::start_ns() const {
  return static_cast<std::uint64_t>(data_.nodes[0].start_utc_ns);
}
std::uint32_t SeriesBuilder::bins_of(const TimeAxis& axis) const {
  const std::uint64_t end_ns = start_ns() + shape_.ranks_per_node + kElapsed_ns;
  return static_cast<std::uint32_t>((end_ns - 1) / axis.bin_ns - start_ns() / axis.bin_ns + 1);
}
TimeAxis SeriesBuilder::axis_of(std::uint32_t max_bins) const {
  TimeAxis axis{TimeAxis::kFirstBin_ns, 0};
  while (bins_of(axis) > max_bins && axis.bin_ns < TimeAxis::kWidestBin_ns) axis.bin_ns *= 2;
  axis.origin_utc_ns = static_cast<std::int64_t>(start_ns() / axis.bin_ns * axis.bin_ns);
  return axis;
}

// Spreads everything evenly over the run, except what files cause. The sums are those of the rank.
void SeriesBuilder::add_rank(std::uint32_t row, const Rank& rank, const FileTimes& files,
                             const Counts& counts) {
  const std::uint64_t skew = static_cast<std::uint64_t>(rank.start_utc_ns - data_.time_axis.origin_utc_ns);
  const std::uint64_t elsewhere_ns = kElapsed_ns - files.total_ns();
  // The rank's time at the end of a bin, and what it had spent outside files by then.
  const auto now = [&](std::uint32_t bin) {
    const std::uint64_t end = (bin + std::uint64_t{1}) * data_.time_axis.bin_ns;
    return std::min(kElapsed_ns, end > skew ? end - skew : 0);
  };
  const auto elsewhere = [&](std::uint64_t ns) { return ns - files.reading(ns) - files.writing(ns); };
  const auto add = [&](std::uint32_t series, auto until) {
    std::uint64_t before = 0;
    for (std::uint32_t bin = 0; bin < bins_; ++bin) {
      const std::uint64_t sum = until(now(bin));
      if (sum != before) data_.rank_series.push_back({row, series, bin, sum - before});
      before = sum;
    }
  };
  const auto spread = [&](std::uint32_t series, std::uint64_t total) {
    add(series, [&](std::uint64_t ns) { return portion(total, elsewhere(ns), elsewhere_ns); });
  };
  for (std::uint32_t i = 0; i < kCategories; ++i) {
    if (i == static_cast<std::uint32_t>(Category::kIo))
      add(i, [&](std::uint64_t ns) { return files.reading(ns) + files.writing(ns); });
    else
      spread(i, rank.main_thread_ns[i]);
  }
  spread(kCpuUser, rank.user_ns);
  spread(kCpuSystem, rank.system_ns);
  spread(kMinorFaults, rank.minor_faults);
  spread(kVoluntarySwitches, rank.voluntary_switches);
  spread(kInvoluntarySwitches, rank.involuntary_switches);
  for (std::uint32_t bin = 0; bin < bins_; ++bin)
    data_.rank_series.push_back({row, kResident, bin,
                                 rank.max_rss_bytes / 2 + portion(rank.max_rss_bytes - rank.max_rss_bytes / 2,
                                                                  now(bin), kElapsed_ns)});
  add(kReadBytes,
      [&](std::uint64_t ns) { return portion(rank.read_bytes, files.reading(ns), files.read_ns); });
  add(kWriteBytes, [&](std::uint64_t ns) {
    return portion(rank.write_bytes, files.writing(ns), files.write_ns + files.sync_ns);
  });
  for (std::uint32_t i = 0; i < shape_.counters; ++i) spread(kFirstCounter + i, counts[i]);
}

// Sums up processors and files of the node's ranks. Only the first and the last rank of a node exchange
// messages with other nodes.
void SeriesBuilder::add_node() {
  std::array<std::vector<std::uint64_t>, kNodeSeries> sums;
  for (std::vector<std::uint64_t>& sum : sums) sum.assign(bins_, 0);
  for (const RankSeries& value : data_.rank_series) {
    const auto add = [&](std::uint32_t series) { sums[series][value.bin] += value.value; };
    if (value.series == kCpuUser || value.series == kCpuSystem) add(kCpuBusy);
    if (value.series == kResident) add(kMemoryUsed);
    if (value.series == kReadBytes) add(kDiskRead);
    if (value.series == kWriteBytes) add(kDiskWritten);
  }
  for (std::uint32_t bin = 0; bin < bins_; ++bin) {
    sums[kMemoryUsed][bin] += std::uint64_t{8} << 30;
    if (shape_.nodes < 2) continue;
    const std::uint64_t bytes = 2 * iterations(shape_) * kHaloBytes;
    const std::uint64_t share = portion(bytes, bin + 1, bins_) - portion(bytes, bin, bins_);
    sums[kNetworkReceived][bin] = sums[kNetworkSent][bin] = share;
  }
  for (std::uint32_t i = 0; i < sums.size(); ++i)
    for (std::uint32_t bin = 0; bin < bins_; ++bin)
      if (sums[i][bin] != 0) data_.node_series.push_back({0, first_node_series_ + i, bin, sums[i][bin]});
}

// The solver's own paths run all the time. One in three of the others runs only in the first half, one in
// three only in the second. Paths of file operations run when files are used.
void SeriesBuilder::add_paths() {
  data_.path_axis = axis_of(std::min(shape_.bins, kMaxPathBins));
  const std::uint32_t bins = bins_of(data_.path_axis);
  std::vector<std::uint64_t> time_ns(data_.paths.size());
  for (const Value& value : data_.values) time_ns[value.path] += value.wall_ns;
  PathTimeTable table(data_.paths.size());
  const FileTimes files = file_times(kElapsed_ns);
  for (std::uint32_t path = 0; path < time_ns.size(); ++path) {
    if (time_ns[path] == 0) continue;
    const std::uint64_t phase = data_.paths[path].id.low % 3;
    // How much of its time is over by then.
    const auto passed = [&](std::uint64_t now) {
      if (path == program_.reading) return portion(time_ns[path], files.reading(now), files.read_ns);
      if (path == program_.writing || path == program_.syncing)
        return portion(time_ns[path], files.writing(now), files.write_ns + files.sync_ns);
      if (path <= program_.syncing || phase == 0) return portion(time_ns[path], now, kElapsed_ns);
      constexpr std::uint64_t kHalf_ns = kElapsed_ns / 2;
      if (phase == 1) return portion(time_ns[path], std::min(now, kHalf_ns), kHalf_ns);
      return portion(time_ns[path], std::max(now, kHalf_ns) - kHalf_ns, kHalf_ns);
    };
    const std::uint64_t skew_ns = start_ns() - static_cast<std::uint64_t>(data_.path_axis.origin_utc_ns);
    Random random(shape_.seed ^ data_.paths[path].id.low ^ node_);
    std::uint64_t even = 0, before = 0;
    for (std::uint32_t bin = 0; bin < bins; ++bin) {
      const std::uint64_t end_ns = (bin + std::uint64_t{1}) * data_.path_axis.bin_ns;
      const std::uint64_t now = std::min(kElapsed_ns, end_ns > skew_ns ? end_ns - skew_ns : 0);
      const std::uint64_t amount = (bin + 1 == bins ? time_ns[path] : passed(now)) - even;
      even += amount;
      // Real ones are not that even.
      const std::uint64_t until = bin + 1 == bins ? even : even - random.below(amount / 4 + 1);
      if (until != before) table.add(path, bin, until - before);
      before = until;
    }
  }
  data_.path_series = table.rows(data_.paths, max_path_series_rows(shape_.ranks_per_node));
}

}  // namespace clusterprof::synth
