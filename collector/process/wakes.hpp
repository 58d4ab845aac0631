// SPDX-License-Identifier: BSD-3-Clause
// Who ended the waits of a process' threads for conditions, semaphores and the like, and where that thread
// was meanwhile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "collector/charge/amounts.hpp"

namespace clusterprof::collector {

// Where samples saw a thread. Of what was long ago, fewer places within a function are known. Copies share
// what has not changed since: each record of a wake keeps one.
class PlacesOfThread {
 public:
  struct Part {
    std::uint32_t path = 0;  // 0: not known
    std::uint64_t time_ns = 0;
  };

  // A sample; of one that waits, how long it has waited.
  struct Look {
    std::uint64_t time_ns = 0, cpu_ns = 0;
    bool blocked = false;
    std::uint64_t waited_ns = 0;
  };

  // It has been there since it began to wait, since it woke up, or, if it ran all the time, for half the time
  // since the look before.
  // `function`: the path without the place in the innermost function.
  void note(const Look& look, std::uint32_t path, std::uint32_t function);
  // The time between the two by path, the longest first; at most kMostParts, which have all of it.
  [[nodiscard]] std::vector<Part> parts(std::uint64_t begin_ns, std::uint64_t end_ns) const;

  static constexpr std::size_t kMostPlaces = 256, kMostParts = 32;

 private:
  struct Place {
    std::uint64_t from_ns;
    std::uint32_t path, function;
  };
  static constexpr std::size_t kOfBlock = 16;
  // Places are added behind those that copies know of, and never changed.
  struct Block {
    std::array<Place, kOfBlock> places{};
    std::size_t used = 0;
  };
  [[nodiscard]] std::size_t size_of(std::size_t block) const noexcept {
    return block + 1 < blocks_.size() ? blocks_[block]->used : of_last_;
  }
  template <typename Take>
  void for_each(Take take) const;
  void add(const Place& place);
  void forget_some();

  std::vector<std::shared_ptr<Block>> blocks_;  // any two neighbours have more places than fit into one
  std::size_t of_last_ = 0;                     // places of the last block
  std::size_t size_ = 0;                        // of all
  Look last_;
};

// A thread is about to end the wait of another one, or of all that wait for a word.
struct Wake {
  std::uint64_t time_ns = 0;
  std::int32_t tid = 0;
  bool all = false;
  bool taken = false;  // it has ended a wait
  PlacesOfThread places;
};

// A spin lock that was seen awaited was released at this place.
struct Release {
  std::uint64_t time_ns = 0;
  std::int32_t tid = 0;
  std::uint32_t path = 0;  // 0: not known
};

// A wait that was seen, and after which the thread was seen again.
struct EndedWait {
  RawMutexKey key;
  std::int32_t tid = 0;
  std::uint64_t seen_ns = 0, end_ns = 0;  // when it was seen waiting, and when it was seen again
  std::uint64_t before_ns = 0;            // how long it had waited at the first
  std::uint64_t wait_ns = 0;              // if nobody is known to have ended it
  // When it was seen again, it waited: for how long it had waited since it was seen first, in this wait and
  // the next one; and whether that is for the same, at the same place.
  std::uint64_t between_ns = 0;
  bool may_go_on = false;

  // It began earlier.
  void add_before(std::uint64_t time_ns) {
    before_ns += time_ns;
    wait_ns += time_ns;
  }
};

// One or more samples in a row of a thread in the loop that waits for a spin lock.
struct Spin {
  RawMutexKey key;
  std::int32_t tid = 0;
  // When it was seen there before that (0: was not) and last, and when it was seen elsewhere.
  std::uint64_t before_ns = 0, seen_ns = 0, end_ns = 0;
  RawMutexWait wait;
};

class Wakes {
 public:
  void add(std::uint64_t address, std::uint32_t offset, Wake wake);
  void add(std::uint64_t address, const Release& release);
  void ended(const EndedWait& wait);
  void spun(const Spin& spin) { spins_.push_back(spin); }
  // The first one after it was seen. A thread that had no processor when the lock was released is still seen
  // at it: then the last one before that. Null: not known.
  [[nodiscard]] const Release* find(const Spin& spin);
  // Passes on the waits that had ended by then, in the order of their ends, and what ended each; null: not
  // known. Forgets what ended waits long before. The largest time: all that there are.
  void settle(std::uint64_t until_ns, const std::function<void(const EndedWait&, const Wake*)>& take,
              const std::function<void(const Spin&)>& take_spin);
  // How many it keeps. Each takes up to 1 KiB.
  [[nodiscard]] std::size_t count() const noexcept { return wake_count_; }
  [[nodiscard]] const std::vector<EndedWait>& unsettled() const noexcept { return ended_; }
  [[nodiscard]] const std::vector<Spin>& unsettled_spins() const noexcept { return spins_; }
  // The key with the address of the object that the word is in, if somebody has woken threads there. A
  // condition has two words, which it uses in turn.
  [[nodiscard]] RawMutexKey of_object(RawMutexKey key) const;

 private:
  static constexpr std::size_t kMostWakes = 2048, kMostOffsets = 4096, kMostReleases = 65536,
                               kMostOpen = 4096;
  static constexpr std::uint32_t kMostOffset = 64;
  static constexpr std::uint64_t kKeptNs = 10'000'000'000, kReleasesKeptNs = 3'000'000'000;

  // The first one after the wait was seen that has ended no other one; null: not known.
  [[nodiscard]] const Wake* find(const EndedWait& wait);
  void settle_ended(std::uint64_t until_ns, const std::function<void(const EndedWait&, const Wake*)>& take);
  void forget_oldest();
  void forget_releases(std::uint64_t before_ns);

  std::map<std::uint64_t, std::deque<Wake>> of_word_;  // none is empty; each in the order of time
  std::size_t wake_count_ = 0;
  std::map<std::uint64_t, std::uint32_t> offsets_;  // of words in their objects
  std::vector<EndedWait> ended_;
  struct Begin {
    std::uint64_t seen_ns, before_ns;
  };
  std::unordered_map<std::int32_t, Begin>
      begins_;  // by thread, of waits that had not ended when it was known
  // Of each word in the order of time, but for what came since the last settle().
  std::unordered_map<std::uint64_t, std::vector<Release>> releases_;
  std::size_t release_count_ = 0;
  std::vector<Spin> spins_;
};

}  // namespace clusterprof::collector
