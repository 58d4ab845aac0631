/* SPDX-License-Identifier: BSD-3-Clause */
/* include/clusterprof.h in C99. */
#include "include/clusterprof.h"

int main(void) {
  int64_t step;
  clusterprof_region_begin("outer");
  for (step = 0; step < 3; ++step) {
    clusterprof_region_begin_n("inner", step);
    clusterprof_pause();
    clusterprof_resume();
    clusterprof_region_end("inner");
  }
  clusterprof_region_end(0);
  return 0;
}
