// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/library.hpp"

#include <dlfcn.h>
#include <string.h>

#include <atomic>

#include "mpi-wrap/src/loaded_objects.hpp"
#include "mpi-wrap/src/object_name.hpp"

namespace clusterprof::mpi_wrap {

void* real_functions[wire::kMpiFunctionCount];

namespace {

std::atomic<void*> library_handle;

// True when `function` is in an object that is not one of our wrappers.
bool is_foreign(void* function) noexcept {
  Dl_info info;
  return function != nullptr && dladdr(function, &info) != 0 && info.dli_fname != nullptr &&
         !is_wrapper_object(info.dli_fname);
}

// Returns a handle, through which PMPI_Init is found, of an object that is loaded already; null if there is
// none.
void* search_loaded_objects(bool by_name) noexcept {
  return find_loaded_object(
      [by_name](const char* path) { return (!by_name || is_mpi_library(path)) && !is_wrapper_object(path); },
      [](void* handle) { return is_foreign(dlsym(handle, "PMPI_Init")); });
}

}  // namespace

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

#if CLUSTERPROF_MPI_STANDARD

std::uint64_t status_bytes(const MPI_Status& status) noexcept {
  const auto get_count = CLUSTERPROF_LIBRARY(MPI_Get_count_c);
  MPI_Count bytes = 0;
  if (get_count == nullptr || get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0) return 0;
  return static_cast<std::uint64_t>(bytes);
}

bool status_cancelled(const MPI_Status& status) noexcept {
  const auto test_cancelled = CLUSTERPROF_LIBRARY(MPI_Test_cancelled);
  int cancelled = 0;
  return test_cancelled != nullptr && test_cancelled(&status, &cancelled) == MPI_SUCCESS && cancelled != 0;
}

#endif

}  // namespace clusterprof::mpi_wrap
