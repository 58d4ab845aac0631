/* SPDX-License-Identifier: BSD-3-Clause */
/* Has malloc in itself. */
#include <stddef.h>
#include <string.h>

static char g_heap[1 << 24] __attribute__((aligned(16)));
static size_t g_used;

void* malloc(size_t bytes) {
  const size_t at = __atomic_fetch_add(&g_used, (bytes + 31) / 16 * 16, __ATOMIC_RELAXED);
  return at + bytes + 16 > sizeof g_heap ? NULL : g_heap + at;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) { return malloc(count * size); }
void* realloc(void* block, size_t bytes) {
  char* const moved = malloc(bytes);
  if (moved != NULL && block != NULL) {
    const size_t room = (size_t)(g_heap + sizeof g_heap - (char*)block);
    memmove(moved, block, bytes < room ? bytes : room);
  }
  return moved;
}

int main(void) {
  for (int i = 0; i < 1000; ++i) {
    char* block = malloc(100);
    if (block == NULL || (block = realloc(block, 300)) == NULL) return 1;
    free(block);
  }
  return 0;
}
