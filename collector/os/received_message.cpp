// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/received_message.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace clusterprof::collector {

ReceivedMessage receive(int socket) {
  ReceivedMessage message;
  iovec part{message.data, sizeof message.data};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  do {
    message.bytes = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (message.bytes < 0 && errno == EINTR);
  if (message.bytes < 0) {
    message.would_block = errno == EAGAIN || errno == EWOULDBLOCK;
    return message;
  }
  message.cut = (header.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      UniqueFd file(fd);  // all but one are closed here
      if (!message.file) message.file = std::move(file);
    }
  }
  return message;
}

}  // namespace clusterprof::collector
