// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/real.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "mpi-wrap/src/lifecycle.hpp"

namespace clusterprof::mpi_wrap {

Handles handles;
void* real_functions[wire::kMpiFunctionCount];
const clusterprof_agent_api* agent;

namespace {

constexpr std::size_t kPathBytes = 4096;

std::atomic<void*> library_handle;

// 0 not yet, 1 under way, 2 calls pass through, 3 calls are measured.
enum : int { kUndecided = 0, kDeciding = 1, kPassThrough = 2, kMeasuring = 3 };
std::atomic<int> decision;
std::atomic<long> deciding_thread;

const char* base_name(const char* path) noexcept {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool starts_with(const char* text, const char* prefix) noexcept {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Ours for either MPI: both may be loaded, each the next definition for the other.
bool is_wrapper_object(const char* path) noexcept {
  return starts_with(base_name(path), "libclusterprof_mpi_");
}

bool is_mpi_library(const char* path) noexcept {
  const char* name = base_name(path);
  for (const char* prefix : {"libmpi.", "libmpi_", "libmpich", "libpmpi", "libmpifort.", "libmpicxx."}) {
    if (starts_with(name, prefix)) return true;
  }
  return false;
}

// True when `function` is in an object that is not one of our wrappers.
bool is_foreign(void* function) noexcept {
  Dl_info info;
  return function != nullptr && dladdr(function, &info) != 0 && info.dli_fname != nullptr &&
         !is_wrapper_object(info.dli_fname);
}

struct NthObject {
  std::size_t wanted, seen;
  bool found;
  char path[kPathBytes];
};

int copy_nth(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto* nth = static_cast<NthObject*>(argument);
  if (nth->seen++ != nth->wanted) return 0;
  nth->found = true;
  const std::size_t length = strlen(info->dlpi_name);
  nth->path[0] = '\0';
  if (length < kPathBytes) memcpy(nth->path, info->dlpi_name, length + 1);
  return 1;
}

// A handle in which PMPI_Init is found, of an object that is loaded already; null if there is
// none. dlopen must not be called inside dl_iterate_phdr (it takes the loader's locks in the
// other order), hence one iteration per object; this runs once per process.
void* search_loaded_objects(bool by_name) noexcept {
  NthObject nth{};
  for (std::size_t i = 0;; ++i) {
    nth.wanted = i;
    nth.seen = 0;
    nth.found = false;
    dl_iterate_phdr(copy_nth, &nth);
    if (!nth.found) return nullptr;
    if (by_name && !is_mpi_library(nth.path)) continue;
    if (is_wrapper_object(nth.path)) continue;
    // The program itself has no name; its handle searches everything, hence is_foreign below.
    void* handle = dlopen(nth.path[0] == '\0' ? nullptr : nth.path, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) continue;
    if (is_foreign(dlsym(handle, "PMPI_Init"))) return handle;
    dlclose(handle);
  }
}

// Never a tool in between: those define MPI_X, the library alone PMPI_X.
void* find_library() noexcept {
  void* known = library_handle.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  void* handle = nullptr;
  void* next = dlsym(RTLD_NEXT, "PMPI_Init");
  Dl_info info;
  if (is_foreign(next) && dladdr(next, &info) != 0) {
    handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  }
  if (handle == nullptr) handle = search_loaded_objects(true);
  if (handle == nullptr) handle = search_loaded_objects(false);
  if (handle != nullptr) library_handle.store(handle, std::memory_order_release);
  return handle;
}

// The name by which an object is asked for, or that of its file.
const char* soname_of(const link_map& object) noexcept {
  const char* strings = nullptr;
  const ElfW(Dyn)* soname = nullptr;
  for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SONAME) soname = entry;
  }
  if (strings == nullptr || soname == nullptr) return base_name(object.l_name);
  return strings + soname->d_un.d_val;
}

// Is it that of the MPI standard (MPI 5.0, chapter 20)? Libraries have it beside their own, with the same
// variables and the same name in their version, but other handles, constants and statuses.
bool has_standard_interface(void* library) noexcept {
  using GetVersion = int (*)(int*, int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(library, "PMPI_Abi_get_version"));
  int major = -1, minor = -1;  // what it says of any other interface
  if (get_version != nullptr && get_version(&major, &minor) == MPI_SUCCESS && major >= 1) return true;
  Dl_info info;
  link_map* object = nullptr;
  void* const init = dlsym(library, "PMPI_Init");
  return init != nullptr && dladdr1(init, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) != 0 &&
         object != nullptr &&
         (starts_with(soname_of(*object), "libmpi_abi") ||
          starts_with(base_name(object->l_name), "libmpi_abi"));
}

bool library_has_our_interface(void* library) noexcept {
  if (has_standard_interface(library)) return false;
  const bool open_mpi = dlsym(library, "ompi_mpi_comm_world") != nullptr;
  if constexpr (CLUSTERPROF_MPI_OPENMPI) return open_mpi;
  if (open_mpi) return false;
  const auto get_version = reinterpret_cast<int (*)(char*, int*)>(dlsym(library, "PMPI_Get_library_version"));
  if (get_version == nullptr) return false;
  // Libraries write at most MPI_MAX_LIBRARY_VERSION_STRING bytes: 8192 in the MPICH family.
  static char text[8192];
  int length = 0;
  if (get_version(text, &length) != 0) return false;
  text[sizeof(text) - 1] = '\0';
  for (const char* name : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (strstr(text, name) != nullptr) return true;
  }
  return false;
}

bool find_handles() noexcept {
#if CLUSTERPROF_MPI_OPENMPI
  handles.comm_world = static_cast<MPI_Comm>(library_symbol("ompi_mpi_comm_world"));
  handles.comm_self = static_cast<MPI_Comm>(library_symbol("ompi_mpi_comm_self"));
  handles.comm_null = static_cast<MPI_Comm>(library_symbol("ompi_mpi_comm_null"));
  handles.datatype_null = static_cast<MPI_Datatype>(library_symbol("ompi_mpi_datatype_null"));
  handles.no_op = static_cast<MPI_Op>(library_symbol("ompi_mpi_op_no_op"));
  handles.group_null = static_cast<MPI_Group>(library_symbol("ompi_mpi_group_null"));
  return handles.comm_world != nullptr && handles.comm_self != nullptr && handles.comm_null != nullptr &&
         handles.datatype_null != nullptr;
#else
  handles = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL, MPI_DATATYPE_NULL, MPI_NO_OP, MPI_GROUP_NULL};
  return true;
#endif
}

// Our own code, and the library's Fortran and C++ bindings: the program's call site is below them.
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
  const char* off = getenv("CLUSTERPROF_NO_MPI");
  if (off != nullptr && off[0] != '\0' && strcmp(off, "0") != 0) return false;
  if (&clusterprof_agent_v1 == nullptr) return false;
  agent = clusterprof_agent_v1();
  if (agent == nullptr || agent->version != 5 || agent->segment() == nullptr) return false;
  return library_has_our_interface(library) && find_handles();
}

bool measuring(void* library) noexcept {
  int now = decision.load(std::memory_order_acquire);
  if (now >= kPassThrough) return now == kMeasuring;
  const long self = syscall(SYS_gettid);
  now = kUndecided;
  if (!decision.compare_exchange_strong(now, kDeciding, std::memory_order_acq_rel)) {
    while (now == kDeciding) {
      // A call that the library makes to itself while it is asked for its version.
      if (deciding_thread.load(std::memory_order_relaxed) == self) return false;
      sched_yield();
      now = decision.load(std::memory_order_acquire);
    }
    return now == kMeasuring;
  }
  deciding_thread.store(self, std::memory_order_relaxed);
  const bool yes = wanted(library);
  if (yes) {
    dl_iterate_phdr(add_code_ranges, nullptr);
    // Someone else's MPI_Init may have run before this object's first call.
    start_if_initialised();
  }
  deciding_thread.store(0, std::memory_order_relaxed);
  decision.store(yes ? kMeasuring : kPassThrough, std::memory_order_release);
  return yes;
}

// Stands in for a function that no loaded library has: the program looked whether the symbol is
// there (a weak reference, dlsym) and took ours for the library's.
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
  bool is_wrapper;  // of ours, for the other MPI
  bool is_library;
};

// What the program would have called if this object were not there.
Next next_definition(const char* name) noexcept {
  void* next = dlsym(RTLD_NEXT, name);
  Dl_info info;
  if (next == nullptr || dladdr(next, &info) == 0 || info.dli_fname == nullptr) return {};
  return {next, is_wrapper_object(info.dli_fname), is_mpi_library(info.dli_fname)};
}

}  // namespace

void* library_symbol(const char* name) noexcept {
  // A program that is not position independent has its own copy of a variable, and the library
  // uses that one.
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol != nullptr) return symbol;
  void* library = find_library();
  return library == nullptr ? nullptr : dlsym(library, name);
}

void* library_function(std::uint32_t number) noexcept {
  void* function = __atomic_load_n(&real_functions[number], __ATOMIC_ACQUIRE);
  if (function != nullptr) return function;
  void* library = find_library();
  if (library == nullptr) return nullptr;
  char name[96] = "P";
  strncat(name, wire::kMpiFunctionNames[number], sizeof(name) - 2);
  function = dlsym(library, name);
  if (!is_foreign(function)) function = dlsym(library, name + 1);
  if (!is_foreign(function)) return nullptr;
  __atomic_store_n(&real_functions[number], function, __ATOMIC_RELEASE);
  return function;
}

}  // namespace clusterprof::mpi_wrap

extern "C" {

extern void* clusterprof_mpi_slots[];

// From an entry point's first call: returns where to go, and keeps it for the next ones.
// Slot 2n is MPI_X of function n, 2n + 1 its PMPI_X.
[[gnu::used]] void* clusterprof_mpi_resolve(std::uint32_t slot) noexcept {
  using namespace clusterprof::mpi_wrap;
  const std::uint32_t number = slot / 2;
  void* target = library_function(number);
  if (target == nullptr) return reinterpret_cast<void*>(&missing_function);
  const char* name = clusterprof::wire::kMpiFunctionNames[number];
  char pmpi_name[96] = "P";
  strncat(pmpi_name, name, sizeof(pmpi_name) - 2);
  const Next next = next_definition(slot % 2 == 0 ? name : pmpi_name);
  const bool tool = slot % 2 == 0 && next.function != nullptr && !next.is_wrapper && !next.is_library;
  if (measuring(library_handle.load(std::memory_order_acquire))) {
    void* wrapper = tool ? next.function : wrapper_of(number);
    if (wrapper != nullptr) target = wrapper;
  } else if (decision.load(std::memory_order_acquire) == kDeciding) {
    return target;  // undecided yet: ask again at the next call
  } else if (tool || next.is_wrapper) {
    target = next.function;
  }
  __atomic_store_n(&clusterprof_mpi_slots[slot], target, __ATOMIC_RELEASE);
  return target;
}
}
