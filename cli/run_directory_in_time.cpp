// SPDX-License-Identifier: BSD-3-Clause
#include "cli/run_directory_in_time.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <thread>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"

namespace clusterprof::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTimeToDie{100};
constexpr char kAgreed = 'a', kFailed = 'f';

// What the child tells: how it went, then texts that end with a NUL, which no path contains.
std::string as_text(const Result<RunDirectory>& result) {
  if (!result) return kFailed + result.error().message;
  const RunDirectory& directory = result.value();
  std::string text = std::string(1, kAgreed) + (directory.created ? '1' : '0');
  text.append(reinterpret_cast<const char*>(directory.secret.data()), directory.secret.size());
  return text + directory.path + '\0' + directory.rendezvous_link + '\0' + directory.taken;
}

Result<RunDirectory> from_text(std::string_view text) {
  RunDirectory directory;
  const std::size_t before = 2 + directory.secret.size();
  const std::size_t end = text.find('\0', std::min(before, text.size()));
  if (text.starts_with(kFailed)) return Error{std::string(text.substr(1))};
  if (!text.starts_with(kAgreed) || end == std::string_view::npos)
    return Error{"the process that looked for the run directory ended early"};
  directory.created = text[1] == '1';
  text.copy(reinterpret_cast<char*>(directory.secret.data()), directory.secret.size(), 2);
  directory.path = text.substr(before, end - before);
  const std::size_t end_of_link = text.find('\0', end + 1);
  if (end_of_link == std::string_view::npos)
    return Error{"the process that looked for the run directory ended early"};
  directory.rendezvous_link = text.substr(end + 1, end_of_link - end - 1);
  directory.taken = text.substr(end_of_link + 1);
  return directory;
}

// Reads until the other end is closed. False at the deadline.
bool read_until(int fd, Clock::time_point deadline, std::string& text) {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd end{fd, POLLIN, 0};
    if (::poll(&end, 1, static_cast<int>(left.count())) <= 0) continue;
    char part[4096];
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got == 0) return true;
    if (got > 0) text.append(part, static_cast<std::size_t>(got));
  }
}

[[noreturn]] void tell(int fd, const std::function<Result<RunDirectory>()>& agree) {
  // Nobody is to wait for this process to close a file.
  const int done = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  for (const int other : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(other);
  for (int other = 3; other < done; ++other) ::close(other);
  ::closefrom(done + 1);
  std::string text;
  try {
    text = as_text(agree());
  } catch (const std::exception& error) {
    text = kFailed + std::string(error.what());
  }
  (void)write_all(done, text);
  ::_exit(0);
}

}  // namespace

Result<RunDirectory> in_time(milliseconds patience, const std::string& place,
                             const std::function<Result<RunDirectory>()>& agree) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return agree();
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const long child = ::syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) tell(write_end.get(), agree);
  if (child < 0) return agree();
  write_end.reset();
  std::string text;
  const auto pid = static_cast<pid_t>(child);
  if (read_until(read_end.get(), Clock::now() + patience, text)) {
    while (::waitpid(pid, nullptr, __WALL) < 0 && errno == EINTR) {
    }
    return from_text(text);
  }
  ::kill(pid, SIGKILL);
  const auto end = Clock::now() + kTimeToDie;
  while (::waitpid(pid, nullptr, __WALL | WNOHANG) == 0 && Clock::now() < end)
    std::this_thread::sleep_for(milliseconds(1));
  return Error{place + ": the file system does not answer"};
}

}  // namespace clusterprof::cli
