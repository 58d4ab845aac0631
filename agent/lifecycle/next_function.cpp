// SPDX-License-Identifier: BSD-3-Clause
// Objects that are loaded with the program are in the loader's list in the order in which it searches them.
// Those that dlopen has added are behind them, and are no successors of ours: so what is found up to libc is
// what the loader would find, and what is found nowhere it would not find either.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/next_function.h"

#include <dlfcn.h>
#include <elf.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace clusterprof::agent {
namespace {

constinit std::atomic<const NextFunctions*> g_next_functions = nullptr;
// The thread whose they are: others may be starting in constructors of libraries.
constinit std::atomic<const void*> g_searching_thread = nullptr;

const void* this_thread() noexcept {
  const void* self = nullptr;
  asm("mov %%fs:0, %0" : "=r"(self));
  return self;
}

std::uint32_t gnu_hash(const char* name) noexcept {
  std::uint32_t hash = 5381;
  for (; *name != 0; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

const char* file_name(const link_map& map) noexcept {
  if (map.l_name == nullptr) return "";
  const char* const slash = strrchr(map.l_name, '/');
  return slash != nullptr ? slash + 1 : map.l_name;
}

bool begins_with(const char* text, const char* begin) noexcept {
  return strncmp(text, begin, strlen(begin)) == 0;
}

}  // namespace

bool NextFunctions::read(const link_map& map, Object& object) noexcept {
  object = {};
  object.base = map.l_addr;
  // The loader has added the base to addresses, unless the description is read-only.
  const auto at = [base = map.l_addr](ElfW(Addr) address) {
    return address < base ? address + base : address;
  };
  const std::uint32_t* hash = nullptr;
  for (const ElfW(Dyn)* entry = map.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        object.symbols = reinterpret_cast<const ElfW(Sym)*>(at(entry->d_un.d_ptr));
        break;
      case DT_STRTAB:
        object.strings = reinterpret_cast<const char*>(at(entry->d_un.d_ptr));
        break;
      case DT_VERSYM:
        object.versions = reinterpret_cast<const std::uint16_t*>(at(entry->d_un.d_ptr));
        break;
      case DT_GNU_HASH:
        hash = reinterpret_cast<const std::uint32_t*>(at(entry->d_un.d_ptr));
        break;
      default:
        break;
    }
  }
  if (object.symbols == nullptr || object.strings == nullptr || hash == nullptr) return false;
  object.bucket_count = hash[0];
  object.first_symbol = hash[1];
  object.bloom_words = hash[2];
  object.bloom_shift = hash[3];
  object.bloom = reinterpret_cast<const std::uint64_t*>(hash + 4);
  object.buckets = reinterpret_cast<const std::uint32_t*>(object.bloom + object.bloom_words);
  object.chains = object.buckets + object.bucket_count;
  const bool is_power = object.bloom_words != 0 && (object.bloom_words & (object.bloom_words - 1)) == 0;
  return object.bucket_count != 0 && is_power && object.bloom_shift < 32;
}

NextFunctions::NextFunctions() noexcept {
  if (getenv("LD_AUDIT") != nullptr) return;  // auditors may change what dlsym returns
  const link_map* map = _r_debug.r_map;
  while (map != nullptr && map->l_ld != _DYNAMIC) map = map->l_next;
  if (map == nullptr) return;  // we are in a namespace of our own
  std::uint32_t libc = kNone;
  for (map = map->l_next; map != nullptr && count_ < kMost; map = map->l_next) {
    const char* const name = file_name(*map);
    if (begins_with(name, "linux-vdso.")) continue;  // nobody's successor
    if (!read(*map, objects_[count_])) break;
    if (libc == kNone && begins_with(name, "libc.so.6")) libc = count_;
    ++count_;
  }
  are_all_ = map == nullptr;
  if (libc == kNone) return;
  libc_ = libc;
  g_next_functions.store(this, std::memory_order_relaxed);
  g_searching_thread.store(this_thread(), std::memory_order_release);
}

NextFunctions::~NextFunctions() {
  if (libc_ == kNone) return;
  g_searching_thread.store(nullptr, std::memory_order_relaxed);
  g_next_functions.store(nullptr, std::memory_order_relaxed);
}

// As the loader does when it is asked for no version: a definition without a version, or else the one that is
// its name's default.
NextFunctions::Found NextFunctions::find(const Object& object, const char* name, std::uint32_t hash,
                                         unsigned type, void*& place) noexcept {
  constexpr std::uint32_t kBits = 64;
  const std::uint64_t word = object.bloom[(hash / kBits) & (object.bloom_words - 1)];
  if ((word >> (hash % kBits) & word >> ((hash >> object.bloom_shift) % kBits) & 1) == 0) return Found::kNo;
  std::uint32_t index = object.buckets[hash % object.bucket_count];
  if (index == 0) return Found::kNo;
  if (index < object.first_symbol) return Found::kUnsure;
  constexpr std::uint16_t kHidden = 0x8000, kFirstVersion = 2;
  const ElfW(Sym)* found = nullptr;
  unsigned defaults = 0;
  for (bool is_last = false; !is_last; ++index) {
    const std::uint32_t there = object.chains[index - object.first_symbol];
    is_last = (there & 1) != 0;
    if ((there | 1) != (hash | 1)) continue;
    const ElfW(Sym)& symbol = object.symbols[index];
    if (strcmp(object.strings + symbol.st_name, name) != 0) continue;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) continue;
    const unsigned bind = ELF64_ST_BIND(symbol.st_info);
    if (ELF64_ST_TYPE(symbol.st_info) != type || (bind != STB_GLOBAL && bind != STB_WEAK))
      return Found::kUnsure;  // code may have to be asked where a function is
    const std::uint16_t version = object.versions != nullptr ? object.versions[index] : std::uint16_t{0};
    const bool has_version = (version & ~kHidden) >= kFirstVersion;
    if (has_version && (version & kHidden) != 0) continue;
    found = &symbol;
    if (!has_version) {
      defaults = 1;
      break;
    }
    ++defaults;
  }
  if (defaults == 0) return Found::kNo;
  if (defaults != 1) return Found::kUnsure;
  place = reinterpret_cast<void*>(object.base + found->st_value);
  return Found::kYes;
}

bool NextFunctions::needs_loader(const char* name, void*& function) const noexcept {
  const std::uint32_t hash = gnu_hash(name);
  function = nullptr;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const Found found = find(objects_[i], name, hash, STT_FUNC, function);
    if (found == Found::kNo) continue;
    return found == Found::kUnsure || i > libc_;
  }
  return !are_all_;
}

void* NextFunctions::function_of_libc(const char* name) const noexcept { return in_libc(name, STT_FUNC); }

void* NextFunctions::variable_of_libc(const char* name) const noexcept { return in_libc(name, STT_OBJECT); }

void* NextFunctions::in_libc(const char* name, unsigned type) const noexcept {
  void* place = nullptr;
  return is_active() && find(objects_[libc_], name, gnu_hash(name), type, place) == Found::kYes ? place
                                                                                                : nullptr;
}

void* next_function(const char* name) noexcept {
  void* function = nullptr;
  if (g_searching_thread.load(std::memory_order_acquire) == this_thread() &&
      !g_next_functions.load(std::memory_order_relaxed)->needs_loader(name, function))
    return function;
  return dlsym(RTLD_NEXT, name);
}

}  // namespace clusterprof::agent
