// SPDX-License-Identifier: BSD-3-Clause
// Probes for MPI with a weak reference, as libraries that can do without it do, and calls it
// although it is not there.
#include <stdio.h>

extern int MPI_Initialized(int*) __attribute__((weak));
extern int MPI_Init(int*, char***) __attribute__((weak));

int main(int argc, char** argv) {
  int initialised = 0;
  if (MPI_Initialized != NULL) MPI_Initialized(&initialised);
  if (initialised) return 1;
  if (MPI_Init != NULL && MPI_Init(&argc, &argv) == 0) return 1;
  puts("no library done");
  return 0;
}
