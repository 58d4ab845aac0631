/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled several times: with call frame information, with that of -mstackrealign, and with none. */
#include <alloca.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef STEP_NAME
#define STEP_NAME step_mix
#endif
long STEP_NAME(long value);

#define APART __attribute__((noinline, noclone)) static

volatile long STEP_SINK;

APART long leaf(long value) { return value * 3 + 1; }

APART long many_values(const long* in) {
  long a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5], g = in[6], h = in[7];
  for (int i = 0; i < 2; ++i) {
    a += leaf(b), b ^= c, c += d * a, d -= e, e += f ^ b, f += g, g ^= h + c, h += a;
  }
  return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
}

APART long with_alloca(int bytes) {
  char* const room = alloca((size_t)bytes);
  memset(room, bytes, (size_t)bytes);
  const long result = leaf(room[bytes / 2]);
  return result + room[1];
}

/* Needs more alignment than the ABI gives, and is of unknown size. */
APART long realigned(int bytes, long a, long b, long c, long d, long e, long f, long g) {
  _Alignas(64) volatile char aligned[64];
  char* const room = alloca((size_t)bytes);
  aligned[bytes & 63] = (char)a;
  memset(room, 1, (size_t)bytes);
  const long values[8] = {a, b, c, d, e, f, g, aligned[3]};
  return many_values(values) + room[0] + g;
}

__attribute__((cold, noinline)) static void rarely(long value) { STEP_SINK += value; }

APART long with_cold_part(long value) {
  if (__builtin_expect(value > 5, 0)) {
    rarely(value);
    rarely(value + 1);
    STEP_SINK += leaf(value);
    if (value == 77) abort();
  }
  return leaf(value) + 1;
}

APART long tail(long value) {
  STEP_SINK += value;
  return leaf(value + 1);
}

APART long recurse(long depth) { return depth == 0 ? tail(1) : recurse(depth - 1) * 2 + leaf(depth); }

APART long big_frame(int at) {
  volatile char room[9000];
  for (int i = 0; i < 9000; i += 1000) room[i] = (char)i;
  return leaf(room[at * 1000]) + room[0];
}

static int compare(const void* left, const void* right) { return *(const int*)left - *(const int*)right; }

long STEP_NAME(long value) {
  const long in[8] = {value, 2, 3, 4, 5, 6, 7, 8};
  int numbers[] = {4, 1, 3};
  qsort(numbers, 3, sizeof(numbers[0]), compare);
  return many_values(in) + with_alloca(100) + realigned(50, 1, 2, 3, 4, 5, 6, 7) + with_cold_part(3) +
         with_cold_part(9) + tail(4) + recurse(6) + big_frame(3) + numbers[0];
}
