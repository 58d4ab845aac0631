// SPDX-License-Identifier: BSD-3-Clause
#include "agent/c10d_start.h"

#include <string.h>

#include <atomic>

#include "agent/lifecycle/options.h"
#include "agent/sigsafe/process_state.h"
#include "formats/wire/c10d_functions.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

bool c10d_started(std::int32_t rank, std::int32_t size, const char* library) noexcept {
  wire::SegmentHeader* const header = g_process.segment.load(std::memory_order_acquire);
  if (header == nullptr) return false;
  if (header->mpi_state.load(std::memory_order_acquire) != 0)
    return header->mpi_rank.load(std::memory_order_relaxed) == rank &&
           header->mpi_size.load(std::memory_order_relaxed) == size;
  strncpy(header->mpi_library, library, sizeof(header->mpi_library) - 1);
  const auto start = [&](std::int32_t rank_of_run, std::int32_t size_of_run) {
    header->mpi_rank.store(rank_of_run, std::memory_order_relaxed);
    header->mpi_size.store(size_of_run, std::memory_order_relaxed);
    header->mpi_state.store(wire::kC10dState, std::memory_order_release);
  };
  if (header->world_size <= 0 || header->world_size == size) {
    start(rank, size);
    return true;
  }
  // Ranks that a launcher of torch's has started again are the last ones of the run so far.
  if (g_options.launch != 0 && header->world_size > size && header->rank == rank + header->world_size - size)
    start(header->rank, header->world_size);
  return false;
}

std::uint64_t launch_id() noexcept { return g_options.launch; }

void c10d_not_recorded() noexcept {
  wire::SegmentHeader* const header = g_process.segment.load(std::memory_order_acquire);
  if (header != nullptr) header->torch_not_recorded.store(1, std::memory_order_relaxed);
}

}  // namespace clusterprof::agent
