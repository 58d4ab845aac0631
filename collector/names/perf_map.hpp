// SPDX-License-Identifier: BSD-3-Clause
// Names of code that a program made at run time. Just-in-time compilers (node --perf-basic-prof, Java's perf
// map agents, python -X perf) write them to /tmp/perf-PID.map, a line for each piece: "START SIZE name",
// hexadecimal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

namespace clusterprof::collector {

// Where the process with that id, as it knows it itself, writes them.
[[nodiscard]] std::string perf_map_path(std::int32_t pid);

// The names of those of `addresses` that the file has, without those that it gives two different names
// (memory used again by other code: which of them a sample saw cannot be known). The file is trusted only
// when it is a regular one of this user, no link, last written at `not_before_utc_ns` or later (process ids
// come back), at most 64 MiB, and of at most a million lines; it is empty otherwise.
[[nodiscard]] std::unordered_map<std::uint64_t, std::string> read_perf_map(
    const std::string& path, std::int64_t not_before_utc_ns, std::span<const std::uint64_t> addresses);

}  // namespace clusterprof::collector
