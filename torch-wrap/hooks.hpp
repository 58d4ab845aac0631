// SPDX-License-Identifier: BSD-3-Clause
// The functions of libtorch that lead to us: X(number, symbol, what). `what` is a Hook.
#pragma once

#include <cstdint>

namespace clusterprof::torch_wrap {

enum class Hook : std::uint32_t {
  kNewGroup = 0,
  kNewGroupBase,  // the same constructor, called for a derived class
  kBroadcast,
  kAllreduce,
  kAllreduceCoalesced,
  kReduce,
  kAllgather,
  kAllgatherBase,
  kAllgatherCoalesced,
  kGather,
  kScatter,
  kReduceScatter,
  kAlltoallBase,
  kBarrier,
  kMonitoredBarrier,
  kSend,
  kRecv,
  kRecvAnysource,
  kWait,
  kWaitSend,
  kWaitRecv,
  kRunCommHook,
  kFinalizeBackward,
  kEndOfWork,
  kExecute,  // what a worker thread of gloo runs for a Work
  kCount
};
inline constexpr std::uint32_t kHooks = static_cast<std::uint32_t>(Hook::kCount);

#define CLUSTERPROF_C10D_TENSORS "St6vectorIN2at6TensorESaIS3_EE"
#define CLUSTERPROF_C10D_LISTS "St6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EE"
#define CLUSTERPROF_C10D_GLOO "_ZN4c10d16ProcessGroupGloo"
#define CLUSTERPROF_C10D_NEW_GROUP(constructor)                                                         \
  CLUSTERPROF_C10D_GLOO constructor                                                                     \
      "ERKN3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_typeIS3_EEEEiiNS2_" \
      "INS0_7OptionsENS5_ISA_EEEE"
#define CLUSTERPROF_C10D_WAIT "4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"

#define CLUSTERPROF_C10D_HOOKS(X)                                                                            \
  X("0", CLUSTERPROF_C10D_NEW_GROUP("C1"), "wrap")                                                           \
  X("1", CLUSTERPROF_C10D_NEW_GROUP("C2"), "wrap")                                                           \
  X("2", CLUSTERPROF_C10D_GLOO "9broadcastER" CLUSTERPROF_C10D_TENSORS "RKNS_16BroadcastOptionsE", "wrap")   \
  X("3", CLUSTERPROF_C10D_GLOO "9allreduceER" CLUSTERPROF_C10D_TENSORS "RKNS_16AllreduceOptionsE", "wrap")   \
  X("4",                                                                                                     \
    CLUSTERPROF_C10D_GLOO "19allreduce_coalescedER" CLUSTERPROF_C10D_TENSORS                                 \
                          "RKNS_25AllreduceCoalescedOptionsE",                                               \
    "wrap")                                                                                                  \
  X("5", CLUSTERPROF_C10D_GLOO "6reduceER" CLUSTERPROF_C10D_TENSORS "RKNS_13ReduceOptionsE", "wrap")         \
  X("6", CLUSTERPROF_C10D_GLOO "9allgatherER" CLUSTERPROF_C10D_LISTS "RS5_RKNS_16AllgatherOptionsE", "wrap") \
  X("7", CLUSTERPROF_C10D_GLOO "15_allgather_baseERN2at6TensorES3_RKNS_16AllgatherOptionsE", "wrap")         \
  X("8",                                                                                                     \
    CLUSTERPROF_C10D_GLOO "19allgather_coalescedER" CLUSTERPROF_C10D_LISTS "RS5_RKNS_16AllgatherOptionsE",   \
    "wrap")                                                                                                  \
  X("9", CLUSTERPROF_C10D_GLOO "6gatherER" CLUSTERPROF_C10D_LISTS "RS5_RKNS_13GatherOptionsE", "wrap")       \
  X("10",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "7scatterER" CLUSTERPROF_C10D_TENSORS "RS1_IS5_SaIS5_EERKNS_14ScatterOptionsE",    \
    "wrap")                                                                                                  \
  X("11",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "14reduce_scatterER" CLUSTERPROF_C10D_TENSORS                                      \
                          "RS1_IS5_SaIS5_EERKNS_20ReduceScatterOptionsE",                                    \
    "wrap")                                                                                                  \
  X("12",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "13alltoall_baseERN2at6TensorES3_RSt6vectorIlSaIlEES7_RKNS_15AllToAllOptionsE",    \
    "wrap")                                                                                                  \
  X("13", CLUSTERPROF_C10D_GLOO "7barrierERKNS_14BarrierOptionsE", "wrap")                                   \
  X("14", CLUSTERPROF_C10D_GLOO "16monitoredBarrierERKNS_14BarrierOptionsEb", "wrap")                        \
  X("15", CLUSTERPROF_C10D_GLOO "4sendER" CLUSTERPROF_C10D_TENSORS "ii", "wrap")                             \
  X("16", CLUSTERPROF_C10D_GLOO "4recvER" CLUSTERPROF_C10D_TENSORS "ii", "wrap")                             \
  X("17", CLUSTERPROF_C10D_GLOO "13recvAnysourceER" CLUSTERPROF_C10D_TENSORS "i", "wrap")                    \
  X("18", "_ZN4c10d4Work" CLUSTERPROF_C10D_WAIT, "wrap")                                                     \
  X("19", CLUSTERPROF_C10D_GLOO "8SendWork" CLUSTERPROF_C10D_WAIT, "wrap")                                   \
  X("20", CLUSTERPROF_C10D_GLOO "8RecvWork" CLUSTERPROF_C10D_WAIT, "wrap")                                   \
  X("21", "_ZN4c10d7Reducer13run_comm_hookERNS_10GradBucketE", "wrap")                                       \
  X("22", "_ZN4c10d7Reducer17finalize_backwardEv", "wrap")                                                   \
  X("23", "_ZN4c10d4WorkD2Ev", "tell")                                                                       \
  X("24",                                                                                                    \
    CLUSTERPROF_C10D_GLOO                                                                                    \
    "9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_"                      \
    "null_typeIS1_EEEE",                                                                                     \
    "wrap")

// By Hook.
extern const char* const kSymbols[kHooks];

// Argument registers of a call, in the order of the calling convention.
struct Registers {
  std::uint64_t rdi, rsi, rdx, rcx, r8, r9;
};

}  // namespace clusterprof::torch_wrap
