// SPDX-License-Identifier: BSD-3-Clause
// The processes that merge one run together.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace clusterprof::aggregator {

using Bytes = std::vector<std::byte>;

// All members call the same functions in the same order. Messages may have any size. send() may block until
// the receiver calls receive(). When communication fails the process ends, as MPI programs do.
class Team {
 public:
  virtual ~Team() = default;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int member() const = 0;  // 0 .. size - 1

  // Sends member 0's bytes to every member.
  virtual void broadcast(Bytes& bytes) = 0;
  // Reduces up a tree: `join(mine, theirs)` unites two parts, where theirs comes from members with higher
  // numbers. Member 0 gets the union of all; the result on other members is unspecified.
  virtual Bytes reduce(Bytes mine, const std::function<Bytes(Bytes mine, Bytes theirs)>& join) = 0;
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  virtual Bytes receive(int from) = 0;

  // For a receiver that is busy with something else. post() returns at once, or at the latest when the
  // receiver takes the message. The bytes are kept until then, so members limit how many messages they post.
  // Posted messages are taken in order, and before anything is sent with send().
  virtual void post(int to, Bytes bytes) = 0;
  virtual Bytes take(int from) = 0;
  [[nodiscard]] virtual bool has_posted(int from) = 0;  // take() would not wait
  // Moves posted messages on. To be called every few milliseconds.
  virtual void progress() {}
};

// A team of one.
class Alone final : public Team {
 public:
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] int member() const override { return 0; }
  void broadcast(Bytes&) override {}
  Bytes reduce(Bytes mine, const std::function<Bytes(Bytes, Bytes)>&) override { return mine; }
  void send(int, std::span<const std::byte>) override {}
  Bytes receive(int) override { return {}; }
  void post(int, Bytes) override {}
  Bytes take(int) override { return {}; }
  bool has_posted(int) override { return false; }
};

// Reduces objects up the same tree as Team::reduce. absorb(theirs) is called for each member behind this one,
// then mine() is sent on. Member 0 keeps its own.
template <typename Absorb, typename Mine>
void gather(Team& team, const Absorb& absorb, const Mine& mine) {
  for (int step = 1; step < team.size(); step *= 2) {
    if ((team.member() & step) != 0) {
      const Bytes bytes = mine();
      team.send(team.member() - step, bytes);
      return;
    }
    if (team.member() + step < team.size()) absorb(team.receive(team.member() + step));
  }
}

}  // namespace clusterprof::aggregator
