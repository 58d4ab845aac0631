// Stands for PETSc, LIKWID, Caliper and ROCTX, as far as programs mark parts of themselves with them: counts
// the calls that reach it.
#include <stdlib.h>

static int calls, stages, depth;

int calls_of_library(void) { return calls; }

int PetscLogStageRegister(const char* name, int* stage) {
  *stage = name != NULL ? ++stages : 0;
  return 0;
}
int PetscLogStagePush(int stage) {
  if (stage < 1 || stage > stages) return 63;
  ++calls, ++depth;
  return 0;
}
int PetscLogStagePop(void) {
  if (depth == 0) return 63;
  ++calls, --depth;
  return 0;
}
int likwid_markerStartRegion(const char* name) { return ++calls, name == NULL; }
int likwid_markerStopRegion(const char* name) { return ++calls, name == NULL; }
void cali_begin_region(const char* name) { calls += name != NULL; }
void cali_end_region(const char* name) { calls += name != NULL; }
int roctxRangePushA(const char* name) { return ++calls, name != NULL ? depth++ : -1; }
int roctxRangePop(void) { return ++calls, --depth; }
