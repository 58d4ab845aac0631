// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/abandoned_files.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "aggregator/notes.hpp"
#include "base/unique_fd.hpp"
#include "formats/shard/run_files.hpp"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t kUntouched_s = 600, kUntouchedWithoutLocks_s = 86'400;
constexpr std::time_t kQuiet_s = 60;  // the clocks of file server and nodes may be apart
constexpr int kMostMeetings = 8;      // links that jobs of the same key have made

// 0 when the name is not that of a temporary file of `file_name`.
pid_t writer_of(std::string_view name, std::string_view file_name) {
  if (!name.starts_with('.') || !name.ends_with(".tmp")) return 0;
  name = name.substr(1);
  if (!name.starts_with(file_name)) return 0;
  name = name.substr(file_name.size());
  if (!name.starts_with('.')) return 0;
  pid_t pid = 0;
  const auto [rest, error] = std::from_chars(name.data() + 1, name.data() + name.size(), pid);
  return error == std::errc{} && pid > 0 && *rest == '.' ? pid : 0;
}

bool is_abandoned(const fs::path& path, pid_t writer) {
  if (::kill(writer, 0) == 0 || errno != ESRCH) return false;
  // NFS locks exclusively what can be written alone.
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return false;
  std::time_t untouched_s = kUntouched_s;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    untouched_s = kUntouchedWithoutLocks_s;
  }
  struct stat status {};
  return ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         std::time(nullptr) - status.st_mtim.tv_sec >= untouched_s;
}

bool is_untouched(const fs::path& path, std::time_t for_s) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && std::time(nullptr) - status.st_mtim.tv_sec >= for_s;
}

std::optional<std::string> target_of(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? std::nullopt : std::optional(target.string());
}

// The link beside the run directory that its ranks met by, if it is still there.
std::optional<fs::path> meeting_link(const fs::path& run_dir) {
  const std::optional<std::string> key = target_of(run_dir / shard::kOwnerLink);
  std::error_code error;
  const fs::path place = fs::canonical(run_dir, error);
  if (!key || key->find('/') != std::string::npos || error) return std::nullopt;
  const std::string base = std::string(shard::kMeetingLinkBeginning) + *key;
  for (int number = 1; number <= kMostMeetings; ++number) {
    const fs::path link = place.parent_path() / (number == 1 ? base : base + "-" + std::to_string(number));
    if (target_of(link) == place.filename().string()) return link;
  }
  return std::nullopt;
}

struct Leftovers {
  std::vector<fs::path> claims, half_written, marks, clocks;
  std::optional<fs::path> link;
  bool quiet = false;
};

Leftovers find_leftovers(const fs::path& run_dir) {
  Leftovers found;
  found.quiet = is_untouched(run_dir / shard::kOwnerLink, kQuiet_s);  // since it was made
  std::error_code error;
  for (fs::directory_iterator entry(run_dir, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    if (name.starts_with("node-") && name.ends_with(".h5")) {
      found.quiet = found.quiet && is_untouched(path, kQuiet_s);
    } else if (shard::is_claim(name)) {
      found.claims.push_back(path);
    } else if (name.starts_with(".node-") && name.ends_with(".tmp")) {
      found.half_written.push_back(path);
    } else if (name.starts_with(shard::kMarkBeginning)) {
      found.marks.push_back(path);
    } else if (name.starts_with(shard::kClocksBeginning)) {
      found.clocks.push_back(path);
    }
  }
  found.link = meeting_link(run_dir);
  return found;
}

// A directory of links; nothing else in it is ours.
void remove_links(const fs::path& directory) {
  std::error_code error;
  if (fs::symlink_status(directory, error).type() != fs::file_type::directory) return;
  std::vector<fs::path> links;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->is_symlink(error)) links.push_back(entry->path());
  }
  for (const fs::path& link : links) (void)::unlink(link.c_str());
  (void)::rmdir(directory.c_str());
}

}  // namespace

RunProgress progress_of(const shard::ShardData& head) {
  const std::vector<bool> here = present_ranks(head);
  RunProgress progress;
  progress.all_came = !here.empty() && std::find(here.begin(), here.end(), false) == here.end();
  progress.all_ended =
      progress.all_came && std::none_of(head.run.notes.begin(), head.run.notes.end(), is_of_incomplete_shard);
  return progress;
}

void remove_leftovers(const fs::path& run_dir, const std::function<RunProgress()>& progress) {
  const Leftovers found = find_leftovers(run_dir);
  const auto remove = [](const fs::path& path) { (void)::unlink(path.c_str()); };
  for (const fs::path& claim : found.claims) {
    std::string shard = claim.filename().string().substr(1);
    shard.replace(shard.size() - shard::kClaimEnding.size(), std::string::npos, ".h5");
    std::error_code error;
    if (fs::exists(run_dir / shard, error) || (found.quiet && is_untouched(claim, kQuiet_s))) remove(claim);
  }
  if (found.half_written.empty() && found.marks.empty() && found.clocks.empty() && !found.link) return;
  const RunProgress now = found.quiet ? RunProgress{true, true} : progress();
  if (now.all_came) {
    if (found.link) remove(*found.link);
    for (const fs::path& mark : found.marks) remove(mark);
  }
  if (now.all_ended) {
    for (const fs::path& file : found.half_written) remove(file);
    for (const fs::path& directory : found.clocks) remove_links(directory);
  }
}

void remove_abandoned(const fs::path& file) {
  const std::string file_name = file.filename().string();
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const pid_t writer = writer_of(entry->path().filename().string(), file_name);
    // What cannot be removed is somebody else's, and does no harm.
    if (writer != 0 && is_abandoned(entry->path(), writer)) ::unlink(entry->path().c_str());
  }
}

}  // namespace clusterprof::aggregator
