// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/spin_lock.h"

namespace clusterprof::agent {
namespace {

// The function's beginning, and how far behind it the loop is that waits; 0: not known.
constinit std::uint64_t g_begin = 0, g_loop = 0;

// pause; cmp; a jump; and in newer versions of glibc the next attempt
constexpr std::uint64_t kLoopBytes = 11, kMostBefore = 32;

// lock decl (%rdi)
bool is_attempt(const std::uint8_t* code) noexcept {
  return code[0] == 0xf0 && code[1] == 0xff && code[2] == 0x0f;
}
constexpr std::uint64_t kAttemptBytes = 3;

}  // namespace

void know_spin_lock(const void* function) noexcept {
  const auto* const code = static_cast<const std::uint8_t*>(function);
  g_begin = g_loop = 0;
  if (code == nullptr) return;
  bool attempts = false;
  for (std::uint64_t at = 0; at < kMostBefore; ++at) {
    attempts = attempts || is_attempt(code + at);
    if (code[at] != 0xf3 || code[at + 1] != 0x90) continue;  // pause
    if (!attempts) return;
    g_loop = at;
    g_begin = reinterpret_cast<std::uint64_t>(code);
    return;
  }
}

std::uint64_t awaited_spin_lock(const ucontext_t& interrupted) noexcept {
  const auto& registers = interrupted.uc_mcontext.gregs;
  const auto pc = static_cast<std::uint64_t>(registers[REG_RIP]);
  const std::uint64_t at = pc - g_begin;
  if (g_begin == 0 || at >= g_loop + kLoopBytes) return 0;
  constexpr std::uint64_t kZeroFlag = 1u << 6;  // the attempt has got the lock
  const bool has_attempted =
      at >= kAttemptBytes && is_attempt(reinterpret_cast<const std::uint8_t*>(pc) - kAttemptBytes);
  const bool waits =
      has_attempted ? (static_cast<std::uint64_t>(registers[REG_EFL]) & kZeroFlag) == 0 : at >= g_loop;
  return waits ? static_cast<std::uint64_t>(registers[REG_RDI]) : 0;
}

}  // namespace clusterprof::agent
