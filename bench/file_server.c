/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Stands between programs and libc (LD_PRELOAD, or linked into a program), counts what they do with files
 * below a directory, and makes each of these operations take as long as on a file server that far away. What
 * is simulated is the time alone: every operation takes FILE_SERVER_DELAY_US, however many are under way and
 * however large they are, and nothing is kept in the client's memory (a real client answers some of them
 * itself). The operations are carried out on the real file system below.
 *
 *   FILE_SERVER_ROOT      absolute; what is below it is on the "server"
 *   FILE_SERVER_DELAY_US  microseconds per operation; 0 or not set: only count
 *   FILE_SERVER_COUNTS    a directory; every process leaves a file PROGRAM.PID with lines "OPERATION COUNT"
 * there
 *
 * Reads are not counted, as collectors and launchers read nothing of what they wrote; closing neither.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum Operation {
  kCreate,
  kOpen,
  kLook,
  kMakeDirectory,
  kLink,
  kRename,
  kRemove,
  kList,
  kTruncate,
  kWrite,
  kSync,
  kOperations
};
static const char* const kNames[kOperations] = {"create", "open",    "look",     "mkdir", "symlink", "rename",
                                                "unlink", "readdir", "truncate", "write", "sync"};

struct Counts {
  atomic_ulong count[kOperations];
  atomic_ulong waited_ns;
};
static struct Counts own_counts;
static struct Counts* counts = &own_counts;
static char root[PATH_MAX];
static size_t root_length;
static long delay_ns;

/* For programs that are linked with this file. */
unsigned long file_server_count(int operation) { return counts->count[operation]; }
void file_server_begin(const char* directory, long delay_us) {
  root_length = (size_t)snprintf(root, sizeof root, "%s", directory);
  delay_ns = delay_us * 1000;
}

__attribute__((constructor)) static void begin(void) {
  const char* const where = getenv("FILE_SERVER_ROOT");
  const char* const delay = getenv("FILE_SERVER_DELAY_US");
  const char* const directory = getenv("FILE_SERVER_COUNTS");
  if (where == NULL || directory == NULL) return;
  char name[PATH_MAX];
  snprintf(name, sizeof name, "%s/%s.%d", directory, program_invocation_short_name, (int)getpid());
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || syscall(SYS_ftruncate, fd, sizeof(struct Counts)) != 0) return;
  void* const memory = mmap(NULL, sizeof(struct Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (memory == MAP_FAILED) return;
  counts = memory;
  file_server_begin(where, delay != NULL ? atol(delay) : 0);
}

static void operation(enum Operation what) {
  atomic_fetch_add(&counts->count[what], 1);
  if (delay_ns == 0) return;
  const int error = errno;
  struct timespec left = {delay_ns / 1000000000, delay_ns % 1000000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  atomic_fetch_add(&counts->waited_ns, (unsigned long)delay_ns);
  errno = error;
}

static int is_below(const char* path) {
  return root_length > 0 && strncmp(path, root, root_length) == 0 &&
         (path[root_length] == '/' || path[root_length] == 0);
}

static int is_fd_below(int fd) {
  if (root_length == 0 || fd < 0) return 0;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return is_below(path);
}

static int is_at_below(int directory, const char* path) {
  if (path == NULL || root_length == 0) return 0;
  if (path[0] == '/') return is_below(path);
  if (directory != AT_FDCWD) return is_fd_below(directory);
  char here[PATH_MAX];
  return syscall(SYS_getcwd, here, sizeof here) > 0 && is_below(here);
}

static void at(enum Operation what, int directory, const char* path) {
  if (is_at_below(directory, path)) operation(what);
}
static void on(enum Operation what, int fd) {
  if (is_fd_below(fd)) operation(what);
}

#define NEXT(name) (__extension__(__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static int open_any(int directory, const char* path, int flags, mode_t mode) {
  at((flags & O_CREAT) != 0 ? kCreate : kOpen, directory, path);
  return (int)syscall(SYS_openat, directory, path, flags, mode);
}
#define MODE_OF(flags)                            \
  mode_t mode = 0;                                \
  if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) { \
    va_list list;                                 \
    va_start(list, flags);                        \
    mode = va_arg(list, mode_t);                  \
    va_end(list);                                 \
  }
int open(const char* path, int flags, ...) {
  MODE_OF(flags)
  return open_any(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE_OF(flags)
  return open_any(AT_FDCWD, path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  MODE_OF(flags)
  return open_any(directory, path, flags, mode);
}
int openat64(int directory, const char* path, int flags, ...) {
  MODE_OF(flags)
  return open_any(directory, path, flags, mode);
}
DIR* opendir(const char* path) {
  at(kList, AT_FDCWD, path);
  return NEXT(opendir)(path);
}
DIR* fdopendir(int fd) {
  on(kList, fd);
  return NEXT(fdopendir)(fd);
}

#define AT_PATH(type, name, what, parameters, arguments, directory, path) \
  type name parameters {                                                  \
    at(what, directory, path);                                            \
    return NEXT(name) arguments;                                          \
  }
AT_PATH(int, mkdir, kMakeDirectory, (const char* path, mode_t mode), (path, mode), AT_FDCWD, path)
AT_PATH(int, mkdirat, kMakeDirectory, (int directory, const char* path, mode_t mode), (directory, path, mode),
        directory, path)
AT_PATH(int, rename, kRename, (const char* from, const char* to), (from, to), AT_FDCWD, to)
AT_PATH(int, renameat, kRename, (int a, const char* from, int b, const char* to), (a, from, b, to), b, to)
AT_PATH(int, unlink, kRemove, (const char* path), (path), AT_FDCWD, path)
AT_PATH(int, unlinkat, kRemove, (int directory, const char* path, int flags), (directory, path, flags),
        directory, path)
AT_PATH(int, rmdir, kRemove, (const char* path), (path), AT_FDCWD, path)
AT_PATH(int, symlink, kLink, (const char* target, const char* path), (target, path), AT_FDCWD, path)
AT_PATH(int, symlinkat, kLink, (const char* target, int directory, const char* path),
        (target, directory, path), directory, path)
AT_PATH(ssize_t, readlink, kLook, (const char* path, char* buffer, size_t size), (path, buffer, size),
        AT_FDCWD, path)
AT_PATH(ssize_t, readlinkat, kLook, (int directory, const char* path, char* buffer, size_t size),
        (directory, path, buffer, size), directory, path)
AT_PATH(int, access, kLook, (const char* path, int mode), (path, mode), AT_FDCWD, path)
AT_PATH(int, stat, kLook, (const char* path, struct stat* status), (path, status), AT_FDCWD, path)
AT_PATH(int, lstat, kLook, (const char* path, struct stat* status), (path, status), AT_FDCWD, path)
AT_PATH(int, fstatat, kLook, (int directory, const char* path, struct stat* status, int flags),
        (directory, path, status, flags), directory, path)
AT_PATH(int, statx, kLook, (int directory, const char* path, int flags, unsigned mask, struct statx* status),
        (directory, path, flags, mask, status), directory, path)

#define ON_FD(type, name, what, parameters, arguments) \
  type name parameters {                               \
    on(what, fd);                                      \
    return NEXT(name) arguments;                       \
  }
ON_FD(int, fstat, kLook, (int fd, struct stat* status), (fd, status))
ON_FD(int, fsync, kSync, (int fd), (fd))
ON_FD(int, fdatasync, kSync, (int fd), (fd))
ON_FD(int, ftruncate, kTruncate, (int fd, off_t length), (fd, length))
ON_FD(int, ftruncate64, kTruncate, (int fd, off64_t length), (fd, length))
ON_FD(ssize_t, write, kWrite, (int fd, const void* bytes, size_t count), (fd, bytes, count))
ON_FD(ssize_t, pwrite, kWrite, (int fd, const void* bytes, size_t count, off_t offset),
      (fd, bytes, count, offset))
ON_FD(ssize_t, pwrite64, kWrite, (int fd, const void* bytes, size_t count, off64_t offset),
      (fd, bytes, count, offset))

const char* file_server_name(int operation) { return operation < kOperations ? kNames[operation] : NULL; }
