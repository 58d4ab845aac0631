// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/abandoned_files.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <ctime>
#include <string>
#include <string_view>
#include <system_error>

#include "base/unique_fd.hpp"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t kUntouched_s = 600, kUntouchedWithoutLocks_s = 86'400;

// 0 when the name is not that of a temporary file of `file_name`.
pid_t writer_of(std::string_view name, std::string_view file_name) {
  if (!name.starts_with('.') || !name.ends_with(".tmp")) return 0;
  name = name.substr(1);
  if (!name.starts_with(file_name)) return 0;
  name = name.substr(file_name.size());
  if (!name.starts_with('.')) return 0;
  pid_t pid = 0;
  const auto [rest, error] = std::from_chars(name.data() + 1, name.data() + name.size(), pid);
  return error == std::errc{} && pid > 0 && *rest == '.' ? pid : 0;
}

bool is_abandoned(const fs::path& path, pid_t writer) {
  if (::kill(writer, 0) == 0 || errno != ESRCH) return false;
  // NFS locks exclusively what can be written alone.
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return false;
  std::time_t untouched_s = kUntouched_s;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    untouched_s = kUntouchedWithoutLocks_s;
  }
  struct stat status {};
  return ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         std::time(nullptr) - status.st_mtim.tv_sec >= untouched_s;
}

}  // namespace

void remove_abandoned(const fs::path& file) {
  const std::string file_name = file.filename().string();
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const pid_t writer = writer_of(entry->path().filename().string(), file_name);
    // What cannot be removed is somebody else's, and does no harm.
    if (writer != 0 && is_abandoned(entry->path(), writer)) ::unlink(entry->path().c_str());
  }
}

}  // namespace clusterprof::aggregator
