// SPDX-License-Identifier: BSD-3-Clause
// Directories by descriptor: the file that was checked is the file that is used, even when somebody replaces
// the name in between. No function follows symbolic links.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"

namespace clusterprof {

// Opened with O_PATH, for openat() and the like. None, with errno, when `name` is not a directory (ENOTDIR,
// also for a link to one).
inline UniqueFd open_directory(int parent, const std::string& name) {
  return UniqueFd(::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// nullopt with errno.
inline std::optional<struct stat> status_of(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  return status;
}
inline std::optional<struct stat> status_of(int parent, const std::string& name) {
  struct stat status = {};
  if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return status;
}

inline bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The target of a symbolic link that was opened with O_PATH. nullopt with errno; EINVAL when it is no link.
inline std::optional<std::string> target_of(int link) {
  const auto status = status_of(link);
  if (!status) return std::nullopt;
  if (!S_ISLNK(status->st_mode)) {
    errno = EINVAL;
    return std::nullopt;
  }
  char target[4096];
  const ssize_t length = ::readlinkat(link, "", target, sizeof target);
  if (length < 0) return std::nullopt;
  return std::string(target, static_cast<std::size_t>(length));
}

// Target and status of the same symbolic link.
struct Link {
  std::string target;
  struct stat status;
};
// nullopt with errno; EINVAL when it is no link.
inline std::optional<Link> read_link(int parent, const std::string& name) {
  const UniqueFd fd(::openat(parent, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return std::nullopt;
  auto target = target_of(fd.get());
  const auto status = status_of(fd.get());
  if (!target || !status) return std::nullopt;
  return Link{std::move(*target), *status};
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// Calls visit(name) for each entry until it returns false. errno on failure, else 0.
template <typename Visit>
int for_each_entry(int directory, Visit&& visit) {
  UniqueFd fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno;
  const std::unique_ptr<DIR, CloseDirectory> entries(::fdopendir(fd.get()));
  if (!entries) return errno;
  [[maybe_unused]] const int owned_now = fd.release();
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && !visit(name)) break;
  }
  return 0;
}

// Names of the entries for which `wanted` is true; none when the directory cannot be read.
template <typename Wanted>
std::vector<std::string> entries_of(int directory, Wanted&& wanted) {
  std::vector<std::string> names;
  for_each_entry(directory, [&](const std::string& name) {
    if (wanted(name)) names.push_back(name);
    return true;
  });
  return names;
}

template <typename Wanted>
void remove_entries(int directory, Wanted&& wanted) {
  for (const std::string& name : entries_of(directory, wanted)) (void)::unlinkat(directory, name.c_str(), 0);
}

}  // namespace clusterprof
