// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/python_runtime.h"

#include "agent/sigsafe/native_stack.h"

namespace clusterprof::agent {
namespace {

std::atomic<const PythonRuntime*> g_runtime{nullptr};

// Functions, or parts of them, that are known by a pc that was seen in them. Filled in order. An entry is
// valid once its `begin` is set, and never changes again.
class LearnedFunctions {
 public:
  bool contains(std::uint64_t pc) const noexcept {
    for (const Range& range : ranges_) {
      const std::uint64_t begin = range.begin.load(std::memory_order_acquire);
      if (begin == 0) return false;
      if (pc >= begin && pc < range.end.load(std::memory_order_relaxed)) return true;
    }
    return false;
  }
  void note(std::uint64_t pc) noexcept { unknown_.store(pc, std::memory_order_relaxed); }
  void learn() noexcept {
    if (unknown_.load(std::memory_order_relaxed) == 0) return;
    const std::uint64_t pc = unknown_.exchange(0, std::memory_order_relaxed);
    if (pc == 0 || claimed_.load(std::memory_order_relaxed) >= kMost) return;
    std::uint64_t begin = 0, end = 0;
    if (!find_function_range(pc, begin, end) || begin == 0) return;
    const std::uint32_t index = claimed_.fetch_add(1, std::memory_order_relaxed);
    if (index >= kMost) return;
    ranges_[index].end.store(end, std::memory_order_relaxed);
    ranges_[index].begin.store(begin, std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t kMost = 8;
  struct Range {
    std::atomic<std::uint64_t> begin, end;
  };
  Range ranges_[kMost];
  std::atomic<std::uint32_t> claimed_;
  std::atomic<std::uint64_t> unknown_;  // a pc in one to be learned
};
constinit LearnedFunctions g_eval_parts{}, g_gil_takers{};

}  // namespace

constinit CollectorCode g_collector_code = {};
constinit std::atomic<std::uint32_t> g_jit_runs{0};

const PythonRuntime* python_runtime() noexcept { return g_runtime.load(std::memory_order_acquire); }

void publish_python_runtime(const PythonRuntime* runtime) noexcept {
  g_runtime.store(runtime, std::memory_order_release);
}

bool is_eval_code(const PythonRuntime& runtime, std::uint64_t pc) noexcept {
  return runtime.eval.contains(pc) || g_eval_parts.contains(pc);
}

void note_eval_code(const PythonRuntime& runtime, std::uint64_t pc) noexcept {
  if (runtime.interpreter.contains(pc) && !is_eval_code(runtime, pc)) g_eval_parts.note(pc);
}

bool takes_gil(std::uint64_t pc) noexcept { return g_gil_takers.contains(pc); }

void note_gil_taker(const PythonRuntime& runtime, std::uint64_t pc) noexcept {
  if (!is_eval_code(runtime, pc) && !takes_gil(pc)) g_gil_takers.note(pc);
}

void learn_functions() noexcept {
  g_eval_parts.learn();
  g_gil_takers.learn();
}

}  // namespace clusterprof::agent
