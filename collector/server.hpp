// SPDX-License-Identifier: BSD-3-Clause
// The collector's event loop: answers launchers and agents, reads the rings on a timer, writes shards, and
// ends with the ranks of its node. formats/wire/hello.h has the messages.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/checkpoint_option.hpp"
#include "base/end_patience.hpp"
#include "collector/node/node_state.hpp"
#include "formats/run/run_directory.hpp"

namespace clusterprof::collector {

// A run that is kept only if it lasts long enough. Its run directory is made when it has.
struct Trial {
  std::chrono::seconds min_duration{0};  // 0: the run directory exists
  RunDirectoryRequest request;
  JobStep step;
  int ranks = 0;         // recorded ones of the run; 0: not known
  bool explain = false;  // say why nothing is kept
};

// --hang-after
struct HangOptions {
  std::chrono::seconds after{0};  // 0: nobody has asked for it
  bool end_ranks = false;         // --hang-abort
  std::int32_t rank = 0;          // the collector on whose node this rank is has all nodes looked at
  std::string analyze;            // the program that looks
};

struct ServerOptions {
  int listen_fd = -1;                   // bound and listening, SOCK_SEQPACKET; taken over
  int control_fd = -1;                  // to the launcher, SOCK_SEQPACKET; stays open when run() returns
  std::filesystem::path run_directory;  // with a trial: the node's waiting place
  Trial trial;
  int local_ranks = 0;  // 0: not known
  // The MPI launcher's process that started the ranks of this node; 0: none. The collector prefers processors
  // where it may run and no rank may.
  pid_t mpi_launcher = 0;
  std::int32_t restart = 0;     // how often the launcher of our own rank had started it before
  std::int32_t unrecorded = 0;  // why our own rank's program will not be recorded, as in wire::Announce
  // How long the launcher of a failed program waits for the shard.
  std::chrono::seconds end_patience = kEndPatience;
  // How long the launcher of a program that has succeeded waits for the other ranks of the node, which may
  // wait for what its rank does next; 0: its rank has ended, too, and it waits as long as they live.
  std::chrono::seconds others_patience{0};
  bool light = false;       // look at rings and processes less often, outside of windows of recording
  std::uint32_t nodes = 1;  // of the job, as far as it is known
  // Of processes that were attached to: how long after all were they are let go, if nobody asks for it before;
  // 0: only then.
  std::chrono::nanoseconds attached_for{0};
  CheckpointOption checkpoint;
  double max_cpu_percent = 0;  // of one processor, that the collector may use; 0: all that it needs
  HangOptions hang;
  std::filesystem::path control_groups = "/sys/fs/cgroup";  // where they are mounted; tests have others
  NodeOptions node;
};

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Returns when the ranks of the node are gone and the shard is written, or the run was too short to be
  // kept. False if the shard could not be written; the reason has been printed.
  bool run();

  // Empty: the run was too short to be kept.
  [[nodiscard]] std::filesystem::path run_directory() const;

  // Ranks of the run, including all spawned worlds; 0: not known.
  [[nodiscard]] std::uint32_t world_size() const;
  // Whether this rank of the job was on this node.
  [[nodiscard]] bool had_rank(std::int32_t rank) const;
  // Ranks that were expected on this node and did not come; 0 if their number was not known.
  [[nodiscard]] int absent_ranks() const;
  // Whether a rank of this node used MPI together with others.
  [[nodiscard]] bool used_mpi() const;
  // Whether the site has turned recording off meanwhile.
  [[nodiscard]] bool was_turned_off() const;
  // Time since the server was made.
  [[nodiscard]] std::chrono::milliseconds age() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clusterprof::collector
