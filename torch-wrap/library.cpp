// SPDX-License-Identifier: BSD-3-Clause
#include "torch-wrap/library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <atomic>
#include <cstddef>

#include "mpi-wrap/src/loaded_objects.hpp"
#include "torch-wrap/hooks.hpp"
#include "torch-wrap/layout.hpp"

extern "C" const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

namespace clusterprof::torch_wrap {
namespace {

std::atomic<void*> library_handle;

bool is_ours(const void* symbol) noexcept {
  Dl_info info;
  return dladdr(symbol, &info) == 0 || info.dli_fbase == static_cast<const void*>(&__ehdr_start);
}

// Null: its symbol is not libtorch's.
void* symbol_of(void* handle, const char* name) noexcept {
  void* const symbol = dlsym(handle, name);
  return symbol == nullptr || is_ours(symbol) ? nullptr : symbol;
}

void* search_loaded_objects(bool by_name) noexcept {
  return mpi_wrap::find_loaded_object(
      [by_name](const char* path) { return !by_name || strstr(path, "/libtorch_cpu.") != nullptr; },
      [](void* handle) {
        return symbol_of(handle, kSymbols[0]) != nullptr ||
               symbol_of(handle, kSymbols[kHooks - 1]) != nullptr;
      });
}

void* find_library() noexcept {
  void* handle = library_handle.load(std::memory_order_acquire);
  if (handle != nullptr) return handle;
  handle = search_loaded_objects(true);
  if (handle == nullptr) handle = search_loaded_objects(false);
  if (handle != nullptr) library_handle.store(handle, std::memory_order_release);
  return handle;
}

}  // namespace

void* library_symbol(const char* name) noexcept {
  void* const library = find_library();
  void* const symbol = library == nullptr ? nullptr : symbol_of(library, name);
  return symbol != nullptr ? symbol : dlsym(RTLD_NEXT, name);
}

const char* known_release() noexcept {
  for (const char* const symbol : kSymbols)
    if (library_symbol(symbol) == nullptr) return nullptr;
  // Builds with the C++ ABI of before C++11, as PyPI's wheels of 1.13 are, lay out std::string in another
  // way.
  if (library_symbol(
          "_ZN4c10d11PrefixStoreC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEN3c1013intrusive_"
          "ptrINS_5StoreENS9_6detail34intrusive_target_default_null_typeISB_EEEE") == nullptr)
    return nullptr;
  // A class with one base is described by its own vtable and name, then the base.
  constexpr std::size_t kBaseClass = 16;
  void* const gloo = library_symbol("_ZTIN4c10d16ProcessGroupGlooE");
  void* const base = library_symbol("_ZTIN4c10d12ProcessGroupE");
  if (gloo == nullptr || base == nullptr) return nullptr;
  const auto derived_from = read<Address>(reinterpret_cast<Address>(gloo) + kBaseClass);
  return derived_from == reinterpret_cast<Address>(base) ? "1.13" : nullptr;
}

}  // namespace clusterprof::torch_wrap
