// SPDX-License-Identifier: BSD-3-Clause
// PyTorch's operators and what programs name by record_function as regions (--torch-ops), through the
// callback that libtorch offers for every operator of every thread. libtorch asks at each operator which
// callbacks there are. That function is ours at first: it adds the callback when the first operator runs, and
// from then on is a jump to libtorch's own.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <iterator>

#include "agent/annotations/domains.h"
#include "agent/annotations/torch_forward.h"
#include "agent/annotations/torch_layout.h"
#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/torch_ops_state.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/process_state.h"

// std::optional<at::StepCallbacks> at::getStepCallbacksUnlessEmpty(at::RecordScope). The result is in memory
// of the caller's.
#define CLUSTERPROF_STEP_CALLBACKS "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE"
extern "C" [[gnu::visibility("default")]] void* clusterprof_torch_step_callbacks(
    void* result, std::uint32_t scope) __asm__(CLUSTERPROF_STEP_CALLBACKS);

namespace clusterprof::agent {
namespace {

using torch::Functions;
using torch::Layout;
using torch::Scope;
using StepCallbacks = void*(void* result, std::uint32_t scope);

// Complete before the callback is added.
constinit Functions g_torch = {};
constinit Layout g_layout = {};
constinit torch::ForwardPlaces* g_forward = nullptr;

constinit std::atomic<StepCallbacks*> g_step_callbacks = nullptr;  // libtorch's
constinit std::atomic<std::uint32_t> g_is_decided = 0;

// Of the calling thread: the number of its first node that has no place yet.
constexpr std::uint64_t kNoTorchNumber = ~std::uint64_t{0};
thread_local constinit std::uint64_t t_next_node = kNoTorchNumber;

// An operator makes one node or few.
constexpr std::uint64_t kMostTorchNodes = 256;

bool is_of_libtorch(const void* symbol) noexcept {
  return symbol != nullptr && !is_own_code(reinterpret_cast<std::uintptr_t>(symbol));
}

struct LoadedPath {
  std::uint32_t left;  // objects before it
  char path[4096];
};

int copy_loaded_path(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& wanted = *static_cast<LoadedPath*>(argument);
  if (wanted.left != 0) return --wanted.left, 0;
  const std::size_t length = info->dlpi_name != nullptr ? strlen(info->dlpi_name) : 0;
  wanted.path[0] = 0;
  if (length != 0 && length < sizeof wanted.path) memcpy(wanted.path, info->dlpi_name, length + 1);
  return 1;
}

// Of the first object that has the function. Python loads libtorch for itself alone, so it is looked for in
// each object: first where it is in most releases. Objects are opened after the walk has ended, since it
// holds a lock of the loader. The handle stays open.
void* find_libtorch(const char* function) noexcept {
  LoadedPath object;
  for (const bool by_name : {true, false}) {
    for (std::uint32_t i = 0;; ++i) {
      object.left = i;
      if (dl_iterate_phdr(copy_loaded_path, &object) == 0) break;
      if (object.path[0] == 0 || (by_name && strstr(object.path, "/libtorch_cpu.so") == nullptr)) continue;
      void* const handle = dlopen(object.path, RTLD_LAZY | RTLD_NOLOAD);
      if (handle == nullptr) continue;
      if (is_of_libtorch(dlsym(handle, function))) return handle;
      dlclose(handle);
    }
  }
  return nullptr;
}

// What autograd's engine does around each backward operator. Its own range would only repeat the name.
bool is_of_engine(const char* name) noexcept {
  constexpr char kEngine[] = "autograd::engine::evaluate_function";
  return strncmp(name, kEngine, sizeof kEngine - 1) == 0;
}

const char* torch_name(const void* record) noexcept {
  const char* const name = g_torch.name(record);
  return name != nullptr ? name : "";
}

Scope torch_scope(const void* record) noexcept {
  return static_cast<Scope>(torch::read<std::uint8_t>(record, g_layout.scope));
}

const RegionDomain& torch_domain(Scope scope) noexcept {
  return scope == Scope::kUser ? kTorchRecordFunction : kTorch;
}

// The place of the forward operator. What has no node of its own, as the sums of gradients, has none.
ForwardPlace find_forward(const void* record) noexcept {
  const auto sequence = torch::read<std::int64_t>(record, g_layout.sequence);
  const auto thread = torch::read<std::uint64_t>(record, g_layout.forward_thread);
  if (sequence < 0 || thread == 0) return {};
  const auto found = g_forward->find(g_process.generation, thread, static_cast<std::uint64_t>(sequence));
  if (found) return *found;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment != nullptr && !recording_is_off()) count_drop(segment, wire::DropReason::kTorchForwardLost);
  return {};
}

// The nodes that the thread has made since it was last looked at belong to the operator that ends now. The
// innermost operator ends first, so those around it find nothing new.
[[gnu::noinline]] void keep_forward(std::uint64_t next) noexcept {
  std::uint64_t node = t_next_node;
  t_next_node = next;
  if (node > next) return;  // the thread's numbers have been set back
  if (next - node > kMostTorchNodes) node = next - kMostTorchNodes;
  if (t_context.slot == nullptr || recording_is_off() || !may_walk_stacks()) return;
  const clusterprof_call_path path = clusterprof_io_path_entry(PathUse::kForward);
  if (path.hash == 0) return;
  for (; node != next; ++node)
    g_forward->put(g_process.generation, g_torch.current_thread(), node, ForwardPlace::of(path.offset, path.words));
}

torch::NoContext on_torch_start(const void* record) noexcept {
  const char* const name = torch_name(record);
  if (is_of_engine(name)) return {};
  if (t_next_node == kNoTorchNumber) t_next_node = g_torch.next_sequence();
  const Scope scope = torch_scope(record);
  begin_region(torch_domain(scope), region_name(name), kNoNumber,
               scope == Scope::kBackward ? find_forward(record) : ForwardPlace{});
  return {};
}

void on_torch_end(const void* record, void*) noexcept {
  const char* const name = torch_name(record);
  if (is_of_engine(name)) return;
  // That of an asynchronous operation may end elsewhere. The region ends with the one around it.
  if (torch::read<std::uint64_t>(record, g_layout.thread()) != g_torch.current_thread()) {
    if (wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire))
      count_drop(segment, wire::DropReason::kTorchOtherThread);
    return;
  }
  end_region(torch_domain(torch_scope(record)), region_name(name));
  if (const std::uint64_t next = g_torch.next_sequence(); next != t_next_node) keep_forward(next);
}

wire::TorchOps add_callback(void* libtorch) noexcept {
  void* functions[std::size(torch::kFunctionNames)];
  for (std::size_t i = 0; i < std::size(functions); ++i) {
    functions[i] = dlsym(libtorch, torch::kFunctionNames[i]);
    if (functions[i] == nullptr) return wire::TorchOps::kOtherRelease;
  }
  memcpy(&g_torch, functions, sizeof g_torch);
  const Layout* const layout = torch::find_layout(g_torch);
  if (layout == nullptr) return wire::TorchOps::kOtherLayout;
  g_layout = *layout;
  g_forward = static_cast<torch::ForwardPlaces*>(map_memory(sizeof *g_forward));
  if (g_forward == nullptr) return wire::TorchOps::kNoMemory;
  torch::Callback callback = {on_torch_start, on_torch_end, 1.0, {}, false, false, false};
  for (const Scope scope : {Scope::kFunction, Scope::kBackward, Scope::kTorchScript, Scope::kUser})
    callback.scopes[static_cast<std::size_t>(scope)] = true;
  g_torch.add_global_callback(callback);
  return wire::TorchOps::kActive;
}

// Something has been linked with the function, since it was found here, and no loaded library has it.
[[noreturn]] void end_without_libtorch() noexcept {
  for (const char* const part : {"clusterprof: no loaded library has ", CLUSTERPROF_STEP_CALLBACKS, "\n"})
    [[maybe_unused]] const auto written = write(STDERR_FILENO, part, strlen(part));
  abort();
}

// Several threads may come here at once. One of them adds the callback; operators of others may run before it
// has.
[[gnu::noinline, gnu::cold]] StepCallbacks* find_step_callbacks() noexcept {
  const int error = errno;
  void* const libtorch = find_libtorch(CLUSTERPROF_STEP_CALLBACKS);
  void* const function = dlsym(libtorch != nullptr ? libtorch : RTLD_NEXT, CLUSTERPROF_STEP_CALLBACKS);
  if (!is_of_libtorch(function)) end_without_libtorch();
  if (libtorch != nullptr && g_options.torch_ops &&
      g_process.segment.load(std::memory_order_acquire) != nullptr &&
      g_is_decided.exchange(1, std::memory_order_relaxed) == 0)
    set_torch_ops_state(add_callback(libtorch));
  auto* const found = reinterpret_cast<StepCallbacks*>(function);
  g_step_callbacks.store(found, std::memory_order_release);
  errno = error;
  return found;
}

}  // namespace
}  // namespace clusterprof::agent

void* clusterprof_torch_step_callbacks(void* result, std::uint32_t scope) {
  using namespace clusterprof::agent;
  StepCallbacks* found = g_step_callbacks.load(std::memory_order_acquire);
  if (found == nullptr) [[unlikely]]
    found = find_step_callbacks();
  return found(result, scope);
}
