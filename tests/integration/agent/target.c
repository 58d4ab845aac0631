/* SPDX-License-Identifier: BSD-3-Clause */
/* A program to be recorded. It does what its arguments say and prints lines "name number". */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/agent_api.h"
#include "waited_for_processor.h"

static double now_ms(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static volatile uint64_t sink;

__attribute__((noinline)) void spin_cpu_ms(double ms) {
  const double end = now_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
  while (now_ms(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 20000; ++i) sink += (uint64_t)i;
}

static struct timespec in_ms(clockid_t clock, long ms) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += ms * 1000000;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

/* --- every way to wait for 150 ms; each returns 0 or what it failed with ------------------- */

#define WAIT_MS 150
static const struct timespec kWait = {0, WAIT_MS * 1000000};

static int expect_errno(long result, int expected) {
  return result == -1 && errno == expected ? 0 : result == -1 ? errno : -1;
}

static int by_nanosleep(void) {
  struct timespec left;
  return nanosleep(&kWait, &left) == 0 ? 0 : errno;
}
static int by_nanosleep_without_rest(void) { return nanosleep(&kWait, NULL) == 0 ? 0 : errno; }
static int by_clock_nanosleep(void) {
  struct timespec left;
  return clock_nanosleep(CLOCK_MONOTONIC, 0, &kWait, &left);
}
static int by_clock_nanosleep_until(void) {
  const struct timespec until = in_ms(CLOCK_MONOTONIC, WAIT_MS);
  return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}
static int by_usleep(void) { return usleep(WAIT_MS * 1000) == 0 ? 0 : errno; }
static int by_poll(void) { return poll(NULL, 0, WAIT_MS) == 0 ? 0 : errno; }
/* Past the agent's function, below one out of which the thread has jumped: what is known of that one is
 * wrong. */
static sigjmp_buf out_of_poll;
static void jump_out(int signal) {
  (void)signal;
  siglongjmp(out_of_poll, 1);
}
__attribute__((noinline)) static int poll_below(void) {
  struct pollfd none = {-1, 0, 0};
  return syscall(SYS_poll, &none, 1, WAIT_MS) == 0 ? 0 : errno;
}
static int by_poll_after_jump(void) {
  const struct itimerval soon = {{0, 0}, {0, 20000}};
  signal(SIGALRM, jump_out);
  if (sigsetjmp(out_of_poll, 1) == 0) {
    struct pollfd none = {-1, 0, 0};
    setitimer(ITIMER_REAL, &soon, NULL);
    poll(&none, 1, 2 * WAIT_MS / 3);
    return -1;
  }
  signal(SIGALRM, SIG_DFL);
  return poll_below();
}
static int by_ppoll(void) {
  sigset_t none;
  sigemptyset(&none);
  return ppoll(NULL, 0, &kWait, &none) == 0 ? 0 : errno;
}
static int by_select(void) {
  struct timeval time = {0, WAIT_MS * 1000};
  return select(0, NULL, NULL, NULL, &time) == 0 ? 0 : errno;
}
static int by_pselect(void) {
  sigset_t none;
  sigemptyset(&none);
  return pselect(0, NULL, NULL, NULL, &kWait, &none) == 0 ? 0 : errno;
}
static int by_epoll_wait(void) {
  const int epoll = epoll_create1(0);
  struct epoll_event event;
  const int result = epoll_wait(epoll, &event, 1, WAIT_MS);
  const int error = result == 0 ? 0 : errno;
  close(epoll);
  return error;
}
static int by_epoll_pwait(void) {
  const int epoll = epoll_create1(0);
  struct epoll_event event;
  sigset_t none;
  sigemptyset(&none);
  const int result = epoll_pwait(epoll, &event, 1, WAIT_MS, &none);
  const int error = result == 0 ? 0 : errno;
  close(epoll);
  return error;
}
static int by_sem_timedwait(void) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  const struct timespec until = in_ms(CLOCK_REALTIME, WAIT_MS);
  return expect_errno(sem_timedwait(&semaphore, &until), ETIMEDOUT);
}
static int by_cond_timedwait(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  const struct timespec until = in_ms(CLOCK_REALTIME, WAIT_MS);
  pthread_mutex_lock(&mutex);
  const int result = pthread_cond_timedwait(&condition, &mutex, &until);
  pthread_mutex_unlock(&mutex);
  return result == ETIMEDOUT ? 0 : result;
}
static int by_futex(void) { /* as run-time libraries do: the number right before the instruction */
  int word = 0;
  long result = SYS_futex;
  register const struct timespec* timeout __asm__("r10") = &kWait;
  __asm__ volatile("mov %1, %%eax\n\tsyscall"
                   : "=&a"(result)
                   : "i"(SYS_futex), "D"(&word), "S"(FUTEX_WAIT_PRIVATE), "d"(0), "r"(timeout)
                   : "rcx", "r11", "memory");
  return result == -ETIMEDOUT ? 0 : (int)-result;
}
static int by_syscall(void) {
  int word = 0;
  return expect_errno(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &kWait), ETIMEDOUT);
}
static int by_sigtimedwait(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  return expect_errno(sigtimedwait(&set, NULL, &kWait), EAGAIN);
}
static int by_recv_timeout(void) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return errno;
  const struct timeval time = {0, WAIT_MS * 1000};
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  char byte;
  const int error = expect_errno(recv(ends[0], &byte, 1, 0), EAGAIN);
  close(ends[0]);
  close(ends[1]);
  return error;
}
static int pipe_ends[2];
static void* write_later(void* unused) {
  (void)unused;
  usleep(WAIT_MS * 1000);
  return write(pipe_ends[1], "x", 1) == 1 ? NULL : (void*)1;
}
static int by_read(void) {
  if (pipe(pipe_ends) != 0) return errno;
  pthread_t thread;
  pthread_create(&thread, NULL, write_later, NULL);
  char byte;
  const int error = read(pipe_ends[0], &byte, 1) == 1 ? 0 : errno;
  pthread_join(thread, NULL);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return error;
}
static int message_queue;
static void* send_later(void* unused) {
  (void)unused;
  usleep(WAIT_MS * 1000);
  struct {
    long type;
    char text[1];
  } message = {1, "x"};
  return msgsnd(message_queue, &message, 1, 0) == 0 ? NULL : (void*)1;
}
static int by_msgrcv(void) {
  message_queue = msgget(IPC_PRIVATE, 0600);
  if (message_queue < 0) return 0; /* not to be had here */
  pthread_t thread;
  pthread_create(&thread, NULL, send_later, NULL);
  struct {
    long type;
    char text[1];
  } message;
  const int error = msgrcv(message_queue, &message, 1, 0, 0) == 1 ? 0 : errno;
  pthread_join(thread, NULL);
  msgctl(message_queue, IPC_RMID, NULL);
  return error;
}

static const struct {
  const char* name;
  int (*wait)(void);
} kWays[] = {{"nanosleep", by_nanosleep},
             {"nanosleep_without_rest", by_nanosleep_without_rest},
             {"clock_nanosleep", by_clock_nanosleep},
             {"clock_nanosleep_until", by_clock_nanosleep_until},
             {"usleep", by_usleep},
             {"poll", by_poll},
             {"poll_after_jump", by_poll_after_jump},
             {"ppoll", by_ppoll},
             {"select", by_select},
             {"pselect", by_pselect},
             {"epoll_wait", by_epoll_wait},
             {"epoll_pwait", by_epoll_pwait},
             {"sem_timedwait", by_sem_timedwait},
             {"cond_timedwait", by_cond_timedwait},
             {"futex", by_futex},
             {"syscall", by_syscall},
             {"sigtimedwait", by_sigtimedwait},
             {"recv_timeout", by_recv_timeout},
             {"read", by_read},
             {"msgrcv", by_msgrcv}};

static int do_waits(void) {
  for (size_t i = 0; i < sizeof kWays / sizeof *kWays; ++i) {
    spin_cpu_ms(15);
    const double lacked = waited_for_processor_ms(), start = now_ms(CLOCK_MONOTONIC);
    const int error = kWays[i].wait();
    const double ms = now_ms(CLOCK_MONOTONIC) - start;
    printf("%s.ms %.3f\n%s.lacked_ms %.3f\n%s.error %d\n", kWays[i].name, ms, kWays[i].name,
           waited_for_processor_ms() - lacked, kWays[i].name, error);
  }
  return 0;
}

/* Short waits, each after a sleep until a time, which is as long: prints by how much longer the waits are, on
 * average and in microseconds, and how long after its time the earliest of them is over. The average is
 * without the few at both ends: the processor may be lost between a look at the clock and one at the kernel's
 * account. */
enum { kShortMs = 6, kShortWaits = 60, kShortOdd = 8 };
static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
static const struct timespec kShort = {0, kShortMs * 1000000};
static int short_nanosleep(int unused) { return (void)unused, nanosleep(&kShort, NULL); }
static int short_clock_nanosleep(int unused) {
  return (void)unused, clock_nanosleep(CLOCK_MONOTONIC, 0, &kShort, NULL);
}
static int short_usleep(int unused) { return (void)unused, usleep(kShortMs * 1000); }
static int short_thrd_sleep(int unused) { return (void)unused, thrd_sleep(&kShort, NULL); }
static int short_poll(int unused) { return (void)unused, poll(NULL, 0, kShortMs); }
static int short_epoll_wait(int epoll) {
  struct epoll_event event;
  return epoll_wait(epoll, &event, 1, kShortMs);
}
static int short_epoll_pwait(int epoll) {
  struct epoll_event event;
  return epoll_pwait(epoll, &event, 1, kShortMs, NULL);
}

static int do_short_waits(void) {
  static const struct {
    const char* name;
    int (*wait)(int epoll);
  } ways[] = {{"nanosleep", short_nanosleep},
              {"clock_nanosleep", short_clock_nanosleep},
              {"usleep", short_usleep},
              {"thrd_sleep", short_thrd_sleep},
              {"poll", short_poll},
              {"epoll_wait", short_epoll_wait},
              {"epoll_pwait", short_epoll_pwait}};
  const int epoll = epoll_create1(0);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
    double longer_ms[kShortWaits], earliest_ms = kShortMs, sum_ms = 0;
    for (int n = 0; n < kShortWaits; ++n) {
      const double before = now_ms(CLOCK_MONOTONIC), lacked_before = waited_for_processor_ms();
      const struct timespec until = in_ms(CLOCK_MONOTONIC, kShortMs);
      if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) return 1;
      const double lacked = waited_for_processor_ms(), start = now_ms(CLOCK_MONOTONIC);
      if (ways[i].wait(epoll) != 0) return 2;
      const double end = now_ms(CLOCK_MONOTONIC), lacked_after = waited_for_processor_ms();
      longer_ms[n] = end - start - (lacked_after - lacked) - (start - before - (lacked - lacked_before));
      if (end - start - kShortMs < earliest_ms) earliest_ms = end - start - kShortMs;
    }
    qsort(longer_ms, kShortWaits, sizeof *longer_ms, by_value);
    for (int n = kShortOdd; n < kShortWaits - kShortOdd; ++n) sum_ms += longer_ms[n];
    printf("%s.longer_us %.3f\n%s.earliest_us %.3f\n", ways[i].name,
           1e3 * sum_ms / (kShortWaits - 2 * kShortOdd), ways[i].name, 1e3 * earliest_ms);
  }
  close(epoll);
  return 0;
}

/* --- threads ---------------------------------------------------------------------------------- */

static void* short_thread(void* argument) {
  sink += (uint64_t)(uintptr_t)argument;
  if (((uintptr_t)argument & 3) == 1) pthread_exit(NULL);
  return NULL;
}
static void* canceled_thread(void* argument) {
  (void)argument;
  pause();
  return NULL;
}
static int c11_thread(void* argument) { return *(int*)argument + 1; }

static int do_threads(int count) {
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, short_thread, (void*)(uintptr_t)i) != 0) return 1;
    pthread_join(thread, NULL);
  }
  pthread_t thread;
  void* result = NULL;
  if (pthread_create(&thread, NULL, canceled_thread, NULL) != 0) return 2;
  usleep(30000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  if (result != PTHREAD_CANCELED) return 3;
  thrd_t c11;
  int value = 41;
  int c11_result = 0;
  if (thrd_create(&c11, c11_thread, &value) != thrd_success) return 4;
  thrd_join(c11, &c11_result);
  return c11_result == 42 ? 0 : 5;
}

static void* ends_at_once(void* argument) { return argument; }
static int do_cancel(void) { /* at any instant of a thread's start and end */
  for (int i = 0; i < 400; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, ends_at_once, NULL) != 0) return 1;
    for (int k = 0; k < i * 20; ++k) sink += (uint64_t)k;
    pthread_cancel(thread);
    if (pthread_join(thread, NULL) != 0) return 2;
  }
  return 0;
}

static __thread char big_tls[64 * 1024] = {1};
static void* tiny_thread(void* argument) {
  big_tls[sizeof big_tls / 2] = 1;
  (void)argument;
  spin_cpu_ms(150);
  return NULL;
}
static int do_tiny_stacks(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, 16384 + sizeof big_tls) != 0) return 1;
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i)
    if (pthread_create(&threads[i], &attributes, tiny_thread, NULL) != 0) return 2;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  return 0;
}

static void* named_thread(void* argument) {
  (void)argument;
  pthread_setname_np(pthread_self(), "worker-7");
  spin_cpu_ms(200);
  return NULL;
}
static int do_named(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, named_thread, NULL) != 0) return 1;
  pthread_join(thread, NULL);
  return 0;
}

/* --- fork and exec ----------------------------------------------------------------------------- */

static int do_fork(void) {
  spin_cpu_ms(100);
  const pid_t child = fork();
  if (child == 0) {
    spin_cpu_ms(300);
    pthread_t thread;
    pthread_create(&thread, NULL, named_thread, NULL);
    pthread_join(thread, NULL);
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  spin_cpu_ms(100);
  printf("child_pid %d\nchild_status %d\n", (int)child, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 0;
}

/* The second child is forked after the program has written another name over its words. */
static int do_fork_renamed(char** argv) {
  for (int i = 0; i < 2; ++i) {
    if (i == 1) memset(argv[1], 'x', strlen(argv[1]));
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

static void* fork_often(void* unused) {
  (void)unused;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return (void*)1;
  }
  return NULL;
}
static int do_fork_threads(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, i % 2 ? fork_often : tiny_thread, NULL);
  int bad = 0;
  for (int i = 0; i < 4; ++i) {
    void* result = NULL;
    pthread_join(threads[i], &result);
    if (result != NULL) bad = 1;
  }
  return bad;
}

static volatile int stop_visiting;
static int visit(struct dl_phdr_info* info, size_t bytes, void* data) {
  (void)data;
  for (int i = 0; i < 2000; ++i) sink += info->dlpi_addr + bytes;
  return 0;
}
static void* visit_modules(void* unused) {
  while (!stop_visiting) dl_iterate_phdr(visit, unused);
  return NULL;
}
static int do_fork_loader(void) { /* while another thread holds the loader's lock, nearly always */
  pthread_t thread;
  if (pthread_create(&thread, NULL, visit_modules, NULL) != 0) return 1;
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    for (int waited_ms = 0; waitpid(child, &status, WNOHANG) == 0; ++waited_ms) {
      if (waited_ms == 3000) kill(child, SIGKILL);
      usleep(1000);
    }
    if (status != 0) return 2;
  }
  stop_visiting = 1;
  pthread_join(thread, NULL);
  return 0;
}

static volatile int stop_waking;

static void* wake_often(void* nothing) {
  while (!stop_waking) usleep(30000);
  return nothing;
}

/* Counts the watcher's descriptors while so many threads block and wake. */
static int do_watcher_descriptors(int threads) {
  int pipes[2];
  if (threads < 0 || threads > 128 || pipe(pipes) != 0) return 1;
  pthread_t waking[128];
  for (int i = 0; i < threads; ++i)
    if (pthread_create(&waking[i], NULL, wake_often, NULL) != 0) return 4;
  spin_cpu_ms(100);
  if (threads != 0) usleep(900000);
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == NULL) return 2;
  int others = 0, entries = 0;
  for (const struct dirent* task; (task = readdir(tasks)) != NULL;) {
    if (task->d_name[0] == '.' || atoi(task->d_name) == (int)getpid()) continue;
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE* const comm = fopen(path, "r");
    if (comm == NULL || fgets(name, sizeof name, comm) == NULL) return 5;
    fclose(comm);
    if (threads != 0 && strcmp(name, "clusterprof\n") != 0) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/fd", task->d_name);
    DIR* const descriptors = opendir(path);
    if (descriptors == NULL) return 3;
    ++others;
    for (const struct dirent* entry; (entry = readdir(descriptors)) != NULL;)
      if (entry->d_name[0] != '.') ++entries;
    closedir(descriptors);
  }
  closedir(tasks);
  printf("others %d\nentries %d\n", others, entries);
  stop_waking = 1;
  for (int i = 0; i < threads; ++i) pthread_join(waking[i], NULL);
  return 0;
}

/* --- signals ------------------------------------------------------------------------------------- */

static sigjmp_buf jump;
static volatile sig_atomic_t faults, info_ok, mask_ok, restarted;
static char* volatile bad_page;

static void on_segv_info(int signal, siginfo_t* info, void* context) {
  (void)context;
  ++faults;
  info_ok = signal == SIGSEGV && info->si_addr == bad_page;
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, NULL, &now);
  mask_ok = sigismember(&now, SIGUSR1) && sigismember(&now, SIGSEGV);
  siglongjmp(jump, 1);
}
static void on_segv_plain(int signal) {
  (void)signal;
  ++faults;
  mprotect(bad_page, 4096, PROT_READ | PROT_WRITE);
}

__attribute__((noinline)) static int change_handler_in_vfork_child(void) {
  const pid_t child = vfork();
  if (child == 0) {
    struct sigaction none;
    memset(&none, 0, sizeof none);
    sigaction(SIGSEGV, &none, NULL);
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child ? status : -1;
}

static int do_own_segv(void) {
  bad_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action, old;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_segv_info;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGUSR1);
  if (sigaction(SIGSEGV, &action, &old) != 0 || old.sa_handler != SIG_DFL) return 1;
  if (sigaction(SIGSEGV, NULL, &old) != 0 || old.sa_sigaction != on_segv_info || old.sa_flags != SA_SIGINFO)
    return 2;
  for (volatile int i = 0; i < 50; ++i) {
    if (sigsetjmp(jump, 1) == 0) *(volatile char*)bad_page = 1;
    if (!info_ok || !mask_ok) return 3;
    spin_cpu_ms(2);
  }
  if (faults != 50) return 4;
  if ((uintptr_t)signal(SIGSEGV, on_segv_plain) != (uintptr_t)on_segv_info) return 5;
  *(volatile char*)bad_page = 1;
  if (faults != 51 || *bad_page != 1) return 6;
  if (change_handler_in_vfork_child() != 0) return 10;
  if (sigaction(SIGSEGV, NULL, &old) != 0 || old.sa_handler != on_segv_plain) return 11;
  if (sysv_signal(SIGSEGV, on_segv_plain) != on_segv_plain) return 7;
  mprotect(bad_page, 4096, PROT_NONE);
  *(volatile char*)bad_page = 2;
  if (faults != 52) return 8;
  if (sigaction(SIGSEGV, NULL, &old) != 0 || old.sa_handler != SIG_DFL) return 9; /* SA_RESETHAND */
  signal(SIGSEGV, SIG_IGN);
  raise(SIGSEGV); /* sent, not a fault: ignored */
  return 0;
}

static volatile sig_atomic_t got_rt;
static void on_rt(int signal) { got_rt = signal; }
static int do_sample_signal(void) { /* the program uses the very signal that the agent does */
  struct sigaction old;
  for (int s = 1; s <= 64; ++s) {
    if (s == 32 || s == 33) continue;
    if (sigaction(s, NULL, &old) != 0) return 1;
    if (old.sa_handler != SIG_DFL) return 100 + s;
  }
  if (signal(61, on_rt) != SIG_DFL) return 2;
  spin_cpu_ms(100);
  if (got_rt != 0) return 3;
  raise(61);
  if (got_rt != 61) return 4;
  got_rt = 0;
  spin_cpu_ms(100);
  return got_rt == 0 ? 0 : 5;
}

static void on_alarm(int signal) {
  (void)signal;
  ++restarted;
}
static int do_own_eintr(void) { /* the program's own EINTRs stay */
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  sigfillset(&action.sa_mask);
  sigaction(SIGALRM, &action, NULL);
  for (int i = 0; i < 10; ++i) {
    spin_cpu_ms(10);
    const struct itimerval timer = {{0, 0}, {0, 60000 + 7000 * i}};
    setitimer(ITIMER_REAL, &timer, NULL);
    const double start = now_ms(CLOCK_MONOTONIC);
    if (poll(NULL, 0, 3000) != -1 || errno != EINTR) return 1;
    if (now_ms(CLOCK_MONOTONIC) - start > 1000) return 2;
  }
  return restarted == 10 ? 0 : 3;
}

static int do_sigwait(void) { /* a thread that waits for all signals gets only the program's */
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  const struct itimerval timer = {{0, 0}, {0, 200000}};
  setitimer(ITIMER_REAL, &timer, NULL);
  spin_cpu_ms(100);
  int got = 0;
  if (sigwait(&all, &got) != 0) return 1;
  if (got != SIGALRM) return got;
  const int descriptor = signalfd(-1, &all, 0);
  setitimer(ITIMER_REAL, &timer, NULL);
  spin_cpu_ms(50);
  struct signalfd_siginfo info;
  if (read(descriptor, &info, sizeof info) != sizeof info) return 2;
  return info.ssi_signo == SIGALRM ? 0 : 3;
}

/* --- agent_api ------------------------------------------------------------------------------------ */

static const clusterprof_agent_api* api;
static clusterprof_call_path seen[8];

/* Must be inlined, else its own frame would be the caller. */
__attribute__((always_inline)) static inline uint64_t enter_mpi(int op) {
  const clusterprof_mpi_call call = {(uint32_t)op, 7, 1, 42, 3, 5, 2, 3, 0x9, {4, 5}, 6, 81};
  return api->enter_mpi(&call);
}

/* Acts like a wrapper of mpi-wrap. */
__attribute__((noinline)) clusterprof_call_path wrapper(int op) {
  clusterprof_call_path path = {0, 0, 0};
  if (enter_mpi(op) != 0) path = api->leave_mpi().path;
  __asm__ volatile("");
  return path;
}
__attribute__((noinline)) void step_one(int which) {
  seen[which] = wrapper(1);
  __asm__ volatile("");
}
__attribute__((noinline)) void step_two(int which) {
  seen[which] = wrapper(1);
  __asm__ volatile("");
}
__attribute__((noinline)) void by_one_caller(int which) {
  step_one(which);
  __asm__ volatile("");
}
__attribute__((noinline)) void by_other_caller(int which) {
  step_one(which);
  __asm__ volatile("");
}
__attribute__((noinline)) double call_often(int calls) {
  const double start = now_ms(CLOCK_MONOTONIC);
  for (int i = 0; i < calls; ++i) sink += api->call_path().words;
  return (now_ms(CLOCK_MONOTONIC) - start) * 1e6 / calls;
}
__attribute__((noinline)) double deep(int levels, int calls) {
  const double result = levels == 0 ? call_often(calls) : deep(levels - 1, calls);
  __asm__ volatile("");
  return result;
}

__attribute__((noinline)) static void jump_out_of_mpi(void) {
  enter_mpi(9);
  siglongjmp(jump, 1);
}
__attribute__((noinline)) static uint64_t enter_below(void) {
  char room[256];
  memset(room, (int)sink, sizeof room);
  const uint64_t start = enter_mpi(6);
  sink += (uint64_t)room[sink % sizeof room];
  return start;
}

static int is_same(clusterprof_call_path a, clusterprof_call_path b) {
  return a.hash == b.hash && a.offset == b.offset && a.words == b.words;
}

static int do_api(void) {
  if (clusterprof_agent_v1 == NULL) return 1;
  api = clusterprof_agent_v1();
  if (api->segment() == NULL) return 2;
  api->add_wrapper_range((uintptr_t)wrapper, (uintptr_t)step_one);
  volatile int rounds = 100; /* or the first one would get call sites of its own */
  for (int i = 0; i < rounds; ++i) {
    volatile int again = i != 0;
    step_one(again);
    step_two(2 + again);
    by_one_caller(4 + again);
    by_other_caller(6 + again);
  }
  if (seen[0].words == 0 || seen[0].hash == 0) return 3;
  for (int i = 0; i < 8; i += 2)
    if (!is_same(seen[i], seen[i + 1])) return 5;
  for (int i = 2; i < 8; i += 2)
    for (int k = 0; k < i; k += 2)
      if (seen[i].hash == seen[k].hash) return 6;
  printf("path_offset %llu\npath_words %u\n", (unsigned long long)seen[0].offset, seen[0].words);
  printf("step_one %llu\n", (unsigned long long)(uintptr_t)step_one);
  printf("step_two %llu\n", (unsigned long long)(uintptr_t)step_two);
  printf("wrapper %llu\n", (unsigned long long)(uintptr_t)wrapper);
  double best = 1e9, best_pair = 1e9;
  for (int i = 0; i < 10; ++i) {
    const double ns = deep(2, 20000); /* call_often, deep x 3, do_api, main, libc's two */
    if (ns < best) best = ns;
    const double start = now_ms(CLOCK_MONOTONIC);
    for (int k = 0; k < 20000; ++k) {
      enter_mpi(5);
      if (api->leave_mpi().timed) api->wrapper_ended();
    }
    const double pair = (now_ms(CLOCK_MONOTONIC) - start) * 1e6 / 20000;
    if (pair < best_pair) best_pair = pair;
  }
  printf("call_path_ns %.1f\nenter_leave_ns %.1f\n", best, best_pair);
  if (sigsetjmp(jump, 1) == 0) jump_out_of_mpi();
  const uint64_t outer = enter_mpi(5);
  if (outer == 0 || enter_below() != 0) return 7;
  spin_cpu_ms(500);
  api->leave_mpi();
  api->mpi_started(3, 8, "  Some\tMPI:  1.0 \nmore");
  api->mpi_ended();
  enter_mpi(5); /* and never leaves */
  return 0;
}

/* Thousands of paths to one call: by which of two functions each of eleven levels was reached, one of which
   has a frame whose size differs. */
enum { kPathLevels = 11, kPaths = 1 << kPathLevels };
static clusterprof_call_path path_by[kPaths];
static double time_on_paths_ms;
static int wrong_paths, lost_paths;

__attribute__((noinline)) static void call_at_end(unsigned way) {
  const double start = now_ms(CLOCK_MONOTONIC);
  const clusterprof_call_path path = api->call_path();
  time_on_paths_ms += now_ms(CLOCK_MONOTONIC) - start;
  if (path_by[way].hash == 0) path_by[way] = path;
  if (path.hash == 0)
    ++lost_paths;
  else if (path.hash != path_by[way].hash)
    ++wrong_paths;
}
static void go_down(unsigned way, unsigned level);
__attribute__((noinline)) static void go_by_one(unsigned way, unsigned level) {
  go_down(way, level);
  __asm__ volatile("");
}
__attribute__((noinline)) static void go_by_other(unsigned way, unsigned level) {
  char room[16 + 64 * (way >> (kPathLevels - 1))];
  memset(room, (int)way, sizeof room);
  go_down(way, level);
  sink += (uint64_t)room[way % sizeof room];
}
__attribute__((noinline)) static void go_down(unsigned way, unsigned level) {
  if (level == 0)
    call_at_end(way);
  else if (way >> (level - 1) & 1)
    go_by_one(way, level - 1);
  else
    go_by_other(way, level - 1);
  __asm__ volatile("");
}
static int compare_hashes(const void* a, const void* b) {
  const uint64_t one = ((const clusterprof_call_path*)a)->hash,
                 other = ((const clusterprof_call_path*)b)->hash;
  return one < other ? -1 : one > other;
}
static int do_many_paths(int rounds) {
  if (clusterprof_agent_v1 == NULL) return 1;
  api = clusterprof_agent_v1();
  if (api->segment() == NULL) return 2;
  for (int round = 0; round < rounds; ++round) {
    if (round == 1) time_on_paths_ms = 0;
    for (unsigned i = 0; i < kPaths; ++i) go_down(i * 1103 % kPaths, kPathLevels);
  }
  printf("paths %d\nns_per_call %.1f\nwrong %d\n", kPaths, time_on_paths_ms * 1e6 / kPaths / (rounds - 1),
         wrong_paths + lost_paths);
  qsort(path_by, kPaths, sizeof *path_by, compare_hashes);
  for (unsigned i = 1; i < kPaths; ++i)
    if (path_by[i].hash == path_by[i - 1].hash) return 3;
  return 0;
}

/* The same while a handler of the program's does what it may not do but some do: it calls what asks for a
   path. It jumps out every 16th time, and forks every 512th: both go on with what was interrupted. */
enum { kHandled = 1001, kMostSeconds = 60 };
static volatile sig_atomic_t handled, may_jump, is_child;
static sigjmp_buf before_call;

static void ask_in_handler(int signal) {
  (void)signal;
  const int times = ++handled;
  sink += api->call_path().words;
  if (times % 16 == 0 && may_jump) siglongjmp(before_call, 1);
  if (times % 512 != 8 || is_child) return;
  const pid_t child = fork();
  if (child == 0) is_child = 1, wrong_paths = lost_paths = 0;
}
static void* call_on_many_paths(void* rounds) {
  volatile int round;
  volatile unsigned i;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  timer_t timer;
  const struct itimerspec period = {{0, 100000}, {0, 100000}};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return (void*)1;
  /* On a busy machine signals come late, and several as one. */
  const time_t end = time(NULL) + kMostSeconds;
  for (round = 0; (round < *(int*)rounds || (handled < kHandled && time(NULL) < end)) && !is_child; ++round) {
    if (round == 1) timer_settime(timer, 0, &period, NULL); /* by now it is known which path is which */
    for (i = 0; i < kPaths; ++i) {
      if (sigsetjmp(before_call, 1) == 0) {
        may_jump = 1;
        go_down(i * 1103 % kPaths, kPathLevels);
      }
      may_jump = 0;
    }
  }
  if (is_child) _exit(wrong_paths != 0);
  timer_delete(timer);
  return NULL;
}
static int do_interrupted_paths(int rounds, int alternate) {
  if (clusterprof_agent_v1 == NULL) return 1;
  api = clusterprof_agent_v1();
  if (api->segment() == NULL) return 2;
  struct sigaction action = {.sa_handler = ask_in_handler, .sa_flags = alternate ? SA_ONSTACK : 0};
  if (sigaction(SIGUSR2, &action, NULL) != 0) return 3;
  stack_t stack = {.ss_sp = malloc(1 << 18), .ss_size = 1 << 18};
  if (alternate && sigaltstack(&stack, NULL) != 0) return 4;
  if (call_on_many_paths(&rounds) != NULL) return 5;
  if (!alternate) { /* of another thread, which remembers less */
    pthread_t thread;
    void* result = NULL;
    memset(path_by, 0, sizeof path_by);
    if (pthread_create(&thread, NULL, call_on_many_paths, &rounds) != 0) return 6;
    pthread_join(thread, &result);
    if (result != NULL) return 7;
  }
  int children = 0, failed = 0;
  for (int status; wait(&status) > 0; ++children) {
    if (status != 0) printf("a child ended with %#x\n", (unsigned)status);
    failed += status != 0;
  }
  printf("handled %d\nlost %d\nwrong %d\nchildren %d\nfailed %d\n", (int)handled, lost_paths, wrong_paths,
         children, failed);
  return 0;
}

/* The same with a handler that comes before each instruction, until it has come often enough while the
   function was at work: from then on it gets no path. It may also try to execute what is not there, or fork.
 */
enum { kStepsAtWork = 400, kStepOfMore = 100 };
enum { kOnlyAsk, kExecute, kFork, kForkWithLittleMemory };
static volatile sig_atomic_t steps_before, steps_at_work, steps_wrong, does_more;

__attribute__((noinline)) static void execute_nothing(void) {
  char room[4096]; /* deeper than the search for a path */
  memset(room, 0, sizeof room);
  execl("/nowhere", "nowhere", (char*)NULL);
  sink += (uint64_t)room[sizeof room / 2];
}
static void ask_at_step(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  const int found = api->call_path().hash != 0;
  if (found) {
    ++*(steps_at_work == 0 ? &steps_before : &steps_wrong);
  } else if (++steps_at_work == kStepOfMore) {
    if (does_more == kExecute) execute_nothing();
    if (does_more >= kFork) is_child = fork() == 0;
    if (may_jump) siglongjmp(before_call, 1);
  }
  if (!is_child && steps_at_work < kStepsAtWork && steps_before + steps_wrong < 4 * kStepsAtWork) return;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}
__attribute__((noinline)) static clusterprof_call_path path_in_steps(int in_steps) {
  if (in_steps)
    __asm__ volatile("sub $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; add $128, %%rsp" ::
                         : "memory", "cc");
  return api->call_path();
}
static rlim_t bytes_of_addresses(void) {
  unsigned long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%lu", &pages) != 1) exit(9);
  fclose(file);
  return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}
static int do_stepped_paths(int more) {
  if (clusterprof_agent_v1 == NULL) return 1;
  api = clusterprof_agent_v1();
  if (api->segment() == NULL) return 2;
  struct sigaction action = {.sa_sigaction = ask_at_step, .sa_flags = SA_SIGINFO};
  if (sigaction(SIGTRAP, &action, NULL) != 0 || signal(SIGBUS, SIG_IGN) == SIG_ERR) return 3;
  does_more = more;
  struct rlimit limit = {bytes_of_addresses() + (4 << 20), RLIM_INFINITY};
  if (more == kForkWithLittleMemory && setrlimit(RLIMIT_AS, &limit) != 0) return 4;
  clusterprof_call_path path[2];
  for (volatile int i = 0; i < 2; ++i) path[i] = path_in_steps(i == 0); /* by one call */
  if (is_child) _exit(more == kFork && path[1].hash == 0); /* it may be recorded, with little memory */
  int status = 0;
  if (more >= kFork && (wait(&status) < 0 || status != 0)) return 5;
  printf("before %d\nat_work %d\nwrong %d\nsame %d\n", steps_before, steps_at_work, steps_wrong,
         path[0].hash != 0 && path[0].hash == path[1].hash);
  return 0;
}

/* A handler forks before each instruction of a look at a path that is known. The child goes on with it. */
enum { kMostForks = 150 };
static void fork_at_step(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  const pid_t child = fork();
  int status = 0;
  is_child = child == 0;
  if (!is_child && (child < 0 || waitpid(child, &status, 0) != child || status != 0)) ++steps_wrong;
  if (++steps_before == kMostForks || is_child) ((ucontext_t*)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}
static int do_forked_paths(void) {
  if (clusterprof_agent_v1 == NULL) return 1;
  api = clusterprof_agent_v1();
  if (api->segment() == NULL) return 2;
  struct sigaction action = {.sa_sigaction = fork_at_step, .sa_flags = SA_SIGINFO};
  if (sigaction(SIGTRAP, &action, NULL) != 0) return 3;
  clusterprof_call_path path[2];
  for (volatile int i = 0; i < 2; ++i) path[i] = path_in_steps(i == 1); /* by one call */
  if (is_child) _exit(path[1].hash == 0);
  printf("forks %d\nfailed %d\nsame %d\n", steps_before, steps_wrong,
         path[0].hash != 0 && path[0].hash == path[1].hash);
  return 0;
}

/* On a stack of the program's own, whose ends are not known, the handler jumps out of the search. */
static ucontext_t of_main, of_coroutine;
static int found_after_jump;

__attribute__((noinline)) static void use_stack(void) {
  char room[8192];
  memset(room, 1, sizeof room);
  __asm__ volatile("" ::"r"(room) : "memory");
}
static void jump_out_in_coroutine(void) {
  if (sigsetjmp(before_call, 1) == 0) {
    may_jump = 1;
    path_in_steps(1);
  }
  may_jump = 0;
  use_stack();
  found_after_jump = path_in_steps(0).hash != 0;
}
static int do_paths_in_coroutine(void) {
  if (clusterprof_agent_v1 == NULL) return 1;
  api = clusterprof_agent_v1();
  if (api->segment() == NULL) return 2;
  struct sigaction action = {.sa_sigaction = ask_at_step, .sa_flags = SA_SIGINFO};
  if (sigaction(SIGTRAP, &action, NULL) != 0 || getcontext(&of_coroutine) != 0) return 3;
  of_coroutine.uc_stack = (stack_t){.ss_sp = malloc(1 << 18), .ss_size = 1 << 18};
  of_coroutine.uc_link = &of_main;
  makecontext(&of_coroutine, jump_out_in_coroutine, 0);
  if (swapcontext(&of_main, &of_coroutine) != 0) return 4;
  printf("at_work %d\nfound %d\n", steps_at_work, found_after_jump);
  return 0;
}

/* A search that the handler jumped out of is over when the process forks. */
static int do_fork_after_jump(void) {
  if (clusterprof_agent_v1 == NULL) return 1;
  api = clusterprof_agent_v1();
  void* const segment = api->segment();
  struct sigaction action = {.sa_sigaction = ask_at_step, .sa_flags = SA_SIGINFO};
  if (segment == NULL || sigaction(SIGTRAP, &action, NULL) != 0) return 2;
  if (sigsetjmp(before_call, 1) == 0) {
    may_jump = 1;
    path_in_steps(1);
  }
  use_stack();
  int status = -1;
  const pid_t child = fork();
  /* Its header is empty then, and the rest is gone. */
  if (child == 0) _exit(msync((char*)segment + (1 << 20), 4096, MS_ASYNC) == 0);
  if (waitpid(child, &status, 0) != child) return 3;
  printf("at_work %d\nstays %d\n", steps_at_work, status != 0);
  return 0;
}

static int do_limits(void) {
  /* Nothing of the agent may take a low descriptor, and the fork path must live with a full table. */
  const int descriptor = open("/dev/null", O_RDONLY);
  printf("first_descriptor %d\n", descriptor);
  return 0;
}

static void touch_pages(int pages) {
  const size_t bytes = (size_t)pages * 4096;
  char* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) exit(98);
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
  munmap(memory, bytes);
}

static int do_faults(int pages) { /* in the kernel for long enough that its ticks see it */
  spin_cpu_ms(50);
  const double end = now_ms(CLOCK_THREAD_CPUTIME_ID) + 300;
  int rounds = 0;
  for (; now_ms(CLOCK_THREAD_CPUTIME_ID) < end; ++rounds) touch_pages(pages);
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  printf("touched %d\nfaults %ld\nsystem_ms %.3f\n", rounds * pages, usage.ru_minflt + usage.ru_majflt,
         (double)usage.ru_stime.tv_sec * 1e3 + (double)usage.ru_stime.tv_usec * 1e-3);
  return 0;
}

static void* wake_up_often(void* seconds) {
  const double end = now_ms(CLOCK_MONOTONIC) + 1e3 * (double)(intptr_t)seconds;
  while (now_ms(CLOCK_MONOTONIC) < end) usleep(100 * 1000);
  return NULL;
}
static int do_sleepers(int seconds, int count) {
  pthread_t threads[64];
  for (int i = 0; i < count; ++i)
    if (pthread_create(&threads[i], NULL, wake_up_often, (void*)(intptr_t)seconds) != 0) return 1;
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  return 0;
}

/* Each long wait begins with a short one, without work in between. */
static int do_waits_in_turn(int times) {
  for (int i = 0; i < times; ++i) {
    spin_cpu_ms(20);
    const struct timespec end = in_ms(CLOCK_MONOTONIC, 600);
    if (poll(NULL, 0, 25) != 0 || clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) return 1;
  }
  return 0;
}

/* Two waits in one function, by one function of libc, without work in between. */
static int do_waits_at_one_place(
    int first_ms) { /* says of how many the first one lasted for most of its time */
  int firsts = 0;
  for (int i = 0; i < 10; ++i) {
    spin_cpu_ms(20);
    const struct timespec first = in_ms(CLOCK_MONOTONIC, first_ms), second = in_ms(CLOCK_MONOTONIC, 300);
    const double left_ms =
        1e3 * (double)first.tv_sec + 1e-6 * (double)first.tv_nsec - now_ms(CLOCK_MONOTONIC);
    if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &first, NULL) != 0) return 1;
    firsts += left_ms > 0.8 * first_ms;
    if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &second, NULL) != 0) return 1;
  }
  printf("firsts %d\n", firsts);
  return 0;
}

static int do_fork_faults(int children) { /* of children that do nothing */
  for (int i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  struct rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  printf("faults_per_child %.1f\n", (double)usage.ru_minflt / children);
  return 0;
}

static int resident_kb(void) { /* anonymous and shared memory, without files */
  FILE* status = fopen("/proc/self/status", "r");
  char line[256];
  int sum = 0, kb = 0;
  while (status != NULL && fgets(line, sizeof line, status) != NULL)
    if (sscanf(line, "RssAnon: %d", &kb) == 1 || sscanf(line, "RssShmem: %d", &kb) == 1) sum += kb;
  if (status != NULL) fclose(status);
  return sum;
}

static pthread_barrier_t spun, measured;
static void* spin_and_stay(void* cpu_ms) {
  spin_cpu_ms((double)(intptr_t)cpu_ms);
  pthread_barrier_wait(&spun);
  pthread_barrier_wait(&measured);
  return NULL;
}
static int do_memory(int count) {
  pthread_t threads[64];
  if (count > 64) return 1;
  pthread_barrier_init(&spun, NULL, (unsigned)count + 1);
  pthread_barrier_init(&measured, NULL, (unsigned)count + 1);
  for (int i = 0; i < count; ++i)
    if (pthread_create(&threads[i], NULL, spin_and_stay, (void*)60) != 0) return 2;
  pthread_barrier_wait(&spun);
  printf("resident_kb %d\n", resident_kb());
  pthread_barrier_wait(&measured);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  return 0;
}

int wait_for_early_threads(void);
void crash_in_destructor(void);

static void raise_segv(void) { raise(SIGSEGV); }
static ssize_t crash_on_write(void* unused, const char* text, size_t bytes) {
  (void)unused, (void)text;
  raise_segv();
  return (ssize_t)bytes;
}
/* It has said that it exits with 0, and crashes in what libc calls then. */
static int do_crash_at_end(const char* where) {
  if (strcmp(where, "destructor") == 0) {
    crash_in_destructor();
  } else if (strcmp(where, "quick_exit") == 0) {
    at_quick_exit(raise_segv);
    quick_exit(0);
  } else { /* libc writes what streams still hold */
    const cookie_io_functions_t calls = {.write = crash_on_write};
    FILE* const stream = fopencookie(NULL, "w", calls);
    if (stream == NULL || fputs("text", stream) < 0) return 1;
  }
  return 0;
}

static int dispatch(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  if (strcmp(what, "spin") == 0) return spin_cpu_ms(number), 0;
  if (strcmp(what, "sleep") == 0) return usleep((useconds_t)number * 1000), 0;
  if (strcmp(what, "waits") == 0) return do_waits();
  if (strcmp(what, "short_waits") == 0) return do_short_waits();
  if (strcmp(what, "threads") == 0) return do_threads(number);
  if (strcmp(what, "tiny") == 0) return do_tiny_stacks();
  if (strcmp(what, "early") == 0) return wait_for_early_threads();
  if (strcmp(what, "named") == 0) return do_named();
  if (strcmp(what, "fork") == 0) return do_fork();
  if (strcmp(what, "fork_renamed") == 0) return do_fork_renamed(argv);
  if (strcmp(what, "fork_threads") == 0) return do_fork_threads();
  if (strcmp(what, "fork_loader") == 0) return do_fork_loader();
  if (strcmp(what, "cancel") == 0) return do_cancel();
  if (strcmp(what, "watcher_descriptors") == 0) return do_watcher_descriptors(number);
  if (strcmp(what, "exec") == 0) return spin_cpu_ms(50), execl(argv[0], argv[0], "spin", "200", (char*)NULL);
  if (strcmp(what, "own_segv") == 0) return do_own_segv();
  if (strcmp(what, "sample_signal") == 0) return do_sample_signal();
  if (strcmp(what, "own_eintr") == 0) return do_own_eintr();
  if (strcmp(what, "sigwait") == 0) return do_sigwait();
  if (strcmp(what, "api") == 0) return do_api();
  if (strcmp(what, "many_paths") == 0) return do_many_paths(number);
  if (strcmp(what, "interrupted_paths") == 0) return do_interrupted_paths(number, argc > 3);
  if (strcmp(what, "stepped_paths") == 0) return do_stepped_paths(number);
  if (strcmp(what, "forked_paths") == 0) return do_forked_paths();
  if (strcmp(what, "paths_in_coroutine") == 0) return do_paths_in_coroutine();
  if (strcmp(what, "fork_after_jump") == 0) return do_fork_after_jump();
  if (strcmp(what, "limits") == 0) return do_limits();
  if (strcmp(what, "faults") == 0) return do_faults(number);
  if (strcmp(what, "sleepers") == 0) return do_sleepers(number, 64);
  if (strcmp(what, "few_sleepers") == 0) return do_sleepers(number, 2);
  if (strcmp(what, "waits_in_turn") == 0) return do_waits_in_turn(number);
  if (strcmp(what, "waits_at_one_place") == 0) return do_waits_at_one_place(number);
  if (strcmp(what, "fork_faults") == 0) return do_fork_faults(number);
  if (strcmp(what, "memory") == 0) return do_memory(number);
  if (strcmp(what, "env") == 0) return system("env | grep -E '^(LD_PRELOAD|CLUSTERPROF)'") == 0 ? 0 : 1;
  if (strcmp(what, "exit") == 0) exit(number);
  if (strcmp(what, "_exit") == 0) _exit(number);
  if (strcmp(what, "quick_exit") == 0) quick_exit(number);
  if (strcmp(what, "return") == 0) return number;
  if (strcmp(what, "abort") == 0) abort();
  if (strcmp(what, "segv") == 0) *(volatile char*)bad_page = 1;
  if (strcmp(what, "raise") == 0) raise(number);
  if (strcmp(what, "crash_at_end") == 0) return do_crash_at_end(argc > 2 ? argv[2] : "");
  return 99;
}

int main(int argc, char** argv) {
  const int result = dispatch(argc, argv);
  fflush(stdout);
  return result;
}
