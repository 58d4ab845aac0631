// SPDX-License-Identifier: BSD-3-Clause
#include "cli/run_directory_in_time.hpp"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

namespace clusterprof::cli {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{60'000};

TEST(RunDirectoryInTime, ReturnsWhatWasAgreedOn) {
  RunDirectory agreed{"/scratch/a run", "/scratch/.clusterprof-1.0", true, {}};
  for (std::size_t i = 0; i < agreed.secret.size(); ++i) agreed.secret[i] = static_cast<std::uint8_t>(i * 17);
  const auto got = in_time(kLong, "/scratch", [&] { return Result<RunDirectory>(agreed); });
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got.value().path, agreed.path);
  EXPECT_EQ(got.value().rendezvous_link, agreed.rendezvous_link);
  EXPECT_EQ(got.value().created, true);
  EXPECT_EQ(got.value().secret, agreed.secret);

  agreed = {"/scratch/" + std::string(4000, 'x'), "", false, {}};
  const auto other = in_time(kLong, "/scratch", [&] { return Result<RunDirectory>(agreed); });
  ASSERT_TRUE(other);
  EXPECT_EQ(other.value().path, agreed.path);
  EXPECT_EQ(other.value().rendezvous_link, "");
  EXPECT_EQ(other.value().created, false);
}

TEST(RunDirectoryInTime, ReturnsTheError) {
  const auto got =
      in_time(kLong, "/x", [] { return Result<RunDirectory>(Error{"/x: Read-only file system"}); });
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, "/x: Read-only file system");
  const auto thrown =
      in_time(kLong, "/x", []() -> Result<RunDirectory> { throw std::runtime_error("no memory"); });
  EXPECT_EQ(thrown.error().message, "no memory");
  const auto killed = in_time(kLong, "/x", []() -> Result<RunDirectory> { ::_exit(3); });
  EXPECT_NE(killed.error().message.find("ended early"), std::string::npos);
}

TEST(RunDirectoryInTime, GivesUpAndLeavesNoChild) {
  const auto begun = std::chrono::steady_clock::now();
  const auto got = in_time(milliseconds(50), "/hangs", []() -> Result<RunDirectory> {
    while (true) ::pause();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kLong / 2);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, "/hangs: the file system does not answer");
  EXPECT_EQ(::waitpid(-1, nullptr, __WALL | WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// Otherwise whoever waits for a file of this process to be closed would wait for the file server.
TEST(RunDirectoryInTime, TheChildHasNoneOfTheFiles) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const auto got = in_time(kLong, "", [&]() -> Result<RunDirectory> {
    const bool has = ::write(ends[1], "x", 1) == 1 || ::read(STDIN_FILENO, nullptr, 0) == 0;
    return Error{has ? "has files" : "has none"};
  });
  EXPECT_EQ(got.error().message, "has none");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace clusterprof::cli
