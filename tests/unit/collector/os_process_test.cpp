// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/os_process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

extern "C" void* __libc_stack_end;

namespace clusterprof::collector {
namespace {

// A process of which this one is the parent; ends when it is told to. Not by fork, which takes long where the
// memory is AddressSanitizer's.
pid_t start_process() {
  const char* const arguments[] = {"sleep", "1000", nullptr};
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, "/bin/sleep", nullptr, nullptr, const_cast<char* const*>(arguments), environ),
            0);
  return child;
}

TEST(ExitWaitStatus, IsKnownWhileSomebodyWaitsForTheProcess) {
  const pid_t first = start_process();
  UniqueFd ended = open_process(first);
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  if (!ended || exit_wait_status(ended.get(), first) != SIGKILL)
    GTEST_SKIP() << "this kernel does not keep it (before Linux 6.15)";
  EXPECT_EQ(kept_wait_status(ended.get()), SIGKILL);

  for (int round = 0; round < 1500; ++round) {
    const pid_t child = start_process();
    const UniqueFd pidfd = open_process(child);
    std::thread parent([child] {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    });
    while (!process_ended(pidfd.get())) {
    }
    EXPECT_EQ(exit_wait_status(pidfd.get(), child), SIGKILL) << "round " << round;
    parent.join();
  }
}

TEST(InitialStack, IsWhereTheLoaderFoundItAndTellsProgramsApart) {
  EXPECT_EQ(initial_stack(getpid()), reinterpret_cast<std::uint64_t>(__libc_stack_end));
  const pid_t child = start_process();
  // The child may be on its way to its program for a moment: then it has none, or ours.
  std::uint64_t of_child = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    of_child = initial_stack(child);
  } while ((of_child == 0 || of_child == initial_stack(getpid())) &&
           std::chrono::steady_clock::now() < until);
  EXPECT_NE(of_child, 0u);
  EXPECT_NE(of_child, initial_stack(getpid()));
  kill(child, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(initial_stack(child), 0u) << "it has ended";
  waitpid(child, nullptr, 0);
  EXPECT_EQ(initial_stack(child), 0u) << "there is none";
}

}  // namespace
}  // namespace clusterprof::collector
