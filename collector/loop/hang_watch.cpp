// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/hang_watch.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <thread>
#include <utility>

namespace clusterprof::collector {

bool HangSchedule::is_due(std::chrono::nanoseconds still, Clock::time_point now) {
  if (still < after_) {
    wait_ = kFirstRetry;
    next_ = {};
    return false;
  }
  if (now < next_) return false;
  next_ = now + std::chrono::duration_cast<Clock::duration>(wait_);
  wait_ = std::min(2 * wait_, std::max<std::chrono::nanoseconds>(kFirstRetry, after_ / 2));
  return true;
}

struct BesideState {
  std::atomic<bool> runs{false};
};

bool BesideProgram::start(std::vector<std::string> words) {
  try {
    if (!state_) state_ = std::make_shared<BesideState>();
    if (state_->runs.exchange(true)) return false;
    // All files but stdin, stdout and stderr are closed by exec.
    const auto run = [state = state_, words = std::move(words)]() mutable {
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      pid_t pid = 0;
      if (posix_spawn(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ) == 0)
        while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
      state->runs.store(false);
    };
    std::thread(run).detach();
    return true;
  } catch (const std::exception&) {  // no thread, or no memory
    if (state_) state_->runs.store(false);
    return false;
  }
}

}  // namespace clusterprof::collector
