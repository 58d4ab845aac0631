// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/result.hpp"

namespace clusterprof::cli {

// Hands every table of a shard or profile to `write` as text, piece by piece: a line
// "[table] N rows", a line of column names, a line per row; fields separated by tabs, strings
// quoted as in C. For people and for comparing files; programs better read the HDF5.
Result<void> dump(const std::filesystem::path& file, const std::function<void(std::string_view)>& write);

}  // namespace clusterprof::cli
