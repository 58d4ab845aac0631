/* SPDX-License-Identifier: BSD-3-Clause */
/* The list in which a compiler describes its code to debuggers, as GDB's manual has it. Whoever includes this
   defines __jit_debug_descriptor. C and C++. */
#ifndef CLUSTERPROF_TESTS_SUPPORT_JIT_LIST_H
#define CLUSTERPROF_TESTS_SUPPORT_JIT_LIST_H

#include <stdint.h>

struct jit_code_entry {
  struct jit_code_entry *next, *previous;
  const char* object;
  uint64_t object_bytes;
};

enum { kJitVersion = 1, kJitRegister = 1, kJitUnregister = 2 };

struct jit_descriptor {
  uint32_t version, action;
  struct jit_code_entry *relevant, *first;
};

/* As LLVM does: the newest comes first. */
static inline void jit_list_add(struct jit_descriptor* list, struct jit_code_entry* entry) {
  entry->next = list->first;
  entry->previous = 0;
  if (list->first != 0) list->first->previous = entry;
  list->first = list->relevant = entry;
  list->action = kJitRegister;
}

static inline void jit_list_remove(struct jit_descriptor* list, struct jit_code_entry* entry) {
  if (entry->next != 0) entry->next->previous = entry->previous;
  if (entry->previous != 0) {
    entry->previous->next = entry->next;
  } else {
    list->first = entry->next;
  }
  list->relevant = entry;
  list->action = kJitUnregister;
}

#endif
