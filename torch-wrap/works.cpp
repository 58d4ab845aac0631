// SPDX-License-Identifier: BSD-3-Clause
#include "torch-wrap/works.hpp"

#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::torch_wrap {
namespace {

// Open addressing; deletion shifts later ones back. At most three quarters are used.
constexpr std::uint32_t kSlots = 4096, kMost = kSlots / 4 * 3;
mpi_wrap::SpinLock lock;
Operation* slots;
std::uint32_t used;

std::uint32_t home(Address work) noexcept { return mpi_wrap::slot_of(mpi_wrap::mix(work), kSlots); }

Operation* find(Address work) noexcept {
  if (slots == nullptr || work == 0) return nullptr;
  for (std::uint32_t i = home(work); slots[i].work != 0; i = (i + 1) % kSlots)
    if (slots[i].work == work) return &slots[i];
  return nullptr;
}

Operation take(const Operation* found) noexcept {
  const Operation taken = *found;
  auto hole = static_cast<std::uint32_t>(found - slots);
  for (std::uint32_t i = (hole + 1) % kSlots; slots[i].work != 0; i = (i + 1) % kSlots) {
    if ((i - home(slots[i].work)) % kSlots < (i - hole) % kSlots) continue;
    slots[hole] = slots[i];
    hole = i;
  }
  slots[hole].work = 0;
  --used;
  return taken;
}

void insert(const Operation& operation) noexcept {
  std::uint32_t i = home(operation.work);
  while (slots[i].work != 0) i = (i + 1) % kSlots;
  slots[i] = operation;
  ++used;
}

}  // namespace

void keep_operation(const Operation& operation) noexcept {
  const mpi_wrap::LockIf held(lock, true);
  if (slots == nullptr) slots = static_cast<Operation*>(mpi_wrap::allocate_pages(kSlots * sizeof(Operation)));
  if (Operation* const known = find(operation.work); known != nullptr) {
    *known = operation;
    return;
  }
  if (slots == nullptr || used == kMost)
    return mpi_wrap::agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiEventRingFull));
  insert(operation);
}

Operation look_up_operation(Address work) noexcept {
  const mpi_wrap::LockIf held(lock, true);
  const Operation* const found = find(work);
  return found == nullptr ? Operation{} : *found;
}

Operation take_operation(Address work) noexcept {
  const mpi_wrap::LockIf held(lock, true);
  Operation* const found = find(work);
  return found == nullptr ? Operation{} : take(found);
}

Operation end_work(Address work) noexcept {
  static std::uint64_t kept;
  const mpi_wrap::LockIf held(lock, true);
  Operation* const found = find(work);
  if (found == nullptr) return {};
  Operation operation = take(found);
  if (operation.reducer == 0) return operation;
  operation.work = ++kept * 2 + 1;  // odd, unlike addresses: another Work may get this one
  insert(operation);
  return {};
}

std::uint32_t take_operations_of(Address reducer, Operation* taken, std::uint32_t most) noexcept {
  const mpi_wrap::LockIf held(lock, true);
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; slots != nullptr && i < kSlots; ++i)
    while (slots[i].work != 0 && slots[i].reducer == reducer && count < most)
      taken[count++] = take(&slots[i]);
  return count;
}

void forget_operations() noexcept {
  lock.unlock();
  slots = nullptr;  // another thread may have been changing it
  used = 0;
}

}  // namespace clusterprof::torch_wrap
