// SPDX-License-Identifier: BSD-3-Clause
#include "collector/shard/shard_name.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "formats/shard/run_files.hpp"

namespace clusterprof::collector {

ShardName::ShardName(const ShardPlace& place) {
  const std::string& node = place.node;
  std::filesystem::path directory = place.run_directory;
  if (const std::string below = shard::shard_directory(node, place.nodes); !below.empty()) {
    directory /= below;
    (void)mkdir(directory.c_str(), 0777);  // less the umask, like the files
  }
  for (int number = 1;; ++number) {
    const std::string stem = fmt::format("node-{}{}", node, number == 1 ? "" : fmt::format(".{}", number));
    path_ = directory / (stem + ".h5");
    claim_ = directory / fmt::format(".{}{}", stem, shard::kClaimSuffix);
    file_ = UniqueFd(open(claim_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_ && errno == EEXIST) continue;
    if (!file_) return;  // nothing can be written here, as ShardFile::write() will tell
    is_claimed_ = true;
    // The claim of the collector that had the name before became its shard.
    std::error_code error;
    if (!std::filesystem::exists(path_, error)) return;
    give_up();
  }
}

void ShardName::describe(const std::string& where) const {
  if (!is_claimed_) return;
  const UniqueFd file(open(claim_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  // It is for the report alone. Over what is there already, for which there is room.
  [[maybe_unused]] const bool written =
      file && pwrite(file.get(), where.data(), where.size(), 0) == static_cast<ssize_t>(where.size()) &&
      ftruncate(file.get(), static_cast<off_t>(where.size())) == 0;
}

void ShardName::give_up() {
  if (is_claimed_) (void)unlink(claim_.c_str());
  is_claimed_ = false;
}

}  // namespace clusterprof::collector
