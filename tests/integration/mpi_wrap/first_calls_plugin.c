// SPDX-License-Identifier: BSD-3-Clause
// Loaded by first_calls.c.
extern void plugin_is_loaded(void) __attribute__((weak));

__attribute__((constructor)) static void loaded(void) { plugin_is_loaded(); }
