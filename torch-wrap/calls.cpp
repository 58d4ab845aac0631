// SPDX-License-Identifier: BSD-3-Clause
// What a wrapped call of libtorch means: which operation begins, and what a wait completes. The entry points
// (entry_points.cpp) call enter_call, and then leave_call or, if an exception passes, call_was_unwound.
#include "torch-wrap/calls.hpp"

#include "agent/agent_api.h"
#include "agent/c10d_start.h"
#include "formats/wire/c10d_functions.h"
#include "formats/wire/segment.h"
#include "mpi-wrap/src/events.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/tables.hpp"
#include "torch-wrap/groups.hpp"
#include "torch-wrap/layout.hpp"
#include "torch-wrap/library.hpp"
#include "torch-wrap/works.hpp"

namespace clusterprof::torch_wrap {
namespace {

using mpi_wrap::agent;
using mpi_wrap::EndedCall;
using wire::MpiEventKind;

constexpr std::int32_t kNoRank = -1;
constexpr bool kShared = true;  // any thread may call

// What an operation does, as its arguments say.
struct Begun {
  Group* group;
  std::uint16_t op;
  MpiEventKind completion;  // of a nonblocking operation
  bool blocking : 1;
  bool is_in_inner : 1;    // in an operation that was begun inside this one, and that has begun none itself
  std::int32_t root;       // in the group
  std::int32_t peer, tag;  // of a message; peer in the group
  std::uint64_t sent, received;
  // How much of what is sent each rank gets (rows, or bytes), in pages of their own, because gloo moves the
  // caller's vector away. Null: equal parts.
  std::int64_t* splits;

  [[nodiscard]] bool any_source() const noexcept { return completion == MpiEventKind::kReceive && peer < 0; }
};

// The calls of this thread that are under way. Only the outermost one that is more than a remark is measured.
struct ThreadCalls {
  std::uint32_t depth, measured_depth;  // measured_depth 0: none
  std::uint32_t execute_depth;          // of Hook::kExecute
  std::uint32_t reducer_depth;
  Address reducer;  // it runs its hook for a bucket of gradients: what is started belongs to it
  // The last operation that the measured call has begun inside, and that has begun none itself. Gloo makes
  // some operations of others, and returns a Work of which no function leads to us.
  Address inner_work;
  std::uint64_t start_ns;
  Begun begun;
};
thread_local constinit ThreadCalls t_calls{};

std::int32_t run_rank(const Group* group, std::int32_t rank) noexcept {
  return group == nullptr || !group->is_world || rank < 0 ? kNoRank : rank;
}

Begun collective(Group* group, wire::C10dNumber op, std::uint64_t sent, std::uint64_t received,
                 std::int32_t root = kNoRank) noexcept {
  return {group, op, MpiEventKind::kCollectiveDone, false, false, root, kNoRank, 0, sent, received, nullptr};
}

Begun message(Group* group, wire::C10dNumber op, std::int32_t peer, std::uint64_t tag,
              std::uint64_t bytes) noexcept {
  const bool send = op == wire::kC10dSend;
  return {group,
          op,
          send ? MpiEventKind::kSendDone : MpiEventKind::kReceive,
          false,
          false,
          kNoRank,
          peer,
          static_cast<std::int32_t>(tag),
          send ? bytes : 0,
          send ? 0 : bytes,
          nullptr};
}

std::size_t bytes_of_splits(const Group& group) noexcept {
  return static_cast<std::size_t>(group.size) * sizeof(std::int64_t);
}

// One number for each rank, read from the elements of a vector. Null if it has another size.
std::int64_t* copy_of_splits(const Vector& parts, const Group* group,
                             std::int64_t (*read_part)(Address)) noexcept {
  if (group == nullptr || group->size <= 0 || parts.size() != static_cast<std::size_t>(group->size))
    return nullptr;
  auto* const copy = static_cast<std::int64_t*>(mpi_wrap::allocate_pages(bytes_of_splits(*group)));
  for (std::size_t i = 0; copy != nullptr && i < parts.size(); ++i) copy[i] = read_part(parts[i]);
  return copy;
}

void forget_splits(Begun& begun) noexcept {
  if (begun.splits != nullptr) mpi_wrap::free_pages(begun.splits, bytes_of_splits(*begun.group));
  begun.splits = nullptr;
}

// Functions that return a Work get the place for it in rdi, and the group in rsi.
Begun begun_by(Hook hook, const Registers& r) noexcept {
  Group* const group = find_group(hook == Hook::kMonitoredBarrier ? r.rdi : r.rsi);
  const auto is_root = [&](std::int32_t root) { return group != nullptr && group->rank == root; };
  const auto root_in = [](Address options, std::size_t offset = 0) {
    return static_cast<std::int32_t>(read<std::int64_t>(options + offset));
  };
  switch (hook) {
    case Hook::kBroadcast: {
      const std::int32_t root = root_in(r.rcx);
      const std::uint64_t bytes = bytes_of_tensors(r.rdx);
      return collective(group, wire::kC10dBroadcast, is_root(root) ? bytes : 0, is_root(root) ? 0 : bytes,
                        root);
    }
    case Hook::kAllreduce:
    case Hook::kAllreduceCoalesced: {
      const std::uint64_t bytes = bytes_of_tensors(r.rdx);
      return collective(group, wire::kC10dAllReduce, bytes, bytes);
    }
    case Hook::kReduce: {
      const std::int32_t root = root_in(r.rcx, layout().root_in_reduce_options);
      const std::uint64_t bytes = bytes_of_tensors(r.rdx);
      return collective(group, wire::kC10dReduce, bytes, is_root(root) ? bytes : 0, root);
    }
    case Hook::kAllgather:
    case Hook::kAllgatherCoalesced:
      return collective(group, wire::kC10dAllGather, bytes_of_tensors(r.rcx), bytes_of_lists(r.rdx));
    case Hook::kAllgatherBase:
    case Hook::kAllGatherSingle:
      return collective(group, wire::kC10dAllGather, bytes_of_tensor(r.rcx), bytes_of_tensor(r.rdx));
    case Hook::kAllgatherIntoCoalesced:
    case Hook::kAllGatherSingleCoalesced:
      return collective(group, wire::kC10dAllGather, bytes_of_tensors(r.rcx), bytes_of_tensors(r.rdx));
    case Hook::kGather:
      return collective(group, wire::kC10dGather, bytes_of_tensors(r.rcx), bytes_of_lists(r.rdx),
                        root_in(r.r8));
    case Hook::kScatter:
      return collective(group, wire::kC10dScatter, bytes_of_lists(r.rcx), bytes_of_tensors(r.rdx),
                        root_in(r.r8));
    case Hook::kReduceScatter:
      return collective(group, wire::kC10dReduceScatter, bytes_of_lists(r.rcx), bytes_of_tensors(r.rdx));
    case Hook::kReduceScatterBase:
    case Hook::kReduceScatterSingle:
      return collective(group, wire::kC10dReduceScatter, bytes_of_tensor(r.rcx), bytes_of_tensor(r.rdx));
    case Hook::kReduceScatterCoalesced:
    case Hook::kReduceScatterSingleCoalesced:
      return collective(group, wire::kC10dReduceScatter, bytes_of_tensors(r.rcx), bytes_of_tensors(r.rdx));
    case Hook::kAlltoallBase:
    case Hook::kAllToAllSingle: {
      Begun begun = collective(group, wire::kC10dAllToAll, bytes_of_tensor(r.rcx), bytes_of_tensor(r.rdx));
      begun.splits = copy_of_splits(Vector(r.r9, sizeof(std::int64_t)), group,
                                    [](Address split) { return read<std::int64_t>(split); });
      return begun;
    }
    case Hook::kAlltoall: {
      Begun begun = collective(group, wire::kC10dAllToAll, bytes_of_tensors(r.rcx), bytes_of_tensors(r.rdx));
      begun.splits = copy_of_splits(Vector(r.rcx, kTensorBytes), group, [](Address tensor) {
        return static_cast<std::int64_t>(bytes_of_tensor(tensor));
      });
      return begun;
    }
    case Hook::kBarrier:
      return collective(group, wire::kC10dBarrier, 0, 0);
    case Hook::kMonitoredBarrier: {
      Begun begun = collective(group, wire::kC10dMonitoredBarrier, 0, 0);
      begun.blocking = true;
      return begun;
    }
    case Hook::kSend:
      return message(group, wire::kC10dSend, static_cast<std::int32_t>(r.rcx), r.r8, bytes_of_tensors(r.rdx));
    case Hook::kRecv:
      return message(group, wire::kC10dRecv, static_cast<std::int32_t>(r.rcx), r.r8, bytes_of_tensors(r.rdx));
    case Hook::kRecvAnysource:
      return message(group, wire::kC10dRecv, kNoRank, r.rcx, bytes_of_tensors(r.rdx));
    default:
      return collective(group, wire::kC10dWait, 0, 0);
  }
}

bool is_collective(const Begun& begun) noexcept {
  return begun.op != wire::kC10dSend && begun.op != wire::kC10dRecv;
}

// What is known of the call before it is made.
clusterprof_mpi_call description_of(const Begun& begun) noexcept {
  clusterprof_mpi_call call{
      begun.op, wire::kNoPath, 0, wire::kNoSequence, wire::kNoPeer, wire::kNoTag, wire::kNoPeer, 0, 0, {}, 0,
      0};
  const Group* const group = begun.group;
  if (group == nullptr) return call;
  call.communicator = group->index;
  call.channel = group->identity;
  if (is_collective(begun)) {
    call.sequence = next_collective_number(*group);
    call.root = run_rank(group, begun.root);
  } else {
    call.tag = begun.tag;
    call.peer = begun.any_source() ? wire::kAnyPeer : run_rank(group, begun.peer);
  }
  return call;
}

clusterprof_mpi_call description_of_wait(std::uint16_t op, const Operation& awaited) noexcept {
  clusterprof_mpi_call call{
      op, wire::kNoPath, 0, wire::kNoSequence, wire::kNoPeer, wire::kNoTag, wire::kNoPeer, 0, 0, {}, 0, 0};
  if (awaited.work == 0) return call;
  call.communicator = awaited.group->index;
  call.channel = awaited.group->identity;
  call.requests = 1;
  if (awaited.kind == MpiEventKind::kCollectiveDone) {
    call.pending_kinds = static_cast<std::uint32_t>(wire::PendingKind::kCollective);
    call.pending_peers[0] = wire::kNoPeer;
    call.sequence = awaited.sequence;
    call.root = run_rank(awaited.group, awaited.peer);
    return call;
  }
  const bool send = awaited.kind == MpiEventKind::kSendDone;
  call.pending_kinds =
      static_cast<std::uint32_t>(send ? wire::PendingKind::kSend : wire::PendingKind::kReceive);
  call.pending_peers[0] = call.peer =
      awaited.any_source ? wire::kAnyPeer : run_rank(awaited.group, awaited.peer);
  call.tag = awaited.tag;
  return call;
}

// Ends the measured call and counts it at its call site.
EndedCall finish(std::uint16_t op, const Group* group, std::uint64_t sent, std::uint64_t received) noexcept {
  const clusterprof_mpi_exit left = agent->leave_mpi();
  EndedCall call{static_cast<wire::SegmentHeader*>(left.segment),
                 static_cast<wire::MpiEventRing*>(left.events),
                 left.enter_ns != 0 ? left.enter_ns : t_calls.start_ns,
                 left.time_ns,
                 left.mpi_ns,
                 mpi_wrap::kNoSite,
                 left.paused != 0,
                 left.paused_ns,
                 left.resumed_ns};
  if (call.segment != nullptr && !call.paused) {
    const clusterprof_call_path path = left.path.hash != 0 ? left.path : agent->call_path();
    const std::uint32_t index = group == nullptr ? wire::kNoPath : group->index;
    call.site = mpi_wrap::find_site(call.segment, path, op, index, left.helper_thread != 0);
    if (call.site >= call.segment->mpi_sites)
      agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiSiteTableFull));
    mpi_wrap::remember_call(call);
    auto& site = mpi_wrap::table_at<wire::MpiSite>(call.segment, call.segment->mpi_sites_offset)[call.site];
    mpi_wrap::count_call(site, call.exit_ns - call.enter_ns, kShared);
    if (sent != 0) mpi_wrap::add(site.sent_bytes, sent, kShared);
    if (received != 0) mpi_wrap::add(site.recv_bytes, received, kShared);
    if (left.counter_count != 0) {
      auto& counters = mpi_wrap::table_at<wire::MpiSiteCounters>(
          call.segment, call.segment->mpi_site_counters_offset)[call.site];
      for (std::uint32_t i = 0; i < left.counter_count; ++i)
        mpi_wrap::add(counters.values[i], left.counters[i], kShared);
    }
  }
  if (left.timed != 0) agent->wrapper_ended();
  return call;
}

mpi_wrap::Operation event_of(const Operation& operation) noexcept {
  const bool is_message = operation.kind != MpiEventKind::kCollectiveDone;
  mpi_wrap::Operation event{};
  event.channel = operation.group->identity;
  event.start_ns = operation.start_ns;
  event.bytes = is_message ? operation.bytes : 0;
  event.sequence = operation.sequence;
  event.peer = operation.peer;
  event.tag = is_message ? operation.tag : operation.group->rank;
  event.members = is_message ? 0 : static_cast<std::uint32_t>(operation.group->size);
  event.op = operation.op;
  event.flags = operation.flags;
  return event;
}

void count_message_to(const EndedCall& call, const Group& group, std::int32_t peer,
                      std::uint64_t bytes) noexcept {
  const bool counted =
      group.has_run_ranks
          ? mpi_wrap::count_message(call.segment, group.rank, peer, bytes, kShared)
          : group.index != wire::kNoPath &&
                mpi_wrap::count_message_to_member(call.segment, group.index, peer, bytes, kShared);
  if (!counted) agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiPeerTableFull));
}

// One block to each rank. Splits are numbers of rows, which all have the same size, or of bytes.
void count_blocks(const EndedCall& call, const Begun& begun) noexcept {
  const auto members = static_cast<std::size_t>(begun.group->size);
  const auto rows_of = [&](std::size_t i) {
    return begun.splits != nullptr ? static_cast<double>(begun.splits[i]) : 1.0;
  };
  double rows = 0;
  for (std::size_t i = 0; i < members; ++i) rows += rows_of(i);
  for (std::size_t i = 0; i < members && rows > 0; ++i) {
    const auto bytes = static_cast<std::uint64_t>(static_cast<double>(begun.sent) * rows_of(i) / rows + 0.5);
    if (bytes != 0) count_message_to(call, *begun.group, static_cast<std::int32_t>(i), bytes);
  }
}

void count_bytes(const EndedCall& call, const Begun& begun) noexcept {
  if (call.paused) return;
  if (begun.op != wire::kC10dBarrier && begun.op != wire::kC10dMonitoredBarrier)
    mpi_wrap::count_size(call.segment, begun.op, begun.sent > begun.received ? begun.sent : begun.received,
                         kShared);
  if (begun.group == nullptr) return;
  if (begun.op == wire::kC10dSend) count_message_to(call, *begun.group, begun.peer, begun.sent);
  if (begun.op == wire::kC10dAllToAll) count_blocks(call, begun);
}

// The call has begun an operation, whose Work is `work` (0: it is over).
void begin_operation(const EndedCall& call, const Begun& begun, Address work) noexcept {
  Group* const group = begun.group;
  if (call.segment == nullptr || group == nullptr) return;
  Operation operation{};
  operation.work = work;
  operation.reducer = t_calls.reducer;
  operation.group = group;
  operation.start_ns = call.enter_ns;
  operation.site = call.site;
  operation.tag = begun.tag;
  operation.op = begun.op;
  operation.kind = begun.completion;
  operation.paused = call.paused;
  if (is_collective(begun)) {
    operation.peer = begun.root;
    if (begun.root >= 0 && !group->has_run_ranks) operation.flags = wire::kEventPeerInGroup;
    operation.sequence = take_collective_number(*group);
    mpi_wrap::count_operation(call, kShared);
    mpi_wrap::write_event(call, begun.blocking ? MpiEventKind::kCollective : MpiEventKind::kCollectiveStart,
                          event_of(operation));
  } else {
    operation.bytes = begun.sent + begun.received;
    operation.peer = begun.peer;
    operation.any_source = begun.any_source();
    operation.flags = wire::kEventNonblocking;
    if (!group->has_run_ranks) operation.flags |= wire::kEventPeerInGroup;
    const bool send = begun.completion == MpiEventKind::kSendDone;
    if (send) {
      if (!take_number(*group, begun.peer, begun.tag, mpi_wrap::Direction::kSent, operation.sequence)) return;
      mpi_wrap::count_operation(call, kShared);
      mpi_wrap::write_event(call, MpiEventKind::kSend, event_of(operation));
    } else {
      // What a receive from any rank takes is not known yet, and what those behind it get depends on it.
      operation.numbered_late =
          begun.any_source() || __atomic_load_n(&group->late_receives, __ATOMIC_RELAXED) != 0;
      if (operation.numbered_late) {
        __atomic_fetch_add(&group->late_receives, 1, __ATOMIC_RELAXED);
      } else if (!take_number(*group, begun.peer, begun.tag, mpi_wrap::Direction::kReceived,
                              operation.sequence)) {
        return;
      }
    }
  }
  if (work != 0) keep_operation(operation);
}

std::int32_t sender_of(Address work) noexcept {
  static auto* const source_rank = reinterpret_cast<int (*)(const void*)>(
      library_symbol("_ZNK4c10d16ProcessGroupGloo8RecvWork10sourceRankEv"));
  return source_rank == nullptr ? kNoRank : source_rank(reinterpret_cast<const void*>(work));
}

void end_late_numbering(const Operation& operation) noexcept {
  if (operation.work != 0 && operation.numbered_late)
    __atomic_fetch_sub(&operation.group->late_receives, 1, __ATOMIC_RELAXED);
}

void complete(const EndedCall& call, Operation& operation) noexcept {
  if (operation.work == 0) return;
  end_late_numbering(operation);
  if (call.segment == nullptr) return;
  if (operation.kind == MpiEventKind::kReceive) {
    if (operation.any_source) operation.peer = sender_of(operation.work);
    if (operation.peer < 0 ||
        (operation.numbered_late && !take_number(*operation.group, operation.peer, operation.tag,
                                                 mpi_wrap::Direction::kReceived, operation.sequence))) {
      return;
    }
    mpi_wrap::count_operation(call, kShared);
  }
  if (!operation.paused) mpi_wrap::write_event(call, operation.kind, event_of(operation));
}

void complete_all_of(const EndedCall& call, Address reducer) noexcept {
  constexpr std::uint32_t kAtOnce = 64;
  Operation taken[kAtOnce];
  for (std::uint32_t count = kAtOnce; count == kAtOnce;) {
    count = take_operations_of(reducer, taken, kAtOnce);
    for (std::uint32_t i = 0; i < count; ++i) complete(call, taken[i]);
  }
}

std::uint16_t op_of(Hook hook) noexcept {
  switch (hook) {
    case Hook::kNewGroup:
    case Hook::kNewGroupBase:
    case Hook::kConnect:
      return wire::kC10dNewGroup;
    case Hook::kFinalizeBackward:
      return wire::kC10dFinalizeBackward;
    default:
      return wire::kC10dWait;
  }
}

bool is_wait(Hook hook) noexcept {
  return hook == Hook::kWait || hook == Hook::kWaitSend || hook == Hook::kWaitRecv;
}
bool begins_operation(Hook hook) noexcept { return hook >= Hook::kBroadcast && hook <= Hook::kRecvAnysource; }

// The Work by whose wait it is known that the operation is over, whose Work is `work`. Where others were
// begun inside, the last of them: the program waits for `work`, which waits for them in their order.
Address awaited_work(Address work) noexcept { return t_calls.inner_work != 0 ? t_calls.inner_work : work; }

void make_group(Hook hook, const Registers& r, const EndedCall& call) noexcept {
  if (call.segment == nullptr) return;
  const bool is_new = hook != Hook::kConnect;
  const auto rank = static_cast<std::int32_t>(is_new ? r.rdx : r.rsi);
  const auto size = static_cast<std::int32_t>(is_new ? r.rcx : r.rdx);
  add_group(call.segment, r.rdi, read<Address>(is_new ? r.rsi : r.rcx), rank, size,
            [](std::int32_t in, std::int32_t of) {
              return clusterprof::agent::c10d_started(in, of, layout().library);
            });
}

void leave_one() noexcept {
  ThreadCalls& calls = t_calls;
  if (calls.reducer_depth == calls.depth) {
    calls.reducer = 0;
    calls.reducer_depth = 0;
  }
  if (calls.execute_depth == calls.depth) calls.execute_depth = 0;
  if (calls.measured_depth == calls.depth) {
    calls.measured_depth = 0;
    forget_splits(calls.begun);
  }
  if (calls.depth != 0) --calls.depth;
}

}  // namespace

void enter_call(Hook hook, const Registers& r) noexcept {
  if (hook == Hook::kEndOfWork) {
    end_late_numbering(end_work(r.rdi));
    return;
  }
  ThreadCalls& calls = t_calls;
  ++calls.depth;
  if (hook == Hook::kRunCommHook) {
    if (calls.reducer_depth != 0) return;
    calls.reducer = r.rsi;
    calls.reducer_depth = calls.depth;
    return;
  }
  if (hook == Hook::kExecute || hook == Hook::kExecuteByReference) {
    if (calls.execute_depth == 0) calls.execute_depth = calls.depth;
    return;
  }
  // A barrier's worker waits for all that was begun before: that is how gloo works, and no wait of the
  // program's.
  if (is_wait(hook) && calls.execute_depth != 0) return;
  if (calls.measured_depth != 0) {
    if (begins_operation(hook)) calls.begun.is_in_inner = true;
    return;
  }
  calls.begun = {};
  calls.inner_work = 0;
  clusterprof_mpi_call call{};
  if (begins_operation(hook)) {
    calls.begun = begun_by(hook, r);
    call = description_of(calls.begun);
  } else {
    calls.begun.op = op_of(hook);
    call = description_of_wait(calls.begun.op, is_wait(hook) ? look_up_operation(r.rdi) : Operation{});
  }
  calls.start_ns = agent->enter_mpi(&call);
  if (calls.start_ns != 0)
    calls.measured_depth = calls.depth;
  else
    forget_splits(calls.begun);
}

void leave_call(Hook hook, const Registers& r, std::uint64_t result) noexcept {
  ThreadCalls& calls = t_calls;
  if (calls.measured_depth != 0 && calls.measured_depth == calls.depth) {
    const Begun& begun = calls.begun;
    if (begins_operation(hook)) {
      const EndedCall call = finish(begun.op, begun.group, begun.sent, begun.received);
      if (call.segment != nullptr) count_bytes(call, begun);
      begin_operation(call, begun, begun.blocking ? 0 : awaited_work(read<Address>(r.rdi)));
    } else if (is_wait(hook)) {
      Operation operation = (result & 0xff) != 0 ? take_operation(r.rdi) : Operation{};
      const EndedCall call = finish(begun.op, operation.work != 0 ? operation.group : nullptr, 0, 0);
      complete(call, operation);
    } else if (hook == Hook::kFinalizeBackward) {
      complete_all_of(finish(begun.op, nullptr, 0, 0), r.rdi);
    } else {
      make_group(hook, r, finish(begun.op, nullptr, 0, 0));
    }
  } else if (calls.measured_depth != 0 && begins_operation(hook)) {
    if (calls.begun.is_in_inner && hook != Hook::kMonitoredBarrier) calls.inner_work = read<Address>(r.rdi);
    calls.begun.is_in_inner = false;
  }
  leave_one();
}

void call_was_unwound() noexcept {
  ThreadCalls& calls = t_calls;
  if (calls.measured_depth != 0 && calls.measured_depth == calls.depth) finish(calls.begun.op, nullptr, 0, 0);
  calls.begun.is_in_inner = false;
  leave_one();
}

}  // namespace clusterprof::torch_wrap
