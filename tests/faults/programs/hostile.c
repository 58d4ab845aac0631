// SPDX-License-Identifier: BSD-3-Clause
// Things that programs do and that a sampler may stumble over, one per mode. The output does not depend on
// speed. Exits with 10, or as the mode says.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern char** environ;

static const char* g_self;
static double g_seconds = 0.15;

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((noinline)) static unsigned mix(unsigned value, unsigned rounds) {
  for (unsigned i = 0; i < rounds; ++i) value = (value ^ i) * 2654435761u;
  return value;
}

// Runs for that long; what it returns is the same each time.
__attribute__((noinline)) static unsigned work(double seconds) {
  const double end = cpu_seconds() + seconds;
  unsigned result = 0;
  do result = mix(1, 20000);
  while (cpu_seconds() < end);
  return result;
}

static void say(const char* what, long value) {
  char line[128];
  const int bytes = snprintf(line, sizeof line, "%s %ld\n", what, value);
  if (write(1, line, (size_t)bytes) != bytes) _exit(99);
}

static void check(int right, const char* what) {
  if (right) return;
  say(what, errno);
  _exit(98);
}

static int wait_for(pid_t child) {
  int status = 0;
  check(waitpid(child, &status, 0) == child, "waitpid failed");
  return status;
}

static void run_threads(int count, size_t stack_bytes, void* (*start)(void*)) {
  pthread_t threads[64];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (stack_bytes != 0) check(pthread_attr_setstacksize(&attributes, stack_bytes) == 0, "setstacksize");
  for (int i = 0; i < count; ++i)
    check(pthread_create(&threads[i], &attributes, start, (void*)(intptr_t)i) == 0, "pthread_create");
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  pthread_attr_destroy(&attributes);
}

// --- descriptors ---

// What is closed is the sampler's too; the numbers belong to the program from then on.
static void use_all_numbers(void) {
  int first = open("/dev/null", O_RDWR);
  say("first descriptor", first);
  for (int i = first + 1; i < 1000; ++i) check(dup2(first, i) == i, "dup2");
  for (int i = first; i < 1000; ++i) check(write(i, "x", 1) == 1, "write");
  say("work", work(g_seconds));
  for (int i = first; i < 1000; ++i) check(fcntl(i, F_GETFD) >= 0 && close(i) == 0, "close");
}

static int mode_close_range(void) {
  work(g_seconds / 2);
  check(close_range(3, ~0u, 0) == 0, "close_range");
  use_all_numbers();
  say("work", work(g_seconds));
  return 10;
}

static int mode_close_loop(void) {
  work(g_seconds / 2);
  for (int i = 3; i < 65536; ++i) close(i);
  use_all_numbers();
  return 10;
}

static int mode_close_past_libc(void) {
  work(g_seconds / 2);
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(SYS_close_range), "D"(3L), "S"(0xffffffffL), "d"(0L)
                   : "rcx", "r11", "memory");
  check(result == 0, "close_range");
  use_all_numbers();
  return 10;
}

// --- the profiling signals ---

static volatile sig_atomic_t g_ticks = 0;
static void on_tick(int number) { g_ticks += number == SIGPROF || number == SIGALRM || number == SIGVTALRM; }

static int mode_own_timers(void) {
  const int signals[] = {SIGPROF, SIGALRM, SIGVTALRM}, clocks[] = {ITIMER_PROF, ITIMER_REAL, ITIMER_VIRTUAL};
  for (int i = 0; i < 3; ++i) {
    struct sigaction action = {0};
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    check(sigaction(signals[i], &action, NULL) == 0, "sigaction");
    const struct itimerval period = {{0, 5000}, {0, 5000}};
    check(setitimer(clocks[i], &period, NULL) == 0, "setitimer");
  }
  say("work", work(g_seconds));
  for (int i = 0; i < 3; ++i) {
    const struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(clocks[i], &off, NULL);
  }
  say("ticked", g_ticks > 10);
  return 10;
}

static int mode_ignore_all(void) {
  for (int number = 1; number <= 64; ++number)
    if (number != SIGKILL && number != SIGSTOP && number != SIGCHLD && number != 32 && number != 33)
      check(signal(number, SIG_IGN) != SIG_ERR, "signal");
  say("work", work(g_seconds));
  for (int number = 1; number <= 64; ++number)
    if (number != SIGKILL && number != SIGSTOP && number != SIGCHLD && number != 32 && number != 33 &&
        number != SIGSEGV && number != SIGBUS)
      raise(number);
  for (int number = 1; number <= 64; ++number) {
    struct sigaction action;
    if (number == SIGKILL || number == SIGSTOP || number == SIGCHLD || number == 32 || number == 33) continue;
    check(sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN, "is not ignored");
  }
  say("work", work(g_seconds));
  return 10;
}

// As the run time of Go does. The profile has to say that there are no more samples.
static int mode_handler_replaced(void) {
  const struct {
    void (*handler)(int);
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } ignore = {SIG_IGN, 0, NULL, 0};
  work(0.1);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) {
    long result;
    __asm__ volatile("movq $8, %%r10; syscall"
                     : "=a"(result)
                     : "0"(SYS_rt_sigaction), "D"((long)number), "S"(&ignore), "d"(0L)
                     : "rcx", "r10", "r11", "memory");
    check(result == 0, "rt_sigaction");
  }
  say("work", work(1.4));
  return 10;
}

static int mode_block_all(void) {
  sigset_t all, now;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  say("work", work(g_seconds));
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  for (int number = 1; number <= 64; ++number)
    if (number != SIGKILL && number != SIGSTOP && number != 32 && number != 33)
      check(sigismember(&now, number) == 1, "is not blocked");
  return 10;
}

// --- processes ---

static int g_forks = 12;

static void* fork_often(void* given) {
  for (int i = 0; i < g_forks; ++i) {
    const pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
      char* memory = malloc(100000);
      memset(memory, i, 100000);
      const int status = (int)(intptr_t)given * 16 + memory[500];
      free(memory);
      mix(1, 100000);
      _exit(status);
    }
    const int status = wait_for(child);
    check(WIFEXITED(status) && WEXITSTATUS(status) == (int)(intptr_t)given * 16 + i, "status of a child");
    work(0.001);
  }
  return NULL;
}

static int mode_fork_threads(void) {
  run_threads(6, 0, fork_often);
  say("children", 6L * g_forks);
  return 10;
}

// The child of a fork of a thread returns from that one's function: it ends as the last thread of its
// process.
static void* fork_and_return(void* given) {
  (void)given;
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child != 0) check(wait_for(child) == 0, "status of a child");
  return NULL;
}

static int mode_fork_returns(void) {
  for (int i = 0; i < 5; ++i) run_threads(1, 0, fork_and_return);
  say("children", 5);
  return 10;
}

static int mode_vfork(void) {
  for (volatile int i = 0; i < 40; ++i) {
    const pid_t child = vfork();
    check(child >= 0, "vfork");
    if (child == 0) {
      if (i % 2 == 0) execl("/bin/true", "true", (char*)NULL);
      _exit(i);
    }
    const int status = wait_for(child);
    check(status == (i % 2 == 0 ? 0 : i << 8), "status of a child");
  }
  say("work", work(g_seconds));
  return 10;
}

static void* spawn_often(void* given) {
  for (int i = 0; i < 8; ++i) {
    char* const words[] = {"sh", "-c", i % 2 == 0 ? "exit 3" : "kill -9 $$", NULL};
    pid_t child;
    check(posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) == 0, "posix_spawn");
    const int status = wait_for(child);
    check(i % 2 == 0 ? status == 3 << 8 : WTERMSIG(status) == SIGKILL, "status of a child");
  }
  return given;
}

static int mode_spawn(void) {
  run_threads(3, 0, spawn_often);
  say("work", work(g_seconds));
  return 10;
}

static void* exec_next(void* given) {
  char* const words[] = {(char*)g_self, "exec", given, NULL};
  execv(g_self, words);
  check(0, "exec");
  return NULL;
}

static void* burn(void* given) {
  while (1) mix(1, 100000);
  return given;
}

// Every second time from another thread than the first, and while others run.
static int exec_chain(int left) {
  static char word[16];
  if (left == 0) {
    say("work", work(g_seconds));
    return 10;
  }
  work(0.005);
  snprintf(word, sizeof word, "%d", left - 1);
  if (left % 2 == 0) exec_next(word);
  pthread_t other, executing;
  check(
      pthread_create(&other, NULL, burn, NULL) == 0 && pthread_create(&executing, NULL, exec_next, word) == 0,
      "thread");
  pause();
  return 97;
}

// Neither pthread_atfork's functions nor anything else of libc's is called.
static int mode_fork_past_libc(void) {
  for (int i = 0; i < 20; ++i) {
    const long child = syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    check(child >= 0, "clone");
    if (child == 0) {
      mix(1, 3000000);
      if (i % 3 == 0) exit(i);
      if (i % 3 == 1) _exit(i);
      execl("/bin/sh", "sh", "-c", "exit 5", (char*)NULL);
    }
    check(wait_for((pid_t)child) == (i % 3 == 2 ? 5 : i) << 8, "status of a child");
  }
  say("work", work(g_seconds));
  return 10;
}

// --- how it ends ---

static void* outlive_main(void* given) {
  printf("work %u", work(g_seconds));  // a buffer that only the end of the process writes
  return given;
}

static int mode_main_leaves(void) {
  pthread_t thread;
  check(pthread_create(&thread, NULL, outlive_main, NULL) == 0, "pthread_create");
  pthread_exit(NULL);
}

static void* end_all(void* given) {
  say("work", work(g_seconds));
  exit((int)(intptr_t)given + 20);
}

static int mode_exit_in_thread(void) {
  pthread_t thread;
  check(pthread_create(&thread, NULL, end_all, NULL) == 0, "pthread_create");
  burn(NULL);
  return 0;
}

// --- modules ---

static int mode_libraries(void) {
  const char* const names[] = {"libm.so.6",   "libresolv.so.2", "libutil.so.1",
                               "libnsl.so.1", "libanl.so.1",    "librt.so.1",
                               "libz.so.1",   "libcrypt.so.1",  "libstdc++.so.6"};
  const double end = cpu_seconds() + g_seconds;
  double sum = 0;
  do {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
      void* const library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
      if (library == NULL) continue;
      double (*function)(double) = NULL;
      void* const found = dlsym(library, "j0");
      memcpy(&function, &found, sizeof function);
      for (int turn = 0; function != NULL && turn < 2000; ++turn) sum = function(0.5);
      check(dlclose(library) == 0, "dlclose");
    }
  } while (cpu_seconds() < end);
  say("j0", (long)(1e6 * sum));
  return 10;
}

static void* library_storm(void* given) {
  mode_libraries();
  return given;
}

static int mode_libraries_of_threads(void) {
  g_seconds /= 2;
  run_threads(4, 0, library_storm);
  return 10;
}

// Code that is made, run and unmapped.
static int mode_made_code(void) {
  static const unsigned char code[] = {0xb8, 0,    0,    0,    0,    0x89, 0xf9,
                                       0x01, 0xc8, 0xff, 0xc9, 0x75, 0xfa, 0xc3};
  const double end = cpu_seconds() + g_seconds;
  unsigned sum = 0;
  do {
    void* const memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    memcpy((char*)memory + 4096 - sizeof code, code, sizeof code);
    unsigned (*function)(unsigned);
    void* const entry = (char*)memory + 4096 - sizeof code;
    memcpy(&function, &entry, sizeof function);
    sum = function(30000);
    munmap(memory, 4096);
  } while (cpu_seconds() < end);
  say("sum", sum);
  return 10;
}

// --- stacks ---

static volatile unsigned g_handled = 0;
static __thread char* t_stack;
static void on_alternate_stack(int number) {
  const char here = 0;
  check(number == SIGUSR1 && &here > t_stack && &here < t_stack + 65536, "stack of a handler");
  __atomic_add_fetch(&g_handled, mix(1, 2000) != 0, __ATOMIC_RELAXED);
}

static void* signal_itself(void* given) {
  const long least = sysconf(_SC_MINSIGSTKSZ);
  const size_t bytes = (size_t)(least > 2048 ? least : 2048) + 512;
  char* const memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(memory, 0x5a, 65536);
  t_stack = memory + 32768 - bytes;
  const stack_t stack = {.ss_sp = t_stack, .ss_size = bytes};
  check(sigaltstack(&stack, NULL) == 0, "sigaltstack");
  for (int i = 0; i < 3000; ++i) raise(SIGUSR1);
  for (size_t i = 0; i < 32768 - bytes; ++i) check(memory[i] == 0x5a, "memory below the stack was written");
  const stack_t off = {.ss_flags = SS_DISABLE};
  sigaltstack(&off, NULL);
  munmap(memory, 65536);
  return given;
}

static int mode_alternate_stacks(void) {
  struct sigaction action = {0};
  action.sa_handler = on_alternate_stack;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  check(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
  signal_itself(NULL);
  run_threads(4, 0, signal_itself);
  say("handled", g_handled);
  return 10;
}

static void* little_work(void* given) {
  work(g_seconds / 8);
  return given;
}

static int mode_tiny_threads(void) {
  for (int i = 0; i < 4; ++i) run_threads(8, (size_t)sysconf(_SC_THREAD_STACK_MIN), little_work);
  say("threads", 32);
  return 10;
}

static void* very_little_work(void* given) {
  mix(1, 15000);  // about 50 us
  return given;
}

static int mode_short_threads(void) {
  const int rounds = (int)(g_seconds * 400);
  for (int i = 0; i < rounds; ++i) run_threads(20, 0, very_little_work);
  say("work", work(g_seconds));
  return 10;
}

enum { kRoutines = 50, kStackBytes = 16384, kFenceBytes = 16384 };
static ucontext_t g_main_context, g_routines[kRoutines];
static unsigned g_sums[kRoutines], g_running;

__attribute__((noinline)) static void step(int depth, unsigned routine) {
  if (depth != 0) {
    step(depth - 1, routine);
    g_sums[routine] += (unsigned)depth;
    return;
  }
  g_sums[routine] += mix(routine, 500) & 1;
  swapcontext(&g_routines[routine], &g_main_context);
}

static void routine(void) {
  const unsigned self = g_running;
  while (1) step((int)(self % 10), self);
}

// Stacks of coroutines from one block of memory, without guard pages: what were written below one would be
// found.
static int mode_coroutines(void) {
  const size_t bytes = (size_t)kRoutines * (kStackBytes + kFenceBytes);
  char* const memory = malloc(bytes);
  memset(memory, 0x5a, bytes);
  for (int i = 0; i < kRoutines; ++i) {
    getcontext(&g_routines[i]);
    g_routines[i].uc_stack.ss_sp = memory + (size_t)i * (kStackBytes + kFenceBytes) + kFenceBytes;
    g_routines[i].uc_stack.ss_size = kStackBytes;
    makecontext(&g_routines[i], routine, 0);
  }
  for (int turn = 0; turn < 2000; ++turn)
    for (g_running = 0; g_running < kRoutines; ++g_running)
      swapcontext(&g_main_context, &g_routines[g_running]);
  unsigned sum = 0;
  for (int i = 0; i < kRoutines; ++i) {
    sum += g_sums[i];
    for (int j = 0; j < kFenceBytes; ++j)
      check(memory[(size_t)i * (kStackBytes + kFenceBytes) + (size_t)j] == 0x5a,
            "memory below a stack was written");
  }
  free(memory);
  say("sum", sum);
  return 10;
}

static sigjmp_buf g_jump;
static volatile sig_atomic_t g_may_jump = 0;
static void jump_out(int number) {
  if (g_may_jump == 0) return;
  g_may_jump = 0;  // so that jumps are counted
  siglongjmp(g_jump, number);
}

__attribute__((noinline)) static void deep(int depth, jmp_buf to) {
  volatile char frame[64];
  frame[depth % 64] = (char)depth;
  if (frame[depth % 64] == 0) longjmp(to, 1);
  deep(depth - 1, to);
  mix(1, 1);
}

// longjmp over many frames, and out of handlers wherever those interrupt.
static int mode_jumps(void) {
  struct sigaction action = {0};
  action.sa_handler = jump_out;
  check(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
  const struct itimerval period = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &period, NULL);
  volatile int jumps = 0;
  volatile long deep_jumps = 0;
  while (jumps < 150) {
    if (sigsetjmp(g_jump, 1) != 0) {
      ++jumps;
      continue;
    }
    g_may_jump = 1;
    mix(1, 50000);
    close(open("/dev/null", O_RDONLY));
    g_may_jump = 0;
    jmp_buf to;
    if (setjmp(to) == 0) deep(100, to);
    ++deep_jumps;
  }
  setitimer(ITIMER_REAL, &off, NULL);
  say("jumps", jumps);
  say("work", work(g_seconds));
  return 10;
}

// --- what it may use ---

// All of its memory is locked, and what it makes from then on, as far as that is allowed to it alone: some 4
// MB.
static int mode_locked(void) {
  const struct rlimit limit = {8 << 20, 8 << 20};
  check(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit");
  if (geteuid() == 0) check(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
  const int flags[] = {MCL_CURRENT | MCL_FUTURE, MCL_CURRENT, MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT,
                       MCL_FUTURE, 0};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; ++i) {
    errno = 0;
    say("mlockall", mlockall(flags[i]));
    say("errno", errno);
    say("work", work(g_seconds / 5));
    void* const memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char here[256] = {0};
    check(memory != MAP_FAILED && mincore(memory, 1 << 20, here) == 0, "memory");
    say("is in memory at once", here[200] & 1);
    munmap(memory, 1 << 20);
  }
  run_threads(4, 65536, little_work);
  say("munlockall", munlockall());
  return 10;
}

// The limits that it sets itself while it runs leave room for nothing more.
static int mode_own_limits(void) {
  signal(SIGXCPU, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  work(g_seconds / 3);
  const int limits[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_NPROC, RLIMIT_SIGPENDING,
                        RLIMIT_DATA,   RLIMIT_AS,    RLIMIT_STACK, RLIMIT_CPU};
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; ++i) {
    struct rlimit limit;
    check(getrlimit(limits[i], &limit) == 0, "getrlimit");
    limit.rlim_cur = limits[i] == RLIMIT_CPU || limits[i] == RLIMIT_SIGPENDING ? 1 : 0;
    if (limits[i] == RLIMIT_STACK || limits[i] == RLIMIT_FSIZE) limit.rlim_cur = 65536;
    say("setrlimit", setrlimit(limits[i], &limit));
    say("work", work(g_seconds / 6));
  }
  check(open("/dev/null", O_RDONLY) < 0 && errno == EMFILE, "open");
  say("work", work(2 * g_seconds));
  return 10;
}

static volatile sig_atomic_t g_children = 0;
static void on_child(int number) { g_children += number == SIGCHLD; }

// It only sees children, signals and descendants of its own, whether it is dumpable or not.
static int mode_own_children(void) {
  struct sigaction action = {0};
  action.sa_handler = on_child;
  action.sa_flags = SA_RESTART;
  check(sigaction(SIGCHLD, &action, NULL) == 0, "sigaction");
  check(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "subreaper");
  check(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "dumpable");
  umask(0777);
  say("wait", waitpid(-1, NULL, 0));
  say("errno", errno);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (fork() == 0) mix(1, 1000000);  // an orphan, which comes here
      _exit(i);
    }
    check(wait_for(child) == i << 8, "status of a child");
    check(waitpid(-1, NULL, 0) > 0, "orphan");
  }
  errno = 0;
  say("wait", waitpid(-1, NULL, WNOHANG));
  say("errno", errno);
  say("work", work(g_seconds));
  say("signals", g_children > 0 && g_children <= 6);
  say("umask", umask(0));
  return 10;
}

// --- what only one thread may do ---

static int mode_one_thread(void) {
  const uid_t user = 65534;
  if (geteuid() == 0) check(setgid(user) == 0 && setuid(user) == 0 && getuid() == user, "setuid");
  errno = 0;
  const int result = unshare(CLONE_NEWUSER);
  say("unshare", result);
  say("errno", errno);
  say("work", work(g_seconds));
  run_threads(4, 0, little_work);
  return 10;
}

static const struct {
  const char* name;
  int (*run)(void);
} kModes[] = {{"close_range", mode_close_range},
              {"close_loop", mode_close_loop},
              {"close_past_libc", mode_close_past_libc},
              {"own_timers", mode_own_timers},
              {"ignore_all", mode_ignore_all},
              {"handler_replaced", mode_handler_replaced},
              {"block_all", mode_block_all},
              {"fork_threads", mode_fork_threads},
              {"fork_returns", mode_fork_returns},
              {"fork_past_libc", mode_fork_past_libc},
              {"vfork", mode_vfork},
              {"spawn", mode_spawn},
              {"main_leaves", mode_main_leaves},
              {"exit_in_thread", mode_exit_in_thread},
              {"libraries", mode_libraries},
              {"libraries_of_threads", mode_libraries_of_threads},
              {"made_code", mode_made_code},
              {"alternate_stacks", mode_alternate_stacks},
              {"tiny_threads", mode_tiny_threads},
              {"short_threads", mode_short_threads},
              {"coroutines", mode_coroutines},
              {"jumps", mode_jumps},
              {"locked", mode_locked},
              {"own_limits", mode_own_limits},
              {"own_children", mode_own_children},
              {"one_thread", mode_one_thread}};

int main(int count, char** words) {
  static char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  g_self = length > 0 ? path : words[0];
  if (count > 2 && strcmp(words[1], "exec") == 0) return exec_chain(atoi(words[2]));
  for (size_t i = 0; count > 1 && i < sizeof kModes / sizeof kModes[0]; ++i)
    if (strcmp(words[1], kModes[i].name) == 0) return kModes[i].run();
  return 96;
}
