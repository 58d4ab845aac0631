// SPDX-License-Identifier: BSD-3-Clause
// The table of communicators in the segment. From it, the collector knows their names and sizes.
//
// The table is bounded, but a program may make any number of communicators. The first ones have an entry
// each. After that, a communicator takes over the entry of a freed one of its family: one that was made in
// the same way from the same parent with the same size, as happens in loops. When the table is full, all
// further ones share its last entry. Events always name the communicator itself.
#pragma once

#include "formats/wire/segment.h"
#include "mpi-wrap/src/communicator.hpp"

namespace clusterprof::mpi_wrap {

// Sets the communicator's index and family. `origin` identifies the parent and the kind of call that made the
// communicator; 0: the entry is not reused.
void give_entry(Communicator& communicator, const char* name, std::uint64_t origin) noexcept;

// The communicator is being freed.
void retire_entry(const Communicator& communicator) noexcept;
// A new segment has none yet.
void forget_entries() noexcept;

// After the communicator's count of collective operations has grown, by one of the function `op`. `agreed`:
// wire::agreed_of_bytes, 0 not known. Nothing is told of communicators that share an entry.
void publish_collectives(wire::SegmentHeader* segment, const Communicator& communicator, std::uint16_t op,
                         std::uint64_t agreed) noexcept;

// After MPI_Comm_set_name.
void rename_communicator(const Communicator& communicator, const char* name) noexcept;

}  // namespace clusterprof::mpi_wrap
