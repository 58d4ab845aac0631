// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/spin_lock.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kLock = 0x1230, kZeroFlag = 1u << 6;

std::uint64_t awaited_at(const std::uint8_t* pc, std::uint64_t flags = 0) {
  ucontext_t interrupted = {};
  auto& registers = interrupted.uc_mcontext.gregs;
  registers[REG_RIP] = reinterpret_cast<greg_t>(pc);
  registers[REG_RDI] = kLock;
  registers[REG_EFL] = static_cast<greg_t>(flags);
  return awaited_spin_lock(interrupted);
}

// lock decl; jne; xor; ret; nopl; then pause; cmpl; jg; jmp.
constexpr std::uint8_t kOld[32] = {0xf0, 0xff, 0x0f, 0x75, 0x0b, 0x31, 0xc0, 0xc3, 0x0f, 0x1f, 0x84,
                                   0x00, 0x00, 0x00, 0x00, 0x00, 0xf3, 0x90, 0x83, 0x3f, 0x00, 0x7f,
                                   0xe9, 0xeb, 0xf7, 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00};
// xor; lock decl; jne; ret; nopl; then pause; cmp; jle; lock decl; jne; ret.
constexpr std::uint8_t kNew[32] = {0x31, 0xc0, 0xf0, 0xff, 0x0f, 0x75, 0x09, 0xc3, 0x0f, 0x1f, 0x84,
                                   0x00, 0x00, 0x00, 0x00, 0x00, 0xf3, 0x90, 0x39, 0x07, 0x7e, 0xfa,
                                   0xf0, 0xff, 0x0f, 0x75, 0xf5, 0xc3, 0x0f, 0x1f, 0x40, 0x00};

class SpinLock : public ::testing::Test {
 protected:
  ~SpinLock() override { know_spin_lock(nullptr); }
};

TEST_F(SpinLock, IsAwaitedInTheLoop) {
  know_spin_lock(kOld);
  for (const int at : {16, 18, 21, 23}) EXPECT_EQ(awaited_at(kOld + at), kLock) << at;
  for (const int at : {0, 5, 7}) EXPECT_EQ(awaited_at(kOld + at), 0u) << at;
  EXPECT_EQ(awaited_at(kOld + 3), kLock) << "the attempt has failed";
  EXPECT_EQ(awaited_at(kOld + 3, kZeroFlag), 0u) << "it has the lock";
  EXPECT_EQ(awaited_at(kOld + 27), 0u) << "the next function";
}

TEST_F(SpinLock, IsAwaitedInTheLoopOfNewerVersions) {
  know_spin_lock(kNew);
  for (const int at : {16, 18, 20, 22, 25}) EXPECT_EQ(awaited_at(kNew + at), kLock) << at;
  for (const int at : {0, 2, 7, 27}) EXPECT_EQ(awaited_at(kNew + at), 0u) << at;
  EXPECT_EQ(awaited_at(kNew + 5, kZeroFlag), 0u);
  EXPECT_EQ(awaited_at(kNew + 25, kZeroFlag), 0u);
  EXPECT_EQ(awaited_at(kOld + 16), 0u);
}

TEST_F(SpinLock, OtherCodeIsNotKnown) {
  constexpr std::uint8_t kOther[48] = {0xf3, 0x90, 0xf0, 0xff, 0x0f};
  know_spin_lock(kOther);
  EXPECT_EQ(awaited_at(kOther), 0u);
  constexpr std::uint8_t kNothing[48] = {};
  know_spin_lock(kNothing);
  EXPECT_EQ(awaited_at(kNothing), 0u);
}

TEST_F(SpinLock, OfThisLibcIsKnown) {
  const auto* const code = reinterpret_cast<const std::uint8_t*>(&pthread_spin_lock);
  know_spin_lock(code);
  bool found = false;
  for (int at = 0; at < 32; ++at) found = found || awaited_at(code + at) == kLock;
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace clusterprof::agent
