/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls a function of libc, and takes the address of another. */
#include <unistd.h>

int slots_call(void);
void* slots_address(void);
int slots_own(void);

int slots_own(void) { return 5; }
int slots_call(void) { return getppid() + slots_own(); }
void* slots_address(void) { return (void*)&getpgrp; }
