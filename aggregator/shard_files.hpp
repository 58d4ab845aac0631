// SPDX-License-Identifier: BSD-3-Clause
// The files of a run directory that a merge reads and writes.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.hpp"

namespace clusterprof::aggregator {

inline constexpr const char* kProfileName = "profile.h5";

// node-*.h5 of the directory, by name. Error when it cannot be listed.
Result<std::vector<std::filesystem::path>> list_shards(const std::filesystem::path& run_dir);
// The same once there is one, or none is to be expected soon. A job whose launchers are killed, as MPI_Abort
// of MPICH does, ends before its collectors, which write on: up to 10 s are waited for their first shards.
Result<std::vector<std::filesystem::path>> await_shards(const std::filesystem::path& run_dir);

}  // namespace clusterprof::aggregator
