// SPDX-License-Identifier: BSD-3-Clause
// What data the next instructions use, against instructions that the assembler has encoded.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "agent/sigsafe/data_address.h"

// In data_address_code.S; the last one has no code.
struct DataUse {
  const std::uint8_t *low, *begin, *end;
  std::uint64_t address;
};
extern "C" const DataUse data_address_cases[];

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kStackLow = 0x7f00'0000'0000, kStackHigh = 0x7f00'0000'2000;
constexpr std::uint64_t kRegisters[16] = {0x1000'0000'0000, 3,
                                          0x1200'0000'0000, 0x1300'0000'0000,
                                          0x7f00'0000'1000, 0x7f00'0000'1800,
                                          0x1600'0000'0000, 0x1700'0000'0000,
                                          0x1800'0000'0000, 5,
                                          0x1a00'0000'0000, 0x1b00'0000'0000,
                                          0x1c00'0000'0000, 0x1d00'0000'0000,
                                          0x1e00'0000'0000, 0x1f00'0000'0000};

std::string bytes_of(const DataUse& use) {
  std::string text;
  for (const std::uint8_t* at = use.begin; at != use.end; ++at) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x ", *at);
    text += digits;
  }
  return text;
}

TEST(DataAddress, EqualsWhatTheAssemblerSays) {
  std::size_t count = 0, with_address = 0;
  for (const DataUse* use = data_address_cases; use->begin != nullptr; ++use, ++count) {
    std::uint64_t address = 0;
    const bool found =
        find_data_address({use->low, use->begin, use->end, reinterpret_cast<std::uint64_t>(use->begin)},
                          kRegisters, kStackLow, kStackHigh, address);
    EXPECT_EQ(found, use->address != 0) << "case " << count << ": " << bytes_of(*use);
    EXPECT_EQ(found ? address : 0, use->address) << "case " << count << ": " << bytes_of(*use);
    with_address += use->address != 0 ? 1 : 0;
  }
  EXPECT_GE(count, 130u);
  EXPECT_GE(with_address, 100u);
}

// Wherever the code ends, nothing behind the end is read.
TEST(DataAddress, DecodesNothingBeyondTheCode) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const pages = static_cast<std::uint8_t*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages + page, page, PROT_NONE), 0);
  std::size_t cut_off = 0;
  for (const DataUse* use = data_address_cases; use->begin != nullptr; ++use) {
    const auto bytes = static_cast<std::size_t>(use->end - use->begin);
    for (std::size_t length = 0; length < bytes; ++length) {
      std::uint8_t* const copy = pages + page - length;
      memcpy(copy, use->begin, length);
      std::uint64_t address = 0;
      if (!find_data_address({copy, copy, pages + page, reinterpret_cast<std::uint64_t>(use->begin)},
                             kRegisters, kStackLow, kStackHigh, address))
        ++cut_off;
    }
  }
  EXPECT_GT(cut_off, 500u);
  munmap(pages, 2 * page);
}

}  // namespace
}  // namespace clusterprof::agent
