// SPDX-License-Identifier: BSD-3-Clause
// What fails in the collector, in memory that a test shares with it: see collector_faults.cpp.
#pragma once

#include <atomic>
#include <cstddef>

namespace clusterprof::test {

inline constexpr const char* kFaultsVariable = "CLUSTERPROF_TEST_FAULTS";  // the file that is mapped

struct Faults {
  std::atomic<int> renames;              // so many fail, and the file is gone
  std::atomic<std::size_t> allocations;  // of the main thread, of at least so many bytes; 0: none
  std::atomic<int> allocations_refused;
};

}  // namespace clusterprof::test
