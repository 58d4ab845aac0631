// Programs to attach to, which were not started with clusterprof.
//
//   attached threads N STOP [check]   N threads compute in spin_work() until the file STOP exists; the main thread sleeps
//   attached storm N STOP [check]     N threads allocate, check and free memory until then
//   attached forks 0 STOP             the main thread makes children until then, one after the other, each of which uses the loader,
//                                     and looks whether it takes turns with others; from the first SIGUSR1 on with all signals blocked
//   attached clock N TABLE            N threads, the main thread among them, look at the clock all the time, until the table says so
//
// Prints "ready" once all threads run, and at the end "ok", or how many mistakes it has found. It has a handler for
// SIGUSR1, whose number of calls it prints. Each thread has gone through known numbers, and knows at the end whether it has left
// out or changed one. check: it also compares its handlers, timers, and each thread's masks, stacks of handlers and
// priority with what they were at the beginning, and looks for calls that lead to clusterprof.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop, running, mistakes, signals;
static int checks;

// Nobody reads what it prints before its end.
static void mistake(const char* what) {
  enum { kMostPrinted = 100 };
  if (atomic_fetch_add(&mistakes, 1) < kMostPrinted) printf("mistake: %s\n", what);
}

static void count_signal(int number) {
  (void)number;
  atomic_fetch_add(&signals, 1);
}

static const uint64_t kFactor = 6364136223846793005u, kTerm = 1442695040888963407u;

// After so many steps number * kFactor + kTerm, of which each power of two is one step, too.
static uint64_t after(uint64_t number, uint64_t steps) {
  uint64_t factor = kFactor, term = kTerm;
  for (; steps != 0; steps >>= 1) {
    if (steps & 1) number = number * factor + term;
    term += term * factor;
    factor *= factor;
  }
  return number;
}

// What a thread has of its own.
struct thread_state {
  sigset_t mask;
  stack_t stack;
  int policy, nice;
};

static struct thread_state own_state(void) {
  struct thread_state state;
  memset(&state, 0, sizeof state);
  pthread_sigmask(SIG_BLOCK, NULL, &state.mask);
  sigaltstack(NULL, &state.stack);
  state.policy = sched_getscheduler(0);
  state.nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
  return state;
}

static void compare_own_state(const struct thread_state* before) {
  if (!checks) return;
  const struct thread_state now = own_state();
  if (memcmp(&now.mask, &before->mask, sizeof now.mask) != 0) mistake("a thread's signal mask has changed");
  if (now.stack.ss_sp != before->stack.ss_sp || now.stack.ss_flags != before->stack.ss_flags)
    mistake("a thread's stack of handlers has changed");
  if (now.policy != before->policy || now.nice != before->nice) mistake("a thread's priority has changed");
}

// As the kernel has it.
struct kernel_action {
  __sighandler_t handler;
  unsigned long flags;
  void* restorer;
  unsigned long mask;
};
enum { kSignals = 64 };

static void read_actions(struct kernel_action actions[kSignals + 1]) {
  for (int i = 1; i <= kSignals; ++i) {
    memset(&actions[i], 0, sizeof actions[i]);
    if (syscall(SYS_rt_sigaction, i, NULL, &actions[i], sizeof actions[i].mask) != 0) abort();
    if (actions[i].handler == SIG_DFL || actions[i].handler == SIG_IGN) {
      actions[i].flags &= ~0x04000000ul;  // libc's way to return from a handler, which whoever sets SIG_DFL leaves there
      actions[i].restorer = NULL;
    }
  }
}

// A word by which an object calls functions of other objects.
static int find_calls_of_clusterprof(struct dl_phdr_info* object, size_t bytes, void* found) {
  (void)bytes;
  if (strstr(object->dlpi_name, "libclusterprof_") != NULL || strstr(object->dlpi_name, "linux-vdso") != NULL) return 0;
  const ElfW(Dyn)* dynamic = NULL;
  for (int i = 0; i < object->dlpi_phnum; ++i)
    if (object->dlpi_phdr[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn)*)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
  const ElfW(Rela)* lists[2] = {NULL, NULL};
  size_t sizes[2] = {0, 0};
  for (; dynamic != NULL && dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_JMPREL) lists[0] = (const ElfW(Rela)*)dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_PLTRELSZ) sizes[0] = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_RELA) lists[1] = (const ElfW(Rela)*)dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_RELASZ) sizes[1] = dynamic->d_un.d_val;
  }
  for (int list = 0; list < 2; ++list)
    for (size_t i = 0; lists[list] != NULL && i < sizes[list] / sizeof(ElfW(Rela)); ++i) {
      const unsigned long type = ELF64_R_TYPE(lists[list][i].r_info);
      Dl_info function;
      if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) &&
          dladdr(*(void**)(object->dlpi_addr + lists[list][i].r_offset), &function) != 0 &&
          strstr(function.dli_fname, "libclusterprof_") != NULL) {
        printf("of '%s', to %s\n", object->dlpi_name, function.dli_sname != NULL ? function.dli_sname : "?");
        *(int*)found = 1;
      }
    }
  return 0;
}

static void compare_process_state(const struct kernel_action before[kSignals + 1]) {
  if (!checks) return;
  struct kernel_action now[kSignals + 1];
  read_actions(now);
  for (int i = 1; i <= kSignals; ++i)
    if (memcmp(&now[i], &before[i], sizeof now[i]) != 0) {
      mistake("a handler has changed");
      printf("signal %d: %p, flags %lx, restorer %p, mask %lx\n", i, (void*)now[i].handler, now[i].flags, now[i].restorer, now[i].mask);
    }
  int has_calls = 0;
  dl_iterate_phdr(find_calls_of_clusterprof, &has_calls);
  if (has_calls) mistake("a call leads to clusterprof");
  for (int which = ITIMER_REAL; which <= ITIMER_PROF; ++which) {
    struct itimerval timer;
    if (getitimer((__itimer_which_t)which, &timer) != 0 || timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0)
      mistake("there is a timer of setitimer");
  }
  FILE* const file = fopen("/proc/self/timers", "r");  // not in every kernel
  if (file != NULL) {
    if (fgetc(file) != EOF) mistake("there is a timer of timer_create");
    fclose(file);
  }
}

enum { kStepsOfWork = 200000 };

__attribute__((noinline)) static uint64_t spin_work(uint64_t seed) {
  for (int i = 0; i < kStepsOfWork; ++i) seed = seed * kFactor + kTerm;
  return seed;
}

static void* compute(void* given) {
  const struct thread_state before = own_state();
  const uint64_t begin = (uintptr_t)given;
  uint64_t seed = begin, steps = 0;
  atomic_fetch_add(&running, 1);
  while (!atomic_load(&stop)) {
    seed = spin_work(seed);
    steps += kStepsOfWork;
  }
  if (seed != after(begin, steps)) mistake("a thread has computed something else");
  compare_own_state(&before);
  return NULL;
}

enum { kBlocks = 64 };

static void* allocate(void* given) {
  const struct thread_state before = own_state();
  const uint64_t begin = (uintptr_t)given + 1;
  uint64_t seed = begin, steps = 0;
  unsigned char* blocks[kBlocks] = {0};
  size_t sizes[kBlocks] = {0};
  atomic_fetch_add(&running, 1);
  while (!atomic_load(&stop)) {
    seed = seed * kFactor + kTerm;
    ++steps;
    const unsigned at = seed >> 58;
    const unsigned char mark = (unsigned char)(at ^ (uintptr_t)given);
    for (size_t i = 0; i < sizes[at]; ++i)
      if (blocks[at][i] != mark) {
        mistake("a block of memory has changed");
        break;
      }
    free(blocks[at]);
    sizes[at] = (seed >> 32) % 3000;
    blocks[at] = malloc(sizes[at] + 1);
    if (blocks[at] == NULL) abort();
    memset(blocks[at], mark, sizes[at]);
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  if (seed != after(begin, steps)) mistake("a thread has computed something else");
  compare_own_state(&before);
  return NULL;
}

static void make_child(void) {
  enum { kNoLoader = 1, kNoTurns = 2 };
  if (atomic_load(&signals) != 0) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
  }
  const pid_t child = fork();
  if (child == 0) {
    sigset_t alarm_clock;
    sigemptyset(&alarm_clock);
    sigaddset(&alarm_clock, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm_clock, NULL);
    alarm(30);
    if (sched_getscheduler(0) != SCHED_OTHER) _exit(kNoTurns);
    _exit(dlopen(NULL, RTLD_NOW) == NULL ? kNoLoader : 0);
  }
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTurns)
    mistake("a child does not take turns");
  else if (status != 0) {
    char what[64];
    snprintf(what, sizeof what, "a child: %s %d", child < 0 ? "fork, errno" : "status", child < 0 ? errno : status);
    mistake(what);
  }
}

// What bench/attach.py reads and writes: a row for each thread, with the longest time between two looks at the clock since
// `asked` has become `round`.
struct row {
  _Atomic uint64_t round, longest_ns, tid;
};
struct table {
  _Atomic uint64_t asked, is_to_end;
  struct row rows[];
};
static struct table* table;

static uint64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void* look_at_clock(void* given) {
  enum { kStepsBetween = 2000 };  // so that it is rarely in libc
  struct row* const row = given;
  uint64_t round = 0, longest_ns = 0, last_ns = clock_ns(), seed = 1;
  atomic_store(&row->tid, (uint64_t)syscall(SYS_gettid));
  atomic_fetch_add(&running, 1);
  while (!atomic_load_explicit(&table->is_to_end, memory_order_relaxed)) {
    for (int i = 0; i < kStepsBetween; ++i) seed = seed * kFactor + kTerm;
    uint64_t now_ns = clock_ns();
    const uint64_t asked = atomic_load_explicit(&table->asked, memory_order_relaxed);
    if (asked != round) {
      longest_ns = 0;
      atomic_store(&row->longest_ns, 0);
      atomic_store(&row->round, asked);
      round = asked;
    } else if (now_ns - last_ns > longest_ns) {
      longest_ns = now_ns - last_ns;
      atomic_store_explicit(&row->longest_ns, longest_ns, memory_order_relaxed);
    }
    last_ns = now_ns;
  }
  return (void*)(uintptr_t)(seed | 1);
}

static int look_at_clocks(const char* path, int count) {
  const size_t bytes = sizeof *table + (size_t)count * sizeof table->rows[0];
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (count < 1 || file < 0 || ftruncate(file, (off_t)bytes) != 0) return 3;
  table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  pthread_t* const threads = calloc((size_t)count, sizeof *threads);
  if (table == MAP_FAILED || threads == NULL) return 3;
  for (int i = 1; i < count; ++i)
    if (pthread_create(&threads[i], NULL, look_at_clock, &table->rows[i]) != 0) return 3;
  while (atomic_load(&running) != count - 1) usleep(1000);
  puts("ready");
  fflush(stdout);
  look_at_clock(&table->rows[0]);
  for (int i = 1; i < count; ++i) pthread_join(threads[i], NULL);
  puts("ok");
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) return 2;
  const int forks = strcmp(argv[1], "forks") == 0;
  const int count = atoi(argv[2]);
  if (strcmp(argv[1], "clock") == 0) return look_at_clocks(argv[3], count);
  checks = argc == 5 && strcmp(argv[4], "check") == 0;
  struct sigaction action = {0};
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, NULL);
  const struct thread_state before = own_state();
  pthread_t* threads = calloc((size_t)count, sizeof *threads);
  for (intptr_t i = 0; i < count; ++i)
    if (pthread_create(&threads[i], NULL, strcmp(argv[1], "storm") == 0 ? allocate : compute, (void*)i) != 0) return 3;
  while (atomic_load(&running) != count) usleep(1000);
  struct kernel_action actions[kSignals + 1];  // once libc has made its own
  read_actions(actions);
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
  compare_process_state(actions);
  compare_own_state(&before);
  printf("signals %d\n", atomic_load(&signals));
  if (atomic_load(&mistakes) != 0) printf("%d mistakes\n", atomic_load(&mistakes));
  puts(atomic_load(&mistakes) == 0 ? "ok" : "wrong");
  return atomic_load(&mistakes) != 0;
}
