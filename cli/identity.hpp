// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/run/run_directory.hpp"

namespace clusterprof::cli {

// Returns the value of an environment variable, nullptr when unset. It is a parameter so that tests can pose
// as any job.
using Environment = std::function<const char*(const char* name)>;
// Whether one of these variables is set.
inline bool any_set(const Environment& environment, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return environment(name) != nullptr; });
}
Environment process_environment();

// The processes above this one. Also a parameter.
struct Ancestor {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // since boot
  std::string command_line;       // a null after each word
};
struct Ancestry {
  std::function<std::optional<Ancestor>(int level)> at;  // 0: the parent
  // What the process was started with, a null after each variable. Empty: it may not be read.
  std::function<std::string(pid_t)> environment;
};
Ancestry process_ancestry();

// This process's identity in its job, from the environment that the launcher set; no communication. -1 means
// unknown.
struct Identity : JobStep {
  int rank = -1;        // in its world
  int world_size = -1;  // of its world
  // The first rank of its world in the run, and the world's number: 0 unless MPI_Comm_spawn made it in a
  // recorded process. Then the key is that of the run, too.
  int first_rank = 0;
  int world = 0;
  int local_rank = -1;
  int local_size = -1;
  std::string node;
  std::string launcher;  // name in formats/wire/launchers.h; empty: none
  // Of ranks that their launcher may start again in the same run: the same for those started together, as far
  // as the environment tells (wire::WorkerRank). 0: this one is started once.
  std::uint64_t launch = 0;
  int restart = 0;  // how often its launcher had started this rank before, in this run
  // The process above this one has the same rank, as a script that starts several programs. Its launcher
  // waits for that one, which may go on when this one has ended.
  bool is_below_rank = false;

  // The rank's number in the run.
  [[nodiscard]] int run_rank() const { return rank < 0 ? rank : first_rank + rank; }
  // The number of ranks in the run up to and including this world.
  [[nodiscard]] int run_size() const { return world_size < 0 ? world_size : first_rank + world_size; }

  // Whether this process prints messages that would be the same on every rank.
  [[nodiscard]] bool speaks_for_all() const { return rank <= 0; }
  // Whether this process prints messages that may differ from node to node.
  [[nodiscard]] bool speaks_for_node() const { return rank <= 0 || local_rank == 0; }
};

// Fails when CLUSTERPROF_NODE is no file name.
Result<Identity> identify(const Environment& environment, const Ancestry& ancestry = process_ancestry());

// For the agent, which looks for ranks below this process: what wire::kLaunchVariable is set to.
std::string launch_words(const Environment& environment, const Ancestry& ancestry = process_ancestry());

// Describes a world that a recorded process spawns: "KEY:WORLD:FIRST".
struct SpawnedAs {
  std::string key;
  int world = 0;  // 0: this one was not
  int first_rank = 0;
};
// Returns false when the text has another form.
bool parse_spawned_as(const std::string& text, SpawnedAs& out);
// Adds a process that knows its rank in its world to that world of the run. Fails without a rank.
Result<void> join_run(const SpawnedAs& spawned, Identity& identity);

// The process id of the MPI launcher above this process, or of the launcher's daemon on this node; of nested
// ones, the outermost. 0: none, as under srun. Searched only where the environment has variables that such a
// launcher sets.
pid_t find_mpi_launcher(const Environment& environment);

// --- parts, for tests ---

// The common part of all processes of one Hydra job (MPICH, Intel MPI, MVAPICH): the address that their
// node's proxy reports to, from the proxy's command line. Empty if that is no such proxy.
std::string hydra_job(const std::vector<std::string>& arguments);

// Slurm's "2(x3),1" form: how many tasks on the index-th node, -1 if it does not say.
int slurm_tasks_on_node(const std::string& tasks_per_node, int index);

}  // namespace clusterprof::cli
