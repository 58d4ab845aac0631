// SPDX-License-Identifier: BSD-3-Clause
// Handle to object, fixed capacity, linear probing. Zeroed memory is an empty map.
// find() takes no lock and may run beside insert() and erase() of OTHER handles: MPI does not
// let a program use a handle while another thread frees it. Writers hold the caller's lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "mpi-wrap/src/hash.hpp"

namespace clusterprof::mpi_wrap {

template <typename Object, std::uint32_t kCapacity>
class HandleMap {
 public:
  // A null handle is no key: MPI_FILE_NULL of MPICH is 0.
  Object* find(std::uint64_t key) const noexcept {
    if (key <= kErased) return nullptr;
    for (std::uint32_t i = slot_of(mix(key), kCapacity), n = 0; n < kCapacity; ++n, i = next(i)) {
      const std::uint64_t there = slots_[i].key.load(std::memory_order_acquire);
      if (there == key) return slots_[i].object.load(std::memory_order_relaxed);
      if (there == kFree) return nullptr;
    }
    return nullptr;
  }

  // Replaces what the key had; returns that, or null. `full` tells that it was not inserted.
  Object* insert(std::uint64_t key, Object* object, bool& full) noexcept {
    full = false;
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

  // Returns what the key had, or null.
  Object* erase(std::uint64_t key) noexcept {
    if (key <= kErased) return nullptr;
    for (std::uint32_t i = slot_of(mix(key), kCapacity), n = 0; n < kCapacity; ++n, i = next(i)) {
      const std::uint64_t there = slots_[i].key.load(std::memory_order_relaxed);
      if (there == kFree) return nullptr;
      if (there != key) continue;
      Object* object = slots_[i].object.load(std::memory_order_relaxed);
      // The end of a run of slots can become free again, and with it what was erased before it.
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
