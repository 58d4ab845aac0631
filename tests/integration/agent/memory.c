/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocates in functions of its own, and tells on stdout what each has allocated, one to a line: "expect",
 * the function, the addresses between which its code is, the domain, bytes allocated, of them live, calls,
 * bytes copied. -1: not told. Calls are not told where blocks are too large for the sampling interval to
 * count well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#define OWN __attribute__((noinline, noclone))
#define MIB (1024L * 1024)

/* With -fno-toplevel-reorder each function ends where the next one begins. */
#define EXPECT(function, next, domain, allocated, live, calls, copied)                   \
  printf("expect %s %lu %lu %s %ld %ld %ld %ld\n", #function, (unsigned long)(function), \
         (unsigned long)(next), domain, (long)(allocated), (long)(live), (long)(calls), (long)(copied))

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  _exit(1);
}

static void* g_kept[400000];
static long g_kept_count;
static void keep(void* block) {
  check(block != NULL, "no memory");
  g_kept[g_kept_count++] = block;
}

/* --- heap --- */

static OWN void small_kept(void) {
  for (int i = 0; i < 200000; ++i) keep(malloc(100));
  __asm__ volatile("");
}
static OWN void small_freed(void) {
  for (int i = 0; i < 300000; ++i) free(malloc(100));
  __asm__ volatile("");
}
static OWN void large_kept(void) {
  for (int i = 0; i < 10; ++i) keep(malloc(MIB));
  __asm__ volatile("");
}
static OWN void zeroed_half_kept(void) {
  for (int i = 0; i < 200; ++i) {
    char* block = calloc(1024, 64);
    check(block[65535] == 0, "not zeroed");
    if (i % 2 == 0)
      keep(block);
    else
      free(block);
  }
}
/* Each step is an allocation; what lives is the last. */
static OWN void grown(void) {
  char* block = NULL;
  for (long bytes = MIB; bytes <= 8 * MIB; bytes += MIB) {
    block = realloc(block, (size_t)bytes);
    block[bytes - 1] = 1;
  }
  keep(block);
}
static OWN void aligned(void) {
  for (int i = 0; i < 8; ++i) {
    void* block = NULL;
    check(posix_memalign(&block, 4096, MIB) == 0 && (uintptr_t)block % 4096 == 0, "posix_memalign");
    keep(block);
    keep(aligned_alloc(64, MIB));
    keep(memalign(128, MIB));
  }
}
static OWN void duplicated(void) {
  static char text[20001];
  memset(text, 'x', sizeof text - 1);
  for (int i = 0; i < 500; ++i) keep(strdup(text));
}
static OWN void of_arrays(void) { keep(reallocarray(NULL, 1024, 2048)); }
static OWN void behind_heap(void) { __asm__ volatile("nop"); }

static void heap(void) {
  small_kept();
  small_freed();
  large_kept();
  zeroed_half_kept();
  grown();
  aligned();
  duplicated();
  of_arrays();
  behind_heap();
  EXPECT(small_kept, small_freed, "native", 200000L * 100, 200000L * 100, 200000, 0);
  EXPECT(small_freed, large_kept, "native", 300000L * 100, 0, 300000, 0);
  EXPECT(large_kept, zeroed_half_kept, "native", 10 * MIB, 10 * MIB, 10, 0);
  EXPECT(zeroed_half_kept, grown, "native", 200L * 65536, 100L * 65536, -1, 0);
  /* Some allocators call memcpy for it, which is a copy on that line; libc's copies by itself. */
  EXPECT(grown, aligned, "native", 36 * MIB, 8 * MIB, 8, -1);
  EXPECT(aligned, duplicated, "native", 24 * MIB, 24 * MIB, 24, 0);
  EXPECT(duplicated, of_arrays, "native", 500L * 20001, 500L * 20001, 500, -1);
  EXPECT(of_arrays, behind_heap, "native", 2 * MIB, 2 * MIB, 1, 0);
}

/* --- what programs may rely on --- */

static sigjmp_buf g_out;
static volatile sig_atomic_t g_signals;
static void on_alarm(int signal) {
  (void)signal;
  free(malloc(64)); /* not allowed by POSIX, and done */
  if (++g_signals % 16 == 0) siglongjmp(g_out, 1);
}

static pthread_key_t g_key;
static void at_thread_end(void* block) {
  free(block);
  free(malloc(3000));
}

static void* churn(void* given) {
  unsigned seed = (unsigned)(uintptr_t)given;
  void* blocks[256] = {0};
  pthread_setspecific(g_key, malloc(5000));
  for (int i = 0; i < 60000; ++i) {
    const unsigned place = (unsigned)rand_r(&seed) % 256, bytes = (unsigned)rand_r(&seed) % 3000;
    if (i % 7 == 0) {
      blocks[place] = realloc(blocks[place], bytes + 1);
    } else {
      free(blocks[place]);
      blocks[place] = malloc(bytes);
      if (bytes != 0) memset(blocks[place], (int)place, bytes);
    }
  }
  for (int i = 0; i < 256; ++i) free(blocks[i]);
  return NULL;
}

static OWN void* made_by_thread(void* given) {
  (void)given;
  return malloc(MIB);
}

static void run_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    void* block = malloc(2 * MIB);
    check(block != NULL, "child");
    memset(block, 1, 2 * MIB);
    for (int i = 0; i < 2000; ++i) free(g_kept[i]); /* of the parent's */
    _exit(0);
  }
  int status = -1;
  check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "child");
}

static void* g_of_exit;
static void at_program_end(void) { free(g_of_exit); }

static void semantics(void) {
  errno = 77;
  free(NULL);
  void* none = malloc(0);
  free(none);
  for (int i = 0; i < 10000; ++i) {
    void* block = malloc((size_t)i);
    check((uintptr_t)block % 16 == 0 && malloc_usable_size(block) >= (size_t)i, "alignment");
    free(block);
  }
  check(errno == 77, "errno");
  volatile size_t huge = SIZE_MAX / 2;
  errno = 0;
  check(calloc(huge, 4) == NULL && errno == ENOMEM, "overflow of calloc");
  errno = 0;
  check(reallocarray(NULL, huge, 4) == NULL && errno == ENOMEM, "overflow of reallocarray");
  errno = 0;
  check(malloc(huge) == NULL && errno == ENOMEM, "more than there is");
  char other = 0;
  void* unchanged = &other;
  errno = 5;
  check(posix_memalign(&unchanged, 3, 8) == EINVAL && unchanged == &other && errno == 5, "EINVAL");
  char* text = malloc(100);
  strcpy(text, "kept");
  check(realloc(text, huge) == NULL && strcmp(text, "kept") == 0, "failed realloc");
  for (size_t bytes = 101; bytes < 100000; bytes += 997) {
    text = realloc(text, bytes);
    check(text != NULL && strcmp(text, "kept") == 0, "realloc");
  }
  text = realloc(text, 10);
  check(strcmp(text, "kept") == 0, "shrinking realloc");
  free(text);
  check((uintptr_t)valloc(10) % 4096 == 0 && (uintptr_t)pvalloc(10) % 4096 == 0, "pages");
  /* All exceptions of arithmetic end the program, and none is raised. */
  const unsigned control = _mm_getcsr();
  _mm_setcsr(0);
  for (int i = 0; i < 4000; ++i) free(malloc(500));
  const unsigned raised = _mm_getcsr();
  _mm_setcsr(control);
  check(raised == 0, "arithmetic");
  char overlapping[64] = "0123456789";
  memmove(overlapping + 3, overlapping, 10);
  check(memcmp(overlapping + 3, "0123456789", 10) == 0, "memmove");

  small_kept();
  pthread_key_create(&g_key, at_thread_end);
  pthread_t threads[4];
  for (long i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, churn, (void*)(i + 1));
  for (int i = 0; i < 8; ++i) run_child();
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  pthread_create(&threads[0], NULL, made_by_thread, NULL);
  void* made = NULL;
  pthread_join(threads[0], &made);
  free(made);

  signal(SIGALRM, on_alarm);
  const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  sigsetjmp(g_out, 1);
  setitimer(ITIMER_REAL, &often, NULL);
  /* malloc itself does not survive a jump out of it: only its callers may be left. */
  while (g_signals < 200) {
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    free(malloc(700));
    sigprocmask(SIG_SETMASK, &before, NULL);
  }
  setitimer(ITIMER_REAL, &never, NULL);

  g_of_exit = malloc(5 * MIB);
  atexit(at_program_end);
  printf("good 1\n");
}

/* --- memory from the kernel --- */

static OWN void mapped(void) {
  char* memory = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "mmap");
  check(munmap(memory + 4 * MIB, 8 * MIB) == 0, "munmap of a part");
  check(munmap(memory + 14 * MIB, MIB) == 0, "munmap of another");
}
static OWN void moved(void) {
  char* memory = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "mmap");
  memory = mremap(memory, 2 * MIB, 6 * MIB, MREMAP_MAYMOVE);
  check(memory != MAP_FAILED, "mremap");
  /* Fails, and changes nothing. */
  check(mremap(memory, 6 * MIB, (size_t)1 << 62, MREMAP_MAYMOVE) == MAP_FAILED, "mremap of too much");
}
static OWN void reserved(void) {
  check(mmap(NULL, 512 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "reserve");
  check(mmap(NULL, 512 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) !=
            MAP_FAILED,
        "reserve");
}
static const char* g_file_domain = "file";
static OWN void of_a_file(void) {
  char name[] = "/var/tmp/clusterprof-memory-XXXXXX";
  const int file = mkstemp(name);
  check(file >= 0 && unlink(name) == 0 && ftruncate(file, 3 * MIB) == 0, "file");
  struct statfs status;
  if (fstatfs(file, &status) == 0 && status.f_type == TMPFS_MAGIC) g_file_domain = "mmap";
  void* memory = mmap(NULL, 2 * MIB, PROT_READ, MAP_SHARED, file, 0);
  check(memory != MAP_FAILED, "mmap of a file");
  check(mremap(memory, 2 * MIB, 3 * MIB, MREMAP_MAYMOVE) != MAP_FAILED, "mremap of a file");
}
static OWN void shared(void) {
  const int file = memfd_create("test", 0);
  check(file >= 0 && ftruncate(file, 5 * MIB) == 0, "memfd");
  check(mmap(NULL, 5 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) != MAP_FAILED, "mmap of memory");
}
static OWN void attached(void) {
  const int segment = shmget(IPC_PRIVATE, 7 * MIB, IPC_CREAT | 0600);
  check(segment >= 0, "shmget");
  void* first = shmat(segment, NULL, 0);
  void* second = shmat(segment, NULL, 0);
  check(first != (void*)-1 && second != (void*)-1 && shmctl(segment, IPC_RMID, NULL) == 0, "shmat");
  check(shmdt(second) == 0, "shmdt");
}
static OWN void extended(void) {
  check(sbrk(3 * MIB) != (void*)-1, "sbrk");
  check(sbrk(-2 * MIB) != (void*)-1, "sbrk back");
}
static OWN void behind_mappings(void) { __asm__ volatile("nop"); }

static void mappings(void) {
  mapped();
  moved();
  reserved();
  of_a_file();
  shared();
  attached();
  extended();
  behind_mappings();
  EXPECT(mapped, moved, "mmap", 16 * MIB, 7 * MIB, 1, 0);
  EXPECT(moved, reserved, "mmap", 8 * MIB, 6 * MIB, 2, 0);
  EXPECT(reserved, of_a_file, "mmap", 0, 0, 0, 0);
  EXPECT(of_a_file, shared, g_file_domain, 5 * MIB, 3 * MIB, 2, 0);
  EXPECT(shared, attached, "mmap", 5 * MIB, 5 * MIB, 1, 0);
  EXPECT(attached, extended, "mmap", 14 * MIB, 7 * MIB, 2, 0);
  EXPECT(extended, behind_mappings, "mmap", 3 * MIB, MIB, 1, 0);
}

/* --- copies --- */

static char g_from[MIB], g_to[MIB];
static volatile size_t g_bytes;

static OWN void many_copied(void) {
  g_bytes = 1000;
  for (int i = 0; i < 400000; ++i) memcpy(g_to, g_from, g_bytes);
  __asm__ volatile("");
}
static OWN void large_moved(void) {
  g_bytes = MIB - 1;
  for (int i = 0; i < 50; ++i) memmove(g_from + 1, g_from, g_bytes);
  __asm__ volatile("");
}
static OWN void behind_copies(void) { __asm__ volatile("nop"); }

static void copies(void) {
  many_copied();
  large_moved();
  behind_copies();
  EXPECT(many_copied, large_moved, "native", 0, 0, -1, 400000L * 1000);
  EXPECT(large_moved, behind_copies, "native", 0, 0, -1, 50L * (MIB - 1));
}

/* --- more than there is room for --- */

enum { kDepth = 13, kManyMappings = 1200, kMapped = 65536 };

static OWN void left(unsigned ways, int depth);
static OWN void right(unsigned ways, int depth);
static inline __attribute__((always_inline)) void go(unsigned ways, int depth) {
  if (depth == 0)
    free(malloc(MIB));
  else if (ways % 2 == 0)
    left(ways / 2, depth - 1);
  else
    right(ways / 2, depth - 1);
  __asm__ volatile("");
}
static OWN void left(unsigned ways, int depth) { go(ways, depth); }
static OWN void right(unsigned ways, int depth) { go(ways, depth); }
static OWN void mapped_often(void) {
  for (int i = 0; i < kManyMappings; ++i)
    check(mmap(NULL, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED,
          "mmap");
}
static OWN void behind_many(void) { __asm__ volatile("nop"); }

static void many(void) {
  mapped_often(); /* its call path has a place, since it comes first */
  behind_many();
  for (unsigned ways = 0; ways < 1u << kDepth; ++ways) go(ways, kDepth);
  printf("many %lu %lu\n", (unsigned long)mapped_often, (unsigned long)behind_many);
}

int main(int count, char** arguments) {
  setvbuf(stdout, NULL, _IOLBF, 4096);
  const char* what = count > 1 ? arguments[1] : "";
  if (strcmp(what, "heap") == 0 || strcmp(what, "killed") == 0) heap();
  if (strcmp(what, "semantics") == 0) semantics();
  if (strcmp(what, "mappings") == 0) mappings();
  if (strcmp(what, "copies") == 0) copies();
  if (strcmp(what, "many") == 0) many();
  if (strcmp(what, "killed") == 0) {
    fflush(stdout);
    raise(SIGKILL);
  }
  return 0;
}
