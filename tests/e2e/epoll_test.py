"""The functions that wait for events behave as without clusterprof: results, errno, timeouts, EINTR, cancellation."""

import os

import recording

PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int loop, ends[2];
static sigjmp_buf behind;
static volatile sig_atomic_t alarms, jumps;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int by_wait(int ms, struct epoll_event* events, int most) { return epoll_wait(loop, events, most, ms); }
static int by_pwait(int ms, struct epoll_event* events, int most) {
  return epoll_pwait(loop, events, most, ms, NULL);
}
static int by_pwait2(int ms, struct epoll_event* events, int most) {
  const struct timespec timeout = {ms / 1000, ms % 1000 * 1000000l};
  return epoll_pwait2(loop, events, most, ms < 0 ? NULL : &timeout, NULL);
}

static void on_alarm(int signal) {
  (void)signal;
  alarms++;
  if (jumps) siglongjmp(behind, 1);
}

static void set_alarm(long interval_us) {
  const struct itimerval timer = {{0, interval_us}, {0, interval_us}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

typedef int Wait(int ms, struct epoll_event* events, int most);
static Wait* cancelled_wait;
static void* wait_for_ever(void* unused) {
  struct epoll_event event;
  cancelled_wait(-1, &event, 1);
  return unused;
}

static void try(const char* name, Wait* wait) {
  struct epoll_event events[2];
  memset(events, 0, sizeof events);
  errno = 77;
  const int none = wait(0, events, 2);
  printf("%s none %d errno %d\n", name, none, errno);
  const double begin = now();
  const int late = wait(60, events, 2);
  printf("%s timeout %d errno %d early %d\n", name, late, errno, now() - begin < 0.0599);
  if (write(ends[1], "x", 1) != 1) return;
  const int ready = wait(-1, events, 2);
  printf("%s ready %d errno %d data %llu events %u\n", name, ready, errno, (unsigned long long)events[0].data.u64,
         events[0].events);
  char byte;
  if (read(ends[0], &byte, 1) != 1) return;
  errno = 0;
  const int wrong = wait(0, events, 0);
  printf("%s wrong %d errno %d\n", name, wrong, errno);
  const int kept = loop;
  loop = 9999;
  errno = 0;
  const int closed = wait(0, events, 2);
  printf("%s closed %d errno %d\n", name, closed, errno);
  loop = ends[0];
  errno = 0;
  const int other = wait(0, events, 2);
  printf("%s other %d errno %d\n", name, other, errno);
  loop = kept;

  alarms = 0;
  errno = 0;
  set_alarm(100000);
  const int interrupted = wait(-1, events, 2);
  const int why = errno;
  set_alarm(0);
  printf("%s interrupted %d errno %d alarms %d\n", name, interrupted, why, alarms > 0);

  jumps = 1;
  if (sigsetjmp(behind, 1) == 0) {
    set_alarm(100000);
    wait(-1, events, 2);
    printf("%s returned\n", name);
  }
  set_alarm(0);
  jumps = 0;
  printf("%s after a jump %d\n", name, wait(0, events, 2));

  pthread_t thread;
  void* result;
  cancelled_wait = wait;
  pthread_create(&thread, NULL, wait_for_ever, NULL);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("%s cancelled %d\n", name, result == PTHREAD_CANCELED);
}

// A mask for the time of the wait lets a signal in that is blocked otherwise.
static void try_mask(void) {
  sigset_t alarm, before, let_in;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, &before);
  let_in = before;
  sigdelset(&let_in, SIGALRM);
  alarms = 0;
  raise(SIGALRM);
  struct epoll_event event;
  errno = 0;
  printf("outside %d\n", (int)alarms);
  const int result = epoll_pwait(loop, &event, 1, -1, &let_in);
  printf("inside %d errno %d alarms %d\n", result, errno, (int)alarms);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  loop = epoll_create1(0);
  struct epoll_event event = {EPOLLIN, {.u64 = 4711}};
  if (loop < 0 || pipe(ends) != 0 || epoll_ctl(loop, EPOLL_CTL_ADD, ends[0], &event) != 0) return 1;
  try("epoll_wait", by_wait);
  try("epoll_pwait", by_pwait);
  try("epoll_pwait2", by_pwait2);
  try_mask();
  return 0;
}
"""


class Epoll(recording.RecordingTest):
    def test_waits_behave_as_without_clusterprof(self):
        self.need("cc")
        source, binary = (os.path.join(self.directory, name) for name in ("waits.c", "waits"))
        with open(source, "w") as file:
            file.write(PROGRAM)
        built = self.bare(["cc", "-O1", "-pthread", "-o", binary, source])
        if built.returncode != 0 and b"epoll_pwait2" in built.stderr:
            self.skipTest("the C library has no epoll_pwait2")
        self.assertEqual(built.returncode, 0, built.stderr.decode())
        bare = self.bare([binary])
        self.assertEqual(bare.returncode, 0, bare.stderr)
        self.assertIn(b"epoll_pwait2 cancelled 1", bare.stdout)
        self.assertNotIn(b"early 1", bare.stdout)
        for rate in ("100", "1000"):
            recorded = self.record([binary], options=["-r", rate], run=f"run-{rate}")
            self.assertEqual((recorded.returncode, recorded.stdout.decode()), (0, bare.stdout.decode()))


if __name__ == "__main__":
    recording.main()
