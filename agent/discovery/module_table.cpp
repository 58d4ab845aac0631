// SPDX-License-Identifier: BSD-3-Clause
//
// Memory: tables are blocks of mmap that are used in turn. A block that has become too small is abandoned,
// since handlers may still read it, and replaced by one of at least twice its size. So all abandoned blocks
// together are smaller than the blocks in use. A handler that holds a table across kBlocks changes sees that
// its epoch has changed, and gives up.
#include "agent/discovery/module_table.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/sigsafe/modules.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

constexpr unsigned kBlocks = 16;
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint32_t kMaxPathBytes = 4096;
constexpr std::uint32_t kMaxBuildIdBytes = sizeof(wire::ModuleEntry::build_id);

struct Block {
  ModuleTable table;
  std::uint32_t capacity;
  Module* modules() noexcept { return reinterpret_cast<Module*>(this + 1); }
};
static_assert(sizeof(Block) % alignof(Module) == 0);

Block* g_blocks[kBlocks];
unsigned g_next_block = 0;
std::uint32_t g_epoch = 0;
unsigned long long g_adds = 0;
unsigned long long g_subs = 0;

// --- what one object file says about itself ------------------------------------------------

struct ModuleFile {
  char path[kMaxPathBytes];
  std::uint32_t path_bytes;
  std::uint8_t build_id[kMaxBuildIdBytes];
  std::uint32_t build_id_bytes;
  std::uint64_t start, end;  // all loaded segments
};

void read_build_id(const std::uint8_t* notes, std::uint64_t bytes, ModuleFile& out) noexcept {
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, notes, sizeof(note));
    const std::uint64_t name_bytes = (std::uint64_t{note.n_namesz} + 3) & ~std::uint64_t{3};
    const std::uint64_t value_bytes = (std::uint64_t{note.n_descsz} + 3) & ~std::uint64_t{3};
    const std::uint64_t whole = sizeof(note) + name_bytes + value_bytes;
    if (whole > bytes) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + sizeof(note), "GNU", 4) == 0 &&
        note.n_descsz <= kMaxBuildIdBytes) {
      memcpy(out.build_id, notes + sizeof(note) + name_bytes, note.n_descsz);
      out.build_id_bytes = note.n_descsz;
      return;
    }
    notes += whole;
    bytes -= whole;
  }
}

bool parse_hex(const char*& text, const char* end, std::uint64_t& value) noexcept {
  const char* const begin = text;
  value = 0;
  for (; text < end; ++text) {
    const char c = *text;
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) break;
    value = value << 4 | static_cast<std::uint64_t>(digit);
  }
  return text > begin;
}

// The path of the file mapped at `address`, from one line of /proc/self/maps:
// "start-end perms offset dev inode   path".
bool path_in_line(const char* line, const char* end, std::uint64_t address, ModuleFile& out) noexcept {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  if (!parse_hex(line, end, low) || line == end || *line++ != '-' || !parse_hex(line, end, high))
    return false;
  if (address < low || address >= high) return false;
  const void* const slash = memchr(line, '/', static_cast<std::size_t>(end - line));
  if (slash == nullptr) return true;
  const char* const path = static_cast<const char*>(slash);
  const std::size_t bytes = static_cast<std::size_t>(end - path);
  if (bytes <= kMaxPathBytes) {
    memcpy(out.path, path, bytes);
    out.path_bytes = static_cast<std::uint32_t>(bytes);
  }
  return true;
}

// For the main program, and for libraries that were opened by a relative path, which the collector could not
// find.
void path_from_maps(std::uint64_t address, ModuleFile& out) noexcept {
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return;
  char buffer[2 * kMaxPathBytes];
  std::size_t held = 0;
  for (;;) {
    const long got = raw_syscall(SYS_read, fd, buffer + held, sizeof(buffer) - held);
    if (got <= 0) break;
    held += static_cast<std::size_t>(got);
    std::size_t line = 0;
    while (const void* const found = memchr(buffer + line, '\n', held - line)) {
      const char* const end = static_cast<const char*>(found);
      if (path_in_line(buffer + line, end, address, out)) {
        raw_syscall(SYS_close, fd);
        return;
      }
      line = static_cast<std::size_t>(end - buffer) + 1;
    }
    if (line == 0 && held == sizeof(buffer)) break;  // a line longer than any path
    memmove(buffer, buffer + line, held - line);
    held -= line;
  }
  raw_syscall(SYS_close, fd);
}

void describe_file(const dl_phdr_info& info, ModuleFile& out) noexcept {
  static constexpr char kVdso[] = "[vdso]";
  out.path_bytes = 0;
  out.build_id_bytes = 0;
  out.start = ~std::uint64_t{0};
  out.end = 0;
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const std::uint64_t at = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && segment.p_memsz != 0) {
      if (at < out.start) out.start = at;
      if (at + segment.p_memsz > out.end) out.end = at + segment.p_memsz;
    } else if (segment.p_type == PT_NOTE && out.build_id_bytes == 0) {
      read_build_id(reinterpret_cast<const std::uint8_t*>(at), segment.p_filesz, out);
    }
  }
  const unsigned long vdso = getauxval(AT_SYSINFO_EHDR);
  const char* const name = info.dlpi_name != nullptr ? info.dlpi_name : "";
  if (vdso != 0 && vdso >= out.start && vdso < out.end) {
    memcpy(out.path, kVdso, sizeof(kVdso) - 1);
    out.path_bytes = sizeof(kVdso) - 1;
    return;
  }
  if (name[0] == '/') {
    out.path_bytes = static_cast<std::uint32_t>(strnlen(name, kMaxPathBytes));
    memcpy(out.path, name, out.path_bytes);
    return;
  }
  // The main program, unless the loader was asked to run it and is the main program for the kernel.
  const bool is_executed = name[0] == '\0' && getauxval(AT_BASE) != 0;
  if (!is_executed) path_from_maps(out.start, out);
  if (out.path_bytes == 0 && name[0] == '\0') {
    const ssize_t bytes = readlink("/proc/self/exe", out.path, sizeof(out.path));
    if (bytes > 0) out.path_bytes = static_cast<std::uint32_t>(bytes);
  }
}

std::uint64_t hash_bytes(std::uint64_t hash, const void* data, std::uint64_t bytes) noexcept {  // FNV-1a
  const auto* const at = static_cast<const std::uint8_t*>(data);
  for (std::uint64_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100'0000'01b3ull;
  return hash;
}

// Cheaper than describe_file: the loader's name is enough to distinguish modules at one address.
std::uint64_t identity_of(const dl_phdr_info& info) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325ull;
  if (info.dlpi_name != nullptr) hash = hash_bytes(hash, info.dlpi_name, strlen(info.dlpi_name));
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    hash = hash_bytes(hash, &segment.p_vaddr, sizeof(segment.p_vaddr));
    hash = hash_bytes(hash, &segment.p_memsz, sizeof(segment.p_memsz));
    if (segment.p_type == PT_NOTE)
      hash =
          hash_bytes(hash, reinterpret_cast<const void*>(info.dlpi_addr + segment.p_vaddr), segment.p_filesz);
  }
  return hash;
}

// False: the object has no code.
bool make_module(const dl_phdr_info& info, Module& out) noexcept {
  memset(&out, 0, sizeof(out));
  out.load_bias = info.dlpi_addr;
  out.start = ~std::uint64_t{0};
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const std::uint64_t at = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && segment.p_memsz != 0) {
      if (at < out.start) out.start = at;
      if (at + segment.p_memsz > out.end) out.end = at + segment.p_memsz;
    } else if (segment.p_type == PT_GNU_EH_FRAME) {
      out.eh_frame_hdr = reinterpret_cast<const std::uint8_t*>(at);
      out.eh_frame_hdr_bytes = segment.p_memsz;
    }
  }
  if (out.end == 0) return false;
  const std::uint64_t header = reinterpret_cast<std::uint64_t>(out.eh_frame_hdr);
  for (unsigned i = 0; header != 0 && i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const std::uint64_t at = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || header < at || header >= at + segment.p_memsz) continue;
    out.cfi_start = at;
    out.cfi_end = at + segment.p_memsz;
  }
  out.identity = identity_of(info);
  return true;
}

// --- telling the collector -----------------------------------------------------------------

// True if the last entry that overlaps [file.start, file.end) describes this file.
bool already_described(const std::uint8_t* arena, std::uint64_t used, std::uint64_t load_bias,
                       const ModuleFile& file) noexcept {
  bool same = false;
  for (std::uint64_t offset = 0; offset + sizeof(wire::ModuleEntry) <= used;) {
    const auto* const entry = reinterpret_cast<const wire::ModuleEntry*>(arena + offset);
    if (entry->entry_bytes < sizeof(wire::ModuleEntry) || entry->entry_bytes > used - offset) return false;
    if (entry->start < file.end && file.start < entry->end) {
      same = entry->start == file.start && entry->end == file.end && entry->load_bias == load_bias &&
             entry->path_bytes == file.path_bytes && entry->build_id_bytes == file.build_id_bytes &&
             memcmp(entry->build_id, file.build_id, file.build_id_bytes) == 0 &&
             memcmp(entry + 1, file.path, file.path_bytes) == 0;
    }
    offset += entry->entry_bytes;
  }
  return same;
}

void append_entry(wire::SegmentHeader* segment, std::uint32_t epoch, std::uint64_t load_bias,
                  const ModuleFile& file) noexcept {
  std::uint8_t* const arena = reinterpret_cast<std::uint8_t*>(segment) + segment->module_arena_offset;
  const std::uint64_t used = segment->module_arena_used.load(std::memory_order_relaxed);
  if (already_described(arena, used, load_bias, file)) return;
  const std::uint64_t bytes = (sizeof(wire::ModuleEntry) + file.path_bytes + 7) & ~std::uint64_t{7};
  if (used > segment->module_arena_bytes || segment->module_arena_bytes - used < bytes) {
    segment->drops[static_cast<std::uint32_t>(wire::DropReason::kModuleArenaFull)].fetch_add(
        1, std::memory_order_relaxed);
    return;
  }
  auto* const entry = reinterpret_cast<wire::ModuleEntry*>(arena + used);
  memset(static_cast<void*>(entry), 0, bytes);
  entry->entry_bytes = static_cast<std::uint32_t>(bytes);
  entry->epoch = epoch;
  entry->load_bias = load_bias;
  entry->start = file.start;
  entry->end = file.end;
  entry->path_bytes = file.path_bytes;
  entry->build_id_bytes = file.build_id_bytes;
  memcpy(entry->build_id, file.build_id, file.build_id_bytes);
  memcpy(entry + 1, file.path, file.path_bytes);
  segment->module_arena_used.store(used + bytes, std::memory_order_release);
}

// --- the walk over the loader's list -------------------------------------------------------

struct Pass {
  wire::SegmentHeader* segment;
  const ModuleTable* previous;  // entries of it need no description
  Block* block;                 // null: only describe
  std::uint32_t epoch;
  std::uint32_t found;
  unsigned long long adds, subs;
  bool others_seen;
};

bool known_before(const ModuleTable* table, const Module& module) noexcept {
  Module other;
  return table != nullptr && find_module(table, module.start, other) && other.start == module.start &&
         other.end == module.end && other.load_bias == module.load_bias && other.identity == module.identity;
}

void add_module(const dl_phdr_info& info, Pass& pass) noexcept {
  Module module;
  if (!make_module(info, module)) return;
  if (pass.segment != nullptr && !known_before(pass.previous, module)) {
    ModuleFile file;
    describe_file(info, file);
    append_entry(pass.segment, pass.epoch, module.load_bias, file);
  }
  if (pass.block != nullptr && pass.found < pass.block->capacity) pass.block->modules()[pass.found] = module;
  ++pass.found;
}

// --- objects of other link namespaces (dlmopen) ---------------------------------------------
//
// dl_iterate_phdr leaves them out, but the list for debuggers has them, from glibc 2.35 on; it changes under
// the lock that dl_iterate_phdr holds while it calls us.

struct Namespaces {  // r_debug_extended
  r_debug base;
  const Namespaces* next;
};

bool read_own_memory(std::uint64_t address, void* to, std::size_t bytes) noexcept {
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

// Found through the main program: a program that refers to _r_debug has a copy of it, possibly of an older
// layout.
const Namespaces* first_namespace(const dl_phdr_info& program) noexcept {
  for (unsigned i = 0; i < program.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = program.dlpi_phdr[i];
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(program.dlpi_addr + segment.p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_DEBUG) return reinterpret_cast<const Namespaces*>(entry->d_un.d_ptr);
  }
  return nullptr;
}

void add_from_link_map(const link_map& object, Pass& pass) noexcept {
  constexpr unsigned kMaxSegments = 64;
  ElfW(Ehdr) header;
  // The loader has no program headers for us; they are in the first page of nearly every object.
  if (!read_own_memory(object.l_addr, &header, sizeof(header)) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr)) ||
      header.e_phnum > kMaxSegments)
    return;
  ElfW(Phdr) segments[kMaxSegments];
  if (!read_own_memory(object.l_addr + header.e_phoff, segments, header.e_phnum * sizeof(ElfW(Phdr)))) return;
  dl_phdr_info info{};
  info.dlpi_addr = object.l_addr;
  info.dlpi_name = object.l_name;
  info.dlpi_phdr = segments;
  info.dlpi_phnum = header.e_phnum;
  add_module(info, pass);
}

void add_other_namespaces(const dl_phdr_info& program, Pass& pass) noexcept {
  constexpr int kVersionWithNamespaces = 2;
  constexpr unsigned kMaxNamespaces = 64, kMaxObjects = 100'000;
  const Namespaces* const first = first_namespace(program);
  if (first == nullptr || first->base.r_version < kVersionWithNamespaces) return;
  const Namespaces* space = first->next;
  for (unsigned i = 0; space != nullptr && i < kMaxNamespaces; ++i, space = space->next) {
    const link_map* object = space->base.r_map;
    for (unsigned j = 0; object != nullptr && j < kMaxObjects; ++j, object = object->l_next)
      if (object->l_addr != first->base.r_ldbase) add_from_link_map(*object, pass);  // the linker is in all
  }
}

int visit(dl_phdr_info* info, std::size_t, void* data) noexcept {
  Pass& pass = *static_cast<Pass*>(data);
  pass.adds = info->dlpi_adds;
  pass.subs = info->dlpi_subs;
  if (!pass.others_seen) {
    pass.others_seen = true;
    add_other_namespaces(*info, pass);  // the first is the main program
  }
  add_module(*info, pass);
  return 0;
}

// Stops at the first object, since all of them carry the counters. Nonzero: nothing has changed since the
// last refresh.
int unchanged(dl_phdr_info* info, std::size_t, void*) noexcept {
  return info->dlpi_adds == g_adds && info->dlpi_subs == g_subs ? 1 : 2;
}

Block* map_block(std::uint32_t capacity) noexcept {
  const std::uint64_t wanted = sizeof(Block) + std::uint64_t{capacity} * sizeof(Module);
  const std::uint64_t bytes = (wanted + kPageBytes - 1) & ~(kPageBytes - 1);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const block = static_cast<Block*>(memory);
  block->capacity = static_cast<std::uint32_t>((bytes - sizeof(Block)) / sizeof(Module));
  return block;
}

// Shell sort: the loader's order is often the reverse of this one, and there may be thousands of modules.
void sort_by_start(Module* modules, std::uint32_t count) noexcept {
  static constexpr std::uint32_t kGaps[] = {8858, 3937, 1750, 701, 301, 132, 57, 23, 10, 4, 1};
  for (const std::uint32_t gap : kGaps) {
    for (std::uint32_t i = gap; i < count; ++i) {
      const Module moving = modules[i];
      std::uint32_t at = i;
      for (; at >= gap && modules[at - gap].start > moving.start; at -= gap) modules[at] = modules[at - gap];
      modules[at] = moving;
    }
  }
}

}  // namespace

bool module_table_refresh(wire::SegmentHeader* segment) noexcept {
  const ModuleTable* const previous = module_table();
  if (previous != nullptr && dl_iterate_phdr(unchanged, nullptr) == 1) return false;
  std::uint32_t capacity = previous != nullptr ? previous->count + previous->count / 4 + 16 : 32;
  Pass pass{};
  for (;;) {
    Block*& slot = g_blocks[g_next_block];
    if (slot == nullptr || slot->capacity < capacity) {
      const std::uint32_t doubled = slot != nullptr ? slot->capacity * 2 : 0;
      Block* const fresh = map_block(capacity > doubled ? capacity : doubled);
      if (fresh == nullptr) return false;  // out of memory: the old table stays
      slot = fresh;
    }
    // Nobody may use what is about to change; see find_module.
    __atomic_store_n(&slot->table.epoch, 0u, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    pass = Pass{segment, previous, slot, g_epoch + 1, 0, 0, 0, false};
    dl_iterate_phdr(visit, &pass);
    if (pass.found <= slot->capacity) break;
    capacity = pass.found + 16;
  }
  Block& block = *g_blocks[g_next_block];
  sort_by_start(block.modules(), pass.found);
  block.table.count = pass.found;
  block.table.modules = block.modules();
  __atomic_store_n(&block.table.epoch, ++g_epoch, __ATOMIC_RELEASE);
  publish_module_table(&block.table);
  g_next_block = (g_next_block + 1) % kBlocks;
  g_adds = pass.adds;
  g_subs = pass.subs;
  if (segment != nullptr) segment->module_epoch.store(g_epoch, std::memory_order_release);
  return true;
}

void module_table_describe_all(wire::SegmentHeader* segment) noexcept {
  if (segment == nullptr) return;
  Pass pass{segment, nullptr, nullptr, g_epoch, 0, 0, 0, false};
  dl_iterate_phdr(visit, &pass);
  segment->module_epoch.store(g_epoch, std::memory_order_release);
}

void module_table_copy(const wire::SegmentHeader* parents, wire::SegmentHeader* segment) noexcept {
  const std::uint8_t* const from =
      reinterpret_cast<const std::uint8_t*>(parents) + parents->module_arena_offset;
  std::uint64_t limit = parents->module_arena_used.load(std::memory_order_acquire);
  if (limit > segment->module_arena_bytes) limit = segment->module_arena_bytes;
  std::uint64_t used = 0;
  while (used + sizeof(wire::ModuleEntry) <= limit) {
    const auto* const entry = reinterpret_cast<const wire::ModuleEntry*>(from + used);
    if (entry->entry_bytes < sizeof(wire::ModuleEntry) || entry->entry_bytes > limit - used) break;
    if (entry->epoch > g_epoch) break;  // the parent goes on writing
    used += entry->entry_bytes;
  }
  memcpy(reinterpret_cast<std::uint8_t*>(segment) + segment->module_arena_offset, from, used);
  segment->module_arena_used.store(used, std::memory_order_release);
  segment->module_epoch.store(g_epoch, std::memory_order_release);
}

}  // namespace clusterprof::agent
