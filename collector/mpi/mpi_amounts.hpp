// SPDX-License-Identifier: BSD-3-Clause
// A process's use of MPI, besides the amounts by call path: calls under way, traffic between ranks,
// communicators, and clock measurements. Plain data: any thread may use its own copy.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/wire/segment.h"

namespace clusterprof::collector {

// wire::MpiCallUnderWay, as it was at the last look at the process.
struct RawCallUnderWay {
  std::int32_t tid = 0;
  bool main_thread = false;
  std::uint32_t path = 0;
  std::uint64_t channel = 0;
  std::uint16_t op = 0;
  std::uint32_t sequence = wire::kNoSequence;
  std::int32_t peer = wire::kNoPeer, tag = wire::kNoTag, root = wire::kNoPeer;
  std::uint64_t enter_ns = 0, lasted_ns = 0;
  std::uint32_t requests = 0, open_requests = 0;
  std::uint64_t agreed = 0;  // wire::agreed_of_bytes; 0: not known
  struct Pending {
    wire::PendingKind kind = wire::PendingKind::kNone;
    std::int32_t peer = wire::kNoPeer;
  };
  std::vector<Pending> pending;
};

// Threads other than the main thread that have called MPI.
struct HelperThreads {
  std::uint32_t count = 0;
  std::uint64_t elapsed_ns = 0, mpi_ns = 0;  // sums
  void add(const HelperThreads& other) {
    count += other.count;
    elapsed_ns += other.elapsed_ns;
    mpi_ns += other.mpi_ns;
  }
};

struct RawTraffic {
  std::uint64_t messages = 0, bytes = 0;
};
struct CommunicatorInfo {
  std::uint32_t size = 0;
  std::string name;
  std::int32_t number =
      -1;  // of the process in it, where members are named by their numbers; -1: they are not
};

// Collective operations that the process has begun on a communicator.
struct RawCollectives {
  std::uint32_t count = 0;
  std::uint32_t last_path = 0;  // the function of the last one, alone; 0: none
  std::uint64_t agreed = 0;     // of the last one, as above
};

// wire::MpiError
struct RawMpiError {
  std::uint32_t path = 0;
  std::uint64_t channel = 0;
  std::int32_t error_class = 0, peer = wire::kNoPeer, tag = wire::kNoTag;
  std::uint32_t message = wire::kNoSequence;
  std::uint64_t count = 0, first_ns = 0;  // first_ns: since the process began
  std::string name, text;
};

// wire::OpenRequests
struct RawOpenRequests {
  std::uint32_t path = 0;  // 0: those that found no room
  std::uint64_t channel = 0;
  std::uint8_t kind = 0;  // wire::PendingKind; 0: something else
  std::int32_t peer = wire::kNoPeer, tag = wire::kNoTag;
  std::uint64_t count = 0;
};

using SizeBins = std::array<std::uint64_t, wire::kSizeBins>;

// wire::ClockMeasurement
struct ClockReading {
  std::int32_t reference_rank = 0;
  std::uint64_t local_ns = 0;
  std::int64_t offset_ns = 0;
  std::uint64_t error_ns = 0;
};

}  // namespace clusterprof::collector
