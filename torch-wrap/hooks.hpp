// SPDX-License-Identifier: BSD-3-Clause
// The functions of libtorch that lead to us: X(number, symbol, how), in the order of Hook. Releases have some
// of them under another name, or not at all: library.cpp knows which.
#pragma once

#include <cstdint>

namespace clusterprof::torch_wrap {

enum class Hook : std::uint32_t {
  kNewGroup = 0,
  kNewGroupBase,  // the same constructor, called for a derived class
  kConnect,       // a group gets other members
  kBroadcast,
  kAllreduce,
  kAllreduceCoalesced,
  kReduce,
  kAllgather,
  kAllgatherBase,
  kAllGatherSingle,  // the same in later releases
  kAllgatherCoalesced,
  kAllgatherIntoCoalesced,
  kAllGatherSingleCoalesced,  // the same in later releases
  kGather,
  kScatter,
  kReduceScatter,
  kReduceScatterBase,
  kReduceScatterSingle,  // the same in later releases
  kReduceScatterCoalesced,
  kReduceScatterSingleCoalesced,  // the same in later releases
  kAlltoall,
  kAlltoallBase,
  kAllToAllSingle,  // the same in later releases
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
  kExecute,             // what a worker thread of gloo runs for a Work
  kExecuteByReference,  // the same since libtorch 2
  kCount
};
inline constexpr std::uint32_t kHooks = static_cast<std::uint32_t>(Hook::kCount);

#define CLUSTERPROF_C10D_TENSORS "St6vectorIN2at6TensorESaIS3_EE"
#define CLUSTERPROF_C10D_LISTS "St6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EE"
#define CLUSTERPROF_C10D_GLOO "_ZN4c10d16ProcessGroupGloo"
#define CLUSTERPROF_C10D_STORE \
  "RKN3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_typeIS3_EEEE"
#define CLUSTERPROF_C10D_NEW_GROUP(constructor) \
  CLUSTERPROF_C10D_GLOO constructor "E" CLUSTERPROF_C10D_STORE "iiNS2_INS0_7OptionsENS5_ISA_EEEE"
#define CLUSTERPROF_C10D_TWO "ERN2at6TensorES3_"
#define CLUSTERPROF_C10D_TWO_LISTS "ER" CLUSTERPROF_C10D_TENSORS "S6_"
#define CLUSTERPROF_C10D_SPLITS "RSt6vectorIlSaIlEES7_"
#define CLUSTERPROF_C10D_WAIT "4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"
#define CLUSTERPROF_C10D_ASYNC_WORK "_6detail34intrusive_target_default_null_typeIS1_EEEE"

#define CLUSTERPROF_C10D_HOOKS(X)                                                                            \
  X("0", CLUSTERPROF_C10D_NEW_GROUP("C1"), "wrap")                                                           \
  X("1", CLUSTERPROF_C10D_NEW_GROUP("C2"), "wrap")                                                           \
  X("2", CLUSTERPROF_C10D_GLOO "15connectContextsEii" CLUSTERPROF_C10D_STORE, "wrap")                        \
  X("3", CLUSTERPROF_C10D_GLOO "9broadcastER" CLUSTERPROF_C10D_TENSORS "RKNS_16BroadcastOptionsE", "wrap")   \
  X("4", CLUSTERPROF_C10D_GLOO "9allreduceER" CLUSTERPROF_C10D_TENSORS "RKNS_16AllreduceOptionsE", "wrap")   \
  X("5",                                                                                                     \
    CLUSTERPROF_C10D_GLOO "19allreduce_coalescedER" CLUSTERPROF_C10D_TENSORS                                 \
                          "RKNS_25AllreduceCoalescedOptionsE",                                               \
    "wrap")                                                                                                  \
  X("6", CLUSTERPROF_C10D_GLOO "6reduceER" CLUSTERPROF_C10D_TENSORS "RKNS_13ReduceOptionsE", "wrap")         \
  X("7", CLUSTERPROF_C10D_GLOO "9allgatherER" CLUSTERPROF_C10D_LISTS "RS5_RKNS_16AllgatherOptionsE", "wrap") \
  X("8", CLUSTERPROF_C10D_GLOO "15_allgather_base" CLUSTERPROF_C10D_TWO "RKNS_16AllgatherOptionsE", "wrap")  \
  X("9", CLUSTERPROF_C10D_GLOO "17all_gather_single" CLUSTERPROF_C10D_TWO "RKNS_16AllgatherOptionsE",        \
    "wrap")                                                                                                  \
  X("10",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "19allgather_coalescedER" CLUSTERPROF_C10D_LISTS "RS5_RKNS_16AllgatherOptionsE",   \
    "wrap")                                                                                                  \
  X("11",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "31allgather_into_tensor_coalesced" CLUSTERPROF_C10D_TWO_LISTS                     \
                          "RKNS_16AllgatherOptionsE",                                                        \
    "wrap")                                                                                                  \
  X("12",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "27all_gather_single_coalesced" CLUSTERPROF_C10D_TWO_LISTS                         \
                          "RKNS_16AllgatherOptionsE",                                                        \
    "wrap")                                                                                                  \
  X("13", CLUSTERPROF_C10D_GLOO "6gatherER" CLUSTERPROF_C10D_LISTS "RS5_RKNS_13GatherOptionsE", "wrap")      \
  X("14",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "7scatterER" CLUSTERPROF_C10D_TENSORS "RS1_IS5_SaIS5_EERKNS_14ScatterOptionsE",    \
    "wrap")                                                                                                  \
  X("15",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "14reduce_scatterER" CLUSTERPROF_C10D_TENSORS                                      \
                          "RS1_IS5_SaIS5_EERKNS_20ReduceScatterOptionsE",                                    \
    "wrap")                                                                                                  \
  X("16",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "20_reduce_scatter_base" CLUSTERPROF_C10D_TWO "RKNS_20ReduceScatterOptionsE",      \
    "wrap")                                                                                                  \
  X("17",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "21reduce_scatter_single" CLUSTERPROF_C10D_TWO "RKNS_20ReduceScatterOptionsE",     \
    "wrap")                                                                                                  \
  X("18",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "31reduce_scatter_tensor_coalesced" CLUSTERPROF_C10D_TWO_LISTS                     \
                          "RKNS_20ReduceScatterOptionsE",                                                    \
    "wrap")                                                                                                  \
  X("19",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "31reduce_scatter_single_coalesced" CLUSTERPROF_C10D_TWO_LISTS                     \
                          "RKNS_20ReduceScatterOptionsE",                                                    \
    "wrap")                                                                                                  \
  X("20", CLUSTERPROF_C10D_GLOO "8alltoall" CLUSTERPROF_C10D_TWO_LISTS "RKNS_15AllToAllOptionsE", "wrap")    \
  X("21",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "13alltoall_base" CLUSTERPROF_C10D_TWO CLUSTERPROF_C10D_SPLITS                     \
                          "RKNS_15AllToAllOptionsE",                                                         \
    "wrap")                                                                                                  \
  X("22",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "17all_to_all_single" CLUSTERPROF_C10D_TWO CLUSTERPROF_C10D_SPLITS                 \
                          "RKNS_15AllToAllOptionsE",                                                         \
    "wrap")                                                                                                  \
  X("23", CLUSTERPROF_C10D_GLOO "7barrierERKNS_14BarrierOptionsE", "wrap")                                   \
  X("24", CLUSTERPROF_C10D_GLOO "16monitoredBarrierERKNS_14BarrierOptionsEb", "wrap")                        \
  X("25", CLUSTERPROF_C10D_GLOO "4sendER" CLUSTERPROF_C10D_TENSORS "ii", "wrap")                             \
  X("26", CLUSTERPROF_C10D_GLOO "4recvER" CLUSTERPROF_C10D_TENSORS "ii", "wrap")                             \
  X("27", CLUSTERPROF_C10D_GLOO "13recvAnysourceER" CLUSTERPROF_C10D_TENSORS "i", "wrap")                    \
  X("28", "_ZN4c10d4Work" CLUSTERPROF_C10D_WAIT, "wrap")                                                     \
  X("29", CLUSTERPROF_C10D_GLOO "8SendWork" CLUSTERPROF_C10D_WAIT, "wrap")                                   \
  X("30", CLUSTERPROF_C10D_GLOO "8RecvWork" CLUSTERPROF_C10D_WAIT, "wrap")                                   \
  X("31", "_ZN4c10d7Reducer13run_comm_hookERNS_10GradBucketE", "wrap")                                       \
  X("32", "_ZN4c10d7Reducer17finalize_backwardEv", "wrap")                                                   \
  X("33", "_ZN4c10d4WorkD2Ev", "tell")                                                                       \
  X("34",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2" CLUSTERPROF_C10D_ASYNC_WORK,      \
    "wrap")                                                                                                  \
  X("35",                                                                                                    \
    CLUSTERPROF_C10D_GLOO "9AsyncWork7executeERKN3c1013intrusive_ptrIS1_NS2" CLUSTERPROF_C10D_ASYNC_WORK,    \
    "wrap")

// By Hook.
extern const char* const kSymbols[kHooks];

// Argument registers of a call, in the order of the calling convention.
struct Registers {
  std::uint64_t rdi, rsi, rdx, rcx, r8, r9;
};

}  // namespace clusterprof::torch_wrap
