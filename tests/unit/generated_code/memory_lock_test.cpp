// SPDX-License-Identifier: BSD-3-Clause
// A program that locks its memory does not lock the table of generated code, which is ours.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <new>
#include <sstream>
#include <string>

#include "agent/discovery/generated_code.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/process.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/process_state.h"
#include "tests/support/jit_list.h"

extern "C" {
[[gnu::visibility("default")]] jit_descriptor __jit_debug_descriptor = {kJitVersion, 0, nullptr, nullptr};
}

namespace clusterprof::agent {

// There are no call paths in this program.
const void* path_table_memory() noexcept { return nullptr; }
std::uint64_t path_table_bytes() noexcept { return 0; }

namespace {

constexpr std::uint64_t kSegmentBytes = 1 << 20;

// What the kernel says of the mapping that has the address.
bool is_locked(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream text(line);
    if (text >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto at = reinterpret_cast<std::uint64_t>(address);
      is_it = at >= begin && at < end;
    } else if (is_it && line.starts_with("VmFlags:")) {
      return (line + " ").find(" lo ") != std::string::npos;
    }
  }
  ADD_FAILURE() << "the kernel does not tell";
  return false;
}

class MemoryLock : public testing::Test {
 protected:
  MemoryLock() {
    generated_code_take_memory_from(
        {[](std::uint64_t bytes) noexcept { return map_memory(bytes); }, unmap_memory});
    generated_code_reset_after_fork();
    segment_ = new (map_memory(kSegmentBytes)) wire::SegmentHeader{};
    segment_->segment_bytes = kSegmentBytes;
    segment_->generated_arena_offset = (sizeof(wire::SegmentHeader) + 7) / 8 * 8;
    segment_->generated_arena_bytes = 4096;
    segment_->start_mono_ns = 1;
    segment_->module_epoch = 7;
    g_process.segment = segment_;
    jit_list_add(&__jit_debug_descriptor, &entry_);
  }
  ~MemoryLock() override {
    munlockall();
    set_new_memory_locked(false);
    g_process.segment = nullptr;
    EXPECT_TRUE(generated_code_give_back());
    unmap_memory(segment_, kSegmentBytes);
    jit_list_remove(&__jit_debug_descriptor, &entry_);
  }

  const std::string object_ =
      "\x7f"
      "ELF" +
      std::string(100, '.');
  jit_code_entry entry_ = {nullptr, nullptr, object_.data(), object_.size()};
  wire::SegmentHeader* segment_ = nullptr;
};

TEST_F(MemoryLock, ATableThatIsThereIsLeftOut) {
  generated_code_refresh(segment_);
  ASSERT_NE(generated_code_memory(), nullptr);
  if (mlockall(MCL_CURRENT) != 0) GTEST_SKIP() << "this user may not lock that much";
  EXPECT_TRUE(is_locked(&__jit_debug_descriptor));
  EXPECT_FALSE(is_locked(segment_));
  EXPECT_FALSE(is_locked(generated_code_memory()));
  EXPECT_FALSE(
      is_locked(static_cast<const char*>(generated_code_memory()) + generated_code_memory_bytes() - 1));
}

TEST_F(MemoryLock, ATableThatIsMadeLaterIsNotLocked) {
  if (mlockall(MCL_FUTURE) != 0) GTEST_SKIP() << "this user may not lock memory";
  void* const of_program = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(of_program, MAP_FAILED);
  generated_code_refresh(segment_);
  ASSERT_NE(generated_code_memory(), nullptr);
  EXPECT_TRUE(is_locked(of_program));
  EXPECT_FALSE(is_locked(generated_code_memory()));
  munmap(of_program, 4096);
}

}  // namespace
}  // namespace clusterprof::agent
