// SPDX-License-Identifier: BSD-3-Clause
// Tries in a scratch directory what recording asks of a run directory's file system (atomic links, locks,
// renames) and how long that takes. Runs in a child process, because a file system may hang.
#include "cli/doctor/directory_trial.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/unique_fd.hpp"
#include "cli/doctor/fact_line.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr std::size_t kTrialBytes = 64 << 10;

class Trial {
 public:
  explicit Trial(std::string directory) : directory_(std::move(directory)) {}

  // `work` returns 0 or an errno.
  void step(const std::string& operation, const std::function<int()>& work) {
    const auto start = std::chrono::steady_clock::now();
    const int error = work();
    const auto took = std::chrono::steady_clock::now() - start;
    if (took > slowest_) slowest_ = took, slowest_name_ = operation;
    if (error != 0) text_ += fact_line("failed", operation, std::strerror(error));
  }

  // An operation that must succeed once and fail the second time: this is how processes decide which was
  // first.
  void first_wins(const std::string& operation, const std::function<int()>& work) {
    step(operation, work);
    step(operation + ", second time", [&] {
      const int error = work();
      return error == EEXIST ? 0 : error == 0 ? EALREADY : error;
    });
  }

  [[nodiscard]] std::string path(const char* name) const { return directory_ + "/" + name; }

  [[nodiscard]] std::string text() const {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(slowest_).count();
    return text_ + fact_line("slowest", slowest_name_, std::to_string(us));
  }

 private:
  std::string directory_, text_, slowest_name_;
  std::chrono::steady_clock::duration slowest_{0};
};

int outcome(int result) { return result == 0 ? 0 : errno; }

void try_operations(Trial& trial) {
  trial.first_wins("mkdir", [&] { return outcome(::mkdir(trial.path("directory").c_str(), 0700)); });
  trial.first_wins("symlink", [&] { return outcome(::symlink("to-nowhere", trial.path("link").c_str())); });
  trial.step("readlink", [&] {
    char target[64];
    const ssize_t bytes = ::readlink(trial.path("link").c_str(), target, sizeof target);
    if (bytes < 0) return errno;
    return std::string(target, static_cast<std::size_t>(bytes)) == "to-nowhere" ? 0 : EIO;
  });
  trial.first_wins("exclusive create", [&] {
    const UniqueFd file(::open(trial.path("new").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return file ? 0 : errno;
  });
  trial.step("write", [&] {
    const UniqueFd file(::open(trial.path("new").c_str(), O_WRONLY | O_CLOEXEC));
    const std::string bytes(kTrialBytes, 'x');
    if (!file) return errno;
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0) return errno;
    return static_cast<std::size_t>(written) == bytes.size() ? 0 : ENOSPC;
  });
  trial.step("rename over another", [&] {
    const UniqueFd other(::open(trial.path("old").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!other) return errno;
    if (::rename(trial.path("new").c_str(), trial.path("old").c_str()) != 0) return errno;
    struct stat status {};
    if (::stat(trial.path("old").c_str(), &status) != 0) return errno;
    return status.st_size == static_cast<off_t>(kTrialBytes) ? 0 : EIO;
  });
  trial.step("read back", [&] {
    const UniqueFd file(::open(trial.path("old").c_str(), O_RDONLY | O_CLOEXEC));
    char byte = 0;
    if (!file) return errno;
    const ssize_t got = ::pread(file.get(), &byte, 1, kTrialBytes - 1);
    return got == 1 && byte == 'x' ? 0 : got < 0 ? errno : EIO;
  });
}

bool takes_locks(const Trial& trial) {
  const UniqueFd file(::open(trial.path("old").c_str(), O_RDWR | O_CLOEXEC));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

bool remove_all(const Trial& trial, const std::string& directory) {
  for (const char* name : {"link", "new", "old"}) ::unlink(trial.path(name).c_str());
  ::rmdir(trial.path("directory").c_str());
  return ::rmdir(directory.c_str()) == 0;
}

// Octal escapes of blanks in the mount table.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text.find_first_not_of("01234567", i + 1) >= i + 4) {
      plain += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

Mount mount_of(const std::string& mount_table, const std::string& path) {
  Mount best;
  std::size_t best_length = 0;
  for (std::size_t at = 0; at < mount_table.size();) {
    const std::size_t end = std::min(mount_table.find('\n', at), mount_table.size());
    std::vector<std::string> words;
    for (std::size_t word = at; word < end;) {
      const std::size_t blank = std::min(mount_table.find(' ', word), end);
      words.push_back(mount_table.substr(word, blank - word));
      word = blank + 1;
    }
    at = end + 1;
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || dash == words.end() || dash + 1 == words.end()) continue;
    const std::string place = unescaped(words[4]);
    const bool contains = place == "/" || (path.starts_with(place) &&
                                           (path.size() == place.size() || path[place.size()] == '/'));
    // The last file system mounted at a place hides the earlier ones.
    if (contains && place.size() >= best_length) {
      best = {*(dash + 1), place};
      best_length = place.size();
    }
  }
  return best;
}

std::string try_run_directory(const std::string& path) {
  char real[PATH_MAX];
  std::string text, place = path;
  while (::realpath(place.c_str(), real) == nullptr) {
    if (errno != ENOENT || place == "." || place == "/") return fact_line("problem", std::strerror(errno));
    // The directory does not exist yet; it will be made in the one above.
    if (text.empty()) text = fact_line("missing", path);
    while (place.ends_with('/')) place.pop_back();
    const std::size_t slash = place.rfind('/');
    place = slash == std::string::npos ? "." : slash == 0 ? "/" : place.substr(0, slash);
  }
  text += fact_line("resolved", real);
  std::ifstream table("/proc/self/mountinfo");
  const Mount mount = mount_of({std::istreambuf_iterator<char>(table), {}}, real);
  text += fact_line("mount", mount.type, mount.mounted_on);
  struct statvfs space {};
  if (::statvfs(real, &space) == 0) {
    text += fact_line("bytes", std::to_string(std::uint64_t{space.f_blocks} * space.f_frsize),
                      std::to_string(std::uint64_t{space.f_bavail} * space.f_frsize));
    text += fact_line("files", std::to_string(space.f_files), std::to_string(space.f_favail));
  }
  std::string directory = std::string(real) + "/.clusterprof-doctor-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return text + fact_line("problem", std::strerror(errno));
  Trial trial(directory);
  try_operations(trial);
  text += trial.text();
  if (takes_locks(trial)) text += fact_line("locks", "yes");
  if (!remove_all(trial, directory)) text += fact_line("left", directory);
  return text;
}

DirectoryFacts directory_facts_of(const std::string& text) {
  DirectoryFacts facts;
  const auto number = [](const std::string& digits) { return std::strtoull(digits.c_str(), nullptr, 10); };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string entry = text.substr(at, end - at);
    at = end + 1;
    const std::size_t first = entry.find('\t');
    const std::size_t second = first == std::string::npos ? first : entry.find('\t', first + 1);
    if (second == std::string::npos) continue;
    const std::string key = entry.substr(0, first), value = entry.substr(first + 1, second - first - 1);
    const std::string more = entry.substr(second + 1);
    if (key == "problem") facts.problem = value;
    if (key == "missing") facts.missing = value;
    if (key == "resolved") facts.resolved = value;
    if (key == "mount") facts.type = value, facts.mounted_on = more;
    if (key == "bytes") facts.space.total_bytes = number(value), facts.space.free_bytes = number(more);
    if (key == "files") facts.space.total_files = number(value), facts.space.free_files = number(more);
    if (key == "failed") facts.failed.emplace_back(value, more);
    if (key == "slowest") facts.slowest = value, facts.slowest_us = number(more);
    if (key == "locks") facts.locks = true;
    if (key == "left") facts.left_behind = true;
  }
  return facts;
}

}  // namespace clusterprof::cli::doctor
