// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/discovery/asyncio_debug.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/discovery/loaded_objects.h"
#include "agent/pyabi/asyncio_offsets.h"
#include "agent/sigsafe/python_task.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint32_t kFirstMinor = 14;
constexpr std::uint32_t kMaxCandidates = 4;
constexpr std::size_t kMaxPathBytes = 4096;

// Object files in which the section may be. Too large for a small thread's stack.
struct Candidate {
  char path[kMaxPathBytes];
  std::uint64_t load_bias;
  AddressRange range;
};
struct Search {
  AddressRange interpreter;
  unsigned long long changes;
  std::uint32_t count;
  Candidate candidates[kMaxCandidates];
} g_search;

unsigned long long g_seen_changes = 0;
AsyncioOffsets g_offsets;

int unchanged(dl_phdr_info* info, std::size_t, void*) noexcept {
  return info->dlpi_adds + info->dlpi_subs == g_seen_changes ? 1 : 2;
}

// The module itself, or the interpreter if it has the module built in.
int collect(dl_phdr_info* info, std::size_t, void*) noexcept {
  Search& search = g_search;
  search.changes = info->dlpi_adds + info->dlpi_subs;
  if (search.count == kMaxCandidates) return 0;
  constexpr char kModule[] = "_asyncio.", kExecutable[] = "/proc/self/exe";
  const char* const name = info->dlpi_name;
  const char* const slash = strrchr(name, '/');
  const char* const base = slash != nullptr ? slash + 1 : name;
  const AddressRange range = range_of(*info);
  if (strncmp(base, kModule, sizeof kModule - 1) != 0 && range.begin != search.interpreter.begin) return 0;
  Candidate& candidate = search.candidates[search.count];
  const char* const path = name[0] != 0 ? name : kExecutable;
  const std::size_t length = strlen(path);
  if (length >= kMaxPathBytes) return 0;
  memcpy(candidate.path, path, length + 1);
  candidate.load_bias = info->dlpi_addr;
  candidate.range = range;
  ++search.count;
  return 0;
}

class File {
 public:
  explicit File(const char* path) noexcept
      : descriptor_(raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0)) {}
  ~File() {
    if (descriptor_ >= 0) raw_syscall(SYS_close, descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool read(std::uint64_t offset, void* to, std::size_t bytes) const noexcept {
    return descriptor_ >= 0 &&
           raw_syscall(SYS_pread64, descriptor_, to, bytes, offset) == static_cast<long>(bytes);
  }

 private:
  long descriptor_;
};

}  // namespace

bool find_section(const char* path, const char* name, Section& section) noexcept {
  constexpr std::size_t kMaxNameBytes = 32;
  constexpr unsigned kMaxSections = 256;
  const std::size_t name_bytes = strlen(name) + 1;
  const File file(path);
  ElfW(Ehdr) header;
  if (name_bytes > kMaxNameBytes || !file.read(0, &header, sizeof header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof(ElfW(Shdr)) ||
      header.e_shnum > kMaxSections || header.e_shstrndx >= header.e_shnum)
    return false;
  const auto read_header = [&](unsigned index, ElfW(Shdr) & out) {
    return file.read(header.e_shoff + index * sizeof out, &out, sizeof out);
  };
  ElfW(Shdr) names, each;
  if (!read_header(header.e_shstrndx, names)) return false;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    char text[kMaxNameBytes];
    if (!read_header(i, each)) return false;
    if ((each.sh_flags & SHF_ALLOC) == 0 || each.sh_type == SHT_NOBITS || each.sh_name >= names.sh_size ||
        names.sh_size - each.sh_name < name_bytes ||
        !file.read(names.sh_offset + each.sh_name, text, name_bytes) || memcmp(text, name, name_bytes) != 0)
      continue;
    section = {each.sh_addr, each.sh_size};
    return true;
  }
  return false;
}

void find_asyncio_debug(const PythonRuntime& runtime) noexcept {
  if (runtime.layout.minor < kFirstMinor || g_asyncio_offsets.load(std::memory_order_relaxed) != nullptr ||
      dl_iterate_phdr(unchanged, nullptr) == 1)
    return;
  g_search.interpreter = runtime.interpreter;
  g_search.count = 0;
  dl_iterate_phdr(collect, nullptr);
  g_seen_changes = g_search.changes;
  for (std::uint32_t i = 0; i < g_search.count; ++i) {
    const Candidate& candidate = g_search.candidates[i];
    Section section;
    if (!find_section(candidate.path, ".AsyncioDebug", section) || section.bytes != kAsyncioOffsetsBytes)
      continue;
    const std::uint64_t address = candidate.load_bias + section.address;
    if (!candidate.range.contains(address) || !candidate.range.contains(address + section.bytes - 1) ||
        !read_asyncio_offsets(reinterpret_cast<const void*>(address), g_offsets))
      continue;
    g_asyncio_offsets.store(&g_offsets, std::memory_order_release);
    return;
  }
}

}  // namespace clusterprof::agent
