// SPDX-License-Identifier: BSD-3-Clause
// Our directories in the run directory, where other users may have write permission. Nothing here allocates
// on the heap.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <utility>

namespace clusterprof::mpi_wrap {

class OpenFile {
 public:
  explicit OpenFile(int file) noexcept : file_(file) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { set(-1); }
  void set(int file) noexcept {
    if (file_ >= 0) close(file_);
    file_ = file;
  }
  int release() noexcept { return std::exchange(file_, -1); }
  bool close_checked() noexcept { return close(release()) == 0; }
  int get() const noexcept { return file_; }
  explicit operator bool() const noexcept { return file_ >= 0; }

 private:
  int file_;
};

// Opens a directory, unless it is a symbolic link or belongs to another user, who may have write permission
// in its parent. The descriptor can only be used to look up names in it (O_PATH).
class OwnedDirectory {
 public:
  enum class IfMissing { kNothing, kMake };
  explicit OwnedDirectory(const char* path, IfMissing if_missing = IfMissing::kNothing) noexcept
      : directory_(open(path, kOpenFlags)) {
    if (!directory_ && errno == ENOENT && if_missing == IfMissing::kMake &&
        (mkdir(path, 0700) == 0 || errno == EEXIST)) {
      directory_.set(open(path, kOpenFlags));
    }
    if (directory_ && !is_ours()) directory_.set(-1);
  }
  explicit operator bool() const noexcept { return static_cast<bool>(directory_); }
  int get() const noexcept { return directory_.get(); }
  int release() noexcept { return directory_.release(); }

 private:
  static constexpr int kOpenFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

  bool is_ours() const noexcept {
    struct stat status {};
    if (fstat(get(), &status) != 0) return false;
    if (status.st_uid == geteuid()) return true;
    // A file server may record what a user creates under another owner.
    char name[64];
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(name, sizeof(name), ".owner-%d.%lld.%ld", static_cast<int>(getpid()),
             static_cast<long long>(now.tv_sec), now.tv_nsec);
    const OpenFile probe(openat(get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    struct stat made {};
    const bool ours = probe && fstat(probe.get(), &made) == 0 && made.st_uid == status.st_uid;
    if (probe) unlinkat(get(), name, 0);
    return ours;
  }

  OpenFile directory_;
};

}  // namespace clusterprof::mpi_wrap
