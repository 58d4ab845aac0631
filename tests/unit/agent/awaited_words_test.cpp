// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/awaited_words.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace clusterprof::agent {
namespace {

struct alignas(64) Condition {
  char bytes[48];
};

std::uint64_t word_of(const Condition& condition, std::uint64_t offset) {
  return reinterpret_cast<std::uint64_t>(&condition) + offset;
}

TEST(AwaitedWords, EachWaitIsTakenOnce) {
  const Condition condition = {};
  EXPECT_FALSE(is_awaited(&condition, sizeof condition));
  EXPECT_EQ(take_awaited_word(&condition, sizeof condition, false), 0u);
  note_awaited_word(word_of(condition, 40));
  note_awaited_word(word_of(condition, 40));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(is_awaited(&condition, sizeof condition));
    EXPECT_EQ(take_awaited_word(&condition, sizeof condition, false), word_of(condition, 40));
  }
  EXPECT_FALSE(is_awaited(&condition, sizeof condition));
  note_awaited_word(word_of(condition, 44));
  note_awaited_word(word_of(condition, 44));
  EXPECT_EQ(take_awaited_word(&condition, sizeof condition, true), word_of(condition, 44));
  EXPECT_FALSE(is_awaited(&condition, sizeof condition)) << "all were woken";
}

// The last thread at a barrier takes what it has found there when it came.
TEST(AwaitedWords, WaitsThatAreSeenLaterStay) {
  const Condition barrier = {};
  EXPECT_EQ(awaited_now(&barrier, sizeof barrier), 0u);
  note_awaited_word(word_of(barrier, 4));
  note_awaited_word(word_of(barrier, 4));
  const std::uint64_t seen = awaited_now(&barrier, sizeof barrier);
  EXPECT_EQ(agent::word_of(seen), word_of(barrier, 4));
  note_awaited_word(word_of(barrier, 4));
  EXPECT_TRUE(take_awaited(seen));
  EXPECT_EQ(take_awaited_word(&barrier, sizeof barrier, false), word_of(barrier, 4)) << "of the next round";
  EXPECT_FALSE(is_awaited(&barrier, sizeof barrier));
  EXPECT_FALSE(take_awaited(seen)) << "somebody else has taken them";
}

TEST(AwaitedWords, ObjectsMayBeginInTheLineBefore) {
  alignas(64) const char bytes[128] = {};
  const char* const object = bytes + 40;  // its word is in the second line
  const auto word = reinterpret_cast<std::uint64_t>(object) + 40;
  note_awaited_word(word);
  EXPECT_FALSE(is_awaited(bytes, 40)) << "another object";
  EXPECT_FALSE(is_awaited(bytes + 84, 40)) << "behind it";
  EXPECT_TRUE(is_awaited(object, 48));
  EXPECT_EQ(take_awaited_word(object, 48, false), word);
}

TEST(AwaitedWords, NothingIsAwaitedAtNull) {
  note_awaited_word(0);
  EXPECT_FALSE(is_awaited(nullptr, 48) && take_awaited_word(nullptr, 48, false) != 0);
}

}  // namespace
}  // namespace clusterprof::agent
