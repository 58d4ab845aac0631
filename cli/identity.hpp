// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace clusterprof::cli {

// Value of an environment variable, nullptr when unset. A parameter, so that tests can be any job.
using Environment = std::function<const char*(const char* name)>;
Environment process_environment();

// Who this process is in its job, from what the launcher left in the environment; no
// communication. -1 stands for unknown.
struct Identity {
  int rank = -1;
  int world_size = -1;
  int local_rank = -1;
  int local_size = -1;
  std::string node;

  // Equal on all ranks of one job step, different for any other: 16 hex digits with a prefix that
  // says where it is from ("openmpi-...", "slurm-...", "hydra-...", "single-...").
  std::string key;
  // Other processes may have the same key. False: a run of one process; the key is random.
  bool has_peers = false;
  // The key is made of something the system may reuse (a port number, a process id): whatever
  // bears it and is older than this (Unix time) is of another job. 0: the key is never reused.
  std::int64_t job_start_unix_s = 0;
  // What the batch system calls the job step ("1234.0", "1234"), for names; empty: none.
  std::string batch_name;

  // Messages that would be the same on every rank are for one rank only.
  [[nodiscard]] bool speaks_for_all() const { return rank <= 0; }
  // The same, for what may differ from node to node.
  [[nodiscard]] bool speaks_for_node() const { return rank <= 0 || local_rank == 0; }
};

// Fails when CLUSTERPROF_NODE is no file name.
Result<Identity> identify(const Environment& environment);

// --- parts, for tests ---

// 64-bit FNV-1a with a final mix, as 16 hex digits.
std::string hex_hash(const std::string& text);

// What all processes of one Hydra job (MPICH, Intel MPI, MVAPICH) have in common: the address
// their node's proxy reports to, from the proxy's command line; empty if that is no such proxy.
std::string hydra_job(const std::vector<std::string>& arguments);

// Slurm's "2(x3),1" form: how many tasks on the index-th node, -1 if it does not say.
int slurm_tasks_on_node(const std::string& tasks_per_node, int index);

}  // namespace clusterprof::cli
