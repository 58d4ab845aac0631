// SPDX-License-Identifier: BSD-3-Clause
// Directories where others may write, such as /tmp.
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

// Nobody can prepare what has this in its name.
inline std::string unforeseeable() {
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

// Whose what we make in the directory is, which is not us where a file server does not trust root, say.
inline uid_t owner_of_ours(int directory) {
  const std::string name = ".owner-" + unforeseeable();
  const UniqueFd file(
      ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return ::geteuid();
  const auto status = status_of(file.get());
  ::unlinkat(directory, name.c_str(), 0);
  return status ? status->st_uid : ::geteuid();
}

inline bool is_ours(int directory) {
  const auto status = status_of(directory);
  return status && (status->st_uid == ::geteuid() || status->st_uid == owner_of_ours(directory));
}

// Removes the links in a directory of ours, and then the directory unless there was more in it.
inline void remove_own_links(int place, const std::string& name) {
  {
    const UniqueFd directory = open_directory(place, name);
    if (!directory || !is_ours(directory.get())) return;
    remove_entries(directory.get(), [&](const std::string& entry) {
      const auto status = status_of(directory.get(), entry);
      return status && S_ISLNK(status->st_mode);
    });
  }
  (void)::unlinkat(place, name.c_str(), AT_REMOVEDIR);
}

// status: of an entry of the directory. Root may do anything with our files as it is.
inline bool is_of_others(int directory, const struct stat& status) {
  return status.st_uid != ::geteuid() && status.st_uid != 0 && status.st_uid != owner_of_ours(directory);
}

// Where all may write, others can have prepared what has our name: a link to a file that is to be
// overwritten, a pipe that they read, a directory that stays theirs. The kernel's rule for links
// (fs.protected_symlinks), for everything, and also where the kernel is told not to care.
inline bool is_prepared_by_others(int directory, const struct stat& status) {
  const auto place = status_of(directory);
  if (!place) return true;
  const bool many_may_write =
      (place->st_mode & S_IWOTH) != 0 || ((place->st_mode & S_ISVTX) != 0 && (place->st_mode & S_IWGRP) != 0);
  return many_may_write && status.st_uid != place->st_uid && is_of_others(directory, status);
}

// What this process makes from now on is not for all to write, also where the umask is 0.
inline void deny_writing_to_all() { ::umask(::umask(S_IWOTH) | S_IWOTH); }

// Nor is it open to anybody to whom `place` is closed, a run directory or a file of a run.
inline void deny_to_whom_is_closed(const std::string& place) {
  struct stat status = {};
  mode_t denied = S_IRWXG | S_IRWXO;
  if (::stat(place.c_str(), &status) == 0) {
    if ((status.st_mode & S_IRGRP) != 0) denied &= ~static_cast<mode_t>(S_IRGRP | S_IXGRP);
    if ((status.st_mode & S_IWGRP) != 0) denied &= ~static_cast<mode_t>(S_IWGRP);
    if ((status.st_mode & S_IROTH) != 0) denied &= ~static_cast<mode_t>(S_IROTH | S_IXOTH);
  }
  ::umask(::umask(denied) | denied);
}

}  // namespace clusterprof
