// SPDX-License-Identifier: BSD-3-Clause

#include "tests/unit/unwind/single_step.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "agent/discovery/module_table.h"
#include "tests/unit/unwind/raise_signal.hpp"
#include "tests/unit/unwind/step_targets.hpp"
#include "tests/unit/unwind/workload.hpp"

namespace clusterprof::agent {
namespace {

using test::step_through;
using test::StepResult;

volatile double g_sum = 0;

class SingleStepTest : public ::testing::Test {
 protected:
  void SetUp() override { module_table_refresh(nullptr); }

  static void expect_all_right(const StepResult& result, std::uint64_t least, std::uint64_t tolerated = 0) {
    EXPECT_GE(result.instructions, least);
    EXPECT_LE(result.wrong + result.truncated + result.skipped, tolerated) << result.report();
  }
};

// Where libgcc enters an exception's handler, and where longjmp jumps, rsp and the return address change in
// steps that no information describes.
constexpr std::uint64_t kInstallingContext = 4, kLongJump = 12;

TEST_F(SingleStepTest, EqualsTheTruthInFramesOfEveryKind) {
  expect_all_right(step_through([] { test::without_frame_pointers_call(3, [] { g_sum = g_sum + 1; }); }),
                   5000, kInstallingContext);
  expect_all_right(step_through([] { test::with_frame_pointers_call(3, [] { g_sum = g_sum + 1; }); }), 5000,
                   kInstallingContext);
}

TEST_F(SingleStepTest, EqualsTheTruthInComputation) {
  const StepResult result = step_through([] { g_sum = g_sum + test::without_frame_pointers_compute(1); });
  expect_all_right(result, 50'000);
  std::printf("%s", result.report().c_str());
  EXPECT_GE(result.derived * 10, result.instructions * 9) << result.report();
  EXPECT_GE(result.derived_right * 100, result.derived * 98) << result.report();
}

// The last walk is compared with the present stack: same function, same place, another caller.
TEST_F(SingleStepTest, EqualsTheTruthWhenWalksAreFarApart) {
  for (const std::uint64_t every : {61, 499}) {
    const StepResult result =
        step_through([] { g_sum = g_sum + test::without_frame_pointers_compute(1); }, every);
    expect_all_right(result, 50'000);
    EXPECT_GE(result.equal * every * 10, result.instructions * 9);
  }
}

TEST_F(SingleStepTest, EqualsTheTruthWhileExceptionsPropagate) {
  const StepResult result = step_through([] {
    test::without_frame_pointers_call(2, [] {
      try {
        throw std::runtime_error("expected");
      } catch (const std::exception& error) {
        g_sum = g_sum + error.what()[0];
      }
    });
  });
  expect_all_right(result, 5000, 2 * kInstallingContext);
}

TEST_F(SingleStepTest, EqualsTheTruthInCompiledFunctionsOfEveryShape) {
  const StepResult result = step_through([] { g_sum = g_sum + static_cast<double>(step_mix(3)); });
  expect_all_right(result, 500);
}

TEST_F(SingleStepTest, EqualsTheTruthWithCfaInOtherRegisters) {
  expect_all_right(step_through([] {
                     step_cfa_in_rax();
                     step_cfa_in_r11();
                     step_cfa_expression();
                   }),
                   40);
}

TEST_F(SingleStepTest, EqualsTheTruthInTailCalls) { expect_all_right(step_through(step_tail_calls), 15); }

TEST_F(SingleStepTest, EqualsTheTruthInCallsAtTheEndOfAFunction) {
  static jmp_buf back;
  expect_all_right(step_through([] {
                     if (setjmp(back) == 0) step_last_call([](void*) { longjmp(back, 1); }, nullptr);
                   }),
                   30, kLongJump);
}

TEST_F(SingleStepTest, EqualsTheTruthInLibcAssemblyPltAndVdso) {
  void* const library = dlopen(UNWIND_LAZY_PLUGIN, RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  module_table_refresh(nullptr);
  const auto function = reinterpret_cast<double (*)(double)>(dlsym(library, "unwind_lazy_plugin_call"));
  ASSERT_NE(function, nullptr);
  std::vector<char> from(5000, 'a'), to(5000);
  from.back() = 0;
  const StepResult result = step_through([&] {
    g_sum = g_sum + function(0.5);  // resolves its functions
    g_sum = g_sum + function(0.5);
    for (std::size_t bytes : {0, 1, 7, 31, 64, 100, 300, 4999}) {
      std::memcpy(to.data(), from.data(), bytes);
      std::memset(to.data(), 'b', bytes);
      std::memmove(to.data(), from.data(), bytes);
      g_sum = g_sum + static_cast<double>(std::strlen(from.data() + bytes));
      g_sum = g_sum + std::memcmp(to.data(), from.data(), bytes);
    }
    timespec time;
    for (const clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_MONOTONIC_COARSE})
      clock_gettime(clock, &time);
    char text[100];
    std::snprintf(text, sizeof(text), "%g %ld %s", 1.5, time.tv_nsec, to.data() + 4990);
  });
  expect_all_right(result, 5000);
  dlclose(library);
  module_table_refresh(nullptr);
}

StepResult* g_stepped = nullptr;

void step_in_handler(int) {
  *g_stepped = step_through([] { g_sum = g_sum + static_cast<double>(step_mix(3)); });
}

void step_through_signal_frame(bool alternate_stack, StepResult& result) {
  g_stepped = &result;
  test::raise_signal(step_in_handler, alternate_stack);
}

TEST_F(SingleStepTest, EqualsTheTruthInASignalHandler) {
  StepResult result;
  step_through_signal_frame(false, result);
  expect_all_right(result, 500);
}

TEST_F(SingleStepTest, EqualsTheTruthInASignalHandlerOnAnAlternateStack) {
  StepResult result;
  step_through_signal_frame(true, result);
  expect_all_right(result, 500);
}

TEST_F(SingleStepTest, EqualsTheTruthInThreads) {
  StepResult result;
  std::thread([&] {
    result = step_through([] { g_sum = g_sum + static_cast<double>(step_mix(3)); });
  }).join();
  expect_all_right(result, 500);
}

// A coroutine's stack ends where it began, in makecontext's start routine.
TEST_F(SingleStepTest, EqualsTheTruthInCoroutines) {
  static ucontext_t back, coroutine;
  static StepResult result;
  std::vector<char> room(512 << 10);
  ASSERT_EQ(getcontext(&coroutine), 0);
  coroutine.uc_stack.ss_sp = room.data();
  coroutine.uc_stack.ss_size = room.size();
  coroutine.uc_link = &back;
  makecontext(
      &coroutine, [] { result = step_through([] { g_sum = g_sum + static_cast<double>(step_mix(3)); }); }, 0);
  ASSERT_EQ(swapcontext(&back, &coroutine), 0);
  expect_all_right(result, 500);
}

// --- without call frame information ------------------------------------------------------------

// Frames that are found are right; everything else is marked.
TEST_F(SingleStepTest, FindsCallersInCompiledFunctionsWithoutCfi) {
  const StepResult result = step_through([] { g_sum = g_sum + static_cast<double>(bare_mix(3)); });
  EXPECT_GE(result.instructions, 500u);
  EXPECT_EQ(result.wrong, 0u) << result.report();
  EXPECT_LE((result.truncated + result.skipped) * 100, result.instructions) << result.report();
}

// A third of OpenBLAS is hand-written, without call frame information.
TEST_F(SingleStepTest, FindsCallersInOpenBlasKernels) {
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (library == nullptr) GTEST_SKIP() << "no OpenBLAS here";
  module_table_refresh(nullptr);
  using Multiply =
      void (*)(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
               const int*, const double*, const int*, const double*, double*, const int*);
  using Dot = double (*)(const int*, const double*, const int*, const double*, const int*);
  const auto multiply = reinterpret_cast<Multiply>(dlsym(library, "dgemm_"));
  const auto dot = reinterpret_cast<Dot>(dlsym(library, "ddot_"));
  ASSERT_NE(multiply, nullptr);
  ASSERT_NE(dot, nullptr);
  const int size = 37, one = 1, all = size * size;
  const double factor = 1.5;
  std::vector<double> a(static_cast<std::size_t>(all), 1), b = a, c = a;
  const auto run = [&] {
    for (const char* const transpose : {"N", "T"})
      multiply(transpose, "N", &size, &size, &size, &factor, a.data(), &size, b.data(), &size, &factor,
               c.data(), &size);
    g_sum = g_sum + dot(&all, a.data(), &one, b.data(), &one);
  };
  run();  // starts what it needs
  const StepResult result = step_through(run);
  std::printf("%s", result.report().c_str());
  EXPECT_GE(result.instructions, 5000u);
  EXPECT_EQ(result.wrong, 0u) << result.report();
  EXPECT_LE((result.truncated + result.skipped) * 100, result.instructions) << result.report();
}

class Generated {
 public:
  Generated(const unsigned char* begin, const unsigned char* end)
      : code_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    std::memcpy(code_, begin, static_cast<std::size_t>(end - begin));
  }
  Generated(const Generated&) = delete;
  Generated& operator=(const Generated&) = delete;
  ~Generated() { munmap(code_, kBytes); }
  template <typename Function>
  Function as() const {
    return reinterpret_cast<Function>(code_);
  }

 private:
  static constexpr std::size_t kBytes = 4096;
  void* code_;
};

void called_back(void* data) { g_sum = g_sum + static_cast<double>(step_mix(*static_cast<long*>(data))); }

using Caller = void (*)(void (*)(void*), void*);
using Trampoline = void (*)(void*, void*, int, void (*)(void*));

TEST_F(SingleStepTest, FindsCallersInGeneratedCodeWithFramePointers) {
  const Generated code(step_generated_with_rbp, step_generated_with_rbp_end);
  static long value = 3;
  expect_all_right(step_through([&] { code.as<Caller>()(called_back, &value); }), 500);
}

TEST_F(SingleStepTest, FindsCallersInGeneratedCodeWithoutFramePointers) {
  const Generated code(step_generated_without_rbp, step_generated_without_rbp_end);
  static long value = 3;
  expect_all_right(step_through([&] { code.as<Caller>()(called_back, &value); }), 500);
}

// By the next sample, there may be other code at the same address.
TEST_F(SingleStepTest, FindsCallersInGeneratedCodeThatIsReplaced) {
  const Generated code(step_generated_with_rbp, step_generated_with_rbp_end);
  static long value = 3;
  const StepResult result = step_through([&] {
    code.as<Caller>()(called_back, &value);
    std::memcpy(code.as<void*>(), step_generated_without_rbp,
                static_cast<std::size_t>(step_generated_without_rbp_end - step_generated_without_rbp));
    code.as<Caller>()(called_back, &value);
  });
  expect_all_right(result, 1000);
}

TEST_F(SingleStepTest, FindsCallersThroughTrampolinesOfPython) {
  static long value = 3;
  const Generated plain(step_trampoline, step_trampoline_end);
  expect_all_right(step_through([&] { plain.as<Trampoline>()(&value, nullptr, 0, called_back); }), 500);
  const Generated with_rbp(step_trampoline_rbp, step_trampoline_rbp_end);
  expect_all_right(step_through([&] { with_rbp.as<Trampoline>()(&value, nullptr, 0, called_back); }), 500);
}

}  // namespace
}  // namespace clusterprof::agent
