// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

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
  int rank = -1;        // in its world
  int world_size = -1;  // of its world
  // The first rank of its world in the run, and the world's number: 0 unless MPI_Comm_spawn made it in a
  // recorded process. Then the key is that of the run, too.
  int first_rank = 0;
  int world = 0;
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
  // What users call the job step ("1234.0", "1234_7.0" in an array, "1234" under mpirun), for names; empty:
  // none.
  std::string batch_name;
  // The same by the number of its own that the batch system has for a job of an array.
  std::string batch_id;

  // In the run.
  [[nodiscard]] int run_rank() const { return rank < 0 ? rank : first_rank + rank; }
  // How many ranks the run has with this world, as far as it is concerned.
  [[nodiscard]] int run_size() const { return world_size < 0 ? world_size : first_rank + world_size; }

  // Messages that would be the same on every rank are for one rank only.
  [[nodiscard]] bool speaks_for_all() const { return rank <= 0; }
  // The same, for what may differ from node to node.
  [[nodiscard]] bool speaks_for_node() const { return rank <= 0 || local_rank == 0; }
};

// Fails when CLUSTERPROF_NODE is no file name.
Result<Identity> identify(const Environment& environment);

// What a recorded process says of a world that it spawns: "KEY:WORLD:FIRST".
struct SpawnedAs {
  std::string key;
  int world = 0;  // 0: this one was not
  int first_rank = 0;
};
// False when it is no such text.
bool parse_spawned_as(const std::string& text, SpawnedAs& out);
// A process that found out who it is in its world is one of that world of the run. Fails without a rank.
Result<void> join_run(const SpawnedAs& spawned, Identity& identity);

// The MPI launcher above this process, or its daemon on this node: of several, one below the other, the
// outermost. 0: none, as under srun. Looked for only where the environment has what such a one sets.
pid_t find_mpi_launcher(const Environment& environment);

// --- parts, for tests ---

// 64-bit FNV-1a with a final mix, as 16 hex digits.
std::string hex_hash(const std::string& text);

// What all processes of one Hydra job (MPICH, Intel MPI, MVAPICH) have in common: the address
// their node's proxy reports to, from the proxy's command line; empty if that is no such proxy.
std::string hydra_job(const std::vector<std::string>& arguments);

// Slurm's "2(x3),1" form: how many tasks on the index-th node, -1 if it does not say.
int slurm_tasks_on_node(const std::string& tasks_per_node, int index);

}  // namespace clusterprof::cli
