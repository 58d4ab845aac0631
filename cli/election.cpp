// SPDX-License-Identifier: BSD-3-Clause
#include "cli/election.hpp"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <thread>

#include "base/hex_hash.hpp"
#include "cli/identity.hpp"

namespace clusterprof::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Address {
  sockaddr_un data{};
  socklen_t length = 0;
};

Address abstract_address(const std::string& name) {
  Address address;
  address.data.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.data.sun_path - 1);
  std::memcpy(address.data.sun_path + 1, name.data(), length);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.data); }

UniqueFd new_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

Error failed(const char* what, int error) { return Error{std::string(what) + ": " + std::strerror(error)}; }

enum class Attempt { kAccepted, kNotRecorded, kGone };  // kGone: nobody listens (any more)

// With a descriptor of this process for a collector of another PID namespace: see hello.h.
bool send_announcement(int socket, const Announcement& announcement, bool collector_is_elsewhere) {
  const UniqueFd self(collector_is_elsewhere ? static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))
                                             : -1);
  Announcement copy = announcement;
  iovec parts[] = {{&copy.process, sizeof copy.process}, {copy.command.data(), copy.command.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = std::size(parts);
  if (self) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int file = self.get();
    std::memcpy(CMSG_DATA(rights), &file, sizeof file);
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof copy.process + copy.command.size());
}

Result<Attempt> try_announce(const std::string& name, const Announcement& announcement,
                             Clock::time_point deadline) {
  const UniqueFd socket = new_socket();
  if (!socket) return failed("cannot make a socket", errno);
  // connect() itself waits here when the collector has not come to accept the others yet.
  const auto left = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count());
  const timeval limit{left / 1000000, left % 1000000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);

  const Address address = abstract_address(name);
  if (::connect(socket.get(), generic(address), address.length) != 0) {
    if (errno == ECONNREFUSED || errno == ECONNRESET) return Attempt::kGone;
    return failed("cannot reach this node's collector", errno);
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return failed("cannot see who this node's collector is", errno);
  }
  if (peer.uid != ::geteuid()) {
    return Error{"the socket of this node's collector is held by another user (uid " +
                 std::to_string(peer.uid) + ")"};
  }
  if (!send_announcement(socket.get(), announcement, peer.pid == 0)) {
    if (errno == EPIPE || errno == ECONNRESET) return Attempt::kGone;
    return failed("cannot reach this node's collector", errno);
  }
  std::uint8_t answer = 0;
  const ssize_t got = ::recv(socket.get(), &answer, 1, 0);
  if (got == 1 && answer == wire::kAnnounceAccepted) return Attempt::kAccepted;
  if (got == 1 && answer == wire::kAnnounceUnseen) return Attempt::kNotRecorded;
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return Attempt::kGone;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return Error{"this node's collector does not answer"};
  if (got < 0) return failed("cannot reach this node's collector", errno);
  return Error{"this node's collector refuses this version of clusterprof"};
}

}  // namespace

std::string collector_socket_name(const HashKey& secret, const std::string& run, const std::string& node) {
  return "clusterprof/" + std::to_string(::geteuid()) + "/" + as_hex(keyed_hash(secret, run + '\n' + node));
}

Result<ElectionResult> elect(const std::string& socket_name, const Announcement& announcement,
                             std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  const Address address = abstract_address(socket_name);
  do {
    UniqueFd socket = new_socket();
    if (!socket) return failed("cannot make a socket", errno);
    if (::bind(socket.get(), generic(address), address.length) == 0) {
      if (::listen(socket.get(), SOMAXCONN) != 0) return failed("cannot listen on a socket", errno);
      return ElectionResult{std::move(socket)};
    }
    if (errno != EADDRINUSE) return failed("cannot bind a socket", errno);
    const auto attempt = try_announce(socket_name, announcement, deadline);
    if (!attempt) return attempt.error();
    if (attempt.value() != Attempt::kGone)
      return ElectionResult{{}, attempt.value() == Attempt::kNotRecorded};
    // Bound but not listening yet, or just gone: try both again.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (Clock::now() < deadline);
  return Error{"this node's collector does not answer"};
}

Result<void> announce_to(const std::string& socket_name, const Announcement& announcement,
                         std::chrono::milliseconds patience) {
  const auto attempt = try_announce(socket_name, announcement, Clock::now() + patience);
  if (!attempt) return attempt.error();
  if (attempt.value() == Attempt::kGone) return Error{"this node's collector has ended"};
  if (attempt.value() == Attempt::kNotRecorded) return Error{"this node's collector cannot see this process"};
  return {};
}

}  // namespace clusterprof::cli
