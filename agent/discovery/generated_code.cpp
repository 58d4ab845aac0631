// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/discovery/generated_code.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

// --- the interface, as GDB's manual has it --------------------------------------------------

constexpr char kDescriptorName[] = "__jit_debug_descriptor";
constexpr std::uint32_t kVersion = 1;

struct DebugEntry {
  std::uint64_t next, previous;
  std::uint64_t object, object_bytes;
  friend bool operator==(const DebugEntry&, const DebugEntry&) = default;
};

struct DebugDescriptor {
  std::uint32_t version, action;
  std::uint64_t relevant, first;
  friend bool operator==(const DebugDescriptor&, const DebugDescriptor&) = default;
};

// Whether it has changed is told by its head, with the entry there and what that describes: memory of one
// that was removed may be used again for the next, entry and object alike.
struct ListHead {
  DebugDescriptor descriptor;
  DebugEntry newest;
  std::uint64_t newest_digest;
  friend bool operator==(const ListHead&, const ListHead&) = default;
};

// --- what was found -------------------------------------------------------------------------

constexpr std::uint32_t kMaxDescriptors = 8;
constexpr std::uint32_t kMaxEntries = 1u << 14;               // known, of all lists
constexpr std::uint32_t kMaxEntriesOfWalk = 4 * kMaxEntries;  // beyond the known ones they are only counted
constexpr std::uint32_t kMaxPathBytes = 4096;

struct Found {
  std::uint64_t address;  // 0: its object file is gone
  ListHead last;          // of the list that was walked
  bool is_unfinished;     // it changed meanwhile, or is longer than one look may take
  bool is_cut;            // counted: it has more than kMaxEntriesOfWalk
  std::uint32_t walk, complete_walk;
  // Of the walk that is not finished: the entry to go on with (0: from the beginning), how many were met, and
  // how many of them found no room. And how many of the latter are counted.
  std::uint64_t next;
  std::uint32_t met, without_room, counted_without_room;
};

// Open addressing, by the entry's address. An entry that was not in the list at the last complete walk is
// another one if it is there again.
struct Known {
  std::uint64_t entry, object, object_bytes, digest;
  std::uint32_t descriptor, walk;
};
constexpr std::uint32_t kKnownSlots = 2 * kMaxEntries;
constexpr std::uint64_t kKnownBytes = sizeof(Known) * kKnownSlots;

constinit Found g_found[kMaxDescriptors] = {};
constinit char g_hidden_path[kMaxPathBytes] = {};

#define CLUSTERPROF_STATE CLUSTERPROF_WRITTEN_BY_FORKS constinit
CLUSTERPROF_STATE std::atomic<bool> g_is_busy = false;
CLUSTERPROF_STATE std::uint32_t g_found_count = 0;
CLUSTERPROF_STATE GeneratedCodeMemory g_memory = {};
CLUSTERPROF_STATE std::atomic<Known*> g_known = nullptr;  // read by others, too: generated_code_memory
CLUSTERPROF_STATE std::uint32_t g_known_count = 0;
// Since the table was last searched for such entries.
CLUSTERPROF_STATE bool g_may_hold_removed = false;
CLUSTERPROF_STATE std::uint32_t g_lists_without_room = 0;  // counted
// Of which segment all that is known.
CLUSTERPROF_STATE wire::SegmentHeader* g_segment = nullptr;
CLUSTERPROF_STATE std::uint64_t g_segment_start_ns = 0;
CLUSTERPROF_STATE std::uint32_t g_epoch = 0;  // of the modules that were searched
CLUSTERPROF_STATE std::uint64_t g_searched_base = 0;
// An object file that is to be searched; only the watcher's. 0: none.
CLUSTERPROF_STATE std::uint64_t g_hidden_base = 0;
CLUSTERPROF_STATE std::uint64_t g_next_ns = 0;  // no walk before
#undef CLUSTERPROF_STATE

bool read_own_memory(std::uint64_t address, void* to, std::uint64_t bytes) noexcept {
  const iovec here = {to, bytes}, there = {reinterpret_cast<void*>(address), bytes};
  return raw_syscall(SYS_process_vm_readv, raw_syscall(SYS_getpid), &here, 1, &there, 1, 0) ==
         static_cast<long>(bytes);
}

// Not clock_ns(), which needs the agent's state: this source is tested without it.
std::uint64_t time_ns(clockid_t clock) noexcept {
  timespec now = {};
  raw_syscall(SYS_clock_gettime, clock, &now);
  return as_ns(now);
}

// FNV-1a's, here for whole words.
std::uint64_t digest_of_range(std::uint64_t digest, std::uint64_t begin, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kPrime = 0x100'0000'01b3;
  static constinit std::uint64_t words[512] = {};  // g_is_busy keeps others away
  for (std::uint64_t at = 0; at < bytes; at += sizeof words) {
    const std::uint64_t size = bytes - at < sizeof words ? bytes - at : sizeof words;
    if (size % 8 != 0) words[size / 8] = 0;  // the last word is read in part
    if (!read_own_memory(begin + at, words, size)) break;
    for (std::uint64_t i = 0; i < (size + 7) / 8; ++i) {
      digest = (digest ^ words[i]) * kPrime;
      digest ^= digest >> 32;
    }
  }
  return digest;
}

constexpr std::uint64_t kDigestEndBytes = 64 * 1024;      // at either end of an object
constexpr std::uint64_t kDigestSymbolBytes = 256 * 1024;  // of all tables of symbols and strings
constexpr std::uint32_t kDigestSections = 1024;

// The part of [offset, offset + bytes) that is between the ends, which are digested anyway.
std::uint64_t digest_of_middle(std::uint64_t digest, std::uint64_t object, std::uint64_t object_bytes,
                               std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::uint64_t last = object_bytes - kDigestEndBytes;
  if (offset >= last) return digest;
  const std::uint64_t begin = offset < kDigestEndBytes ? kDigestEndBytes : offset;
  const std::uint64_t end = bytes < last - offset ? offset + bytes : last;
  return begin < end ? digest_of_range(digest, object + begin, end - begin) : digest;
}

// By which another object in the same memory is told from the one before: its first and last 64 KiB, and of
// what is between them the section headers (addresses) and the tables of symbols and of their names, as far
// as they can be read. Two objects of the same size that differ only elsewhere describe functions of the same
// names and places.
std::uint64_t digest_of(std::uint64_t object, std::uint64_t bytes) noexcept {
  std::uint64_t digest = 0xcbf2'9ce4'8422'2325;
  if (bytes <= 2 * kDigestEndBytes) return digest_of_range(digest, object, bytes);
  digest = digest_of_range(digest, object, kDigestEndBytes);
  digest = digest_of_range(digest, object + bytes - kDigestEndBytes, kDigestEndBytes);
  ElfW(Ehdr) header;
  if (!read_own_memory(object, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_shentsize != sizeof(ElfW(Shdr)) || header.e_shoff >= bytes)
    return digest;
  static constinit ElfW(Shdr) sections[64] = {};
  constexpr std::uint64_t kAtOnce = sizeof sections / sizeof sections[0];
  const std::uint64_t most = (bytes - header.e_shoff) / sizeof sections[0];
  std::uint64_t count = header.e_shnum < kDigestSections ? header.e_shnum : kDigestSections;
  if (count > most) count = most;
  digest = digest_of_middle(digest, object, bytes, header.e_shoff, count * sizeof sections[0]);
  std::uint64_t left = kDigestSymbolBytes;
  for (std::uint64_t i = 0; i < count; i += kAtOnce) {
    const std::uint64_t part = count - i < kAtOnce ? count - i : kAtOnce;
    if (!read_own_memory(object + header.e_shoff + i * sizeof sections[0], sections,
                         part * sizeof sections[0]))
      break;
    for (std::uint64_t j = 0; j < part; ++j) {
      const ElfW(Shdr)& section = sections[j];
      const bool is_table = section.sh_type == SHT_SYMTAB || section.sh_type == SHT_STRTAB;
      if (!is_table || section.sh_offset >= bytes) continue;
      const std::uint64_t used = section.sh_size < left ? section.sh_size : left;
      digest = digest_of_middle(digest, object, bytes, section.sh_offset, used);
      left -= used;
    }
  }
  return digest;
}

bool read_head(const Found& found, ListHead& head) noexcept {
  head = {};
  if (!read_own_memory(found.address, &head.descriptor, sizeof head.descriptor)) return false;
  if (head.descriptor.first != 0 && read_own_memory(head.descriptor.first, &head.newest, sizeof head.newest))
    head.newest_digest = digest_of(head.newest.object, head.newest.object_bytes);
  return true;
}

// --- finding the descriptor -----------------------------------------------------------------

struct Symbols {
  const ElfW(Sym) * table = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* hash = nullptr;
};

Symbols symbols_of(const dl_phdr_info& info) noexcept {
  Symbols symbols;
  const ElfW(Dyn)* entry = nullptr;
  for (unsigned i = 0; i < info.dlpi_phnum; ++i)
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
  if (entry == nullptr) return symbols;
  // The loader has added the base to addresses, unless the description is read-only.
  const auto at = [&info](ElfW(Addr) address) {
    return address < info.dlpi_addr ? address + info.dlpi_addr : address;
  };
  for (; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols.table = reinterpret_cast<const ElfW(Sym)*>(at(entry->d_un.d_ptr));
        break;
      case DT_STRTAB:
        symbols.strings = reinterpret_cast<const char*>(at(entry->d_un.d_ptr));
        break;
      case DT_GNU_HASH:
        symbols.gnu_hash = reinterpret_cast<const std::uint32_t*>(at(entry->d_un.d_ptr));
        break;
      case DT_HASH:
        symbols.hash = reinterpret_cast<const std::uint32_t*>(at(entry->d_un.d_ptr));
        break;
      default:
        break;
    }
  }
  return symbols;
}

// 0: it is not the descriptor that the object defines.
std::uint64_t value_of(const Symbols& symbols, std::uint32_t index) noexcept {
  const ElfW(Sym)& symbol = symbols.table[index];
  const bool is_it = symbol.st_shndx != SHN_UNDEF && symbol.st_size >= sizeof(DebugDescriptor) &&
                     strcmp(symbols.strings + symbol.st_name, kDescriptorName) == 0;
  return is_it ? symbol.st_value : 0;
}

std::uint64_t find_by_gnu_hash(const Symbols& symbols) noexcept {
  std::uint32_t hash = 5381;
  for (const char* c = kDescriptorName; *c != 0; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const std::uint32_t buckets = symbols.gnu_hash[0], first = symbols.gnu_hash[1];
  const std::uint32_t filter_words = symbols.gnu_hash[2], shift = symbols.gnu_hash[3];
  if (buckets == 0 || filter_words == 0) return 0;
  const auto* const filter = reinterpret_cast<const std::uint64_t*>(symbols.gnu_hash + 4);
  const std::uint64_t word = filter[hash / 64 % filter_words];
  if ((word >> hash % 64 & word >> (hash >> shift) % 64 & 1) == 0) return 0;
  const auto* const bucket = reinterpret_cast<const std::uint32_t*>(filter + filter_words);
  const std::uint32_t* const chain = bucket + buckets;
  std::uint32_t index = bucket[hash % buckets];
  if (index < first) return 0;
  for (;; ++index) {
    const std::uint32_t other = chain[index - first];
    if ((other | 1) == (hash | 1))
      if (const std::uint64_t value = value_of(symbols, index)) return value;
    if ((other & 1) != 0) return 0;
  }
}

std::uint64_t find_by_hash(const Symbols& symbols) noexcept {
  std::uint32_t hash = 0;
  for (const char* c = kDescriptorName; *c != 0; ++c) {
    hash = (hash << 4) + static_cast<unsigned char>(*c);
    const std::uint32_t high = hash & 0xf000'0000u;
    hash = (hash ^ high >> 24) & ~high;
  }
  const std::uint32_t buckets = symbols.hash[0];
  const std::uint32_t* const bucket = symbols.hash + 2;
  const std::uint32_t* const chain = bucket + buckets;
  if (buckets == 0) return 0;
  for (std::uint32_t index = bucket[hash % buckets]; index != 0; index = chain[index])
    if (const std::uint64_t value = value_of(symbols, index)) return value;
  return 0;
}

struct Search {
  static constexpr std::uint32_t kMost = 64;
  std::uint64_t addresses[kMost];
  std::uint32_t count, more;
};

// llvmlite, which numba compiles with, has LLVM linked in with its symbols hidden, as pip installs it.
bool may_hide_it(const char* path) noexcept {
  return path != nullptr && strstr(path, "libllvmlite") != nullptr;
}

int visit(dl_phdr_info* info, std::size_t, void* data) noexcept {
  Search& search = *static_cast<Search*>(data);
  const Symbols symbols = symbols_of(*info);
  std::uint64_t value = 0;
  if (symbols.table != nullptr && symbols.strings != nullptr) {
    if (symbols.gnu_hash != nullptr) {
      value = find_by_gnu_hash(symbols);
    } else if (symbols.hash != nullptr) {
      value = find_by_hash(symbols);
    }
  }
  if (value != 0 && search.count < Search::kMost) {
    search.addresses[search.count++] = info->dlpi_addr + value;
  } else if (value != 0) {
    ++search.more;
  } else if (may_hide_it(info->dlpi_name)) {
    const std::size_t length = strlen(info->dlpi_name);
    if (length < sizeof g_hidden_path && info->dlpi_addr != g_searched_base) {
      memcpy(g_hidden_path, info->dlpi_name, length + 1);
      g_hidden_base = info->dlpi_addr;
    }
  }
  return 0;
}

class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(const char* path) noexcept
      : file_(raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0)) {}
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;
  ~ReadOnlyFile() {
    if (file_ >= 0) raw_syscall(SYS_close, file_);
  }
  std::uint64_t read(std::uint64_t offset, void* to, std::uint64_t bytes) const noexcept {
    const long got = file_ >= 0 ? raw_syscall(SYS_pread64, file_, to, bytes, offset) : -1;
    return got > 0 ? static_cast<std::uint64_t>(got) : 0;
  }

 private:
  long file_;
};

constexpr std::uint64_t kMaxTableBytes = 64u << 20;
constexpr std::uint64_t kChunkBytes = 24u << 10;  // of whole symbols

// Where in a table of strings the name begins; 0: nowhere.
std::uint64_t find_name(const ReadOnlyFile& file, const ElfW(Shdr) & strings, char* chunk) noexcept {
  constexpr std::uint64_t kBytes = sizeof kDescriptorName + 1;  // with the zero before it
  char wanted[kBytes] = {};
  memcpy(wanted + 1, kDescriptorName, sizeof kDescriptorName);
  for (std::uint64_t at = 0; at < strings.sh_size;) {
    const std::uint64_t left = strings.sh_size - at;
    const std::uint64_t bytes =
        file.read(strings.sh_offset + at, chunk, left < kChunkBytes ? left : kChunkBytes);
    if (bytes < kBytes) return 0;
    if (const void* const found = memmem(chunk, bytes, wanted, kBytes))
      return at + static_cast<std::uint64_t>(static_cast<const char*>(found) - chunk) + 1;
    at += bytes - (kBytes - 1);
  }
  return 0;
}

// The value of the descriptor's symbol in the file's own table, which the loader does not need; 0: there is
// none.
std::uint64_t find_in_file(const char* path) noexcept {
  constexpr unsigned kMaxSections = 96;
  const ReadOnlyFile file(path);
  ElfW(Ehdr) header;
  if (file.read(0, &header, sizeof header) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_shentsize != sizeof(ElfW(Shdr)) || header.e_shnum > kMaxSections)
    return 0;
  ElfW(Shdr) sections[kMaxSections];
  const std::uint64_t bytes = header.e_shnum * sizeof sections[0];
  if (file.read(header.e_shoff, sections, bytes) != bytes) return 0;
  char chunk[kChunkBytes];
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const ElfW(Shdr)& table = sections[i];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header.e_shnum || table.sh_size > kMaxTableBytes ||
        sections[table.sh_link].sh_size > kMaxTableBytes)
      continue;
    const std::uint64_t name = find_name(file, sections[table.sh_link], chunk);
    if (name == 0) continue;
    for (std::uint64_t at = 0; at < table.sh_size;) {
      const std::uint64_t left = table.sh_size - at;
      const std::uint64_t got =
          file.read(table.sh_offset + at, chunk, left < kChunkBytes ? left : kChunkBytes);
      const std::uint64_t count = got / sizeof(ElfW(Sym));
      if (count == 0) break;
      for (std::uint64_t j = 0; j < count; ++j) {
        ElfW(Sym) symbol;
        memcpy(&symbol, chunk + j * sizeof symbol, sizeof symbol);
        if (symbol.st_name == name && symbol.st_shndx != SHN_UNDEF &&
            symbol.st_size >= sizeof(DebugDescriptor))
          return symbol.st_value;
      }
      at += count * sizeof(ElfW(Sym));
    }
  }
  return 0;
}

// False: there is no room for another list.
bool add_found(std::uint64_t address) noexcept {
  Found* free = nullptr;
  for (std::uint32_t i = 0; i < g_found_count; ++i) {
    if (g_found[i].address == address) return true;
    if (g_found[i].address == 0 && free == nullptr) free = &g_found[i];
  }
  if (free == nullptr && g_found_count < kMaxDescriptors) free = &g_found[g_found_count++];
  if (free == nullptr) return false;
  const std::uint32_t walk = free->walk;
  *free = {};
  free->address = address;
  free->walk = free->complete_walk = walk + 1;  // nothing of a list that was there before is known
  return true;
}

void find_descriptors(wire::SegmentHeader* segment) noexcept {
  // Lists whose object files are gone make room.
  for (std::uint32_t i = 0; i < g_found_count; ++i) {
    DebugDescriptor descriptor;
    if (g_found[i].address == 0 || read_own_memory(g_found[i].address, &descriptor, sizeof descriptor))
      continue;
    g_found[i].address = 0;
    g_may_hold_removed = true;
  }
  Search search;
  search.count = search.more = 0;
  dl_iterate_phdr(visit, &search);
  std::uint32_t without_room = search.more;
  for (std::uint32_t i = 0; i < search.count; ++i)
    if (!add_found(search.addresses[i])) ++without_room;
  // They are found again each time. As many are counted as there were at a time.
  if (without_room > g_lists_without_room) {
    count_drop(segment, wire::DropReason::kGeneratedListsFull, without_room - g_lists_without_room);
    g_lists_without_room = without_room;
  }
}

// --- copying what the list has --------------------------------------------------------------

std::uint64_t home_of(std::uint64_t entry) noexcept {
  return (entry / 16 * 0x9e37'79b9'7f4a'7c15ull >> 40) % kKnownSlots;
}

// Frees a slot. Those behind it move up, so that each can be found from its home on.
void free_slot(Known* known, std::uint64_t hole) noexcept {
  for (std::uint64_t at = (hole + 1) % kKnownSlots; known[at].entry != 0; at = (at + 1) % kKnownSlots) {
    const std::uint64_t home = home_of(known[at].entry);
    const bool may_move = (at - home) % kKnownSlots >= (at - hole) % kKnownSlots;
    if (!may_move) continue;
    known[hole] = known[at];
    hole = at;
  }
  known[hole] = {};
  --g_known_count;
}

// It was not in its list at the last complete walk, nor seen since. Only one thread at a time uses the table,
// and the collector has copies of the objects: nobody needs it any more.
bool is_removed(const Known& slot) noexcept {
  const Found& found = g_found[slot.descriptor];
  return found.address == 0 || slot.walk < found.complete_walk;
}

// Whether there is room again.
bool free_removed() noexcept {
  Known* const known = g_known.load(std::memory_order_relaxed);
  if (!g_may_hold_removed || known == nullptr) return false;
  g_may_hold_removed = false;
  for (std::uint64_t at = 0; at < kKnownSlots;) {
    if (known[at].entry != 0 && is_removed(known[at])) {
      free_slot(known, at);  // and look at what has moved here
    } else {
      ++at;
    }
  }
  return g_known_count < kMaxEntries;
}

// The slot of an entry, or a free one. Null: there is no room.
Known* known_slot(std::uint64_t entry) noexcept {
  Known* known = g_known.load(std::memory_order_relaxed);
  if (known == nullptr) {
    if (g_memory.map != nullptr) known = static_cast<Known*>(g_memory.map(kKnownBytes));
    if (known == nullptr) return nullptr;
    g_known.store(known, std::memory_order_release);
  }
  for (std::uint64_t at = home_of(entry);; at = (at + 1) % kKnownSlots) {
    Known& slot = known[at];
    if (slot.entry == entry) return &slot;
    if (slot.entry != 0) continue;
    if (g_known_count < kMaxEntries) return &slot;
    return free_removed() ? known_slot(entry) : nullptr;
  }
}

enum class Taken { kYes, kNoRoom, kNotElf, kUnreadable, kChanged };

// Behind what is in the arena already. It counts once the list has been found unchanged.
Taken copy_object(wire::SegmentHeader* segment, const Found& found, const ListHead& now,
                  std::uint64_t address, const DebugEntry& entry) noexcept {
  const std::uint64_t used = segment->generated_arena_used.load(std::memory_order_relaxed);
  const std::uint64_t capacity = segment->generated_arena_bytes;
  wire::GeneratedObject header = {};
  std::uint8_t* const to = reinterpret_cast<std::uint8_t*>(segment) + segment->generated_arena_offset + used;
  char magic[SELFMAG];
  Taken taken = Taken::kYes;
  if (entry.object_bytes < sizeof(ElfW(Ehdr))) {
    taken = Taken::kNotElf;
  } else if (!read_own_memory(entry.object, magic, sizeof magic)) {
    taken = Taken::kUnreadable;
  } else if (memcmp(magic, ELFMAG, SELFMAG) != 0) {
    taken = Taken::kNotElf;
  } else if (used > capacity || entry.object_bytes > capacity ||
             capacity - used < sizeof header + entry.object_bytes + 8) {
    taken = Taken::kNoRoom;
  } else if (!read_own_memory(entry.object, to + sizeof header, entry.object_bytes)) {
    taken = Taken::kUnreadable;
  }
  ListHead after;
  DebugEntry same;
  if (!read_head(found, after) || after != now || !read_own_memory(address, &same, sizeof same) ||
      same.object != entry.object || same.object_bytes != entry.object_bytes)
    return Taken::kChanged;
  if (taken != Taken::kYes) return taken;
  header.entry_bytes = (sizeof header + entry.object_bytes + 7) & ~std::uint64_t{7};
  header.object_bytes = entry.object_bytes;
  header.epoch = segment->module_epoch.load(std::memory_order_relaxed);
  memcpy(to, &header, sizeof header);
  segment->generated_arena_used.store(used + header.entry_bytes, std::memory_order_release);
  return Taken::kYes;
}

void count_lost(wire::SegmentHeader* segment, Taken taken) noexcept {
  switch (taken) {
    case Taken::kNoRoom:
      count_drop(segment, wire::DropReason::kGeneratedArenaFull);
      break;
    case Taken::kNotElf:
      count_drop(segment, wire::DropReason::kGeneratedNotElf);
      break;
    case Taken::kUnreadable:
      count_drop(segment, wire::DropReason::kGeneratedUnreadable);
      break;
    case Taken::kYes:
    case Taken::kChanged:
      break;
  }
}

enum class Step { kOn, kGoesRound, kChanged };

Step take(wire::SegmentHeader* segment, std::uint32_t number, const ListHead& now, std::uint64_t address,
          const DebugEntry& entry) noexcept {
  Found& found = g_found[number];
  Known* const slot = known_slot(address);
  if (slot == nullptr) {
    // The next walk meets it again. As many are counted as there were at a time.
    if (++found.without_room > found.counted_without_room) {
      count_drop(segment, wire::DropReason::kGeneratedTableFull);
      found.counted_without_room = found.without_room;
    }
    return Step::kOn;
  }
  const bool is_of_list = slot->entry == address && slot->descriptor == number;
  if (is_of_list && slot->walk == found.walk) return Step::kGoesRound;
  const std::uint64_t digest = digest_of(entry.object, entry.object_bytes);
  const bool is_known = is_of_list && slot->object == entry.object &&
                        slot->object_bytes == entry.object_bytes && slot->digest == digest &&
                        slot->walk >= found.complete_walk;
  if (!is_known) {
    const Taken taken = copy_object(segment, found, now, address, entry);
    if (taken == Taken::kChanged) return Step::kChanged;
    count_lost(segment, taken);
    if (slot->entry == 0) ++g_known_count;
  }
  *slot = {address, entry.object, entry.object_bytes, digest, number, found.walk};
  return Step::kOn;
}

// Until `end_ns` (CLOCK_MONOTONIC). What is left then follows at the next look, if the list is the same.
void walk(wire::SegmentHeader* segment, std::uint32_t number, std::uint64_t end_ns) noexcept {
  Found& found = g_found[number];
  ListHead now;
  if (!read_head(found, now)) {
    found.address = 0;
    g_may_hold_removed = true;
    return;
  }
  const bool is_same = now == found.last;
  if (now.descriptor.version != kVersion || (is_same && !found.is_unfinished)) return;
  if (!is_same || found.next == 0) {
    ++found.walk;
    found.met = found.without_room = 0;
    found.next = now.descriptor.first;
  }
  found.last = now;
  found.is_unfinished = true;
  Step step = Step::kOn;
  while (found.next != 0 && step == Step::kOn) {
    if (found.met == kMaxEntriesOfWalk) {
      if (!found.is_cut) count_drop(segment, wire::DropReason::kGeneratedListCut);
      found.is_cut = true;
      break;
    }
    const std::uint64_t address = found.next;
    found.next = 0;  // where it ends here, the next walk is a new one
    DebugEntry entry;
    if (!read_own_memory(address, &entry, sizeof entry)) return;
    step = take(segment, number, now, address, entry);
    if (step == Step::kChanged) return;
    ++found.met;
    found.next = entry.next;
    const bool is_over = recording_has_ended() || time_ns(CLOCK_MONOTONIC) >= end_ns;
    if (is_over && step == Step::kOn && found.next != 0) return;
  }
  found.next = 0;
  ListHead after;
  if (!read_head(found, after) || after != now) return;
  found.is_unfinished = false;
  found.complete_walk = found.walk;
  g_may_hold_removed = true;
}

void forget() noexcept {
  for (std::uint32_t i = 0; i < g_found_count; ++i) g_found[i] = {};
  g_found_count = 0;
  // Whoever asks for our memory must not get what may be the program's by then.
  if (Known* const known = g_known.exchange(nullptr, std::memory_order_acq_rel))
    g_memory.unmap(known, kKnownBytes);
  g_known_count = 0;
  g_may_hold_removed = false;
  g_lists_without_room = 0;
  g_epoch = 0;
  g_searched_base = g_hidden_base = 0;
  g_next_ns = 0;
}

// Long lists that often change: at most this part of a processor goes to walks.
constexpr std::uint64_t kCostPart = 200;
// A look ends after this time and the entry that it is at. The last one has no other to follow, but the
// program's end waits for it.
constexpr std::uint64_t kLongestLookNs = 50'000'000, kLongestLastLookNs = 200'000'000;

void walk_all(wire::SegmentHeader* segment, std::uint64_t longest_ns) noexcept {
  const std::uint64_t begin_ns = time_ns(CLOCK_THREAD_CPUTIME_ID);
  for (std::uint32_t i = 0; i < g_found_count; ++i)
    if (g_found[i].address != 0)  // each has its part: one that changes all the time must not take all of it
      walk(segment, i, time_ns(CLOCK_MONOTONIC) + longest_ns / g_found_count);
  g_next_ns = time_ns(CLOCK_MONOTONIC) + kCostPart * (time_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
}

bool is_of_segment(const wire::SegmentHeader* segment) noexcept {
  return g_segment == segment && g_segment_start_ns == segment->start_mono_ns;
}

void refresh(wire::SegmentHeader* segment) noexcept {
  if (!is_of_segment(segment)) {
    forget();
    g_segment = segment;
    g_segment_start_ns = segment->start_mono_ns;
  }
  const std::uint32_t epoch = segment->module_epoch.load(std::memory_order_relaxed);
  if (epoch != g_epoch) {
    g_epoch = epoch;
    find_descriptors(segment);
  }
  if (g_found_count != 0 && time_ns(CLOCK_MONOTONIC) >= g_next_ns) walk_all(segment, kLongestLookNs);
}

}  // namespace

void generated_code_take_memory_from(GeneratedCodeMemory memory) noexcept { g_memory = memory; }

void generated_code_refresh(wire::SegmentHeader* segment) noexcept {
  if (g_is_busy.exchange(true, std::memory_order_acquire)) return;
  if (!recording_has_ended()) refresh(segment);  // else the segment may be gone
  g_is_busy.store(false, std::memory_order_release);
}

void generated_code_search_file() noexcept {
  if (g_hidden_base == 0) return;
  g_searched_base = g_hidden_base;
  g_hidden_base = 0;
  const std::uint64_t value = find_in_file(g_hidden_path);
  if (value == 0 || g_is_busy.exchange(true, std::memory_order_acquire)) return;
  if (g_segment != nullptr && !add_found(g_searched_base + value))
    count_drop(g_segment, wire::DropReason::kGeneratedListsFull);
  g_is_busy.store(false, std::memory_order_release);
}

void generated_code_refresh_at_exit(wire::SegmentHeader* segment) noexcept {
  if (segment == nullptr || g_is_busy.exchange(true, std::memory_order_acquire)) return;
  // Once it has been given back, it is not ours any more, and may be gone.
  if (!recording_has_ended() && is_of_segment(segment)) {
    walk_all(segment, kLongestLastLookNs);
    for (std::uint32_t i = 0; i < g_found_count; ++i)
      if (g_found[i].address != 0 && g_found[i].is_unfinished)
        count_drop(segment, wire::DropReason::kGeneratedListCut);
  }
  g_is_busy.store(false, std::memory_order_release);
}

bool generated_code_give_back() noexcept {
  constexpr std::uint32_t kMostMoments = 50'000;  // a second at least
  constexpr timespec kMoment = {0, 20'000};
  for (std::uint32_t i = 0; g_is_busy.exchange(true, std::memory_order_acquire); ++i) {
    if (i == kMostMoments) return false;
    raw_syscall(SYS_nanosleep, &kMoment, nullptr);
  }
  forget();
  g_segment = nullptr;
  g_is_busy.store(false, std::memory_order_release);
  return true;
}

void generated_code_reset_after_fork() noexcept {
  forget();
  g_segment = nullptr;
  g_is_busy.store(false, std::memory_order_relaxed);
}

const void* generated_code_memory() noexcept { return g_known.load(std::memory_order_acquire); }

std::uint64_t generated_code_memory_bytes() noexcept { return kKnownBytes; }

}  // namespace clusterprof::agent
