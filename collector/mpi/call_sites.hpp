// SPDX-License-Identifier: BSD-3-Clause
// The call paths of a process's MPI call sites (wire::MpiSite), the MPI function as their last frame. Each is
// resolved once, and once more when the store was opened again. A damaged site is counted
// ("damaged_mpi_site"), and its path is the function alone. The thread that polls the process calls this.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "collector/rings/drop_counts.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/raw_store.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

class MpiCallSites {
 public:
  // All of them must outlive it.
  MpiCallSites(const SegmentView& segment, RawStore& store, StackResolver& stacks, DropCounts& drops)
      : segment_(segment), store_(store), stacks_(stacks), drops_(drops) {}

  // Nodes of the RawStore. `site`: < wire::all_mpi_sites(); those behind layout().mpi_sites stand for all
  // call sites of a function that found no room. `op`: number of the function, < layout().mpi_ops.
  std::uint32_t path(std::uint32_t site, std::uint16_t op);
  // The same for a site that an event names: any number, and maybe one that is not described; `op` is the
  // event's.
  std::uint32_t path_of_event(std::uint32_t site, std::uint16_t op);

 private:
  const SegmentView& segment_;
  RawStore& store_;
  StackResolver& stacks_;
  DropCounts& drops_;
  std::unordered_map<std::uint32_t, std::uint32_t> paths_;  // by site
  std::uint64_t openings_seen_ = 0;
};

}  // namespace clusterprof::collector
