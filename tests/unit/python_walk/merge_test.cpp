// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "agent/discovery/module_table.h"
#include "agent/pyabi/cpython_3_10.h"
#include "agent/pyabi/cpython_3_12.h"
#include "agent/sigsafe/modules.h"
#include "agent/sigsafe/python_runtime.h"
#include "agent/sigsafe/python_stack.h"

namespace clusterprof::agent {
namespace {

// A made-up process: where things are.
constexpr std::uint64_t kEval = 0x10100;         // in the eval loop
constexpr std::uint64_t kInterpreter = 0x15000;  // elsewhere in the interpreter
constexpr std::uint64_t kLibc = 0x30500;
constexpr std::uint64_t kOther = 0x50500;  // an extension module, or a program that embeds Python
constexpr std::uint64_t kLauncher = 0x60100;
constexpr std::uint64_t kConditionWait = 0x31000;

class MergeTest : public testing::Test {
 protected:
  MergeTest() {
    runtime_.layout = kPython312;
    runtime_.eval = {0x10000, 0x11000};
    runtime_.interpreter = {0x10000, 0x20000};
    runtime_.libc = {0x30000, 0x40000};
    runtime_.launcher = {0x60000, 0x61000};
    runtime_.condition_timed_wait = {0x31000, 0x31100};
    publish_python_runtime(&runtime_);
    g_self_check.merges = 0;
    g_self_check.bad_merges = 0;
  }
  ~MergeTest() override { publish_python_runtime(nullptr); }

  // Frames leaf first, each 0x100 bytes of stack, the leaf at kStack.
  static constexpr std::uint64_t kStack = 0x7f0000;
  void native(std::initializer_list<std::uint64_t> pcs) {
    for (const std::uint64_t pc : pcs) {
      native_->frames[native_->count] = {pc, kStack + 0x100 * native_->count};
      ++native_->count;
    }
  }
  static std::uint64_t inside(std::uint32_t frame) { return kStack + 0x100 * frame + 0x40; }

  void activation(std::uint64_t address, std::uint32_t frames) {
    python_->entry_address[python_->entries] = address;
    python_->entry_frames[python_->entries++] = frames;
    for (std::uint32_t i = 0; i < frames; ++i) frame();
  }
  void frame() {
    python_->frames[python_->count] = {1000u + python_->count, python_->count, false, 0, 0};
    ++python_->count;
  }

  // Native frames as their pc, Python frames as 1000 + their number.
  std::vector<std::uint64_t> merge(std::uint32_t capacity = wire::kMaxFrameWords) {
    std::vector<std::uint64_t> words(capacity), result;
    flags_ = 0;
    words.resize(merge_stacks(*native_, *python_, words.data(), capacity, flags_));
    for (std::size_t i = 0; i < words.size(); ++i) {
      if ((words[i] & wire::kFrameTagMask) == wire::kPythonFrameTag) {
        EXPECT_EQ(words.at(i + 1), 1000 + (words[i] & 0xffffffff));
        ++i;
      }
      result.push_back(words[i]);
    }
    return result;
  }
  using Words = std::vector<std::uint64_t>;

  PythonRuntime runtime_{};
  std::unique_ptr<NativeStack> native_ = std::make_unique<NativeStack>();
  std::unique_ptr<PythonStack> python_ = std::make_unique<PythonStack>();
  std::uint32_t flags_ = 0;
};

TEST_F(MergeTest, LeafInEvalLoopIsThePythonFrame) {
  native({kEval, kInterpreter, kLauncher, kLibc});
  activation(inside(0), 3);
  EXPECT_EQ(merge(), (Words{1000, 1001, 1002}));
  EXPECT_EQ(flags_, wire::kHasPython);
}

TEST_F(MergeTest, UnrecognisedEvalLoopLeavesPythonFramesAlone) {
  runtime_.eval = {0, 0};
  runtime_.layout = kPython310;
  native({kLibc, kEval, kInterpreter, kOther});
  frame();
  frame();
  for (std::uint32_t i = 0; i < kCheckedStacks; ++i) {
    merge();
    EXPECT_EQ(flags_, wire::kHasPython | wire::kMergeFailed);
    EXPECT_EQ(merging_is_given_up(), i + 1 == kCheckedStacks);
  }
  EXPECT_EQ(merge(), (Words{1000, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kMergeFailed);
}

TEST_F(MergeTest, ContinuesAfterSomeFailures) {
  native({kEval, kInterpreter});
  activation(inside(0), 1);
  for (std::uint32_t i = 0; i < kCheckedStacks; ++i) {
    python_->entry_address[0] = i % 2 == 0 ? inside(0) : inside(1) + 0x1000;
    merge();
  }
  EXPECT_FALSE(merging_is_given_up());
}

TEST_F(MergeTest, TrampolinesOfThePerfOptionAreNotShown) {
  std::vector<Module> modules(1);
  modules[0].start = kOther & ~std::uint64_t{0xfff};
  modules[0].end = modules[0].start + 0x1000;
  ModuleTable table{};
  table.epoch = 1;
  table.count = 1;
  table.modules = modules.data();
  publish_module_table(&table);
  constexpr std::uint64_t kMade = 0x90000;  // in no object file
  native(
      {kEval, kMade, kInterpreter, kEval, kMade, kInterpreter, kOther, kEval, kOther, kMade, kInterpreter});
  activation(inside(0), 1);
  activation(inside(3), 1);
  activation(inside(7), 1);
  EXPECT_EQ(merge(), (Words{1000, 1001, kOther, 1002, kOther, kMade}));
  publish_module_table(nullptr);
}

// Code that the interpreter has compiled runs the activation's own Python frames.
TEST_F(MergeTest, CodeOfTheJitIsThePythonFunctionThatItRuns) {
  std::vector<Module> modules(1);
  modules[0].start = kOther & ~std::uint64_t{0xfff};
  modules[0].end = modules[0].start + 0x1000;
  ModuleTable table{};
  table.epoch = 1;
  table.count = 1;
  table.modules = modules.data();
  publish_module_table(&table);
  constexpr std::uint64_t kMade = 0x90000;  // in no object file
  const auto leaf_is_approximate = [this](std::initializer_list<std::uint64_t> pcs, std::uint32_t eval,
                                          const Words& expected) {
    *native_ = {};
    *python_ = {};
    native(pcs);
    native({kInterpreter});  // a frame's end is its caller's begin
    activation(inside(eval), 2);
    EXPECT_EQ(merge(), expected);
    std::vector<std::uint64_t> words(wire::kMaxFrameWords);
    merge_stacks(*native_, *python_, words.data(), wire::kMaxFrameWords, flags_);
    EXPECT_EQ(words[2] & wire::kApproximateLine, 0u);  // only the innermost one can be
    return (words[0] & wire::kFrameTagMask) == wire::kPythonFrameTag &&
           (words[0] & wire::kApproximateLine) != 0;
  };
  // Not before it is known to run.
  EXPECT_FALSE(leaf_is_approximate({kMade, kMade, kEval}, 2, {kMade, kMade, 1000, 1001}));
  g_jit_runs = 1;
  EXPECT_TRUE(leaf_is_approximate({kMade, kMade, kEval}, 2, {1000, 1001}));
  EXPECT_TRUE(leaf_is_approximate({kMade, kMade, kInterpreter, kEval, kInterpreter}, 3, {1000, 1001}));
  EXPECT_FALSE(leaf_is_approximate({kEval, kInterpreter}, 0, {1000, 1001}));
  // What it calls is shown, and has told the line before.
  EXPECT_FALSE(leaf_is_approximate({kInterpreter, kMade, kEval}, 2, {kInterpreter, 1000, 1001}));
  EXPECT_FALSE(
      leaf_is_approximate({kInterpreter, kMade, kInterpreter, kEval}, 3, {kInterpreter, 1000, 1001}));
  // Made by somebody else, and called by an object file of theirs.
  EXPECT_FALSE(leaf_is_approximate({kMade, kOther, kMade, kEval}, 3, {kMade, kOther, 1000, 1001}));

  // The walk has ended in it.
  *native_ = {};
  *python_ = {};
  native({kMade, kMade});
  native_->truncated = true;
  activation(inside(5), 1);
  EXPECT_EQ(merge(), (Words{1000}));

  // Between activations.
  *native_ = {};
  *python_ = {};
  native({kEval, kInterpreter, kMade, kMade, kEval, kOther, kMade, kEval, kInterpreter});
  activation(inside(0), 1);
  activation(inside(4), 1);
  activation(inside(7), 1);
  EXPECT_EQ(merge(), (Words{1000, 1001, kOther, 1002}));
  g_jit_runs = 0;
  publish_module_table(nullptr);
}

TEST_F(MergeTest, MarksGarbageCollection) {
  native({kEval, kInterpreter});
  activation(inside(0), 1);
  python_->collecting_garbage = true;
  merge();
  EXPECT_EQ(flags_, wire::kHasPython | wire::kCollectingGarbage);
}

// The GIL changes hands while a finalizer runs that the collector called.
TEST_F(MergeTest, CollectingThreadHasTheCollectorOnItsStack) {
  constexpr std::uint32_t kPatience = 32;
  const auto collects = [this](std::uint64_t pc, bool elsewhere, bool truncated = false) {
    *native_ = {};
    *python_ = {};
    native({kEval, pc});
    activation(inside(0), 1);
    native_->truncated = truncated;
    python_->collecting_garbage = true;
    python_->collects_elsewhere = elsewhere;
    merge();
    return (flags_ & wire::kCollectingGarbage) != 0;
  };
  constexpr std::uint64_t kCollector = kInterpreter + 0x100;
  EXPECT_TRUE(collects(kInterpreter, false));  // not known: the first one that was met
  EXPECT_FALSE(collects(kInterpreter, true));
  g_collector_code.ranges[0] = {kCollector, kCollector + 0x10};
  g_collector_code.count = 1;
  EXPECT_FALSE(collects(kInterpreter, false));
  EXPECT_FALSE(collects(kInterpreter, true, true));
  EXPECT_TRUE(collects(kInterpreter, false, true));  // it may be where the stack was not walked
  EXPECT_TRUE(collects(kCollector + 8, true));
  for (std::uint32_t i = 0; i < 2 * kPatience; ++i) EXPECT_FALSE(collects(kInterpreter, false));
  // Code that never shows up is not the collector's.
  g_collector_code.hits = g_collector_code.misses = 0;
  for (std::uint32_t i = 0; i < kPatience; ++i) EXPECT_FALSE(collects(kInterpreter, false));
  EXPECT_TRUE(collects(kInterpreter, false));
  EXPECT_FALSE(collects(kInterpreter, true));
  g_collector_code.count = g_collector_code.hits = g_collector_code.misses = 0;
}

TEST_F(MergeTest, KeepsInterpreterFramesAtTheLeaf) {
  native({kLibc, kInterpreter, kEval, kInterpreter, kLibc});
  activation(inside(2), 1);
  EXPECT_EQ(merge(), (Words{kLibc, kInterpreter, 1000}));
}

TEST_F(MergeTest, KeepsOnlyOtherModulesBetweenActivations) {
  native({kEval, kInterpreter, kOther, kLibc, kInterpreter, kEval, kInterpreter});
  activation(inside(0), 1);
  activation(inside(5), 2);
  EXPECT_EQ(merge(), (Words{1000, kOther, kLibc, 1001, 1002}));
  EXPECT_EQ(flags_, wire::kHasPython);
}

TEST_F(MergeTest, KeepsTheEmbeddingProgramAtTheRoot) {
  native({kEval, kInterpreter, kOther, kLibc, kOther + 8});
  activation(inside(0), 1);
  EXPECT_EQ(merge(), (Words{1000, kOther, kLibc, kOther + 8}));
}

TEST_F(MergeTest, DropsActivationsWithoutFramesButKeepsTheirCallees) {
  native({kInterpreter, kEval, kInterpreter + 8, kEval});
  activation(inside(1), 0);
  native({kInterpreter});
  activation(inside(3), 1);
  EXPECT_EQ(merge(), (Words{kInterpreter, kInterpreter + 8, 1000}));
  EXPECT_EQ(flags_, wire::kHasPython);
}

TEST_F(MergeTest, CallerThatComesFirstIsGivenByItsCallInstruction) {
  native(
      {kEval, kInterpreter, kEval, kInterpreter});  // the leaf is on its way into the loop: not in the chain
  activation(inside(2), 1);
  EXPECT_EQ(merge(), (Words{kInterpreter - 1, 1000}));
}

TEST_F(MergeTest, KeepsLeafAndAllPythonFramesOfATruncatedNativeStack) {
  native({kInterpreter, kEval, kInterpreter});
  native_->truncated = true;
  activation(inside(1), 1);
  activation(inside(9), 2);
  EXPECT_EQ(merge(), (Words{kInterpreter, 1000, 1001, 1002}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kNativeTruncated);
}

TEST_F(MergeTest, KeepsAllFramesIfTruncatedBeforeTheNewestActivation) {
  native({kOther, kOther});
  native_->truncated = true;
  activation(inside(5), 2);
  EXPECT_EQ(merge(), (Words{kOther, kOther, 1000, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kNativeTruncated);
}

TEST_F(MergeTest, MergesAStackThatIsTruncatedAtTheEvalLoop) {
  native({kInterpreter, kEval});
  native_->truncated = true;
  activation(inside(1), 1);
  EXPECT_EQ(merge(), (Words{kInterpreter, 1000}));
}

TEST_F(MergeTest, KeepsPythonFramesIfNothingMatches) {
  native({kLibc, kInterpreter, kEval, kInterpreter});
  activation(0x1000, 2);
  EXPECT_EQ(merge(), (Words{1000, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kMergeFailed);
}

TEST_F(MergeTest, RefusesAMatchOutsideTheInterpreter) {
  native({kEval, kOther, kOther, kOther});
  activation(inside(2), 1);
  EXPECT_EQ(merge(), (Words{1000}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kMergeFailed);
}

TEST_F(MergeTest, MergesFramesWithoutAnEntryAfterAFault) {
  native({kEval, kInterpreter, kEval, kInterpreter});
  activation(inside(0), 1);
  frame();
  python_->truncated = true;
  EXPECT_EQ(merge(), (Words{1000, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kPythonTruncated);
}

TEST_F(MergeTest, LeavesNativeOnlyAndPythonOnlyStacksUnchanged) {
  native({kLibc, kEval, kOther, 0xffff'ffff'ff60'0000});
  EXPECT_EQ(merge(), (Words{kLibc, kEval, kOther}));
  EXPECT_EQ(flags_, 0u);
  native_->count = 0;
  frame();
  frame();
  EXPECT_EQ(merge(), (Words{1000, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython);
}

TEST_F(MergeTest, CutsTheRootIfFramesDoNotFit) {
  native({kEval, kInterpreter});
  activation(inside(0), 4);
  EXPECT_EQ(merge(5), (Words{1000, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kPythonTruncated);
}

TEST_F(MergeTest, MarksWaitingForTheGil) {
  native({kLibc, kConditionWait + 8, kInterpreter, kEval, kInterpreter});
  activation(inside(3), 1);
  python_->thread_has_state = true;
  python_->gil_known = true;
  merge();
  EXPECT_EQ(flags_, wire::kHasPython | wire::kWaitingForGil);
  python_->holds_gil = true;
  merge();
  EXPECT_EQ(flags_, wire::kHasPython);
  python_->holds_gil = false;
  native_->frames[2].pc = kOther;  // somebody else's condition variable
  merge();
  EXPECT_EQ(flags_, wire::kHasPython);
}

class CountingMergeTest : public MergeTest {
 protected:
  CountingMergeTest() { runtime_.layout = kPython310; }
};

TEST_F(CountingMergeTest, MergesEqualNumbersOneToOne) {
  native({kInterpreter, kEval, kInterpreter, kOther, kEval, kInterpreter});
  frame();
  frame();
  EXPECT_EQ(merge(), (Words{kInterpreter, 1000, kOther, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython);
}

TEST_F(CountingMergeTest, TakesAnExtraActivationForTheInnermost) {
  native({kEval, kInterpreter, kEval, kOther, kEval, kInterpreter});
  frame();
  frame();
  EXPECT_EQ(merge(), (Words{kInterpreter - 1, 1000, kOther, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython);
}

TEST_F(CountingMergeTest, FailsWithTooFewActivations) {
  native({kInterpreter, kEval, kInterpreter});
  frame();
  frame();
  EXPECT_EQ(merge(), (Words{1000, 1001}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kMergeFailed);
}

TEST_F(CountingMergeTest, TooManyActivationsAlignAtTheRoot) {
  native({kEval, kOther, kEval, kInterpreter, kEval, kInterpreter});
  frame();
  EXPECT_EQ(merge().back(), 1000u);
  EXPECT_EQ(flags_, wire::kHasPython | wire::kMergeFailed);
}

TEST_F(CountingMergeTest, TruncatedNativeStackAlignsAtTheLeaf) {
  native({kInterpreter, kEval, kInterpreter, kEval, kInterpreter});
  native_->truncated = true;
  for (int i = 0; i < 4; ++i) frame();
  EXPECT_EQ(merge(), (Words{kInterpreter, 1000, 1001, 1002, 1003}));
  EXPECT_EQ(flags_, wire::kHasPython | wire::kNativeTruncated);
}

[[gnu::noinline]] int part_of_the_loop(int value) {
  for (int i = 0; i < value; ++i) asm volatile("");
  return value;
}

// Compilers split the loop; the parts that have no name are learned from what is proven.
TEST_F(MergeTest, LearnsPartsOfTheEvalLoop) {
  module_table_refresh(nullptr);
  const auto part = reinterpret_cast<std::uint64_t>(&part_of_the_loop);
  runtime_.interpreter = {part - 0x10000, part + 0x10000};
  ASSERT_FALSE(is_eval_code(runtime_, part + 2));
  native({part + 2, part - 0x100});
  activation(inside(0), 1);
  EXPECT_EQ(merge(), (Words{1000}));
  learn_functions();
  EXPECT_TRUE(is_eval_code(runtime_, part));
  EXPECT_TRUE(is_eval_code(runtime_, part + 1));
  EXPECT_FALSE(is_eval_code(runtime_, part - 1));
  EXPECT_EQ(part_of_the_loop(2), 2);
}

}  // namespace
}  // namespace clusterprof::agent
