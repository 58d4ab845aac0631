// SPDX-License-Identifier: BSD-3-Clause
// What a failed process leaves behind (wire::LastWords), against what it has written itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/integration/agent/fake_collector.hpp"

namespace clusterprof::agent_test {
namespace {

const std::string kProgram = CLUSTERPROF_TEST_LAST_WORDS;

struct Written {
  Outcome outcome;
  std::string file;  // what was on descriptor 2
};

class LastWords : public testing::Test {
 protected:
  ~LastWords() override {
    unlink(with_.c_str());
    unlink(bare_.c_str());
  }

  // Runs the program with and without the agent: nothing but our data may differ.
  Written fail(const std::string& how, const std::vector<std::string>& environment = {}) {
    const Outcome bare = run_bare({kProgram, how, bare_});
    Written written{run({kProgram, how, with_}, environment), text_of(with_)};
    EXPECT_EQ(written.outcome.wait_status, bare.wait_status) << how;
    EXPECT_EQ(written.outcome.output, bare.output) << how;
    // A message of assert() names the program only, so both are equal.
    EXPECT_EQ(written.file, text_of(bare_)) << how;
    return written;
  }

  static const wire::LastWords& words(const Written& written) {
    return written.outcome.processes.at(0).segment->last_words;
  }

  static std::string tail(const wire::LastWords& words) {
    const std::uint64_t all = words.stderr_bytes.load();
    const std::uint64_t kept = std::min<std::uint64_t>(all, wire::kStderrTailBytes);
    std::string text;
    for (std::uint64_t i = all - kept; i < all; ++i) text += words.stderr_tail[i % wire::kStderrTailBytes];
    return text;
  }

  static std::string end_of(const std::string& text) {
    return text.substr(text.size() - std::min<std::size_t>(text.size(), wire::kStderrTailBytes));
  }

 private:
  static std::string text_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const std::string with_ = testing::TempDir() + "last_words_with_" + std::to_string(getpid());
  const std::string bare_ = testing::TempDir() + "last_words_bare_" + std::to_string(getpid());
};

TEST_F(LastWords, HoldTheEndOfWhatWasWrittenToDescriptor2) {
  for (const char* const how : {"much", "block"}) {
    const Written written = fail(how);
    ASSERT_TRUE(WIFEXITED(written.outcome.wait_status)) << how;
    EXPECT_GT(written.file.size(), 2u * wire::kStderrTailBytes) << how;
    EXPECT_EQ(words(written).stderr_bytes.load(), written.file.size()) << how;
    EXPECT_EQ(tail(words(written)), end_of(written.file)) << how;
  }
}

TEST_F(LastWords, HoldNothingOfItWhereItIsNotWanted) {
  const Written written = fail("assert", {"CLUSTERPROF_NO_STDERR=1"});
  EXPECT_EQ(words(written).stderr_bytes.load(), 0u);
  EXPECT_EQ(words(written).stderr_tail[0], 0);
  EXPECT_NE(words(written).abort_message_bytes.load(), 0u);  // it is not the program's stderr
}

TEST_F(LastWords, AreNotReadWhereAnotherThreadHasUnmappedThem) {
  const Written written = fail("gone");
  ASSERT_TRUE(WIFEXITED(written.outcome.wait_status));
  EXPECT_EQ(WEXITSTATUS(written.outcome.wait_status), 5);
  EXPECT_NE(words(written).stderr_bytes.load(), 0u);
}

TEST_F(LastWords, HoldTheMessageOfAssert) {
  const Written written = fail("assert");
  const wire::LastWords& last = words(written);
  const std::string message(last.abort_message, last.abort_message_bytes.load());
  EXPECT_NE(message.find("Assertion `zero != 0 && \"the answer\"' failed."), std::string::npos) << message;
  EXPECT_EQ(tail(last), end_of(written.file));
  EXPECT_EQ(last.fault_signal.load(), static_cast<std::uint32_t>(SIGABRT));
  EXPECT_EQ(written.outcome.processes.at(0).segment->fatal_signal.load(),
            static_cast<std::uint32_t>(SIGABRT));
}

TEST_F(LastWords, HoldTheFault) {
  struct Case {
    const char* how;
    int signal;
  };
  for (const auto& [how, number] : {Case{"segv", SIGSEGV}, {"fpe", SIGFPE}, {"ill", SIGILL}}) {
    const Written written = fail(how);
    const wire::LastWords& last = words(written);
    EXPECT_EQ(last.fault_signal.load(), static_cast<std::uint32_t>(number)) << how;
    EXPECT_GT(last.fault_code.load(), 0) << how;
    EXPECT_EQ(last.stack_overflow.load(), 0u) << how;
    // SIGSEGV tells the data's address, the other two that of the instruction.
    EXPECT_EQ(last.fault_address.load(), number == SIGSEGV ? 0x10 : last.fault_pc.load()) << how;
    EXPECT_EQ(tail(last), end_of(written.file)) << how;
    // The last sample is where it failed.
    const ThreadLog* const main = written.outcome.processes.at(0).main_thread();
    ASSERT_TRUE(main != nullptr && !main->samples.empty()) << how;
    EXPECT_EQ(
        main->samples.back().record.time_ns <= written.outcome.processes.at(0).segment->end_mono_ns.load(),
        true);
  }
}

TEST_F(LastWords, HoldThatTheStackWasUsedUp) {
  const Written written = fail("overflow");
  EXPECT_EQ(words(written).fault_signal.load(), static_cast<std::uint32_t>(SIGSEGV));
  EXPECT_EQ(words(written).stack_overflow.load(), 1u);
}

TEST_F(LastWords, TheProgramIsToldOfItsOwnActionsOnly) {
  const Written written = fail("defaults");
  EXPECT_TRUE(WIFEXITED(written.outcome.wait_status) && WEXITSTATUS(written.outcome.wait_status) == 0)
      << written.outcome.wait_status;
}

}  // namespace
}  // namespace clusterprof::agent_test
