// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

// How long the calling thread has been ready without a processor; 0 where the kernel does not say.
static double without_processor(void) {
  char text[100];
  unsigned long long ran_ns = 0, waited_ns = 0;
  const int file = open("/proc/thread-self/schedstat", O_RDONLY);
  const ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[bytes > 0 ? bytes : 0] = '\0';
  return sscanf(text, "%llu %llu", &ran_ns, &waited_ns) == 2 ? 1e-9 * (double)waited_ns : 0;
}
