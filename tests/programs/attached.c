// Programs to attach to, which were not started with clusterprof.
//
//   attached threads N STOP   N threads compute in spin_work() until the file STOP exists; the main thread sleeps
//   attached storm N STOP     N threads allocate, check and free memory until then
//   attached forks 0 STOP     the main thread makes children until then, one after the other, each of which uses the loader
//
// Prints "ready" once all threads run, and at the end "ok", or how many mistakes it has found. It has a handler for
// SIGUSR1, whose number of calls it prints.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int stop, running, mistakes, signals;

static void count_signal(int number) {
  (void)number;
  atomic_fetch_add(&signals, 1);
}

__attribute__((noinline)) static uint64_t spin_work(uint64_t seed) {
  for (int i = 0; i < 200000; ++i) seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return seed;
}

static void* compute(void* given) {
  uint64_t seed = (uintptr_t)given;
  atomic_fetch_add(&running, 1);
  while (!atomic_load(&stop)) seed = spin_work(seed);
  return (void*)(uintptr_t)(seed | 1);
}

enum { kBlocks = 64 };

static void* allocate(void* given) {
  uint64_t seed = (uintptr_t)given + 1;
  unsigned char* blocks[kBlocks] = {0};
  size_t sizes[kBlocks] = {0};
  atomic_fetch_add(&running, 1);
  while (!atomic_load(&stop)) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const unsigned at = seed >> 58;
    const unsigned char mark = (unsigned char)(at ^ (uintptr_t)given);
    for (size_t i = 0; i < sizes[at]; ++i)
      if (blocks[at][i] != mark) {
        atomic_fetch_add(&mistakes, 1);
        break;
      }
    free(blocks[at]);
    sizes[at] = (seed >> 32) % 3000;
    blocks[at] = malloc(sizes[at] + 1);
    if (blocks[at] == NULL) abort();
    memset(blocks[at], mark, sizes[at]);
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  return NULL;
}

static void make_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(dlopen(NULL, RTLD_NOW) == NULL);
  }
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0) {
  }
  if (status != 0) atomic_fetch_add(&mistakes, 1);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int forks = strcmp(argv[1], "forks") == 0;
  const int count = atoi(argv[2]);
  struct sigaction action = {0};
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, NULL);
  pthread_t* threads = calloc((size_t)count, sizeof *threads);
  for (intptr_t i = 0; i < count; ++i)
    if (pthread_create(&threads[i], NULL, strcmp(argv[1], "storm") == 0 ? allocate : compute, (void*)i) != 0) return 3;
  while (atomic_load(&running) != count) usleep(1000);
  puts("ready");
  fflush(stdout);
  while (access(argv[3], F_OK) != 0) {
    if (forks)
      make_child();
    else
      poll(NULL, 0, 50);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  printf("signals %d\n", atomic_load(&signals));
  if (atomic_load(&mistakes) != 0) printf("%d mistakes\n", atomic_load(&mistakes));
  puts(atomic_load(&mistakes) == 0 ? "ok" : "wrong");
  return atomic_load(&mistakes) != 0;
}
