// SPDX-License-Identifier: BSD-3-Clause
// A thread's frames end at the event loop, which runs a step of a task. Who awaits the task is not on the
// stack. It is what the task will call when it is done: the wake-up of another task, or a function of asyncio
// that fills a future for which another task waits (gather, wait, wait_for, shield), or a TaskGroup.
// From 3.14 on the interpreter keeps it itself (awaited_by). Of a suspended task, the coroutines are found
// from its outermost one: each has what it awaits on top of its frame's stack.
//
// Every pointer is checked before it is followed, and every type that decides how to read on. All loops are
// bounded, since a task that is changing may lead anywhere.
#include "agent/sigsafe/python_task.h"

#include "agent/pyabi/instance_layout.h"
#include "agent/pyabi/task_layout.h"
#include "agent/sigsafe/code_table.h"
#include "agent/sigsafe/peek.h"
#include "agent/sigsafe/python_attribute.h"
#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

std::atomic<const AsyncioOffsets*> g_asyncio_offsets{nullptr};

namespace {

constexpr std::uint32_t kMostTasks = 16;       // that await each other
constexpr std::uint32_t kMostFutures = 4;      // between two tasks
constexpr std::uint32_t kMostCallbacks = 8;    // of a future
constexpr std::uint32_t kMostVariables = 16;   // of a closure
constexpr std::uint32_t kMostBases = 8;        // of a type
constexpr std::uint32_t kMostSetEntries = 64;  // of the set of those that await a future
constexpr std::uint32_t kMostWrappers = 4;     // around a coroutine
constexpr std::int32_t kMostObjects = 4096;    // on a frame's stack

// Stores must not move past a read that may fault.
inline void keep_result() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

std::uint64_t type_of(std::uint64_t object) noexcept {
  const std::uint64_t type = is_plausible_object(object) ? peek<std::uint64_t>(object + kObjectType) : 0;
  return is_plausible_object(type) ? type : 0;
}

template <std::size_t N>
bool is_c_string(std::uint64_t text, const char (&expected)[N]) noexcept {
  constexpr std::uint64_t kFirst = 4096, kLast = std::uint64_t{1} << 47;
  if (text < kFirst || text >= kLast) return false;
  for (std::size_t i = 0; i < N; ++i)
    if (peek<char>(text + i) != expected[i]) return false;
  return true;
}

template <std::size_t N>
bool is_named(std::uint64_t type, const char (&name)[N]) noexcept {
  return type != 0 && is_c_string(peek<std::uint64_t>(type + kTypeName), name);
}

// Of a type of the interpreter: no class of the program's may have its name.
template <std::size_t N>
bool is_of_static_type(std::uint64_t object, const char (&name)[N]) noexcept {
  const std::uint64_t type = type_of(object);
  return is_named(type, name) && (peek<std::uint64_t>(type + kTypeFlags) & kTypeOnHeap) == 0;
}

class Visited {
 public:
  bool contains(std::uint64_t object) const noexcept {
    for (std::uint32_t i = 0; i < count_; ++i)
      if (objects_[i] == object) return true;
    return false;
  }
  void add(std::uint64_t object) noexcept {
    if (count_ < kMost) objects_[count_++] = object;
  }

 private:
  static constexpr std::uint32_t kMost = 1 + kMostTasks * kMostFutures;
  std::uint64_t objects_[kMost];
  std::uint32_t count_ = 0;
};

class Reader {
 public:
  Reader(const PythonRuntime& runtime, const TaskLayout& layout, wire::SegmentHeader& segment,
         TaskStack& out) noexcept
      : runtime_(runtime),
        layout_(layout),
        instance_(instance_layout(layout.minor)),
        offsets_(g_asyncio_offsets.load(std::memory_order_acquire)),
        segment_(segment),
        generation_(segment_generation(segment)),
        out_(out) {}

  bool knows_tasks() const noexcept {
    return layout_.task_bytes != 0 ? instance_ != nullptr : offsets_ != nullptr;
  }

  void read(const PythonStack& python) noexcept {
    const std::uint64_t task = running_task(python);
    if (!is_task(task)) return;
    const std::uint64_t frame = frame_of(peek<std::uint64_t>(task + coroutine_offset()));
    if (frame == 0) return;
    std::uint32_t running = 0;
    for (std::uint32_t i = 0; i < python.count && running == 0; ++i)
      if (python.frames[i].frame_address == frame) running = i + 1;
    if (running == 0) return;
    out_.running = running;
    keep_result();
    const std::uint64_t name = peek<std::uint64_t>(task + name_offset());
    out_.name_bytes = copy_text(runtime_, name, out_.name, sizeof out_.name);
    keep_result();
    visited_.add(task);
    std::uint64_t awaited = task;
    for (std::uint32_t i = 0; i < kMostTasks; ++i) {
      awaited = awaiting_task(awaited);
      if (awaited == 0) return;
      visited_.add(awaited);
      append_coroutines(peek<std::uint64_t>(awaited + coroutine_offset()));
    }
  }

 private:
  std::uint16_t coroutine_offset() const noexcept {
    return layout_.task_bytes != 0 ? layout_.task_coroutine : offsets_->task_coroutine;
  }
  std::uint16_t name_offset() const noexcept {
    return layout_.task_bytes != 0 ? layout_.task_name : offsets_->task_name;
  }

  // Of type _asyncio.Future, or of one that is derived from it.
  bool is_future(std::uint64_t object) const noexcept {
    std::uint64_t type = type_of(object);
    for (std::uint32_t i = 0; i < kMostBases && is_plausible_object(type); ++i) {
      if (is_named(type, "_asyncio.Future")) return true;
      type = peek<std::uint64_t>(type + kTypeBase);
    }
    return false;
  }

  bool is_task(std::uint64_t object) const noexcept {
    const std::uint64_t bytes = layout_.task_bytes != 0 ? layout_.task_bytes : offsets_->task_bytes;
    std::uint64_t type = type_of(object);
    for (std::uint32_t i = 0; i < kMostBases && is_plausible_object(type); ++i) {
      if (is_named(type, "_asyncio.Task")) return peek<std::uint64_t>(type + kTypeBasicSize) == bytes;
      type = peek<std::uint64_t>(type + kTypeBase);
    }
    return false;
  }

  // 0: none.
  std::uint64_t running_task(const PythonStack& python) const noexcept {
    if (layout_.task_bytes == 0) {
      const auto tstate = reinterpret_cast<std::uint64_t>(runtime_.this_thread_state());
      return is_plausible_object(tstate) ? peek<std::uint64_t>(tstate + offsets_->running_task) : 0;
    }
    const std::uint64_t handle_run = g_handle_run.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < python.count; ++i) {
      if (python.frames[i].code_id != handle_run) continue;
      const auto handle = peek<std::uint64_t>(python.frames[i].frame_address + instance_->frame_locals);
      if (type_of(handle) == 0) return 0;
      const auto callback = peek<std::uint64_t>(handle + kHandleCallback);
      const std::uint64_t type = type_of(callback);
      if (is_named(type, "TaskStepMethWrapper") || is_named(type, "_asyncio.TaskStepMethWrapper"))
        return peek<std::uint64_t>(callback + kStepTask);
      return task_of_wakeup(callback);
    }
    return 0;
  }

  // The task that the callback of a future wakes up; 0: it is none of these.
  std::uint64_t task_of_wakeup(std::uint64_t callback) const noexcept {
    if (is_of_static_type(callback, "TaskWakeupMethWrapper"))
      return peek<std::uint64_t>(callback + kStepTask);
    if (!is_of_static_type(callback, "builtin_function_or_method")) return 0;
    const auto definition = peek<std::uint64_t>(callback + kBuiltinDefinition);
    return is_plausible_object(definition) && is_c_string(peek<std::uint64_t>(definition), "task_wakeup")
               ? peek<std::uint64_t>(callback + kBuiltinSelf)
               : 0;
  }

  // Whether it is a Python function that is defined there.
  template <std::size_t N>
  bool is_function_of(std::uint64_t function, const char (&file)[N]) const noexcept {
    if (!is_of_static_type(function, "function")) return false;
    const auto code = peek<std::uint64_t>(function + layout_.function_code);
    return is_code(code) &&
           ends_with(runtime_, peek<std::uint64_t>(code + runtime_.layout.code_filename), file);
  }

  // The task or future that is told when what has this callback is done. 0: none.
  std::uint64_t told_by(std::uint64_t callback) const noexcept {
    if (const std::uint64_t task = task_of_wakeup(callback); task != 0) return task;
    if (is_function_of(callback, "/asyncio/tasks.py"))
      return future_in_closure(peek<std::uint64_t>(callback + layout_.function_closure));
    if (is_of_static_type(callback, "method")) {
      const auto function = peek<std::uint64_t>(callback + kMethodFunction);
      constexpr char kParent[] = "_parent_task";
      return is_function_of(function, "/asyncio/taskgroups.py")
                 ? find_attribute(runtime_, *instance_, peek<std::uint64_t>(callback + kMethodSelf), kParent,
                                  sizeof kParent - 1)
                 : 0;
    }
    if (!is_named(type_of(callback), "functools.partial") ||
        !is_function_of(peek<std::uint64_t>(callback + kPartialFunction), "/asyncio/tasks.py"))
      return 0;
    const auto arguments = peek<std::uint64_t>(callback + kPartialArguments);
    if (!is_of_static_type(arguments, "tuple") || peek<std::int64_t>(arguments + kSequenceSize) < 1) return 0;
    const auto first = peek<std::uint64_t>(arguments + kTupleItems);
    return is_future(first) ? first : 0;
  }

  std::uint64_t future_in_closure(std::uint64_t closure) const noexcept {
    if (!is_of_static_type(closure, "tuple")) return 0;
    const auto count = peek<std::int64_t>(closure + kSequenceSize);
    for (std::int64_t i = 0; i < count && i < kMostVariables; ++i) {
      const auto cell = peek<std::uint64_t>(closure + kTupleItems + 8 * static_cast<std::uint64_t>(i));
      if (!is_of_static_type(cell, "cell")) continue;
      const auto content = peek<std::uint64_t>(cell + kCellContent);
      if (is_future(content) && !visited_.contains(content)) return content;
    }
    return 0;
  }

  // The task that awaits a future or another task, be it by way of further futures. 0: none.
  std::uint64_t awaiting_task(std::uint64_t future) noexcept {
    for (std::uint32_t hop = 0; hop < kMostFutures; ++hop) {
      const std::uint64_t next = layout_.task_bytes != 0 ? told_by_callbacks(future) : awaiter_of(future);
      if (next == 0 || visited_.contains(next)) return 0;
      if (is_task(next)) return next;
      if (!is_future(next)) return 0;
      visited_.add(next);
      future = next;
    }
    return 0;
  }

  // A task, if one of the callbacks leads to one, else a future.
  std::uint64_t told_by_callbacks(std::uint64_t future) const noexcept {
    std::uint64_t found = told_unless_visited(peek<std::uint64_t>(future + kFutureCallback));
    if (is_task(found)) return found;
    const auto more = peek<std::uint64_t>(future + kFutureCallbacks);
    if (!is_of_static_type(more, "list")) return found;
    const auto count = peek<std::int64_t>(more + kSequenceSize);
    const auto items = peek<std::uint64_t>(more + kListItems);
    for (std::int64_t i = 0; i < count && i < kMostCallbacks && is_plausible_object(items); ++i) {
      const auto pair = peek<std::uint64_t>(items + 8 * static_cast<std::uint64_t>(i));
      if (!is_of_static_type(pair, "tuple") || peek<std::int64_t>(pair + kSequenceSize) < 1) continue;
      const std::uint64_t told = told_unless_visited(peek<std::uint64_t>(pair + kTupleItems));
      if (is_task(told)) return told;
      if (found == 0) found = told;
    }
    return found;
  }

  std::uint64_t told_unless_visited(std::uint64_t callback) const noexcept {
    const std::uint64_t told = told_by(callback);
    return visited_.contains(told) ? 0 : told;
  }

  // As the interpreter keeps it.
  std::uint64_t awaiter_of(std::uint64_t future) const noexcept {
    const auto by = peek<std::uint64_t>(future + offsets_->awaited_by);
    if (peek<std::uint8_t>(future + offsets_->awaited_by_is_set) == 0) return by;
    if (!is_of_static_type(by, "set")) return 0;
    const auto mask = peek<std::uint64_t>(by + kSetMask);
    const auto table = peek<std::uint64_t>(by + kSetTable);
    for (std::uint64_t i = 0; i <= mask && i < kMostSetEntries && is_plausible_object(table); ++i) {
      const auto key = peek<std::uint64_t>(table + i * kSetEntryBytes);
      if (is_future(key) && !visited_.contains(key)) return key;
    }
    return 0;
  }

  bool is_code(std::uint64_t code) const noexcept { return type_of(code) == runtime_.code_type; }

  bool is_coroutine(std::uint64_t object) const noexcept {
    return is_of_static_type(object, "coroutine") || is_of_static_type(object, "generator") ||
           is_of_static_type(object, "async_generator");
  }

  // 0: it has none, or is no coroutine.
  std::uint64_t frame_of(std::uint64_t coroutine) const noexcept {
    if (!is_coroutine(coroutine)) return 0;
    const std::uint64_t at = coroutine + layout_.generator_frame;
    if (layout_.generator_state != kAbsent) return at;
    const auto frame = peek<std::uint64_t>(at);
    return is_plausible_object(frame) ? frame : 0;
  }

  bool is_suspended(std::uint64_t coroutine) const noexcept {
    return layout_.generator_state == kAbsent || peek<std::int8_t>(coroutine + layout_.generator_state) < 0;
  }

  // The coroutine that a suspended one awaits. 0: a future, or something else.
  std::uint64_t awaited_coroutine(std::uint64_t frame) const noexcept {
    std::uint64_t top = 0;  // behind the last object
    switch (layout_.stack_end) {
      case StackEnd::kPointer:
      case StackEnd::kStackPointer:
        top = peek<std::uint64_t>(frame + layout_.stack_field);
        break;
      case StackEnd::kDepth:
      case StackEnd::kIndex: {
        const auto count = peek<std::int32_t>(frame + layout_.stack_field);
        if (count <= 0 || count > kMostObjects) return 0;
        const std::uint64_t values = layout_.stack_end == StackEnd::kDepth
                                         ? peek<std::uint64_t>(frame + layout_.stack_values)
                                         : frame + layout_.stack_values;
        top = values + 8 * static_cast<std::uint64_t>(count);
        break;
      }
    }
    if (!is_plausible_object(top)) return 0;
    const std::uint64_t tags = runtime_.layout.frame_code_tag_bits;
    if (const std::uint64_t found = unwrap(peek<std::uint64_t>(top - 8) & ~tags); found != 0) return found;
    // 3.15 may have an index above it.
    return layout_.stack_end == StackEnd::kStackPointer ? unwrap(peek<std::uint64_t>(top - 16) & ~tags) : 0;
  }

  std::uint64_t unwrap(std::uint64_t object) const noexcept {
    for (std::uint32_t i = 0; i < kMostWrappers; ++i) {
      if (is_coroutine(object)) return object;
      if (!is_of_static_type(object, "coroutine_wrapper") &&
          !is_of_static_type(object, "async_generator_asend") &&
          !is_of_static_type(object, "async_generator_athrow") &&
          !is_of_static_type(object, "anext_awaitable"))
        return 0;
      object = peek<std::uint64_t>(object + kWrapped);
    }
    return 0;
  }

  std::uint32_t instruction_of(std::uint64_t frame, std::uint64_t code) const noexcept {
    const PythonLayout& layout = runtime_.layout;
    std::int64_t index = -1;
    switch (layout.instruction_field) {
      case InstructionField::kByteIndex:
        index = peek<std::int32_t>(frame + layout.frame_instruction);
        if (index > 0) index /= 2;
        break;
      case InstructionField::kUnitIndex:
        index = peek<std::int32_t>(frame + layout.frame_instruction);
        break;
      case InstructionField::kPointer:
        index = static_cast<std::int64_t>(peek<std::uint64_t>(frame + layout.frame_instruction) -
                                          (code + layout.code_instructions)) /
                2;
        break;
    }
    return index >= 0 && index < wire::kInstructionNotStarted ? static_cast<std::uint32_t>(index)
                                                              : wire::kInstructionNotStarted;
  }

  // False: there is no room, or it is no frame.
  bool append(std::uint64_t frame, std::uint32_t at) noexcept {
    const PythonLayout& layout = runtime_.layout;
    const std::uint64_t code =
        peek<std::uint64_t>(frame + layout.frame_code) & ~std::uint64_t{layout.frame_code_tag_bits};
    if (at == TaskStack::kMost || !is_code(code)) return false;
    const CodeFingerprint fingerprint{
        code, peek<std::uint64_t>(code + layout.code_name), peek<std::uint64_t>(code + layout.code_filename),
        static_cast<std::uint32_t>(peek<std::int32_t>(code + layout.code_first_line))};
    const std::uint64_t id = code_id_of(fingerprint);
    if (!is_known_code(id, generation_) && !describe_code(runtime_, segment_, generation_, fingerprint, id))
      return false;
    out_.frames[at] = {id, instruction_of(frame, code)};
    return true;
  }

  // The frames of a suspended task, from its outermost coroutine on.
  void append_coroutines(std::uint64_t coroutine) noexcept {
    const std::uint32_t first = out_.awaiting;
    std::uint32_t end = first;
    for (std::uint64_t frame = frame_of(coroutine); frame != 0; frame = frame_of(coroutine)) {
      if (!is_suspended(coroutine) || !append(frame, end)) break;
      ++end;
      coroutine = awaited_coroutine(frame);
    }
    for (std::uint32_t low = first, high = end; low + 1 < high; ++low) {
      --high;
      const TaskStack::Frame frame = out_.frames[low];
      out_.frames[low] = out_.frames[high];
      out_.frames[high] = frame;
    }
    keep_result();
    out_.awaiting = end;
  }

  const PythonRuntime& runtime_;
  const TaskLayout& layout_;
  const InstanceLayout* const instance_;
  const AsyncioOffsets* const offsets_;
  wire::SegmentHeader& segment_;
  const std::uint64_t generation_;
  TaskStack& out_;
  Visited visited_;
};

}  // namespace

bool may_run_task(const PythonStack& python) noexcept {
  return python.count != 0 && !python.finalizing &&
         (g_handle_run.load(std::memory_order_relaxed) != 0 ||
          g_asyncio_offsets.load(std::memory_order_relaxed) != nullptr);
}

void find_task(wire::SegmentHeader& segment, const PythonStack& python, TaskStack& out) noexcept {
  const PythonRuntime* const runtime = python_runtime();
  if (runtime == nullptr || !runtime->layout_is_compiled_in) return;
  const TaskLayout* const layout = task_layout(runtime->layout.minor);
  if (layout == nullptr) return;
  Reader reader(*runtime, *layout, segment, out);
  if (reader.knows_tasks()) reader.read(python);
}

}  // namespace clusterprof::agent
