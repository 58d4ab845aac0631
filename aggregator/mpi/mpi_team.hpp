// SPDX-License-Identifier: BSD-3-Clause
// A Team of the processes that one mpirun or srun started. Compiled once per MPI family.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "aggregator/team.hpp"

namespace clusterprof::aggregator {

// Uses MPI_COMM_WORLD from construction to finish(). One at a time in a process, used only by the thread that
// made it; other threads may run. Waiting for another member costs next to no processor time. When MPI fails,
// or when this process waits for a member that has already ended, it says so in one line and ends the job.
class MpiTeam final : public Team {
 public:
  // Calls MPI_Init. If the other processes of the job are not there within `patience_s` seconds, ends the
  // process as above.
  explicit MpiTeam(unsigned patience_s);
  ~MpiTeam() override;
  MpiTeam(const MpiTeam&) = delete;
  MpiTeam& operator=(const MpiTeam&) = delete;

  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int member() const override { return member_; }
  void broadcast(Bytes& bytes) override;
  Bytes reduce(Bytes mine, const std::function<Bytes(Bytes, Bytes)>& join) override;
  // Returns when the receiver has all of it, and not before the receiver calls receive().
  void send(int to, std::span<const std::byte> bytes) override;
  Bytes receive(int from) override;
  void post(int to, Bytes bytes) override;
  Bytes take(int from) override;
  [[nodiscard]] bool has_posted(int from) override;
  void progress() override;

  // The last call: waits for all members and ends MPI. Returns the exit status for the job's processes:
  // member 0's status, or the highest one where that is 0. Members that wait for this one and so never get
  // here learn that it is gone.
  [[nodiscard]] int finish(int status);

 private:
  struct Posted;    // until its receiver has it
  struct Incoming;  // until it is taken
  // The message that is coming from that member; a new one once its size has come.
  Incoming& incoming(int from);

  int size_ = 1, member_ = 0;
  std::vector<std::unique_ptr<Posted>> posted_;
  std::map<int, std::unique_ptr<Incoming>> incoming_;  // by sender
};

}  // namespace clusterprof::aggregator
