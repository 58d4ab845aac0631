// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
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

constexpr const char* kProcessGroup = "N4c10d12ProcessGroupE";
constexpr const char* kBackend = "N4c10d7BackendE";
constexpr const char* kOf1 = "torch.distributed over gloo (libtorch 1.13)";
constexpr const char* kOf2 = "torch.distributed over gloo (libtorch 2)";

// One row for each layout; those with the strings of before C++11 follow from it. Whether a row holds is
// asked of libtorch itself (holds), so releases that are not named here are recognised if they are like one
// of them.
constexpr Layout kLayouts[] = {
    {kOf1, kProcessGroup, 32, 168, 40},  // 1.13
    {kOf2, kBackend, 32, 168, 40},       // counts of references of 8 bytes each, as in 1.13
    {kOf2, kBackend, 24, 160, 32},       // of 4 bytes each: 2.6
    {kOf2, kBackend, 24, 152, 32},       // tensors without a pointer to their interpreter: 2.14
};
constinit Layout the_layout{};

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

bool has_symbol_of(void* handle, Hook hook) noexcept {
  return symbol_of(handle, kSymbols[static_cast<std::uint32_t>(hook)]) != nullptr;
}

void* search_loaded_objects(bool by_name) noexcept {
  return mpi_wrap::find_loaded_object(
      [by_name](const char* path) { return !by_name || strstr(path, "/libtorch_cpu.") != nullptr; },
      [](void* handle) {
        return has_symbol_of(handle, Hook::kNewGroup) || has_symbol_of(handle, Hook::kEndOfWork);
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

template <typename Function>
Function* function_of_library(const char* name) noexcept {
  return reinterpret_cast<Function*>(library_symbol(name));
}

bool has(Hook hook) noexcept { return library_symbol(kSymbols[static_cast<std::uint32_t>(hook)]) != nullptr; }

// What a function is called in other releases; kCount if it is not in all of them.
Hook other_name(Hook hook) noexcept {
  switch (hook) {
    case Hook::kAllgatherBase:
      return Hook::kAllGatherSingle;
    case Hook::kAllGatherSingle:
      return Hook::kAllgatherBase;
    case Hook::kAlltoallBase:
      return Hook::kAllToAllSingle;
    case Hook::kAllToAllSingle:
      return Hook::kAlltoallBase;
    case Hook::kExecute:
      return Hook::kExecuteByReference;
    case Hook::kExecuteByReference:
      return Hook::kExecute;
    case Hook::kConnect:
    case Hook::kAllgatherIntoCoalesced:
    case Hook::kAllGatherSingleCoalesced:
    case Hook::kReduceScatterBase:
    case Hook::kReduceScatterSingle:
    case Hook::kReduceScatterCoalesced:
    case Hook::kReduceScatterSingleCoalesced:
    case Hook::kAlltoall:
      return Hook::kCount;
    default:
      return hook;
  }
}

bool has_all_functions() noexcept {
  for (std::uint32_t i = 0; i < kHooks; ++i) {
    const auto hook = static_cast<Hook>(i);
    const Hook other = other_name(hook);
    if (other != Hook::kCount && !has(hook) && !has(other)) return false;
  }
  return true;
}

// A library that was linked with -Bsymbolic has its own functions in its tables of virtual functions.
bool leads_to_us() noexcept {
  void* const table = library_symbol("_ZTVN4c10d16ProcessGroupGlooE");
  Dl_info info;
  void* found = nullptr;
  if (table == nullptr || dladdr1(table, &info, &found, RTLD_DL_SYMENT) == 0 || found == nullptr)
    return false;
  const std::size_t bytes = static_cast<const ElfW(Sym)*>(found)->st_size;
  constexpr std::size_t kFirst = 16;
  for (std::size_t at = kFirst; at + 8 <= bytes; at += 8) {
    const auto* const function = read<const void*>(reinterpret_cast<Address>(table) + at);
    if (function != nullptr && is_ours(function)) return true;
  }
  return false;
}

// The strings of before C++11 are other types, so these constructors of PrefixStore have other names. Since
// libtorch 2 it takes the string by value. Builds with these strings: PyPI's wheels until 2.6.
bool has_strings(bool of_cxx11) noexcept {
  constexpr const char* kOfCxx11[] = {
      "_ZN4c10d11PrefixStoreC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEN3c1013intrusive_ptrINS_"
      "5StoreENS9_6detail34intrusive_target_default_null_typeISB_EEEE",
      "_ZN4c10d11PrefixStoreC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEN3c1013intrusive_ptrINS_"
      "5StoreENS7_6detail34intrusive_target_default_null_typeIS9_EEEE"};
  constexpr const char* kBefore[] = {
      "_ZN4c10d11PrefixStoreC1ERKSsN3c1013intrusive_ptrINS_5StoreENS3_6detail34intrusive_target_default_null_"
      "typeIS5_EEEE",
      "_ZN4c10d11PrefixStoreC1ESsN3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_"
      "typeIS3_EEEE"};
  for (const char* const symbol : of_cxx11 ? kOfCxx11 : kBefore)
    if (library_symbol(symbol) != nullptr) return true;
  return false;
}

bool is_derived_from(const char* base_class) noexcept {
  // A class with one base is described by its own vtable and name, then the base. The base is known by its
  // name, since libraries may have descriptions of their own of it.
  constexpr std::size_t kName = 8, kBaseClass = 16;
  void* const gloo = library_symbol("_ZTIN4c10d16ProcessGroupGlooE");
  if (gloo == nullptr) return false;
  const auto base = read<Address>(reinterpret_cast<Address>(gloo) + kBaseClass);
  return strcmp(read<const char*>(base + kName), base_class) == 0;
}

std::uint64_t do_nothing() noexcept { return 0; }

// An object that functions of libtorch are asked about: all zero, but for what is put into it. These
// functions only read one field; should a release call a virtual function for that, it does nothing.
class Probe {
 public:
  Probe() noexcept {
    for (Address& function : functions_) function = reinterpret_cast<Address>(&do_nothing);
    put(0, address_of(functions_));
  }
  template <typename Value>
  void put(std::size_t offset, Value value) noexcept {
    memcpy(bytes_ + offset, &value, sizeof value);
  }
  Address address() const noexcept { return address_of(bytes_); }

 private:
  static Address address_of(const void* object) noexcept { return reinterpret_cast<Address>(object); }
  Address functions_[64];
  alignas(16) unsigned char bytes_[512] = {};
};

bool finds_inner_store(const Layout& row) noexcept {
  // intrusive_ptr<Store> PrefixStore::getUnderlyingStore(): its result is in memory, and counts as a
  // reference.
  auto* const inner_of =
      function_of_library<void*(Address*, Address)>("_ZN4c10d11PrefixStore18getUnderlyingStoreEv");
  if (inner_of == nullptr) return false;
  Probe store, inner;
  inner.put(8, std::uint64_t{1});
  store.put(row.inner_store(), inner.address());
  Address found = 0;
  inner_of(&found, store.address());
  return found == inner.address();
}

bool finds_elements(const Layout& row) noexcept {
  // Of a const at::Tensor&, a pointer to a pointer to the object. SymInt is returned in memory.
  auto* const is_complex =
      function_of_library<bool(const Address*)>("_ZN2at6native10is_complexERKNS_6TensorE");
  auto* const count =
      function_of_library<void*(Address*, const Address*)>("_ZN2at6native9sym_numelERKNS_6TensorE");
  if (is_complex == nullptr) return false;
  constexpr std::uint16_t kComplexDouble = 10;
  Probe complex, counted;
  const Address nothing = counted.address();
  if (is_complex(&nothing)) return false;
  complex.put(row.elements + 8, kComplexDouble);
  const Address with_type = complex.address();
  if (!is_complex(&with_type)) return false;
  // Releases without this function have the number in front of the type, like all that we know.
  if (count == nullptr) return row.base_class == kProcessGroup;
  constexpr std::int64_t kElements = 4711;
  counted.put(row.elements, kElements);
  Address elements = 0;
  const Address with_elements = counted.address();
  count(&elements, &with_elements);
  return elements == static_cast<Address>(kElements);
}

bool holds(const Layout& row) noexcept {
  return is_derived_from(row.base_class) && has_strings(row.cxx11_strings) && finds_inner_store(row) &&
         finds_elements(row);
}

}  // namespace

void* library_symbol(const char* name) noexcept {
  void* const library = find_library();
  void* const symbol = library == nullptr ? nullptr : symbol_of(library, name);
  return symbol != nullptr ? symbol : dlsym(RTLD_NEXT, name);
}

const Layout& layout() noexcept { return the_layout; }

bool recognise_library() noexcept {
  if (!has_all_functions() || !leads_to_us()) return false;
  for (Layout row : kLayouts) {
    for (const bool cxx11_strings : {true, false}) {
      row.cxx11_strings = cxx11_strings;
      if (!holds(row)) continue;
      the_layout = row;
      return true;
    }
  }
  return false;
}

}  // namespace clusterprof::torch_wrap
