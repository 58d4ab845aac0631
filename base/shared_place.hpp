// SPDX-License-Identifier: BSD-3-Clause
// Directories where others may write, such as /tmp.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace clusterprof {

// Whose what we make in `directory` is, which is not us where a file server does not trust root, say.
inline uid_t owner_of_ours(const std::string& directory) {
  std::string name = directory + "/.owner-XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0) return ::geteuid();
  struct stat status = {};
  const uid_t owner = ::fstat(file, &status) == 0 ? status.st_uid : ::geteuid();
  ::close(file);
  ::unlink(name.c_str());
  return owner;
}

// Where all may write, others can have prepared what has our name: a link to a file that is to be
// overwritten, a pipe that they read, a directory that stays theirs. The kernel's rule for links
// (fs.protected_symlinks), for everything, and also where the kernel is told not to care.
inline bool is_prepared_by_others(const std::string& path) {
  struct stat status = {}, place = {};
  if (::lstat(path.c_str(), &status) != 0 || status.st_uid == ::geteuid()) return false;
  const std::size_t slash = path.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  if (::stat(directory.c_str(), &place) != 0 || status.st_uid == place.st_uid) return false;
  const bool many_may_write =
      (place.st_mode & S_IWOTH) != 0 || ((place.st_mode & S_ISVTX) != 0 && (place.st_mode & S_IWGRP) != 0);
  return many_may_write && status.st_uid != owner_of_ours(directory);
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
