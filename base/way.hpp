// SPDX-License-Identifier: BSD-3-Clause
// Where a path leads to, by way of what others have not prepared (shared_place.hpp).
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
#include "base/shared_place.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof {

// A directory to find something in, or to make it.
struct Place {
  UniqueFd fd;          // not for reading
  bool theirs = false;  // prepared by others: what is in it is so, too, if it is not ours

  [[nodiscard]] bool is_prepared_by_others(const struct stat& entry) const {
    return clusterprof::is_prepared_by_others(fd.get(), entry) || (theirs && is_of_others(fd.get(), entry));
  }
};

struct WayEnd {
  Place place;              // that the end is in
  std::string name;         // of the end therein, "." where it is the place itself; no link
  UniqueFd end;             // not for reading; none: there is nothing of that name
  struct stat status = {};  // of the end
  bool unnamed = false;     // `name` is a link of the kernel's own to the end, as those in /proc/self/fd
};

// Follows a path as the kernel does, part by part, and looks whose each of them is. Only the current
// directory may be one that others have prepared: there the user wants to work.
class Way {
 public:
  // make_mode: of directories that are missing on the way, which are made; 0: that is an error.
  explicit Way(const std::string& path, mode_t make_mode = 0) : Way(path, make_mode, true) {}

  [[nodiscard]] int error() const { return error_; }  // errno; 0: none
  // That is the error.
  [[nodiscard]] bool prepared_by_others() const { return error_ != 0 && prepared_by_others_; }
  [[nodiscard]] const std::string& part() const { return part_; }  // of the path, which the error is about
  [[nodiscard]] WayEnd& end() { return found_; }                   // when there is no error

 private:
  static constexpr int kMostLinks = 40;  // as the kernel
  static constexpr int kMostTries = 200;

  Way(const std::string& path, mode_t make_mode, bool here_may_be_theirs)
      : make_mode_(make_mode), part_(path) {
    if (path.empty()) {
      error_ = ENOENT;
      return;
    }
    knows_here_ = here_may_be_theirs && ::stat(".", &here_) == 0;
    begin_at(path);
    while (error_ == 0 && !arrived_ && !rest_.empty()) step();
    if (error_ != 0 || arrived_) return;
    found_.name = ".";
    found_.end = open_directory(found_.place.fd.get(), ".");
    if (!found_.end || ::fstat(found_.end.get(), &found_.status) != 0) fail(errno);
    if (prepared_by_others_) error_ = EPERM;
  }

  static bool is_here_theirs() {
    const std::unique_ptr<char, decltype(&::free)> here(::getcwd(nullptr, 0), &::free);
    return here && *here == '/' && Way(here.get(), 0, false).prepared_by_others();
  }

  void fail(int error) { error_ = prepared_by_others_ ? EPERM : error; }

  // What is to come, with "." in place of a slash at the end: that is a directory.
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
    if (absolute || !found_.place.fd) {
      shown_ = absolute ? "/" : "";
      found_.place.fd = UniqueFd(::open(absolute ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
      found_.place.theirs = !absolute && is_here_theirs();
      if (!found_.place.fd) return fail(errno);
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
    if (!prepared_by_others_) part_ = part;
    const int place = found_.place.fd.get();
    if (name == "..") {
      if (prepared_by_others_) return fail(EPERM);
      rest_.pop_front();
      found_.place.fd = UniqueFd(::openat(place, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
      shown_ = part;
      if (!found_.place.fd) fail(errno);
      return;
    }
    // As a directory first, which lets the kernel mount it if need be.
    UniqueFd next = open_directory(place, name);
    if (!next && (errno == ENOTDIR || errno == ELOOP))
      next = UniqueFd(::openat(place, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return miss(name, errno);
    const auto status = status_of(next.get());
    if (!status) return fail(errno);
    rest_.pop_front();
    prepared_by_others_ = prepared_by_others_ || found_.place.is_prepared_by_others(*status);
    if (S_ISLNK(status->st_mode)) return follow(name, next.get());
    // Straight down to it, that is: not where others send us.
    const bool is_here = knows_here_ && is_same_file(*status, here_);
    const bool theirs = is_here && prepared_by_others_;
    if (is_here) prepared_by_others_ = false;
    if (S_ISDIR(status->st_mode) && !rest_.empty()) {
      found_.place = {std::move(next), theirs};
      shown_ = part;
      return;
    }
    arrive(name, std::move(next), *status);
  }

  void miss(const std::string& name, int error) {
    const bool last = rest_.size() == 1;
    if (error != ENOENT || prepared_by_others_ || (!last && make_mode_ == 0)) return fail(error);
    if (last) {
      arrived_ = true;
      found_.name = name;
      return;
    }
    // Others may be faster: whose it is shows when it is entered.
    if (++tries_ > kMostTries) return fail(error);
    if (::mkdirat(found_.place.fd.get(), name.c_str(), make_mode_) != 0 && errno != EEXIST) fail(errno);
  }

  void follow(const std::string& name, int link) {
    if (++links_ > kMostLinks || prepared_by_others_) return fail(ELOOP);
    const auto target = target_of(link);
    if (!target) return fail(errno);
    struct statfs system = {};
    if (::fstatfs(link, &system) == 0 && system.f_type == PROC_SUPER_MAGIC) {
      // What it says need not be what it means.
      UniqueFd meant(::openat(found_.place.fd.get(), name.c_str(), O_PATH | O_CLOEXEC));
      struct stat status = {}, said = {};
      if (!meant || ::fstat(meant.get(), &status) != 0) return fail(errno);
      if (::fstatat(found_.place.fd.get(), target->c_str(), &said, 0) != 0 || !is_same_file(status, said)) {
        if (S_ISDIR(status.st_mode)) {
          found_.place = {std::move(meant)};
          return;
        }
        found_.unnamed = true;
        return arrive(name, std::move(meant), status);
      }
    }
    begin_at(*target);
  }

  void arrive(const std::string& name, UniqueFd end, const struct stat& status) {
    if (prepared_by_others_) return fail(EPERM);
    if (!rest_.empty()) return fail(ENOTDIR);
    arrived_ = true;
    found_.name = name;
    found_.end = std::move(end);
    found_.status = status;
  }

  mode_t make_mode_;
  std::string part_, shown_;
  std::deque<std::string> rest_;
  struct stat here_ = {};
  bool knows_here_ = false, prepared_by_others_ = false, arrived_ = false;
  int error_ = 0, links_ = 0, tries_ = 0;
  WayEnd found_;
};

}  // namespace clusterprof
