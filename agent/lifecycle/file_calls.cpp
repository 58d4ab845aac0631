// SPDX-License-Identifier: BSD-3-Clause
// Interposed system calls on files, by libc's names. Those that transfers.cpp interposes for other reasons
// are there.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/file_calls.h"

#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/lifecycle/event_loops.h"
#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/interpose.h"
#include "agent/lifecycle/mappings.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/signals.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

using wire::IoOperation;
using Path = const char*;

CLUSTERPROF_REAL(open, int(Path, int, ...));
CLUSTERPROF_REAL(open64, int(Path, int, ...));
CLUSTERPROF_REAL(openat, int(int, Path, int, ...));
CLUSTERPROF_REAL(openat64, int(int, Path, int, ...));
CLUSTERPROF_REAL(__open_2, int(Path, int));
CLUSTERPROF_REAL(__open64_2, int(Path, int));
CLUSTERPROF_REAL(__openat_2, int(int, Path, int));
CLUSTERPROF_REAL(__openat64_2, int(int, Path, int));
CLUSTERPROF_REAL(creat, int(Path, mode_t));
CLUSTERPROF_REAL(creat64, int(Path, mode_t));
CLUSTERPROF_REAL(mkstemp, int(char*));
CLUSTERPROF_REAL(mkstemp64, int(char*));
CLUSTERPROF_REAL(mkostemp, int(char*, int));
CLUSTERPROF_REAL(mkostemp64, int(char*, int));
CLUSTERPROF_REAL(mkstemps, int(char*, int));
CLUSTERPROF_REAL(mkstemps64, int(char*, int));
CLUSTERPROF_REAL(mkostemps, int(char*, int, int));
CLUSTERPROF_REAL(mkostemps64, int(char*, int, int));
CLUSTERPROF_REAL(close, int(int));
CLUSTERPROF_REAL(close_range, int(unsigned, unsigned, int));
CLUSTERPROF_REAL(closefrom, void(int));
CLUSTERPROF_REAL(closedir, int(DIR*));
CLUSTERPROF_REAL(dup, int(int));
CLUSTERPROF_REAL(dup2, int(int, int));
CLUSTERPROF_REAL(dup3, int(int, int, int));
CLUSTERPROF_REAL(fcntl, int(int, int, ...));
CLUSTERPROF_REAL(fcntl64, int(int, int, ...));
CLUSTERPROF_REAL(chdir, int(Path));
CLUSTERPROF_REAL(fchdir, int(int));

CLUSTERPROF_REAL(__read_chk, ssize_t(int, void*, size_t, size_t));
CLUSTERPROF_REAL(pread, ssize_t(int, void*, size_t, off_t));
CLUSTERPROF_REAL(pread64, ssize_t(int, void*, size_t, off64_t));
CLUSTERPROF_REAL(__pread_chk, ssize_t(int, void*, size_t, off_t, size_t));
CLUSTERPROF_REAL(__pread64_chk, ssize_t(int, void*, size_t, off64_t, size_t));
CLUSTERPROF_REAL(preadv, ssize_t(int, const iovec*, int, off_t));
CLUSTERPROF_REAL(preadv64, ssize_t(int, const iovec*, int, off64_t));
CLUSTERPROF_REAL(preadv2, ssize_t(int, const iovec*, int, off_t, int));
CLUSTERPROF_REAL(preadv64v2, ssize_t(int, const iovec*, int, off64_t, int));
CLUSTERPROF_REAL(pwrite, ssize_t(int, const void*, size_t, off_t));
CLUSTERPROF_REAL(pwrite64, ssize_t(int, const void*, size_t, off64_t));
CLUSTERPROF_REAL(pwritev, ssize_t(int, const iovec*, int, off_t));
CLUSTERPROF_REAL(pwritev64, ssize_t(int, const iovec*, int, off64_t));
CLUSTERPROF_REAL(pwritev2, ssize_t(int, const iovec*, int, off_t, int));
CLUSTERPROF_REAL(pwritev64v2, ssize_t(int, const iovec*, int, off64_t, int));
CLUSTERPROF_REAL(copy_file_range, ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned));
CLUSTERPROF_REAL(splice, ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned));

CLUSTERPROF_REAL(fsync, int(int));
CLUSTERPROF_REAL(fdatasync, int(int));
CLUSTERPROF_REAL(sync_file_range, int(int, off64_t, off64_t, unsigned));
CLUSTERPROF_REAL(syncfs, int(int));
CLUSTERPROF_REAL(lseek, off_t(int, off_t, int));
CLUSTERPROF_REAL(lseek64, off64_t(int, off64_t, int));
CLUSTERPROF_REAL(ftruncate, int(int, off_t));
CLUSTERPROF_REAL(ftruncate64, int(int, off64_t));
CLUSTERPROF_REAL(fallocate, int(int, int, off_t, off_t));
CLUSTERPROF_REAL(fallocate64, int(int, int, off64_t, off64_t));
CLUSTERPROF_REAL(posix_fallocate, int(int, off_t, off_t));
CLUSTERPROF_REAL(posix_fallocate64, int(int, off64_t, off64_t));
CLUSTERPROF_REAL(truncate, int(Path, off_t));
CLUSTERPROF_REAL(truncate64, int(Path, off64_t));

CLUSTERPROF_REAL(stat, int(Path, void*));
CLUSTERPROF_REAL(stat64, int(Path, void*));
CLUSTERPROF_REAL(lstat, int(Path, void*));
CLUSTERPROF_REAL(lstat64, int(Path, void*));
CLUSTERPROF_REAL(fstat, int(int, void*));
CLUSTERPROF_REAL(fstat64, int(int, void*));
CLUSTERPROF_REAL(fstatat, int(int, Path, void*, int));
CLUSTERPROF_REAL(fstatat64, int(int, Path, void*, int));
CLUSTERPROF_REAL(statx, int(int, Path, int, unsigned, void*));
CLUSTERPROF_REAL(__xstat, int(int, Path, void*));
CLUSTERPROF_REAL(__xstat64, int(int, Path, void*));
CLUSTERPROF_REAL(__lxstat, int(int, Path, void*));
CLUSTERPROF_REAL(__lxstat64, int(int, Path, void*));
CLUSTERPROF_REAL(__fxstat, int(int, int, void*));
CLUSTERPROF_REAL(__fxstat64, int(int, int, void*));
CLUSTERPROF_REAL(__fxstatat, int(int, int, Path, void*, int));
CLUSTERPROF_REAL(__fxstatat64, int(int, int, Path, void*, int));
CLUSTERPROF_REAL(access, int(Path, int));
CLUSTERPROF_REAL(faccessat, int(int, Path, int, int));
CLUSTERPROF_REAL(unlink, int(Path));
CLUSTERPROF_REAL(unlinkat, int(int, Path, int));
CLUSTERPROF_REAL(remove, int(Path));
CLUSTERPROF_REAL(rename, int(Path, Path));
CLUSTERPROF_REAL(renameat, int(int, Path, int, Path));
CLUSTERPROF_REAL(renameat2, int(int, Path, int, Path, unsigned));
CLUSTERPROF_REAL(mkdir, int(Path, mode_t));
CLUSTERPROF_REAL(mkdirat, int(int, Path, mode_t));
CLUSTERPROF_REAL(rmdir, int(Path));

using MapFunction = void*(void*, size_t, int, int, int, off64_t);
constinit std::atomic<MapFunction*> g_mmap = nullptr, g_mmap64 = nullptr;
CLUSTERPROF_REAL(msync, int(void*, size_t, int));

mode_t mode_argument(int flags, va_list arguments) noexcept {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

template <typename Function>
[[gnu::always_inline]] inline int opening(const void* caller, int folder, Path path, Function function) {
  const NameCall call(caller);
  const int descriptor = function();
  if (call.is_counted_call()) {
    call.end_open(descriptor, folder, path);
  } else if (descriptor >= 0) {
    forget_descriptor(descriptor);  // the one before may have been closed past us
  }
  return descriptor;
}

// Returns the number of bytes transferred.
template <typename Function>
[[gnu::always_inline]] inline ssize_t moving(const void* caller, int descriptor, IoOperation operation,
                                             Function function) {
  const FileCall call(descriptor, operation, caller);
  const ssize_t moved = function();
  call.end(moved);
  return moved;
}

// Returns 0 or a file position.
template <typename Function>
[[gnu::always_inline]] inline auto working(const void* caller, int descriptor, IoOperation operation,
                                           Function function) {
  const FileCall call(descriptor, operation, caller);
  const auto result = function();
  call.end(result < 0 ? -1 : 0);
  return result;
}

template <typename Function>
[[gnu::always_inline]] inline int naming(const void* caller, int folder, Path path, Function function) {
  const NameCall call(caller);
  const int result = function();
  call.end(IoOperation::kMetadata, folder, path, result != 0);
  return result;
}

template <typename Function>
[[gnu::always_inline]] inline int duplicating(int descriptor, Function function) {
  const int copy = function();
  if (copy >= 0) copy_descriptor(descriptor, copy);
  return copy;
}

// Older libcs have no functions by these names: programs have their own linked in, and call __xstat and its
// variants.
int status_of(long result) noexcept {
  if (result >= 0) return static_cast<int>(result);
  errno = static_cast<int>(-result);
  return -1;
}

template <typename Function>
[[gnu::always_inline]] inline int mapping_status(Function& function, int folder, Path path, void* status,
                                                 int flags) {
  if constexpr (requires { function(folder, path, status, flags); }) {
    if (function.find() != nullptr) return function(folder, path, status, flags);
  } else {
    if (function.find() != nullptr) return function(path, status);
  }
  return status_of(raw_syscall(SYS_newfstatat, folder, path, status, flags));
}

int descriptor_status(Real<int(int, void*)>& function, int descriptor, void* status) {
  if (function.find() != nullptr) return function(descriptor, status);
  return status_of(raw_syscall(SYS_fstat, descriptor, status));
}

void* map_memory(std::atomic<MapFunction*>& cached, void* address, size_t bytes, int protection, int flags,
                 int descriptor, off64_t offset) {
  // Not looked up here: the loader, or a malloc that is being set up, may have called.
  MapFunction* const function = cached.load(std::memory_order_relaxed);
  if (function != nullptr) return function(address, bytes, protection, flags, descriptor, offset);
  const long result = raw_syscall(SYS_mmap, address, bytes, protection, flags, descriptor, offset);
  if (result < 0 && result > -4096) {
    errno = static_cast<int>(-result);
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(result);
}

[[gnu::always_inline]] inline void* mapping(const void* caller, std::atomic<MapFunction*>& function,
                                            void* address, size_t bytes, int protection, int flags,
                                            int descriptor, off64_t offset) {
  if ((flags & MAP_ANONYMOUS) != 0) {
    void* const anonymous = map_memory(function, address, bytes, protection, flags, descriptor, offset);
    if (anonymous != MAP_FAILED) note_mapping(caller, anonymous, bytes, protection, flags, descriptor);
    return anonymous;
  }
  const FileCall call(descriptor, IoOperation::kMap, caller);
  void* const memory = map_memory(function, address, bytes, protection, flags, descriptor, offset);
  if (memory != MAP_FAILED && call.is_counted_call()) enter_mapping(memory, bytes, call.file());
  call.end(memory == MAP_FAILED ? -1 : static_cast<std::int64_t>(bytes));
  if (memory != MAP_FAILED) note_mapping(caller, memory, bytes, protection, flags, descriptor);
  return memory;
}

// For calls that make the file behind the descriptor, or give it its size.
int owning(int result, int descriptor) noexcept {
  if (result == 0) note_own_file(descriptor);
  return result;
}
int owning(int descriptor) noexcept {
  if (descriptor >= 0) note_own_file(descriptor);
  return descriptor;
}

int command(Real<int(int, int, ...)>& function, int descriptor, int command, void* argument) {
  const int result = function(descriptor, command, argument);
  if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC)) copy_descriptor(descriptor, result);
  return result;
}

}  // namespace

void watch_file_calls() noexcept {
  const auto find = [](auto&... functions) { (functions.find(), ...); };
  find(g_open, g_open64, g_openat, g_openat64, g___open_2, g___open64_2, g___openat_2, g___openat64_2,
       g_creat, g_creat64, g_mkstemp, g_mkstemp64, g_mkostemp, g_mkostemp64, g_mkstemps, g_mkstemps64,
       g_mkostemps, g_mkostemps64, g_close, g_close_range, g_closefrom, g_closedir, g_dup, g_dup2, g_dup3,
       g_fcntl, g_fcntl64, g_chdir, g_fchdir);
  find(g___read_chk, g_pread, g_pread64, g___pread_chk, g___pread64_chk, g_preadv, g_preadv64, g_preadv2,
       g_preadv64v2, g_pwrite, g_pwrite64, g_pwritev, g_pwritev64, g_pwritev2, g_pwritev64v2,
       g_copy_file_range, g_splice, g_fsync, g_fdatasync, g_sync_file_range, g_syncfs, g_lseek, g_lseek64,
       g_ftruncate, g_ftruncate64, g_fallocate, g_fallocate64, g_posix_fallocate, g_posix_fallocate64,
       g_truncate, g_truncate64, g_msync);
  find(g_stat, g_stat64, g_lstat, g_lstat64, g_fstat, g_fstat64, g_fstatat, g_fstatat64, g_statx, g___xstat,
       g___xstat64, g___lxstat, g___lxstat64, g___fxstat, g___fxstat64, g___fxstatat, g___fxstatat64,
       g_access, g_faccessat, g_unlink, g_unlinkat, g_remove, g_rename, g_renameat, g_renameat2, g_mkdir,
       g_mkdirat, g_rmdir);
  real_function(g_mmap, "mmap");
  real_function(g_mmap64, "mmap64");
}

}  // namespace clusterprof::agent

using namespace clusterprof::agent;

// --- open and close ---

#define CLUSTERPROF_OPEN(name)                                                                       \
  CLUSTERPROF_STANDS_FOR(int, name, const char* path, int flags, ...) {                              \
    va_list arguments;                                                                               \
    va_start(arguments, flags);                                                                      \
    const mode_t mode = mode_argument(flags, arguments);                                             \
    va_end(arguments);                                                                               \
    return opening(CLUSTERPROF_CALLER, AT_FDCWD, path, [=] { return g_##name(path, flags, mode); }); \
  }
CLUSTERPROF_OPEN(open)
CLUSTERPROF_OPEN(open64)

#define CLUSTERPROF_OPENAT(name)                                                                           \
  CLUSTERPROF_STANDS_FOR(int, name, int folder, const char* path, int flags, ...) {                        \
    va_list arguments;                                                                                     \
    va_start(arguments, flags);                                                                            \
    const mode_t mode = mode_argument(flags, arguments);                                                   \
    va_end(arguments);                                                                                     \
    return opening(CLUSTERPROF_CALLER, folder, path, [=] { return g_##name(folder, path, flags, mode); }); \
  }
CLUSTERPROF_OPENAT(openat)
CLUSTERPROF_OPENAT(openat64)

#define CLUSTERPROF_OPEN_BY(name, folder, parameters, ...)                                   \
  CLUSTERPROF_STANDS_FOR(int, name, CLUSTERPROF_UNPACK parameters) {                         \
    return opening(CLUSTERPROF_CALLER, folder, path, [=] { return g_##name(__VA_ARGS__); }); \
  }
CLUSTERPROF_OPEN_BY(__open_2, AT_FDCWD, (const char* path, int flags), path, flags)
CLUSTERPROF_OPEN_BY(__open64_2, AT_FDCWD, (const char* path, int flags), path, flags)
CLUSTERPROF_OPEN_BY(__openat_2, folder, (int folder, const char* path, int flags), folder, path, flags)
CLUSTERPROF_OPEN_BY(__openat64_2, folder, (int folder, const char* path, int flags), folder, path, flags)
CLUSTERPROF_OPEN_BY(creat, AT_FDCWD, (const char* path, mode_t mode), path, mode)
CLUSTERPROF_OPEN_BY(creat64, AT_FDCWD, (const char* path, mode_t mode), path, mode)

#define CLUSTERPROF_MAKE(name, folder, parameters, ...)                                              \
  CLUSTERPROF_STANDS_FOR(int, name, CLUSTERPROF_UNPACK parameters) {                                 \
    return opening(CLUSTERPROF_CALLER, folder, path, [=] { return owning(g_##name(__VA_ARGS__)); }); \
  }
CLUSTERPROF_MAKE(mkstemp, AT_FDCWD, (char* path), path)
CLUSTERPROF_MAKE(mkstemp64, AT_FDCWD, (char* path), path)
CLUSTERPROF_MAKE(mkostemp, AT_FDCWD, (char* path, int flags), path, flags)
CLUSTERPROF_MAKE(mkostemp64, AT_FDCWD, (char* path, int flags), path, flags)
CLUSTERPROF_MAKE(mkstemps, AT_FDCWD, (char* path, int suffix), path, suffix)
CLUSTERPROF_MAKE(mkstemps64, AT_FDCWD, (char* path, int suffix), path, suffix)
CLUSTERPROF_MAKE(mkostemps, AT_FDCWD, (char* path, int suffix, int flags), path, suffix, flags)
CLUSTERPROF_MAKE(mkostemps64, AT_FDCWD, (char* path, int suffix, int flags), path, suffix, flags)

CLUSTERPROF_STANDS_FOR(int, close, int descriptor) {
  end_event_loop(descriptor);
  const std::uint32_t file = forget_descriptor(descriptor);
  const FileCall call(is_counted(CLUSTERPROF_CALLER) ? file : kNoFile, IoOperation::kClose);
  const int result = g_close(descriptor);
  call.end(result);
  return result;
}

CLUSTERPROF_STANDS_FOR(int, closedir, DIR* folder) {
  const std::uint32_t file = folder != nullptr ? forget_descriptor(dirfd(folder)) : kNoFile;
  const FileCall call(is_counted(CLUSTERPROF_CALLER) ? file : kNoFile, IoOperation::kClose);
  const int result = g_closedir(folder);
  call.end(result);
  return result;
}

CLUSTERPROF_STANDS_FOR(int, close_range, unsigned first, unsigned last, int flags) {
  const int result = g_close_range(first, last, flags);
  if (result == 0 && (flags & CLOSE_RANGE_CLOEXEC) == 0) forget_descriptor_range(first, last);
  return result;
}

CLUSTERPROF_STANDS_FOR(void, closefrom, int first) {
  auto* const function = g_closefrom.find();
  if (function == nullptr) return;
  function(first);
  forget_descriptor_range(first < 0 ? 0 : static_cast<unsigned>(first), ~0u);
}

CLUSTERPROF_STANDS_FOR(int, dup, int descriptor) {
  return duplicating(descriptor, [=] { return g_dup(descriptor); });
}
CLUSTERPROF_STANDS_FOR(int, dup2, int descriptor, int copy) {
  return duplicating(descriptor, [=] { return g_dup2(descriptor, copy); });
}
CLUSTERPROF_STANDS_FOR(int, dup3, int descriptor, int copy, int flags) {
  return duplicating(descriptor, [=] { return g_dup3(descriptor, copy, flags); });
}

// The kernel takes at most one argument. libc passes it on in the same way.
#define CLUSTERPROF_FCNTL(name)                                        \
  CLUSTERPROF_STANDS_FOR(int, name, int descriptor, int number, ...) { \
    va_list arguments;                                                 \
    va_start(arguments, number);                                       \
    void* const argument = va_arg(arguments, void*);                   \
    va_end(arguments);                                                 \
    return command(g_##name, descriptor, number, argument);            \
  }
CLUSTERPROF_FCNTL(fcntl)
CLUSTERPROF_FCNTL(fcntl64)

CLUSTERPROF_STANDS_FOR(int, chdir, const char* path) {
  const int result = g_chdir(path);
  if (result == 0) forget_directory_names();
  return result;
}
CLUSTERPROF_STANDS_FOR(int, fchdir, int descriptor) {
  const int result = g_fchdir(descriptor);
  if (result == 0) forget_directory_names();
  return result;
}

// --- transfers ---

#define CLUSTERPROF_MOVE(name, operation, parameters, ...)                \
  CLUSTERPROF_STANDS_FOR(ssize_t, name, CLUSTERPROF_UNPACK parameters) {  \
    return moving(CLUSTERPROF_CALLER, descriptor, IoOperation::operation, \
                  [=] { return g_##name(__VA_ARGS__); });                 \
  }
CLUSTERPROF_MOVE(__read_chk, kRead, (int descriptor, void* bytes, size_t count, size_t room), descriptor,
                 bytes, count, room)
CLUSTERPROF_MOVE(pread, kRead, (int descriptor, void* bytes, size_t count, off_t offset), descriptor, bytes,
                 count, offset)
CLUSTERPROF_MOVE(pread64, kRead, (int descriptor, void* bytes, size_t count, off64_t offset), descriptor,
                 bytes, count, offset)
CLUSTERPROF_MOVE(__pread_chk, kRead, (int descriptor, void* bytes, size_t count, off_t offset, size_t room),
                 descriptor, bytes, count, offset, room)
CLUSTERPROF_MOVE(__pread64_chk, kRead,
                 (int descriptor, void* bytes, size_t count, off64_t offset, size_t room), descriptor, bytes,
                 count, offset, room)
CLUSTERPROF_MOVE(preadv, kRead, (int descriptor, const iovec* parts, int count, off_t offset), descriptor,
                 parts, count, offset)
CLUSTERPROF_MOVE(preadv64, kRead, (int descriptor, const iovec* parts, int count, off64_t offset), descriptor,
                 parts, count, offset)
CLUSTERPROF_MOVE(preadv2, kRead, (int descriptor, const iovec* parts, int count, off_t offset, int flags),
                 descriptor, parts, count, offset, flags)
CLUSTERPROF_MOVE(preadv64v2, kRead,
                 (int descriptor, const iovec* parts, int count, off64_t offset, int flags), descriptor,
                 parts, count, offset, flags)
CLUSTERPROF_MOVE(pwrite, kWrite, (int descriptor, const void* bytes, size_t count, off_t offset), descriptor,
                 bytes, count, offset)
CLUSTERPROF_MOVE(pwrite64, kWrite, (int descriptor, const void* bytes, size_t count, off64_t offset),
                 descriptor, bytes, count, offset)
CLUSTERPROF_MOVE(pwritev, kWrite, (int descriptor, const iovec* parts, int count, off_t offset), descriptor,
                 parts, count, offset)
CLUSTERPROF_MOVE(pwritev64, kWrite, (int descriptor, const iovec* parts, int count, off64_t offset),
                 descriptor, parts, count, offset)
CLUSTERPROF_MOVE(pwritev2, kWrite, (int descriptor, const iovec* parts, int count, off_t offset, int flags),
                 descriptor, parts, count, offset, flags)
CLUSTERPROF_MOVE(pwritev64v2, kWrite,
                 (int descriptor, const iovec* parts, int count, off64_t offset, int flags), descriptor,
                 parts, count, offset, flags)

CLUSTERPROF_STANDS_FOR(ssize_t, copy_file_range, int from, off64_t* from_offset, int to, off64_t* to_offset,
                       size_t count, unsigned flags) {
  const FileCopy call(from, to, CLUSTERPROF_CALLER);
  const ssize_t moved = g_copy_file_range(from, from_offset, to, to_offset, count, flags);
  call.end(moved);
  return moved;
}
CLUSTERPROF_STANDS_FOR(ssize_t, splice, int from, off64_t* from_offset, int to, off64_t* to_offset,
                       size_t count, unsigned flags) {
  const FileCopy call(from, to, CLUSTERPROF_CALLER);
  const ssize_t moved = g_splice(from, from_offset, to, to_offset, count, flags);
  call.end(moved);
  return moved;
}

// --- on descriptors ---

#define CLUSTERPROF_WORK(result, name, operation, parameters, ...)         \
  CLUSTERPROF_STANDS_FOR(result, name, CLUSTERPROF_UNPACK parameters) {    \
    return working(CLUSTERPROF_CALLER, descriptor, IoOperation::operation, \
                   [=] { return g_##name(__VA_ARGS__); });                 \
  }
CLUSTERPROF_WORK(int, fsync, kSync, (int descriptor), descriptor)
CLUSTERPROF_WORK(int, fdatasync, kSync, (int descriptor), descriptor)
CLUSTERPROF_WORK(int, syncfs, kSync, (int descriptor), descriptor)
CLUSTERPROF_WORK(int, sync_file_range, kSync, (int descriptor, off64_t offset, off64_t bytes, unsigned flags),
                 descriptor, offset, bytes, flags)
CLUSTERPROF_WORK(off_t, lseek, kSeek, (int descriptor, off_t offset, int whence), descriptor, offset, whence)
CLUSTERPROF_WORK(off64_t, lseek64, kSeek, (int descriptor, off64_t offset, int whence), descriptor, offset,
                 whence)
#define CLUSTERPROF_RESIZE(name, offset_type)                                     \
  CLUSTERPROF_STANDS_FOR(int, name, int descriptor, offset_type bytes) {          \
    return owning(working(CLUSTERPROF_CALLER, descriptor, IoOperation::kMetadata, \
                          [=] { return g_##name(descriptor, bytes); }),           \
                  descriptor);                                                    \
  }
CLUSTERPROF_RESIZE(ftruncate, off_t)
CLUSTERPROF_RESIZE(ftruncate64, off64_t)

// In older kernels, a memory file gives all its pages back when a signal arrives.
template <typename Function>
auto allocating(Function function) {
  const SampleSignalHeld held(SYS_fallocate);
  return function();
}

#define CLUSTERPROF_ALLOCATE(name, offset_type)                                                           \
  CLUSTERPROF_STANDS_FOR(int, name, int descriptor, int mode, offset_type offset, offset_type bytes) {    \
    const auto allocate = [=] {                                                                           \
      return allocating([=] { return g_##name(descriptor, mode, offset, bytes); });                       \
    };                                                                                                    \
    return owning(working(CLUSTERPROF_CALLER, descriptor, IoOperation::kMetadata, allocate), descriptor); \
  }
CLUSTERPROF_ALLOCATE(fallocate, off_t)
CLUSTERPROF_ALLOCATE(fallocate64, off64_t)

// These return the error.
#define CLUSTERPROF_POSIX_ALLOCATE(name, offset_type)                                        \
  CLUSTERPROF_STANDS_FOR(int, name, int descriptor, offset_type offset, offset_type bytes) { \
    auto* const function = g_##name.find();                                                  \
    if (function == nullptr) return ENOSYS;                                                  \
    const FileCall call(descriptor, IoOperation::kMetadata, CLUSTERPROF_CALLER);             \
    const int error = allocating([=] { return function(descriptor, offset, bytes); });       \
    call.end(error != 0 ? -1 : 0);                                                           \
    return owning(error, descriptor);                                                        \
  }
CLUSTERPROF_POSIX_ALLOCATE(posix_fallocate, off_t)
CLUSTERPROF_POSIX_ALLOCATE(posix_fallocate64, off64_t)

#define CLUSTERPROF_MAP(name)                                                                            \
  CLUSTERPROF_STANDS_FOR(void*, name, void* address, size_t bytes, int protection, int flags,            \
                         int descriptor, off64_t offset) {                                               \
    return mapping(CLUSTERPROF_CALLER, g_##name, address, bytes, protection, flags, descriptor, offset); \
  }
CLUSTERPROF_MAP(mmap)
CLUSTERPROF_MAP(mmap64)

CLUSTERPROF_STANDS_FOR(int, msync, void* address, size_t bytes, int flags) {
  const FileCall call(is_counted(CLUSTERPROF_CALLER) ? file_mapped_at(address) : kNoFile, IoOperation::kSync);
  const int result = g_msync(address, bytes, flags);
  call.end(result);
  return result;
}

// --- on names ---

#define CLUSTERPROF_NAME(name, folder, parameters, ...)                                     \
  CLUSTERPROF_STANDS_FOR(int, name, CLUSTERPROF_UNPACK parameters) {                        \
    return naming(CLUSTERPROF_CALLER, folder, path, [=] { return g_##name(__VA_ARGS__); }); \
  }
CLUSTERPROF_NAME(truncate, AT_FDCWD, (const char* path, off_t bytes), path, bytes)
CLUSTERPROF_NAME(truncate64, AT_FDCWD, (const char* path, off64_t bytes), path, bytes)
CLUSTERPROF_NAME(statx, folder, (int folder, const char* path, int flags, unsigned mask, void* status),
                 folder, path, flags, mask, status)
CLUSTERPROF_NAME(__xstat, AT_FDCWD, (int version, const char* path, void* status), version, path, status)
CLUSTERPROF_NAME(__xstat64, AT_FDCWD, (int version, const char* path, void* status), version, path, status)
CLUSTERPROF_NAME(__lxstat, AT_FDCWD, (int version, const char* path, void* status), version, path, status)
CLUSTERPROF_NAME(__lxstat64, AT_FDCWD, (int version, const char* path, void* status), version, path, status)
CLUSTERPROF_NAME(__fxstatat, folder, (int version, int folder, const char* path, void* status, int flags),
                 version, folder, path, status, flags)
CLUSTERPROF_NAME(__fxstatat64, folder, (int version, int folder, const char* path, void* status, int flags),
                 version, folder, path, status, flags)
CLUSTERPROF_NAME(access, AT_FDCWD, (const char* path, int mode), path, mode)
CLUSTERPROF_NAME(faccessat, folder, (int folder, const char* path, int mode, int flags), folder, path, mode,
                 flags)
CLUSTERPROF_NAME(unlink, AT_FDCWD, (const char* path), path)
CLUSTERPROF_NAME(unlinkat, folder, (int folder, const char* path, int flags), folder, path, flags)
CLUSTERPROF_NAME(remove, AT_FDCWD, (const char* path), path)
CLUSTERPROF_NAME(rename, AT_FDCWD, (const char* path, const char* to), path, to)
CLUSTERPROF_NAME(renameat, folder, (int folder, const char* path, int to_folder, const char* to), folder,
                 path, to_folder, to)
CLUSTERPROF_NAME(renameat2, folder,
                 (int folder, const char* path, int to_folder, const char* to, unsigned flags), folder, path,
                 to_folder, to, flags)
CLUSTERPROF_NAME(mkdir, AT_FDCWD, (const char* path, mode_t mode), path, mode)
CLUSTERPROF_NAME(mkdirat, folder, (int folder, const char* path, mode_t mode), folder, path, mode)
CLUSTERPROF_NAME(rmdir, AT_FDCWD, (const char* path), path)

#define CLUSTERPROF_STATUS(name, flags)                                                     \
  CLUSTERPROF_STANDS_FOR(int, name, const char* path, void* status) {                       \
    return naming(CLUSTERPROF_CALLER, AT_FDCWD, path,                                       \
                  [=] { return mapping_status(g_##name, AT_FDCWD, path, status, flags); }); \
  }
CLUSTERPROF_STATUS(stat, 0)
CLUSTERPROF_STATUS(stat64, 0)
CLUSTERPROF_STATUS(lstat, AT_SYMLINK_NOFOLLOW)
CLUSTERPROF_STATUS(lstat64, AT_SYMLINK_NOFOLLOW)

#define CLUSTERPROF_STATUS_AT(name)                                                          \
  CLUSTERPROF_STANDS_FOR(int, name, int folder, const char* path, void* status, int flags) { \
    return naming(CLUSTERPROF_CALLER, folder, path,                                          \
                  [=] { return mapping_status(g_##name, folder, path, status, flags); });    \
  }
CLUSTERPROF_STATUS_AT(fstatat)
CLUSTERPROF_STATUS_AT(fstatat64)

#define CLUSTERPROF_STATUS_OF(name)                                                  \
  CLUSTERPROF_STANDS_FOR(int, name, int descriptor, void* status) {                  \
    return working(CLUSTERPROF_CALLER, descriptor, IoOperation::kMetadata,           \
                   [=] { return descriptor_status(g_##name, descriptor, status); }); \
  }
CLUSTERPROF_STATUS_OF(fstat)
CLUSTERPROF_STATUS_OF(fstat64)
CLUSTERPROF_WORK(int, __fxstat, kMetadata, (int version, int descriptor, void* status), version, descriptor,
                 status)
CLUSTERPROF_WORK(int, __fxstat64, kMetadata, (int version, int descriptor, void* status), version, descriptor,
                 status)
