// SPDX-License-Identifier: BSD-3-Clause
// A program that is bound to the conditions of glibc 2.2.5, which are pointers to others.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

typedef union {
  void* condition;
  char bytes[sizeof(pthread_cond_t)];
} OldCondition;

int old_wait(OldCondition*, pthread_mutex_t*);
int old_signal(OldCondition*);
int old_broadcast(OldCondition*);
__asm__(".symver old_wait, pthread_cond_wait@GLIBC_2.2.5");
__asm__(".symver old_signal, pthread_cond_signal@GLIBC_2.2.5");
__asm__(".symver old_broadcast, pthread_cond_broadcast@GLIBC_2.2.5");

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static OldCondition changed;
static int state;

static void* other(void* unused) {
  for (int i = 1; i <= 4; ++i) {
    usleep(300000);
    pthread_mutex_lock(&mutex);
    state = i;
    if (i % 2 == 0)
      old_signal(&changed);
    else
      old_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, other, NULL);
  pthread_mutex_lock(&mutex);
  for (int i = 1; i <= 4; ++i)
    while (state < i) old_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
  printf("%d\n", state);
  return 0;
}
