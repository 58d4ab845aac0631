// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>

#include "base/unique_fd.hpp"
#include "formats/shard/note.hpp"

namespace clusterprof::collector {

// Accepts the connections of launchers and agents: those of this user and of root. Keeps some file
// descriptors free, and tries again later when there are none left.
class Listener {
 public:
  struct Handlers {
    std::function<void(UniqueFd socket, pid_t peer)> connected;
    // A connection that could not be accepted.
    std::function<void(shard::NoteCode code, std::uint64_t number)> refused;
  };
  // listen_fd: bound and listening, SOCK_SEQPACKET; taken over.
  Listener(boost::asio::io_context& io, int listen_fd, Handlers handlers);

  void start();
  // Accepts what is waiting now.
  void accept_all();
  void close() { listen_.close(); }

 private:
  [[nodiscard]] bool has_files_left() const;

  Handlers handlers_;
  int listen_fd_;
  boost::asio::posix::stream_descriptor listen_;
  boost::asio::steady_timer retry_timer_;
  rlim_t file_limit_ = RLIM_INFINITY;
  bool no_files_left_ = false;
};

}  // namespace clusterprof::collector
