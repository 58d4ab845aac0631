// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>

namespace clusterprof::collector {

// Frees what libraries of C have allocated for their caller.
struct Freer {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

}  // namespace clusterprof::collector
