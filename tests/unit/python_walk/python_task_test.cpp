// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/python_task.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "agent/discovery/asyncio_debug.h"
#include "agent/pyabi/cpython_3_08.h"
#include "agent/pyabi/cpython_3_10.h"
#include "agent/pyabi/cpython_3_11.h"
#include "agent/pyabi/cpython_3_13.h"
#include "agent/pyabi/cpython_3_14.h"
#include "agent/pyabi/instance_layout.h"
#include "agent/pyabi/task_layout.h"
#include "agent/sigsafe/code_table.h"
#include "tests/unit/python_walk/fake_python.hpp"

namespace clusterprof::agent {
namespace {

std::uint64_t g_tstate = 0;
void* this_thread_state() { return reinterpret_cast<void*>(g_tstate); }

constexpr AsyncioOffsets kOffsets = {168, 136, 128, 96, 108, 109, 872};

// An event loop, tasks and coroutines in memory, and the frames of the thread that runs a step.
class FakeTasks {
 public:
  explicit FakeTasks(const PythonLayout& of) : python(of), layout(of), at(*task_layout(of.minor)) {
    python.runtime.this_thread_state = this_thread_state;
    publish_python_runtime(&python.runtime);
    if (at.task_bytes == 0) g_asyncio_offsets = &kOffsets;
    future_type = type("_asyncio.Future", kTypeOnHeap);
    task_type = type("_asyncio.Task", kTypeOnHeap, future_type);
    set_size(task_type, at.task_bytes != 0 ? at.task_bytes : kOffsets.task_bytes);
    coroutine_type = type("coroutine");
  }
  ~FakeTasks() {
    publish_python_runtime(nullptr);
    g_asyncio_offsets = nullptr;
    g_handle_run = 0;
  }

  std::uint64_t type(const std::string& name, std::uint64_t flags = 0, std::uint64_t base = 0) {
    Memory& text = python.make(name.size() + 1);
    text.copy(0, name.c_str(), name.size() + 1);
    Memory& memory = python.make(1024);
    memory.set(kTypeName, text.address()).set(kTypeFlags, flags).set(kTypeBase, base);
    return memory.address();
  }
  static void set_size(std::uint64_t of, std::uint64_t bytes) {
    std::memcpy(reinterpret_cast<void*>(of + kTypeBasicSize), &bytes, sizeof bytes);
  }
  Memory& object(std::uint64_t of_type, std::size_t bytes = 256) {
    return python.make(bytes).set(kObjectType, of_type);
  }
  std::uint64_t code(const std::string& name, const std::string& file = "app.py") {
    return python.make_code(python.make_str(name), python.make_str(file), 7);
  }

  struct Coroutine {
    std::uint64_t object, frame;
  };
  // Suspended in `awaited`; 0: in something else. Its instruction is number 5.
  Coroutine coroutine(const std::string& name, std::uint64_t awaited = 0) {
    const std::uint64_t of = code(name);
    Memory& memory = object(coroutine_type, 512);
    Memory& own_frame = python.make(512);
    const bool embedded = at.generator_state != kAbsent;
    Memory& holder = embedded ? memory : own_frame;
    const std::size_t frame = embedded ? at.generator_frame : 0;
    holder.set(frame + layout.frame_code, of);
    if (embedded) {
      memory.set(at.generator_state, std::int8_t{-1});
      holder.set(frame + layout.frame_instruction, of + layout.code_instructions + 10);
    } else {
      memory.set(at.generator_frame, own_frame.address());
      holder.set(layout.frame_instruction,
                 std::int32_t{layout.instruction_field == InstructionField::kByteIndex ? 10 : 5});
    }
    Memory& values = python.make(64);
    const std::uint64_t other = python.make_str("another object on the stack");
    switch (at.stack_end) {
      case StackEnd::kPointer:
      case StackEnd::kStackPointer:
        values.set(0, other).set(8, awaited | layout.frame_code_tag_bits);
        holder.set(frame + at.stack_field, values.address() + 16);
        break;
      case StackEnd::kDepth:
        values.set(0, other).set(8, awaited);
        holder.set(at.stack_field, std::int32_t{2}).set(at.stack_values, values.address());
        break;
      case StackEnd::kIndex:
        holder.set(frame + at.stack_values, other).set(frame + at.stack_values + 8, awaited);
        holder.set(frame + at.stack_field, std::int32_t{2});
        break;
    }
    return {memory.address(), embedded ? memory.address() + frame : own_frame.address()};
  }

  Memory& task(std::uint64_t of_coroutine, const std::string& name) {
    Memory& memory = object(task_type);
    memory.set(at.task_bytes != 0 ? at.task_coroutine : kOffsets.task_coroutine, of_coroutine);
    memory.set(at.task_bytes != 0 ? at.task_name : kOffsets.task_name, python.make_str(name));
    if (at.task_bytes == 0) memory.set(kOffsets.is_task, std::uint8_t{1});
    return memory;
  }

  std::uint64_t wakeup(std::uint64_t of_task) {
    if (layout.minor < 10) return object(type("TaskWakeupMethWrapper")).set(kStepTask, of_task).address();
    Memory& text = python.make(16);
    text.copy(0, "task_wakeup", 12);
    Memory& definition = python.make(32);
    definition.set(0, text.address());
    return object(type("builtin_function_or_method"))
        .set(kBuiltinDefinition, definition.address())
        .set(kBuiltinSelf, of_task)
        .address();
  }
  std::uint64_t tuple(const std::vector<std::uint64_t>& items) {
    Memory& memory = object(type("tuple"), kTupleItems + 8 * items.size() + 8);
    memory.set(kSequenceSize, static_cast<std::int64_t>(items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) memory.set(kTupleItems + 8 * i, items[i]);
    return memory.address();
  }
  std::uint64_t function(const std::string& file, const std::vector<std::uint64_t>& variables) {
    std::vector<std::uint64_t> cells;
    for (const std::uint64_t content : variables)
      cells.push_back(object(type("cell")).set(kCellContent, content).address());
    return object(type("function"))
        .set(at.function_code, code("callback", file))
        .set(at.function_closure, tuple(cells))
        .address();
  }
  std::uint64_t more_callbacks(const std::vector<std::uint64_t>& callbacks) {
    Memory& items = python.make(8 * callbacks.size() + 8);
    for (std::size_t i = 0; i < callbacks.size(); ++i) items.set(8 * i, tuple({callbacks[i], 0}));
    return object(type("list"))
        .set(kSequenceSize, static_cast<std::int64_t>(callbacks.size()))
        .set(kListItems, items.address())
        .address();
  }

  // The thread runs a step of that task. Below its coroutine is a function that it has called.
  void run(std::uint64_t of_task, const Coroutine& of) {
    stack->count = 4;
    stack->frames[0] = {1, 0, false, code("called"), 0};
    stack->frames[1] = {2, 0, false, code("running"), of.frame};
    if (at.task_bytes == 0) {
      Memory& tstate = python.make(4096);
      tstate.set(kOffsets.running_task, of_task);
      g_tstate = tstate.address();
    }
    Memory& handle = object(type("Handle", kTypeOnHeap));
    handle.set(kHandleCallback,
               object(type("_asyncio.TaskStepMethWrapper", kTypeOnHeap)).set(kStepTask, of_task).address());
    Memory& frame = python.make(512);
    if (const InstanceLayout* const instance = instance_layout(layout.minor))
      frame.set(instance->frame_locals, handle.address());
    stack->frames[2] = {3, 0, false, code("Handle._run", "/lib/asyncio/events.py"), frame.address()};
    stack->frames[3] = {4, 0, false, code("BaseEventLoop._run_once"), 0};
    g_handle_run = 3;
  }

  const TaskStack& found() {
    *result = {};
    find_task(segment.header(), *stack, *result);
    return *result;
  }
  // Of those that await, the innermost first.
  std::vector<std::string> names() {
    std::vector<std::string> all;
    for (std::uint32_t i = 0; i < found().awaiting; ++i) {
      const auto entry = segment.find(result->frames[i].code_id);
      all.push_back(entry != nullptr ? entry->name : "not described");
      EXPECT_EQ(result->frames[i].instruction, 5u);
    }
    return all;
  }
  std::string name() {
    const TaskStack& task = found();
    return {task.name, task.name_bytes};
  }

  FakePython python;
  FakeSegment segment;
  PythonLayout layout;
  const TaskLayout& at;
  std::uint64_t future_type = 0, task_type = 0, coroutine_type = 0;
  std::unique_ptr<PythonStack> stack = std::make_unique<PythonStack>();
  std::unique_ptr<TaskStack> result = std::make_unique<TaskStack>();
};

using Names = std::vector<std::string>;

TEST(PythonTask, OfEachKindOfLayout) {
  for (const PythonLayout* const layout : {&kPython308, &kPython310, &kPython311, &kPython313}) {
    FakeTasks fake(*layout);
    const auto running = fake.coroutine("fetch");
    Memory& task = fake.task(running.object, "crawler");
    fake.run(task.address(), running);
    EXPECT_EQ(fake.found().running, 2u) << int{layout->minor};
    EXPECT_EQ(fake.name(), "crawler");
    EXPECT_EQ(fake.names(), Names{}) << "nobody awaits it";
    const auto inner = fake.coroutine("load");
    const auto outer = fake.coroutine("main", inner.object);
    task.set(kFutureCallback, fake.wakeup(fake.task(outer.object, "Task-1").address()));
    EXPECT_EQ(fake.names(), (Names{"load", "main"})) << int{layout->minor};
  }
}

TEST(PythonTask, ByWayOfFutures) {
  FakeTasks fake(kPython311);
  const auto running = fake.coroutine("fetch"), waits = fake.coroutine("main");
  Memory& task = fake.task(running.object, "a");
  fake.run(task.address(), running);
  const std::uint64_t main = fake.task(waits.object, "b").address();
  Memory& outer = fake.object(fake.type("_GatheringFuture", kTypeOnHeap, fake.future_type));
  outer.set(kFutureCallback, fake.wakeup(main));
  // asyncio.gather: the function has the children, too.
  task.set(kFutureCallback, fake.function("/lib/asyncio/tasks.py",
                                          {fake.python.make_str("x"), task.address(), outer.address()}));
  EXPECT_EQ(fake.names(), Names{"main"});
  // Of a program's own function nobody knows what it does with a future.
  const std::uint64_t own = fake.function("/app/tasks.py", {outer.address()});
  task.set(kFutureCallback, own);
  EXPECT_EQ(fake.names(), Names{});
  // A further callback.
  Memory& partial = fake.object(fake.type("functools.partial", kTypeOnHeap));
  partial.set(kPartialFunction, fake.function("/lib/asyncio/tasks.py", {}));
  partial.set(kPartialArguments, fake.tuple({outer.address()}));
  task.set(kFutureCallbacks, fake.more_callbacks({own, partial.address()}));
  EXPECT_EQ(fake.names(), Names{"main"});
}

TEST(PythonTask, OfATaskGroup) {
  FakeTasks fake(kPython311);
  const auto running = fake.coroutine("fetch"), waits = fake.coroutine("main");
  Memory& task = fake.task(running.object, "a");
  fake.run(task.address(), running);
  const std::uint64_t main = fake.task(waits.object, "b").address();
  const InstanceLayout& instance = *instance_layout(11);
  Memory& keys = fake.python.make(512);
  keys.set(instance.keys_entry_count, std::int64_t{1}).set(instance.keys_size, std::uint8_t{3});
  keys.set(kKeysKind, std::uint8_t{1}).set(instance.keys_indices + 8u, fake.python.make_str("_parent_task"));
  Memory& values = fake.python.make(64);
  values.set(instance.values_data, main);
  const std::uint64_t metatype = fake.type("type", kTypeOfTypes);
  Memory& group_type = fake.python.make(1024);
  group_type.set(kObjectType, metatype).set(kTypeFlags, std::uint64_t{kTypeOnHeap | kTypeHasManagedDict});
  group_type.set(instance.type_cached_keys, keys.address());
  Memory& around = fake.python.make(256);
  constexpr std::size_t kGroup = 64;
  around.set(kGroup + kObjectType, group_type.address()).set(kGroup - kValuesBefore, values.address());
  Memory& method = fake.object(fake.type("method"));
  method.set(kMethodFunction, fake.function("/lib/asyncio/taskgroups.py", {}));
  method.set(kMethodSelf, around.address() + kGroup);
  task.set(kFutureCallback, method.address());
  EXPECT_EQ(fake.names(), Names{"main"});
}

TEST(PythonTask, ChainsOfTasksEnd) {
  FakeTasks fake(kPython311);
  const auto running = fake.coroutine("c"), second = fake.coroutine("b"), third = fake.coroutine("a");
  Memory& task = fake.task(running.object, "c");
  Memory& middle = fake.task(second.object, "b");
  Memory& last = fake.task(third.object, "a");
  fake.run(task.address(), running);
  task.set(kFutureCallback, fake.wakeup(middle.address()));
  middle.set(kFutureCallback, fake.wakeup(last.address()));
  EXPECT_EQ(fake.names(), (Names{"b", "a"}));
  last.set(kFutureCallback, fake.wakeup(task.address()));
  EXPECT_EQ(fake.names(), (Names{"b", "a"})) << "they await each other";
  // A coroutine that awaits itself.
  Memory& circle = fake.python.make(512);
  circle.set(kObjectType, fake.coroutine_type).set(fake.at.generator_state, std::int8_t{-1});
  circle.set(fake.at.generator_frame + fake.layout.frame_code, fake.code("circle"));
  circle.set(fake.at.generator_frame + fake.at.stack_field, std::int32_t{1});
  circle.set(fake.at.generator_frame + fake.at.stack_values, circle.address());
  last.set(fake.at.task_coroutine, circle.address()).set(kFutureCallback, std::uint64_t{0});
  EXPECT_EQ(fake.found().awaiting, TaskStack::kMost);
}

TEST(PythonTask, WhatIsNotAsItShouldBeIsLeftOut) {
  FakeTasks fake(kPython311);
  const auto running = fake.coroutine("fetch"), waits = fake.coroutine("main");
  Memory& task = fake.task(running.object, "a");
  fake.run(task.address(), running);
  Memory& main = fake.task(waits.object, "b");
  task.set(kFutureCallback, fake.wakeup(main.address()));
  ASSERT_EQ(fake.names(), Names{"main"});
  for (const std::uint64_t bad : {std::uint64_t{0}, std::uint64_t{12}, fake.python.make_str("main")}) {
    main.set(fake.at.task_coroutine, bad);
    EXPECT_EQ(fake.names(), Names{}) << bad;
    main.set(fake.at.task_coroutine, waits.object);
    task.set(fake.at.task_name, bad == 0 ? bad : std::uint64_t{12});
    EXPECT_EQ(fake.name(), "");
  }
  // A coroutine that runs awaits nothing.
  std::memset(reinterpret_cast<void*>(waits.object + fake.at.generator_state), 0, 1);
  EXPECT_EQ(fake.names(), Names{});
  // The outermost frame below the loop is not the task's.
  fake.stack->frames[1].frame_address += 8;
  EXPECT_EQ(fake.found().running, 0u);
  fake.stack->frames[1].frame_address -= 8;
  EXPECT_EQ(fake.found().running, 2u);
  FakeTasks::set_size(fake.task_type, 184);
  EXPECT_EQ(fake.found().running, 0u) << "tasks of another build";
  FakeTasks::set_size(fake.task_type, fake.at.task_bytes);
  g_handle_run = 99;
  EXPECT_EQ(fake.found().running, 0u) << "no event loop";
  EXPECT_TRUE(may_run_task(*fake.stack));
  g_handle_run = 0;
  EXPECT_FALSE(may_run_task(*fake.stack));
}

TEST(PythonTask, AsTheInterpreterDescribesThem) {
  FakeTasks fake(kPython314);
  const auto running = fake.coroutine("fetch"), inner = fake.coroutine("load");
  const auto outer = fake.coroutine("main", inner.object);
  Memory& task = fake.task(running.object, "crawler");
  fake.run(task.address(), running);
  EXPECT_EQ(fake.name(), "crawler");
  EXPECT_EQ(fake.found().running, 2u);
  Memory& main = fake.task(outer.object, "b");
  task.set(kOffsets.awaited_by, main.address());
  EXPECT_EQ(fake.names(), (Names{"load", "main"}));
  // A future in between, and several that await it.
  Memory& future = fake.object(fake.future_type);
  task.set(kOffsets.awaited_by, future.address());
  Memory& table = fake.python.make(8 * kSetEntryBytes);
  table.set(5 * kSetEntryBytes, main.address());
  Memory& set = fake.object(fake.type("set"));
  set.set(kSetMask, std::uint64_t{7}).set(kSetTable, table.address());
  future.set(kOffsets.awaited_by, set.address()).set(kOffsets.awaited_by_is_set, std::uint8_t{1});
  EXPECT_EQ(fake.names(), (Names{"load", "main"}));
}

struct Table {
  std::uint64_t words[13] = {168, 136, 96, 108, 109, 128, 152, 400'000, 7000, 1000, 864, 872, 880};
};

TEST(AsyncioOffsets, AreRead) {
  static_assert(sizeof(Table) == kAsyncioOffsetsBytes);
  AsyncioOffsets offsets{};
  Table table;
  ASSERT_TRUE(read_asyncio_offsets(&table, offsets));
  EXPECT_EQ(std::memcmp(&offsets, &kOffsets, sizeof offsets), 0);
  for (const std::size_t word : {0u, 1u, 2u, 3u, 4u, 5u, 9u, 11u}) {
    for (const std::uint64_t bad : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
      table = {};
      table.words[word] = bad;
      EXPECT_FALSE(read_asyncio_offsets(&table, offsets)) << word << ' ' << bad;
    }
  }
}

[[gnu::section(".AsyncioDebug"), gnu::used]] Table g_table;

TEST(AsyncioOffsets, AreInASectionOfTheirOwn) {
  Section section{};
  ASSERT_TRUE(find_section("/proc/self/exe", ".AsyncioDebug", section));
  EXPECT_EQ(section.bytes, sizeof g_table);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(&g_table) % 4096, section.address % 4096);
  EXPECT_FALSE(find_section("/proc/self/exe", ".AsyncioDebugs", section));
  EXPECT_FALSE(find_section("/proc/self/maps", ".AsyncioDebug", section));
  EXPECT_FALSE(find_section("/nowhere", ".AsyncioDebug", section));
}

TEST(HandleRun, IsKnownByItsNameAndFile) {
  FakeTasks fake(kPython311);
  const auto describe = [&](const std::string& name, const std::string& file, std::uint64_t id) {
    const std::uint64_t text = fake.python.make_str(name), path = fake.python.make_str(file);
    const CodeFingerprint code{fake.python.make_code(text, path, 1), text, path, 1};
    describe_code(fake.python.runtime, fake.segment.header(), 1, code, id);
  };
  describe("_run", "/app/events.py", 11);
  describe("Handle._run_once", "/lib/asyncio/events.py", 12);
  EXPECT_EQ(g_handle_run.load(), 0u);
  describe("Handle._run", "/lib/asyncio/events.py", 13);
  EXPECT_EQ(g_handle_run.load(), 13u);
  describe("_run", "/lib/python3.8/asyncio/events.py", 14);
  EXPECT_EQ(g_handle_run.load(), 14u);
}

}  // namespace
}  // namespace clusterprof::agent
