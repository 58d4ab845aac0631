// SPDX-License-Identifier: BSD-3-Clause
// What shard and profile files have in common: the tables of ShardData, the version and the
// way a file comes to its name. Internal to formats/.
#pragma once

#include <filesystem>
#include <functional>

#include "base/result.hpp"
#include "formats/h5/h5.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

inline constexpr std::uint32_t kFormatMajor = 1;
inline constexpr std::uint32_t kFormatMinor = 3;
inline constexpr const char* kShardFormat = "clusterprof-shard";
inline constexpr const char* kProfileFormat = "clusterprof-profile";

enum class Tables { kAll, kSummary };  // summary: as read_shard_summary

// Throw h5::H5Error.
void write_tables(h5::Group& root, const ShardData& data);
[[nodiscard]] ShardData read_tables(const h5::Group& root, Tables which);

// Says what is inconsistent in `data`: indices out of range, a child before its parent, a rank
// listed twice, an id that is not the hash of its path, a region inside a function, events or series that are
// out of order, a time axis that does not fit others'.
Result<void> validate(const ShardData& data);

// Makes a file of that format at `path`, atomically; `fill` writes its tables.
Result<void> write_file(const std::filesystem::path& path, const char* format,
                        const std::function<void(h5::Group& root)>& fill);

// Opens a file of that format and of a version we know, and hands its root to `use`. Whatever
// goes wrong, also in `use`, becomes one line that begins with the path.
Result<void> read_file(const std::filesystem::path& path, const char* format,
                       const std::function<void(const h5::Group& root)>& use);

}  // namespace clusterprof::shard
