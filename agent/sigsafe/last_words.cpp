// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/last_words.h"

#include <sys/syscall.h>

#include <cstring>

#include "agent/sigsafe/guard.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/thread_context.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

wire::LastWords* last_words() noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  return segment != nullptr ? &segment->last_words : nullptr;
}

// Two threads that write at a time get places of their own. What was written is read once the process has
// ended, so nothing more is needed.
[[gnu::noipa]] void append(wire::LastWords& words, const char* from, std::size_t count) noexcept {
  constexpr std::size_t kRoom = wire::kStderrTailBytes;
  const std::size_t kept = count < kRoom ? count : kRoom;
  const std::uint64_t end = words.stderr_bytes.fetch_add(count, std::memory_order_relaxed) + count;
  from += count - kept;
  const auto place = static_cast<std::size_t>((end - kept) % kRoom);
  const std::size_t first = kept < kRoom - place ? kept : kRoom - place;
  memcpy(words.stderr_tail + place, from, first);
  memcpy(words.stderr_tail, from + first, kept - first);
}

[[gnu::noinline]] void append_guarded(ThreadContext& context, wire::LastWords& words, const char* from,
                                      std::size_t count) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return;
  append(words, from, count);
  guard_leave(context.guard);
}

// The kernel has read these bytes, but another thread may have unmapped them since. There is no guard in
// handlers of the program that block SIGSEGV, as those of a fault do, or have interrupted a guarded read.
void append_written(wire::LastWords& words, const char* from, std::size_t count) noexcept {
  constexpr std::uint64_t kFaults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
  std::uint64_t mask = kFaults;
  raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask);
  ThreadContext& context = t_context;
  if (context.guard.armed == 0 && (mask & kFaults) == 0)
    append_guarded(context, words, from, count);
  else
    append(words, from, count);
}

// A fault at the end of a stack is near the stack pointer, and no signal can be delivered there: the handler
// runs on an alternate stack. Functions with large arrays touch them far below where they began.
bool is_stack_overflow(int signal, const siginfo_t& info, const ucontext_t& interrupted) noexcept {
  constexpr std::uint64_t kRedZone = 128, kWord = 8, kMostOfOneFrame = std::uint64_t{1} << 20;
  if (signal != SIGSEGV && signal != SIGBUS) return false;
  stack_t stack = {};
  if (raw_syscall(SYS_sigaltstack, nullptr, &stack) != 0 || (stack.ss_flags & SS_ONSTACK) == 0) return false;
  const auto sp = static_cast<std::uint64_t>(interrupted.uc_mcontext.gregs[REG_RSP]);
  const auto address = reinterpret_cast<std::uint64_t>(info.si_addr);
  const auto base = reinterpret_cast<std::uint64_t>(stack.ss_sp);
  if (sp - base < stack.ss_size) return false;  // the alternate stack itself was in use
  // Something ran over the other end, as a copy with a wrong length does.
  if (t_context.stack_high != 0 && address >= t_context.stack_high) return false;
  return address - (sp - kRedZone - kWord) < kMostOfOneFrame;
}

}  // namespace

bool keeps_stderr() noexcept {
  const wire::LastWords* const words = last_words();
  return words != nullptr && words->keeps_stderr != 0;
}

void note_stderr(const void* bytes, std::size_t count) noexcept {
  if (keeps_stderr()) append_written(*last_words(), static_cast<const char*>(bytes), count);
}

void note_stderr(const iovec* parts, std::size_t count, std::size_t moved) noexcept {
  if (!keeps_stderr()) return;
  wire::LastWords* const words = last_words();
  for (std::size_t i = 0; i < count && moved != 0; ++i) {
    const std::size_t here = parts[i].iov_len < moved ? parts[i].iov_len : moved;
    append_written(*words, static_cast<const char*>(parts[i].iov_base), here);
    moved -= here;
  }
}

void note_fault(int signal, const siginfo_t& info, const ucontext_t& interrupted) noexcept {
  wire::LastWords* const words = last_words();
  if (words == nullptr) return;
  words->fault_signal.store(0, std::memory_order_release);
  words->fault_code.store(info.si_code, std::memory_order_relaxed);
  words->fault_address.store(reinterpret_cast<std::uint64_t>(info.si_addr), std::memory_order_relaxed);
  words->fault_pc.store(static_cast<std::uint64_t>(interrupted.uc_mcontext.gregs[REG_RIP]),
                        std::memory_order_relaxed);
  words->stack_overflow.store(is_stack_overflow(signal, info, interrupted) ? 1 : 0,
                              std::memory_order_relaxed);
  words->fault_signal.store(static_cast<std::uint32_t>(signal), std::memory_order_release);
}

void note_abort_message() noexcept {
  constexpr unsigned kNumber = sizeof(unsigned), kMostBytes = 1u << 20;
  wire::LastWords* const words = last_words();
  const AbortMessage* const* const where = g_process.abort_message;
  if (words == nullptr || where == nullptr) return;
  const AbortMessage* const message = *static_cast<const AbortMessage* const volatile*>(where);
  if (message == nullptr || message->bytes <= kNumber || message->bytes > kMostBytes) return;
  std::uint32_t bytes = 0;
  const std::uint32_t room = message->bytes - kNumber < wire::kAbortMessageBytes ? message->bytes - kNumber
                                                                                 : wire::kAbortMessageBytes;
  while (bytes < room && message->text[bytes] != 0) ++bytes;
  // The program's handler may return, and abort() raises the signal again.
  if (words->abort_message_bytes.exchange(bytes, std::memory_order_relaxed) != 0) return;
  memcpy(words->abort_message, message->text, bytes);
  if (words->keeps_stderr != 0) append(*words, message->text, bytes);
}

}  // namespace clusterprof::agent
