/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames as hand-written assembly makes them. The first ones are described by call frame information that
 * goes through other registers than rsp and rbp, the ones to be copied elsewhere are not described at all. */
        .text

        .p2align 4
step_leaf:
        .cfi_startproc
        nop
        ret
        .cfi_endproc
        .size   step_leaf, . - step_leaf

/* As OpenSSL does: the CFA in a register that is not preserved, then found through the stack. */
        .p2align 4
        .globl  step_cfa_in_rax
        .type   step_cfa_in_rax, @function
step_cfa_in_rax:
        .cfi_startproc
        mov     %rsp, %rax
        .cfi_def_cfa_register %rax
        push    %rbx
        .cfi_offset %rbx, -16
        push    %rbp
        .cfi_offset %rbp, -24
        sub     $160, %rsp
        and     $-64, %rsp
        mov     %rax, 152(%rsp)
        .cfi_escape 0x0f, 0x06, 0x77, 0x98, 0x01, 0x06, 0x23, 0x08
        xor     %ebp, %ebp
        xor     %eax, %eax
        call    step_leaf
        nop
        mov     152(%rsp), %rsi
        .cfi_def_cfa %rsi, 8
        mov     -16(%rsi), %rbp
        .cfi_restore %rbp
        mov     -8(%rsi), %rbx
        .cfi_restore %rbx
        lea     (%rsi), %rsp
        .cfi_def_cfa_register %rsp
        ret
        .cfi_endproc
        .size   step_cfa_in_rax, . - step_cfa_in_rax

        .p2align 4
        .globl  step_cfa_in_r11
        .type   step_cfa_in_r11, @function
step_cfa_in_r11:
        .cfi_startproc
        lea     8(%rsp), %r11
        .cfi_def_cfa %r11, 0
        sub     $200, %rsp
        and     $-32, %rsp
        xor     %eax, %eax
        mov     %r11, %rcx
        .cfi_def_cfa_register %rcx
        xor     %r11d, %r11d
        lea     -8(%rcx), %rsp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   step_cfa_in_r11, . - step_cfa_in_r11

/* As GCC realigns a stack: the CFA is what the word below rbp says. */
        .p2align 4
        .globl  step_cfa_expression
        .type   step_cfa_expression, @function
step_cfa_expression:
        .cfi_startproc
        lea     8(%rsp), %r10
        .cfi_def_cfa %r10, 0
        and     $-64, %rsp
        push    -8(%r10)
        push    %rbp
        .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00
        mov     %rsp, %rbp
        push    %r10
        .cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06
        sub     $72, %rsp
        xor     %r10d, %r10d
        call    step_leaf
        mov     -8(%rbp), %r10
        .cfi_def_cfa %r10, 0
        leave
        lea     -8(%r10), %rsp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   step_cfa_expression, . - step_cfa_expression

        .p2align 4
step_tail:
        .cfi_startproc
        push    %rbx
        .cfi_def_cfa_offset 16
        nop
        pop     %rbx
        .cfi_def_cfa_offset 8
        jmp     step_leaf
        .cfi_endproc
        .size   step_tail, . - step_tail

        .p2align 4
        .globl  step_tail_calls
        .type   step_tail_calls, @function
step_tail_calls:
        .cfi_startproc
        sub     $8, %rsp
        .cfi_def_cfa_offset 16
        call    step_tail
        add     $8, %rsp
        .cfi_def_cfa_offset 8
        jmp     step_tail
        .cfi_endproc
        .size   step_tail_calls, . - step_tail_calls

/* The return address is the first byte of another function, with another frame. */
        .globl  step_last_call
        .type   step_last_call, @function
step_last_call:
        .cfi_startproc
        sub     $24, %rsp
        .cfi_def_cfa_offset 32
        mov     %rdi, %rax
        mov     %rsi, %rdi
        call    *%rax
        .cfi_endproc
        .size   step_last_call, . - step_last_call
step_after_last_call:
        .cfi_startproc
        ret
        .cfi_endproc
        .size   step_after_last_call, . - step_after_last_call

/* To be copied: rdi is called back with rsi. */
        .p2align 4
        .globl  step_generated_with_rbp, step_generated_with_rbp_end
step_generated_with_rbp:
        push    %rbp
        mov     %rsp, %rbp
        push    %rbx
        sub     $40, %rsp
        movq    $0, (%rsp)
        mov     %rdi, %rbx
        mov     %rsi, %rdi
        call    *%rbx
        xor     %eax, %eax
        mov     -8(%rbp), %rbx
        leave
        ret
step_generated_with_rbp_end:

        .p2align 4
        .globl  step_generated_without_rbp, step_generated_without_rbp_end
step_generated_without_rbp:
        push    %rbx
        sub     $48, %rsp
        movq    $0, (%rsp)
        mov     %rdi, %rbx
        mov     %rsi, %rdi
        call    *%rbx
        add     $48, %rsp
        pop     %rbx
        ret
step_generated_without_rbp_end:

/* CPython's perf trampolines, Python/asm_trampoline.S: 3.12 without frame pointers, 3.13 with. */
        .p2align 4
        .globl  step_trampoline, step_trampoline_end
step_trampoline:
        sub     $8, %rsp
        call    *%rcx
        add     $8, %rsp
        ret
step_trampoline_end:

        .p2align 4
        .globl  step_trampoline_rbp, step_trampoline_rbp_end
step_trampoline_rbp:
        push    %rbp
        mov     %rsp, %rbp
        call    *%rcx
        pop     %rbp
        ret
step_trampoline_rbp_end:
        .section .note.GNU-stack, "", @progbits
