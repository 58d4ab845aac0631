// SPDX-License-Identifier: BSD-3-Clause
// Whether a process still is the rank that its launcher process was: a program may start MPI jobs of its own,
// and those inherit its environment.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>

namespace clusterprof::wire {

// Equal in the launcher process of a rank and in what comes of it; different in a process that another
// launcher started, or MPI_Comm_spawn. `environment(name)`: a variable's value, null when unset.
template <typename Environment>
std::uint64_t launch_evidence(Environment&& environment) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325ull;  // FNV-1a
  const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100'0000'01b3ull; };
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SPAWNED", "PMI_JOBID",
        "PMI_PORT", "PMI_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID"}) {
    const char* value = environment(name);
    add(value == nullptr ? 1 : 2);
    for (; value != nullptr && *value != '\0'; ++value) add(static_cast<unsigned char>(*value));
  }
  // The connection to Hydra's proxy, whose job has no name.
  const char* connection = environment("PMI_FD");
  struct stat status;
  if (connection != nullptr && fstat(atoi(connection), &status) == 0) add(status.st_ino);
  return hash;
}

}  // namespace clusterprof::wire
