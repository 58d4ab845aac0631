// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/discovery/call_slots.h"

#include <dlfcn.h>
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

constexpr ElfW(Addr) kPageBytes = 4096;
constexpr std::size_t kMaxPathBytes = 4096;

struct NthObject {
  std::size_t wanted, seen;
  bool found;
  LoadedObject object;
  char path[kMaxPathBytes];
};

int copy_nth(dl_phdr_info* info, std::size_t, void* given) {
  auto& nth = *static_cast<NthObject*>(given);
  if (nth.seen++ != nth.wanted) return 0;
  const std::size_t length = strlen(info->dlpi_name);
  if (length >= sizeof nth.path) {  // it is passed by
    ++nth.wanted;
    return 0;
  }
  memcpy(nth.path, info->dlpi_name, length + 1);
  nth.object = {info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, nth.path};
  nth.found = true;
  return 1;
}

// The loader's description of an object: what it tells of its symbols and relocations.
struct Dynamic {
  const ElfW(Sym) * symbols;
  const char* strings;
  struct {
    const ElfW(Rela) * first;
    std::size_t count;
  } tables[2];
};

bool read_dynamic(const LoadedObject& object, Dynamic& out) noexcept {
  const ElfW(Dyn)* entry = nullptr;
  for (unsigned i = 0; i < object.header_count; ++i)
    if (object.headers[i].p_type == PT_DYNAMIC)
      entry = reinterpret_cast<const ElfW(Dyn)*>(object.base + object.headers[i].p_vaddr);
  if (entry == nullptr) return false;
  out = {};
  bool jumps_with_addend = true;
  // The loader has added the base to addresses, unless the description is read-only.
  const auto at = [&object](ElfW(Addr) address) {
    return address < object.base ? address + object.base : address;
  };
  for (; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        out.symbols = reinterpret_cast<const ElfW(Sym)*>(at(entry->d_un.d_ptr));
        break;
      case DT_STRTAB:
        out.strings = reinterpret_cast<const char*>(at(entry->d_un.d_ptr));
        break;
      case DT_RELA:
        out.tables[0].first = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr));
        break;
      case DT_RELASZ:
        out.tables[0].count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_JMPREL:
        out.tables[1].first = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr));
        break;
      case DT_PLTRELSZ:
        out.tables[1].count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_PLTREL:
        jumps_with_addend = entry->d_un.d_val == DT_RELA;
        break;
      default:
        break;
    }
  }
  if (!jumps_with_addend) out.tables[1].first = nullptr;
  return out.symbols != nullptr && out.strings != nullptr;
}

bool is_read_only(const LoadedObject& object, ElfW(Addr) address) noexcept {
  for (unsigned i = 0; i < object.header_count; ++i) {
    const ElfW(Phdr)& header = object.headers[i];
    if (header.p_type != PT_GNU_RELRO) continue;
    const ElfW(Addr) start = (object.base + header.p_vaddr) & ~(kPageBytes - 1);
    const ElfW(Addr) end = (object.base + header.p_vaddr + header.p_memsz) & ~(kPageBytes - 1);
    if (address >= start && address < end) return true;
  }
  return false;
}

// The kernel says whether a word can be written: what is written is what is there.
bool can_be_written(void** slot) noexcept {
  void* same = __atomic_load_n(slot, __ATOMIC_RELAXED);
  const iovec here = {&same, sizeof same}, there = {slot, sizeof same};
  return raw_syscall(SYS_process_vm_writev, raw_syscall(SYS_getpid), &here, 1, &there, 1, 0) ==
         static_cast<long>(sizeof same);
}

}  // namespace

bool LoadedObject::contains(ElfW(Addr) address) const noexcept {
  for (unsigned i = 0; i < header_count; ++i)
    if (headers[i].p_type == PT_LOAD && address - (base + headers[i].p_vaddr) < headers[i].p_memsz)
      return true;
  return false;
}

// dlopen must not be called inside dl_iterate_phdr, since it takes the loader's locks in the opposite order.
// It waits for whoever is loading something, so that the object is complete.
void for_each_object(void (*act)(const LoadedObject& object, void* given), void* given) noexcept {
  NthObject nth;
  nth.wanted = 0;
  for (;; ++nth.wanted) {
    nth.seen = 0;
    nth.found = false;
    dl_iterate_phdr(copy_nth, &nth);
    if (!nth.found) break;
    void* const handle = dlopen(nth.path[0] == 0 ? nullptr : nth.path, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) continue;  // the kernel's own object, or it is gone
    const link_map* map = nullptr;
    // Another one may have its name and place by now; then its headers are elsewhere.
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_addr == nth.object.base)
      act(nth.object, given);
    dlclose(handle);
  }
  dlerror();  // leaves no error of ours for the program to find
}

void for_each_slot(const LoadedObject& object, void (*act)(const CallSlot& slot, void* given),
                   void* given) noexcept {
  Dynamic dynamic;
  if (!read_dynamic(object, dynamic)) return;
  for (const auto& table : dynamic.tables) {
    if (table.first == nullptr) continue;
    for (std::size_t i = 0; i < table.count; ++i) {
      const ElfW(Rela)& relocation = table.first[i];
      const auto type = ELF64_R_TYPE(relocation.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const ElfW(Sym)& symbol = dynamic.symbols[ELF64_R_SYM(relocation.r_info)];
      act({dynamic.strings + symbol.st_name, reinterpret_cast<void**>(object.base + relocation.r_offset),
           symbol.st_shndx != SHN_UNDEF},
          given);
    }
  }
}

bool change_slot(const LoadedObject& object, void** slot, void* before, void* after) noexcept {
  const auto address = reinterpret_cast<ElfW(Addr)>(slot);
  const bool is_protected = is_read_only(object, address) && !can_be_written(slot);
  const ElfW(Addr) page = address & ~(kPageBytes - 1);
  if (is_protected && raw_syscall(SYS_mprotect, page, kPageBytes, PROT_READ | PROT_WRITE) != 0) return false;
  const bool changed =
      __atomic_compare_exchange_n(slot, &before, after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  if (is_protected) raw_syscall(SYS_mprotect, page, kPageBytes, PROT_READ);
  return changed;
}

}  // namespace clusterprof::agent
