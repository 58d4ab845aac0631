// SPDX-License-Identifier: BSD-3-Clause
// Resolves a path one component at a time and refuses components that other users may have planted in a
// directory where everybody may write (shared_directory.hpp), such as a symbolic link in /tmp. For everything
// that is written under a name which the user gave: run directories, reports, exports.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "base/directory.hpp"
#include "base/shared_directory.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof {

// A directory in which an entry is looked up or created.
struct ParentDirectory {
  UniqueFd fd;             // O_PATH
  bool untrusted = false;  // planted by other users: so is everything in it that is not ours

  [[nodiscard]] bool is_untrusted(const struct stat& entry) const {
    return clusterprof::is_untrusted(fd.get(), entry) || (untrusted && is_owned_by_others(fd.get(), entry));
  }
};

struct ResolvedPath {
  ParentDirectory parent;
  std::string name;         // in the parent, never a symbolic link; ".": the parent itself
  UniqueFd file;            // O_PATH; none: no file of that name exists
  struct stat status = {};  // of the file
  bool unnamed = false;     // `name` is a magic link of the kernel's to the file, as in /proc/self/fd
};

// Follows a path as the kernel does and checks the owner of each component. Only the current directory may be
// untrusted: the user has chosen to work there.
class PathResolver {
 public:
  // make_mode: creates missing parent directories with this mode; 0: a missing parent is an error.
  explicit PathResolver(const std::string& path, mode_t make_mode = 0)
      : PathResolver(path, make_mode, true) {}

  [[nodiscard]] int error() const { return error_; }  // errno; 0: none
  // The error is that a component is untrusted.
  [[nodiscard]] bool found_untrusted() const { return error_ != 0 && found_untrusted_; }
  [[nodiscard]] const std::string& failed_part() const { return part_; }  // of the path, up to the error
  [[nodiscard]] ResolvedPath& result() { return found_; }                 // when there is no error

 private:
  static constexpr int kMaxLinks = 40;  // as in the kernel
  static constexpr int kMaxTries = 200;

  PathResolver(const std::string& path, mode_t make_mode, bool accept_untrusted_cwd)
      : make_mode_(make_mode), part_(path) {
    if (path.empty()) {
      error_ = ENOENT;
      return;
    }
    has_cwd_ = accept_untrusted_cwd && ::stat(".", &cwd_) == 0;
    begin_at(path);
    while (error_ == 0 && !done_ && !rest_.empty()) step();
    if (error_ != 0 || done_) return;
    found_.name = ".";
    found_.file = open_directory(found_.parent.fd.get(), ".");
    if (!found_.file || ::fstat(found_.file.get(), &found_.status) != 0) fail(errno);
    if (found_untrusted_) error_ = EPERM;
  }

  static bool is_current_directory_untrusted() {
    const std::unique_ptr<char, decltype(&::free)> cwd(::getcwd(nullptr, 0), &::free);
    return cwd && *cwd == '/' && PathResolver(cwd.get(), 0, false).found_untrusted();
  }

  void fail(int error) { error_ = found_untrusted_ ? EPERM : error; }

  // Adds components that are still to be followed. A slash at the end becomes ".", as it asks for a
  // directory.
  void prepend(const std::string& text) {
    std::deque<std::string> parts;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('/', at), text.size());
      if (end > at) parts.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    if (text.ends_with('/')) parts.emplace_back(".");
    rest_.insert(rest_.begin(), parts.begin(), parts.end());
  }

  void begin_at(const std::string& path) {
    const bool absolute = path.starts_with('/');
    if (absolute || !found_.parent.fd) {
      shown_ = absolute ? "/" : "";
      found_.parent.fd = UniqueFd(::open(absolute ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
      found_.parent.untrusted = !absolute && is_current_directory_untrusted();
      if (!found_.parent.fd) return fail(errno);
    }
    prepend(path);
  }

  [[nodiscard]] std::string with(const std::string& name) const {
    return shown_ + (shown_.empty() || shown_.ends_with('/') ? "" : "/") + name;
  }

  void step() {
    const std::string name = rest_.front();
    if (name == ".") {
      rest_.pop_front();
      return;
    }
    const std::string part = with(name);
    if (!found_untrusted_) part_ = part;
    const int parent = found_.parent.fd.get();
    if (name == "..") {
      if (found_untrusted_) return fail(EPERM);
      rest_.pop_front();
      found_.parent.fd = UniqueFd(::openat(parent, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
      shown_ = part;
      if (!found_.parent.fd) fail(errno);
      return;
    }
    // As a directory first: this triggers an automount.
    UniqueFd next = open_directory(parent, name);
    if (!next && (errno == ENOTDIR || errno == ELOOP))
      next = UniqueFd(::openat(parent, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return create_missing(name, errno);
    const auto status = status_of(next.get());
    if (!status) return fail(errno);
    rest_.pop_front();
    found_untrusted_ = found_untrusted_ || found_.parent.is_untrusted(*status);
    if (S_ISLNK(status->st_mode)) return follow_link(name, next.get());
    // Only when reached without following a link of other users.
    const bool is_cwd = has_cwd_ && is_same_file(*status, cwd_);
    const bool untrusted = is_cwd && found_untrusted_;
    if (is_cwd) found_untrusted_ = false;
    if (S_ISDIR(status->st_mode) && !rest_.empty()) {
      found_.parent = {std::move(next), untrusted};
      shown_ = part;
      return;
    }
    finish(name, std::move(next), *status);
  }

  void create_missing(const std::string& name, int error) {
    const bool last = rest_.size() == 1;
    if (error != ENOENT || found_untrusted_ || (!last && make_mode_ == 0)) return fail(error);
    if (last) {
      done_ = true;
      found_.name = name;
      return;
    }
    // Another process may create it first; its owner is checked when it is entered.
    if (++tries_ > kMaxTries) return fail(error);
    if (::mkdirat(found_.parent.fd.get(), name.c_str(), make_mode_) != 0 && errno != EEXIST) fail(errno);
  }

  void follow_link(const std::string& name, int link) {
    if (++links_ > kMaxLinks || found_untrusted_) return fail(ELOOP);
    const auto target = target_of(link);
    if (!target) return fail(errno);
    struct statfs system = {};
    if (::fstatfs(link, &system) == 0 && system.f_type == PROC_SUPER_MAGIC) {
      // The text of a magic link need not be the path of the file it refers to.
      UniqueFd real(::openat(found_.parent.fd.get(), name.c_str(), O_PATH | O_CLOEXEC));
      struct stat status = {}, named = {};
      if (!real || ::fstat(real.get(), &status) != 0) return fail(errno);
      if (::fstatat(found_.parent.fd.get(), target->c_str(), &named, 0) != 0 ||
          !is_same_file(status, named)) {
        if (S_ISDIR(status.st_mode)) {
          found_.parent = {std::move(real)};
          return;
        }
        found_.unnamed = true;
        return finish(name, std::move(real), status);
      }
    }
    begin_at(*target);
  }

  void finish(const std::string& name, UniqueFd file, const struct stat& status) {
    if (found_untrusted_) return fail(EPERM);
    if (!rest_.empty()) return fail(ENOTDIR);
    done_ = true;
    found_.name = name;
    found_.file = std::move(file);
    found_.status = status;
  }

  mode_t make_mode_;
  std::string part_, shown_;
  std::deque<std::string> rest_;
  struct stat cwd_ = {};
  bool has_cwd_ = false, found_untrusted_ = false, done_ = false;
  int error_ = 0, links_ = 0, tries_ = 0;
  ResolvedPath found_;
};

}  // namespace clusterprof
