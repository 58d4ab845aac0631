// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/topology.hpp"

#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

// Held while the library is asked. No other lock is taken while it is held.
SpinLock lock;

void ask_neighbours(Communicator& communicator, MPI_Comm handle) noexcept {
  const auto topo_test = CLUSTERPROF_LIBRARY(MPI_Topo_test);
  int topology = 0;
  if (topo_test == nullptr || topo_test(handle, &topology) != MPI_SUCCESS) return;
  int ins = 0, outs = 0, weighted = 0;
  const auto dims_of = CLUSTERPROF_LIBRARY(MPI_Cartdim_get);
  const auto graph_count = CLUSTERPROF_LIBRARY(MPI_Graph_neighbors_count);
  const auto dist_count = CLUSTERPROF_LIBRARY(MPI_Dist_graph_neighbors_count);
  if (topology == MPI_CART && dims_of != nullptr && dims_of(handle, &outs) == MPI_SUCCESS) {
    ins = outs *= 2;
  } else if (topology == MPI_GRAPH && graph_count != nullptr &&
             graph_count(handle, communicator.rank, &outs) == MPI_SUCCESS) {
    ins = outs;
  } else if (topology != MPI_DIST_GRAPH || dist_count == nullptr ||
             dist_count(handle, &ins, &outs, &weighted) != MPI_SUCCESS) {
    return;
  }
  if (outs <= 0 && ins <= 0) return;
  // out, then for a distributed graph: out weights, in, in weights.
  const std::size_t words = (static_cast<std::size_t>(outs) + static_cast<std::size_t>(ins)) * 2;
  auto* ranks = static_cast<std::int32_t*>(allocate_pages(words * sizeof(std::int32_t)));
  if (ranks == nullptr) return;
  bool good = false;
  if (topology == MPI_CART) {
    const auto shift = CLUSTERPROF_LIBRARY(MPI_Cart_shift);
    good = shift != nullptr;
    // The order of the buffers: per dimension first the lower, then the upper neighbour.
    for (int d = 0; good && d < outs / 2; ++d)
      good = shift(handle, d, 1, ranks + 2 * d, ranks + 2 * d + 1) == MPI_SUCCESS;
  } else if (topology == MPI_GRAPH) {
    const auto neighbours = CLUSTERPROF_LIBRARY(MPI_Graph_neighbors);
    good = neighbours != nullptr && neighbours(handle, communicator.rank, outs, ranks) == MPI_SUCCESS;
  } else {
    const auto neighbours = CLUSTERPROF_LIBRARY(MPI_Dist_graph_neighbors);
    good = neighbours != nullptr && neighbours(handle, ins, ranks + 2 * outs, ranks + 2 * outs + ins, outs,
                                               ranks, ranks + outs) == MPI_SUCCESS;
  }
  if (good) {
    std::int32_t* sources = topology == MPI_DIST_GRAPH ? ranks + 2 * outs : ranks;
    const int both = topology == MPI_DIST_GRAPH ? 2 * outs + ins : outs;
    for (int i = 0; i < both; ++i) ranks[i] = communicator.peers.world_rank(ranks[i]);
    communicator.out_neighbours.assign(ranks, outs);
    communicator.in_neighbours.assign(sources, ins);
  }
  free_pages(ranks, words * sizeof(std::int32_t));
}

}  // namespace

void find_neighbours(Communicator& communicator, MPI_Comm handle) noexcept {
  const LockIf held(lock, state.shared);
  if (communicator.neighbours_known.load(std::memory_order_relaxed)) return;
  ask_neighbours(communicator, handle);
  communicator.neighbours_known.store(true, std::memory_order_release);
}

}  // namespace clusterprof::mpi_wrap
