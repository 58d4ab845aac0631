// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Whether the recorder measured file I/O, series and nodes' hardware. If not, missing rows mean "not
// measured".
bool records_resources(const shard::ShardData& data);

// Whether the file system has the kernel's own files: "proc /proc", "sysfs /sys" and similar.
bool is_file_system_of_kernel(std::string_view file_system);
// The path with a * for each run of digits in its file name.
std::string pattern_of(std::string_view path);
// Whether the operation is a read, write or sync. The others work on names and descriptors.
bool moves_bytes(shard::IoOperation operation);

// The rank with most time in several rows of calls: by the time of the one with most of each row, since the
// others' is not known.
class RankWithMost {
 public:
  void add(const IoCallRow& row) { time_s_[row.max_rank] += row.rank_time_s; }
  [[nodiscard]] std::int32_t rank() const;  // of equal times the lowest; -1: nothing was added

 private:
  std::map<std::int32_t, double> time_s_;
};

// Fills in Analysis::io.
void find_file_io(const shard::ShardData& data, const CallPaths& paths,
                  const std::vector<std::uint32_t>& ascending, Analysis& analysis);

}  // namespace clusterprof::report
