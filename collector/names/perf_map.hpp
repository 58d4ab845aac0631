// SPDX-License-Identifier: BSD-3-Clause
// Names of code that was generated at run time. Just-in-time compilers (node --perf-basic-prof, Java's perf
// map agents, python -X perf) write them to /tmp/perf-PID.map, one line "START SIZE name" for each piece, in
// hexadecimal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

namespace clusterprof::collector {

// The file of a process. `pid`: as the process itself sees it.
[[nodiscard]] std::string perf_map_path(std::int32_t pid);

// The names that the file has for `addresses`. An address with two different names gets none: its memory was
// used again by other code, and it is not known which one a sample saw. The file is trusted only if it is a
// regular file of this user (no link), was last written at `not_before_utc_ns` or later (process ids are
// reused), and has at most 64 MiB and a million lines. Otherwise the result is empty.
[[nodiscard]] std::unordered_map<std::uint64_t, std::string> read_perf_map(
    const std::string& path, std::int64_t not_before_utc_ns, std::span<const std::uint64_t> addresses);

}  // namespace clusterprof::collector
