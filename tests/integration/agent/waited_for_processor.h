/* SPDX-License-Identifier: BSD-3-Clause */
/* How long the calling thread has been ready without a processor since its start, in milliseconds; 0 where the kernel
 * does not tell. What is late because others have the processor is not late because of the agent. */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline double waited_for_processor_ms(void) {
  char text[128];
  const int descriptor = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = descriptor < 0 ? -1 : read(descriptor, text, sizeof text - 1);
  if (descriptor >= 0) close(descriptor);
  if (bytes <= 0) return 0;
  text[bytes] = 0;
  const char* second = strchr(text, ' ');
  return second == NULL ? 0 : (double)strtoull(second, NULL, 10) * 1e-6;
}
