// SPDX-License-Identifier: BSD-3-Clause
// What every fork writes to in the child, or in the parent, lies together in one section of the object, so
// that few pages have to be copied: each costs 2 to 3 us. These variables are small. What is large, or seldom
// has to be changed there, is compared first and written to only if it is different (store_if_other).
#pragma once

#include <atomic>

#define CLUSTERPROF_WRITTEN_BY_FORKS [[gnu::section("clusterprof_forks")]]

namespace clusterprof::agent {

template <typename T>
void store_if_other(std::atomic<T>& place, T value) noexcept {
  if (place.load(std::memory_order_relaxed) != value) place.store(value, std::memory_order_relaxed);
}

}  // namespace clusterprof::agent
