// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/write_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/directory.hpp"
#include "base/path_resolver.hpp"
#include "base/shared_directory.hpp"
#include "base/unique_fd.hpp"
#include "base/write_all.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

std::string temporary_of(const std::string& name) { return "." + name + "." + random_suffix() + ".tmp"; }

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

bool is_standard_output(const struct stat& of) {
  const auto status = status_of(STDOUT_FILENO);
  return status && is_same_file(*status, of);
}

UniqueFd create(int directory, const std::string& name) {
  return UniqueFd(
      ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0664));
}

Error failed(const fs::path& path) {
  return Error{path.string() + ": cannot be written: " + std::strerror(errno)};
}

}  // namespace

UniqueFd open_resolved(const ResolvedPath& resolved) {
  const int how = O_WRONLY | O_NOCTTY | O_CLOEXEC | (resolved.unnamed ? 0 : O_NOFOLLOW);
  UniqueFd fd(::openat(resolved.parent.fd.get(), resolved.name.c_str(), how));
  const auto status = fd ? status_of(fd.get()) : std::nullopt;
  if (!status) return {};
  if (!is_same_file(*status, resolved.status)) {
    errno = ESTALE;
    return {};
  }
  if (S_ISREG(status->st_mode) && ::ftruncate(fd.get(), 0) != 0) return {};
  return fd;
}

Result<void> write_file(const fs::path& path, std::string_view content,
                        const std::vector<std::string>& quoted) {
  const fs::path temporary = path.parent_path() / temporary_of(path.filename().string());
  UniqueFd fd = create(AT_FDCWD, temporary.string());
  if (!fd) return failed(path);  // also when it exists: then another process made it
  const bool written = restrict_readers(fd.get(), quoted) && write_all(fd.get(), content);
  const int close_error = written && ::close(fd.release()) != 0 ? errno : 0;
  if (close_error != 0) errno = close_error;
  if (written && close_error == 0 && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  Error error = failed(path);
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
  PathResolver resolver(path_.string());
  if (resolver.found_untrusted()) {
    error_ = Error{path_.string() + ": cannot be written: another user has made " +
                   (resolver.failed_part() == path_.string() ? "it" : resolver.failed_part()) +
                   ", where everybody may write"};
    return;
  }
  if (resolver.error() != 0) {
    errno = resolver.error();
    fail();
    return;
  }
  ResolvedPath& resolved = resolver.result();
  const bool regular = resolved.file && S_ISREG(resolved.status.st_mode);
  if (regular && is_standard_output(resolved.status)) {
    // "/dev/stdout" into a file: there may be more in it, and it may have no name.
    fd_ = UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  } else if (resolved.file && (!regular || resolved.unnamed)) {
    fd_ = open_resolved(resolved);
  } else {
    directory_ = std::move(resolved.parent.fd);
    name_ = resolved.name;
    temporary_ = temporary_of(name_);
    fd_ = create(directory_.get(), temporary_);
    // An existing file keeps its mode.
    if (fd_ && regular)
      (void)::fchmod(fd_.get(), resolved.status.st_mode & 0777);
    else if (fd_ && !restrict_readers(fd_.get(), quoted))
      fail();
  }
  if (fd_) return;
  temporary_.clear();  // also when it exists: then another process made it
  fail();
}

NamedFileWriter::~NamedFileWriter() {
  if (!temporary_.empty()) ::unlinkat(directory_.get(), temporary_.c_str(), 0);
}

void NamedFileWriter::fail() { error_ = cli::failed(path_); }

void NamedFileWriter::operator()(std::string_view piece) {
  if (!error_ && !write_all(fd_.get(), piece)) fail();
}

Result<void> NamedFileWriter::finish() {
  if (!error_ && ::close(fd_.release()) != 0) fail();
  if (!error_ && !temporary_.empty() &&
      ::renameat(directory_.get(), temporary_.c_str(), directory_.get(), name_.c_str()) != 0)
    fail();
  if (error_) return *error_;
  temporary_.clear();
  return {};
}

}  // namespace clusterprof::cli
