// SPDX-License-Identifier: BSD-3-Clause
// Recognises the system call that a signal has interrupted, by the instruction before the pc and by rax, and
// has it made again unless the program is to see the EINTR. The cases are in RULES.md, section 9.
#include "agent/sigsafe/interrupted_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/stat.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstddef>

#include "agent/sigsafe/guard.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"

// In syscall_function.cpp: the address after its `syscall` instruction, where the call's number is at the
// stack pointer.
extern "C" [[gnu::visibility("hidden")]] const char clusterprof_behind_syscall[];

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint32_t kBytesBefore = 32;
constexpr std::uint32_t kBytesAt = 2;
constexpr std::int32_t kMaxNumber = 1024;

// Code bytes [pc - before, pc + at).
struct Window {
  std::uint32_t before, at;
  std::uint8_t bytes[kBytesBefore + kBytesAt];

  const std::uint8_t* pc() const noexcept { return bytes + before; }
};

// Not inlined: without a call in the guarded part, the compiler takes the way back from a fault for
// unreachable and drops it.
[[gnu::noipa]] void copy_code(std::uint64_t pc, std::uint32_t before, std::uint32_t at,
                              Window& out) noexcept {
  const volatile auto* from = reinterpret_cast<const volatile std::uint8_t*>(pc - before);
  for (std::uint32_t i = 0; i < before + at; ++i) out.bytes[i] = from[i];
  out.before = before;
  out.at = at;
}

[[gnu::noinline]] bool copy_code_guarded(ThreadContext& context, std::uint64_t pc, Window& out) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return false;
  copy_code(pc, kBytesBefore, kBytesAt, out);
  guard_leave(context.guard);
  return true;
}

void read_window(ThreadContext& context, std::uint64_t pc, bool may_guard, Window& out) noexcept {
  const std::uint64_t in_page = pc % kPageBytes;
  out.before = out.at = 0;
  if (in_page >= kBytesBefore && in_page + kBytesAt <= kPageBytes) {
    copy_code(pc, kBytesBefore, kBytesAt, out);  // the page was being executed
  } else if (may_guard && copy_code_guarded(context, pc, out)) {
    return;
  } else if (in_page + kBytesAt <= kPageBytes) {
    copy_code(pc, static_cast<std::uint32_t>(in_page < kBytesBefore ? in_page : kBytesBefore), kBytesAt, out);
  }
}

std::int32_t little_endian(const std::uint8_t* bytes) noexcept {
  return static_cast<std::int32_t>(bytes[0] | bytes[1] << 8 | bytes[2] << 16 |
                                   static_cast<std::uint32_t>(bytes[3]) << 24);
}

// Length of an instruction that compilers put between the load of rax and the `syscall`, that is, one that
// moves or clears an argument register. 0 for any other instruction, and for all that write rax.
std::uint32_t argument_instruction_bytes(const std::uint8_t* code, std::uint32_t available) noexcept {
  const auto is_argument = [](std::uint32_t reg) { return reg == 2 || reg == 6 || reg == 7; };  // dx si di
  std::uint32_t i = 0;
  bool extended = false;  // r8 .. r15
  if (available > 0 && (code[0] & 0xf0) == 0x40) {
    extended = (code[0] & 0x04) != 0;
    i = 1;
  }
  if (available < i + 2) return 0;
  const std::uint8_t opcode = code[i], modrm = code[i + 1];
  const std::uint32_t reg = (modrm >> 3) & 7, mode = modrm >> 6, rm = modrm & 7;
  const bool rex_base = i == 1 && (code[0] & 0x01) != 0;
  if ((opcode & 0xf8) == 0xb8 && (rex_base || is_argument(opcode & 7)) && !(i == 1 && (code[0] & 8) != 0))
    return i + 5;                                                                  // mov $imm32, argument
  if (opcode == 0x31 && mode == 3 && (rex_base || is_argument(rm))) return i + 2;  // xor reg, argument
  if (opcode == 0x89 && mode == 3 && (rex_base || is_argument(rm))) return i + 2;  // mov reg, argument
  if (opcode == 0x80 && mode == 3 && i == 1 && (rex_base || is_argument(rm))) return i + 3;  // op $imm8, %sil
  if (opcode == 0x83 && mode == 3 && (rex_base || is_argument(rm))) return i + 3;  // op $imm8, argument
  if ((opcode == 0x8b || opcode == 0x8d) && (extended || is_argument(reg)) && mode != 3) {  // load, lea
    if (mode == 0 && rm == 5) return i + 6;                                                 // relative to rip
    return i + 2 + (rm == 4 ? 1u : 0u) + (mode == 1 ? 1u : mode == 2 ? 4u : 0u);
  }
  return 0;
}

// code[0..length) ends with the `syscall` instruction.
std::int32_t number_before(const std::uint8_t* code, std::uint32_t length) noexcept {
  const std::uint32_t end = length - 2;
  for (std::uint32_t start = end; start-- > 0;) {
    std::uint32_t next = 0;
    std::int32_t number = -1;
    if (code[start] == 0xb8 && start + 5 <= end) {  // mov $imm32, %eax
      number = little_endian(code + start + 1);
      next = start + 5;
    } else if (code[start] == 0x31 && start + 2 <= end && code[start + 1] == 0xc0) {  // xor %eax, %eax
      number = 0;
      next = start + 2;
    } else if (start + 7 <= end && code[start] == 0x48 && code[start + 1] == 0xc7 &&
               code[start + 2] == 0xc0) {
      number = little_endian(code + start + 3);  // mov $imm32, %rax
      next = start + 7;
    }
    if (number < 0 || number >= kMaxNumber) continue;
    while (next < end) {
      const std::uint32_t bytes = argument_instruction_bytes(code + next, end - next);
      if (bytes == 0) break;
      next += bytes;
    }
    if (next == end) return number;
  }
  return -1;
}

enum class About : std::uint8_t { kNothing, kFirst, kThird, kPolled };

// Which argument is the descriptor that the call transfers to or waits for.
constexpr About about(std::int32_t number) noexcept {
  switch (number) {
    case SYS_read:
    case SYS_write:
    case SYS_lseek:
    case SYS_fstat:
    case SYS_ioctl:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_sendfile:
    case SYS_connect:
    case SYS_accept:
    case SYS_accept4:
    case SYS_sendto:
    case SYS_recvfrom:
    case SYS_sendmsg:
    case SYS_recvmsg:
    case SYS_sendmmsg:
    case SYS_recvmmsg:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_syncfs:
    case SYS_sync_file_range:
    case SYS_fadvise64:
    case SYS_readahead:
    case SYS_ftruncate:
    case SYS_fallocate:
    case SYS_flock:
    case SYS_fcntl:
    case SYS_getdents:
    case SYS_getdents64:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
      return About::kFirst;
    case SYS_copy_file_range:
      return About::kThird;
    case SYS_poll:
    case SYS_ppoll:
      return About::kPolled;
    default:
      return About::kNothing;
  }
}

[[gnu::noipa]] void copy_descriptor(std::uint64_t polled, int& out) noexcept {
  out = static_cast<const volatile pollfd*>(reinterpret_cast<const void*>(polled))->fd;
}

[[gnu::noipa]] void copy_number(std::uint64_t from, int& out) noexcept {
  out = *static_cast<const volatile int*>(reinterpret_cast<const void*>(from));
}

[[gnu::noinline]] bool copy_number_guarded(ThreadContext& context, std::uint64_t from, int& out) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return false;
  copy_number(from, out);
  guard_leave(context.guard);
  return true;
}

[[gnu::noinline]] bool copy_descriptor_guarded(ThreadContext& context, std::uint64_t polled,
                                               int& out) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return false;
  copy_descriptor(polled, out);
  guard_leave(context.guard);
  return true;
}

constexpr std::uint64_t signal_bit(int signal) noexcept { return 1ull << (signal - 1); }

// True if a signal is pending that the program would notice once its own mask is restored.
bool program_signal_pending(const ucontext_t& interrupted) noexcept {
  std::uint64_t pending = 0;
  if (raw_syscall(SYS_rt_sigpending, &pending, sizeof pending) != 0) return false;
  pending &= ~interrupted.uc_sigmask.__val[0] & ~signal_bit(kSampleSignal);
  if (pending == 0) return false;
  // A blocked signal is kept pending even if it is going to be ignored.
  struct {
    std::uint64_t handler, flags, restorer, mask;
  } action;
  for (int signal = 1; signal <= 64; ++signal) {
    if ((pending & signal_bit(signal)) == 0) continue;
    if (raw_syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask) != 0) continue;
    const bool ignored_by_default =
        signal == SIGCHLD || signal == SIGCONT || signal == SIGURG || signal == SIGWINCH;
    if (action.handler == reinterpret_cast<std::uint64_t>(SIG_IGN)) continue;
    if (action.handler == reinterpret_cast<std::uint64_t>(SIG_DFL) && ignored_by_default) continue;
    return true;
  }
  return false;
}

}  // namespace

InterruptedCall find_interrupted_call(ThreadContext& context, const ucontext_t& interrupted,
                                      bool may_guard) noexcept {
  const auto& registers = interrupted.uc_mcontext.gregs;
  InterruptedCall call = {false, false, false, false, -1};
  Window window;
  read_window(context, static_cast<std::uint64_t>(registers[REG_RIP]), may_guard, window);
  const std::uint8_t* pc = window.pc();
  if (window.before >= 2 && pc[-2] == 0x0f && pc[-1] == 0x05) {
    call.in_syscall = true;
    // After a handler of the program, the error is its signal's (signal_return.cpp).
    call.failed_with_eintr = registers[REG_RAX] == -EINTR && registers[REG_RCX] != 0;
    call.interrupted = call.failed_with_eintr;
    call.succeeded = registers[REG_RAX] > 0;
    const auto behind = reinterpret_cast<std::uintptr_t>(clusterprof_behind_syscall);
    if (static_cast<std::uintptr_t>(registers[REG_RIP]) == behind) {
      const std::int64_t number = *reinterpret_cast<const std::int64_t*>(registers[REG_RSP]);
      if (number >= 0 && number < kMaxNumber) call.number = static_cast<std::int32_t>(number);
    } else {
      call.number = number_before(window.bytes, window.before);
    }
  } else if (window.at == 2 && pc[0] == 0x0f && pc[1] == 0x05 && registers[REG_RAX] >= 0 &&
             registers[REG_RAX] < kMaxNumber) {
    call.in_syscall = true;
    call.interrupted = true;
    call.number = static_cast<std::int32_t>(registers[REG_RAX]);
  }
  return call;
}

// Of a call that a function of ours is making (lifecycle/timed_calls.h). The kernel takes whole milliseconds:
// one that has begun is waited for, so that the call is never over too early.
static void leave_rest_of_timeout(const TimedCall& timed, std::int32_t number, greg_t* registers) noexcept {
  constexpr std::uint64_t kNsPerMs = 1'000'000;
  const bool is_poll = number == SYS_poll;
  greg_t& timeout = registers[is_poll ? REG_RDX : REG_R10];
  const auto timeout_ms = static_cast<std::int32_t>(timeout);
  if (!timed.is(number, static_cast<std::uint64_t>(registers[is_poll ? REG_RDI : REG_RSI]), timeout_ms,
                static_cast<std::uint64_t>(registers[REG_RSP])))
    return;
  const std::uint64_t until_ns = timed.until_ns.load(std::memory_order_relaxed);
  const std::uint64_t now_ns = monotonic_ns();
  const std::uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns + kNsPerMs - 1) / kNsPerMs : 0;
  if (left_ms < static_cast<std::uint64_t>(timeout_ms)) timeout = static_cast<greg_t>(left_ms);
}

void repeat_interrupted_call(const InterruptedCall& call, const ThreadRecord* record,
                             ucontext_t& interrupted) noexcept {
  if (!call.failed_with_eintr || call.number < 0 || program_signal_pending(interrupted)) return;
  auto& registers = interrupted.uc_mcontext.gregs;
  // The descriptor is gone in spite of the error; by now its number may be another thread's.
  if (call.number == SYS_close) {
    registers[REG_RAX] = 0;
    return;
  }
  // The kernel has written how much of the sleep remains.
  if (call.number == SYS_nanosleep && registers[REG_RSI] != 0) {
    registers[REG_RDI] = registers[REG_RSI];
  } else if (call.number == SYS_clock_nanosleep && (registers[REG_RSI] & TIMER_ABSTIME) == 0 &&
             registers[REG_R10] != 0) {
    registers[REG_RDX] = registers[REG_R10];
  } else if (record != nullptr) {
    leave_rest_of_timeout(record->timed, call.number, registers);
  }
  registers[REG_RAX] = call.number;
  registers[REG_RIP] -= 2;  // `syscall`; it changes no argument register
}

// pthread_join waits until the kernel has cleared the thread id in the thread's descriptor. No other wait in
// memory that may be shared has a word that is just the id of a thread of this process: a mutex with waiters
// has a flag for them in the same word.
static bool joins_thread(const greg_t* registers) noexcept {
  const auto operation = static_cast<std::uint32_t>(registers[REG_RSI]);
  const std::uint32_t command = operation & FUTEX_CMD_MASK;
  if ((operation & FUTEX_PRIVATE_FLAG) != 0 || (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET))
    return false;
  const auto thread = static_cast<std::int32_t>(registers[REG_RDX]);
  return thread > 0 && raw_syscall(SYS_tgkill, g_process.pid, thread, 0) == 0;
}

std::uint32_t subject_of(ThreadContext& context, const InterruptedCall& call, const ucontext_t& interrupted,
                         bool may_guard) noexcept {
  const auto& registers = interrupted.uc_mcontext.gregs;
  if (call.number == SYS_futex) return joins_thread(registers) ? std::uint32_t{wire::kOnThread} : 0u;
  int descriptor = -1;
  switch (about(call.number)) {
    case About::kNothing:
      return 0;
    case About::kFirst:
      descriptor = static_cast<int>(registers[REG_RDI]);
      break;
    case About::kThird:
      descriptor = static_cast<int>(registers[REG_RDX]);
      break;
    case About::kPolled:
      if (registers[REG_RSI] != 1 || !may_guard ||
          !copy_descriptor_guarded(context, static_cast<std::uint64_t>(registers[REG_RDI]), descriptor))
        return 0;
      break;
  }
  struct statx status;
  if (descriptor < 0 ||
      raw_syscall(SYS_statx, descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0)
    return 0;
  switch (status.stx_mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
      return wire::kOnFile;
    case S_IFSOCK:
      return wire::kOnSocket;
    default:
      return wire::kOnPipe;
  }
}

AwaitedMutex awaited_mutex(ThreadContext& context, const InterruptedCall& call, const ucontext_t& interrupted,
                           bool may_guard) noexcept {
  const auto& registers = interrupted.uc_mcontext.gregs;
  if (call.number != SYS_futex || !may_guard) return {0, 0};
  const std::uint32_t command = static_cast<std::uint32_t>(registers[REG_RSI]) & FUTEX_CMD_MASK;
  // Of a mutex with waiters the word is 2, and the third one is its holder's id. Other words may be 2 as
  // well, but what is behind them is hardly the id of another thread of this process.
  constexpr std::uint32_t kHasWaiters = 2;
  constexpr std::uint64_t kHolderOffset = 8;
  if ((command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) ||
      static_cast<std::uint32_t>(registers[REG_RDX]) != kHasWaiters)
    return {0, 0};
  const auto address = static_cast<std::uint64_t>(registers[REG_RDI]);
  int holder = 0;
  if (!copy_number_guarded(context, address + kHolderOffset, holder) || holder <= 0 ||
      holder == context.slot->tid || raw_syscall(SYS_tgkill, g_process.pid, holder, 0) != 0)
    return {0, 0};
  return {address, holder};
}

std::uint64_t awaited_word(const InterruptedCall& call, const ucontext_t& interrupted) noexcept {
  const auto& registers = interrupted.uc_mcontext.gregs;
  const std::uint32_t command = static_cast<std::uint32_t>(registers[REG_RSI]) & FUTEX_CMD_MASK;
  if (call.number != SYS_futex || (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET)) return 0;
  return static_cast<std::uint64_t>(registers[REG_RDI]);
}

void note_cut_transfer(ThreadContext& context, const InterruptedCall& call,
                       const ucontext_t& interrupted) noexcept {
  if (!call.succeeded) return;
  switch (call.number) {
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendfile:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_getrandom:
    case -1:
      break;
    default:
      return;
  }
  if (!program_signal_pending(interrupted)) context.transfer.cut = context.transfer.cut + 1;
}

}  // namespace clusterprof::agent
