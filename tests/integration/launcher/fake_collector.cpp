// SPDX-License-Identifier: BSD-3-Clause
// Stands in for the collector: greets launchers, watches their processes, waits for the ranks that it was told of, and
// writes what happened to RUN/events-NODE, a line each. FAKE_COLLECTOR in the environment:
//   die      ends at once with status 9
//   mute     never answers an announcement
//   release  releases the launcher when its program has ended, lives FAKE_COLLECTOR_SECONDS (2) longer
//   hang     does not end when everybody is gone, until the launcher is gone too
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "formats/wire/hello.h"
#include "formats/wire/segment.h"

namespace wire = clusterprof::wire;

namespace {

int events = -1;

void note(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(events, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::perror("events");
}

std::string argument(int argc, char** argv, const char* name) {
  for (int i = 1; i + 1 < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
    const std::size_t length = std::strlen(name);
    if (std::strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') return argv[i] + length + 1;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const char* const wanted = std::getenv("FAKE_COLLECTOR");
  const std::string mode = wanted == nullptr ? "" : wanted;
  const int listening = std::atoi(argument(argc, argv, "--listen-fd").c_str());
  const int control = std::atoi(argument(argc, argv, "--control-fd").c_str());
  const std::string node = argument(argc, argv, "--node");
  const int local_ranks = std::atoi(argument(argc, argv, "--local-ranks").c_str());
  const auto expected_ranks = static_cast<std::size_t>(
      local_ranks > 0 ? local_ranks : std::atoi(argument(argc, argv, "--wait-ranks").c_str()));
  events = ::open((argument(argc, argv, "--run-dir") + "/events-" + node).c_str(),
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  std::string start = "start session=" + std::to_string(::getsid(0) == ::getpid());
  int open_files = 0;
  for (int fd = 0; fd < 256; ++fd) open_files += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  start += " files=" + std::to_string(open_files);
  start +=
      std::string(" preload=") + (std::getenv("LD_PRELOAD") == nullptr ? "none" : std::getenv("LD_PRELOAD"));
  for (int i = 1; i < argc; ++i) start += std::string(" ") + argv[i];
  note(start);
  if (mode == "die") return 9;

  std::vector<pollfd> watched = {{control, POLLIN, 0}, {listening, POLLIN, 0}};
  std::vector<int> kept;  // connections of the mute kind
  bool child_known = false, child_gone = false;
  int waits_for = 0;
  std::set<std::int32_t> ranks;
  while (true) {
    const bool done = child_known && child_gone && waits_for == 0 && mode != "hang";
    // For launchers that are just coming, as the collector does: longer if they are known to come.
    const int patience_ms = ranks.size() < expected_ranks ? 10'000 : 30;
    const int ready = ::poll(watched.data(), watched.size(), done ? patience_ms : -1);
    if (ready == 0) break;
    if (watched[0].revents != 0) {
      wire::Control message{};
      const ssize_t got = ::recv(control, &message, sizeof message, 0);
      if (got <= 0) {
        note("launcher gone");
        if (!child_known || mode == "hang") break;
        watched[0].fd = -1;
        child_gone = true;
      } else if (message.type == wire::ControlType::kChildStarted) {
        child_known = true;
        ranks.insert(message.b);
        note("started " + std::to_string(message.a) + " rank=" + std::to_string(message.b));
      } else if (message.type == wire::ControlType::kChildExited) {
        child_gone = true;
        note("exited " + std::to_string(message.a) + " status=" + std::to_string(message.b));
        if (mode == "release") {
          const wire::Control release{wire::ControlType::kRelease, 0, 0};
          if (::send(control, &release, sizeof release, 0) < 0) std::perror("release");
          const char* const seconds = std::getenv("FAKE_COLLECTOR_SECONDS");
          ::sleep(seconds == nullptr ? 2 : static_cast<unsigned>(std::atoi(seconds)));
          return 0;
        }
      }
    }
    if (watched[1].revents != 0) {
      const int peer = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
      wire::Announce hello{};
      if (peer >= 0 && ::recv(peer, &hello, sizeof hello, 0) == static_cast<ssize_t>(sizeof hello) &&
          hello.magic == wire::kAnnounceMagic && hello.wire_major == wire::kWireMajor) {
        note("announced " + std::to_string(hello.pid) + " rank=" + std::to_string(hello.rank) +
             " of=" + std::to_string(hello.world_size) + " local=" + std::to_string(hello.local_size));
        ranks.insert(hello.rank);
        if (mode == "mute") {
          kept.push_back(peer);
          continue;
        }
        ucred credentials{};
        socklen_t size = sizeof credentials;
        ::getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &credentials, &size);
        const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, credentials.pid, 0));
        if (pidfd >= 0) {
          watched.push_back({pidfd, POLLIN, 0});
          ++waits_for;
        }
        const std::uint8_t answer = wire::kAnnounceAccepted;
        if (::send(peer, &answer, 1, MSG_NOSIGNAL) != 1) std::perror("answer");
      }
      if (peer >= 0) ::close(peer);
    }
    for (std::size_t i = 2; i < watched.size(); ++i) {
      if (watched[i].fd >= 0 && watched[i].revents != 0) {
        ::close(watched[i].fd);
        watched[i].fd = -1;
        --waits_for;
      }
    }
  }
  const wire::Control seen{wire::ControlType::kRanksSeen, static_cast<std::int32_t>(ranks.size()), 0};
  if (::send(control, &seen, sizeof seen, MSG_NOSIGNAL) < 0 && errno != EPIPE) std::perror("ranks seen");
  note("end");
  return 0;
}
