// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/unrecorded.hpp"

#include <algorithm>
#include <iterator>

namespace clusterprof::report::words {
namespace {

struct Obstacle {
  std::string_view name, why, phrase;
};
constexpr Obstacle kObstacles[] = {
    {"not_visible",
     "clusterprof's files are not there below the root directory that they have (chroot, container)",
     "clusterprof's files are not there"},
    {"other_c_library", "their C library is not glibc", "another C library"},
    {"other_architecture", "they are no programs for x86-64", "no program for x86-64"},
    {"libraries_missing", "libdl.so.2 or libpthread.so.0 is missing where their loader looks",
     "libraries are missing"},
    {"static_program", "they are linked statically", "linked statically"},
    {"privileges", "they get privileges (set-user-ID, capabilities), and LD_PRELOAD is ignored then",
     "gets privileges"},
    {"other_environment", "they were started with an environment that lacks clusterprof's LD_PRELOAD",
     "environment without LD_PRELOAD"},
    {"no_memory", "their limits (ulimit -v, ulimit -f) leave no room for what is recorded",
     "limits leave no room (ulimit -v)"},
    {"ended_early", "they ended before they began to record", "ended before it began to record"},
    {"silent", "nothing came from them", "nothing came from it"},
};

const Obstacle* find(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kObstacles), std::end(kObstacles),
                                         [&](const Obstacle& reason) { return reason.name == name; });
  return found == std::end(kObstacles) ? nullptr : found;
}

}  // namespace

std::string_view why_unrecorded(std::string_view reason) {
  const Obstacle* const found = find(reason);
  return found == nullptr ? reason : found->why;
}

std::string_view unrecorded_phrase(std::string_view reason) {
  const Obstacle* const found = find(reason);
  return found == nullptr ? reason : found->phrase;
}

}  // namespace clusterprof::report::words
