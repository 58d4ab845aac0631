/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls through a procedure linkage table that is bound at the first call. */
#include <math.h>
#include <stdio.h>
#include <string.h>
double unwind_lazy_plugin_call(double value);
double unwind_lazy_plugin_call(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%g", value);
  return cos(value) + pow(value, 1.5) + (double)strlen(text);
}
