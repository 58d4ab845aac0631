// Tells a tool of Kokkos of views, as Kokkos does: `views WHAT`. It loads the library that KOKKOS_TOOLS_LIBS
// names and calls what it finds there. What is held is known beforehand, by WHAT:
//   plan     two spaces whose peaks are not at the end; amounts are times the rank's number plus 1. Prints as
//            JSON how long after the program's start the first space had its peak, and how long before its
//            end
//   labels   labels that are missing, empty, long, cut and no UTF-8
//   many     more labels and spaces than there is room for
//   threads  two threads that allocate and free at once
//   fork     a child that frees what its parent has allocated, and has views of its own
//   forks    children of a process in which another thread allocates all the while
//   pairs N  N views that are allocated and freed: prints the nanoseconds that one takes
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct space {
  char name[64];
};
static void (*allocate_data)(struct space, const char*, const void*, uint64_t);
static void (*deallocate_data)(struct space, const char*, const void*, uint64_t);
static void (*begin_deep_copy)(struct space, const char*, const void*, struct space, const char*, const void*,
                               uint64_t);
static void (*end_deep_copy)(void);

static int load_kokkos(void) {
  const char* const path = getenv("KOKKOS_TOOLS_LIBS");
  void* const library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (library == NULL) return 0;
  void (*const init)(int, uint64_t, uint32_t, void*) =
      (void (*)(int, uint64_t, uint32_t, void*))dlsym(library, "kokkosp_init_library");
  *(void**)&allocate_data = dlsym(library, "kokkosp_allocate_data");
  *(void**)&deallocate_data = dlsym(library, "kokkosp_deallocate_data");
  *(void**)&begin_deep_copy = dlsym(library, "kokkosp_begin_deep_copy");
  *(void**)&end_deep_copy = dlsym(library, "kokkosp_end_deep_copy");
  if (init == NULL || allocate_data == NULL || deallocate_data == NULL || begin_deep_copy == NULL) return 0;
  init(0, 20211015, 0, NULL);
  return 1;
}

static struct space named(const char* name) {
  struct space space;
  memset(&space, 0, sizeof space);
  strncpy(space.name, name, sizeof space.name - 1);
  return space;
}
static void make(const char* space, const char* label, uint64_t bytes) {
  allocate_data(named(space), label, &bytes, bytes);
}
static void drop(const char* space, const char* label, uint64_t bytes) {
  deallocate_data(named(space), label, &bytes, bytes);
}
static void copy(const char* to, const char* from, uint64_t bytes) {
  begin_deep_copy(named(to), "a", &bytes, named(from), "b", &bytes, bytes);
  end_deep_copy();
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void plan(uint64_t times) {
  const double begin = now();
  make("Host", "grid", 1000 * times);
  make("Host", "halo", 500 * times);
  usleep(300000);
  drop("Host", "grid", 1000 * times);
  const double before = now();
  make("Host", "flux", 1200 * times);  // the peak: 1700
  const double after = now();
  drop("Host", "flux", 1200 * times);
  drop("Host", "halo", 500 * times);
  make("Host", "halo", 600 * times);
  drop("Host", "halo", 600 * times);
  make("Host", "tail", 100 * times);
  make("Cuda", "work", 4096 * times);
  make("Cuda", "work", 4096 * times);  // the peak: 8192
  drop("Cuda", "work", 4096 * times);
  make("Cuda", "field", 2048 * times);
  drop("Cuda", "work", 4096 * times);
  for (int i = 0; i < 3; ++i) copy("Cuda", "Host", 1000 * times);
  copy("Host", "Cuda", 10 * times);
  usleep(300000);
  printf("{\"before_s\": %.6f, \"left_s\": %.6f}\n", before - begin, now() - after);
}

static void labels(void) {
  char text[600];
  make("Host", NULL, 1);
  make("Host", "", 2);
  make("Host", "not \xff\xfe UTF-8", 4);
  memset(text, 'x', sizeof text);
  text[500] = 0;
  make("Host", text, 8);
  text[119] = 0;  // as Kokkos keeps it
  drop("Host", text, 8);
  make("Host", text, 16);
  text[111] = 0;  // just fits
  make("Host", text, 32);
  for (int i = 0; i < 298; i += 2) memcpy(text + i, "\xc3\xa4", 2);
  text[299] = 0;
  memmove(text + 1, text, 298);
  text[0] = 'a';
  make("Host", text, 64);
  make("Host", "quoted \"<b>\"\n", 128);
}

enum { kMany = 1500, kSpaces = 20 };
static void many(void) {
  char name[32];
  for (int i = 0; i < kMany; ++i) {
    snprintf(name, sizeof name, "view %d", i);
    make("Host", name, (uint64_t)i + 1);
  }
  for (int i = 0; i < kMany; ++i) {
    if (i >= 100 && i < kMany - 100) continue;
    snprintf(name, sizeof name, "view %d", i);
    drop("Host", name, (uint64_t)i + 1);
  }
  for (int i = 0; i < kSpaces; ++i) {
    snprintf(name, sizeof name, "space %02d", i);
    make(name, "view 0", 1);
  }
}

enum { kRounds = 100000 };
static void* allocate_often(void* label) {
  for (int i = 0; i < kRounds; ++i) {
    make("Host", label, 16);
    make("Host", "of both", 32);
    drop("Host", label, 16);
    drop("Host", "of both", 32);
  }
  return NULL;
}
static void threads(void) {
  pthread_t one, two;
  pthread_create(&one, NULL, allocate_often, "of one");
  pthread_create(&two, NULL, allocate_often, "of two");
  pthread_join(one, NULL);
  pthread_join(two, NULL);
}

static int fork_once(void) {
  make("Host", "of parent", 1000);
  const pid_t child = fork();
  if (child == 0) {
    make("Host", "of child", 300);
    drop("Host", "of parent", 1000);
    exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  drop("Host", "of parent", 1000);
  return status;
}

static volatile int goes_on = 1;
static void* allocate_until_told(void* nothing) {
  while (goes_on) {
    make("Host", "of thread", 16);
    drop("Host", "of thread", 16);
  }
  return nothing;
}
static int forks(void) {
  pthread_t thread;
  int failed = 0;
  pthread_create(&thread, NULL, allocate_until_told, NULL);
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      make("Host", "of child", 64);
      exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    failed += status != 0;
  }
  goes_on = 0;
  pthread_join(thread, NULL);
  return failed;
}

static void pairs(long count) {
  const double begin = now();
  for (long i = 0; i < count; ++i) {
    make("Host", "a view", 1024);
    drop("Host", "a view", 1024);
  }
  printf("{\"pair_ns\": %.1f}\n", 1e9 * (now() - begin) / (double)count);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (!load_kokkos()) return 3;
  const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
  if (strcmp(argv[1], "plan") == 0) plan(rank != NULL ? (uint64_t)atoi(rank) + 1 : 1);
  if (strcmp(argv[1], "labels") == 0) labels();
  if (strcmp(argv[1], "many") == 0) many();
  if (strcmp(argv[1], "threads") == 0) threads();
  if (strcmp(argv[1], "fork") == 0) return fork_once() != 0;
  if (strcmp(argv[1], "forks") == 0) return forks() != 0;
  if (strcmp(argv[1], "pairs") == 0) pairs(argc > 2 ? atol(argv[2]) : 100000);
  return 0;
}
