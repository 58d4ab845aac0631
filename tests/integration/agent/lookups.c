/* SPDX-License-Identifier: BSD-3-Clause */
/* Does usual things in the child of a fork, and ends with 77 if anybody looks up a symbol there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kLookedUp = 77 };

static int may_look_up = 1;

/* In front of libc's, to which it jumps: RTLD_NEXT depends on who has called. */
void* dlsym(void* restrict handle, const char* restrict name) {
  static void* (*real)(void*, const char*);
  if (!may_look_up) _exit(kLookedUp);
  if (real == NULL) *(void**)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  return real(handle, name);
}

extern char** environ;

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */

int main(void) {
  if (dlsym(RTLD_DEFAULT, "malloc") == NULL) return 1;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      char* const arguments[] = {(char*)"true", NULL};
      may_look_up = 0;
      signal(SIGUSR1, SIG_DFL);
      siginterrupt(SIGUSR1, 1);
      if (i == 0) execvp("true", arguments);
      if (i == 1) execvpe("true", arguments, environ);
      if (i == 2) execlp("true", "true", (char*)NULL);
      _exit(i == 3 && write(STDERR_FILENO, "", 0) == 0 ? 0 : 1);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 2;
    if (status != 0) return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
  }
  return 0;
}
