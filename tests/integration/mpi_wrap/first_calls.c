// SPDX-License-Identifier: BSD-3-Clause
// FIRST_CALLS LIBRARY PLUGIN: the first MPI call of a thread is inside a constructor of dlopen, which holds
// the loader's lock, while that of another thread is under way, which needs the lock. LIBRARY is
// fake_library.c.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

typedef int (*init_function)(int*, char***);
typedef int (*finalize_function)(void);
typedef int (*rank_function)(void*, int*);

static init_function init;
static rank_function comm_rank;
static int asked, in_constructor, rank = -1;

static void wait_for(const int* word) {
  for (int i = 0; i < 10000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) == 0; ++i) usleep(1000);
}

// The library is asked what it is.
void fake_library_asked(void) {
  __atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
  wait_for(&in_constructor);
}

void plugin_is_loaded(void) {
  __atomic_store_n(&in_constructor, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 100; ++i) comm_rank(NULL, &rank);
}

static void* initialise(void* success) { return init(NULL, NULL) == 0 ? success : NULL; }

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int is_wrapped = dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL || !is_wrapped) return 1;
  init = (init_function)dlsym(RTLD_DEFAULT, "MPI_Init");
  comm_rank = (rank_function)dlsym(RTLD_DEFAULT, "MPI_Comm_rank");
  finalize_function finalize = (finalize_function)dlsym(RTLD_DEFAULT, "MPI_Finalize");
  pthread_t thread;
  void* succeeded = NULL;
  if (pthread_create(&thread, NULL, initialise, &rank) != 0) return 1;
  wait_for(&asked);
  if (dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) == NULL) return 1;
  pthread_join(thread, &succeeded);
  if (succeeded == NULL || rank != 0 || finalize() != 0) return 1;
  puts("first calls done");
  return 0;
}
