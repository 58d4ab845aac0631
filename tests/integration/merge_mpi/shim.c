// SPDX-License-Identifier: BSD-3-Clause
// Preloaded. Writes the name of every program it is in to $SHIM_LOG; where $SHIM_KILL_AT is N, the process
// dies by SIGKILL when it opens a file *.h5 for the N-th time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void log_program(void) {
  const char* log = getenv("SHIM_LOG");
  if (log == NULL) return;
  char program[4096];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return;
  program[length++] = '\n';
  int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0 || write(fd, program, (size_t)length) != length) abort();
  close(fd);
}

static void count(const char* path) {
  static int opened = 0;
  const char* at = getenv("SHIM_KILL_AT");
  const size_t length = strlen(path);
  if (at == NULL || length < 3 || strcmp(path + length - 3, ".h5") != 0) return;
  if (++opened == atoi(at)) raise(SIGKILL);
}

typedef int (*open_function)(const char* path, int flags, ...);

#define OPEN(name)                                                      \
  int name(const char* path, int flags, ...) {                          \
    mode_t mode = 0;                                                    \
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {                         \
      va_list arguments;                                                \
      va_start(arguments, flags);                                       \
      mode = va_arg(arguments, mode_t);                                 \
      va_end(arguments);                                                \
    }                                                                   \
    count(path);                                                        \
    return ((open_function)dlsym(RTLD_NEXT, #name))(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
