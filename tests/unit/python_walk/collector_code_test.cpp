// SPDX-License-Identifier: BSD-3-Clause
#include "agent/discovery/collector_code.h"

#include <gtest/gtest.h>

#include <vector>

namespace clusterprof::agent {
namespace {

using Code = std::vector<std::uint8_t>;

// As gcc has made it of `gcstate->collecting = 1` with gcstate in rbx, r12 and on the stack.
const Code kInRbx = {0xc7, 0x83, 0x50, 0x03, 0x00, 0x00, 0x01, 0x00,
                     0x00, 0x00, 0xe8, 0x01, 0x02, 0x03, 0x04};
const Code kInR12 = {0x41, 0xc7, 0x84, 0x24, 0x50, 0x03, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x90};
const Code kSetToTwo = {0xc7, 0x83, 0x50, 0x03, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x90};
const Code kNear = {0xc7, 0x43, 0x50, 0x01, 0x00, 0x00, 0x00, 0x90, 0x90, 0x90, 0x90};
constexpr std::uint32_t kOffset = 0x350;

std::ptrdiff_t found_in(const Code& code, std::uint32_t displacement = kOffset) {
  const std::uint8_t* const store = find_flag_set(code.data(), code.data() + code.size(), displacement);
  return store != nullptr ? store - code.data() : -1;
}

TEST(CollectorCode, ReadsTheDisplacement) {
  EXPECT_EQ(flag_displacement(kInRbx.data(), kInRbx.size()), kOffset);
  EXPECT_EQ(flag_displacement(kInR12.data(), kInR12.size()), kOffset);
  EXPECT_EQ(flag_displacement(kSetToTwo.data(), kSetToTwo.size()), 0u);
  EXPECT_EQ(flag_displacement(kNear.data(), kNear.size()), 0u);
}

TEST(CollectorCode, FindsStoresOfOneAtThatDisplacement) {
  EXPECT_EQ(found_in(kInRbx), 0);
  EXPECT_EQ(found_in(kInR12), 1);
  EXPECT_EQ(found_in(kSetToTwo), -1);
  EXPECT_EQ(found_in(kInRbx, kOffset + 8), -1);
}

TEST(CollectorCode, FindsEveryStore) {
  Code code = kSetToTwo;
  code.insert(code.end(), kInRbx.begin(), kInRbx.end());
  code.insert(code.end(), kInR12.begin(), kInR12.end());
  const std::uint8_t* const end = code.data() + code.size();
  const std::uint8_t* const first = find_flag_set(code.data(), end, kOffset);
  ASSERT_EQ(first, code.data() + kSetToTwo.size());
  const std::uint8_t* const second = find_flag_set(first + 1, end, kOffset);
  EXPECT_EQ(second, code.data() + kSetToTwo.size() + kInRbx.size() + 1);
  EXPECT_EQ(find_flag_set(second + 1, end, kOffset), nullptr);
}

TEST(CollectorCode, ReadsNoByteBeyondTheEnd) {
  for (std::size_t bytes = 0; bytes <= 9; ++bytes) {
    const Code cut(kInRbx.begin(), kInRbx.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_EQ(found_in(cut), -1);
    EXPECT_EQ(flag_displacement(cut.data(), cut.size()), 0u);
  }
}

}  // namespace
}  // namespace clusterprof::agent
