// The shape of a hydrodynamics code (LULESH): in each step, loops over nodes and over elements in functions
// of their own, called from two phases. Prints as JSON how often each loop ran and how long it took by its
// own clock. The line of the region in each function is marked with the name of the function.
#include <stdio.h>
#include <time.h>

enum { kSteps = 40, kNodes = 64 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void spin(double seconds) {
  const double end = now() + seconds;
  while (now() < end) {
  }
}

static double forces_s, positions_s, volumes_s, step_s;
static volatile int nodal_phases, element_phases;  // what a phase does last, so that it calls no loop by a jump
static double position[kNodes];

__attribute__((noinline)) static void add_forces(int node) { spin(0.0001 * (1 + node % 4)); }

__attribute__((noinline)) static void calc_forces(void) {
  const double from = now();
#pragma omp parallel for /* line of calc_forces */
  for (int i = 0; i < kNodes; ++i) add_forces(i);
  forces_s += now() - from;
}

__attribute__((noinline)) static void move_nodes(void) {
  const double from = now();
#pragma omp parallel /* line of move_nodes */
  {
#pragma omp for nowait
    for (int i = 0; i < kNodes; ++i) position[i] += 1;
#pragma omp for
    for (int i = 0; i < kNodes; ++i) spin(0.00005);
  }
  positions_s += now() - from;
}

__attribute__((noinline)) static void calc_volumes(void) {
  const double from = now();
#pragma omp parallel for schedule(dynamic, 4) /* line of calc_volumes */
  for (int i = 0; i < kNodes; ++i) spin(0.00002 * (i % 8));
  volumes_s += now() - from;
}

__attribute__((noinline)) static double find_step(void) {
  double shortest = 1e9;
  const double from = now();
#pragma omp parallel for reduction(min : shortest) /* line of find_step */
  for (int i = 0; i < kNodes; ++i) {
    spin(0.00002);
    if (position[i] < shortest) shortest = position[i];
  }
  step_s += now() - from;
  return shortest;
}

__attribute__((noinline)) static void lagrange_nodal(void) {
  calc_forces();
  move_nodes();
  ++nodal_phases;
}

__attribute__((noinline)) static double lagrange_elements(void) {
  calc_volumes();
  const double shortest = find_step();
  ++element_phases;
  return shortest;
}

int main(void) {
  double total = 0;
  for (int step = 0; step < kSteps; ++step) {
    lagrange_nodal();
    total += lagrange_elements();
  }
  printf(
      "{\"count\": %d, \"calc_forces\": %.9f, \"move_nodes\": %.9f, \"calc_volumes\": %.9f, \"find_step\": "
      "%.9f, "
      "\"sum\": %.3f}\n",
      kSteps, forces_s, positions_s, volumes_s, step_s, total);
  return 0;
}
