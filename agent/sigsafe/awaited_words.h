// SPDX-License-Identifier: BSD-3-Clause
// Words of futexes for which samples have seen threads wait: whoever wakes them is worth a record. Where
// nobody waits for long, a function that wakes threads costs one load more.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>

namespace clusterprof::agent {

// By lines of 64 bytes, each the last word that was seen there and, in the upper bits, how many waits of it
// no thread has ended. Words that share a place drive each other out.
inline constexpr std::uint32_t kAwaitedWords = 256;
extern constinit std::atomic<std::uint64_t> g_awaited_words[kAwaitedWords];

inline constexpr std::uint64_t kWordAddressMask = (1ull << 48) - 1;

inline std::atomic<std::uint64_t>& awaited_words_near(std::uint64_t address) noexcept {
  const std::uint64_t line = address >> 6;
  return g_awaited_words[(line ^ line >> 8) % kAwaitedWords];
}

// A sample has found the thread waiting. Async-signal-safe.
void note_awaited_word(std::uint64_t address) noexcept;

inline std::uint64_t word_of(std::uint64_t seen) noexcept { return seen & kWordAddressMask; }

// The word that somebody was seen to wait for in this object of at most 64 bytes, with how often in the upper
// bits; 0: none.
inline std::uint64_t awaited_now(const void* object, std::uint64_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uint64_t>(object);
  for (const std::uint64_t near : {begin, begin + bytes - 1}) {
    const std::uint64_t known = awaited_words_near(near).load(std::memory_order_relaxed);
    if (word_of(known) - begin < bytes) return known;
  }
  return 0;
}
inline bool is_awaited(const void* object, std::uint64_t bytes) noexcept {
  return awaited_now(object, bytes) != 0;
}

// Takes one of these waits, or all; returns the word, or 0 if another thread was faster.
std::uint64_t take_awaited_word(const void* object, std::uint64_t bytes, bool all) noexcept;
// Takes the waits that awaited_now() returned, but none that was seen since; false if another thread has
// them.
bool take_awaited(std::uint64_t seen) noexcept;

}  // namespace clusterprof::agent
