// SPDX-License-Identifier: BSD-3-Clause
// The program's signal handlers return to this function, instead of libc's function that does the same. It
// marks the EINTR that a handler's signal has caused: if one of our signals comes before the thread
// continues, that EINTR would look like ours (interrupted_call.cpp). The mark is in rcx, where `syscall`
// leaves its return address and which nobody reads. The function also counts the handlers that have returned,
// for lifecycle/transfers.cpp. If that continues a transfer and a handler asks for calls to be restarted, the
// call ends all the same: the kernel would have seen a single call that had transferred something.
#include <cstddef>

#include "agent/sigsafe/thread_context.h"

static_assert(offsetof(clusterprof::agent::ThreadContext, transfer.program_handlers) == 0);
static_assert(offsetof(clusterprof::agent::ThreadContext, transfer.continued_frame) == 8);
static_assert(offsetof(clusterprof::agent::ThreadContext, transfer.continued_number) == 16);

// At entry the stack pointer points to the ucontext_t of the interrupted code, and every register is about to
// be replaced. The frame information says where each register is saved there (DW_CFA_def_cfa_expression,
// DW_CFA_expression). It begins before the label, since unwinders look up the byte before a return address.
asm(R"(
        .pushsection .text
        .balign 16
        .cfi_startproc simple
        .cfi_signal_frame
        .cfi_escape 0x0f, 4, 0x77, 0xa0, 0x1, 0x06
        .cfi_escape 0x10, 0, 3, 0x77, 0x90, 0x1  # rax
        .cfi_escape 0x10, 1, 3, 0x77, 0x88, 0x1  # rdx
        .cfi_escape 0x10, 2, 3, 0x77, 0x98, 0x1  # rcx
        .cfi_escape 0x10, 3, 3, 0x77, 0x80, 0x1  # rbx
        .cfi_escape 0x10, 4, 3, 0x77, 0xf0, 0x0  # rsi
        .cfi_escape 0x10, 5, 3, 0x77, 0xe8, 0x0  # rdi
        .cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0x0  # rbp
        .cfi_escape 0x10, 7, 3, 0x77, 0xa0, 0x1  # rsp
        .cfi_escape 0x10, 8, 2, 0x77, 0x28  # r8
        .cfi_escape 0x10, 9, 2, 0x77, 0x30  # r9
        .cfi_escape 0x10, 10, 2, 0x77, 0x38  # r10
        .cfi_escape 0x10, 11, 3, 0x77, 0xc0, 0x0  # r11
        .cfi_escape 0x10, 12, 3, 0x77, 0xc8, 0x0  # r12
        .cfi_escape 0x10, 13, 3, 0x77, 0xd0, 0x0  # r13
        .cfi_escape 0x10, 14, 3, 0x77, 0xd8, 0x0  # r14
        .cfi_escape 0x10, 15, 3, 0x77, 0xe0, 0x0  # r15
        .cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x1  # rip
        nop
        .globl  clusterprof_signal_return
        .hidden clusterprof_signal_return
        .type   clusterprof_signal_return, @function
clusterprof_signal_return:
        mov     _ZN11clusterprof5agent9t_contextE@gottpoff(%rip), %rdx
        incl    %fs:(%rdx)              # transfer.program_handlers
        mov     %fs:8(%rdx), %rcx       # .continued_frame
        test    %rcx, %rcx
        je      2f
        sub     160(%rsp), %rcx         # rsp
        cmp     $1024, %rcx
        jae     2f
        mov     %fs:16(%rdx), %rcx      # .continued_number
        cmp     %rcx, 144(%rsp)
        jne     2f
        mov     168(%rsp), %rcx         # rip: at a `syscall`, that is, about to be restarted?
        cmpw    $0x050f, (%rcx)
        jne     2f
        movq    $-4, 144(%rsp)
        addq    $2, 168(%rsp)
        movq    $0, 152(%rsp)
        jmp     1f
2:      cmpq    $-4, 144(%rsp)          # rax: EINTR
        jne     1f
        mov     168(%rsp), %rdx         # rip
        cmp     %rdx, 152(%rsp)         # rcx
        jne     1f
        movq    $0, 152(%rsp)
1:      mov     $15, %eax               # rt_sigreturn
        syscall
        .cfi_endproc
        .size   clusterprof_signal_return, . - clusterprof_signal_return
        .popsection
)");
