// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/write_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/shared_place.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

// A name nobody can prepare, in the directory of `path`.
fs::path temporary_of(const fs::path& path) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random))
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  char suffix[48];
  std::snprintf(suffix, sizeof suffix, ".%d.%016llx.tmp", ::getpid(),
                static_cast<unsigned long long>(random));
  return path.parent_path() / ("." + path.filename().string() + suffix);
}

// Bits of others, and of those in `group`, that this file grants for reading and the directories above it for
// getting there.
mode_t readers_of(const std::string& file, gid_t group) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) return 0;
  mode_t bits = S_IRGRP | S_IROTH;
  for (fs::path at = real; bits != 0; at = at.parent_path()) {
    struct stat status {};
    if (::stat(at.c_str(), &status) != 0) return 0;
    const bool is_file = at == real;
    const bool others = (status.st_mode & (is_file ? S_IROTH : S_IXOTH)) != 0;
    const bool ours = status.st_gid == group ? (status.st_mode & (is_file ? S_IRGRP : S_IXGRP)) != 0 : others;
    if (!others) bits &= ~static_cast<mode_t>(S_IROTH);
    if (!ours) bits &= ~static_cast<mode_t>(S_IRGRP);
    if (at == at.root_path()) break;
  }
  return bits;
}

// Before anything is in it.
bool restrict_readers(int fd, const std::vector<std::string>& quoted) {
  if (quoted.empty()) return true;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return false;
  mode_t bits = S_IRGRP | S_IROTH;
  for (const std::string& file : quoted) bits &= readers_of(file, status.st_gid);
  if ((bits & S_IRGRP) != 0) bits |= S_IWGRP;
  const mode_t mode = status.st_mode & (S_IRUSR | S_IWUSR | bits);
  return (status.st_mode & 0777) == mode || ::fchmod(fd, mode) == 0;
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool is_standard_output(const struct stat& of) {
  struct stat status {};
  return ::fstat(STDOUT_FILENO, &status) == 0 && status.st_dev == of.st_dev && status.st_ino == of.st_ino;
}

Error failed(const fs::path& path) {
  return Error{path.string() + ": cannot be written: " + std::strerror(errno)};
}

}  // namespace

Result<void> write_file(const fs::path& path, std::string_view content,
                        const std::vector<std::string>& quoted) {
  const fs::path temporary = temporary_of(path);
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0664));
  if (!fd) return failed(path);  // also when it exists: then it is not ours to remove
  const bool written = restrict_readers(fd.get(), quoted) && write_all(fd.get(), content);
  const int close_error = written && ::close(fd.release()) != 0 ? errno : 0;
  if (close_error != 0) errno = close_error;
  if (written && close_error == 0 && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const Error error = failed(path);
  ::unlink(temporary.c_str());
  return error;
}

Result<void> write_named_file(const fs::path& path, std::string_view content,
                              const std::vector<std::string>& quoted) {
  NamedFileWriter writer(path, quoted);
  writer(content);
  return writer.finish();
}

NamedFileWriter::NamedFileWriter(fs::path path, const std::vector<std::string>& quoted)
    : path_(std::move(path)) {
  if (is_prepared_by_others(path_.string())) {
    error_ =
        Error{path_.string() + ": cannot be written: another user has made it, where everybody may write"};
    return;
  }
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0, regular = exists && S_ISREG(status.st_mode);
  std::error_code error;
  const fs::path meant = regular ? fs::canonical(path_, error) : path_;
  if (regular && is_standard_output(status)) {
    // "/dev/stdout" into a file: there may be more in it, and it may have no name.
    fd_ = UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  } else if (exists && (!regular || error)) {
    fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | (regular ? O_TRUNC : 0) | O_NOCTTY | O_CLOEXEC));
  } else {
    path_ = meant;
    temporary_ = temporary_of(path_);
    fd_ = UniqueFd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0664));
    // Who may read it is decided already.
    if (fd_ && exists)
      (void)::fchmod(fd_.get(), status.st_mode & 0777);
    else if (fd_ && !restrict_readers(fd_.get(), quoted))
      fail();
  }
  if (fd_) return;
  temporary_.clear();  // also when it exists: then it is not ours to remove
  fail();
}

NamedFileWriter::~NamedFileWriter() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NamedFileWriter::fail() { error_ = cli::failed(path_); }

void NamedFileWriter::operator()(std::string_view piece) {
  if (!error_ && !write_all(fd_.get(), piece)) fail();
}

Result<void> NamedFileWriter::finish() {
  if (!error_ && ::close(fd_.release()) != 0) fail();
  if (!error_ && !temporary_.empty() && ::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  if (error_) return *error_;
  temporary_.clear();
  return {};
}

}  // namespace clusterprof::cli
