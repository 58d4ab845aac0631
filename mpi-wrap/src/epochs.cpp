// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/epochs.hpp"

#include "mpi-wrap/src/group_ranks.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

// An open epoch of a window, and its peers.
struct Epoch {
  Epoch* next;
  HandleKey window;
  bool exposure;  // false: access
  RankMap ranks;
};

SpinLock lock;
Epoch* open_epochs;
constinit ObjectPool<Epoch> pool;

Epoch* remove_open(HandleKey window, bool exposure) noexcept {
  const LockIf held(lock, state.shared);
  for (Epoch** place = &open_epochs; *place != nullptr; place = &(*place)->next) {
    Epoch* const epoch = *place;
    if (epoch->window != window || epoch->exposure != exposure) continue;
    *place = epoch->next;
    return epoch;
  }
  return nullptr;
}

void free_epoch(Epoch* epoch) noexcept {
  epoch->ranks.clear();
  const LockIf held(lock, state.shared);
  pool.give_back(epoch);
}

void write_events(const EndedCall& call, Communicator& communicator, const RankMap& ranks, std::uint16_t op,
                  std::int32_t tag, Direction direction) noexcept {
  for (std::int32_t i = 0; i < ranks.size(); ++i) {
    Operation operation{communicator.identity, call.enter_ns, 0, 0, ranks.world_rank(i), tag, 0, op, 0};
    if (operation.peer < 0 ||
        !take_number(communicator, operation.peer, tag, direction, operation.sequence)) {
      continue;
    }
    count_operation(call, state.shared);
    write_event(call,
                direction == Direction::kSent ? wire::MpiEventKind::kSend : wire::MpiEventKind::kReceive,
                operation);
  }
}

}  // namespace

void begin_epoch(const EndedCall& call, HandleKey window, Communicator& communicator, MPI_Group group,
                 std::uint16_t op, bool exposure) noexcept {
  // Left open by a window that is gone.
  if (Epoch* const left = remove_open(window, exposure); left != nullptr) free_epoch(left);
  Epoch* epoch = nullptr;
  {
    const LockIf held(lock, state.shared);
    epoch = pool.take();
  }
  if (epoch == nullptr)
    return agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiEventRingFull));
  epoch->window = window;
  epoch->exposure = exposure;
  GroupRanks members;
  if (!members.read(group) || !members.assign_to(epoch->ranks)) return free_epoch(epoch);
  write_events(call, communicator, epoch->ranks, op, wire::kTagWinPost,
               exposure ? Direction::kSent : Direction::kReceived);
  const LockIf held(lock, state.shared);
  epoch->next = open_epochs;
  open_epochs = epoch;
}

void end_epoch(const EndedCall& call, HandleKey window, Communicator& communicator, std::uint16_t op,
               bool exposure) noexcept {
  Epoch* const epoch = remove_open(window, exposure);
  if (epoch == nullptr) return;
  write_events(call, communicator, epoch->ranks, op, wire::kTagWinComplete,
               exposure ? Direction::kReceived : Direction::kSent);
  free_epoch(epoch);
}

}  // namespace clusterprof::mpi_wrap
