/* SPDX-License-Identifier: BSD-3-Clause */
/* A program to be recorded, about signals: masks, waits, exec. Does what its first argument says and ends
 * with 0, or with the number of the check that failed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { kSampleSignal = 61 };

static volatile uint64_t sink;

static double now_ms(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}
__attribute__((noinline)) static void spin_cpu_ms(double ms) {
  const double end = now_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
  while (now_ms(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 5000; ++i) sink += (uint64_t)i;
}

/* --- masks ------------------------------------------------------------------------------------ */

static int is_all(const sigset_t* set) { /* but for the two of libc, SIGKILL and SIGSTOP */
  for (int s = 1; s <= 64; ++s) {
    const int never = s == 32 || s == 33 || s == SIGKILL || s == SIGSTOP;
    if (sigismember(set, s) != !never) return 0;
  }
  return 1;
}
static void* blocked_worker(void* unused) { /* inherits a full mask */
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, NULL, &now);
  if (!is_all(&now)) return unused;
  spin_cpu_ms(300);
  struct timespec pause = {2, 500000000}; /* the watcher may lack a processor for a while */
  while (nanosleep(&pause, &pause) != 0) {
  }
  pthread_sigmask(SIG_BLOCK, NULL, &now);
  return is_all(&now) ? NULL : unused;
}
static int blocked_c11_worker(void* unused) { return blocked_worker(unused) != NULL; }

static int do_masks(void) {
  sigset_t all, none, one, old;
  sigfillset(&all);
  sigemptyset(&none);
  sigemptyset(&one);
  sigaddset(&one, kSampleSignal);
  if (pthread_sigmask(SIG_SETMASK, &none, &old) != 0) return 1;
  if (pthread_sigmask(SIG_BLOCK, &one, &old) != 0 || sigismember(&old, kSampleSignal)) return 2;
  if (sigprocmask(SIG_BLOCK, NULL, &old) != 0 || !sigismember(&old, kSampleSignal)) return 3;
  if (sigprocmask(SIG_UNBLOCK, &one, &old) != 0 || !sigismember(&old, kSampleSignal)) return 4;
  if (sigprocmask(SIG_SETMASK, &all, &old) != 0 || sigismember(&old, kSampleSignal)) return 5;
  if (sigprocmask(SIG_SETMASK, NULL, &old) != 0 || !is_all(&old)) return 6;
  errno = 0;
  if (sigprocmask(77, &none, NULL) != -1 || errno != EINVAL) return 7;
  if (pthread_sigmask(77, &none, NULL) != EINVAL) return 8;
  if (sigprocmask(SIG_BLOCK, NULL, &old) != 0 || !is_all(&old)) return 9;
  uint64_t small[2] = {0, 77}; /* the kernel writes 64 bits, and nothing else */
  if (pthread_sigmask(SIG_BLOCK, NULL, (sigset_t*)(void*)small) != 0 || small[1] != 77) return 10;
  pthread_t thread;
  void* result;
  if (pthread_create(&thread, NULL, blocked_worker, &thread) != 0) return 11;
  thrd_t c11;
  int c11_result = 1;
  if (thrd_create(&c11, blocked_c11_worker, &thread) != thrd_success) return 12;
  pthread_join(thread, &result);
  thrd_join(c11, &c11_result);
  if (result != NULL) return 13;
  if (c11_result != 0) return 14;
  spin_cpu_ms(300); /* with all blocked itself */
  const pid_t child = fork();
  if (child == 0) {
    sigset_t inherited;
    sigprocmask(SIG_BLOCK, NULL, &inherited);
    _exit(is_all(&inherited) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) return 15;
  struct sigaction action, read_back;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_IGN;
  sigfillset(&action.sa_mask);
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR1, NULL, &read_back);
  if (!sigismember(&read_back.sa_mask, kSampleSignal)) return 16;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR1, &action, &read_back);
  if (!sigismember(&read_back.sa_mask, kSampleSignal)) return 17;
  sigaction(SIGUSR1, NULL, &read_back);
  return sigismember(&read_back.sa_mask, kSampleSignal) ? 18 : 0;
}

static volatile sig_atomic_t got;
static void on_signal(int signal) { got = signal; }

static int do_own_blocked(void) { /* the program blocks the very signal, and gets it when it lets it */
  sigset_t one, pending;
  sigemptyset(&one);
  sigaddset(&one, kSampleSignal);
  signal(kSampleSignal, on_signal);
  sigprocmask(SIG_BLOCK, &one, NULL);
  spin_cpu_ms(100);
  raise(kSampleSignal);
  spin_cpu_ms(50);
  if (got != 0) return 1;
  if (sigpending(&pending) != 0 || !sigismember(&pending, kSampleSignal)) return 2;
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  if (got != kSampleSignal) return 3;
  got = 0;
  spin_cpu_ms(100);
  return got == 0 ? 0 : 4;
}

static void block_past_libc(void) {
  const uint64_t all = ~(uint64_t)0;
  register long bytes __asm__("r10") = 8;
  long result = SYS_rt_sigprocmask;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(SIG_SETMASK), "S"(&all), "d"(NULL), "r"(bytes)
                   : "rcx", "r11", "memory");
}
static void* deaf_thread(void* unused) {
  (void)unused;
  block_past_libc();
  spin_cpu_ms(1500);
  return NULL;
}
static int do_deaf(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, deaf_thread, NULL) != 0) return 1;
  pthread_join(thread, NULL);
  spin_cpu_ms(20);
  return 0;
}

/* --- the program's own EINTR, in great numbers ---------------------------------------------------- */

static pthread_t sleeper;
static volatile int rounds_done;
static void* wake_often(void* unused) {
  int seen = -1;
  while (rounds_done >= 0) {
    const int now = rounds_done;
    if (now == seen) {
      sched_yield();
      continue;
    }
    seen = now;
    for (int i = 0; i < now % 7 * 300; ++i) sink += (uint64_t)i;
    pthread_kill(sleeper, SIGUSR1);
  }
  return unused;
}
static int do_sigsuspend(int rounds, int flags) { /* hangs if an EINTR of the program's is lost */
  sigset_t usr1, none;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  sigfillset(&action.sa_mask);
  sigaction(SIGUSR1, &action, NULL);
  sigemptyset(&none);
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, NULL);
  sleeper = pthread_self();
  pthread_t waker;
  if (pthread_create(&waker, NULL, wake_often, NULL) != 0) return 1;
  for (int i = 1; i <= rounds; ++i) {
    got = 0;
    rounds_done = i;
    if (sigsuspend(&none) != -1 || errno != EINTR) return 2;
    if (got != SIGUSR1) return 3;
  }
  rounds_done = -1;
  pthread_join(waker, NULL);
  return 0;
}

static void on_signal_spin(int signal) {
  got = signal;
  spin_cpu_ms(300);
}
static int do_in_handler(void) {
  signal(SIGUSR1, on_signal_spin);
  raise(SIGUSR1);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal_spin;
  sigaction(SIGUSR2, &action, NULL);
  raise(SIGUSR2);
  return got == SIGUSR2 ? 0 : 1;
}

/* --- many threads ------------------------------------------------------------------------------------ */

static sem_t go_on;
static void* wait_for_it(void* argument) {
  while (sem_wait(&go_on) != 0) {
  }
  return argument;
}
static void* spin_for_it(void* argument) {
  spin_cpu_ms(*(double*)argument);
  return argument;
}
static int do_many(int count, double ms) {
  pthread_t threads[1000], spinner;
  pthread_attr_t attributes;
  sem_init(&go_on, 0, 0);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 * 1024);
  for (int i = 0; i < count; ++i)
    if (pthread_create(&threads[i], &attributes, wait_for_it, NULL) != 0) return 1;
  const double start = now_ms(CLOCK_MONOTONIC);
  pthread_create(&spinner, NULL, spin_for_it, &ms);
  spin_cpu_ms(ms);
  pthread_join(spinner, NULL);
  while (now_ms(CLOCK_MONOTONIC) - start < 5 * ms) usleep(1000);
  const double released = now_ms(CLOCK_MONOTONIC);
  printf("blocked_ms %.3f\nreleased_ms %.3f\n", released - start, released);
  for (int i = 0; i < count; ++i) sem_post(&go_on);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  return 0;
}

/* --- a producer whose consumer is slow ---------------------------------------------------------------- */

enum { kProduct = 1 << 20, kGulp = 65536 };
static int product_ends[2];
static void* consume(void* unused) {
  static char gulp[kGulp];
  size_t held = 0;
  for (;;) {
    const ssize_t now = read(product_ends[0], gulp, sizeof gulp - held);
    if (now <= 0) return unused;
    held += (size_t)now;
    if (held < sizeof gulp) continue;
    held = 0;
    usleep(5000);
  }
}
static int do_producer(int rounds) {
  static char product[kProduct];
  pthread_t consumer;
  if (pipe(product_ends) != 0 || pthread_create(&consumer, NULL, consume, NULL) != 0) return 1;
  for (int i = 0; i < rounds; ++i) {
    spin_cpu_ms(10);
    if (write(product_ends[1], product, sizeof product) != sizeof product) return 2;
  }
  close(product_ends[1]);
  pthread_join(consumer, NULL);
  return 0;
}

/* --- exec, and calls by number ---------------------------------------------------------------------- */

extern char** environ;
static int do_exec(int left, char** argv) {
  if (left == 0) return 0;
  char number[16];
  snprintf(number, sizeof number, "%d", left - 1);
  spin_cpu_ms(2 + left % 3);
  char* const arguments[] = {argv[0], "exec", number, NULL};
  errno = 0;
  if (execl("/nowhere/at/all", "x", NULL) != -1 || errno != ENOENT) return 1;
  spin_cpu_ms(1);
  switch (left % 5) {
    case 0:
      execv(argv[0], arguments);
      break;
    case 1:
      execve(argv[0], arguments, environ);
      break;
    case 2:
      execl(argv[0], argv[0], "exec", number, NULL);
      break;
    case 3:
      execvp(argv[0], arguments);
      break;
    default:
      execle(argv[0], argv[0], "exec", number, NULL, environ);
      break;
  }
  return 2;
}
/* Handlers that jump out of an exec: the thread goes on to be sampled, and ends. */
static sigjmp_buf out_of_exec;
static pthread_t jumping_thread;
static volatile int jumped = 0, may_jump = 0;
static void jump(int signal) {
  (void)signal;
  if (!may_jump) return;
  ++jumped;
  siglongjmp(out_of_exec, 1);
}
static void* executes_and_jumps(void* unused) {
  char* arguments[] = {"x", NULL};
  sigsetjmp(out_of_exec, 1);
  while (jumped < 300) {
    may_jump = 1;
    for (int i = 0; i < 2000; ++i) execve("/nowhere/at/all", arguments, environ);
    may_jump = 0;
  }
  may_jump = 0;
  /* Not in a function: as deep as the exec was, the two cannot be told apart. */
  for (const double end = now_ms(CLOCK_THREAD_CPUTIME_ID) + 300; now_ms(CLOCK_THREAD_CPUTIME_ID) < end;)
    for (int i = 0; i < 500000; ++i) sink += (uint64_t)i;
  sleep(3); /* so that the watcher looks meanwhile, on a busy machine, too */
  return unused;
}
static void* disturbs(void* unused) {
  while (jumped < 300) {
    usleep(300);
    if (jumped < 300) pthread_kill(jumping_thread, SIGUSR1);
  }
  return unused;
}
static int do_exec_jump(void) {
  struct sigaction action = {0};
  action.sa_handler = jump;
  action.sa_flags = SA_NODEFER;
  pthread_t other;
  if (sigaction(SIGUSR1, &action, NULL) != 0) return 1;
  if (pthread_create(&jumping_thread, NULL, executes_and_jumps, NULL) != 0) return 2;
  if (pthread_create(&other, NULL, disturbs, NULL) != 0) return 3;
  pthread_join(other, NULL);
  alarm(120); /* ends the process where the thread does not */
  pthread_join(jumping_thread, NULL);
  return 0;
}

/* Our signals, and the program's, that are pending after execs that fail. */
static int do_failing_exec(void) {
  char* arguments[] = {"x", NULL};
  for (int i = 0; i < 500; ++i)
    if (execve("/nowhere/at/all", arguments, environ) != -1 || errno != ENOENT) return 1;
  char** volatile none = NULL; /* the header's nonnull is for the compiler only */
  if (fexecve(0, none, environ) != -1 || errno != EINVAL) return 2;
  if (fexecve(0, arguments, none) != -1 || errno != EINVAL) return 3;
  const uint64_t bit = UINT64_C(1) << (kSampleSignal - 1);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &bit, NULL, sizeof bit); /* past libc */
  spin_cpu_ms(200);
  const struct timespec now = {0, 0};
  siginfo_t info;
  int waiting = 0;
  while (syscall(SYS_rt_sigtimedwait, &bit, &info, &now, sizeof bit) == kSampleSignal) ++waiting;
  printf("waiting %d\n", waiting);
  for (int i = 1; i <= 3; ++i)
    pthread_sigqueue(pthread_self(), kSampleSignal, (union sigval){.sival_int = i});
  execve("/nowhere/at/all", arguments, environ);
  for (int i = 1; i <= 3; ++i) {
    do {
      if (syscall(SYS_rt_sigtimedwait, &bit, &info, &now, sizeof bit) != kSampleSignal) return 10 + i;
    } while (info.si_code != SI_QUEUE || info.si_value.sival_int > 3); /* ours carry an address */
    if (info.si_value.sival_int != i) return 20 + i;
  }
  return 0;
}

/* Threads that end past libc. */
static int open_descriptors(void) {
  int count = 0;
  for (int i = 0; i < 4096; ++i) count += fcntl(i, F_GETFD) >= 0;
  return count;
}
static void* leaves_silently(void* unused) {
  syscall(SYS_exit, 0);
  return unused;
}
static void* leaves_properly(void* unused) { return unused; }
static int do_silent_ends(int count) {
  pthread_t thread;
  const int before = open_descriptors();
  for (int i = 0; i < count; ++i) {
    if (pthread_create(&thread, NULL, leaves_silently, NULL) != 0) return 1;
    usleep(20000);
  }
  usleep(500000);
  if (pthread_create(&thread, NULL, leaves_properly, NULL) != 0 || pthread_join(thread, NULL) != 0) return 2;
  int more = open_descriptors() - before;
  for (int i = 0; i < 600 && more != 0; ++i) { /* the watcher may lack a processor for a while */
    usleep(100000);
    more = open_descriptors() - before;
  }
  printf("more_descriptors %d\n", more);
  return 0;
}

/* Without a system call that lasts, a thread is in the kernel for seconds, where no signal reaches it. */
static int do_long_call(void) {
  enum { kMadvPopulateRead = 22 };
  const size_t bytes = (size_t)1 << 34; /* of the page of zeros */
  spin_cpu_ms(100);
  const double end = now_ms(CLOCK_THREAD_CPUTIME_ID) + 4500;
  double longest = 0;
  while (now_ms(CLOCK_THREAD_CPUTIME_ID) < end) {
    char* const pages = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED || madvise(pages, bytes, MADV_NOHUGEPAGE) != 0) return 1;
    const double before = now_ms(CLOCK_THREAD_CPUTIME_ID);
    if (madvise(pages, bytes, kMadvPopulateRead) != 0) return 2;
    const double ms = now_ms(CLOCK_THREAD_CPUTIME_ID) - before;
    if (ms > longest) longest = ms;
    munmap(pages, bytes);
  }
  printf("longest_ms %.0f\n", longest);
  spin_cpu_ms(300);
  return 0;
}
/* What programs do before they start another one. */
static int do_close_others(void) {
  for (int i = 3; i < 4096; ++i) close(i);
  spin_cpu_ms(2500);
  return 0;
}

static int do_exec_mask(char** argv) { /* what is executed inherits the mask that the program set */
  sigset_t set;
  sigfillset(&set);
  sigprocmask(SIG_SETMASK, &set, NULL);
  spin_cpu_ms(30);
  execlp(argv[0], argv[0], "show_mask", NULL);
  return 1;
}
static int do_show_mask(void) {
  uint64_t mask = 0;
  if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask) != 0) return 1;
  sigset_t set;
  sigprocmask(SIG_BLOCK, NULL, &set);
  printf("all %d\n", is_all(&set));
  return 0;
}

static int child_of_clone(void* argument) { return *(int*)argument; }
static int do_syscall(void) {
  errno = 0;
  if (syscall(SYS_close, -1) != -1 || errno != EBADF) return 1;
  if (syscall(SYS_getpid) != getpid()) return 2;
  void* const page = (void*)syscall(SYS_mmap, NULL, 4096L, (long)(PROT_READ | PROT_WRITE),
                                    (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
  if (page == MAP_FAILED) return 3;
  memset(page, 7, 4096);
  errno = 0;
  if (syscall(SYS_mmap, NULL, 4096L, (long)PROT_READ, (long)MAP_PRIVATE, 0L, 1L) != -1 || errno != EINVAL)
    return 4;
  if (syscall(SYS_munmap, page, 4096L) != 0) return 5;
  int status = 0;
  const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
  if (child == 0) syscall(SYS_exit_group, child_of_clone(&(int){9}));
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 9) return 6;
  const pid_t forked = (pid_t)syscall(SYS_fork);
  if (forked == 0) syscall(SYS_exit, 5);
  return waitpid(forked, &status, 0) == forked && WEXITSTATUS(status) == 5 ? 0 : 7;
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  int result = 99;
  if (strcmp(what, "spin") == 0) result = (spin_cpu_ms(number), 0);
  if (strcmp(what, "masks") == 0) result = do_masks();
  if (strcmp(what, "own_blocked") == 0) result = do_own_blocked();
  if (strcmp(what, "deaf") == 0) result = do_deaf();
  if (strcmp(what, "sigsuspend") == 0) result = do_sigsuspend(number, argc > 3 ? atoi(argv[3]) : 0);
  if (strcmp(what, "in_handler") == 0) result = do_in_handler();
  if (strcmp(what, "many") == 0 && argc > 3) result = do_many(number, atof(argv[3]));
  if (strcmp(what, "producer") == 0) result = do_producer(number);
  if (strcmp(what, "exec") == 0) result = do_exec(number, argv);
  if (strcmp(what, "exec_jump") == 0) result = do_exec_jump();
  if (strcmp(what, "failing_exec") == 0) result = do_failing_exec();
  if (strcmp(what, "silent_ends") == 0) result = do_silent_ends(number);
  if (strcmp(what, "long_call") == 0) result = do_long_call();
  if (strcmp(what, "close_others") == 0) result = do_close_others();
  if (strcmp(what, "exec_mask") == 0) result = do_exec_mask(argv);
  if (strcmp(what, "show_mask") == 0) result = do_show_mask();
  if (strcmp(what, "syscall") == 0) result = do_syscall();
  fflush(stdout);
  return result;
}
