// SPDX-License-Identifier: BSD-3-Clause
// A Team of the processes that one mpirun or srun started. Compiled once per MPI family.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "aggregator/team.hpp"

namespace clusterprof::aggregator {

// MPI_COMM_WORLD, from construction to finish(). One at a time in a process, used by the thread that made it;
// other threads may run. Waiting for another member costs next to no processor time. When MPI fails, or a
// member is waited for that has gone already, the process says so in one line and ends the job.
class MpiTeam final : public Team {
 public:
  // Calls MPI_Init. When the others of the job are not there within `patience_s` seconds, ends the process as
  // above.
  explicit MpiTeam(unsigned patience_s);
  ~MpiTeam() override;
  MpiTeam(const MpiTeam&) = delete;
  MpiTeam& operator=(const MpiTeam&) = delete;

  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int member() const override { return member_; }
  void broadcast(Bytes& bytes) override;
  Bytes reduce(Bytes mine, const std::function<Bytes(Bytes, Bytes)>& join) override;
  // Returns when the receiver has all of it: not before it calls receive().
  void send(int to, std::span<const std::byte> bytes) override;
  Bytes receive(int from) override;
  void post(int to, Bytes bytes) override;
  Bytes take(int from) override;
  [[nodiscard]] bool has_posted(int from) override;
  void progress() override;

  // The last call: waits for all members and ends MPI. What the job's processes should exit with: member 0's
  // status, or the highest where that is 0. Members that never get here because they wait for this one learn
  // that it is gone.
  [[nodiscard]] int finish(int status);

 private:
  struct Posted;    // until its receiver has it
  struct Incoming;  // until it is taken
  // What is coming from there, or begins to: its size has come.
  Incoming& incoming(int from);

  int size_ = 1, member_ = 0;
  std::vector<std::unique_ptr<Posted>> posted_;
  std::map<int, std::unique_ptr<Incoming>> incoming_;  // by sender
};

}  // namespace clusterprof::aggregator
