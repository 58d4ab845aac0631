// SPDX-License-Identifier: BSD-3-Clause
// The process's requests (request_table.hpp) and what happens to them. Any thread.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"
#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/request_table.hpp"

namespace clusterprof::mpi_wrap {

// Replaces what was known of the handle. Takes over the peer list.
void track(const Request& request) noexcept;

// The handle means another request now, or none.
void forget(HandleKey key) noexcept;

// False: is_active_receive is false for every handle. Cheap.
bool any_tracked() noexcept;
bool is_active_receive(HandleKey key) noexcept;

// A receive completed with this status (null: it failed, count nothing).
void complete_receive(wire::SegmentHeader* segment, HandleKey key, const MPI_Status* status) noexcept;

// A persistent request was started.
void activate(wire::SegmentHeader* segment, HandleKey key) noexcept;

}  // namespace clusterprof::mpi_wrap
