// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/launcher_channel.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "collector/os/received_message.hpp"

namespace clusterprof::collector {

LauncherChannel::LauncherChannel(boost::asio::io_context& io, int fd, Handlers handlers)
    : handlers_(std::move(handlers)), fd_(fd) {
  if (fd < 0) return;
  // Programs that run beside must not keep the launcher waiting.
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  descriptor_.emplace(io, fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

void LauncherChannel::start() {
  if (!descriptor_) return;
  descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [this](const boost::system::error_code& error) {
                            if (error) return;
                            read_all();
                            start();
                          });
}

void LauncherChannel::read_all() {
  for (;;) {
    const ReceivedMessage message = receive(descriptor_->native_handle());
    if (message.would_block) return;
    if (message.bytes <= 0) {
      descriptor_.reset();
      handlers_.closed();
      return;
    }
    wire::Control control{};
    if (message.bytes < static_cast<ssize_t>(sizeof control)) continue;
    std::memcpy(&control, message.data, sizeof control);
    handlers_.received(control);
  }
}

void LauncherChannel::send(wire::ControlType type, std::int32_t value) const {
  if (fd_ < 0) return;
  const wire::Control message{type, value, 0};
  (void)::send(fd_, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace clusterprof::collector
