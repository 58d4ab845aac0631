// SPDX-License-Identifier: BSD-3-Clause
// Functions with unusual frames, for single_step_test.
#pragma once

#include <cstdint>

extern "C" {
// step_targets.c, and again as bare_* without any call frame information.
long step_mix(long value);
long bare_mix(long value);
// step_code.S
void step_cfa_in_rax(void);
void step_cfa_in_r11(void);
void step_cfa_expression(void);
void step_tail_calls(void);
void step_last_call(void (*does_not_return)(void*), void* data);
// A function that makes a frame without a frame pointer; made anew where the generated code goes.
extern const unsigned char step_generated_with_rbp[], step_generated_with_rbp_end[];
extern const unsigned char step_generated_without_rbp[], step_generated_without_rbp_end[];
extern const unsigned char step_trampoline[], step_trampoline_end[];
extern const unsigned char step_trampoline_rbp[], step_trampoline_rbp_end[];
}
