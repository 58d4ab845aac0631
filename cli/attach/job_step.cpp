// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/job_step.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"
#include "cli/attach/held_interrupts.hpp"
#include "cli/message.hpp"

namespace clusterprof::cli::attach {
namespace {

constexpr std::string_view kStepLine = "clusterprof-attached ";

using StepClock = std::chrono::steady_clock;

[[noreturn]] void become_step(const std::vector<std::string>& command, int output,
                              HeldInterrupts& interrupts) {
  interrupts.release();
  ::setsid();
  ::signal(SIGPIPE, SIG_IGN);  // nobody reads what it says later
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  say(command[0] + ": " + std::strerror(errno));
  ::_exit(kExitFailed);
}

struct StepSaid {
  int nodes = 0, attached = 0;
  std::string unfinished;  // line

  void read(std::string_view text) {
    unfinished += text;
    for (std::size_t end = 0; (end = unfinished.find('\n')) != std::string::npos; unfinished.erase(0, end + 1)) {
      const std::string_view line = std::string_view(unfinished).substr(0, end);
      int count = 0;
      if (line.starts_with(kStepLine) &&
          std::from_chars(line.data() + kStepLine.size(), line.data() + line.size(), count).ec == std::errc()) {
        ++nodes;
        attached += count;
      } else {
        (void)write_all(STDERR_FILENO, unfinished.substr(0, end + 1));
      }
    }
  }
};

// It has said all that it says, and has perhaps not ended yet.
int status_of_step(pid_t step, HeldInterrupts& interrupts) {
  constexpr int kLookMs = 20;
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(step, &status, WNOHANG);
    if (ended == step) return WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed;
    if (ended < 0 && errno != EINTR) return kExitFailed;
    pollfd wait{interrupts.descriptor(), POLLIN, 0};
    (void)::poll(&wait, 1, kLookMs);
    if (interrupts.take()) ::kill(step, SIGTERM);
  }
}

}  // namespace

std::string line_of_step(int attached) { return std::string(kStepLine) + std::to_string(attached) + "\n"; }

int begin_step(const std::vector<std::string>& command, int nodes, std::chrono::milliseconds patience) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    say(std::string("pipe: ") + std::strerror(errno));
    return kExitFailed;
  }
  const UniqueFd from(pipe[0]);
  UniqueFd to(pipe[1]);
  HeldInterrupts interrupts;
  if (interrupts.descriptor() < 0) {
    say(std::string("signalfd: ") + std::strerror(errno));
    return kExitFailed;
  }
  const pid_t step = ::fork();
  if (step < 0) {
    say(std::string("fork: ") + std::strerror(errno));
    return kExitFailed;
  }
  if (step == 0) become_step(command, to.get(), interrupts);
  to.reset();

  StepSaid said;
  bool is_ending = false;
  std::optional<StepClock::time_point> end;  // of our patience
  const auto is_over = [&] { return end && StepClock::now() >= *end; };
  for (;;) {
    const bool is_done = !is_ending && (said.nodes >= nodes || is_over());
    int wait_ms = -1;
    if (is_done) {
      wait_ms = 0;
    } else if (end && !is_ending) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - StepClock::now());
      wait_ms = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    }
    std::array<pollfd, 2> waits{{{interrupts.descriptor(), POLLIN, 0}, {from.get(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), wait_ms) < 0 && errno != EINTR) {
      say(std::string("poll: ") + std::strerror(errno));
      return kExitFailed;
    }
    if (interrupts.take()) {
      is_ending = true;
      ::kill(step, SIGTERM);
      continue;
    }
    if (is_done) break;
    if (waits[1].revents == 0) continue;
    std::array<char, 1024> part{};
    const ssize_t got = ::read(from.get(), part.data(), part.size());
    if (got > 0) said.read({part.data(), static_cast<std::size_t>(got)});
    if (got == 0 || (got < 0 && errno != EINTR)) return status_of_step(step, interrupts);
    if (said.nodes > 0 && !end) end = StepClock::now() + patience;
  }
  if (said.nodes < nodes)
    say(std::to_string(nodes - said.nodes) + " of " + std::to_string(nodes) + " nodes have not answered");
  return said.attached > 0 ? 0 : 1;
}

}  // namespace clusterprof::cli::attach
