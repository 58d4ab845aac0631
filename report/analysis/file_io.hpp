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

// Whether the profile is of a recorder that knew of file I/O, series and nodes' hardware: without that, no
// rows means not measured.
bool records_resources(const shard::ShardData& data);

// "proc /proc", "sysfs /sys" and their kin: what is read there is the kernel's own account of itself.
bool is_file_system_of_kernel(std::string_view file_system);
// The path with * for each run of digits in its last part.
std::string pattern_of(std::string_view path);
// Reads, writes and syncs; the other operations are about names and descriptors.
bool moves_bytes(shard::IoOperation operation);

// Analysis::io.
void find_file_io(const shard::ShardData& data, const CallPaths& paths,
                  const std::vector<std::uint32_t>& ascending, Analysis& analysis);

}  // namespace clusterprof::report
