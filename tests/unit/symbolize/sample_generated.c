// SPDX-License-Identifier: BSD-3-Clause
// Described to generated_object_test.cpp as a compiler describes what it has made. It finds lines by their
// comments.
int generated_sum(const int* values, int count);
int generated_other(int value);

static inline __attribute__((always_inline)) int square(int value) {
  return value * value + value / 7;  // line of square
}

int generated_sum(const int* values, int count) {  // line of sum
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += square(values[i]);  // line of call
  return sum;
}

int generated_other(int value) { return value ^ 5; }  // line of other
