/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints "ready PID", then the number of every signal it gets, with the value of queued ones,
 * until SIGTERM, when it exits with status 7. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGTSTP);
  sigprocmask(SIG_BLOCK, &all, NULL);
  printf("ready %d\n", (int)getpid());
  fflush(stdout);
  for (;;) {
    siginfo_t info;
    int number = sigwaitinfo(&all, &info);
    if (number <= 0) continue;
    if (info.si_code == SI_QUEUE) {
      printf("%d %d\n", number, info.si_value.sival_int);
    } else {
      printf("%d\n", number);
    }
    fflush(stdout);
    if (number == SIGTERM) return 7;
  }
}
