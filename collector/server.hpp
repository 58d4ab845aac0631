// SPDX-License-Identifier: BSD-3-Clause
// The collector process: greets launchers and agents, drains rings on a timer, writes shards, and ends
// with the ranks of its node. See formats/wire/hello.h for the messages.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "collector/node_state.hpp"

namespace clusterprof::collector {

struct ServerOptions {
  int listen_fd = -1;   // bound and listening, SOCK_SEQPACKET; taken over
  int control_fd = -1;  // to the launcher, SOCK_SEQPACKET; stays open when run() returns
  std::filesystem::path run_directory;
  int local_ranks = 0;  // 0: not known
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

  // The job's rank 0 was on this node.
  [[nodiscard]] bool had_rank_zero() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clusterprof::collector
