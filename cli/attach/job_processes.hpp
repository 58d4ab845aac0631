// SPDX-License-Identifier: BSD-3-Clause
// The processes of a Slurm job on this node that are its ranks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace clusterprof::cli::attach {

struct JobProcess {
  pid_t pid = 0;
  int rank = -1;
  bool uses_mpi = false;        // it has an MPI library loaded
  std::uint64_t cpu_ticks = 0;  // so far
};

// One of each rank: of those with MPI, or else of all, the one that has used most processor time. The others
// are its shell, its launcher or its helpers. Sorted by rank.
std::vector<JobProcess> choose_ranks(std::vector<JobProcess> processes);

// Of this user, by the environment that they were started with.
std::vector<JobProcess> find_job_processes(const std::string& job, const std::string& proc);

}  // namespace clusterprof::cli::attach
