// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/child_process.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string_view>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"

namespace clusterprof::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;
// Of doctor --site each node says 14 kB.
constexpr std::size_t kMaxOutputBytes = 64 << 20;
constexpr std::chrono::milliseconds kTimeToDie{200};

struct Pipe {
  UniqueFd read_end, write_end;
};

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// In the child: makes its own process group, ends it with its parent, and detaches terminal and output.
void settle(pid_t parent, int out, int err) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int nowhere = ::open("/dev/null", O_RDWR);
  if (nowhere < 0) ::_exit(1);
  ::dup2(nowhere, STDIN_FILENO);
  ::dup2(out >= 0 ? out : nowhere, STDOUT_FILENO);
  ::dup2(err >= 0 ? err : nowhere, STDERR_FILENO);
  if (nowhere > STDERR_FILENO) ::close(nowhere);
}

struct Source {
  int fd;
  std::string* text;
};

// Reads until all sources have ended. Returns false at the deadline. A source that writes too much counts as
// ended.
bool read_until(Clock::time_point deadline, std::vector<Source> sources) {
  while (!sources.empty()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    std::vector<pollfd> waiting;
    for (const Source& source : sources) waiting.push_back({source.fd, POLLIN, 0});
    const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()) + 1);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    for (std::size_t i = sources.size(); i-- > 0;) {
      if (waiting[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = ::read(sources[i].fd, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got > 0) sources[i].text->append(buffer, static_cast<std::size_t>(got));
      if (got <= 0 || sources[i].text->size() > kMaxOutputBytes)
        sources.erase(sources.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return true;
}

// Kills the rest of the group once its leader has ended, or at the deadline. Returns the leader's status;
// nothing when it had to be killed. A process that cannot be killed, because a file system does not answer,
// is left to the kernel.
std::optional<int> end_group(Clock::time_point deadline, pid_t pid) {
  // As long as nobody waits for the leader, no other process gets its number.
  const auto has_ended = [pid](Clock::time_point until) {
    while (true) {
      siginfo_t info = {};
      if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == pid)
        return true;
      if (Clock::now() >= until) return false;
      ::poll(nullptr, 0, 1);
    }
  };
  const bool in_time = has_ended(deadline);
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);  // should it not have come to make the group
  int status = 0;
  if ((!in_time && !has_ended(Clock::now() + kTimeToDie)) || ::waitpid(pid, &status, 0) != pid) return {};
  return in_time ? std::optional(status) : std::nullopt;
}

}  // namespace

std::optional<std::string> run_in_child(std::chrono::milliseconds patience,
                                        const std::function<std::string()>& work, bool& timed_out) {
  timed_out = false;
  std::optional<Pipe> pipe = make_pipe();
  if (!pipe) return {};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return {};
  if (pid == 0) {
    settle(parent, -1, -1);
    try {
      (void)write_all(pipe->write_end.get(), work() + "\n.\n");
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  pipe->write_end.reset();
  std::string text;
  const Clock::time_point deadline = Clock::now() + patience;
  timed_out = !read_until(deadline, {{pipe->read_end.get(), &text}});
  end_group(timed_out ? Clock::now() : Clock::now() + kTimeToDie, pid);
  constexpr std::string_view kEnd = "\n.\n";
  if (timed_out || !std::string_view(text).ends_with(kEnd)) return {};
  text.resize(text.size() - kEnd.size());
  return text;
}

CommandOutcome run_command(const std::vector<std::string>& command, std::chrono::milliseconds patience) {
  CommandOutcome outcome;
  if (command.empty()) return outcome;
  std::optional<Pipe> out = make_pipe(), err = make_pipe(), failure = make_pipe();
  if (!out || !err || !failure) return outcome;
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const Clock::time_point deadline = Clock::now() + patience;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return outcome;
  if (pid == 0) {
    settle(parent, out->write_end.get(), err->write_end.get());
    ::execv(arguments[0], arguments.data());
    (void)write_all(failure->write_end.get(), "x");
    ::_exit(127);
  }
  out->write_end.reset();
  err->write_end.reset();
  failure->write_end.reset();
  std::string failed;
  const bool ended = read_until(deadline, {{out->read_end.get(), &outcome.out},
                                           {err->read_end.get(), &outcome.err},
                                           {failure->read_end.get(), &failed}});
  const std::optional<int> status = end_group(ended ? deadline : Clock::now(), pid);
  if (!status) {
    outcome.end = CommandOutcome::End::kTimedOut;
  } else if (!failed.empty()) {
    outcome.end = CommandOutcome::End::kNotStarted;
  } else if (WIFSIGNALED(*status)) {
    outcome.end = CommandOutcome::End::kSignalled;
    outcome.status = WTERMSIG(*status);
  } else {
    outcome.end = CommandOutcome::End::kExited;
    outcome.status = WEXITSTATUS(*status);
  }
  return outcome;
}

}  // namespace clusterprof::cli::doctor
