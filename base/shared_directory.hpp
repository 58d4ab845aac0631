// SPDX-License-Identifier: BSD-3-Clause
// Safe work in directories where other users may write, such as /tmp. Used by the command-line programs and
// the collector for everything they create under a predictable name.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/directory.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof {

// For names that other users cannot guess, and so cannot plant beforehand.
inline std::string random_suffix() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random)) {
    timespec now = {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    random = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  }
  char text[48];
  ::snprintf(text, sizeof text, "%d.%016llx", ::getpid(), static_cast<unsigned long long>(random));
  return text;
}

// The owner that files get which this process creates in the directory. That is another user where a file
// server maps root to nobody.
inline uid_t owner_of_new_files(int directory) {
  const std::string name = ".owner-" + random_suffix();
  const UniqueFd file(
      ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return ::geteuid();
  const auto status = status_of(file.get());
  ::unlinkat(directory, name.c_str(), 0);
  return status ? status->st_uid : ::geteuid();
}

inline bool is_own_directory(int directory) {
  const auto status = status_of(directory);
  return status && (status->st_uid == ::geteuid() || status->st_uid == owner_of_new_files(directory));
}

// Removes the symbolic links in a directory of ours, and the directory itself if it is then empty.
inline void remove_link_directory(int parent, const std::string& name) {
  {
    const UniqueFd directory = open_directory(parent, name);
    if (!directory || !is_own_directory(directory.get())) return;
    remove_entries(directory.get(), [&](const std::string& entry) {
      const auto status = status_of(directory.get(), entry);
      return status && S_ISLNK(status->st_mode);
    });
  }
  (void)::unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

// status: of an entry of the directory. Root does not count as another user: it can change our files anyway.
inline bool is_owned_by_others(int directory, const struct stat& status) {
  return status.st_uid != ::geteuid() && status.st_uid != 0 && status.st_uid != owner_of_new_files(directory);
}

// Where everybody may write, another user can plant an entry under a name that we are going to use: a link to
// a file that we would overwrite, a pipe that they read, a directory that they own. This is the kernel's rule
// for links (fs.protected_symlinks), applied to every kind of entry and whether or not the kernel applies it.
inline bool is_untrusted(int directory, const struct stat& status) {
  const auto parent = status_of(directory);
  if (!parent) return true;
  const bool many_may_write = (parent->st_mode & S_IWOTH) != 0 ||
                              ((parent->st_mode & S_ISVTX) != 0 && (parent->st_mode & S_IWGRP) != 0);
  return many_may_write && status.st_uid != parent->st_uid && is_owned_by_others(directory, status);
}

// Nothing that this process creates from now on is world-writable, even where the umask is 0.
inline void deny_world_write() { ::umask(::umask(S_IWOTH) | S_IWOTH); }

// Nothing that this process creates from now on can be read or written by users who may not read or write
// `path`, a run directory or a file of a run.
inline void restrict_umask_like(const std::string& path) {
  struct stat status = {};
  mode_t denied = S_IRWXG | S_IRWXO;
  if (::stat(path.c_str(), &status) == 0) {
    if ((status.st_mode & S_IRGRP) != 0) denied &= ~static_cast<mode_t>(S_IRGRP | S_IXGRP);
    if ((status.st_mode & S_IWGRP) != 0) denied &= ~static_cast<mode_t>(S_IWGRP);
    if ((status.st_mode & S_IROTH) != 0) denied &= ~static_cast<mode_t>(S_IROTH | S_IXOTH);
  }
  ::umask(::umask(denied) | denied);
}

}  // namespace clusterprof
