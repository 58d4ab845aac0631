// SPDX-License-Identifier: BSD-3-Clause
// The summary at the end of a run is made inside the job. If it took more memory than the job has left, the
// kernel would kill a process of the job, and Slurm calls such a job failed whatever its program has done.
#pragma once

#include <cstdint>
#include <string>

namespace clusterprof::cli {

// Less would not do for a small run.
inline constexpr std::uint64_t kLeastBound_bytes = 32 << 20;

// From here on, an allocation fails that would bring this process above that bound. Libraries that do not
// survive it make the process print `text` and end with kOk. False: there is no bound, or it is too low. Once
// in a process.
[[nodiscard]] bool bound_memory(std::uint64_t bytes, const std::string& text);

// Whether the process has needed a large part of that, so that it may be the reason why something failed.
[[nodiscard]] bool has_come_near_bound();

}  // namespace clusterprof::cli
