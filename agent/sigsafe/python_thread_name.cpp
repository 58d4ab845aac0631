// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/python_thread_name.h"

#include <cstring>

#include "agent/pyabi/instance_layout.h"
#include "agent/sigsafe/code_table.h"
#include "agent/sigsafe/peek.h"
#include "agent/sigsafe/python_attribute.h"
#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

std::uint64_t find_thread_name(const PythonStack& python) noexcept {
  const PythonRuntime* const runtime = python_runtime();
  if (runtime == nullptr || python.count == 0 || python.truncated) return 0;
  const InstanceLayout* const layout = instance_layout(runtime->layout.minor);
  // Another build than the one that the offsets are of.
  if (layout == nullptr || !runtime->layout_is_compiled_in) return 0;
  const PythonFrame& outermost = python.frames[python.count - 1];
  const auto name = peek<std::uint64_t>(outermost.code_address + runtime->layout.code_name);
  if (!is_text(*runtime, name, "_bootstrap") && !is_text(*runtime, name, "Thread._bootstrap")) return 0;
  const auto thread = peek<std::uint64_t>(outermost.frame_address + layout->frame_locals);
  return find_attribute(*runtime, *layout, thread, "_name", sizeof "_name" - 1);
}

void tell_thread_name(std::uint64_t object, wire::ThreadSlot& slot) noexcept {
  const PythonRuntime* const runtime = python_runtime();
  if (runtime == nullptr) return;
  char text[wire::kThreadNameBytes] = {};
  const std::uint32_t bytes = copy_text(*runtime, object, text, sizeof text);
  if (bytes == 0) return;
  slot.python_name_bytes.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::uint32_t i = 0; i < slot.python_name.size(); ++i) {
    std::uint64_t word;
    std::memcpy(&word, text + 8 * i, sizeof word);
    slot.python_name[i].store(word, std::memory_order_relaxed);
  }
  slot.python_name_bytes.store(bytes, std::memory_order_release);
}

}  // namespace clusterprof::agent
