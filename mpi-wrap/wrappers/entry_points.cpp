// SPDX-License-Identifier: BSD-3-Clause
// Decides where the entry points (generated/stubs.cpp) lead.
//
// A call of MPI_X or PMPI_X comes here once. From then on the entry point leads to
//   the wrapper   when the agent records this process, CLUSTERPROF_NO_MPI is not set and the
//                 library has the binary interface this object was built for;
//   the library   otherwise, or to our object for another interface where that comes behind this
//                 one: a call through the entry point costs one jump;
//   another tool  for MPI_X, when a tool that wraps MPI_X stands between the program and the
//                 library: the tool's own call of PMPI_X is what is recorded.
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "agent/agent_api.h"
#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/generated/wrappers.hpp"
#include "mpi-wrap/src/binary_interface.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/object_name.hpp"
#include "mpi-wrap/src/start_and_end.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

// 0 not yet, 1 under way, 2 calls pass through, 3 calls are measured.
enum : int { kUndecided = 0, kDeciding = 1, kPassThrough = 2, kMeasuring = 3 };
std::atomic<int> decision;
std::atomic<long> deciding_thread;
// A thread has waited for the decision in vain; others need not try.
std::atomic<bool> decision_takes_long;

// Our own code, and the library's Fortran and C++ bindings: they are not the program's call site.
int add_code_ranges(dl_phdr_info* info, std::size_t, void*) noexcept {
  const char* name = base_name(info->dlpi_name);
  bool ours = is_wrapper_object(name);
  for (const char* prefix :
       {"libmpi_mpifh", "libmpi_usempi", "libmpi_cxx", "libmpichfort", "libmpichcxx", "libmpifort."}) {
    ours = ours || starts_with(name, prefix);
  }
  if (!ours) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    agent->add_wrapper_range(start, start + segment.p_memsz);
  }
  return 0;
}

bool wanted(void* library) noexcept {
  if (!state.attached) {
    const char* off = getenv("CLUSTERPROF_NO_MPI");
    if (off != nullptr && off[0] != '\0' && strcmp(off, "0") != 0) return false;
    if (&clusterprof_agent_v1 == nullptr) return false;
    agent = clusterprof_agent_v1();
  }
  if (agent == nullptr || agent->version != 10 || agent->segment() == nullptr) return false;
  return library_has_our_interface(library) && find_handles();
}

// Any other value than kPassThrough and kMeasuring: this call cannot know.
int decide(void* library) noexcept {
  int now = decision.load(std::memory_order_acquire);
  if (now >= kPassThrough) return now;
  const long self = syscall(SYS_gettid);
  now = kUndecided;
  if (!decision.compare_exchange_strong(now, kDeciding, std::memory_order_acq_rel)) {
    // Half a second at least. A thread that is in a constructor of dlopen has the loader's lock, which who
    // decides may need.
    constexpr int kMostAttempts = 10'000;
    int attempts = 0;
    agent::wait_until([&] {
      now = decision.load(std::memory_order_acquire);
      // A call that the library makes to itself while it is asked for its version.
      const bool is_own = deciding_thread.load(std::memory_order_relaxed) == self;
      if (now != kDeciding || is_own || decision_takes_long.load(std::memory_order_relaxed)) return true;
      if (++attempts < kMostAttempts) return false;
      decision_takes_long.store(true, std::memory_order_relaxed);
      return true;
    });
    return now;
  }
  deciding_thread.store(self, std::memory_order_relaxed);
  const bool yes = wanted(library);
  if (yes) {
    static bool has_ranges;  // of an earlier recording
    if (!has_ranges) dl_iterate_phdr(add_code_ranges, nullptr);
    has_ranges = true;
    if (state.attached) forget_world();
    // Someone else's MPI_Init may have run before this object's first call.
    start_if_initialised();
  }
  deciding_thread.store(0, std::memory_order_relaxed);
  decision_takes_long.store(false, std::memory_order_relaxed);
  const int decided = yes ? kMeasuring : kPassThrough;
  decision.store(decided, std::memory_order_release);
  return decided;
}

// Called instead of a function that no loaded library has: the program tested whether the symbol exists (with
// a weak reference or dlsym) and found ours.
int missing_function() noexcept {
  static std::atomic<bool> said;
  if (!said.exchange(true)) {
    constexpr char kText[] =
        "clusterprof: an MPI function was called, but no MPI library that has it is loaded\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  }
  return MPI_ERR_OTHER;
}

struct Next {
  void* function;
  bool is_wrapper;  // of ours, for another MPI
  bool is_library;
};

Next described(void* function) noexcept {
  Dl_info info;
  if (function == nullptr || dladdr(function, &info) == 0 || info.dli_fname == nullptr) return {};
  return {function, is_wrapper_object(info.dli_fname), is_mpi_library(info.dli_fname)};
}

// What the program would have called if this object were not there.
Next next_definition(const char* name) noexcept { return described(dlsym(RTLD_NEXT, name)); }

// What it would have called if none of ours were there. Each of them is asked for what comes behind it.
Next next_foreign(const char* name, Next next) noexcept {
  while (next.is_wrapper) {
    Dl_info info;
    void* const object =
        dladdr(next.function, &info) == 0 ? nullptr : dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (object == nullptr) return {};
    using NextOf = void* (*)(const char*);
    const auto next_of = reinterpret_cast<NextOf>(dlsym(object, "clusterprof_mpi_next_v1"));
    dlclose(object);
    if (next_of == nullptr) return {};
    next = described(next_of(name));
  }
  return next;
}

}  // namespace
}  // namespace clusterprof::mpi_wrap

extern "C" {

extern void* clusterprof_mpi_slots[];

// `clusterprof attach` has loaded this object, or begins another recording of the process. No entry point
// leads here yet. What needs the library is left to the program's first call: it may allow no other thread.
[[gnu::used, gnu::visibility("default")]] void clusterprof_mpi_attach_v1(
    const clusterprof_agent_api* given) noexcept {
  using namespace clusterprof::mpi_wrap;
  constexpr std::size_t kSlots = 2 * clusterprof::wire::kMpiFunctionCount;
  static void* first_targets[kSlots];
  if (!state.attached) {
    memcpy(first_targets, clusterprof_mpi_slots, sizeof first_targets);
  } else {
    state.running = false;  // calls that began before and end now count nothing
    for (std::size_t i = 0; i < kSlots; ++i)
      __atomic_store_n(&clusterprof_mpi_slots[i], first_targets[i], __ATOMIC_RELEASE);
  }
  agent = given;
  state.attached = true;
  decision.store(kUndecided, std::memory_order_release);
}

// The definition of a function that comes behind this object: for another one of ours in front of it.
[[gnu::used, gnu::visibility("default")]] void* clusterprof_mpi_next_v1(const char* name) noexcept {
  void* next = dlsym(RTLD_NEXT, name);
  // The loader takes who called it from the return address: this must not become a jump.
  __asm__ volatile("" : "+r"(next));
  return next;
}

// Called at an entry point's first call. Returns the target and stores it for later calls. Slot 2n is MPI_X
// of function n, slot 2n + 1 its PMPI_X.
[[gnu::used]] void* clusterprof_mpi_resolve(std::uint32_t slot) noexcept {
  using namespace clusterprof::mpi_wrap;
  const std::uint32_t number = slot / 2;
  void* target = library_function(number);
  if (target == nullptr) return reinterpret_cast<void*>(&missing_function);
  const char* name = clusterprof::wire::kMpiFunctionNames[number];
  char pmpi_name[96] = "P";
  strncat(pmpi_name, name, sizeof(pmpi_name) - 2);
  const Next next = next_definition(slot % 2 == 0 ? name : pmpi_name);
  const Next foreign = slot % 2 == 0 ? next_foreign(name, next) : Next{};
  const bool tool = foreign.function != nullptr && !foreign.is_library;
  const int decided = decide(find_library());
  if (decided == kMeasuring) {
    void* wrapper = tool ? foreign.function : wrapper_of(number);
    if (wrapper != nullptr) target = wrapper;
  } else if (decided != kPassThrough) {
    return target;  // ask again at the next call
  } else if (next.is_wrapper) {
    target = next.function;
  } else if (tool) {
    target = foreign.function;
  }
  __atomic_store_n(&clusterprof_mpi_slots[slot], target, __ATOMIC_RELEASE);
  return target;
}
}
