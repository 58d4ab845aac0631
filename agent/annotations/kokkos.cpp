// SPDX-License-Identifier: BSD-3-Clause
// Kernels, fences, copies and regions of Kokkos as regions, and the memory of its views. Kokkos loads the
// library that KOKKOS_TOOLS_LIBS names (before version 4 KOKKOS_PROFILE_LIBRARY) and calls what it finds
// there. A kernel's call begins and ends on one thread.
#include <cstdint>

#include "agent/annotations/domains.h"
#include "agent/lifecycle/labelled_memory.h"
#include "agent/lifecycle/start.h"

namespace clusterprof::agent {
namespace {

struct Space {
  char name[64];
};

RegionName plain(const char* name) noexcept { return region_name(name != nullptr ? name : ""); }

// The number that Kokkos keeps for us is the hash of the name.
void begin(const char* name, std::uint64_t* kept) noexcept {
  const RegionName known = plain(name);
  begin_region(kKokkos, known, kNoNumber);
  if (kept != nullptr) *kept = known.hash;
}
void end(std::uint64_t kept) noexcept { end_region(kKokkos, {"", kept}); }

constexpr const char* kDeepCopy = "deep_copy";

}  // namespace
}  // namespace clusterprof::agent

#define CLUSTERPROF_EXPORTED extern "C" [[gnu::visibility("default")]]

CLUSTERPROF_EXPORTED void kokkosp_init_library(int, std::uint64_t, std::uint32_t, void*) {
  clusterprof::agent::ensure_started();
}
CLUSTERPROF_EXPORTED void kokkosp_finalize_library() {}

CLUSTERPROF_EXPORTED void kokkosp_begin_parallel_for(const char* name, std::uint32_t, std::uint64_t* kept) {
  clusterprof::agent::begin(name, kept);
}
CLUSTERPROF_EXPORTED void kokkosp_end_parallel_for(std::uint64_t kept) { clusterprof::agent::end(kept); }
CLUSTERPROF_EXPORTED void kokkosp_begin_parallel_reduce(const char* name, std::uint32_t,
                                                        std::uint64_t* kept) {
  clusterprof::agent::begin(name, kept);
}
CLUSTERPROF_EXPORTED void kokkosp_end_parallel_reduce(std::uint64_t kept) { clusterprof::agent::end(kept); }
CLUSTERPROF_EXPORTED void kokkosp_begin_parallel_scan(const char* name, std::uint32_t, std::uint64_t* kept) {
  clusterprof::agent::begin(name, kept);
}
CLUSTERPROF_EXPORTED void kokkosp_end_parallel_scan(std::uint64_t kept) { clusterprof::agent::end(kept); }
CLUSTERPROF_EXPORTED void kokkosp_begin_fence(const char* name, std::uint32_t, std::uint64_t* kept) {
  clusterprof::agent::begin(name, kept);
}
CLUSTERPROF_EXPORTED void kokkosp_end_fence(std::uint64_t kept) { clusterprof::agent::end(kept); }

CLUSTERPROF_EXPORTED void kokkosp_begin_deep_copy(clusterprof::agent::Space to, const char*, const void*,
                                                  clusterprof::agent::Space from, const char*, const void*,
                                                  std::uint64_t bytes) {
  using namespace clusterprof::agent;
  note_labelled_copy(to.name, from.name, bytes);
  begin_region(kKokkos, region_name(kDeepCopy), static_cast<std::int64_t>(bytes));
}
CLUSTERPROF_EXPORTED void kokkosp_end_deep_copy() {
  using namespace clusterprof::agent;
  end_region(kKokkos, region_name(kDeepCopy));
}

CLUSTERPROF_EXPORTED void kokkosp_allocate_data(clusterprof::agent::Space space, const char* label,
                                                const void*, std::uint64_t bytes) {
  clusterprof::agent::note_labelled_allocation(space.name, label, bytes);
}
CLUSTERPROF_EXPORTED void kokkosp_deallocate_data(clusterprof::agent::Space space, const char* label,
                                                  const void*, std::uint64_t bytes) {
  clusterprof::agent::note_labelled_free(space.name, label, bytes);
}

CLUSTERPROF_EXPORTED void kokkosp_push_profile_region(const char* name) {
  using namespace clusterprof::agent;
  begin_region(kKokkos, plain(name), kNoNumber);
}
CLUSTERPROF_EXPORTED void kokkosp_pop_profile_region() {
  using namespace clusterprof::agent;
  end_region(kKokkos);
}
