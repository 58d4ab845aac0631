/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

int work(void) {
  for (int i = 0; i < 1000; ++i) {
    char* volatile block = malloc(10000);
    if (block == NULL) return 1;
    memset(block, 1, 10000);
    free(block);
  }
  return 0;
}
