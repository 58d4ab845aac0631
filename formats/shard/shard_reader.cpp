// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/shard_reader.hpp"

#include "formats/shard/tables.hpp"

namespace clusterprof::shard {
namespace {

Result<ShardData> read(const std::filesystem::path& path, Tables which) {
  ShardData data;
  const Result<void> result =
      read_file(path, kShardFormat, [&](const h5::Group& root) { data = read_tables(root, which); });
  if (!result) return result.error();
  if (const Result<void> valid = validate(data); !valid)
    return Error{path.string() + ": is damaged (" + valid.error().message + ")"};
  return data;
}

}  // namespace

Result<ShardData> read_shard(const std::filesystem::path& path) { return read(path, Tables::kAll); }

Result<ShardData> read_shard_summary(const std::filesystem::path& path) {
  return read(path, Tables::kSummary);
}

}  // namespace clusterprof::shard
