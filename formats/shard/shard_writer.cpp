// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/shard_writer.hpp"

#include "formats/shard/format_file.hpp"
#include "formats/shard/tables.hpp"

namespace clusterprof::shard {

Result<void> write_shard(const ShardData& data, const std::filesystem::path& path) {
  if (const Result<void> valid = validate(data); !valid)
    return Error{path.string() + ": cannot be written: " + valid.error().message};
  return write_file(path, kShardFormat, [&](h5::Group& root) { write_tables(root, data); });
}

Result<std::vector<std::byte>> shard_image(const ShardData& data, const std::filesystem::path& path) {
  if (const Result<void> valid = validate(data); !valid)
    return Error{path.string() + ": cannot be written: " + valid.error().message};
  return image_of_file(path, kShardFormat, [&](h5::Group& root) { write_tables(root, data); });
}

}  // namespace clusterprof::shard
