// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/replaced_calls.h"

#include <dlfcn.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "agent/discovery/call_slots.h"
#include "agent/lifecycle/memory.h"

namespace clusterprof::agent {
namespace {

// What has to be ours so that the program does not notice that it is sampled (sigsafe/RULES.md): transfers
// that a signal may cut, handlers, signals that it fetches, exec, and what an own thread or a restarted call
// would disturb. Masks are left alone, since a thread's mask could not be put back. So are files: what was
// opened before is not known.
constexpr const char* kStandIns[] = {"read",
                                     "readv",
                                     "write",
                                     "writev",
                                     "send",
                                     "sendto",
                                     "sendmsg",
                                     "sendmmsg",
                                     "sendfile",
                                     "sendfile64",
                                     "recv",
                                     "__recv_chk",
                                     "recvfrom",
                                     "__recvfrom_chk",
                                     "recvmsg",
                                     "recvmmsg",
                                     "getrandom",
                                     "nanosleep",
                                     "clock_nanosleep",
                                     "usleep",
                                     "thrd_sleep",
                                     "poll",
                                     "__poll_chk",
                                     "epoll_wait",
                                     "epoll_pwait",
                                     "sigaction",
                                     "signal",
                                     "bsd_signal",
                                     "sysv_signal",
                                     "__sysv_signal",
                                     "siginterrupt",
                                     "sigignore",
                                     "sigwait",
                                     "sigwaitinfo",
                                     "sigtimedwait",
                                     "signalfd",
                                     "syscall",
                                     "pthread_create",
                                     "thrd_create",
                                     "execve",
                                     "execv",
                                     "execvp",
                                     "execvpe",
                                     "execveat",
                                     "fexecve",
                                     "execl",
                                     "execlp",
                                     "execle",
                                     "unshare",
                                     "setns",
                                     "capset",
                                     "prctl",
                                     "mlockall",
                                     "fallocate",
                                     "fallocate64",
                                     "posix_fallocate",
                                     "posix_fallocate64"};

bool is_stand_in(const char* name) noexcept {
  for (const char* const ours : kStandIns)
    if (strcmp(ours, name) == 0) return true;
  return false;
}

// Of these, those by which a program sets handlers.
constexpr const char* kSetHandlers[] = {"sigaction",     "signal",       "bsd_signal", "sysv_signal",
                                        "__sysv_signal", "siginterrupt", "sigignore"};

bool sets_handlers(const char* name) noexcept {
  for (const char* const ours : kSetHandlers)
    if (strcmp(ours, name) == 0) return true;
  return false;
}

bool is_mpi_function(const char* name) noexcept {
  return strncmp(name, "MPI_", 4) == 0 || strncmp(name, "PMPI_", 5) == 0;
}

bool starts_with_any(const char* path, const char* const* prefixes, std::size_t count) noexcept {
  const char* const slash = strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path;
  for (std::size_t i = 0; i < count; ++i)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

template <std::size_t kCount>
bool starts_with_any(const char* path, const char* const (&prefixes)[kCount]) noexcept {
  return starts_with_any(path, prefixes, kCount);
}

constexpr const char* kOfLibc[] = {"libc.so",  "libc-2.",  "libpthread", "librt.so",
                                   "librt-2.", "libdl.so", "libdl-2."};
constexpr const char* kLoader[] = {"ld-linux", "ld-2.", "ld.so"};
constexpr const char* kOfMpi[] = {"libmpi.", "libmpi_", "libmpich", "libpmpi"};
constexpr const char* kOurs[] = {"libclusterprof_"};

// Where objects are in memory.
struct Places {
  static constexpr std::uint32_t kMost = 8;
  struct {
    ElfW(Addr) begin, end;
  } place[kMost];
  std::uint32_t count;

  void add(const LoadedObject& object) noexcept {
    if (count == kMost) return;
    ElfW(Addr) begin = ~ElfW(Addr){0}, end = 0;
    for (unsigned i = 0; i < object.header_count; ++i) {
      const ElfW(Phdr)& header = object.headers[i];
      if (header.p_type != PT_LOAD) continue;
      const ElfW(Addr) first = object.base + header.p_vaddr, last = first + header.p_memsz;
      if (first < begin) begin = first;
      if (last > end) end = last;
    }
    place[count++] = {begin, end};
  }
  bool have(const void* pointer) const noexcept {
    const auto address = reinterpret_cast<ElfW(Addr)>(pointer);
    for (std::uint32_t i = 0; i < count; ++i)
      if (address >= place[i].begin && address < place[i].end) return true;
    return false;
  }
};

struct Replaced {
  void** slot;
  void *before, *after;
};
constexpr std::uint32_t kMaxReplaced = 32768;
constinit Replaced* g_replaced = nullptr;
constinit std::uint32_t g_replaced_count = 0;

constinit void* g_own_handle = nullptr;   // of the agent
constinit void* g_wrap_handle = nullptr;  // of the preload object for MPI; null: MPI is not recorded

struct Pass {
  Places libc, mpi, ours;
  const LoadedObject* object;  // at present
  bool of_handlers;            // to restore those that set handlers, or else all others
};

void note_place(const LoadedObject& object, void* given) {
  auto& pass = *static_cast<Pass*>(given);
  if (starts_with_any(object.name, kOurs)) return pass.ours.add(object);
  if (starts_with_any(object.name, kOfLibc)) return pass.libc.add(object);
  if (starts_with_any(object.name, kOfMpi)) pass.mpi.add(object);
}

// A slot is changed only if it leads to libc, or to the MPI library: the program, or another tool, may have a
// function of that name.
void replace_call(const CallSlot& slot, void* given) {
  const Pass& pass = *static_cast<const Pass*>(given);
  const bool is_mpi = g_wrap_handle != nullptr && is_mpi_function(slot.name);
  if (!is_mpi && !is_stand_in(slot.name)) return;
  if (g_replaced_count == kMaxReplaced) return;
  void* const before = __atomic_load_n(slot.place, __ATOMIC_RELAXED);
  const Places& wanted = is_mpi ? pass.mpi : pass.libc;
  if (!wanted.have(before)) {
    // Until the first call it leads to code of its own object that asks the loader.
    if (slot.defined_here || !pass.object->contains(reinterpret_cast<ElfW(Addr)>(before))) return;
    const void* const first = dlsym(RTLD_DEFAULT, slot.name);
    if (first != nullptr ? !wanted.have(first) : !is_mpi) return;
  }
  void* const after = dlsym(is_mpi ? g_wrap_handle : g_own_handle, slot.name);
  if (!pass.ours.have(after)) return;
  if (!change_slot(*pass.object, slot.place, before, after)) return;
  g_replaced[g_replaced_count++] = {slot.place, before, after};
}

void replace_calls_of(const LoadedObject& object, void* given) {
  if (starts_with_any(object.name, kOurs) || starts_with_any(object.name, kOfLibc) ||
      starts_with_any(object.name, kLoader))
    return;
  static_cast<Pass*>(given)->object = &object;
  for_each_slot(object, replace_call, given);
}

// An object may have been unloaded, and another loaded in its place.
void restore_call(const CallSlot& slot, void* given) {
  const Pass& pass = *static_cast<const Pass*>(given);
  void* const now = __atomic_load_n(slot.place, __ATOMIC_RELAXED);
  if (!pass.ours.have(now) || sets_handlers(slot.name) != pass.of_handlers) return;
  for (std::uint32_t i = 0; i < g_replaced_count; ++i) {
    const Replaced& replaced = g_replaced[i];
    if (replaced.slot != slot.place || replaced.after != now) continue;
    change_slot(*pass.object, slot.place, replaced.after, replaced.before);
    return;
  }
}

void restore_calls_of(const LoadedObject& object, void* given) {
  if (starts_with_any(object.name, kOurs)) return;
  static_cast<Pass*>(given)->object = &object;
  for_each_slot(object, restore_call, given);
}

void restore(bool of_handlers) noexcept {
  Pass pass = {};
  pass.of_handlers = of_handlers;
  for_each_object(note_place, &pass);
  for_each_object(restore_calls_of, &pass);
}

}  // namespace

void replace_mpi_calls_by(void* wrappers) noexcept { g_wrap_handle = wrappers; }

void replace_calls() noexcept {
  if (g_own_handle == nullptr) {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&replace_calls), &info) == 0) return;
    g_own_handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);  // for good: our code stays
    if (g_own_handle == nullptr) return;
  }
  if (g_replaced == nullptr) {
    g_replaced = static_cast<Replaced*>(map_memory(sizeof(Replaced) * kMaxReplaced));
    if (g_replaced == nullptr) return;
    g_replaced_count = 0;
  }
  Pass pass = {};
  for_each_object(note_place, &pass);
  for_each_object(replace_calls_of, &pass);
}

void restore_calls() noexcept {
  if (g_replaced != nullptr) restore(false);
}

void restore_calls_that_set_handlers() noexcept {
  if (g_replaced == nullptr) return;
  restore(true);
  unmap_memory(g_replaced, sizeof(Replaced) * kMaxReplaced);
  g_replaced = nullptr;
  g_replaced_count = 0;
}

}  // namespace clusterprof::agent
