// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory-wrap/objects.hpp"

#include <cstring>

// Defined by the linker: start and end of this object in memory.
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start[];
extern "C" [[gnu::visibility("hidden")]] const char _end[];

namespace clusterprof::memory_wrap {
namespace {

struct Place {
  std::uintptr_t address;
  AddressRange found;
};

int find_place(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& place = *static_cast<Place*>(argument);
  const AddressRange range = agent::range_of(*info);
  if (!range.contains(place.address)) return 0;
  place.found = range;
  return 1;
}

const ElfW(Dyn) * dynamic_of(const dl_phdr_info& info) noexcept {
  for (int i = 0; i < info.dlpi_phnum; ++i)
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
      return reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
  return nullptr;
}

const char* file_of(const char* path) noexcept {
  const char* const slash = path != nullptr ? strrchr(path, '/') : nullptr;
  return slash != nullptr ? slash + 1 : path;
}

// Of an object and those that it was linked with, in the order in which the loader searches them.
struct Scope {
  static constexpr std::uint32_t kMost = 64;
  struct Member {
    std::uintptr_t base;
    const ElfW(Dyn) * dynamic;
  } members[kMost];
  std::uint32_t count;

  void add(const dl_phdr_info& info) noexcept {
    const ElfW(Dyn)* const dynamic = dynamic_of(info);
    if (dynamic == nullptr || count == kMost) return;
    for (std::uint32_t i = 0; i < count; ++i)
      if (members[i].dynamic == dynamic) return;
    members[count++] = {info.dlpi_addr, dynamic};
  }
};

struct Walk {
  std::uintptr_t caller;
  AddressRange calling;
  Scope scope;
  const char* needed;  // the file that is to be added to the scope
};

int find_caller(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& walk = *static_cast<Walk*>(argument);
  const AddressRange range = agent::range_of(*info);
  if (!range.contains(walk.caller)) return 0;
  walk.calling = range;
  walk.scope.add(*info);
  return 1;
}

int find_needed(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& walk = *static_cast<Walk*>(argument);
  const char* const file = file_of(info->dlpi_name);
  if (file == nullptr || strcmp(file, walk.needed) != 0) {
    const Dynamic dynamic = read_dynamic(info->dlpi_addr, dynamic_of(*info));
    if (dynamic.soname == nullptr || strcmp(dynamic.soname, walk.needed) != 0) return 0;
  }
  walk.scope.add(*info);
  return 1;
}

struct Search {
  const char* name;
  void* function;
};

int find_in_any(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& search = *static_cast<Search*>(argument);
  const ElfW(Dyn)* const dynamic = dynamic_of(*info);
  if (dynamic == nullptr || is_in_ourselves(dynamic)) return 0;
  search.function = function_in(read_dynamic(info->dlpi_addr, dynamic), search.name);
  return search.function != nullptr ? 1 : 0;
}

// What others may call by that name.
bool is_function(const ElfW(Sym) & symbol) noexcept {
  const auto type = ELF64_ST_TYPE(symbol.st_info), binding = ELF64_ST_BIND(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && (type == STT_FUNC || type == STT_NOTYPE) &&
         (binding == STB_GLOBAL || binding == STB_WEAK);
}

}  // namespace

bool is_in_ourselves(const void* address) noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  return place >= reinterpret_cast<std::uintptr_t>(__ehdr_start) &&
         place < reinterpret_cast<std::uintptr_t>(_end);
}

AddressRange object_at(std::uintptr_t address) noexcept {
  Place place = {address, {0, 0}};
  dl_iterate_phdr(find_place, &place);
  return place.found;
}

Dynamic read_dynamic(std::uintptr_t base, const void* entries) noexcept {
  Dynamic object = {};
  object.base = base;
  object.entries = static_cast<const ElfW(Dyn)*>(entries);
  if (entries == nullptr) return object;
  // The loader has made them addresses, but not in the kernel's object.
  const auto at = [base](ElfW(Addr) address) { return address < base ? base + address : address; };
  std::size_t soname = 0;
  for (const auto* entry = object.entries; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        object.symbols = reinterpret_cast<const ElfW(Sym)*>(at(entry->d_un.d_ptr));
        break;
      case DT_STRTAB:
        object.names = reinterpret_cast<const char*>(at(entry->d_un.d_ptr));
        break;
      case DT_JMPREL:
        object.calls = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr));
        break;
      case DT_PLTRELSZ:
        object.call_count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_GNU_HASH:
        object.gnu_hash = reinterpret_cast<const std::uint32_t*>(at(entry->d_un.d_ptr));
        break;
      case DT_HASH:
        object.hash = reinterpret_cast<const std::uint32_t*>(at(entry->d_un.d_ptr));
        break;
      case DT_SONAME:
        soname = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  if (object.names != nullptr && soname != 0) object.soname = object.names + soname;
  return object;
}

void* function_in(const Dynamic& object, const char* name) noexcept {
  if (object.symbols == nullptr || object.names == nullptr) return nullptr;
  const auto found = [&](std::uint32_t index) -> void* {
    const ElfW(Sym)& symbol = object.symbols[index];
    return is_function(symbol) && strcmp(object.names + symbol.st_name, name) == 0
               ? reinterpret_cast<void*>(object.base + symbol.st_value)
               : nullptr;
  };
  if (object.gnu_hash != nullptr) {
    const std::uint32_t buckets = object.gnu_hash[0], first = object.gnu_hash[1], words = object.gnu_hash[2];
    const auto* const filter = reinterpret_cast<const std::uint64_t*>(object.gnu_hash + 4);
    const auto* const bucket = reinterpret_cast<const std::uint32_t*>(filter + words);
    const std::uint32_t* const chain = bucket + buckets;
    if (buckets == 0 || words == 0) return nullptr;
    std::uint32_t hash = 5381;
    for (const char* c = name; *c != 0; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
    const std::uint64_t bits = std::uint64_t{1} << (hash % 64) | std::uint64_t{1}
                                                                     << ((hash >> object.gnu_hash[3]) % 64);
    if ((filter[hash / 64 % words] & bits) != bits) return nullptr;
    std::uint32_t index = bucket[hash % buckets];
    if (index < first) return nullptr;
    for (;; ++index) {
      const std::uint32_t there = chain[index - first];
      if ((there | 1) == (hash | 1))
        if (void* const function = found(index); function != nullptr) return function;
      if ((there & 1) != 0) return nullptr;  // the last one of its bucket
    }
  }
  const std::uint32_t symbols = object.hash != nullptr ? object.hash[1] : 0;
  for (std::uint32_t index = 0; index < symbols; ++index)
    if (void* const function = found(index); function != nullptr) return function;
  return nullptr;
}

ReachedFunction function_reached(const void* caller, const char* name) noexcept {
  Walk walk;
  walk.caller = reinterpret_cast<std::uintptr_t>(caller);
  walk.calling = {0, 0};
  walk.scope.count = 0;
  dl_iterate_phdr(find_caller, &walk);
  Search search = {name, nullptr};
  for (std::uint32_t i = 0; i < walk.scope.count && search.function == nullptr; ++i) {
    const Dynamic object = read_dynamic(walk.scope.members[i].base, walk.scope.members[i].dynamic);
    if (!is_in_ourselves(object.entries)) search.function = function_in(object, name);
    for (const auto* entry = object.entries; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag != DT_NEEDED || object.names == nullptr) continue;
      walk.needed = object.names + entry->d_un.d_val;
      dl_iterate_phdr(find_needed, &walk);
    }
  }
  if (search.function == nullptr) dl_iterate_phdr(find_in_any, &search);
  return {search.function, walk.calling, object_at(reinterpret_cast<std::uintptr_t>(search.function))};
}

}  // namespace clusterprof::memory_wrap
