// SPDX-License-Identifier: BSD-3-Clause
// A Team of forked processes, for tests.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "aggregator/team.hpp"

namespace clusterprof::testing {

// A send returns when the receiver has taken all of it, as between real members. So two members that wait for
// each other hang here, too.
class ForkedTeam final : public aggregator::Team {
 public:
  // Runs `work` in `size` processes; this one is member 0. The others return their result as exit status, and
  // the highest of these is returned.
  static int run(int size, const std::function<int(aggregator::Team&)>& work) {
    ForkedTeam team(size);
    std::vector<::pid_t> children;
    for (int member = 1; member < size; ++member) {
      const ::pid_t child = ::fork();
      if (child < 0) throw std::runtime_error("fork failed");
      if (child == 0) {
        ::alarm(100);  // do not live on when the parent fails
        team.member_ = member;
        std::_Exit(work(team));
      }
      children.push_back(child);
    }
    int highest = work(team);
    for (const ::pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      highest = std::max(highest, WIFEXITED(status) ? WEXITSTATUS(status) : 100);
    }
    return highest;
  }

  ForkedTeam(const ForkedTeam&) = delete;
  ForkedTeam& operator=(const ForkedTeam&) = delete;

  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int member() const override { return member_; }
  void broadcast(aggregator::Bytes& bytes) override {
    if (member_ != 0) {
      bytes = receive(0);
      return;
    }
    for (int to = 1; to < size_; ++to) send(to, bytes);
  }
  aggregator::Bytes reduce(
      aggregator::Bytes mine,
      const std::function<aggregator::Bytes(aggregator::Bytes, aggregator::Bytes)>& join) override {
    for (int step = 1; step < size_; step *= 2) {
      if ((member_ & step) != 0) {
        send(member_ - step, mine);
        return {};
      }
      if (member_ + step < size_) {
        aggregator::Bytes theirs = receive(member_ + step);
        mine = join(std::move(mine), std::move(theirs));
      }
    }
    return mine;
  }
  void send(int to, std::span<const std::byte> bytes) override {
    const std::uint64_t size = bytes.size();
    put(to, &size, sizeof size);
    put(to, bytes.data(), bytes.size());
    char taken = 0;
    get(to, &taken, 1);
  }
  aggregator::Bytes receive(int from) override {
    std::uint64_t size = 0;
    get(from, &size, sizeof size);
    aggregator::Bytes bytes(size);
    get(from, bytes.data(), size);
    put(from, "", 1);
    return bytes;
  }
  // Blocks while the pipe is full.
  void post(int to, aggregator::Bytes bytes) override {
    const std::uint64_t size = bytes.size();
    put(to, &size, sizeof size);
    put(to, bytes.data(), bytes.size());
  }
  aggregator::Bytes take(int from) override {
    std::uint64_t size = 0;
    get(from, &size, sizeof size);
    aggregator::Bytes bytes(size);
    get(from, bytes.data(), size);
    return bytes;
  }
  [[nodiscard]] bool has_posted(int from) override {
    ::pollfd pipe{end(from, member_, 0), POLLIN, 0};
    return ::poll(&pipe, 1, 0) == 1;
  }

 private:
  explicit ForkedTeam(int size) : size_(size), pipes_(static_cast<std::size_t>(size * size * 2)) {
    for (int pair = 0; pair < size * size; ++pair)
      if (::pipe(&pipes_[static_cast<std::size_t>(pair) * 2]) != 0) throw std::runtime_error("pipe failed");
  }
  ~ForkedTeam() override {
    for (const int fd : pipes_) ::close(fd);
  }
  [[nodiscard]] int end(int from, int to, int which) const {
    return pipes_[static_cast<std::size_t>((from * size_ + to) * 2 + which)];
  }
  void put(int to, const void* data, std::size_t size) const {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
      const ::ssize_t done = ::write(end(member_, to, 1), at, size);
      if (done <= 0) std::_Exit(99);
      at += done;
      size -= static_cast<std::size_t>(done);
    }
  }
  void get(int from, void* data, std::size_t size) const {
    auto* at = static_cast<char*>(data);
    while (size > 0) {
      const ::ssize_t done = ::read(end(from, member_, 0), at, size);
      if (done <= 0) std::_Exit(99);
      at += done;
      size -= static_cast<std::size_t>(done);
    }
  }

  int size_ = 1, member_ = 0;
  std::vector<int> pipes_;
};

}  // namespace clusterprof::testing
