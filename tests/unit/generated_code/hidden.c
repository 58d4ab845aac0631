/* SPDX-License-Identifier: BSD-3-Clause */
/* The list in which a compiler describes its code to debuggers, with one entry at most. */
#include <stddef.h>
#include <stdint.h>

struct entry {
  struct entry *next, *previous;
  const char* object;
  uint64_t object_bytes;
};

struct descriptor {
  uint32_t version, action;
  struct entry *relevant, *first;
};

#ifdef EXPORTED
__attribute__((visibility("default")))
#endif
struct descriptor __jit_debug_descriptor = {1, 0, NULL, NULL};

__attribute__((visibility("default"))) void describe_code(const char* object, uint64_t object_bytes);

void describe_code(const char* object, uint64_t object_bytes) {
  static struct entry only;
  only.object = object;
  only.object_bytes = object_bytes;
  __jit_debug_descriptor.action = 1;
  __jit_debug_descriptor.relevant = __jit_debug_descriptor.first = &only;
}
