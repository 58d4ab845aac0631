// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
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

// Fills in Analysis::io.
void find_file_io(const shard::ShardData& data, const CallPaths& paths,
                  const std::vector<std::uint32_t>& ascending, Analysis& analysis);

}  // namespace clusterprof::report
