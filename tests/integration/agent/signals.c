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

enum { kCanary = 65536, kMostStack = 65536 };
static struct { unsigned char canary[kCanary], stack[kMostStack]; } area __attribute__((aligned(4096)));
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
    for (int k = 0; k < 3000 && returned < i; ++k) usleep(1000);
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

/* --- a filter that stops a call of the handler
 * --------------------------------------------------------------- */

static void on_bad_call(int signal, siginfo_t* info, void* context) {
  if (info->si_syscall == SYS_getrusage) ++calls;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
  got = signal;
}
static int do_filter(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_bad_call;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, NULL);
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrusage, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 1;
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != -1 || errno != ENOSYS || got != SIGSYS) return 2;
  spin_ms(300);
  printf("trapped %d\n", calls);
  return 0;
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
  if (strcmp(what, "filter") == 0) result = do_filter();
  fflush(stdout);
  return result;
}
