/* SPDX-License-Identifier: BSD-3-Clause */
/* A plugin with an allocator in it, as jemalloc with its prefix. Blocks know whose they are: another copy's, or
 * one of malloc's, ends the program. The allocator's functions call each other by their names.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define OWN __attribute__((noinline, noclone))
#define CHUNK (1L << 20)

/* Of two plugins, one has its functions at other places. */
#ifdef FAR
OWN __attribute__((used)) void far(void) { __asm__ volatile(".fill 20000, 1, 0x90"); }
#endif

struct Head {
  const void* owner;
  size_t bytes;
};
static char* g_next;
static size_t g_left;

static void* new_block(size_t bytes) {
  const size_t room = (bytes + sizeof(struct Head) + 15) / 16 * 16;
  if (room > g_left) {
    g_next = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g_next == MAP_FAILED) abort();
    g_left = CHUNK;
  }
  struct Head* const head = (struct Head*)g_next;
  g_next += room;
  g_left -= room;
  head->owner = &g_next;
  head->bytes = bytes;
  return head + 1;
}
static struct Head* head_of(void* block) {
  struct Head* const head = (struct Head*)block - 1;
  if (head->owner != &g_next) {
    fprintf(stderr, "a block of another allocator\n");
    abort();
  }
  return head;
}

void* je_malloc(size_t bytes) { return new_block(bytes); }
void je_free(void* block) {
  if (block != NULL) head_of(block)->owner = NULL;
}
int je_posix_memalign(void** to, size_t alignment, size_t bytes) {
  if (alignment > 16) return EINVAL;
  *to = je_malloc(bytes);
  return *to != NULL ? 0 : ENOMEM;
}
void* je_realloc(void* block, size_t bytes) {
  char* const moved = je_malloc(bytes);
  const size_t had = head_of(block)->bytes;
  memcpy(moved, block, had < bytes ? had : bytes);
  je_free(block);
  return moved;
}

/* The loader's lock is held, and another thread has to get on. */
static void* at_load(void* unused) {
  je_free(je_malloc(10));
  return unused;
}
__attribute__((constructor)) static void load(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, at_load, NULL) != 0 || pthread_join(thread, NULL) != 0) abort();
}
__attribute__((destructor)) static void unload(void) { load(); }

static void* g_kept[10000];
static long g_kept_count;

static OWN void kept(void) {
  for (int i = 0; i < 2000; ++i) g_kept[g_kept_count++] = je_malloc(1000);
}
static OWN void placed(void) {
  for (int i = 0; i < 2000; ++i)
    if (je_posix_memalign(&g_kept[g_kept_count++], 16, 1000) != 0) abort();
}
static OWN void changed(void) {
  for (int i = 0; i < 500; ++i) {
    void* volatile block = je_malloc(1000);
    g_kept[g_kept_count++] = je_realloc(block, 3000);
  }
}
static OWN void freed(void) {
  for (int i = 0; i < 4000; ++i) {
    void* volatile block = je_malloc(1000);
    je_free(block);
  }
}
static OWN void behind(void) { __asm__ volatile("nop"); }

#define EXPECT(function, next, allocated, live, calls)                                              \
  printf("expect %s %lu %lu native %ld %ld %ld -1\n", #function, (unsigned long)(function),         \
         (unsigned long)(next), (long)(allocated), (long)(live), (long)(calls))

void work(void) {
  kept();
  placed();
  changed();
  freed();
  behind();
  EXPECT(kept, placed, 2000000, 2000000, 2000);
  EXPECT(placed, changed, 2000000, 2000000, 2000);
  EXPECT(changed, freed, 2000000, 1500000, 1000);
  EXPECT(freed, behind, 4000000, 0, 4000);
}

/* The jump of one leaves its caller as the one that calls the allocator. */
void* grab(size_t bytes) { return je_malloc(bytes); }
static volatile long g_given;
void give_back(void* block) {
  je_free(block);
  ++g_given;
}
static void* volatile g_last;
void* make(size_t bytes) {
  g_last = je_malloc(bytes);
  return g_last;
}
