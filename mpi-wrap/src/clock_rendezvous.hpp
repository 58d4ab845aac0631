// SPDX-License-Identifier: BSD-3-Clause
// Agrees which ranks take part in the exchange of clocks. Each rank has one link in RUN/.clocks*. The link is
// made once: by the rank itself, or by another rank that found none (docs/design/0007-clocks-of-nodes.md).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace clusterprof::mpi_wrap {

// Call from one thread, in this order: offer, then takes_part for other ranks, leave, end. Threads of the
// program may run at the same time. A directory that is a symbolic link or belongs to another user is not
// used.
class ClockRendezvous {
 public:
  static constexpr int kMaxAsked = 9;

  // Reads the rank that the launcher gave this process. False: it is not known. For processes in which the
  // environment may change before they offer.
  bool learn_rank() noexcept;

  // False: this rank does not take part. `node` identifies the node. occasion: which exchange this is, if the
  // ranks may offer for different ones at the same time; then they do not meet. 0: MPI_Init.
  bool offer(const char* directory, std::uint64_t node, std::uint64_t occasion = 0) noexcept;

  int rank() const noexcept { return rank_; }

  // True if that rank takes part. A rank that has not offered by now does not take part, and will find that
  // out itself.
  bool takes_part(int rank) noexcept;

  // Call when all ranks that look for this rank have done so.
  void leave() noexcept;

  // Call when no rank that was refused can still be on its way.
  void end() noexcept;

 private:
  class LinkDirectory;

  char path_[4096] = {}, name_[64] = {}, occasion_[20] = {};
  // The directory is held open from offer to leave: both ranks of an edge must look into the same one,
  // whatever happens to the path.
  bool is_open_ = false;
  int descriptor_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool knows_rank_ = false;
  int rank_ = 0, refused_count_ = 0;
  int refused_[kMaxAsked] = {};
};

}  // namespace clusterprof::mpi_wrap
