// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/cfi.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <vector>

#include "agent/discovery/module_table.h"
#include "agent/sigsafe/dwarf_expression.h"

namespace clusterprof::agent {
namespace {

std::uint64_t run(const std::vector<std::uint8_t>& code, const Machine& machine = {}) {
  std::uint64_t out = 0;
  EXPECT_EQ(evaluate({code.data(), code.data() + code.size()}, machine, false, 0, out), Evaluation::kOk);
  return out;
}

Evaluation outcome(const std::vector<std::uint8_t>& code, const Machine& machine = {}) {
  std::uint64_t out = 0;
  return evaluate({code.data(), code.data() + code.size()}, machine, false, 0, out);
}

TEST(CfiExpressionTest, ComputesTheResultOfEveryOperation) {
  EXPECT_EQ(run({0x35, 0x33, 0x22}), 8u);                                            // lit5 lit3 plus
  EXPECT_EQ(run({0x35, 0x33, 0x1c}), 2u);                                            // minus
  EXPECT_EQ(run({0x35, 0x33, 0x16, 0x1c}), ~std::uint64_t{1});                       // swap minus
  EXPECT_EQ(run({0x09, 0xf8, 0x33, 0x1b}), std::uint64_t(-2));                       // const1s -8, lit3, div
  EXPECT_EQ(run({0x31, 0x32, 0x33, 0x17, 0x1c, 0x1c}), std::uint64_t(3 - (1 - 2)));  // rot: 3 1 2
  EXPECT_EQ(run({0x35, 0x12, 0x1e}), 25u);                                           // dup mul
  EXPECT_EQ(run({0x0a, 0x34, 0x12, 0x38, 0x25}), 0x12u);     // const2u 0x1234, lit8, shr
  EXPECT_EQ(run({0x11, 0x7f, 0x19}), 1u);                    // consts -1, abs
  EXPECT_EQ(run({0x31, 0x23, 0x80, 0x02}), 257u);            // plus_uconst 256
  EXPECT_EQ(run({0x31, 0x28, 0x01, 0x00, 0x32, 0x37}), 7u);  // bra over lit2
  EXPECT_EQ(run({0x35, 0x36, 0x2a}), 0u);                    // 5 >= 6
}

TEST(CfiExpressionTest, FollowsTheLinkersPltRule) {
  Machine machine{};
  machine.known = 1u << kDwarfRsp | 1u << kDwarfReturnAddress;
  machine.value[kDwarfRsp] = 0x1000;
  const std::vector<std::uint8_t> plt = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
  machine.value[kDwarfReturnAddress] = 0x400a;
  EXPECT_EQ(run(plt, machine), 0x1008u);
  machine.value[kDwarfReturnAddress] = 0x400b;
  EXPECT_EQ(run(plt, machine), 0x1010u);
}

TEST(CfiExpressionTest, ReadsOnlyTheStack) {
  std::uint64_t words[2] = {0x1122'3344'5566'7788, 42};
  Machine machine{};
  machine.known = 1u << kDwarfRbp;
  machine.stack_low = reinterpret_cast<std::uint64_t>(words);
  machine.stack_high = machine.stack_low + sizeof(words);
  machine.value[kDwarfRbp] = machine.stack_low;
  EXPECT_EQ(run({0x76, 8, 0x06}, machine), 42u);
  EXPECT_EQ(run({0x76, 0, 0x94, 2}, machine), 0x7788u);
  EXPECT_EQ(outcome({0x76, 16, 0x06}, machine), Evaluation::kFailed);
  EXPECT_EQ(outcome({0x76, 9, 0x06}, machine), Evaluation::kFailed);
  EXPECT_EQ(outcome({0x76, 0x78, 0x06}, machine), Evaluation::kFailed);
  EXPECT_EQ(outcome({0x73, 0, 0x06}, machine), Evaluation::kUnknownRegister);
}

TEST(CfiExpressionTest, DeclinesMalformedOnes) {
  EXPECT_EQ(outcome({}), Evaluation::kFailed);
  EXPECT_EQ(outcome({0x22}), Evaluation::kFailed);                    // nothing to add
  EXPECT_EQ(outcome({0x35, 0x30, 0x1b}), Evaluation::kFailed);        // division by zero
  EXPECT_EQ(outcome({0x0c, 0x01}), Evaluation::kFailed);              // cut off
  EXPECT_EQ(outcome({0x35, 0x2f, 0xfc, 0xff}), Evaluation::kFailed);  // endless loop
  EXPECT_EQ(outcome({0x2f, 0x10, 0x00}), Evaluation::kFailed);        // out of the expression
  EXPECT_EQ(outcome(std::vector<std::uint8_t>(100, 0x35)), Evaluation::kFailed);
  EXPECT_EQ(outcome({0xe0}), Evaluation::kFailed);
}

// Damaged call frame information must not be read outside of its range: the copy stands between pages that
// cannot be read.
TEST(CfiTest, SurvivesDamagedCallFrameInformation) {
  module_table_refresh(nullptr);
  Module module;
  ASSERT_TRUE(find_module(module_table(), reinterpret_cast<std::uint64_t>(&compute_row), module));
  ASSERT_NE(module.eh_frame_hdr, nullptr);
  const std::uint64_t bytes = module.cfi_end - module.cfi_start;
  const std::uint64_t room = (bytes + 4095) & ~std::uint64_t{4095};
  auto* const memory = static_cast<std::uint8_t*>(
      mmap(nullptr, room + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory, 4096, PROT_NONE), 0);
  ASSERT_EQ(mprotect(memory + 4096 + room, 4096, PROT_NONE), 0);
  std::uint8_t* const copy = memory + 4096 + room - bytes;
  const std::uint64_t moved = reinterpret_cast<std::uint64_t>(copy) - module.cfi_start;
  Module damaged = module;
  damaged.cfi_start += moved;
  damaged.cfi_end += moved;
  damaged.eh_frame_hdr += moved;
  const std::uint64_t code = module.start + moved;

  std::mt19937_64 random(20261121);
  std::uint64_t found = 0;
  std::uint64_t rows = 0;
  for (int round = 0; round < 60; ++round) {
    std::memcpy(copy, reinterpret_cast<const void*>(module.cfi_start), bytes);
    // Round 0 is undamaged. Only .eh_frame_hdr and what follows it matters.
    const std::uint64_t from = static_cast<std::uint64_t>(damaged.eh_frame_hdr - copy);
    for (int i = 0; i < round * 40; ++i)
      copy[from + random() % (bytes - from)] = static_cast<std::uint8_t>(random());
    std::uint64_t found_here = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t pc = code + random() % (module.end - module.start);
      Fde fde;
      CfiRow row;
      if (!find_fde(damaged, pc, fde)) continue;
      ++found_here;
      ASSERT_LE(fde.begin, pc);
      ASSERT_GT(fde.end, pc);
      if (compute_row(fde, pc, row)) ++rows;
    }
    if (round == 0) {
      EXPECT_GT(found_here, 1900u);
      EXPECT_EQ(rows, found_here);
    }
    found += found_here;
  }
  EXPECT_GT(found, 2000u);
  munmap(memory, room + 8192);
}

}  // namespace
}  // namespace clusterprof::agent
