// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace clusterprof::collector {
namespace {

constexpr std::chrono::milliseconds kRetryInterval{100};  // when there are no file descriptors left
constexpr int kMaxAtOnce = 8192;                          // a process may connect without end
constexpr int kSpareFiles = 24;  // for shards, and for the programs whose symbols are read

}  // namespace

Listener::Listener(boost::asio::io_context& io, int listen_fd, Handlers handlers)
    : handlers_(std::move(handlers)), listen_fd_(listen_fd), listen_(io, listen_fd), retry_timer_(io) {
  (void)fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK);
  (void)fcntl(listen_fd, F_SETFD, FD_CLOEXEC);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) file_limit_ = files.rlim_cur;
}

void Listener::start() {
  const auto accept_and_restart = [this](const boost::system::error_code& error) {
    if (error) return;
    accept_all();
    start();
  };
  if (no_files_left_) {  // the socket stays readable, so waiting for it would not wait
    retry_timer_.expires_after(kRetryInterval);
    retry_timer_.async_wait(accept_and_restart);
  } else {
    listen_.async_wait(boost::asio::posix::stream_descriptor::wait_read, accept_and_restart);
  }
}

// A connection may bring two more files.
bool Listener::has_files_left() const {
  const UniqueFd lowest_free(fcntl(listen_fd_, F_DUPFD_CLOEXEC, 0));
  return lowest_free && static_cast<rlim_t>(lowest_free.get()) + kSpareFiles < file_limit_;
}

void Listener::accept_all() {
  for (int i = 0; i < kMaxAtOnce; ++i) {
    no_files_left_ = !has_files_left();
    if (no_files_left_) {
      handlers_.refused(shard::NoteCode::kTooManyFiles, file_limit_);
      return;
    }
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      no_files_left_ = true;  // in the whole system, or no memory
      handlers_.refused(shard::NoteCode::kConnectionFailed, static_cast<std::uint64_t>(errno));
      return;
    }
    UniqueFd socket(fd);
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) continue;
    if (peer.uid != geteuid() && peer.uid != 0) {
      handlers_.refused(shard::NoteCode::kOtherUser, peer.uid);
      continue;
    }
    handlers_.connected(std::move(socket), peer.pid);
  }
}

}  // namespace clusterprof::collector
