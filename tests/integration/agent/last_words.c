/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes to descriptor 2 in every way that is seen, and fails: last_words HOW FILE. FILE becomes descriptor
 * 2, so that the test knows what was written there. */
#define _GNU_SOURCE
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const void* volatile no_memory = (const void*)16;

static void write_in_all_ways(void) {
  const char text[] = "by write\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(90);
  const struct iovec parts[] = {{"by ", 3}, {NULL, 0}, {"writev\n", 7}};
  if (writev(2, parts, 3) < 0) _exit(91);
  if (syscall(SYS_write, 2, "by syscall\n", 11) < 0) _exit(92);
  fputs("by fputs\n", stderr);
  errno = ENOENT;
  fprintf(stderr, "by fprintf %d %.2f %s %m\n", 17, 0.5, "text");
  if (fwrite("by fwrite\n", 5, 2, stderr) != 2) _exit(93);
  fputc('c', stderr);
  putc('\n', stderr);
  dprintf(2, "by dprintf %x\n", 255u);
  errno = EACCES;
  perror("by perror");
  fprintf(stdout, "not on descriptor 2\n");
  if (write(2, no_memory, 5) >= 0) _exit(94); /* it fails, and must do no more with the agent */
}

/* What is written may be gone when the call returns. */
enum { kPage = 4096, kTimes = 20000 };
static char* volatile page;
static volatile int ended;

static void* take_away(void* unused) {
  while (!ended) {
    munmap(page, kPage);
    if (mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page) _exit(96);
  }
  return unused;
}

static int write_what_goes_away(void) {
  pthread_t thread;
  page = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || pthread_create(&thread, NULL, take_away, NULL) != 0) return 97;
  for (int i = 0; i < kTimes; ++i)
    if (write(2, page, 64) < 0 && errno != EFAULT) return 98;
  ended = 1;
  pthread_join(thread, NULL);
  return ftruncate(2, 0) == 0 ? 5 : 99; /* how much was there is chance */
}

__attribute__((noinline)) static int fall(volatile int depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  if (depth < 0) return 0;
  return fall(depth + 1) + frame[0];
}

static void on_alternate_stack(int signal) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, NULL);
}

static volatile int zero;
static volatile int* volatile nowhere = (volatile int*)0x10;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int file = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  if (file < 0 || dup2(file, 2) != 2) return 3;
  const char* const how = argv[1];
  write_in_all_ways();
  if (strcmp(how, "much") == 0) {
    for (int i = 0; i < 1000; ++i) fprintf(stderr, "line %d of many\n", i);
    return 5;
  }
  if (strcmp(how, "block") == 0) { /* more than is kept, in one call */
    char* const block = malloc(10000);
    for (int i = 0; i < 10000; ++i) block[i] = (char)('a' + i % 26);
    if (write(2, block, 10000) != 10000) return 95;
    return 5;
  }
  if (strcmp(how, "gone") == 0) return write_what_goes_away();
  if (strcmp(how, "assert") == 0) assert(zero != 0 && "the answer");
  if (strcmp(how, "segv") == 0) *nowhere = 1;
  if (strcmp(how, "fpe") == 0) zero = 7 / zero;
  if (strcmp(how, "ill") == 0) __builtin_trap();
  if (strcmp(how, "overflow") == 0) {
    static char room[65536];
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alternate_stack;
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    return fall(0);
  }
  if (strcmp(how, "defaults") == 0) { /* what a program is told of its own actions */
    const int signals[] = {SIGILL, SIGFPE, SIGABRT};
    for (int i = 0; i < 3; ++i) {
      struct sigaction action;
      if (sigaction(signals[i], NULL, &action) != 0 || action.sa_handler != SIG_DFL || action.sa_flags != 0)
        return 10 + i;
      if (signal(signals[i], SIG_IGN) != SIG_DFL || raise(signals[i]) != 0) return 20 + i;
      if (signal(signals[i], on_alternate_stack) != SIG_IGN || raise(signals[i]) != 0) return 30 + i;
      if (signal(signals[i], SIG_DFL) != SIG_DFL) return 40 + i;
    }
    return 0;
  }
  return 99;
}
