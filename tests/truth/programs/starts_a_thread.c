/* SPDX-License-Identifier: BSD-3-Clause
 * A program that loads a library whose constructor waits for a thread to begin, while the loader's lock is
 * held: the thread's wake-up is the first of the process. Built as the library with -DLIBRARY. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#ifdef LIBRARY
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_begun = PTHREAD_COND_INITIALIZER;
static int begun;

static void* begin(void* unused) {
  pthread_mutex_lock(&lock);
  begun = 1;
  pthread_cond_signal(&has_begun);
  pthread_mutex_unlock(&lock);
  return unused;
}

__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, begin, NULL);
  pthread_mutex_lock(&lock);
  while (!begun) pthread_cond_wait(&has_begun, &lock);
  pthread_mutex_unlock(&lock);
  pthread_detach(thread);
}
#else
int main(int count, char** words) {
  puts(count > 1 && dlopen(words[1], RTLD_NOW) != NULL ? "loaded" : "not loaded");
  return 0;
}
#endif
