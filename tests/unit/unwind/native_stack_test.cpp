// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/native_stack.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/discovery/module_table.h"
#include "tests/unit/unwind/raise_signal.hpp"
#include "tests/unit/unwind/stack_comparison.hpp"
#include "tests/unit/unwind/workload.hpp"

extern "C" {
void no_cfi_frame_pointer(void (*)());
void no_cfi_epilogue(void (*)());
void no_cfi_leaf(std::uint64_t);
void no_cfi_kernel(std::uint64_t);
void no_cfi_pushes(std::uint64_t);
}

namespace clusterprof::agent {
namespace {

using test::compare_here;
using test::SignalComparison;

class NativeStackTest : public ::testing::Test {
 protected:
  void SetUp() override { module_table_refresh(nullptr); }
};

TEST_F(NativeStackTest, EqualsLibgccInFramesOfEveryKind) {
  for (const int depth : {0, 1, 7, 100, 300}) {
    std::string without = "not called";
    test::without_frame_pointers_call(depth, [&] { without = compare_here(); });
    EXPECT_EQ(without, "") << "depth " << depth;
    std::string with = "not called";
    test::with_frame_pointers_call(depth, [&] { with = compare_here(); });
    EXPECT_EQ(with, "") << "depth " << depth;
  }
}

TEST_F(NativeStackTest, StopsAtTheFrameLimit) {
  std::string result = "not called";
  test::without_frame_pointers_call(2 * static_cast<int>(kMaxNativeFrames), [&] { result = compare_here(); });
  EXPECT_EQ(result, "");
}

TEST_F(NativeStackTest, EqualsLibgccInThreads) {
  std::vector<std::thread> threads;
  std::vector<std::string> results(4, "not called");
  for (std::string& result : results)
    threads.emplace_back(
        [&result] { test::without_frame_pointers_call(20, [&] { result = compare_here(); }); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, "");
}

std::string* g_handler_result = nullptr;
void compare_in_handler(int) { *g_handler_result = compare_here(); }

// From inside a handler, through the signal frame.
void compare_through_signal_frame(bool alternate_stack) {
  std::string result = "not called";
  g_handler_result = &result;
  test::raise_signal(compare_in_handler, alternate_stack);
  EXPECT_EQ(result, "");
}

TEST_F(NativeStackTest, EqualsLibgccThroughASignalFrame) { compare_through_signal_frame(false); }

TEST_F(NativeStackTest, EqualsLibgccFromAnAlternateStack) { compare_through_signal_frame(true); }

void expect_agreement(const SignalComparison& result, std::uint64_t wanted) {
  EXPECT_GE(result.samples, wanted);
  EXPECT_EQ(result.different, 0u) << result.first_difference;
  // libgcc has no rule for code without call frame information; there our walk may go on.
  EXPECT_LE(result.reference_stopped * 1000, result.samples) << result.first_stopped;
  EXPECT_LE(result.truncated * 1000, result.samples) << result.first_difference << result.first_stopped;
  EXPECT_LE(result.wrong_cfi * 1000, result.samples);
  std::printf(
      "%lu samples, %lu equal, libgcc stopped early in %lu, truncated %lu, wrong CFI %lu, %.1f frames\n",
      result.samples, result.equal, result.reference_stopped, result.truncated, result.wrong_cfi,
      static_cast<double>(result.frames) / static_cast<double>(result.samples));
}

double g_sum = 0;

SignalComparison sample_workload(std::uint64_t wanted, bool alternate_stack) {
  test::start_sampling(5000, alternate_stack);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(300);
  for (std::uint64_t seed = 0; test::samples_so_far() < wanted && std::chrono::steady_clock::now() < end;
       ++seed)
    g_sum += test::with_frame_pointers_compute(seed) + test::without_frame_pointers_compute(seed);
  return test::stop_sampling();
}

TEST_F(NativeStackTest, EqualsLibgccAtRandomInstructions) {
  expect_agreement(sample_workload(20'000, false), 20'000);
}

TEST_F(NativeStackTest, EqualsLibgccAtRandomInstructionsFromAnAlternateStack) {
  expect_agreement(sample_workload(2'000, true), 2'000);
}

TEST_F(NativeStackTest, EqualsLibgccAtRandomInstructionsInAThread) {
  SignalComparison result;
  std::thread([&] { result = sample_workload(2'000, false); }).join();
  expect_agreement(result, 2'000);
}

// Single steps also reach places that are seldom interrupted: every instruction, and prologues and epilogues
// with and without frame pointers.
TEST_F(NativeStackTest, EqualsLibgccAtEachInstructionInAThread) {
  SignalComparison with, without, realigned_with, realigned_without;
  std::thread([&] {
    const auto nothing = [] {};
    realigned_with =
        test::compare_at_each_instruction(2'000, [&] { test::with_frame_pointers_realigned(64, nothing); });
    realigned_without = test::compare_at_each_instruction(
        2'000, [&] { test::without_frame_pointers_realigned(64, nothing); });
    with = test::compare_at_each_instruction(10'000, [] { g_sum += test::with_frame_pointers_compute(1); });
    without =
        test::compare_at_each_instruction(10'000, [] { g_sum += test::without_frame_pointers_compute(1); });
  }).join();
  EXPECT_GT(with.samples, 5'000u);
  EXPECT_GT(without.samples, 5'000u);
  for (const SignalComparison* result : {&with, &without, &realigned_with, &realigned_without}) {
    EXPECT_GT(result->samples, 50u);
    EXPECT_EQ(result->different, 0u) << result->first_difference;
    EXPECT_EQ(result->reference_stopped, 0u) << result->first_stopped;
    EXPECT_EQ(result->truncated, 0u);
    EXPECT_EQ(result->equal + result->rbp_was_popped, result->samples);
    std::printf("%lu instructions, %lu equal, rbp popped in %lu\n", result->samples, result->equal,
                result->rbp_was_popped);
  }
}

TEST_F(NativeStackTest, FollowsLibrariesThatAreLoadedAndUnloaded) {
  struct Call {
    std::string result = "not called";
  };
  for (int round = 0; round < 40; ++round) {
    void* const library = dlopen(UNWIND_PLUGIN, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_TRUE(module_table_refresh(nullptr));
    EXPECT_FALSE(module_table_refresh(nullptr));
    using Function = void (*)(void (*)(void*), void*);
    const auto function = reinterpret_cast<Function>(dlsym(library, "unwind_plugin_call"));
    ASSERT_NE(function, nullptr);
    Call call;
    function([](void* data) { static_cast<Call*>(data)->result = compare_here(); }, &call);
    EXPECT_EQ(call.result, "");
    const std::uint64_t inside = reinterpret_cast<std::uint64_t>(function);
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    EXPECT_TRUE(find_function_range(inside + 3, begin, end));
    EXPECT_EQ(begin, inside);
    EXPECT_GT(end, inside + 3);
    dlclose(library);
    EXPECT_TRUE(module_table_refresh(nullptr));
    EXPECT_FALSE(find_function_range(inside + 3, begin, end));
  }
}

TEST_F(NativeStackTest, FollowsLibrariesOfOtherLinkNamespaces) {
  void* const library = dlmopen(LM_ID_NEWLM, UNWIND_PLUGIN, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_TRUE(module_table_refresh(nullptr));
  using Function = void (*)(void (*)(void*), void*);
  const auto function = reinterpret_cast<Function>(dlsym(library, "unwind_plugin_call"));
  ASSERT_NE(function, nullptr);
  const std::uint64_t inside = reinterpret_cast<std::uint64_t>(function);
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  EXPECT_TRUE(find_function_range(inside + 3, begin, end));
  EXPECT_EQ(begin, inside);
  std::string result = "not called";
  function([](void* data) { *static_cast<std::string*>(data) = compare_here(); }, &result);
  EXPECT_EQ(result, "");
  dlclose(library);
  EXPECT_TRUE(module_table_refresh(nullptr));
  EXPECT_FALSE(find_function_range(inside + 3, begin, end));
}

// Between a dlopen and the next look at the loader's list, the code is unknown, but its instructions show how
// it returns.
TEST_F(NativeStackTest, WalksThroughLibrariesThatAreNotKnownYet) {
  void* const library = dlopen(UNWIND_PLUGIN, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  using Function = void (*)(void (*)(void*), void*);
  const auto function = reinterpret_cast<Function>(dlsym(library, "unwind_plugin_call"));
  ASSERT_NE(function, nullptr);
  std::string result = "not called";
  function([](void* data) { *static_cast<std::string*>(data) = compare_here(); }, &result);
  EXPECT_EQ(result, "");
  dlclose(library);
  module_table_refresh(nullptr);
}

// --- code without call frame information -----------------------------------------------------

struct Walked {
  NativeStack native, expected;
  bool done = false;
};
Walked* g_walked = nullptr;

void walk_from(const ucontext_t& context, NativeStack& out) {
  walk_native(test::registers_of(context), 0, 0, nullptr, out);
}

void walk_in_callback() {
  ucontext_t context;
  getcontext(&context);
  walk_from(context, g_walked->native);
  g_walked->done = true;
}

// The caller's frames, without its own: the same above any function it calls.
__attribute__((noinline)) void walk_callers(NativeStack& out) {
  ucontext_t context;
  getcontext(&context);
  walk_from(context, out);
}

// The frames of `inner` from `skip` on are those of `outer` from its caller's caller on, whose pc differs.
void expect_callers(const NativeStack& inner, std::uint32_t skip, const NativeStack& outer) {
  ASSERT_FALSE(outer.truncated);
  EXPECT_FALSE(inner.truncated);
  ASSERT_EQ(inner.count - skip, outer.count - 1);
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  ASSERT_TRUE(find_function_range(outer.frames[1].pc - 1, begin, end));
  EXPECT_GE(inner.frames[skip].pc, begin);
  EXPECT_LE(inner.frames[skip].pc, end);
  for (std::uint32_t k = 2; k < outer.count; ++k) {
    EXPECT_EQ(inner.frames[skip + k - 1].pc, outer.frames[k].pc);
    EXPECT_EQ(inner.frames[skip + k - 1].sp, outer.frames[k].sp);
  }
}

void check_callback(void (*function)(void (*)())) {
  const auto walked = std::make_unique<Walked>();
  g_walked = walked.get();
  walk_callers(walked->expected);
  function(walk_in_callback);
  ASSERT_TRUE(walked->done);
  expect_callers(walked->native, 2, walked->expected);  // callback, function, we
}

TEST_F(NativeStackTest, FollowsFramePointersWithoutCfi) { check_callback(no_cfi_frame_pointer); }

TEST_F(NativeStackTest, ReadsEpiloguesWithoutCfi) { check_callback(no_cfi_epilogue); }

// The same in memory that no object file is mapped to, as generated code is.
void check_generated(void (*function)(void (*)())) {
  constexpr std::size_t kBytes = 4096;
  void* const code =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(code, MAP_FAILED);
  std::memcpy(code, reinterpret_cast<const void*>(function), 32);
  check_callback(reinterpret_cast<void (*)(void (*)())>(code));
  munmap(code, kBytes);
}

TEST_F(NativeStackTest, FollowsFramePointersOfGeneratedCode) { check_generated(no_cfi_frame_pointer); }

TEST_F(NativeStackTest, ReadsEpiloguesOfGeneratedCode) { check_generated(no_cfi_epilogue); }

void on_alarm(int, siginfo_t*, void* context) {
  if (g_walked->done) return;
  const auto& interrupted = *static_cast<ucontext_t*>(context);
  const auto pc = static_cast<std::uint64_t>(interrupted.uc_mcontext.gregs[REG_RIP]);
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  const std::uint64_t first = reinterpret_cast<std::uint64_t>(&no_cfi_frame_pointer);
  if (pc < first || pc > first + 4096 || find_function_range(pc, begin, end)) return;
  walk_from(interrupted, g_walked->native);
  g_walked->done = true;
}

void check_interrupted(void (*function)(std::uint64_t)) {
  const auto walked = std::make_unique<Walked>();
  g_walked = walked.get();
  struct sigaction action {};
  action.sa_sigaction = on_alarm;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
  walk_callers(walked->expected);
  const itimerval often{{0, 2000}, {0, 2000}};
  const itimerval never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (int tries = 0; tries < 1000 && !walked->done; ++tries) {
    function(3'000'000);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  ASSERT_TRUE(walked->done);
  expect_callers(walked->native, 1, walked->expected);  // function, we
}

TEST_F(NativeStackTest, ReturnsFromLeavesWithoutCfi) { check_interrupted(no_cfi_leaf); }

TEST_F(NativeStackTest, UndoesProloguesWithoutCfi) { check_interrupted(no_cfi_pushes); }

TEST_F(NativeStackTest, FindsTheFrameOfRealignedKernelsWithoutCfi) { check_interrupted(no_cfi_kernel); }

TEST_F(NativeStackTest, EndsOnImpossibleStacks) {
  const auto stack = std::make_unique<NativeStack>();
  // A pc outside all modules is taken for generated code, which is followed for thousands of instructions
  // (zeros: no way out). So far there has to be memory: the walk has no guard here.
  constexpr std::size_t kBytes = 1 << 20;
  void* const zeros = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  Registers registers{};
  registers.rip = registers.rsp = reinterpret_cast<std::uint64_t>(zeros);
  registers.rbp = 0xdead'beef;
  walk_native(registers, registers.rsp, registers.rsp + kBytes, nullptr, *stack);
  munmap(zeros, kBytes);
  EXPECT_EQ(stack->count, 1u);
  EXPECT_TRUE(stack->truncated);
}

}  // namespace
}  // namespace clusterprof::agent
