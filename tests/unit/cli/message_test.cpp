// SPDX-License-Identifier: BSD-3-Clause
#include "cli/message.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

namespace clusterprof::cli {
namespace {

bool is_pending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

// Where stderr is a pipe whose reader is gone. Ends with 0 when all is as before.
[[noreturn]] void say_to_nobody(bool pending_before) {
  int ends[2];
  if (pipe(ends) != 0) std::_Exit(1);
  close(ends[0]);
  dup2(ends[1], STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  sigset_t blocked;
  if (pending_before) {
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    raise(SIGPIPE);
  }
  say("nobody hears this");
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  const bool as_before =
      is_pending() == pending_before && (sigismember(&blocked, SIGPIPE) == 1) == pending_before;
  std::_Exit(as_before ? 0 : 2);
}

TEST(Message, ToAClosedStderrIsDropped) {
  EXPECT_EXIT(say_to_nobody(false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(say_to_nobody(true), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace clusterprof::cli
