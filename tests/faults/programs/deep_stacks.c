// SPDX-License-Identifier: BSD-3-Clause
// Makes stacks that are expensive to walk, all the time: they are deep, never the same twice, and of a
// function whose frames take long to interpret. Takes as many steps as the command line says, and prints
// their sum.
//
//   deep_stacks STEPS LOWEST HIGHEST     at the bottom of every step the stack has so many frames or more
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t at_the_bottom(uint64_t value);
uint64_t on_the_flat(uint64_t value);
uint64_t down(uint64_t depth, uint64_t value);

// Calls itself `depth` times. What the debugging information says of the stack there is an expression behind
// hundreds of instructions, as it is in large functions of optimised programs: nobody can keep it for the
// next time in a word.
__asm__(
    ".text\n"
    ".globl down\n"
    ".type down, @function\n"
    "down:\n"
    "  .cfi_startproc\n"
    "  push %rbx\n"
    "  .cfi_def_cfa_offset 16\n"
    "  .cfi_offset %rbx, -16\n"
    "  mov %rdi, %rbx\n"
    "  jmp 2f\n"
    "  .rept 100\n"
    "  nop\n"
    "  .cfi_remember_state\n"
    "  .cfi_def_cfa_offset 24\n"
    "  nop\n"
    "  .cfi_restore_state\n"
    "  .endr\n"
    "2:\n"
    "  .cfi_escape 0x0f, 2, 0x77, 16\n"  // CFA = rsp + 16
    "  test %rdi, %rdi\n"
    "  je 1f\n"
    "  lea -1(%rdi), %rdi\n"
    "  call down\n"
    "  add %rbx, %rax\n"
    "  jmp 3f\n"
    "1:\n"
    "  mov %rsi, %rdi\n"
    "  call at_the_bottom\n"
    "3:\n"
    "  pop %rbx\n"
    "  .cfi_def_cfa %rsp, 8\n"
    "  ret\n"
    "  .cfi_endproc\n"
    "  .size down, . - down\n");

static uint64_t work(uint64_t value) {
  for (int i = 0; i < 20000; ++i) value = value * 6364136223846793005u + 1442695040888963407u;
  return value >> 32;
}

__attribute__((noinline)) uint64_t at_the_bottom(uint64_t value) { return work(value) + 1; }

__attribute__((noinline)) uint64_t on_the_flat(uint64_t value) { return work(value) + 2; }

enum { kStepsOfPhase = 2000 };

static long g_steps, g_lowest, g_highest;

struct Walker {
  uint64_t sum;
  double in_phase_s[2];
};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void* take_steps(void* given) {
  struct Walker* const walker = given;
  double begin = seconds();
  for (long step = 0; step < g_steps; ++step) {
    const int phase = (int)(step / kStepsOfPhase % 2);
    const long depth = g_lowest + step * 7919 % (g_highest - g_lowest);
    walker->sum += phase == 0 ? down((uint64_t)depth, (uint64_t)step) : on_the_flat((uint64_t)step);
    if (step % kStepsOfPhase != kStepsOfPhase - 1) continue;
    const double end = seconds();
    walker->in_phase_s[phase] += end - begin;
    begin = end;
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  g_steps = atol(argv[1]), g_lowest = atol(argv[2]), g_highest = atol(argv[3]);
  if (g_steps < 1 || g_lowest < 1 || g_highest <= g_lowest || g_highest > 50000) return 2;
  struct Walker of_main = {0}, of_thread = {0};
  pthread_t thread;
  if (pthread_create(&thread, NULL, take_steps, &of_thread) != 0) return 3;
  take_steps(&of_main);
  pthread_join(thread, NULL);
  printf("%ld steps: %" PRIu64 " %s\n", g_steps, of_main.sum,
         of_main.sum == of_thread.sum ? "twice" : "WRONG");
  FILE* const file = argc > 4 ? fopen(argv[4], "w") : NULL;
  if (file != NULL) {
    fprintf(file, "%.6f %.6f\n", of_main.in_phase_s[0] + of_thread.in_phase_s[0],
            of_main.in_phase_s[1] + of_thread.in_phase_s[1]);
    fclose(file);
  }
  return 0;
}
