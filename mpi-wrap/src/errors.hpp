// SPDX-License-Identifier: BSD-3-Clause
// Writes down the errors that MPI calls return (wire::MpiError). Only for calls that have failed. Any thread.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"
#include "mpi-wrap/src/events.hpp"

namespace clusterprof::mpi_wrap {

// What is known of the message that a call or request is about. peer and tag as in wire::MpiError.
struct KnownMessage {
  std::uint64_t channel = 0;
  std::int32_t peer = wire::kNoPeer, tag = wire::kNoTag;
  std::uint32_t number = wire::kNoSequence;
};

// The class of an error code; MPI_SUCCESS: it is not known.
int error_class_of(int error) noexcept;

// After the call was counted at its site. error: an error code.
void note_error(const EndedCall& call, std::uint32_t op, int error, const KnownMessage& about) noexcept;

}  // namespace clusterprof::mpi_wrap
