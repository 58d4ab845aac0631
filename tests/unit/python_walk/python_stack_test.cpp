// SPDX-License-Identifier: BSD-3-Clause
// Chains of frames as each version builds them, including the states that only exist for a few
// instructions and the versions that cannot be run here.
#include "agent/sigsafe/python_stack.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "agent/pyabi/cpython_3_08.h"
#include "agent/pyabi/cpython_3_10.h"
#include "agent/pyabi/cpython_3_11.h"
#include "agent/pyabi/cpython_3_12.h"
#include "agent/pyabi/cpython_3_13.h"
#include "agent/pyabi/cpython_3_14.h"
#include "agent/pyabi/cpython_3_15.h"
#include "agent/sigsafe/gc_state.h"
#include "tests/unit/python_walk/fake_python.hpp"

namespace clusterprof::agent {
namespace {

int g_initialized, g_finalizing;
void* g_own_state;
void* g_unchecked_state;
void* g_main_interpreter;
void* g_main_thread;
void* g_sub_interpreter;

class FakeThread {
 public:
  explicit FakeThread(const PythonLayout& layout) : python(layout), layout_(layout) {
    PythonRuntime& runtime = python.runtime;
    runtime.is_initialized = [] { return g_initialized; };
    runtime.is_finalizing = [] { return g_finalizing; };
    runtime.this_thread_state = [] { return g_own_state; };
    runtime.unchecked_state = [] { return g_unchecked_state; };
    runtime.main_interpreter = [] { return g_main_interpreter; };
    runtime.first_thread = [](void*) { return g_main_thread; };
    runtime.next_thread = [](void*) -> void* { return nullptr; };
    runtime.first_interpreter = [] { return g_main_interpreter; };
    runtime.next_interpreter = [](void* after) {
      return after == g_main_interpreter ? g_sub_interpreter : nullptr;
    };
    for (std::atomic<std::uint32_t>* count :
         {&g_self_check.walks, &g_self_check.bad_walks, &g_self_check.passed, &g_self_check.missing,
          &g_self_check.merges, &g_self_check.bad_merges, &g_gc_search.searches, &g_gc_search.collecting}) {
      *count = 0;
    }
    g_initialized = 1;
    g_finalizing = 0;
    g_own_state = g_unchecked_state = reinterpret_cast<void*>(state.address());
    g_main_interpreter = reinterpret_cast<void*>(interpreter_.address());
    g_main_thread = nullptr;
    g_sub_interpreter = nullptr;
    state.set(layout.tstate_interp, interpreter_.address());
    state.set(layout.tstate_thread_id, reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()));
    if (layout.tstate_datastack_chunk != kAbsent) {
      state.set(layout.tstate_datastack_chunk, chunk_.address());
      state.set(layout.tstate_datastack_top, chunk_.address() + kChunkBytes);
      chunk_.set(kChunkSize, std::uint64_t{kChunkBytes});
    }
    publish_python_runtime(&runtime);
  }
  ~FakeThread() { publish_python_runtime(nullptr); }

  std::uint64_t code(const std::string& name) {
    return python.make_code(python.make_str(name), python.make_str("file.py"), 7);
  }

  // A frame in the data stack; `unit` is its instruction, -1 not started.
  std::uint64_t frame(std::uint64_t of_code, std::uint64_t previous, int unit = 0,
                      std::uint8_t owner = kOwnedByThread) {
    const std::size_t at = used_;
    used_ += 128;
    chunk_.set(at + layout_.frame_code, of_code | tag);
    chunk_.set(at + layout_.frame_previous, previous);
    switch (layout_.instruction_field) {
      case InstructionField::kByteIndex:
        chunk_.set(at + layout_.frame_instruction, unit < 0 ? -1 : unit * 2);
        break;
      case InstructionField::kUnitIndex:
        chunk_.set(at + layout_.frame_instruction, unit);
        break;
      case InstructionField::kPointer:
        chunk_.set(at + layout_.frame_instruction,
                   of_code + layout_.code_instructions + static_cast<std::uint64_t>(unit * 2));
        break;
    }
    if (layout_.frame_owner != kAbsent) chunk_.set(at + layout_.frame_owner, owner);
    return chunk_.address() + at;
  }
  std::uint64_t shim(std::uint64_t previous) { return frame(0, previous, 0, kFirstShimOwner); }
  void set_entry(std::uint64_t frame) {
    chunk_.set(frame - chunk_.address() + layout_.frame_is_entry, std::uint8_t{1});
  }
  void set_generator_state(std::uint64_t frame, std::int8_t value) {
    chunk_.set(frame - chunk_.address() - layout_.generator_state, value);
  }
  std::uint64_t cframe(std::uint64_t current, std::uint64_t previous) {
    Memory& memory = python.make(32);
    memory.set(layout_.cframe_current_frame, current).set(layout_.cframe_previous, previous);
    return memory.address();
  }
  void top(std::uint64_t address) { state.set(layout_.tstate_frame, address); }

  const PythonStack& walk() {
    walk_python(&segment.header(), *stack_);
    return *stack_;
  }
  // Names innermost first, separated by blanks.
  std::string names() {
    walk();
    std::string result;
    for (std::uint32_t i = 0; i < stack_->count; ++i) {
      if (i != 0) result.append(1, ' ');
      if (const auto entry = segment.find(stack_->frames[i].code_id)) result.append(entry->name);
    }
    return result;
  }
  std::vector<std::uint32_t> entry_frames() const {
    return {stack_->entry_frames, stack_->entry_frames + stack_->entries};
  }

  bool check_failed() {
    return segment.header().python_state == static_cast<std::uint32_t>(wire::PythonState::kCheckFailed) &&
           (note() == wire::PythonNote::kCodeNotFound || note() == wire::PythonNote::kFramesNotFound);
  }
  wire::PythonNote note() { return static_cast<wire::PythonNote>(segment.header().python_note.load()); }

  FakePython python;
  FakeSegment segment;
  Memory state{4096};
  std::uint64_t tag = 0;

 private:
  static constexpr std::size_t kChunkBytes = 16384;
  PythonLayout layout_;
  Memory interpreter_{64}, chunk_{kChunkBytes};
  std::size_t used_ = 24;
  std::unique_ptr<PythonStack> stack_ = std::make_unique<PythonStack>();
};
using Counts = std::vector<std::uint32_t>;

TEST(PythonStack, SelfCheckEndsWalksThatFindNoCode) {
  FakeThread thread(kPython310);
  thread.top(thread.frame(thread.python.make(512).address(), 0));
  for (std::uint32_t i = 0; i < kCheckedStacks; ++i) EXPECT_EQ(thread.walk().count, 0u);
  EXPECT_TRUE(thread.check_failed());
  EXPECT_EQ(thread.note(), wire::PythonNote::kCodeNotFound);
}

// Offsets that are wrong by a word: frames and code objects are found, their names are not.
TEST(PythonStack, SelfCheckRejectsAnotherLayout) {
  for (std::uint16_t PythonLayout::*field :
       {&PythonLayout::code_name, &PythonLayout::code_filename, &PythonLayout::code_line_table}) {
    for (const PythonLayout* layout : {&kPython308, &kPython312, &kPython313}) {
      FakeThread thread(*layout);
      const auto outer =
          thread.frame(thread.code("outer"), layout->chain == FrameChain::kFrameObjects ? 0 : thread.shim(0));
      const auto inner = thread.frame(thread.code("inner"), outer);
      thread.top(layout->chain == FrameChain::kCFrame ? thread.cframe(inner, thread.cframe(0, 0)) : inner);
      thread.python.runtime.layout.*field = static_cast<std::uint16_t>(layout->*field + 64);
      thread.python.runtime.layout_is_compiled_in = false;
      for (std::uint32_t i = 0; i < kCheckedStacks; ++i) EXPECT_EQ(thread.walk().count, 0u);
      EXPECT_TRUE(thread.check_failed());
      EXPECT_EQ(thread.segment.slots_used(), 0u);
    }
  }
}

TEST(PythonStack, SelfCheckToleratesWalksThatEndEarly) {
  FakeThread thread(kPython310);
  const auto good = thread.frame(thread.code("f"), 0);
  thread.top(good + 4);  // never a frame
  for (std::uint32_t i = 0; i < kCheckedStacks / 2; ++i) EXPECT_EQ(thread.walk().count, 0u);
  thread.top(good);
  for (std::uint32_t i = 0; i < kCheckedStacks; ++i) EXPECT_EQ(thread.walk().count, 1u);
  EXPECT_FALSE(thread.check_failed());
}

// A thread state whose frames are elsewhere looks like one that runs nothing; the native stack knows better.
TEST(PythonStack, SelfCheckNoticesMissingFramesInTheEvalLoop) {
  FakeThread thread(kPython313);
  thread.python.runtime.eval = {0x10000, 0x20000};
  auto native = std::make_unique<NativeStack>();
  native->count = 1;
  native->frames[0] = {0x10100, 0x7f0000};
  std::vector<std::uint64_t> words(wire::kMaxFrameWords);
  const auto sample = [&] {
    std::uint32_t flags = 0;
    return merge_stacks(*native, thread.walk(), words.data(), wire::kMaxFrameWords, flags);
  };
  for (std::uint32_t i = 0; i <= kCheckedStacks; ++i) EXPECT_EQ(sample(), 1u);
  EXPECT_TRUE(thread.check_failed());
}

TEST(PythonStack, WalksFrameObjects) {
  for (const PythonLayout* layout : {&kPython308, &kPython310}) {
    FakeThread thread(*layout);
    const auto outer = thread.frame(thread.code("outer"), 0, 12);
    thread.top(thread.frame(thread.code("inner"), outer, -1));
    EXPECT_EQ(thread.names(), "inner outer");
    const PythonStack& stack = thread.walk();
    EXPECT_EQ(stack.frames[0].instruction, wire::kInstructionNotStarted);
    EXPECT_EQ(stack.frames[1].instruction, 12u);
    EXPECT_TRUE(stack.frames[1].entry);
    EXPECT_EQ(stack.entries, 0u);
    EXPECT_FALSE(stack.truncated);
    EXPECT_TRUE(stack.thread_has_state && stack.gil_known && stack.holds_gil);
  }
}

TEST(PythonStack, WalksCFramesOfPython311) {
  FakeThread thread(kPython311);
  const auto a = thread.frame(thread.code("a"), 0, 3);
  const auto b = thread.frame(thread.code("b"), a);
  const auto c = thread.frame(thread.code("c"), b, 5);
  thread.set_entry(a);
  thread.set_entry(c);
  const auto root = thread.cframe(0, 0);
  const auto outer = thread.cframe(b, root);
  const auto inner = thread.cframe(c, outer);
  thread.top(inner);
  EXPECT_EQ(thread.names(), "c b a");
  EXPECT_EQ(thread.entry_frames(), (Counts{1, 2}));
  const PythonStack& stack = thread.walk();
  EXPECT_EQ(stack.entry_address[0], inner);
  EXPECT_EQ(stack.entry_address[1], outer);
  EXPECT_EQ(stack.frames[0].instruction, 5u);
  EXPECT_TRUE(stack.frames[0].entry && !stack.frames[1].entry && stack.frames[2].entry);

  // In the prologue: the new CFrame is published, its current_frame is garbage.
  const auto stale = thread.frame(thread.code("stale"), a);
  thread.set_entry(stale);
  for (const std::uint64_t garbage :
       {std::uint64_t{0x123457}, std::uint64_t{8}, stale, thread.python.make(256).address()}) {
    const auto half_made = thread.cframe(garbage, inner);
    thread.top(half_made);
    EXPECT_EQ(thread.names(), "c b a") << garbage;
    EXPECT_EQ(thread.entry_frames(), (Counts{0, 1, 2}));
    EXPECT_EQ(thread.walk().entry_address[0], half_made);
  }

  // The whole new CFrame still holds values of an older one, whose frames have been reused since: the chain
  // stops at a frame that did not begin an activation.
  const auto reused = thread.frame(thread.code("reused"), 0);
  const auto follower = thread.frame(thread.code("follower"), reused);
  thread.set_entry(follower);
  thread.top(thread.cframe(follower, thread.cframe(reused, inner)));
  EXPECT_EQ(thread.names(), "");
  EXPECT_TRUE(thread.walk().truncated);
  // The same in the newest activation alone: the older ones are known.
  thread.top(thread.cframe(reused, inner));
  EXPECT_EQ(thread.names(), "c b a");

  // Values that an older CFrame left lead to generators. No generator is alone on a thread, unless an activation
  // began with it.
  const auto generator = thread.frame(thread.code("generator"), 0, 1, kOwnedByGenerator);
  const auto taken_over = thread.frame(thread.code("taken_over"), generator, 1, kOwnedByGenerator);
  thread.set_entry(generator);
  thread.set_entry(taken_over);
  for (const int suspended : {-2, -1, 1, 4}) {
    thread.set_generator_state(generator, static_cast<std::int8_t>(suspended));
    thread.top(thread.cframe(generator, root));
    EXPECT_EQ(thread.names(), "") << int{suspended};
    thread.top(thread.cframe(taken_over, thread.cframe(generator, root)));
    EXPECT_EQ(thread.names(), "") << int{suspended};
    EXPECT_TRUE(thread.walk().truncated);
    thread.top(thread.cframe(generator, inner));
    EXPECT_EQ(thread.names(), "c b a") << int{suspended};
  }
  thread.set_generator_state(generator, kGeneratorExecuting);
  thread.top(thread.cframe(generator, root));
  EXPECT_EQ(thread.names(), "generator");
}

TEST(PythonStack, WalksShimsOfPython312) {
  FakeThread thread(kPython312);
  const auto outer_shim = thread.shim(0);
  const auto a = thread.frame(thread.code("a"), outer_shim);
  const auto generator = thread.frame(thread.code("g"), a, 2, kOwnedByGenerator);
  const auto inner_shim = thread.shim(generator);
  const auto b = thread.frame(thread.code("b"), inner_shim, -1);
  const auto root = thread.cframe(0, 0);
  const auto outer = thread.cframe(generator, root);
  const auto inner = thread.cframe(b, outer);
  thread.top(inner);
  EXPECT_EQ(thread.names(), "b g a");
  EXPECT_EQ(thread.entry_frames(), (Counts{1, 2}));
  EXPECT_EQ(thread.walk().entry_address[1], outer_shim);
  EXPECT_EQ(thread.walk().frames[0].instruction, wire::kInstructionNotStarted);
  EXPECT_TRUE(thread.walk().frames[2].entry);
  EXPECT_FALSE(thread.walk().frames[1].entry);

  // A popped frame of an earlier activation where current_frame will be.
  const auto stale_shim = thread.shim(a);
  const auto stale = thread.frame(thread.code("stale"), stale_shim);
  thread.top(thread.cframe(stale, inner));
  EXPECT_EQ(thread.names(), "b g a");
  EXPECT_EQ(thread.entry_frames(), (Counts{0, 1, 2}));

  // A generator between suspension and its caller: nobody knows the caller any more.
  const auto lost = thread.frame(thread.code("lost"), 0, 2, kOwnedByGenerator);
  thread.top(thread.cframe(lost, inner));
  EXPECT_EQ(thread.names(), "b g a");
  EXPECT_TRUE(thread.walk().truncated);
}

TEST(PythonStack, WalksPython313) {
  FakeThread thread(kPython313);
  thread.state.set(kPython313.tstate_gil, 1);
  const auto shim = thread.shim(0);
  const auto a = thread.frame(thread.code("a"), shim, 9);
  const auto inner = thread.shim(a);
  thread.top(inner);  // entering or leaving
  EXPECT_EQ(thread.names(), "a");
  EXPECT_EQ(thread.entry_frames(), (Counts{0, 1}));
  EXPECT_TRUE(thread.walk().holds_gil);
  thread.state.set(kPython313.tstate_gil, 0);
  EXPECT_FALSE(thread.walk().holds_gil);
  EXPECT_TRUE(thread.walk().gil_known);

  thread.top(thread.frame(0, a));  // being cleared
  EXPECT_EQ(thread.names(), "a");
}

// The interpreter's own caller of an inlined __init__.
TEST(PythonStack, HidesCodeWithoutALineTable) {
  FakeThread thread(kPython313);
  const auto a = thread.frame(thread.code("a"), thread.shim(0));
  const auto name = thread.python.make_str("__init__");
  for (const char* no_lines : {"", "\xfb"}) {
    const auto cleanup = thread.frame(thread.python.make_code(name, name, 0, no_lines), a);
    thread.top(thread.frame(thread.code("b"), cleanup));
    EXPECT_EQ(thread.names(), "b a");
    EXPECT_EQ(thread.names(), "b a");
    EXPECT_EQ(thread.entry_frames(), (Counts{2}));
  }
}

TEST(PythonStack, WalksTaggedCodeOfPython314) {
  FakeThread thread(kPython314);
  thread.tag = 1;
  thread.top(thread.frame(thread.code("b"), thread.frame(thread.code("a"), thread.shim(0), 4), 6));
  EXPECT_EQ(thread.names(), "b a");
  EXPECT_EQ(thread.walk().frames[0].instruction, 6u);
  EXPECT_EQ(thread.entry_frames(), (Counts{2}));
}

TEST(PythonStack, EndsAtTheBaseFrameOfPython315) {
  FakeThread thread(kPython315);
  thread.tag = 3;
  const auto base = thread.shim(0);
  thread.state.set(kPython315.tstate_base_frame, base);
  thread.top(thread.frame(thread.code("a"), thread.shim(base)));
  EXPECT_EQ(thread.names(), "a");
  EXPECT_EQ(thread.entry_frames(), (Counts{1}));
}

TEST(PythonStack, WalksFramesWithoutTheGil) {
  for (const PythonLayout* layout :
       {&kPython313FreeThreaded, &kPython314FreeThreaded, &kPython315FreeThreaded}) {
    FakeThread thread(*layout);
    thread.python.runtime.layout_is_compiled_in = false;
    thread.tag = layout->frame_code_tag_bits;
    thread.state.set(layout->tstate_gil, 1);
    const auto base = thread.shim(0);
    if (layout->tstate_base_frame != kAbsent) thread.state.set(layout->tstate_base_frame, base);
    const auto a = thread.frame(thread.code("a"), thread.shim(base), 4);
    thread.top(thread.frame(thread.code("b"), a, 6));
    EXPECT_EQ(thread.names(), "b a") << int{layout->minor};
    const PythonStack& stack = thread.walk();
    EXPECT_EQ(stack.frames[0].instruction, 6u);
    EXPECT_EQ(stack.frames[1].instruction, 4u);
    EXPECT_EQ(thread.segment.find(stack.frames[1].code_id)->filename, "file.py");
    EXPECT_FALSE(stack.truncated || stack.collecting_garbage);
    EXPECT_EQ(thread.note(), wire::PythonNote::kGarbageUnknown);
    EXPECT_FALSE(thread.check_failed());
  }
}

// Each thread has a copy of the instructions, but for the first one.
TEST(PythonStack, FindsLinesInAThreadsCopyOfTheInstructions) {
  for (const PythonLayout* layout : {&kPython314FreeThreaded, &kPython315FreeThreaded}) {
    FakeThread thread(*layout);
    thread.python.runtime.layout_is_compiled_in = false;
    constexpr std::uint64_t kUnits = 40;
    const auto code = thread.code("a");
    const auto put_at = [](std::uint64_t address, auto value) {
      std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
    };
    Memory& copies = thread.python.make(32);
    Memory& copy = thread.python.make(2 * kUnits);
    copies.set(0, std::int64_t{3}).set(8, code + layout->code_instructions).set(16, std::uint64_t{0});
    copies.set(24, copy.address());
    put_at(code + layout->code_tlbc, copies.address());
    put_at(code + layout->bytes_size, kUnits);
    const auto base = thread.shim(0);
    if (layout->tstate_base_frame != kAbsent) thread.state.set(layout->tstate_base_frame, base);
    const auto frame = thread.frame(code, thread.shim(base), 7);
    thread.top(frame);
    EXPECT_EQ(thread.walk().frames[0].instruction, 7u);

    put_at(frame + layout->frame_tlbc_index, std::int32_t{2});
    put_at(frame + layout->frame_instruction, copy.address() + 2 * 9);
    EXPECT_EQ(thread.walk().frames[0].instruction, 9u);
    put_at(frame + layout->frame_instruction, copy.address() + 2 * kUnits);  // not of this copy
    EXPECT_EQ(thread.walk().frames[0].instruction, wire::kInstructionNotStarted);
    put_at(frame + layout->frame_instruction, copy.address() - 2);
    EXPECT_EQ(thread.walk().frames[0].instruction, wire::kInstructionNotStarted);

    // No such copy, or not any more.
    put_at(frame + layout->frame_instruction, copy.address());
    for (const std::int32_t index : {1, 3, -1}) {
      put_at(frame + layout->frame_tlbc_index, index);
      EXPECT_EQ(thread.walk().frames[0].instruction, wire::kInstructionNotStarted) << index;
    }
    put_at(frame + layout->frame_tlbc_index, std::int32_t{2});
    put_at(code + layout->code_tlbc, std::uint64_t{0});
    EXPECT_EQ(thread.names(), "a");
    EXPECT_EQ(thread.walk().frames[0].instruction, wire::kInstructionNotStarted);
  }
}

TEST(PythonStack, NoticesThatTheJitRuns) {
  for (const PythonLayout* layout : {&kPython313, &kPython314, &kPython315}) {
    FakeThread thread(*layout);
    thread.top(thread.frame(thread.code("a"), thread.shim(0)));
    g_jit_runs = 0;
    thread.walk();
    EXPECT_EQ(g_jit_runs, 0u);
    if (layout->tstate_executor == kAbsent) continue;
    thread.state.set(layout->tstate_executor, thread.python.make(256).address());
    EXPECT_EQ(thread.names(), "a");
    EXPECT_EQ(g_jit_runs, 1u);
    g_jit_runs = 0;
  }
}

TEST(PythonStack, FrameOutsideTheDataStackEndsTheWalk) {
  FakeThread thread(kPython313);
  Memory& elsewhere = thread.python.make(256);
  elsewhere.set(kPython313.frame_code, thread.code("bad"));
  const auto good = thread.frame(thread.code("a"), elsewhere.address());
  thread.top(good);
  EXPECT_EQ(thread.names(), "");  // not before one was complete
  g_self_check.passed = 1;
  EXPECT_EQ(thread.names(), "a");
  EXPECT_TRUE(thread.walk().truncated);
}

TEST(PythonStack, FindsFramesInOlderChunks) {
  FakeThread thread(kPython313);
  const auto oldest = thread.frame(thread.code("old"), thread.shim(0));
  constexpr std::uint64_t kBytes = 1024;
  Memory& chunk = thread.python.make(kBytes);
  std::uint64_t older;
  std::memcpy(&older, reinterpret_cast<void*>(thread.state.address() + kPython313.tstate_datastack_chunk), 8);
  chunk.set(kChunkPrevious, older).set(kChunkSize, kBytes);
  const auto code = thread.code("new");
  chunk.set(24 + kPython313.frame_code, code).set(24 + kPython313.frame_previous, oldest);
  chunk.set(24 + kPython313.frame_instruction, code + kPython313.code_instructions);
  thread.state.set(kPython313.tstate_datastack_chunk, chunk.address());
  thread.state.set(kPython313.tstate_datastack_top, chunk.address() + 512);
  thread.top(chunk.address() + 24);
  EXPECT_EQ(thread.names(), "new old");
}

TEST(PythonStack, StopsAtTheMaximumOfFrames) {
  FakeThread thread(kPython310);
  const auto code = thread.code("loop");
  const auto frame = thread.frame(code, 0);
  const auto again = thread.frame(code, frame);
  // A circle, as only damaged memory has it.
  std::memcpy(reinterpret_cast<void*>(frame + kPython310.frame_previous), &again, sizeof again);
  thread.top(again);
  EXPECT_EQ(thread.walk().count, kMaxPythonFrames);
  EXPECT_TRUE(thread.walk().truncated);

  FakeThread shims(kPython313);
  const auto shim = shims.shim(0);
  std::memcpy(reinterpret_cast<void*>(shim + kPython313.frame_previous), &shim, sizeof shim);
  shims.top(shim);
  EXPECT_EQ(shims.walk().count, 0u);
  EXPECT_TRUE(shims.walk().truncated);
}

TEST(PythonStack, FollowsTheStatesOfTheInterpreter) {
  FakeThread thread(kPython312);
  const auto frame = thread.frame(thread.code("a"), thread.shim(0));
  thread.top(thread.cframe(frame, thread.cframe(0, 0)));
  EXPECT_EQ(thread.walk().count, 1u);

  g_initialized = 0;  // not started, or gone
  EXPECT_FALSE(thread.walk().thread_has_state);
  g_finalizing = 1;  // the thread that shuts it down still runs Python
  EXPECT_EQ(thread.walk().count, 1u);
  EXPECT_TRUE(thread.walk().finalizing);
  g_unchecked_state = nullptr;  // another thread: its state may be freed already
  EXPECT_EQ(thread.walk().count, 0u);
  EXPECT_FALSE(thread.walk().thread_has_state);

  g_initialized = 1;
  g_finalizing = 0;
  g_own_state = nullptr;  // no Python thread
  EXPECT_FALSE(thread.walk().thread_has_state);

  thread.segment.header().python_state = static_cast<std::uint32_t>(wire::PythonState::kDisabled);
  g_own_state = reinterpret_cast<void*>(thread.state.address());
  EXPECT_EQ(thread.walk().count, 0u);
}

TEST(PythonStack, FindsSubInterpreterUpTo311) {
  FakeThread thread(kPython310);
  thread.top(thread.frame(thread.code("main"), 0));
  Memory& sub = thread.python.make(4096);
  sub.set(kPython310.tstate_thread_id, reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()));
  sub.set(kPython310.tstate_frame, thread.frame(thread.code("sub"), 0));
  g_unchecked_state = reinterpret_cast<void*>(sub.address());
  EXPECT_EQ(thread.names(), "sub main");
  sub.set(kPython310.tstate_thread_id, std::uint64_t{1});  // another thread holds the GIL
  EXPECT_EQ(thread.names(), "main");
  EXPECT_FALSE(thread.walk().holds_gil);
}

TEST(PythonStack, FindsSubInterpreterUpTo311WithoutTheGil) {
  FakeThread thread(kPython310);
  thread.top(thread.frame(thread.code("main"), 0));
  Memory& sub = thread.python.make(4096);
  Memory& sub_interpreter = thread.python.make(64);
  sub.set(kPython310.tstate_thread_id, reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()));
  sub.set(kPython310.tstate_frame, thread.frame(thread.code("sub"), 0));
  g_main_thread = reinterpret_cast<void*>(sub.address());
  g_unchecked_state = nullptr;  // nobody holds it
  EXPECT_EQ(thread.names(), "main");
  g_sub_interpreter = reinterpret_cast<void*>(sub_interpreter.address());
  EXPECT_EQ(thread.names(), "sub main");
  EXPECT_FALSE(thread.walk().holds_gil);
  sub.set(kPython310.tstate_frame, std::uint64_t{0});  // it runs nothing there
  EXPECT_EQ(thread.names(), "main");
}

TEST(PythonStack, FindsSubInterpreterFrom312) {
  FakeThread thread(kPython313);
  thread.top(thread.frame(thread.code("sub"), thread.shim(0)));
  Memory& main = thread.python.make(4096);
  main.set(kPython313.tstate_thread_id, reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()));
  main.set(kPython313.tstate_frame, thread.frame(thread.code("main"), thread.shim(0), 0, kOwnedByGenerator));
  g_main_interpreter = reinterpret_cast<void*>(main.address());  // not the one of this state
  g_main_thread = reinterpret_cast<void*>(main.address());
  EXPECT_EQ(thread.names(), "sub main");
  EXPECT_EQ(thread.entry_frames(), (Counts{1, 1}));
}

}  // namespace
}  // namespace clusterprof::agent
