/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends with the number of times that a thread which is not the program's own has read the environment. The program may change
 * it at any time, without a lock. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

static atomic_int reads_of_others;

/* In front of libc's. */
char* getenv(const char* name) {
  const size_t length = strlen(name);
  if (syscall(SYS_gettid) != getpid()) ++reads_of_others;
  for (char** entry = environ; entry != NULL && *entry != NULL; ++entry)
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  return NULL;
}

int main(void) {
  const struct timespec pause = {.tv_nsec = 400000000};
  nanosleep(&pause, NULL);
  const int reads = reads_of_others;
  return reads < 100 ? reads : 100;
}
