// SPDX-License-Identifier: BSD-3-Clause
// The exported functions that include/clusterprof.h and python/clusterprof call.
#include "agent/lifecycle/regions.h"
#include "agent/lifecycle/start.h"

namespace clusterprof::agent {
namespace {

constexpr RegionDomain kOwn = {0, ""};

}  // namespace
}  // namespace clusterprof::agent

extern "C" {

[[gnu::visibility("default")]] void clusterprof_region_begin_v1(const char* name, std::int64_t n) noexcept {
  clusterprof::agent::ensure_started();
  using namespace clusterprof::agent;
  begin_region(kOwn, region_name(name != nullptr ? name : ""), n);
}

[[gnu::visibility("default")]] void clusterprof_region_end_v1(const char* name) noexcept {
  using namespace clusterprof::agent;
  if (name != nullptr) return end_region(kOwn, region_name(name));
  end_region(kOwn);
}

[[gnu::visibility("default")]] void clusterprof_pause_v1() noexcept {
  clusterprof::agent::ensure_started();
  clusterprof::agent::pause_recording();
}

[[gnu::visibility("default")]] void clusterprof_resume_v1() noexcept {
  clusterprof::agent::ensure_started();
  clusterprof::agent::resume_recording();
}

}  // extern "C"
