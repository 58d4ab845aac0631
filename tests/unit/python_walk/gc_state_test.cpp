// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/gc_state.h"

#include <gtest/gtest.h>

#include <functional>

#include "agent/pyabi/cpython_3_08.h"
#include "agent/pyabi/cpython_3_12.h"
#include "agent/pyabi/cpython_3_13.h"
#include "tests/unit/python_walk/fake_python.hpp"

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kStateBytes = 4096;

class GcStateTest : public testing::Test {
 protected:
  GcStateTest() {
    g_gc_search.searches = 0;
    g_gc_search.collecting = 0;
    g_gc_search.collects_in = g_gc_search.collector = 0;
    python_.runtime.layout = kPython312;
    state_.set(kPython312.tstate_interp, interpreter_.address());
  }

  // As a GC state is when nothing goes on: young objects in the first generation, none elsewhere.
  void make_gc_state(std::size_t at) {
    const std::uint64_t address = interpreter_.address() + at;
    for (const std::size_t list : {kGcGenerations, kGcGenerations + kGcGenerationBytes,
                                   kGcGenerations + 2 * kGcGenerationBytes, kGcPermanent}) {
      interpreter_.set(at + list, address + list).set(at + list + kGcHeadPrevious, address + list);
    }
    interpreter_.set(at + kGcGenerations, object_.address())
        .set(at + kGcGenerations + kGcHeadPrevious, object_.address());
    object_.set(0, address + kGcGenerations).set(8, (address + kGcGenerations) | 1);
    interpreter_.set(at + kGcGenerations + kGcThreshold, 700).set(at + kGcGenerations + kGcCount, 333);
    interpreter_.set(at + kGcEnabled, 1).set(at + kGcGeneration0, address + kGcGenerations);
    interpreter_.set(at + kGcStats, std::uint64_t{12});
  }
  std::uint32_t found() { return find_collecting(interpreter_.address(), kStateBytes); }

  FakePython python_{kPython312};
  Memory interpreter_{kStateBytes}, object_{16}, state_{4096};
};

TEST_F(GcStateTest, FindsTheStateAtAnyOffset) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{112}, std::size_t{648}, std::size_t{3880}}) {
    interpreter_ = Memory(kStateBytes);
    make_gc_state(at);
    EXPECT_EQ(found(), at + kGcCollecting) << at;
  }
}

TEST_F(GcStateTest, RefusesAStateThatReachesBeyondTheEnd) {
  make_gc_state(3880);
  EXPECT_EQ(find_collecting(interpreter_.address(), 3880 + kGcCollecting), 0u);
}

TEST_F(GcStateTest, RefusesTwoCandidates) {
  make_gc_state(112);
  make_gc_state(1000);
  object_.set(0, interpreter_.address());  // the young objects are of one of them, whichever
  EXPECT_EQ(found(), 0u);
  interpreter_.set(112 + kGcGenerations, interpreter_.address() + 112 + kGcGenerations)
      .set(112 + kGcGenerations + kGcHeadPrevious, interpreter_.address() + 112 + kGcGenerations);
  object_.set(0, interpreter_.address() + 1000 + kGcGenerations);
  EXPECT_EQ(found(), 0u);
}

TEST_F(GcStateTest, RefusesAStateWithAnyWrongPart) {
  const std::function<void(std::size_t)> damages[] = {
      [&](std::size_t at) { interpreter_.set(at + kGcGeneration0, std::uint64_t{0}); },
      [&](std::size_t at) { interpreter_.set(at + kGcEnabled, 2); },
      [&](std::size_t at) { interpreter_.set(at + kGcDebug, 64); },
      [&](std::size_t at) { interpreter_.set(at + kGcCollecting, 2); },
      [&](std::size_t at) { interpreter_.set(at + kGcGenerations + kGcThreshold, -1); },
      [&](std::size_t at) { interpreter_.set(at + kGcGenerations + kGcGenerationBytes + kGcCount, -1); },
      [&](std::size_t at) { interpreter_.set(at + kGcGenerations + kGcGenerationBytes, std::uint64_t{0}); },
      [&](std::size_t at) { interpreter_.set(at + kGcPermanent + kGcHeadPrevious, object_.address()); },
      [&](std::size_t at) { interpreter_.set(at + kGcStats + 64, std::int64_t{-1}); },
      [&](std::size_t) { object_.set(8, std::uint64_t{0}); },
  };
  for (std::size_t i = 0; i < std::size(damages); ++i) {
    interpreter_ = Memory(kStateBytes);
    make_gc_state(648);
    ASSERT_NE(found(), 0u);
    damages[i](648);
    EXPECT_EQ(found(), 0u) << i;
  }
}

TEST_F(GcStateTest, FindsTheStateDuringACollection) {
  make_gc_state(648);
  interpreter_.set(648 + kGcCollecting, 1);
  object_.set(8, std::uint64_t{3 << 2});  // a reference count
  EXPECT_EQ(found(), 648 + kGcCollecting);
}

TEST_F(GcStateTest, TellsWhetherTheInterpreterCollects) {
  state_.set(kPython312.tstate_interp, interpreter_.address());
  EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kNo);
  make_gc_state(112);
  EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kIdle);
  interpreter_.set(112 + kGcCollecting, 1);
  EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kCollecting);
  // Another interpreter of the same process has it at the same place.
  Memory other(kStateBytes), other_state(4096);
  other_state.set(kPython312.tstate_interp, other.address());
  EXPECT_EQ(gc_state(python_.runtime, other_state.address()), GcKnown::kIdle);
}

TEST_F(GcStateTest, ChargesTheThreadThatIsSampledFirst) {
  make_gc_state(112);
  Memory bystander(4096);
  bystander.set(kPython312.tstate_interp, interpreter_.address());
  const auto state = [&](const Memory& thread) { return gc_state(python_.runtime, thread.address()); };
  EXPECT_EQ(state(bystander), GcKnown::kIdle);
  interpreter_.set(112 + kGcCollecting, 1);
  EXPECT_EQ(state(state_), GcKnown::kCollecting);
  EXPECT_EQ(state(bystander), GcKnown::kCollectsElsewhere);
  EXPECT_EQ(state(state_), GcKnown::kCollecting);
  interpreter_.set(112 + kGcCollecting, 0);
  EXPECT_EQ(state(bystander), GcKnown::kIdle);
  interpreter_.set(112 + kGcCollecting, 1);
  EXPECT_EQ(state(bystander), GcKnown::kCollecting);
  EXPECT_EQ(state(state_), GcKnown::kCollectsElsewhere);
  // That it was over in between was not seen.
  interpreter_.set(112 + kGcStats, std::uint64_t{13});
  EXPECT_EQ(state(state_), GcKnown::kCollecting);
  EXPECT_EQ(state(bystander), GcKnown::kCollectsElsewhere);
}

TEST_F(GcStateTest, GivesUpAfterManySearches) {
  for (std::uint32_t i = 0; i < kMaxGcSearches; ++i)
    EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kNo);
  make_gc_state(112);
  EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kGivenUp);
}

TEST_F(GcStateTest, IsInTheRuntimeIn38) {
  python_.runtime.layout = kPython308;
  python_.runtime.gc_in = {interpreter_.address(), interpreter_.address() + 1464};
  make_gc_state(344);
  interpreter_.set(344 + kGcCollecting, 1);
  EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kCollecting);
}

TEST_F(GcStateTest, IsDescribedFrom313) {
  python_.runtime.layout = kPython313;
  python_.runtime.gc_is_described = true;
  python_.runtime.gc_collecting = 600;
  EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kIdle);
  interpreter_.set(600, 1);
  EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kCollecting);
  python_.runtime.gc_collecting = 0;  // the description made no sense
  make_gc_state(648);
  EXPECT_EQ(gc_state(python_.runtime, state_.address()), GcKnown::kGivenUp);
}

}  // namespace
}  // namespace clusterprof::agent
