// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/collector_start.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/secrets.hpp"
#include "cli/election.hpp"
#include "formats/wire/hello.h"

namespace clusterprof::cli::attach {
namespace {

constexpr std::chrono::seconds kPatience{10};

std::vector<std::string> words_of(const InstallLayout& layout, const Identity& identity,
                                  const Options& options, const CollectorRequest& request) {
  std::vector<std::string> words = {layout.collector,
                                    "--listen-fd",
                                    "3",
                                    "--control-fd",
                                    "4",
                                    "--run-dir=" + request.run,
                                    "--run-id=" + std::filesystem::path(request.run).filename().string(),
                                    "--node=" + identity.node,
                                    "--world-size",
                                    std::to_string(request.world_size),
                                    "--rate",
                                    std::to_string(options.rate_hz),
                                    "--clock",
                                    options.clock,
                                    "--nodes",
                                    std::to_string(request.nodes),
                                    "--attached",
                                    "--quiet"};
  if (request.lasting.count() != 0)
    words.push_back("--attached-for=" +
                    std::to_string(std::chrono::duration<double>(request.lasting).count()));
  if (options.no_mpi) words.push_back("--no-mpi");
  words.push_back("--");
  for (std::string& word : stored_command(request.command, CommandDetail::kMasked))
    words.push_back(std::move(word));
  return words;
}

[[noreturn]] void become_collector(const std::vector<std::string>& words, int listening, int control) {
  ::setsid();
  const int listening_copy = ::fcntl(listening, F_DUPFD_CLOEXEC, 10);
  const int control_copy = ::fcntl(control, F_DUPFD_CLOEXEC, 10);
  // Nobody waits for what it would say: this call has ended by then.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, standard);
  ::dup2(listening_copy, 3);
  ::dup2(control_copy, 4);
  ::closefrom(5);
  ::unsetenv("LD_PRELOAD");
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(words[0].c_str(), argv.data());
  ::_exit(127);
}

}  // namespace

Result<Collector> start_collector(const InstallLayout& layout, const Identity& identity,
                                  const Options& options, const CollectorRequest& request,
                                  const HashKey& secret) {
  const auto failed = [] {
    return Error{std::string("cannot start the collector: ") + std::strerror(errno)};
  };
  if (::access(layout.collector.c_str(), X_OK) != 0) return failed();
  Collector collector;
  collector.socket_name = collector_socket_name(secret, identity.key + "\n" + request.run, identity.node);
  auto election = elect(collector.socket_name, {}, kPatience);
  if (!election) return election.error();
  if (!election.value().listening) return Error{"another collector has this one's socket"};
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return failed();
  collector.control = UniqueFd(pair[0]);
  const UniqueFd theirs(pair[1]);
  const std::vector<std::string> words = words_of(layout, identity, options, request);
  collector.pid = ::fork();
  if (collector.pid < 0) return failed();
  if (collector.pid == 0) become_collector(words, election.value().listening.get(), theirs.get());
  return collector;
}

void tell_attached(const Collector& collector, pid_t pid, int rank) {
  const wire::Control message{wire::ControlType::kAttached, pid, rank};
  [[maybe_unused]] const ssize_t sent =
      ::send(collector.control.get(), &message, sizeof message, MSG_NOSIGNAL);
}

}  // namespace clusterprof::cli::attach
