// SPDX-License-Identifier: BSD-3-Clause
// Instructions, assembled, and the address of the data that each uses when registers hold what is said here.
// 0: none that counts. See data_address_test.cpp, which has the same registers.
#define RAX (0x100000000000)
#define RCX (3)
#define RDX (0x120000000000)
#define RBX (0x130000000000)
#define RSP (0x7f0000001000)
#define RBP (0x7f0000001800)
#define RSI (0x160000000000)
#define RDI (0x170000000000)
#define R8 (0x180000000000)
#define R9 (5)
#define R10 (0x1a0000000000)
#define R11 (0x1b0000000000)
#define R12 (0x1c0000000000)
#define R13 (0x1d0000000000)
#define R14 (0x1e0000000000)
#define R15 (0x1f0000000000)

        .macro  uses expected, instructions
        .pushsection .data.rel.ro.data_address, "aw"
        .quad   8f, 8f, 9f, \expected
        .popsection
8:      \instructions
9:
        .endm

        .pushsection .data.rel.ro.data_address, "aw"
        .balign 8
        .globl  data_address_cases
data_address_cases:
        .popsection

        // The same from the middle of a loop on.
        .macro  loops expected, begin, instructions
        .pushsection .data.rel.ro.data_address, "aw"
        .quad   7f, 8f, 9f, \expected
        .popsection
7:      \begin
8:      \instructions
9:
        .endm

        .text
        // Plain ones: base, displacements of both sizes, indexes, without a base, relative to rip.
        uses    RAX,                    "mov (%rax), %rbx"
        uses    RAX+16,                 "mov 16(%rax), %rbx"
        uses    RAX-16,                 "mov -16(%rax), %ebx"
        uses    RAX+0x12345,            "movzbl 0x12345(%rax), %ebx"
        uses    RDX+3,                  "mov (%rdx,%rcx), %rbx"
        uses    RDX+24+8,               "mov 8(%rdx,%rcx,8), %rbx"
        uses    RDX+20-0x1000,          "mov %rbx, -0x1000(%rdx,%r9,4)"
        uses    R12,                    "mov (%r12), %rbx"
        uses    R13,                    "mov (%r13), %rbx"
        uses    R13+10,                 "mov (%r13,%r9,2), %rbx"
        uses    R8+R9*8+1,              "mov 1(%r8,%r9,8), %r15"
        uses    0x30000+24,             "mov 0x30000(,%rcx,8), %rbx"
        uses    0x30000,                "mov 0x30000, %ebx"
        uses    data_address_word,      "mov data_address_word(%rip), %ebx"
        uses    data_address_word+4,    "movl $7, data_address_word + 4(%rip)"
        uses    data_address_word,      "cmpb $7, data_address_word(%rip)"
        uses    RBX,                    "lock incl (%rbx)"
        uses    RBX,                    "cmpxchg16b (%rbx)"
        uses    RBX+2,                  "addw $0x1234, 2(%rbx)"
        uses    RBX+8,                  "fldl 8(%rbx)"
        uses    R14,                    "imul $100000, (%r14), %rax"
        uses    R14,                    "notl (%r14)"
        uses    RSI,                    "crc32b (%rsi), %eax"
        // The address size prefix: of what the registers hold, the low half counts.
        uses    0x30003,                "mov 0x30000(%edx,%ecx), %rbx"
        // SSE, VEX.
        uses    RDI+32,                 "movups 32(%rdi), %xmm1"
        uses    RDI+32,                 "movaps %xmm9, 32(%rdi)"
        uses    RDI+24,                 "addsd (%rdi,%rcx,8), %xmm0"
        uses    R11,                    "pshufb (%r11), %xmm3"
        uses    R11,                    "palignr $3, (%r11), %xmm3"
        uses    RDI+64,                 "vmovupd 64(%rdi), %ymm1"
        uses    R10+24-32,              "vaddpd -32(%r10,%rcx,8), %ymm1, %ymm12"
        uses    R15+127,                "vfmadd231pd 127(%r15), %ymm1, %ymm2"
        uses    R15-128,                "vfmadd231sd -128(%r15), %xmm1, %xmm2"
        uses    RSI,                    "vbroadcastsd (%rsi), %ymm0"
        uses    RSI+8,                  "vextractf128 $1, %ymm0, 8(%rsi)"
        uses    RBX,                    "andn (%rbx), %rax, %rcx"
        // EVEX: displacements of one byte count in units.
        uses    RDI+64,                 "vmovupd 64(%rdi), %zmm1"
        uses    RDI-128,                "vmovupd %zmm1, -128(%rdi)"
        uses    RDI+8128,               "vmovdqu8 8128(%rdi), %zmm1"
        uses    RDI+96,                 "vmovupd 96(%rdi), %ymm17"
        uses    RDI+48,                 "vmovupd 48(%rdi), %xmm17"
        uses    RDI+1,                  "vmovupd 1(%rdi), %zmm17"
        uses    RDI+24+1024,            "vfmadd213pd 1024(%rdi,%rcx,8), %zmm17, %zmm20"
        uses    RDI+8,                  "vaddpd 8(%rdi){1to8}, %zmm1, %zmm2"
        uses    RDI-4,                  "vaddps -4(%rdi){1to16}, %zmm1, %zmm2"
        uses    RDI+16,                 "vaddsd 16(%rdi), %xmm17, %xmm2"
        uses    RDI+12,                 "vaddss 12(%rdi), %xmm17, %xmm2"
        uses    RDI+8,                  "vmovsd 8(%rdi), %xmm17"
        uses    RDI+24,                 "vfmadd231sd 24(%rdi), %xmm17, %xmm2"
        uses    RDI+20,                 "vfmadd132ss 20(%rdi), %xmm17, %xmm2"
        uses    RDI+64,                 "vfmadd231ps 64(%rdi), %zmm17, %zmm2"
        uses    RDI+64,                 "vfmaddsub231pd 64(%rdi), %zmm17, %zmm2"
        uses    RDI+32,                 "vcvtps2pd 32(%rdi), %zmm17"
        uses    RDI+64,                 "vcvtpd2ps 64(%rdi), %ymm17"
        uses    RDI+32,                 "vcvtdq2pd 32(%rdi), %zmm17"
        uses    RDI+64,                 "vcvttpd2dq 64(%rdi), %ymm17"
        uses    RDI+8,                  "vcvttsd2si 8(%rdi), %r9"
        uses    RDI+4,                  "vcvttss2si 4(%rdi), %r9"
        uses    RDI+8,                  "vcvtsi2sdq 8(%rdi), %xmm17, %xmm18"
        uses    RDI+64,                 "vcvtuqq2pd 64(%rdi), %zmm17"
        uses    RDI+32,                 "vcvtudq2pd 32(%rdi), %zmm17"
        uses    RDI+64,                 "vcvtudq2ps 64(%rdi), %zmm17"
        uses    RDI+32,                 "vcvttps2qq 32(%rdi), %zmm17"
        uses    RDI+64,                 "vcvtpd2uqq 64(%rdi), %zmm17"
        uses    RDI+8,                  "vcvttsd2usi 8(%rdi), %r9"
        uses    RDI+8,                  "vcvtusi2sdq 8(%rdi), %xmm17, %xmm18"
        uses    RDI+32,                 "vpmovzxbw 32(%rdi), %zmm17"
        uses    RDI+16,                 "vpmovsxbd 16(%rdi), %zmm17"
        uses    RDI+8,                  "vpmovzxbq 8(%rdi), %zmm17"
        uses    RDI+32,                 "vpmovqd %zmm17, 32(%rdi)"
        uses    RDI+16,                 "vpmovdb %zmm17, 16(%rdi)"
        uses    RDI+16,                 "vpsrlq 16(%rdi), %zmm17, %zmm18"
        uses    RDI+16,                 "vbroadcastf32x4 16(%rdi), %zmm17"
        uses    RDI+32,                 "vbroadcastf64x4 32(%rdi), %zmm17"
        uses    RDI+8,                  "vbroadcastsd 8(%rdi), %zmm17"
        uses    RDI+4,                  "vpbroadcastd 4(%rdi), %zmm17"
        uses    RDI+32,                 "vextractf64x4 $1, %zmm17, 32(%rdi)"
        uses    RDI+16,                 "vinserti32x4 $1, 16(%rdi), %zmm17, %zmm18"
        uses    RDI+8,                  "vmovhpd 8(%rdi), %xmm17, %xmm18"
        uses    RDI+64,                 "vmovddup 64(%rdi), %zmm17"
        uses    RDI+8,                  "vmovddup 8(%rdi), %xmm17"
        uses    RDI+64,                 "vmovsldup 64(%rdi), %zmm17"
        uses    RDI+4,                  "vmovd 4(%rdi), %xmm17"
        uses    RDI+8,                  "vmovq 8(%rdi), %xmm17"
        uses    RDI+8,                  "vucomisd 8(%rdi), %xmm17"
        uses    RDI+4,                  "vrndscaless $1, 4(%rdi), %xmm17, %xmm18"
        uses    RDI+64,                 "vrndscaleps $1, 64(%rdi), %zmm17"
        uses    RDI+8,                  "vpexpandq 8(%rdi), %zmm17"
        uses    RDI+4,                  "vcompressps %zmm17, 4(%rdi)"
        uses    RDI+32,                 "vcvtph2ps 32(%rdi), %zmm17"
        uses    RDI+32,                 "vcvtps2ph $1, %zmm17, 32(%rdi)"
        uses    RDI+1,                  "vpinsrb $1, 1(%rdi), %xmm17, %xmm18"
        uses    RDI+8,                  "vpextrq $1, %xmm17, 8(%rdi)"
        uses    RDI+64,                 "vpcmpeqd 64(%rdi), %zmm17, %k1"
        // String operations.
        uses    RSI,                    "rep movsb"
        uses    RSI,                    "movsq"
        uses    RDI,                    "rep stosq"
        uses    RSI,                    "lodsb"
        uses    RDI,                    "repne scasb"
        // Not data: the stack, segments of the thread, code, hints, addresses in vectors.
        uses    0,                      "mov 8(%rsp), %rax"
        uses    0,                      "mov -8(%rbp), %rax"
        uses    0,                      "mov %fs:0x28, %rax"
        uses    0,                      "mov %fs:(%rax), %rbx"
        uses    0,                      "mov %gs:8(%rax), %rbx"
        uses    0,                      "push (%rax)"
        uses    0,                      "pop (%rax)"
        uses    0,                      "call *(%rax)"
        uses    0,                      "jmp *(%rax)"
        uses    0,                      "lea 8(%rax), %rbx"
        uses    0,                      "nopw 8(%rax)"
        uses    0,                      "prefetcht0 (%rax)"
        uses    0,                      "vgatherqpd %ymm1, (%rax,%ymm2,8), %ymm3"
        uses    0,                      "vgatherdpd (%rax,%ymm2,8), %zmm17{%k1}"
        uses    0,                      "vscatterqpd %zmm17, (%rax,%zmm2,8){%k1}"
        uses    0,                      "mov 0x100, %ebx"
        uses    0,                      "mov (%rcx), %ebx"
        uses    0,                      "add %rax, %rbx"
        // One of the next three.
        uses    RAX,                    "add %rbx, %rcx; mov (%rax), %rbx"
        uses    RAX+8,                  "push %rbx; pop %rcx; vxorpd %xmm1, %xmm1, %xmm1; mov 8(%rax), %rbx"
        uses    RAX,                    "mov 8(%rsp), %rcx; mov (%rax), %rbx"
        uses    RAX+40,                 "add $32, %rax; mov 8(%rax), %rbx"
        uses    RDX+8,                  "mov %rdx, %rax; mov 8(%rax), %rbx"
        uses    RDX+16,                 "lea 8(%rdx), %rax; mov 8(%rax), %rbx"
        uses    RDX,                    "mov %fs:0, %rax; mov (%rdx), %rbx"
        uses    RDI,                    "vgatherqpd %ymm1, (%rax,%ymm2,8), %ymm3; mov (%rdi), %rax"
        // Instructions whose result is the second byte of a register: "bh" has the number that rdi has elsewhere.
        uses    RDI,                    "setae %bh; mov (%rdi), %rcx"
        uses    RDI,                    "setb %bh; mov (%rdi), %rcx"
        uses    0,                      "setae %bh; mov (%rbx), %rcx"
        // Too far away, behind a branch or a call, or at an address that is not known by then.
        uses    0,                      "nop; nop; nop; nop; mov (%rax), %rbx"
        uses    0,                      "jne 7f; mov (%rax), %rbx; 7:"
        uses    0,                      "jmp 7f; mov (%rax), %rbx; 7:"
        uses    0,                      "call 7f; mov (%rax), %rbx; 7:"
        uses    0,                      "ret; mov (%rax), %rbx"
        uses    0,                      "ud2; mov (%rax), %rbx"
        uses    0,                      "xor %eax, %eax; mov (%rax), %rbx"
        uses    0,                      "movzbl %bl, %eax; mov (%rax), %rbx"
        uses    0,                      "cpuid; mov (%rax), %rbx"
        uses    0,                      "vmovq %xmm0, %rax; mov (%rax), %rbx"
        uses    0,                      "shl $2, %rcx; mov (%rdx,%rcx,8), %rbx"
        // Loops.
        loops   RAX,                    "mov (%rax), %rbx", "jne 7b"
        loops   RAX+8,                  "mov (%rax), %rbx", "add $8, %rax; cmp %rax, %rdx; jb 7b"
        loops   RDX+32,                 "nop; mov 8(%rdx,%rcx,8), %rbx", "jmp 7b"
        loops   RDX,                    "mov (%rdx), %rbx", "mov -8(%rbp), %rax; jne 7b"
        loops   0,                      "nop; nop; nop; mov (%rax), %rbx", "jne 7b"
        loops   0,                      "nop", "jne 7b - 2; mov (%rax), %rbx"
        loops   0,                      "nop", "jne 7b"

        .pushsection .data.rel.ro.data_address, "aw"
        .quad   0, 0, 0, 0
        .popsection

        .data
        .balign 8
data_address_word:
        .quad   0

        .section .note.GNU-stack, "", @progbits
