// SPDX-License-Identifier: BSD-3-Clause
// Replaces the native frames of the C eval loop by the Python frames that it runs. The two stacks are matched
// by the activations of the eval loop. If their numbers disagree, the walk was disturbed, and the flags say
// so.
#include "agent/sigsafe/modules.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/python_runtime.h"
#include "agent/sigsafe/python_stack.h"
#include "formats/wire/sample.h"

namespace clusterprof::agent {
namespace {

// The address by which a frame is looked up: the call instruction, not the one after it.
std::uint64_t lookup_pc(const NativeStack& native, std::uint32_t index) noexcept {
  return native.frames[index].pc - (index != 0 ? 1 : 0);
}

// True for an interposed function, or what it calls: the program called libc.
bool is_agent_code(std::uint64_t pc) noexcept {
  return pc >= g_process.own_start[0] && pc < g_process.own_end[0];
}

class Words {
 public:
  Words(std::uint64_t* words, std::uint32_t capacity) noexcept : words_(words), capacity_(capacity) {}

  void native(const NativeStack& stack, std::uint32_t index) noexcept {
    // The format takes the first word for an exact pc: a caller that comes first, since the frames
    // below it are not shown, is given by its call instruction.
    const std::uint64_t pc = count_ == 0 ? lookup_pc(stack, index) : stack.frames[index].pc;
    if (index != 0 && is_agent_code(lookup_pc(stack, index))) return;
    if ((pc & wire::kFrameTagMask) != 0) return;  // not user space: a broken frame, or vsyscall
    if (!take(1)) return;
    words_[count_++] = pc;
  }
  void python(const PythonFrame& frame, bool approximate = false) noexcept {
    if (!take(2)) return;
    words_[count_++] =
        wire::kPythonFrameTag | (approximate ? wire::kApproximateLine : 0u) | frame.instruction;
    words_[count_++] = frame.code_id;
    has_python_ = true;
  }
  std::uint32_t count() const noexcept { return count_; }
  bool has_python() const noexcept { return has_python_; }
  bool cut() const noexcept { return cut_; }

 private:
  bool take(std::uint32_t words) noexcept {
    if (capacity_ - count_ < words) cut_ = true;
    return !cut_;
  }

  std::uint64_t* words_;
  std::uint32_t capacity_;
  std::uint32_t count_ = 0;
  bool has_python_ = false, cut_ = false;
};

// One activation of the C eval loop and the Python frames it runs, possibly none.
struct Activation {
  bool matched;  // `native` is its frame; else its frame was not found
  std::uint32_t native;
  std::uint32_t frames;
};

// Matches activations by the address of something that lies in their C frame.
class AddressMatcher {
 public:
  AddressMatcher(const PythonRuntime& runtime, const NativeStack& native, const PythonStack& python) noexcept
      : runtime_(runtime), native_(native), python_(python) {}

  // Innermost first. False at the end, or when the native stack does not reach that far.
  bool next(Activation& activation) noexcept {
    if (entry_ == python_.entries) return false;
    const std::uint64_t address = python_.entry_address[entry_];
    activation.frames = python_.entry_frames[entry_];
    std::uint32_t index = native_index_;
    while (index + 1 < native_.count && native_.frames[index + 1].sp <= address) ++index;
    const bool inside = index < native_.count && native_.frames[index].sp <= address;
    const bool bounded = index + 1 < native_.count;  // by the next frame
    const bool found = inside && (bounded || reaches(index, address));
    if (!found && !bounded && native_.truncated) return false;
    ++entry_;
    activation.native = index;
    activation.matched = found && runtime_.interpreter.contains(native_.frames[index].pc);
    if (activation.matched) {
      note_eval_code(runtime_, lookup_pc(native_, index));
      native_index_ = index + 1;
    } else {
      failed_ = true;
    }
    return true;
  }
  bool failed() const noexcept { return failed_; }

 private:
  // The end of the last frame of a stack that was cut is not known.
  bool reaches(std::uint32_t index, std::uint64_t address) const noexcept {
    constexpr std::uint64_t kLargestEvalFrameBytes = 16 * 1024;
    return native_.truncated && address - native_.frames[index].sp < kLargestEvalFrameBytes &&
           is_eval_code(runtime_, lookup_pc(native_, index));
  }

  const PythonRuntime& runtime_;
  const NativeStack& native_;
  const PythonStack& python_;
  std::uint32_t entry_ = 0, native_index_ = 0;
  bool failed_ = false;
};

// Matches activations by counting, for versions that have one activation per Python frame and leave no trace
// of it on the C stack. Complete stacks are aligned at the outermost end: on the way into and out of the eval
// loop there is one activation more than there are frames, the innermost one.
class CountMatcher {
 public:
  CountMatcher(const PythonRuntime& runtime, const NativeStack& native, const PythonStack& python) noexcept
      : runtime_(runtime), native_(native), frames_(python.count) {
    std::uint32_t activations = 0;
    for (std::uint32_t i = 0; i < native.count; ++i) activations += is_eval(i);
    if (activations >= frames_) {
      without_frame_ = activations - frames_;
      failed_ = without_frame_ > 1 && !native.truncated && !python.truncated;
    } else if (!native.truncated) {
      failed_ = true;
      index_ = native.count;
    }
  }

  bool next(Activation& activation) noexcept {
    while (index_ < native_.count && !is_eval(index_)) ++index_;
    if (index_ >= native_.count || frames_ == 0) return false;
    activation = {true, index_++, 1};
    if (without_frame_ != 0) {
      --without_frame_;
      activation.frames = 0;
    } else {
      --frames_;
    }
    return true;
  }
  bool failed() const noexcept { return failed_; }

 private:
  bool is_eval(std::uint32_t index) const noexcept {
    return is_eval_code(runtime_, lookup_pc(native_, index));
  }

  const PythonRuntime& runtime_;
  const NativeStack& native_;
  std::uint32_t frames_;
  std::uint32_t without_frame_ = 0;
  std::uint32_t index_ = 0;
  bool failed_ = false;
};

class Merger {
 public:
  Merger(const PythonRuntime& runtime, const NativeStack& native, const PythonStack& python,
         Words& words) noexcept
      : runtime_(runtime), native_(native), python_(python), words_(words) {}

  // False when some activation was not found although the native stack is complete.
  template <typename Matcher>
  bool merge(Matcher matcher) noexcept {
    std::uint32_t next_native = 0;  // the first one not dealt with
    std::uint32_t next_python = 0;
    bool any_matched = false, last_failed = false;
    Activation activation;
    while (matcher.next(activation)) {
      // What was called by an activation that was not found cannot be told from what it called.
      if (activation.matched && !last_failed) between(next_native, activation.native);
      if (activation.matched) {
        next_native = activation.native + 1;
        if (is_trampoline(next_native)) ++next_native;
      }
      last_failed = !activation.matched;
      any_matched |= activation.matched;
      for (std::uint32_t i = 0; i < activation.frames && next_python < python_.count; ++i) {
        python(next_python++);
      }
    }
    bool good = !matcher.failed();
    if (next_python < python_.count) {
      // The rest of the Python frames was run by activations beyond the end of the native stack.
      if (native_.truncated) {
        between(next_native, native_.count);
      } else if (!python_.truncated || !any_matched) {
        good = false;
      }
      while (next_python < python_.count) python(next_python++);
      next_native = native_.count;
    }
    if (any_matched) root(next_native);
    return good;
  }

 private:
  // What the JIT has made writes the frame's instruction down only where it may call, or fail.
  void python(std::uint32_t index) noexcept {
    words_.python(python_.frames[index], leaf_is_compiled_ && words_.count() == 0);
  }

  // Native frames [begin, end), up to the next activation. Nearest the leaf all of them count;
  // between Python frames those of the interpreter only say that it calls.
  void between(std::uint32_t begin, std::uint32_t end) noexcept {
    const bool leaf = !words_.has_python();
    const std::uint32_t compiled = begin_of_compiled(begin, end);
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint64_t pc = lookup_pc(native_, i);
      if (is_eval_code(runtime_, pc) || (!leaf && runtime_.interpreter.contains(pc))) continue;
      if (i >= compiled) {
        if (i == 0) leaf_is_compiled_ = true;
        continue;
      }
      words_.native(native_, i);
    }
  }

  // Of frames that lead up to an activation: the innermost one in code of the JIT, which is in no object file
  // and called by the interpreter alone. With what leads to it, it runs the activation's own Python frames.
  // Code of other compilers is called by an object file of theirs. `end`: there is none.
  std::uint32_t begin_of_compiled(std::uint32_t begin, std::uint32_t end) const noexcept {
    std::uint32_t found = end;
    if (g_jit_runs.load(std::memory_order_relaxed) == 0) return found;
    for (std::uint32_t i = end; i != begin; --i) {
      const std::uint64_t pc = lookup_pc(native_, i - 1);
      if (runtime_.interpreter.contains(pc)) continue;
      if (!is_in_no_object(pc)) break;
      found = i - 1;
    }
    return found;
  }

  static bool is_in_no_object(std::uint64_t pc) noexcept {
    const ModuleTable* const table = module_table();
    Module module;
    return table != nullptr && (pc & wire::kFrameTagMask) == 0 && !find_module(table, pc, module);
  }

  // With -X perf (3.12 on) every Python function is called through a few instructions of its own, made at
  // run time: what called an activation and lies in no object file.
  bool is_trampoline(std::uint32_t index) const noexcept {
    constexpr std::uint8_t kFirstMinorWithTrampolines = 12;
    if (index >= native_.count || runtime_.layout.minor < kFirstMinorWithTrampolines) return false;
    const std::uint64_t pc = lookup_pc(native_, index);
    return !runtime_.interpreter.contains(pc) && is_in_no_object(pc);
  }

  // What called the outermost activation: how a python or a thread starts is not worth showing,
  // but a program that embeds the interpreter is.
  void root(std::uint32_t begin) noexcept {
    bool other = false;
    for (std::uint32_t i = begin; i < native_.count; ++i) {
      const std::uint64_t pc = lookup_pc(native_, i);
      other |= !is_start_up(pc) && !runtime_.libc.contains(pc);
    }
    for (std::uint32_t i = begin; other && i < native_.count; ++i) {
      if (!is_start_up(lookup_pc(native_, i))) words_.native(native_, i);
    }
  }

  bool is_start_up(std::uint64_t pc) const noexcept {
    return runtime_.interpreter.contains(pc) || runtime_.launcher.contains(pc) ||
           runtime_.ourselves.contains(pc) || (pc & wire::kFrameTagMask) != 0;
  }

  const PythonRuntime& runtime_;
  const NativeStack& native_;
  const PythonStack& python_;
  Words& words_;
  bool leaf_is_compiled_ = false;
};

// In the interpreter, only taking and handing over the GIL waits on a condition variable, and only taking it
// does so with a timeout. Before and after the wait, the thread is in the function that takes the GIL.
bool waits_for_gil(const PythonRuntime& runtime, const NativeStack& native,
                   const PythonStack& python) noexcept {
  if (!python.thread_has_state || !python.gil_known || python.holds_gil) return false;
  constexpr std::uint32_t kDeepest = 6;  // system call wrappers inside pthread_cond_timedwait
  for (std::uint32_t i = 0; i < native.count && i < kDeepest; ++i) {
    const std::uint64_t pc = lookup_pc(native, i);
    if (takes_gil(pc)) return true;
    const bool timed = runtime.condition_timed_wait.contains(pc);
    if ((!timed && !runtime.condition_wait.contains(pc)) || i + 1 == native.count) continue;
    const std::uint64_t caller = lookup_pc(native, i + 1);
    const bool waits = runtime.interpreter.contains(caller);
    if (waits && timed) note_gil_taker(runtime, caller);
    return waits;
  }
  return false;
}

// It is known only of an interpreter, not of a thread, that it collects garbage. The thread that does so has
// a frame of the collector on its stack, if that code is known and is seen at all.
bool collects_garbage(const NativeStack& native, const PythonStack& python) noexcept {
  constexpr std::uint32_t kPatience = 32;
  if (!python.collecting_garbage) return false;
  CollectorCode& collector = g_collector_code;
  const std::uint32_t count = collector.count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; count != 0 && i < native.count; ++i) {
    const std::uint64_t pc = lookup_pc(native, i);
    for (std::uint32_t range = 0; range < count; ++range) {
      if (!collector.ranges[range].contains(pc)) continue;
      collector.hits.store(1, std::memory_order_relaxed);
      return true;
    }
  }
  const bool is_whole = native.count != 0 && !native.truncated;
  if (count == 0 || !is_whole) return !python.collects_elsewhere;
  if (collector.hits.load(std::memory_order_relaxed) != 0) return false;
  if (!python.collects_elsewhere) collector.misses.fetch_add(1, std::memory_order_relaxed);
  return collector.misses.load(std::memory_order_relaxed) > kPatience && !python.collects_elsewhere;
}

void check_merging(const NativeStack& native, const PythonStack& python, bool good) noexcept {
  SelfCheck& check = g_self_check;
  if (native.truncated || python.truncated || check.merges.load(std::memory_order_relaxed) >= kCheckedStacks)
    return;
  if (!good) check.bad_merges.fetch_add(1, std::memory_order_relaxed);
  check.merges.fetch_add(1, std::memory_order_relaxed);
}

// A thread of the interpreter without Python frames.
void check_absence(const PythonRuntime& runtime, const NativeStack& native,
                   const PythonStack& python) noexcept {
  SelfCheck& check = g_self_check;
  if (!python.thread_has_state || python.finalizing || check.passed.load(std::memory_order_relaxed) != 0)
    return;
  for (std::uint32_t i = 0; i < native.count; ++i) {
    if (!is_eval_code(runtime, lookup_pc(native, i))) continue;
    check.missing.fetch_add(1, std::memory_order_relaxed);
    return;
  }
}

}  // namespace

std::uint32_t merge_stacks(const NativeStack& native, const PythonStack& python, std::uint64_t* words,
                           std::uint32_t capacity, std::uint32_t& flags) noexcept {
  Words out(words, capacity);
  const PythonRuntime* runtime = python_runtime();
  if (native.truncated) flags |= wire::kNativeTruncated;
  if (python.finalizing) flags |= wire::kFinalizing;
  if (collects_garbage(native, python)) flags |= wire::kCollectingGarbage;
  if (runtime != nullptr && waits_for_gil(*runtime, native, python)) flags |= wire::kWaitingForGil;

  if (python.count == 0 || runtime == nullptr) {
    if (runtime != nullptr) check_absence(*runtime, native, python);
    for (std::uint32_t i = 0; i < native.count; ++i) out.native(native, i);
    if (out.cut()) flags |= wire::kNativeTruncated;
    return out.count();
  }
  flags |= wire::kHasPython;
  if (python.truncated) flags |= wire::kPythonTruncated;
  if (native.count != 0 && merging_is_given_up()) {
    flags |= wire::kMergeFailed;
    for (std::uint32_t i = 0; i < python.count; ++i) out.python(python.frames[i]);
  } else if (native.count == 0) {
    for (std::uint32_t i = 0; i < python.count; ++i) out.python(python.frames[i]);
  } else {
    Merger merger(*runtime, native, python, out);
    const bool good = runtime->layout.chain == FrameChain::kFrameObjects
                          ? merger.merge(CountMatcher(*runtime, native, python))
                          : merger.merge(AddressMatcher(*runtime, native, python));
    if (!good) flags |= wire::kMergeFailed;
    check_merging(native, python, good);
  }
  if (out.cut()) flags |= wire::kPythonTruncated;
  return out.count();
}

}  // namespace clusterprof::agent
