// SPDX-License-Identifier: BSD-3-Clause
#include "collector/shard/shard_name.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>

#include "base/unique_fd.hpp"
#include "formats/shard/run_files.hpp"

namespace clusterprof::collector {
namespace {

constexpr time_t kLeftover_s = 600;

// Half-written shards of collectors that were killed. None takes long to write.
void remove_leftovers(const std::filesystem::path& directory, const std::string& node) {
  const std::string prefix = fmt::format(".node-{}.", node);
  const time_t now = time(nullptr);
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    struct stat status {};
    if (name.starts_with(prefix) && name.ends_with(".tmp") && lstat(it->path().c_str(), &status) == 0 &&
        S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_mtime < now - kLeftover_s) {
      (void)unlink(it->path().c_str());
    }
  }
}

}  // namespace

ShardName::ShardName(const std::filesystem::path& directory, const std::string& node) {
  for (int number = 1;; ++number) {
    const std::string stem = fmt::format("node-{}{}", node, number == 1 ? "" : fmt::format(".{}", number));
    path_ = directory / (stem + ".h5");
    claim_ = directory / fmt::format(".{}{}", stem, shard::kClaimSuffix);
    const UniqueFd claim(open(claim_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!claim && errno == EEXIST) continue;
    if (!claim) {
      claim_.clear();  // nothing can be written here, as ShardFile::write() will tell
      return;
    }
    // The collector that had the name before wrote its shard first and gave up its claim then.
    std::error_code error;
    if (!std::filesystem::exists(path_, error)) break;
    give_up();
  }
  remove_leftovers(directory, node);
}

void ShardName::give_up() {
  if (!claim_.empty()) (void)unlink(claim_.c_str());
  claim_.clear();
}

}  // namespace clusterprof::collector
