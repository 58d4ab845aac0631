// SPDX-License-Identifier: BSD-3-Clause
// Interposes syscall(2). libc's version puts the call's number into rax only, where the result overwrites it.
// This one also keeps it on the stack, where the handler finds it if the call has failed with an EINTR of
// ours (interrupted_call.cpp). Everything else is as in libc. It is exactly libc's code for calls after which
// two threads or processes may use one stack, and for sigreturn, which expects its frame at the stack
// pointer. lifecycle/transfers.cpp makes the calls that our signal can cut short or keep from ever ending,
// those after which our system calls may no longer be allowed, and those that execute another program.
asm(R"(
        .hidden clusterprof_call_by_number
        .pushsection .text
        .balign 16
        .globl  syscall
        .type   syscall, @function
syscall:
        .cfi_startproc
        endbr64
        cmp     $47, %rdi               # read, write, readv, writev, sendfile, sendto .. recvmsg
        ja      3f
        mov     $0xf10000180003, %r11
        bt      %rdi, %r11
        jc      clusterprof_call_by_number
        jmp     4f
3:      cmp     $56, %rdi               # clone like fork: no stack, CLONE_VM or CLONE_SETTLS
        jne     5f
        test    %rdx, %rdx
        jne     4f
        test    $0x80100, %esi
        jne     4f
        jmp     clusterprof_call_by_number
5:      cmp     $57, %rdi               # fork
        je      clusterprof_call_by_number
        cmp     $59, %rdi               # execve
        je      clusterprof_call_by_number
        cmp     $157, %rdi              # prctl
        je      clusterprof_call_by_number
        cmp     $202, %rdi              # futex that wakes: FUTEX_WAKE, FUTEX_WAKE_BITSET
        je      6f
        cmp     $285, %rdi              # fallocate
        je      clusterprof_call_by_number
        cmp     $299, %rdi              # recvmmsg
        je      clusterprof_call_by_number
        cmp     $307, %rdi              # sendmmsg
        je      clusterprof_call_by_number
        cmp     $317, %rdi              # seccomp
        je      clusterprof_call_by_number
        cmp     $318, %rdi              # getrandom
        je      clusterprof_call_by_number
        cmp     $321, %rdi              # bpf
        je      clusterprof_call_by_number
        cmp     $322, %rdi              # execveat
        je      clusterprof_call_by_number
        jmp     4f
6:      mov     %edx, %r11d
        and     $0x7f, %r11d
        cmp     $1, %r11d
        je      clusterprof_call_by_number
        cmp     $10, %r11d
        je      clusterprof_call_by_number
        .globl  clusterprof_plain_syscall
        .hidden clusterprof_plain_syscall
clusterprof_plain_syscall:
4:      mov     %rdi, %rax
        lea     -56(%rax), %r11
        cmp     $2, %r11                # clone, fork, vfork
        jbe     1f
        cmp     $435, %rax              # clone3
        je      1f
        cmp     $15, %rax               # rt_sigreturn
        je      1f
        push    %rdi
        .cfi_adjust_cfa_offset 8
        mov     %rsi, %rdi
        mov     %rdx, %rsi
        mov     %rcx, %rdx
        mov     %r8, %r10
        mov     %r9, %r8
        mov     16(%rsp), %r9
        syscall
        .globl  clusterprof_behind_syscall
        .hidden clusterprof_behind_syscall
clusterprof_behind_syscall:
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
0:      cmp     $-4095, %rax
        jae     2f
        ret
1:      mov     %rsi, %rdi
        mov     %rdx, %rsi
        mov     %rcx, %rdx
        mov     %r8, %r10
        mov     %r9, %r8
        mov     8(%rsp), %r9
        syscall
        jmp     0b
2:      neg     %eax
        push    %rax
        .cfi_adjust_cfa_offset 8
        call    __errno_location@PLT
        pop     %rcx
        .cfi_adjust_cfa_offset -8
        mov     %ecx, (%rax)
        mov     $-1, %rax
        ret
        .cfi_endproc
        .size   syscall, . - syscall
        .popsection
)");
