/* SPDX-License-Identifier: BSD-3-Clause */
/* A program to be recorded, whose signals are also ours, or whose handlers run where ours would be in the
 * way. Does what its first argument says and ends with 0, or with the number of the check that failed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSampleSignal = 61 };

static volatile uint64_t sink;

static double now_ms(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}
static void spin_ms(double ms) {
  const double end = now_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
  while (now_ms(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 5000; ++i) sink += (uint64_t)i;
}
static sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}
static void handle(int signal, void (*handler)(int), int flags, int blocks_all) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (blocks_all) sigfillset(&action.sa_mask);
  sigaction(signal, &action, NULL);
}
static _Atomic int got, calls;
static void on_signal(int signal) {
  got = signal;
  ++calls;
}

/* --- alternate stacks --------------------------------------------------------------------------- */

enum { kCanary = 65536, kMaxStack = 65536 };
static struct { unsigned char canary[kCanary], stack[kMaxStack]; } area __attribute__((aligned(4096)));
static size_t stack_bytes;

/* What the kernel puts on the stack for a handler. */
static size_t frame_bytes(void) {
  const size_t bytes = getauxval(AT_MINSIGSTKSZ);
  return bytes != 0 ? bytes : MINSIGSTKSZ;
}
static void unblock_past_libc(void) {
  const uint64_t none = 0;
  register long bytes __asm__("r10") = 8;
  long result = SYS_rt_sigprocmask;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(SIG_SETMASK), "S"(&none), "d"(NULL), "r"(bytes)
                   : "rcx", "r11", "memory");
}
static int how_to_spin;
static sigjmp_buf back;
__attribute__((noinline)) static void on_small_stack(int signal) {
  /* Leaves less than a frame. */
  volatile unsigned char room[2600];
  memset((void*)room, 1, sizeof room);
  got = signal + room[7] - 1;
  sigset_t all, old;
  sigfillset(&all);
  if (how_to_spin == 1) {
    sigprocmask(SIG_BLOCK, &all, &old);
    sigprocmask(SIG_SETMASK, &old, NULL);
  } else if (how_to_spin == 2) {
    const sigset_t sample = only(kSampleSignal);
    sigprocmask(SIG_UNBLOCK, &sample, NULL);
  }
  spin_ms(150);
  if (how_to_spin == 3) siglongjmp(back, 1);
}
static void on_stack_unblocked(int signal) {
  got = signal;
  unblock_past_libc();
  spin_ms(150);
}
static int use_stack(size_t bytes) {
  memset(area.canary, 0xa5, sizeof area.canary);
  stack_bytes = bytes;
  const stack_t stack = {.ss_sp = area.stack, .ss_size = bytes};
  return sigaltstack(&stack, NULL);
}
static int is_intact(void) {
  for (size_t i = 0; i < sizeof area.canary; ++i)
    if (area.canary[i] != 0xa5) return 0;
  return 1;
}
static int do_alternate_stack(void) {
  sigset_t mask;
  if (use_stack(frame_bytes() + 4096) != 0) return 1;
  for (how_to_spin = 0; how_to_spin < 3; ++how_to_spin) {
    for (int blocks_all = 0; blocks_all < 2; ++blocks_all) {
      for (int i = 0; i < 2; ++i) {
        const int signal = i == 0 ? SIGUSR1 : SIGSEGV;
        handle(signal, on_small_stack, SA_ONSTACK, blocks_all);
        got = 0;
        raise(signal);
        if (got != signal) return 2;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        if (sigismember(&mask, kSampleSignal)) return 3;
      }
    }
  }
  if (!is_intact()) return 4;
  struct sigaction action;
  handle(SIGUSR2, on_small_stack, SA_ONSTACK, 0);
  sigaction(SIGUSR2, NULL, &action);
  if (sigismember(&action.sa_mask, kSampleSignal)) return 5;
  handle(SIGUSR2, on_small_stack, SA_ONSTACK, 1);
  sigaction(SIGUSR2, NULL, &action);
  if (!sigismember(&action.sa_mask, kSampleSignal)) return 6;
  /* One that jumps away and puts the mask right by hand. */
  const sigset_t usr1 = only(SIGUSR1);
  handle(SIGUSR1, on_small_stack, SA_ONSTACK, 0);
  if (sigsetjmp(back, 0) == 0) raise(SIGUSR1);
  sigprocmask(SIG_UNBLOCK, &usr1, NULL);
  spin_ms(100);
  uint64_t now = ~(uint64_t)0;
  if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, sizeof now) != 0) return 7;
  if ((now >> (kSampleSignal - 1) & 1) != 0) return 8;
  return is_intact() ? 0 : 9;
}
/* The program lets our signal in where there is room for its frame, but not for more. */
static int do_little_room(void) {
  if (use_stack(2 * frame_bytes() + 3072) != 0) return 1;
  handle(SIGUSR1, on_stack_unblocked, SA_ONSTACK, 0);
  raise(SIGUSR1);
  return got == SIGUSR1 && is_intact() ? 0 : 2;
}

/* --- the program's own EINTR ------------------------------------------------------------------------ */

static pthread_t sleeper;
static _Atomic int returned;
static int wake_signal;
static void on_signal_slowly(int signal) {
  got = signal;
  spin_ms(3);
}
static void* wake(void* unused) {
  for (int i = 1; i <= 60; ++i) {
    pthread_kill(sleeper, wake_signal);
    for (int k = 0; k < 60000 && returned < i; ++k) usleep(1000);
    if (returned < i) _exit(3);
  }
  _exit(0);
  return unused;
}
static int do_suspend(int signal, int flags) {
  wake_signal = signal;
  sleeper = pthread_self();
  const sigset_t blocked = only(signal);
  sigprocmask(SIG_BLOCK, &blocked, NULL);
  handle(signal, on_signal_slowly, flags, 0);
  sigset_t others;
  sigfillset(&others);
  sigdelset(&others, signal);
  pthread_t waker;
  if (pthread_create(&waker, NULL, wake, NULL) != 0) return 1;
  for (;;) {
    got = 0;
    if (sigsuspend(&others) != -1 || errno != EINTR || got != signal) return 2;
    ++returned;
  }
}

/* --- SIGIO --------------------------------------------------------------------------------------------- */

static int do_sigio(void) {
  int ends[2];
  char byte;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  fcntl(ends[0], F_SETOWN, getpid());
  fcntl(ends[0], F_SETSIG, SIGIO);
  fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
  struct sigaction ignored;
  memset(&ignored, 0, sizeof ignored);
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGIO, &ignored, NULL);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      usleep(20000);
      _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
    }
    errno = 0;
    if (poll(NULL, 0, 100) != 0) return 2; /* which an ignored signal does not interrupt */
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) return 3;
    if (read(ends[0], &byte, 1) != 1) return 4;
  }
  const pid_t dies = fork();
  if (dies == 0) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    fcntl(ends[0], F_SETOWN, getpid());
    signal(SIGIO, SIG_DFL);
    if (write(ends[1], "x", 1) == 1) usleep(200000);
    _exit(1);
  }
  int status = 0;
  waitpid(dies, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGIO ? 0 : 5;
}

/* --- dispositions ----------------------------------------------------------------------------------------
 */

static pthread_t target;
static _Atomic int rounds;
static void* send_often(void* unused) {
  int last = 0;
  for (;;) {
    const int now = rounds;
    if (now < 0) return unused;
    if (now == last) continue;
    last = now;
    for (int i = 0; i < now * 37 % 3000; ++i) sink += (uint64_t)i;
    pthread_kill(target, SIGCONT); /* harmless without a handler */
  }
}
static int do_one_shot(void) {
  target = pthread_self();
  pthread_t sender;
  if (pthread_create(&sender, NULL, send_often, NULL) != 0) return 1;
  int again = 0;
  for (int n = 1; n < 30000; ++n) {
    const int before = calls;
    rounds = n;
    handle(SIGCONT, on_signal, (int)SA_RESETHAND, 0);
    for (int i = 0; i < 20000 && calls == before; ++i) sink += (uint64_t)i;
    const int now = calls;
    struct sigaction action;
    sigaction(SIGCONT, NULL, &action);
    again += now != before && action.sa_handler != SIG_DFL;
    handle(SIGCONT, SIG_DFL, 0, 0);
  }
  rounds = -1;
  pthread_join(sender, NULL);
  return again == 0 ? 0 : 2;
}

static void show(const char* name, int signal) {
  struct sigaction action;
  const int result = sigaction(signal, NULL, &action);
  printf("%s.%d.result %d\n", name, signal, result);
  if (result != 0) return;
  printf("%s.%d.flags %u\n", name, signal, (unsigned)action.sa_flags & ~0x04000000u);
  printf("%s.%d.handler %d\n", name, signal,
         action.sa_handler == SIG_DFL     ? 0
         : action.sa_handler == SIG_IGN   ? 1
         : action.sa_handler == on_signal ? 2
                                          : 3);
  for (int s = 1; s <= 64; ++s)
    if (sigismember(&action.sa_mask, s)) printf("%s.%d.mask.%d 1\n", name, signal, s);
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static int do_dispositions(void) { /* what is printed has to be the same without the agent */
  const int signals[] = {SIGUSR1, SIGSEGV, SIGIO, SIGABRT, kSampleSignal, SIGKILL, 32, 64, 65, 0};
  sigset_t mask;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
    const int s = signals[i];
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = (int)(SA_RESETHAND | SA_ONSTACK);
    sigaddset(&action.sa_mask, SIGHUP);
    errno = 0;
    printf("set.%d %d\n", s, sigaction(s, &action, NULL));
    printf("set.%d.errno %d\n", s, errno);
    show("set", s);
    printf("signal.%d %d\n", s, signal(s, on_signal) == SIG_ERR);
    show("signal", s);
    printf("interrupt.%d %d\n", s, siginterrupt(s, 1));
    show("interrupt", s);
    printf("again.%d %d\n", s, signal(s, on_signal) == on_signal);
    show("again", s);
    siginterrupt(s, 0);
    show("restart", s);
    printf("sysv.%d %d\n", s, sysv_signal(s, on_signal) == on_signal);
    show("sysv", s);
    printf("hold.%d %d\n", s, sigset(s, SIG_HOLD) == on_signal);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    printf("held.%d %d\n", s, sigismember(&mask, s));
    printf("sigset.%d %d\n", s, sigset(s, SIG_DFL) == SIG_HOLD);
    show("sigset", s);
    printf("sigignore.%d %d\n", s, sigignore(s));
    show("sigignore", s);
  }
  return 0;
}

#pragma GCC diagnostic pop

/* Ends with 0 when what it has been executed with is ignored. */
static const int ignored_signals[] = {SIGSEGV, SIGBUS, SIGIO, SIGUSR1, kSampleSignal};
static int do_show_ignored(void) {
  for (size_t i = 0; i < sizeof ignored_signals / sizeof *ignored_signals; ++i) {
    struct sigaction action;
    sigaction(ignored_signals[i], NULL, &action);
    if (action.sa_handler != SIG_IGN) return (int)(20 + i);
  }
  return 0;
}
static int do_exec_ignored(char** argv) {
  for (size_t i = 0; i < sizeof ignored_signals / sizeof *ignored_signals; ++i)
    signal(ignored_signals[i], SIG_IGN);
  char* const arguments[] = {argv[0], "show_ignored", NULL};
  if (execv("/nowhere/at/all", arguments) != -1 || errno != ENOENT) return 1;
  if (raise(SIGBUS) != 0 || raise(SIGIO) != 0) return 2;
  spin_ms(100);
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    execv(argv[0], arguments);
    _exit(1);
  }
  if (waitpid(child, &status, 0) != child || status != 0) return 3;
  const pid_t shares_memory = vfork();
  if (shares_memory == 0) {
    execv("/nowhere/at/all", arguments);
    execv(argv[0], arguments);
    _exit(1);
  }
  if (waitpid(shares_memory, &status, 0) != shares_memory || status != 0) return 4;
  spin_ms(100);
  execvp(argv[0], arguments);
  return 5;
}

/* --- the program waits for the very signal -----------------------------------------------------------------
 */

static void* wait_in_thread(void* unused) {
  const sigset_t sample = only(kSampleSignal);
  int signal = 0;
  if (sigwait(&sample, &signal) == 0 && signal == kSampleSignal) return NULL;
  return unused;
}
static int do_own_waited(void) {
  const sigset_t sample = only(kSampleSignal);
  const struct timespec second = {1, 0}, instant = {0, 1000000};
  siginfo_t info;
  sigprocmask(SIG_BLOCK, &sample, NULL);
  spin_ms(50);
  for (int i = 0; i < 3; ++i) {
    if (sigqueue(getpid(), kSampleSignal, (union sigval){.sival_int = 7 + i}) != 0) return 1;
    spin_ms(30);
  }
  for (int i = 0; i < 3; ++i) {
    if (sigtimedwait(&sample, &info, &second) != kSampleSignal) return 2;
    if (info.si_code != SI_QUEUE || info.si_value.sival_int != 7 + i) return 3;
  }
  if (sigtimedwait(&sample, &info, &instant) != -1 || errno != EAGAIN) return 4;
  timer_t timer;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = kSampleSignal;
  event.sigev_value.sival_int = 5;
  const struct itimerspec soon = {.it_value = {0, 20000000}};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return 5;
  timer_settime(timer, 0, &soon, NULL);
  if (sigwaitinfo(&sample, &info) != kSampleSignal || info.si_code != SI_TIMER) return 6;
  kill(getpid(), kSampleSignal);
  int signal = 0;
  if (sigwait(&sample, &signal) != 0 || signal != kSampleSignal) return 7;
  pthread_t waits;
  void* result = &waits;
  if (pthread_create(&waits, NULL, wait_in_thread, &waits) != 0) return 8;
  usleep(50000);
  kill(getpid(), kSampleSignal);
  pthread_join(waits, &result);
  if (result != NULL) return 9;
  sigprocmask(SIG_UNBLOCK, &sample, NULL);
  spin_ms(300); /* sampled again */
  return 0;
}

/* All threads block all signals, as those that leave them to one which waits for them. Another process sends
   one that tells of a fault otherwise. */
static _Atomic int strangers;
static void* fetch_faults(void* sender) {
  const sigset_t faults = only(SIGSEGV);
  siginfo_t info;
  while (sigwaitinfo(&faults, &info) == SIGSEGV) {
    ++calls;
    strangers += info.si_pid != *(pid_t*)sender;
  }
  return NULL;
}
__attribute__((noinline)) static void spin_deep(int depth) {
  if (depth == 0)
    spin_ms(5);
  else
    spin_deep(depth - 1);
  __asm__ volatile("");
}
static int do_sent_faults(void) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  int pipe_of_turns[2], status = -1;
  if (pipe(pipe_of_turns) != 0) return 1;
  pid_t sender = fork();
  if (sender == 0) {
    char turn;
    close(pipe_of_turns[1]);
    while (read(pipe_of_turns[0], &turn, 1) == 1)
      for (int i = 0; i < 20; ++i) {
        if (kill(getppid(), SIGSEGV) != 0) _exit(1);
        usleep(50);
      }
    _exit(0);
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, fetch_faults, &sender) != 0) return 2;
  const double begin_ms = now_ms(CLOCK_MONOTONIC);
  while (now_ms(CLOCK_MONOTONIC) < begin_ms + 1500 ||
         (calls <= 100 && now_ms(CLOCK_MONOTONIC) < begin_ms + 60000)) {
    if (write(pipe_of_turns[1], "", 1) != 1) return 3;
    spin_deep(200);
  }
  close(pipe_of_turns[1]);
  if (waitpid(sender, &status, 0) != sender || status != 0) return 4;
  printf("fetched %d\n", (int)calls);
  if (strangers != 0) return 5;
  fflush(stdout);
  _exit(0);
}

/* Threads wait for a moment each time, in a call that does not start again by itself after a signal. */
static _Atomic int moments, moments_cut_short;
static void* wait_for_moments(void* end_ms) {
  struct epoll_event event;
  const int events = epoll_create1(0);
  while (now_ms(CLOCK_MONOTONIC) < *(double*)end_ms) {
    spin_ms(0.2);
    ++moments;
    if (epoll_wait(events, &event, 1, 2) != 0) ++moments_cut_short;
  }
  close(events);
  return NULL;
}
static int do_moments(void) {
  enum { kThreads = 4 };
  double end_ms = now_ms(CLOCK_MONOTONIC) + 3000;
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, wait_for_moments, &end_ms) != 0) return 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("waits %d\ninterrupted %d\n", (int)moments, (int)moments_cut_short);
  return 0;
}

/* --- filters of system calls -------------------------------------------------------------------------------
 */

enum { kMaxAllowed = 32, kForks = 50 };
/* A filter that does `action` for these calls and `otherwise` for all others. */
static struct sock_filter filter_code[2 * kMaxAllowed + 2];
static struct sock_fprog make_filter(const int* numbers, size_t count, uint32_t action, uint32_t otherwise) {
  struct sock_filter* at = filter_code;
  *at++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; ++i) {
    *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)numbers[i], 0, 1);
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
  }
  *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
  return (struct sock_fprog){(unsigned short)(at - filter_code), filter_code};
}
static long past_libc(long number, long first, long second, long third) {
  register long fourth __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "+a"(number)
                   : "D"(first), "S"(second), "d"(third), "r"(fourth)
                   : "rcx", "r11", "memory");
  return number;
}
static int allow_filters(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

static void on_bad_call(int signal, siginfo_t* info, void* context) {
  if (info->si_syscall == SYS_getrusage) ++calls;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
  got = signal;
}
static void handle_bad_calls(void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(SIGSYS, &action, NULL);
}
static int do_filter(void) {
  const int numbers[] = {SYS_getrusage};
  /* Where SIGSYS is blocked, the kernel kills: as in its handler without SA_NODEFER, if a sample is taken
   * there. */
  handle_bad_calls(on_bad_call, SA_NODEFER);
  const struct sock_fprog program = make_filter(numbers, 1, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
  /* Where the agent does not see it: it would end the samples. */
  if (!allow_filters() || past_libc(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program) != 0)
    return 1;
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != -1 || errno != ENOSYS || got != SIGSYS) return 2;
  spin_ms(300);
  printf("trapped %d\n", calls);
  return 0;
}

/* A filter that kills for what only starts recording: a thread that comes afterwards is recorded without it.
 */
static void* spin_in_sandbox(void* unused) {
  spin_ms(300);
  return unused;
}
static int do_sandbox_of_events(void) {
  static const int killed[] = {SYS_perf_event_open, SYS_prlimit64, SYS_getrlimit, SYS_memfd_create,
                               SYS_socket};
  const struct sock_fprog program =
      make_filter(killed, sizeof killed / sizeof *killed, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
  spin_ms(50);
  if (!allow_filters() || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return 1;
  pthread_t thread;
  if (pthread_create(&thread, NULL, spin_in_sandbox, NULL) != 0) return 2;
  return pthread_join(thread, NULL);
}

/* Filters that kill for what the program itself does not do: how = 0, strict mode; 1, by prctl; 2, by
 * seccomp(2), for all threads, of which one runs; 3, the same for a process forked afterwards; 4, the same
 * where two threads fork often. */
static _Atomic int runs, leaves; /* runs: libc has made the calls with which a thread begins */
static void* run_and_leave(void* unused) {
  runs = 1;
  while (!leaves) spin_ms(1);
  past_libc(SYS_exit, 0, 0, 0); /* libc's way takes more calls */
  return unused;
}
static void fault_and_end(int signal) {
  static const char said[] = "faulted\n";
  if (write(1, said, sizeof said - 1) > 0) past_libc(SYS_exit_group, signal == SIGSEGV ? 0 : 4, 0, 0);
}
static volatile int* volatile nowhere;
static int fork_often(void) {
  for (int i = 0; i < kForks; ++i) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
      const pid_t grandchild = fork();
      if (grandchild == 0) _exit(0);
      _exit(waitpid(grandchild, &status, 0) != grandchild || status != 0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}
static _Atomic int may_fork, failed_forks;
static void* fork_and_leave(void* unused) {
  runs = 1;
  while (!may_fork) sink += 1;
  failed_forks += fork_often();
  past_libc(SYS_exit, 0, 0, 0);
  return unused;
}
static int do_sandbox(int how) {
  static const int allowed[] = {SYS_read,   SYS_write,   SYS_exit,  SYS_exit_group,   SYS_rt_sigreturn,
                                SYS_munmap, SYS_madvise, SYS_futex, SYS_close,        SYS_set_robust_list,
                                SYS_clone,  SYS_wait4,   SYS_rseq,  SYS_clock_gettime};
  const size_t count = sizeof allowed / sizeof *allowed - (how == 4); /* no clocks there */
  static const char said[] = "computed\n";
  const struct sock_fprog program = make_filter(allowed, count, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
  pthread_t other;
  handle(SIGSEGV, fault_and_end, 0, 0);
  // 30 periods at 100 Hz. The kernel may look at the thread's timer for the last time 100 ms before the end.
  spin_ms(300);
  if (!allow_filters()) return 1;
  if (how == 0) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 2;
    for (uint64_t i = 0; i < 60000000; ++i) sink += i;
    if (write(1, said, sizeof said - 1) > 0) past_libc(SYS_exit, 0, 0, 0);
  }
  if (how == 1 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return 2;
  if (how >= 2) {
    if (pthread_create(&other, NULL, how == 4 ? fork_and_leave : run_and_leave, NULL) != 0) return 2;
    while (!runs) sink += 1;
    spin_ms(50);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) return 3;
  }
  for (uint64_t i = 0; i < 60000000; ++i) sink += i;
  if (write(1, said, sizeof said - 1) < 0) return 4;
  if (how >= 2) {
    leaves = may_fork = 1;
    if (how == 4) failed_forks += fork_often();
    pthread_join(other, NULL);
    if (failed_forks != 0) return 7;
  }
  if (how == 3) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
      for (uint64_t i = 0; i < 30000000; ++i) sink += i;
      _exit(9);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 9) return 5;
    _exit(0);
  }
  if (how == 2 || how == 4) _exit(0);
  *nowhere = 1; /* the handler ends it */
  return 6;
}

/* One that refuses, and one that is asked for but not there, are no reason to stop. */
static int do_refusal(void) {
  const int numbers[] = {SYS_getrusage, SYS_ptrace};
  const struct sock_fprog program = make_filter(numbers, 2, SECCOMP_RET_ERRNO | ENOSYS, SECCOMP_RET_ALLOW);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != -1 || errno != EFAULT) return 1;
  if (!allow_filters() || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return 2;
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != -1 || errno != ENOSYS) return 3;
  spin_ms(300);
  return 0;
}

/* --- calls that begin anew when a signal comes
 * --------------------------------------------------------------- */

static uint64_t kernel_mask(void) {
  uint64_t mask = 0;
  register long bytes __asm__("r10") = 8;
  long result = SYS_rt_sigprocmask;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(SIG_BLOCK), "S"(NULL), "d"(&mask), "r"(bytes)
                   : "rcx", "r11", "memory");
  return result == 0 ? mask : ~(uint64_t)0;
}
static int blocks_sample(uint64_t mask) { return (mask >> (kSampleSignal - 1) & 1) != 0; }

/* In the place of the call, with the signal mask that it was made with. */
static _Atomic int held, told;
static _Atomic int forks_in_handler;
static void on_call(int signal, siginfo_t* info, void* context) {
  ucontext_t* const interrupted = context;
  sigset_t mask;
  got = signal;
  ++calls;
  held += blocks_sample(kernel_mask());
  sigprocmask(SIG_BLOCK, NULL, &mask);
  told += sigismember(&mask, kSampleSignal);
  spin_ms(30);
  held += blocks_sample(kernel_mask());
  if (forks_in_handler-- > 0) raise(SIGUSR1);
  interrupted->uc_mcontext.gregs[REG_RAX] = -EDQUOT;
  (void)info;
}
static void fork_in_handler(int signal) {
  if (fork() != -1 || errno != EDQUOT) _exit(signal);
}
static int do_held(void) {
  const int numbers[] = {SYS_fallocate, SYS_clone, SYS_fork, SYS_bpf};
  const struct sock_fprog program = make_filter(numbers, 4, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
  handle_bad_calls(on_call, SA_NODEFER);
  if (!allow_filters() || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return 1;
  int made = 0;
  const uint64_t before = kernel_mask();
#define FAILS(call)                                                                                      \
  if ((call) != -1 || errno != EDQUOT || kernel_mask() != before || calls != ++made || held != 2 * made) \
  return 2 + made
  FAILS(fallocate(0, 0, 0, 4096));
  FAILS(fallocate64(0, 0, 0, 4096));
  if (posix_fallocate(0, 0, 4096) != EDQUOT || held != 2 * ++made) return 20;
  if (posix_fallocate64(0, 0, 4096) != EDQUOT || held != 2 * ++made) return 21;
  FAILS(syscall(SYS_fallocate, 0, 0, 0L, 4096L));
  FAILS(syscall(SYS_bpf, 0, NULL, 0));
  FAILS(syscall(SYS_fork));
  FAILS(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L));
  FAILS(fork());
  if (told != 0) return 22;
  /* A handler that comes in the middle of a fork, and forks. The watcher goes on afterwards. */
  handle(SIGUSR1, fork_in_handler, 0, 0);
  forks_in_handler = 1;
  if (fork() != -1 || kernel_mask() != before || calls != made + 2) return 23;
  struct timespec rest = {2, 500000000}; /* the watcher may lack a processor for a while */
  nanosleep(&rest, &rest);
  return 0;
}

static int child_says(pid_t child) {
  int status = -1;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}
static int do_forked_mask(void) {
  for (int i = 0; i < 4; ++i) {
    sigset_t set, mask;
    sigemptyset(&set);
    if ((i & 1) != 0) sigaddset(&set, SIGUSR2);
    if ((i & 2) != 0) sigaddset(&set, kSampleSignal);
    sigprocmask(SIG_SETMASK, &set, NULL);
    const uint64_t before = kernel_mask();
    const pid_t child = fork();
    const int same = kernel_mask() == before && !blocks_sample(before);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    const int told_same =
        sigismember(&mask, SIGUSR2) == ((i & 1) != 0) && sigismember(&mask, kSampleSignal) == ((i & 2) != 0);
    if (child == 0) {
      spin_ms(50);
      _exit(same && told_same ? 0 : 1);
    }
    if (!same || !told_same) return 1 + i;
    if (child_says(child) != 0) return 11 + i;
  }
  return 0;
}

/* --- children, and signals that are ours
 * ---------------------------------------------------------------------
 */

static int do_child_dies(void) { /* of what it sends itself, however it was made */
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const int signals[] = {SIGSEGV, SIGBUS, kSampleSignal};
  for (volatile int i = 0; i < 3; ++i) {
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
    if (child == 0) {
      raise(signals[i]);
      _exit(7);
    }
    if (child_says(child) != 100 + signals[i]) return 1 + i;
    child = fork();
    if (child == 0) {
      raise(signals[i]);
      _exit(7);
    }
    if (child_says(child) != 100 + signals[i]) return 11 + i;
    child = vfork();
    if (child == 0) {
      past_libc(SYS_kill, past_libc(SYS_getpid, 0, 0, 0), signals[i], 0);
      _exit(7);
    }
    if (child_says(child) != 100 + signals[i]) return 21 + i;
  }
  return 0;
}
static int do_own_in_child(void) {
  const sigset_t sample = only(kSampleSignal);
  const struct timespec second = {1, 0};
  siginfo_t info;
  sigprocmask(SIG_BLOCK, &sample, NULL);
  kill(getpid(), kSampleSignal);
  spin_ms(20); /* it waits */
  const pid_t child = fork();
  if (child == 0) {
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, kSampleSignal)) _exit(1);
    kill(getpid(), kSampleSignal);
    spin_ms(20);
    if (sigtimedwait(&sample, &info, &second) != kSampleSignal) _exit(2);
    sigprocmask(SIG_UNBLOCK, &sample, NULL);
    spin_ms(200);
    _exit(0);
  }
  if (child_says(child) != 0) return 1;
  return sigtimedwait(&sample, &info, &second) == kSampleSignal ? 0 : 2;
}

/* --- faults of handlers
 * --------------------------------------------------------------------------------------- */

static volatile sig_atomic_t mended, handled;
static volatile uint64_t mendable;
static void on_fault(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  ++mended;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RAX] = (greg_t)(uintptr_t)&mendable;
}
static void fault_once(int signal) {
  uint64_t address = 8, value;
  __asm__ volatile("mov (%%rax), %1" : "+a"(address), "=r"(value) : : "memory");
  sink += value + (uint64_t)signal;
  ++handled;
}
static _Atomic int sent_all;
static void* send_faults(void* thread) {
  for (int i = 0; i < 2000; ++i) {
    const struct timespec moment = {0, 20000 + i % 7 * 1000};
    pthread_kill(*(pthread_t*)thread, SIGUSR1);
    nanosleep(&moment, NULL);
  }
  sent_all = 1;
  return NULL;
}
static int do_faulting_handler(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  handle(SIGUSR1, fault_once, SA_RESTART, 0);
  char path[] = "/tmp/faulting-handler-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0 || unlink(path) != 0) return 1;
  pthread_t self = pthread_self(), sender;
  if (pthread_create(&sender, NULL, send_faults, &self) != 0) return 2;
  while (!sent_all)
    if (pwrite(file, "x", 1, 0) != 1) return 3;
  pthread_join(sender, NULL);
  printf("mended %d\nhandled %d\n", (int)mended, (int)handled);
  return blocks_sample(kernel_mask()) || (kernel_mask() >> (SIGUSR1 - 1) & 1) != 0 ? 4 : 0;
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  int result = 99;
  if (strcmp(what, "alternate_stack") == 0) result = do_alternate_stack();
  if (strcmp(what, "little_room") == 0) result = do_little_room();
  if (strcmp(what, "suspend") == 0 && argc > 3) result = do_suspend(atoi(argv[2]), atoi(argv[3]));
  if (strcmp(what, "sigio") == 0) result = do_sigio();
  if (strcmp(what, "one_shot") == 0) result = do_one_shot();
  if (strcmp(what, "dispositions") == 0) result = do_dispositions();
  if (strcmp(what, "exec_ignored") == 0) result = do_exec_ignored(argv);
  if (strcmp(what, "show_ignored") == 0) result = do_show_ignored();
  if (strcmp(what, "own_waited") == 0) result = do_own_waited();
  if (strcmp(what, "sent_faults") == 0) result = do_sent_faults();
  if (strcmp(what, "moments") == 0) result = do_moments();
  if (strcmp(what, "filter") == 0) result = do_filter();
  if (strcmp(what, "sandbox_of_events") == 0) result = do_sandbox_of_events();
  if (strcmp(what, "sandbox") == 0 && argc > 2) result = do_sandbox(atoi(argv[2]));
  if (strcmp(what, "refusal") == 0) result = do_refusal();
  if (strcmp(what, "held") == 0) result = do_held();
  if (strcmp(what, "forked_mask") == 0) result = do_forked_mask();
  if (strcmp(what, "child_dies") == 0) result = do_child_dies();
  if (strcmp(what, "own_in_child") == 0) result = do_own_in_child();
  if (strcmp(what, "faulting_handler") == 0) result = do_faulting_handler();
  fflush(stdout);
  return result;
}
