// SPDX-License-Identifier: BSD-3-Clause
// The calls of torch.distributed that are recorded like MPI's (torch-wrap). Their numbers follow those of MPI
// functions, so one number names a function of either library: ThreadSlot::mpi_op, MpiSite::op and so on.
#pragma once

#include <array>
#include <cstdint>

#include "formats/wire/mpi_functions.h"

namespace clusterprof::wire {

// SegmentHeader::mpi_state, beside those of MpiState: only torch.distributed is used, whose programs need not
// announce its end. Then mpi_rank and mpi_size are its own.
inline constexpr std::uint32_t kC10dState = 3;

struct C10dFunction {
  const char* name;  // as in torch.distributed
  MpiClass kind;
  MpiSync sync;
};

enum C10dNumber : std::uint16_t {
  kC10dNewGroup = kMpiFunctionCount,
  kC10dBroadcast,
  kC10dAllReduce,
  kC10dReduce,
  kC10dAllGather,
  kC10dGather,
  kC10dScatter,
  kC10dReduceScatter,
  kC10dAllToAll,
  kC10dBarrier,
  kC10dMonitoredBarrier,
  kC10dSend,
  kC10dRecv,
  kC10dWait,
  kC10dFinalizeBackward,
  kFunctionCount  // of both libraries
};

inline constexpr auto kC10dFunctions = std::to_array<C10dFunction>({
    {"new_process_group", MpiClass::kManagement, MpiSync::kNone},
    {"broadcast", MpiClass::kCollective, MpiSync::k1xN},
    {"all_reduce", MpiClass::kCollective, MpiSync::kNxN},
    {"reduce", MpiClass::kCollective, MpiSync::kNx1},
    {"all_gather", MpiClass::kCollective, MpiSync::kNxN},
    {"gather", MpiClass::kCollective, MpiSync::kNx1},
    {"scatter", MpiClass::kCollective, MpiSync::k1xN},
    {"reduce_scatter", MpiClass::kCollective, MpiSync::kNxN},
    {"all_to_all", MpiClass::kCollective, MpiSync::kNxN},
    {"barrier", MpiClass::kCollective, MpiSync::kBarrier},
    {"monitored_barrier", MpiClass::kCollective, MpiSync::kBarrier},
    {"send", MpiClass::kP2p, MpiSync::kNone},
    {"recv", MpiClass::kP2p, MpiSync::kNone},
    {"Work.wait", MpiClass::kCompletion, MpiSync::kNone},
    {"Reducer.finalize_backward", MpiClass::kCompletion, MpiSync::kNone},
});
static_assert(kMpiFunctionCount + kC10dFunctions.size() == kFunctionCount);

// number: < kFunctionCount.
constexpr const char* function_name(std::uint32_t number) noexcept {
  return number < kMpiFunctionCount ? kMpiFunctionNames[number]
                                    : kC10dFunctions[number - kMpiFunctionCount].name;
}
constexpr MpiClass function_class(std::uint32_t number) noexcept {
  return number < kMpiFunctionCount ? kMpiFunctionClasses[number]
                                    : kC10dFunctions[number - kMpiFunctionCount].kind;
}
constexpr MpiSync function_sync(std::uint32_t number) noexcept {
  return number < kMpiFunctionCount ? kMpiSync[number] : kC10dFunctions[number - kMpiFunctionCount].sync;
}

}  // namespace clusterprof::wire
