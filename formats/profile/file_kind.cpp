// SPDX-License-Identifier: BSD-3-Clause
#include "formats/profile/file_kind.hpp"

#include "formats/shard/format_file.hpp"

namespace clusterprof::profile {

Result<FileKind> file_kind(const std::filesystem::path& path) {
  try {
    const h5::File file = h5::File::open(path);
    const h5::Group root = file.root();
    const std::string format = root.has_attribute("format") ? root.read_string("format") : std::string();
    if (format == shard::kShardFormat) return FileKind::kShard;
    if (format == shard::kProfileFormat) return FileKind::kProfile;
    return Error{path.string() + ": is not a clusterprof file"};
  } catch (const h5::H5Error& error) {
    return Error{path.string() + ": " + error.what()};
  }
}

}  // namespace clusterprof::profile
