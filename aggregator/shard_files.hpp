// SPDX-License-Identifier: BSD-3-Clause
// The files of a run directory that a merge reads and writes.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.hpp"

namespace clusterprof::aggregator {

inline constexpr const char* kProfileName = "profile.h5";

// Lists node-*.h5 in the directory, by name. Error when the directory cannot be listed.
Result<std::vector<std::filesystem::path>> list_shards(const std::filesystem::path& run_dir);
// Lists the shards once there is one, or once none is to be expected soon. When the launchers of a job are
// killed, as by MPICH's MPI_Abort, the job ends before its collectors, which go on writing. So this waits up
// to 10 s for their first shards.
Result<std::vector<std::filesystem::path>> await_shards(const std::filesystem::path& run_dir);

}  // namespace clusterprof::aggregator
