// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace clusterprof::profile {

enum class FileKind { kShard, kProfile };

// What a file says it is, whatever its version. Error when it is neither or cannot be read.
Result<FileKind> file_kind(const std::filesystem::path& path);

}  // namespace clusterprof::profile
