// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <optional>

#include "formats/wire/hello.h"

namespace clusterprof::collector {

// The connection to the launcher that started this collector (wire::Control in formats/wire/hello.h).
class LauncherChannel {
 public:
  struct Handlers {
    std::function<void(const wire::Control& message)> received;
    std::function<void()> closed;  // the launcher has ended
  };
  // fd: SOCK_SEQPACKET; -1 without a launcher. Stays open when this is destroyed.
  LauncherChannel(boost::asio::io_context& io, int fd, Handlers handlers);

  void start();
  // False without a launcher, and when it has ended.
  [[nodiscard]] bool connected() const { return descriptor_.has_value(); }
  void send(wire::ControlType type, std::int32_t value) const;

 private:
  void read_all();

  Handlers handlers_;
  int fd_;
  // A copy of fd_ to wait on. The program that prints the banner inherits fd_ itself.
  std::optional<boost::asio::posix::stream_descriptor> descriptor_;
};

}  // namespace clusterprof::collector
