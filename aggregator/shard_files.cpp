// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/shard_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <system_error>
#include <thread>

#include "formats/shard/run_files.hpp"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;

bool is_shard_name(std::string_view name) {
  return name.size() > 8 && name.starts_with("node-") && name.ends_with(".h5");
}

// Whether a collector started so recently that it may still be writing its first shard.
bool shard_may_come(const fs::path& run_dir) {
  constexpr std::time_t kFirstShard_s = 10;
  std::error_code error;
  for (fs::directory_iterator entry(run_dir, error), end; !error && entry != end; entry.increment(error)) {
    struct stat status {};
    if (shard::is_claim(entry->path().filename().string()) && ::lstat(entry->path().c_str(), &status) == 0 &&
        std::abs(std::time(nullptr) - status.st_mtim.tv_sec) < kFirstShard_s)
      return true;
  }
  return false;
}

}  // namespace

Result<std::vector<fs::path>> await_shards(const fs::path& run_dir) {
  constexpr std::chrono::seconds kPatience{10};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    Result<std::vector<fs::path>> shards = list_shards(run_dir);
    const bool over = std::chrono::steady_clock::now() >= end;
    if (!shards || !shards.value().empty() || over || !shard_may_come(run_dir)) return shards;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<std::vector<fs::path>> list_shards(const fs::path& run_dir) {
  std::vector<fs::path> shards;
  std::error_code error;
  for (fs::directory_iterator entry(run_dir, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (is_shard_name(entry->path().filename().string()) && entry->is_regular_file(ignored))
      shards.push_back(entry->path());
  }
  if (error) return Error{run_dir.string() + ": cannot be read: " + error.message()};
  std::sort(shards.begin(), shards.end());
  return shards;
}

}  // namespace clusterprof::aggregator
