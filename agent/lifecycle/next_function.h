// SPDX-License-Identifier: BSD-3-Clause
// dlsym(RTLD_NEXT, ...) for the start of the agent, which looks up nearly two hundred functions: with the
// loader's own function that was half of the instructions that a program pays for being recorded.
#pragma once

#include <link.h>

#include <cstdint>

namespace clusterprof::agent {

// What dlsym(RTLD_NEXT, name) of glibc 2.36 and later returns to a caller in this object. Null: there is
// none.
void* next_function(const char* name) noexcept;

// While one lives, its thread finds functions by the tables of symbols of the objects that were loaded with
// the program, without the loader. The result is the same as that of dlsym of glibc 2.36 and later; before,
// dlsym may return an older version than the default one (BZ #14932). Whatever is unusual about an object or
// a symbol is left to dlsym. Only while the program starts: later objects would have to be kept from being
// unloaded.
class NextFunctions {
 public:
  NextFunctions() noexcept;
  ~NextFunctions();
  NextFunctions(const NextFunctions&) = delete;
  NextFunctions& operator=(const NextFunctions&) = delete;

  // Whether dlsym is needed to know; else `function`.
  bool needs_loader(const char* name, void*& function) const noexcept;
  [[nodiscard]] bool is_active() const noexcept { return libc_ != kNone; }
  // Of libc itself, whoever stands in front of it. Null: there is none, or the loader has to be asked.
  [[nodiscard]] void* function_of_libc(const char* name) const noexcept;
  [[nodiscard]] void* variable_of_libc(const char* name) const noexcept;

 private:
  // Its table of symbols with GNU's hash table.
  struct Object {
    ElfW(Addr) base;
    const ElfW(Sym) * symbols;
    const char* strings;
    const std::uint16_t* versions;  // null: it has none
    const std::uint64_t* bloom;
    const std::uint32_t *buckets, *chains;
    std::uint32_t bucket_count, first_symbol, bloom_words, bloom_shift;
  };
  enum class Found : std::uint8_t { kYes, kNo, kUnsure };
  static bool read(const link_map& map, Object& object) noexcept;
  static Found find(const Object& object, const char* name, std::uint32_t hash, unsigned type,
                    void*& place) noexcept;
  void* in_libc(const char* name, unsigned type) const noexcept;

  static constexpr std::uint32_t kMost = 64, kNone = ~0u;
  Object objects_[kMost];  // behind ours, in the loader's order
  std::uint32_t count_ = 0;
  std::uint32_t libc_ = kNone;  // which of them
  bool are_all_ = false;        // that are loaded
};

}  // namespace clusterprof::agent
