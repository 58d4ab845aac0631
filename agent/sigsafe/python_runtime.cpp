// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/python_runtime.h"

#include "agent/sigsafe/native_stack.h"

namespace clusterprof::agent {
namespace {

std::atomic<const PythonRuntime*> g_runtime{nullptr};

// Filled in order; an entry counts once its `begin` is set, and never changes again.
struct EvalPart {
  std::atomic<std::uint64_t> begin, end;
};
constexpr std::uint32_t kMaxEvalParts = 8;
EvalPart g_parts[kMaxEvalParts];
std::atomic<std::uint32_t> g_parts_claimed{0};
std::atomic<std::uint64_t> g_unknown_part{0};  // a pc in a part to be learned

}  // namespace

const PythonRuntime* python_runtime() noexcept { return g_runtime.load(std::memory_order_acquire); }

void publish_python_runtime(const PythonRuntime* runtime) noexcept {
  g_runtime.store(runtime, std::memory_order_release);
}

bool is_eval_code(const PythonRuntime& runtime, std::uint64_t pc) noexcept {
  if (runtime.eval.contains(pc)) return true;
  for (const EvalPart& part : g_parts) {
    const std::uint64_t begin = part.begin.load(std::memory_order_acquire);
    if (begin == 0) return false;
    if (pc >= begin && pc < part.end.load(std::memory_order_relaxed)) return true;
  }
  return false;
}

void note_eval_code(const PythonRuntime& runtime, std::uint64_t pc) noexcept {
  if (!runtime.interpreter.contains(pc) || is_eval_code(runtime, pc)) return;
  g_unknown_part.store(pc, std::memory_order_relaxed);
}

void learn_eval_code() noexcept {
  if (g_unknown_part.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t pc = g_unknown_part.exchange(0, std::memory_order_relaxed);
  if (pc == 0 || g_parts_claimed.load(std::memory_order_relaxed) >= kMaxEvalParts) return;
  std::uint64_t begin = 0, end = 0;
  if (!find_function_range(pc, begin, end) || begin == 0) return;
  const std::uint32_t index = g_parts_claimed.fetch_add(1, std::memory_order_relaxed);
  if (index >= kMaxEvalParts) return;
  g_parts[index].end.store(end, std::memory_order_relaxed);
  g_parts[index].begin.store(begin, std::memory_order_release);
}

}  // namespace clusterprof::agent
