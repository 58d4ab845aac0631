// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/first_code.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>

// The new thread loads the agent and goes on in its function, which returns to libc. If that fails, it copies
// what dlerror says, which goes with the thread, and ends. Forks of the program wait meanwhile, for two
// seconds at most: one that is made in a constructor has the lock that the load waits for.
//
// It all runs where the process has room, so that addresses are those of the copy.
asm(R"(
        .hidden clusterprof_attach_code
        .hidden clusterprof_attach_code_begin
        .hidden clusterprof_attach_code_landing
        .hidden clusterprof_attach_code_end
        .globl  clusterprof_attach_code
        .globl  clusterprof_attach_code_begin
        .globl  clusterprof_attach_code_landing
        .globl  clusterprof_attach_code_end
        .pushsection .rodata
        .balign 16
clusterprof_attach_code:
.Lattach_memory:
.Lattach_load:                              # (the block)
        push    %rbx
        mov     %rdi, %rbx
        mov     $144, %eax                  # sched_setscheduler: it has that of a thread that comes first
        xor     %edi, %edi                  # this thread
        mov     100(%rbx), %esi             # policy; below 0: refused
        lea     .Lattach_no_priority(%rip), %rdx
        syscall
        cmpl    $0, 96(%rbx)                # loading: the agent is there already
        je      .Lattach_go_on
        lea     .Lattach_before_fork(%rip), %rdi
        xor     %esi, %esi
        lea     .Lattach_in_child(%rip), %rdx
        mov     %rbx, %rcx                  # whose handlers these are
        call    *72(%rbx)                   # __register_atfork
        mov     (%rbx), %rdi                # path
        mov     8(%rbx), %esi               # mode
        call    *16(%rbx)                   # dlopen
        test    %rax, %rax
        je      .Lattach_failed
        mov     %rax, %rdi
        mov     24(%rbx), %rsi              # function_name
        call    *32(%rbx)                   # dlsym
        test    %rax, %rax
        je      .Lattach_failed
        mov     %rax, 88(%rbx)              # function
        call    .Lattach_loaded
.Lattach_go_on:
        mov     88(%rbx), %rax
        mov     %rbx, %rdi
        pop     %rbx
        jmp     *%rax
.Lattach_failed:
        call    *40(%rbx)                   # dlerror
        test    %rax, %rax
        je      .Lattach_said
        lea     112(%rbx), %rdi             # error
        mov     $399, %ecx
.Lattach_next:
        mov     (%rax), %dl
        mov     %dl, (%rdi)
        inc     %rax
        inc     %rdi
        test    %dl, %dl
        loopne  .Lattach_next
.Lattach_said:
        call    .Lattach_loaded
        mov     64(%rbx), %rdi              # thread
        call    *48(%rbx)                   # pthread_detach
        movl    $1, 56(%rbx)                # status = kNotLoaded
        pop     %rbx
        xor     %eax, %eax
        ret
.Lattach_loaded:
        movl    $2, 96(%rbx)                # loading = kLoaded
        mov     %rbx, %rdi                  # whose handlers are to go
        jmp     *80(%rbx)                   # __cxa_finalize

.Lattach_before_fork:
        xor     %edi, %edi
        mov     $201, %eax                  # time
        syscall
        mov     %rax, %r8
.Lattach_look:
        cmpl    $1, .Lattach_memory + 0x11060(%rip)  # loading
        jne     .Lattach_fork
        mov     $24, %eax                   # sched_yield
        syscall
        mov     $201, %eax
        syscall
        sub     %r8, %rax
        cmp     $2, %rax
        jb      .Lattach_look
.Lattach_fork:
        ret
.Lattach_in_child:                          # which has no such thread
        movl    $2, .Lattach_memory + 0x11060(%rip)
        ret

clusterprof_attach_code_begin:              # r12: the block, r13: pthread_create
        mov     $10, %eax                   # mprotect
        lea     .Lattach_memory + 0x1000(%rip), %rdi
        mov     $0x13000, %esi
        mov     $3, %edx                    # PROT_READ | PROT_WRITE
        syscall
        mov     %eax, %ebx
        test    %eax, %eax
        jne     .Lattach_wait
        lea     .Lattach_memory + 0x10ff0(%rip), %rsp
        lea     64(%r12), %rdi              # thread
        xor     %esi, %esi
        lea     .Lattach_load(%rip), %rdx
        mov     %r12, %rcx
        call    *%r13
        mov     %eax, %ebx
clusterprof_attach_code_landing:
        movl    $1, .Lattach_memory + 0x10ff0(%rip)  # landed
# Not asleep at once: whoever stops it would have to wake it for that, and it would have to wait for its turn.
.Lattach_wait:
        mov     $2000, %ecx
.Lattach_spin:
        pause
        dec     %ecx
        jne     .Lattach_spin
.Lattach_sleep:
        mov     $34, %eax                   # pause
        syscall
        jmp     .Lattach_sleep
        .balign 4
.Lattach_no_priority:
        .long   0
clusterprof_attach_code_end:
        .popsection
)");

extern "C" {
extern const std::uint8_t clusterprof_attach_code[], clusterprof_attach_code_begin[],
    clusterprof_attach_code_landing[], clusterprof_attach_code_end[];
}

namespace clusterprof::cli::attach {

static_assert(SYS_sched_setscheduler == 144 && SYS_sched_yield == 24 && SYS_time == 201 && SYS_mprotect == 10 &&
              SYS_pause == 34);
static_assert((PROT_READ | PROT_WRITE) == 3);
static_assert(sizeof(wire::AttachBlock::error) == 400);
static_assert(static_cast<int>(wire::AttachStatus::kNotLoaded) == 1);
static_assert(wire::kLoading == 1 && wire::kLoaded == 2);
static_assert(offsetof(wire::AttachBlock, policy) == 100);
static_assert(kBlockAt + offsetof(wire::AttachBlock, loading) == 0x11060);
static_assert(kPageBytes == 0x1000 && kMemoryBytes - kPageBytes == 0x13000 && kLandedAt == 0x10ff0);

FirstCode first_code() {
  const auto at = [](const std::uint8_t* place) {
    return static_cast<std::size_t>(place - clusterprof_attach_code);
  };
  return {{clusterprof_attach_code, at(clusterprof_attach_code_end)},
          at(clusterprof_attach_code_begin),
          at(clusterprof_attach_code_landing)};
}

}  // namespace clusterprof::cli::attach
