// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/job_step.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"
#include "cli/message.hpp"

namespace clusterprof::cli::attach {
namespace {

constexpr std::string_view kStepLine = "clusterprof-attached ";

volatile sig_atomic_t g_step_interrupted = 0;

[[noreturn]] void become_step(const std::vector<std::string>& command, int output) {
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

int status_of_step(pid_t step) {
  int status = 0;
  while (::waitpid(step, &status, 0) < 0)
    if (errno != EINTR) return kExitFailed;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed;
}

}  // namespace

std::string line_of_step(int attached) { return std::string(kStepLine) + std::to_string(attached) + "\n"; }

int begin_step(const std::vector<std::string>& command, int nodes) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    say(std::string("pipe: ") + std::strerror(errno));
    return kExitFailed;
  }
  const UniqueFd from(pipe[0]);
  UniqueFd to(pipe[1]);
  const pid_t step = ::fork();
  if (step < 0) {
    say(std::string("fork: ") + std::strerror(errno));
    return kExitFailed;
  }
  if (step == 0) become_step(command, to.get());
  to.reset();

  struct sigaction action {};
  action.sa_handler = [](int) { g_step_interrupted = 1; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  StepSaid said;
  bool told = false;
  std::array<char, 1024> part{};
  while (said.nodes < nodes) {
    const ssize_t got = ::read(from.get(), part.data(), part.size());
    if (g_step_interrupted != 0 && !told) told = ::kill(step, SIGTERM) == 0;
    if (got > 0) said.read({part.data(), static_cast<std::size_t>(got)});
    if (got == 0 || (got < 0 && errno != EINTR)) return status_of_step(step);
  }
  return said.attached > 0 ? 0 : 1;
}

}  // namespace clusterprof::cli::attach
