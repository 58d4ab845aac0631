// SPDX-License-Identifier: BSD-3-Clause
// Functions of libraries with which programs mark parts of themselves: PETSc's stages, LIKWID's markers,
// Caliper's and ROCTX's regions. Ours stand in front and pass every call on.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdio>

#include "agent/annotations/domains.h"
#include "agent/lifecycle/start.h"
#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {
namespace {

bool is_foreign(void* function) noexcept {
  return function != nullptr && !is_own_code(reinterpret_cast<std::uintptr_t>(function));
}

// What the caller would have reached without ours: the first one that is loaded for all to see, or else that
// of the libraries that the caller was linked with.
void* search(const char* name, const void* caller) noexcept {
  const int error = errno;
  void* function = dlsym(RTLD_NEXT, name);
  Dl_info info;
  link_map* map = nullptr;
  if (!is_foreign(function) && dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 &&
      map != nullptr && map->l_name != nullptr && map->l_name[0] != 0) {
    if (void* const handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD); handle != nullptr) {
      function = dlsym(handle, name);
      dlclose(handle);  // it stays as long as its caller
    }
  }
  errno = error;
  return is_foreign(function) ? function : nullptr;
}

// A function of a library, found at its first call.
template <typename Type>
class Next;
template <typename Result, typename... Arguments>
class Next<Result(Arguments...)> {
 public:
  explicit constexpr Next(const char* name) noexcept : name_(name) {}
  // 0 where there is none: a program may have asked for the name alone.
  Result operator()(const void* caller, Arguments... arguments) {
    void* function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = search(name_, caller);
      if (function == nullptr) return Result();
      function_.store(function, std::memory_order_release);
    }
    return reinterpret_cast<Result (*)(Arguments...)>(function)(arguments...);
  }

 private:
  const char* name_;
  std::atomic<void*> function_ = nullptr;
};

RegionName plain(const char* name) noexcept { return region_name(name != nullptr ? name : ""); }

constexpr std::uint32_t kStages = 256;
constinit std::atomic<KeptName*> g_stages[kStages] = {};

constinit Next<int(const char*, int*)> g_register_stage("PetscLogStageRegister");
constinit Next<int(int)> g_push_stage("PetscLogStagePush");
constinit Next<int()> g_pop_stage("PetscLogStagePop");
constinit Next<int(const char*)> g_start_marker("likwid_markerStartRegion"),
    g_stop_marker("likwid_markerStopRegion");
constinit Next<void(const char*)> g_begin_region("cali_begin_region"), g_end_region("cali_end_region"),
    g_begin_phase("cali_begin_phase"), g_end_phase("cali_end_phase"), g_begin_comm("cali_begin_comm_region"),
    g_end_comm("cali_end_comm_region");
constinit Next<int(const char*)> g_push_range("roctxRangePushA");
constinit Next<int()> g_pop_range("roctxRangePop");

}  // namespace
}  // namespace clusterprof::agent

#define CLUSTERPROF_EXPORTED extern "C" [[gnu::visibility("default")]]
#define CLUSTERPROF_CALLER __builtin_return_address(0)

// --- PETSc: a stage is a number ---

CLUSTERPROF_EXPORTED int PetscLogStageRegister(const char* name, int* stage) {
  using namespace clusterprof::agent;
  const int result = g_register_stage(CLUSTERPROF_CALLER, name, stage);
  if (result == 0 && stage != nullptr && static_cast<std::uint32_t>(*stage) < kStages)
    g_stages[*stage].store(keep_name(name), std::memory_order_release);
  return result;
}
CLUSTERPROF_EXPORTED int PetscLogStagePush(int stage) {
  using namespace clusterprof::agent;
  ensure_started();
  const int result = g_push_stage(CLUSTERPROF_CALLER, stage);
  if (result != 0) return result;
  const KeptName* const name =
      static_cast<std::uint32_t>(stage) < kStages ? g_stages[stage].load(std::memory_order_acquire) : nullptr;
  if (name != nullptr) {
    begin_region(kPetsc, name->name(), kNoNumber);
  } else {
    char number[32];
    snprintf(number, sizeof number, "stage %d", stage);
    begin_region(kPetsc, region_name(number), kNoNumber);
  }
  return result;
}
CLUSTERPROF_EXPORTED int PetscLogStagePop() {
  using namespace clusterprof::agent;
  const int result = g_pop_stage(CLUSTERPROF_CALLER);
  if (result == 0) end_region(kPetsc);
  return result;
}

// --- LIKWID: regions of one thread may overlap ---

CLUSTERPROF_EXPORTED int likwid_markerStartRegion(const char* name) {
  using namespace clusterprof::agent;
  ensure_started();
  begin_region(kLikwid, plain(name), kNoNumber);
  return g_start_marker(CLUSTERPROF_CALLER, name);
}
CLUSTERPROF_EXPORTED int likwid_markerStopRegion(const char* name) {
  using namespace clusterprof::agent;
  const int result = g_stop_marker(CLUSTERPROF_CALLER, name);
  end_region(kLikwid, plain(name));
  return result;
}

// --- Caliper ---

#define CLUSTERPROF_CALIPER(begins, ends, next_begin, next_end) \
  CLUSTERPROF_EXPORTED void begins(const char* name) {          \
    using namespace clusterprof::agent;                         \
    ensure_started();                                           \
    begin_region(kCaliper, plain(name), kNoNumber);             \
    next_begin(CLUSTERPROF_CALLER, name);                       \
  }                                                             \
  CLUSTERPROF_EXPORTED void ends(const char* name) {            \
    using namespace clusterprof::agent;                         \
    next_end(CLUSTERPROF_CALLER, name);                         \
    end_region(kCaliper, plain(name));                          \
  }
CLUSTERPROF_CALIPER(cali_begin_region, cali_end_region, g_begin_region, g_end_region)
CLUSTERPROF_CALIPER(cali_begin_phase, cali_end_phase, g_begin_phase, g_end_phase)
CLUSTERPROF_CALIPER(cali_begin_comm_region, cali_end_comm_region, g_begin_comm, g_end_comm)

// --- ROCTX ---

CLUSTERPROF_EXPORTED int roctxRangePushA(const char* name) {
  using namespace clusterprof::agent;
  ensure_started();
  begin_region(kRoctx, plain(name), kNoNumber);
  return g_push_range(CLUSTERPROF_CALLER, name);
}
CLUSTERPROF_EXPORTED int roctxRangePop() {
  using namespace clusterprof::agent;
  const int result = g_pop_range(CLUSTERPROF_CALLER);
  end_region(kRoctx);
  return result;
}
