// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/awaited_words.h"

namespace clusterprof::agent {

namespace {
constexpr std::uint64_t kOneWait = kWordAddressMask + 1;
}

constinit std::atomic<std::uint64_t> g_awaited_words[kAwaitedWords] = {};

// Of two threads at one place one may go unnoticed.
void note_awaited_word(std::uint64_t address) noexcept {
  if (address == 0 || address > kWordAddressMask) return;
  std::atomic<std::uint64_t>& place = awaited_words_near(address);
  std::uint64_t known = place.load(std::memory_order_relaxed);
  const bool is_same = (known & kWordAddressMask) == address;
  // Waits that ended by themselves stay in the count.
  constexpr std::uint64_t kMostWaits = 64;
  const bool is_full = known / kOneWait >= kMostWaits;
  const std::uint64_t next = is_same ? (is_full ? known : known + kOneWait) : address | kOneWait;
  place.compare_exchange_strong(known, next, std::memory_order_relaxed);
}

bool take_awaited(std::uint64_t seen) noexcept {
  std::atomic<std::uint64_t>& place = awaited_words_near(word_of(seen));
  constexpr int kMostTries = 8;  // waits may be noted meanwhile
  for (int i = 0; i < kMostTries; ++i) {
    std::uint64_t known = place.load(std::memory_order_relaxed);
    if (word_of(known) != word_of(seen)) return false;
    const std::uint64_t waits = known / kOneWait, taken = seen / kOneWait;
    const std::uint64_t left = waits > taken ? known - taken * kOneWait : 0;
    if (place.compare_exchange_strong(known, left, std::memory_order_relaxed)) return true;
  }
  return false;
}

std::uint64_t take_awaited_word(const void* object, std::uint64_t bytes, bool all) noexcept {
  std::uint64_t known = awaited_now(object, bytes);
  if (known == 0) return 0;
  const std::uint64_t word = word_of(known);
  const std::uint64_t left = all || known - word == kOneWait ? 0 : known - kOneWait;
  return awaited_words_near(word).compare_exchange_strong(known, left, std::memory_order_relaxed) ? word : 0;
}

}  // namespace clusterprof::agent
