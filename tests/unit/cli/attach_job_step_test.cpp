// SPDX-License-Identifier: BSD-3-Clause
// With a shell in the place of srun, and a child that does nothing in the place of a collector.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cli/attach/job_step.hpp"
#include "cli/attach/wait_for_end.hpp"
#include "cli/message.hpp"

namespace clusterprof::cli::attach {
namespace {

struct Begun {
  int status;
  std::string said;
};

Begun run_step(const std::string& script, int nodes) {
  testing::internal::CaptureStderr();
  const int status = begin_step({"sh", "-c", script}, nodes);
  return {status, testing::internal::GetCapturedStderr()};
}

std::string task(int attached) {
  const std::string line = line_of_step(attached);
  return "echo " + line.substr(0, line.size() - 1) + " >&2;";
}

TEST(JobStep, GoesOnWhenAllNodesHaveSaidWhatTheyDid) {
  const auto start = std::chrono::steady_clock::now();
  const Begun begun = run_step("echo from $$;" + task(0) + "echo and >&2;" + task(2) + "exec sleep 60", 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(begun.status, 0);
  ASSERT_TRUE(begun.said.starts_with("from ")) << begun.said;
  const pid_t step = std::stoi(begun.said.substr(5));
  EXPECT_EQ(begun.said, "from " + std::to_string(step) + "\nand\n");
  EXPECT_EQ(::kill(step, SIGKILL), 0) << "it goes on";
}

TEST(JobStep, WhereNothingWasAttachedTo) { EXPECT_EQ(run_step(task(0) + task(0) + "exec sleep 1", 2).status, 1); }

TEST(JobStep, ThatEndsBefore) {
  const Begun begun = run_step(task(1) + "echo no such job >&2; exit 3", 2);
  EXPECT_EQ(begun.status, 3);
  EXPECT_EQ(begun.said, "no such job\n");
  EXPECT_EQ(run_step("kill -KILL $$", 1).status, kExitFailed);
}

TEST(JobStep, ThatDoesNotBegin) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(begin_step({"/no/such/srun"}, 1), kExitFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "clusterprof: /no/such/srun: No such file or directory\n");
}

// A task that was killed has written no line, and srun goes on.
TEST(JobStep, DoesNotWaitForANodeThatNeverAnswers) {
  for (const int attached : {0, 2}) {
    testing::internal::CaptureStderr();
    const int status = begin_step({"sh", "-c", "echo $$;" + task(attached) + "exec sleep 60"}, 3,
                                  std::chrono::milliseconds(200));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(status, attached > 0 ? 0 : 1);
    const pid_t step = std::stoi(said);
    EXPECT_EQ(said, std::to_string(step) + "\nclusterprof: 2 of 3 nodes have not answered\n");
    EXPECT_EQ(::kill(step, SIGKILL), 0) << "it goes on";
  }
}

TEST(JobStep, WaitsForTheFirstNodeForAsLongAsItTakes) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(
      begin_step({"sh", "-c", "sleep 0.5;" + task(1) + "exec sleep 1"}, 1, std::chrono::milliseconds(1)), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Whoever runs the tests may ignore it.
class WithDefaultAction {
 public:
  explicit WithDefaultAction(int number) : number_(number), before_(::signal(number, SIG_DFL)) {}
  ~WithDefaultAction() { ::signal(number_, before_); }
  WithDefaultAction(const WithDefaultAction&) = delete;
  WithDefaultAction& operator=(const WithDefaultAction&) = delete;

 private:
  int number_;
  sighandler_t before_;
};

void block(int signal) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

TEST(JobStep, AnInterruptEndsIt) {
  const std::string started = testing::TempDir() + "clusterprof-step-" + std::to_string(::getpid());
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const WithDefaultAction action(number);
    std::filesystem::remove(started);
    std::thread sender([&] {
      block(number);
      for (int i = 0; i < 60'000 && !std::filesystem::exists(started); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::kill(::getpid(), number);
    });
    // All nodes have attached by then: it ends all the same.
    const Begun begun = run_step("trap '" + task(2) + " exit 7' TERM; echo started >&2; : >'" + started +
                                     "'; while :; do sleep 0.1; done",
                                 1);
    sender.join();
    EXPECT_EQ(begun.status, 7) << number;
    EXPECT_EQ(begun.said, "started\n") << number;
  }
  std::filesystem::remove(started);
}

// One that waits already when the step begins, and so comes before the step can do anything about it.
TEST(JobStep, AnInterruptIsNotLostWhileItBegins) {
  const WithDefaultAction action(SIGINT);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  block(SIGINT);
  ::kill(::getpid(), SIGINT);
  const Begun begun = run_step("exec sleep 60", 1);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(begun.status, kExitFailed) << "SIGTERM has ended it";
  EXPECT_EQ(begun.said, "");
}

pid_t idle_child() {
  const pid_t child = ::fork();
  if (child != 0) return child;
  for (;;) ::pause();
}

// Also where the collector cannot be asked at first.
TEST(WaitForEnd, AnInterruptThatWaitsAlreadyAsksUntilItIsHeard) {
  const WithDefaultAction action(SIGTERM);
  const std::string asked = testing::TempDir() + "clusterprof-asked-" + std::to_string(::getpid());
  std::filesystem::remove(asked);
  const pid_t collector = idle_child();
  ASSERT_GT(collector, 0);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  block(SIGTERM);
  ::kill(::getpid(), SIGTERM);
  const bool has_ended = wait_for_end(collector, [&] {
    if (std::filesystem::create_directory(asked)) return false;
    return ::kill(collector, SIGKILL) == 0;
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_TRUE(has_ended);
  EXPECT_TRUE(std::filesystem::remove(asked));
}

TEST(WaitForEnd, ALaterInterruptEndsTheWaitingForAFileServer) {
  const WithDefaultAction action(SIGINT);
  const pid_t collector = idle_child();
  ASSERT_GT(collector, 0);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  block(SIGINT);
  std::atomic<bool> is_over = false;
  std::thread sender([&] {
    while (!is_over) {
      ::kill(::getpid(), SIGINT);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  const auto start = std::chrono::steady_clock::now();
  const bool has_ended = wait_for_end(collector, [collector] {
    while (::kill(collector, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return false;
  });
  const auto lasted = std::chrono::steady_clock::now() - start;
  is_over = true;
  sender.join();
  const timespec now = {};
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ::sigtimedwait(&interrupt, nullptr, &now);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_FALSE(has_ended);
  EXPECT_GE(lasted, std::chrono::seconds(1)) << "the first ones were the same";
  ::kill(collector, SIGKILL);
  ::waitpid(collector, nullptr, 0);
}

TEST(JobStep, WhatIsIgnoredEndsNothing) {
  const sighandler_t before = ::signal(SIGHUP, SIG_IGN);
  const Begun begun = run_step("kill -HUP " + std::to_string(::getpid()) + "; sleep 0.2; exit 5", 1);
  ::signal(SIGHUP, before);
  EXPECT_EQ(begun.status, 5);
}

// Its own signals are not blocked.
TEST(JobStep, TakesItsSignalsItself) {
  const WithDefaultAction action(SIGHUP);
  const Begun begun = run_step("trap 'exit 9' HUP; kill -HUP $$; exec sleep 60", 1);
  EXPECT_EQ(begun.status, 9);
}

}  // namespace
}  // namespace clusterprof::cli::attach
