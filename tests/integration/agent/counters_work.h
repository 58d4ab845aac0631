/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

struct figures {
  double faults, switches, cpu_ms;
};

void counted_work(void);
void take_figures(struct figures* now); /* of the calling thread since its start */
void print_figures(const struct figures* before);
void* counted_thread(void* unused);
void join_early_thread(void);
