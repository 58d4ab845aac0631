// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/shard_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/unique_fd.hpp"
#include "formats/shard/run_files.hpp"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;

// Calls `use` for each entry of the run directory and of its subdirectories of shards. What cannot be read
// below the run directory itself is an error only if somebody else would have to read it.
std::error_code for_each_entry_of_run(const fs::path& run_dir,
                                      const std::function<void(const fs::directory_entry&)>& use) {
  std::error_code error;
  for (fs::directory_iterator entry(run_dir, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (shard::is_shard_directory(entry->path().filename().string()) &&
        entry->symlink_status(ignored).type() == fs::file_type::directory) {
      for (fs::directory_iterator below(entry->path(), error); !error && below != end; below.increment(error))
        use(*below);
      if (error) return error;
    } else {
      use(*entry);
    }
  }
  return error;
}

// Whether a collector started so recently that it may still be writing its first shard.
bool shard_may_come(const fs::path& run_dir) {
  constexpr std::time_t kFirstShard_s = 10;
  bool may_come = false;
  (void)for_each_entry_of_run(run_dir, [&](const fs::directory_entry& entry) {
    struct stat status {};
    if (shard::is_claim(entry.path().filename().string()) && ::lstat(entry.path().c_str(), &status) == 0 &&
        std::abs(std::time(nullptr) - status.st_mtim.tv_sec) < kFirstShard_s)
      may_come = true;
  });
  return may_come;
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
  const std::error_code error = for_each_entry_of_run(run_dir, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (shard::is_shard_name(entry.path().filename().string()) && entry.is_regular_file(ignored))
      shards.push_back(entry.path());
  });
  if (error) return Error{run_dir.string() + ": cannot be read: " + error.message()};
  std::sort(shards.begin(), shards.end());
  return shards;
}

std::optional<ShardOnNode> shard_on_node(int directory, const std::string& claim) {
  constexpr std::size_t kMost = 8192;
  const UniqueFd file(::openat(directory, claim.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::array<char, kMost> text{};
  const ssize_t bytes = file ? ::read(file.get(), text.data(), text.size()) : 0;
  const std::string_view line(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  const std::size_t colon = line.find(":/"), end = line.find('\n');
  if (colon == std::string_view::npos || end == std::string_view::npos || end < colon) return std::nullopt;
  return ShardOnNode{std::string(line.substr(0, colon)),
                     std::string(line.substr(colon + 1, end - colon - 1))};
}

namespace {

std::vector<ShardOnNode> shards_left_on_nodes(const fs::path& run_dir) {
  std::vector<ShardOnNode> found;
  (void)for_each_entry_of_run(run_dir, [&](const fs::directory_entry& entry) {
    if (!shard::is_claim(entry.path().filename().string())) return;
    if (auto left = shard_on_node(AT_FDCWD, entry.path().string())) found.push_back(std::move(*left));
  });
  return found;
}

}  // namespace

std::vector<shard::Note> notes_on_shards_left(const fs::path& run_dir) {
  std::vector<shard::Note> notes;
  for (const ShardOnNode& left : shards_left_on_nodes(run_dir))
    notes.push_back(shard::note_of_node(shard::NoteCode::kShardLeftOnNode, left.node, 0, left.file));
  return notes;
}

std::string nothing_found(const fs::path& run_dir) {
  std::string places;
  for (const ShardOnNode& left : shards_left_on_nodes(run_dir))
    places += (places.empty() ? "" : ", ") + left.node + ":" + left.file;
  if (places.empty()) return "nothing found: no node-*.h5 in it";
  return "nothing found yet: the data is still on its nodes, in " + places +
         ". The collectors there were killed or are still at work. What was left is brought here when your "
         "next "
         "recording on that node ends";
}

std::string name_of_shard(const fs::path& run_dir, const fs::path& shard) {
  return shard.lexically_relative(run_dir).string();
}

}  // namespace clusterprof::aggregator
