/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions without call frame information, as hand-written kernels are. Each calls or runs something at a
 * known place: no_cfi_<kind>(callback) with the callback in rdi. */
        .text

        .p2align 4
        .globl  no_cfi_frame_pointer
        .type   no_cfi_frame_pointer, @function
no_cfi_frame_pointer:
        push    %rbp
        mov     %rsp, %rbp
        sub     $64, %rsp
        movq    $0, (%rsp)
        call    *%rdi
        xor     %eax, %eax
        leave
        ret
        .size   no_cfi_frame_pointer, . - no_cfi_frame_pointer

        .p2align 4
        .globl  no_cfi_epilogue
        .type   no_cfi_epilogue, @function
no_cfi_epilogue:                        /* like the trampolines of python -X perf */
        sub     $8, %rsp
        call    *%rdi
        add     $8, %rsp
        ret
        .size   no_cfi_epilogue, . - no_cfi_epilogue

        .p2align 4
        .globl  no_cfi_leaf
        .type   no_cfi_leaf, @function
no_cfi_leaf:                            /* spins rdi times; nothing on the stack */
        dec     %rdi
        jnz     no_cfi_leaf
        ret
        .size   no_cfi_leaf, . - no_cfi_leaf

        .p2align 4
        .globl  no_cfi_kernel
        .type   no_cfi_kernel, @function
no_cfi_kernel:                          /* saves below rsp, realigns, keeps rsp in rbx, uses rbp */
        sub     $96, %rsp
        mov     %rbx, (%rsp)
        mov     %rbp, 8(%rsp)
        mov     %r12, 16(%rsp)
        vzeroupper
        mov     %rsp, %rbx
        sub     $8320, %rsp
        and     $-4096, %rsp
        movq    $0, (%rsp)
        mov     %rdi, %rbp
1:      dec     %rbp
        jnz     1b
        mov     %rbx, %rsp
        mov     (%rsp), %rbx
        mov     8(%rsp), %rbp
        mov     16(%rsp), %r12
        add     $96, %rsp
        ret
        .size   no_cfi_kernel, . - no_cfi_kernel

        .p2align 4
        .globl  no_cfi_pushes
        .type   no_cfi_pushes, @function
no_cfi_pushes:
        push    %rbp
        push    %rbx
        push    %r12
        push    %r13
        sub     $40, %rsp
        movq    $0, (%rsp)
        mov     %rdi, %rbp
1:      dec     %rbp
        jnz     1b
        add     $40, %rsp
        pop     %r13
        pop     %r12
        pop     %rbx
        pop     %rbp
        ret
        .size   no_cfi_pushes, . - no_cfi_pushes
        .section .note.GNU-stack, "", @progbits
