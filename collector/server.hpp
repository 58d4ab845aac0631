// SPDX-License-Identifier: BSD-3-Clause
// The collector process: greets launchers and agents, drains rings on a timer, writes shards, and ends
// with the ranks of its node. See formats/wire/hello.h for the messages.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/end_patience.hpp"
#include "collector/node/node_state.hpp"

namespace clusterprof::collector {

struct ServerOptions {
  int listen_fd = -1;   // bound and listening, SOCK_SEQPACKET; taken over
  int control_fd = -1;  // to the launcher, SOCK_SEQPACKET; stays open when run() returns
  std::filesystem::path run_directory;
  int local_ranks = 0;  // 0: not known
  // The process of an MPI launcher that started the ranks of this node; 0: none. Where it may run and no rank
  // does, there the collector runs first.
  pid_t mpi_launcher = 0;
  // How long a launcher whose program failed waits for the shard.
  std::chrono::seconds end_patience = kEndPatience;
  NodeOptions node;
};

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Until the ranks of the node are gone and the shard is written. False when it could not be
  // written; the reason has been printed.
  bool run();

  // Ranks of the run with all spawned worlds; 0: not known.
  [[nodiscard]] std::uint32_t world_size() const;
  // That rank of the job was on this node.
  [[nodiscard]] bool had_rank(std::int32_t rank) const;
  // Ranks that were to come to this node and did not, as far as their number was known.
  [[nodiscard]] int absent_ranks() const;
  // A rank of this node used MPI together with others.
  [[nodiscard]] bool used_mpi() const;
  // Time since the server was made.
  [[nodiscard]] std::chrono::milliseconds age() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clusterprof::collector
