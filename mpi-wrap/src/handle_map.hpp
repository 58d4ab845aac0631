// SPDX-License-Identifier: BSD-3-Clause
// Maps handles to objects. Fixed capacity, linear probing. Zeroed memory is an empty map. find() takes no
// lock and may run at the same time as insert() and erase() of OTHER handles: MPI does not let a program use
// a handle while another thread frees it. Writers hold a lock of the caller.
#pragma once

#include <atomic>
#include <cstdint>

#include "mpi-wrap/src/hash.hpp"

namespace clusterprof::mpi_wrap {

template <typename Object, std::uint32_t kCapacity>
class HandleMap {
 public:
  // A null handle is not a key: MPICH's MPI_FILE_NULL is 0.
  Object* find(std::uint64_t key) const noexcept {
    if (key <= kErased) return nullptr;
    for (std::uint32_t i = slot_of(mix(key), kCapacity), n = 0; n < kCapacity; ++n, i = next(i)) {
      const std::uint64_t there = slots_[i].key.load(std::memory_order_acquire);
      if (there == key) return slots_[i].object.load(std::memory_order_relaxed);
      if (there == kFree) return nullptr;
    }
    return nullptr;
  }

  // Replaces the key's object and returns the old one, or null. `full` is set if the key was not inserted:
  // there is no room, or the handle is null.
  Object* insert(std::uint64_t key, Object* object, bool& full) noexcept {
    full = key <= kErased;
    if (full) return nullptr;
    std::uint32_t chosen = kCapacity;
    for (std::uint32_t i = slot_of(mix(key), kCapacity), n = 0; n < kCapacity; ++n, i = next(i)) {
      const std::uint64_t there = slots_[i].key.load(std::memory_order_relaxed);
      if (there == key) return slots_[i].object.exchange(object, std::memory_order_acq_rel);
      if (there == kErased && chosen == kCapacity) chosen = i;
      if (there == kFree) {
        if (chosen == kCapacity) chosen = i;
        break;
      }
    }
    if (chosen == kCapacity) {
      full = true;
      return nullptr;
    }
    slots_[chosen].object.store(object, std::memory_order_relaxed);
    slots_[chosen].key.store(key, std::memory_order_release);
    return nullptr;
  }

  // Returns the key's object, or null.
  Object* erase(std::uint64_t key) noexcept {
    if (key <= kErased) return nullptr;
    for (std::uint32_t i = slot_of(mix(key), kCapacity), n = 0; n < kCapacity; ++n, i = next(i)) {
      const std::uint64_t there = slots_[i].key.load(std::memory_order_relaxed);
      if (there == kFree) return nullptr;
      if (there != key) continue;
      Object* object = slots_[i].object.load(std::memory_order_relaxed);
      // The last slot of a run can become free again, together with erased slots directly before it.
      if (slots_[next(i)].key.load(std::memory_order_relaxed) != kFree) {
        slots_[i].key.store(kErased, std::memory_order_release);
        return object;
      }
      slots_[i].key.store(kFree, std::memory_order_release);
      for (std::uint32_t j = previous(i); slots_[j].key.load(std::memory_order_relaxed) == kErased;
           j = previous(j)) {
        slots_[j].key.store(kFree, std::memory_order_release);
      }
      return object;
    }
    return nullptr;
  }

  // Calls act(object) for each key and forgets all. find() may run at the same time.
  template <typename Act>
  void clear(Act act) noexcept {
    for (Slot& slot : slots_) {
      const std::uint64_t key = slot.key.load(std::memory_order_relaxed);
      if (key > kErased) act(slot.object.load(std::memory_order_relaxed));
      if (key != kFree) slot.key.store(kFree, std::memory_order_release);
    }
  }

 private:
  static constexpr std::uint64_t kFree = 0, kErased = 1;
  struct Slot {
    std::atomic<std::uint64_t> key;
    std::atomic<Object*> object;
  };
  static std::uint32_t next(std::uint32_t i) noexcept { return i + 1 == kCapacity ? 0 : i + 1; }
  static std::uint32_t previous(std::uint32_t i) noexcept { return i == 0 ? kCapacity - 1 : i - 1; }

  Slot slots_[kCapacity];
};

}  // namespace clusterprof::mpi_wrap
