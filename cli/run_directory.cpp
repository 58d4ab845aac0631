// SPDX-License-Identifier: BSD-3-Clause
#include "cli/run_directory.hpp"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/shared_place.hpp"
#include "formats/shard/run_files.hpp"

namespace clusterprof::cli {
namespace {

constexpr std::string_view kLinkPrefix = shard::kMeetingLinkBeginning;
constexpr std::string_view kMarkPrefix = shard::kMarkBeginning;
constexpr std::int64_t kClockSlack_s = 60;           // between this node and the file server
constexpr std::int64_t kAbandonedAfter_s = 10 * 60;  // meeting links of jobs that died early
constexpr mode_t kRunMode = 0700;                    // and so that of the files in it
constexpr mode_t kParentMode = 0775;                 // less the umask, which may be 0
constexpr int kTriesForFileSystem = 200;             // x 10 ms: until another node's link is visible here

Error failed(const std::string& path, int error) { return Error{path + ": " + std::strerror(error)}; }

// The target of a symbolic link; nullopt with errno when it cannot be read.
std::optional<std::string> read_link(const std::string& path) {
  char target[4096];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length < 0) return std::nullopt;
  return std::string(target, static_cast<std::size_t>(length));
}

// Left by an earlier job that had the same key by chance.
bool is_stale(const std::string& link, const Identity& identity) {
  struct stat status {};
  return identity.job_start_unix_s != 0 && ::lstat(link.c_str(), &status) == 0 &&
         status.st_mtim.tv_sec < identity.job_start_unix_s - kClockSlack_s;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// Calls visit(name) for each entry until it returns false. errno on failure, else 0.
template <typename Visit>
int for_each_entry(const std::string& path, Visit&& visit) {
  const Directory directory(::opendir(path.c_str()));
  if (!directory) return errno;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !visit(std::string(name))) break;
  }
  return 0;
}

// mkdir -p
Result<void> make_directories(const std::string& path) {
  if (path.empty() || ::mkdir(path.c_str(), kParentMode) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT) return failed(path, errno);
  const std::size_t slash = path.find_last_not_of('/') == std::string::npos
                                ? std::string::npos
                                : path.rfind('/', path.find_last_not_of('/'));
  if (slash != std::string::npos && slash > 0) {
    if (const auto made = make_directories(path.substr(0, slash)); !made) return made;
  }
  if (::mkdir(path.c_str(), kParentMode) == 0 || errno == EEXIST) return {};
  return failed(path, errno);
}

std::string job_link(const std::string& path) { return path + "/" + std::string(shard::kJobLink); }

// For those who look for the run by its job. Not being found that way is no reason not to record.
void name_job(const std::string& path, const Identity& identity) {
  if (identity.batch_name.empty()) return;
  const bool differ = !identity.batch_id.empty() && identity.batch_id != identity.batch_name;
  const std::string names = identity.batch_name + (differ ? " " + identity.batch_id : "");
  [[maybe_unused]] const int ignored = ::symlink(names.c_str(), job_link(path).c_str());
}

enum class Claim { kMadeByUs, kMadeByPeer, kOtherRun, kOtherFiles, kOtherUser };

// Makes `path` the run directory of the key, or finds out whose it is.
Result<Claim> claim(const std::string& path, const Identity& identity) {
  const std::string owner_link = path + "/.run";
  bool made = false;
  for (int attempt = 0; attempt < kTriesForFileSystem; ++attempt) {
    made = ::mkdir(path.c_str(), kRunMode) == 0;
    if (!made && errno != EEXIST) return failed(path, errno);
    if (is_prepared_by_others(path) || is_prepared_by_others(owner_link)) return Claim::kOtherUser;
    if (const auto owner = read_link(owner_link)) {
      const bool ours = *owner == identity.key && !is_stale(owner_link, identity);
      return ours ? Claim::kMadeByPeer : Claim::kOtherRun;
    }
    if (errno == ENOTDIR) return failed(path, ENOTDIR);
    if (errno == EINVAL) return Claim::kOtherFiles;  // .run is no link
    if (errno != ENOENT) return failed(owner_link, errno);

    bool empty = true;
    const int error = for_each_entry(path, [&](const std::string&) { return empty = false; });
    if (error == ENOENT) continue;  // a peer took its own back
    if (error != 0) return failed(path, error);
    if (!empty) {
      if (read_link(owner_link)) continue;  // a peer made it meanwhile
      return Claim::kOtherFiles;
    }
    if (::symlink(identity.key.c_str(), owner_link.c_str()) == 0) {
      name_job(path, identity);
      return Claim::kMadeByUs;
    }
    if (errno != EEXIST && errno != ENOENT) {
      const Error why = failed(path, errno);
      if (made) ::rmdir(path.c_str());
      return why;
    }
  }
  return failed(path, ESTALE);
}

// Takes back what claim() made, if nobody has used it.
void unclaim(const std::string& path) {
  bool used = false;
  for_each_entry(
      path, [&](const std::string& name) { return !(used = name != ".run" && name != shard::kJobLink); });
  if (used) return;
  ::unlink(job_link(path).c_str());
  ::unlink((path + "/.run").c_str());
  ::rmdir(path.c_str());
}

Result<std::string> absolute(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  if (!resolved) return failed(path, errno);
  return std::string(resolved.get());
}

// Whether there can be a directory of that name at all.
bool names_no_directory(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return !S_ISDIR(status.st_mode);
  return errno == ENOTDIR || errno == ENAMETOOLONG || errno == ELOOP;
}

Result<RunDirectory> use_given(const std::string& output, const Identity& identity, bool& refused) {
  std::string path = output;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (const std::size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0) {
    if (const auto made = make_directories(path.substr(0, slash)); !made) {
      refused = names_no_directory(path);
      return made.error();
    }
  }
  const auto claimed = claim(path, identity);
  if (!claimed) {
    refused = names_no_directory(path);
    return claimed.error();
  }
  refused = claimed.value() != Claim::kMadeByUs && claimed.value() != Claim::kMadeByPeer;
  switch (claimed.value()) {
    case Claim::kOtherRun:
      return Error{output + ": a run is there already; choose another -o"};
    case Claim::kOtherFiles:
      return Error{output + ": there are other files in it; choose another -o"};
    case Claim::kOtherUser:
      return Error{output + ": belongs to another user, where everybody may write; choose another -o"};
    case Claim::kMadeByUs:
    case Claim::kMadeByPeer:
      break;
  }
  auto resolved = absolute(path);
  if (!resolved) return resolved.error();
  return RunDirectory{std::move(resolved).value(), "", claimed.value() == Claim::kMadeByUs};
}

std::string local_time() {
  const time_t now = ::time(nullptr);
  tm parts{};
  ::localtime_r(&now, &parts);
  char text[32];
  ::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

struct Claimed {
  std::string name;
  bool made_by_us = false;
};

// The first of BASE, BASE-2, BASE-3 ... that is free or ours already.
Result<Claimed> claim_free_name(const std::string& parent, const std::string& base,
                                const Identity& identity) {
  for (int suffix = 1; suffix < 10000; ++suffix) {
    const std::string name = suffix == 1 ? base : base + '-' + std::to_string(suffix);
    const auto claimed = claim(parent + "/" + name, identity);
    if (!claimed) {
      // A file of that name is as taken as a directory.
      struct stat status {};
      if (::stat((parent + "/" + name).c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) continue;
      return claimed.error();
    }
    if (claimed.value() == Claim::kMadeByUs) return Claimed{name, true};
    if (claimed.value() == Claim::kMadeByPeer) return Claimed{name, false};
  }
  return failed(parent + "/" + base, EEXIST);
}

// Our published link is there: sweep up those of jobs that did not live to remove theirs.
void remove_abandoned_links(const std::string& parent) {
  const std::int64_t now = ::time(nullptr);
  int entries = 0;
  for_each_entry(parent, [&](const std::string& name) {
    if (++entries > 20000) return false;
    if (name.compare(0, kLinkPrefix.size(), kLinkPrefix) != 0) return true;
    const std::string path = parent + "/" + name;
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid == ::geteuid() &&
        status.st_mtim.tv_sec < now - kAbandonedAfter_s) {
      ::unlink(path.c_str());
    }
    return true;
  });
}

bool belongs_to(const std::string& path, const Identity& identity) {
  for (int attempt = 0; attempt < kTriesForFileSystem; ++attempt) {
    if (const auto owner = read_link(path + "/.run")) return *owner == identity.key;
    if (::access(path.c_str(), F_OK) != 0 && attempt > kTriesForFileSystem / 4) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

Result<RunDirectory> meet(const std::string& parent, const std::string& base, const Identity& identity) {
  // A stale link is left alone (another rank may be about to read its successor) and passed by.
  for (int generation = 1; generation < 100; ++generation) {
    std::string link = parent + "/" + std::string(kLinkPrefix) + identity.key;
    if (generation > 1) link.append(1, '-').append(std::to_string(generation));
    while (true) {
      if (const auto name = read_link(link)) {
        const std::string path = parent + "/" + *name;
        if (is_stale(link, identity) || is_prepared_by_others(link) || !belongs_to(path, identity)) break;
        return RunDirectory{path, link, false};
      }
      if (errno != ENOENT) return failed(link, errno);
      const auto claimed = claim_free_name(parent, base, identity);
      if (!claimed) return claimed.error();
      const auto& [name, made_by_us] = claimed.value();
      if (::symlink(name.c_str(), link.c_str()) == 0) {
        remove_abandoned_links(parent);
        return RunDirectory{parent + "/" + name, link, made_by_us};
      }
      if (errno != EEXIST) return failed(link, errno);
      if (made_by_us && read_link(link).value_or(name) != name) unclaim(parent + "/" + name);
    }
  }
  return failed(parent, EEXIST);
}

}  // namespace

Result<RunDirectory> agree_on_run_directory(const RunDirectoryRequest& request, const Identity& identity,
                                            bool* refused) {
  if (!request.output.empty()) {
    bool ignored = false;
    return use_given(request.output, identity, refused == nullptr ? ignored : *refused);
  }

  const std::string root = request.root.empty() ? "." : request.root;
  if (const auto made = make_directories(root); !made) return made.error();
  const auto parent = absolute(root);
  if (!parent) return parent.error();
  const std::string base = "clusterprof-" + request.command_name + "-" +
                           (identity.batch_name.empty() ? local_time() : identity.batch_name);
  if (identity.has_peers) return meet(parent.value(), base, identity);

  const auto claimed = claim_free_name(parent.value(), base, identity);
  if (!claimed) return claimed.error();
  return RunDirectory{parent.value() + "/" + claimed.value().name, "", true};
}

void remove_meeting_link(const RunDirectory& directory) {
  if (directory.meeting_link.empty()) return;
  ::unlink(directory.meeting_link.c_str());
  std::vector<std::string> marks;
  for_each_entry(directory.path, [&](const std::string& name) {
    if (name.compare(0, kMarkPrefix.size(), kMarkPrefix) == 0) marks.push_back(directory.path + "/" + name);
    return true;
  });
  for (const std::string& mark : marks) ::unlink(mark.c_str());
}

void leave_meeting(const RunDirectory& directory, const std::string& node, int ranks, int all_ranks) {
  if (directory.meeting_link.empty() || ranks < 1 || all_ranks < ranks) return;
  const std::string stem = directory.path + "/" + std::string(kMarkPrefix) + node;
  const std::string text = std::to_string(ranks);
  for (int number = 1; number < 1000; ++number) {
    const std::string mark = number == 1 ? stem : stem + '.' + std::to_string(number);
    if (::symlink(text.c_str(), mark.c_str()) == 0) break;
    if (errno != EEXIST) return;
  }
  long left = 0;
  for_each_entry(directory.path, [&](const std::string& name) {
    if (name.compare(0, kMarkPrefix.size(), kMarkPrefix) == 0) {
      left += std::atol(read_link(directory.path + "/" + name).value_or("0").c_str());
    }
    return true;
  });
  // Whoever merged the shards may have seen that all are there, and have taken the link and marks away.
  if (left >= all_ranks || !read_link(directory.meeting_link)) remove_meeting_link(directory);
}

std::string clock_meeting_place(const RunDirectory& directory, int world) {
  return directory.path + "/" + std::string(shard::kClocksBeginning) +
         (world == 0 ? "" : "-" + std::to_string(world));
}

void remove_clock_meeting(const RunDirectory& directory, int world) {
  const std::string place = clock_meeting_place(directory, world);
  std::vector<std::string> left;
  for_each_entry(place, [&](const std::string& name) {
    left.push_back(place + "/" + name);
    return true;
  });
  for (const std::string& link : left) ::unlink(link.c_str());
  ::rmdir(place.c_str());
}

void withdraw_run_directory(const RunDirectory& directory) {
  if (!directory.created || !directory.meeting_link.empty()) return;
  unclaim(directory.path);
}

void remove_shards(const RunDirectory& directory, const std::string& node) {
  if (!directory.created || !directory.meeting_link.empty()) return;
  const std::string shard = "node-" + node + ".";
  std::vector<std::string> ours;
  for_each_entry(directory.path, [&](const std::string& name) {
    const std::size_t at = name[0] == '.' ? 1 : 0;
    if (name.compare(at, shard.size(), shard) == 0) ours.push_back(directory.path + "/" + name);
    return true;
  });
  for (const std::string& file : ours) ::unlink(file.c_str());
}

}  // namespace clusterprof::cli
