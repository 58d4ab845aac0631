/* SPDX-License-Identifier: BSD-3-Clause */
/* The list in which a compiler describes its code to debuggers, with one entry at most. */
#include <stddef.h>
#include <stdint.h>

#include "../../support/jit_list.h"

#ifdef EXPORTED
__attribute__((visibility("default")))
#endif
struct jit_descriptor __jit_debug_descriptor = {kJitVersion, 0, NULL, NULL};

__attribute__((visibility("default"))) void describe_code(const char* object, uint64_t object_bytes);

void describe_code(const char* object, uint64_t object_bytes) {
  static struct jit_code_entry only;
  only.object = object;
  only.object_bytes = object_bytes;
  __jit_debug_descriptor.first = NULL;
  jit_list_add(&__jit_debug_descriptor, &only);
}
