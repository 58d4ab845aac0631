// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/communicator_entries.hpp"

#include <string.h>

#include "formats/wire/segment.h"
#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/tables.hpp"

namespace clusterprof::mpi_wrap {
namespace {

constexpr std::uint64_t kFurtherIdentity = 3;  // of all that share the last entry
constexpr std::uint32_t kMaxEntries = 4096;
// The first communicators have entries of their own; from then on, entries of freed ones are reused.
constexpr std::uint32_t kOwnEntries = 256;
constexpr std::uint32_t kFamilyLists = 64;

SpinLock lock;  // may be taken while the lock of the handles is held
std::uint32_t used_entries;
bool entries_are_shared;
// Entries of freed communicators, as lists by family, linked through `next` (index + 1; 0: end).
struct Retired {
  std::uint64_t family;
  std::uint32_t next;
};
Retired retired[kMaxEntries];
std::uint32_t retired_lists[kFamilyLists];

std::uint32_t& retired_list(std::uint64_t family) noexcept {
  return retired_lists[slot_of(mix(family), kFamilyLists)];
}

std::uint32_t entry_count(const wire::SegmentHeader* segment) noexcept {
  return segment->communicators < kMaxEntries ? segment->communicators : kMaxEntries;
}

// An index, or kNoPath.
std::uint32_t take_retired(std::uint64_t family) noexcept {
  for (std::uint32_t* place = &retired_list(family); *place != 0; place = &retired[*place - 1].next) {
    const std::uint32_t index = *place - 1;
    if (retired[index].family != family) continue;
    *place = retired[index].next;
    return index;
  }
  return wire::kNoPath;
}

void fill_entry(wire::SegmentHeader* segment, std::uint32_t index, std::uint64_t identity, std::int32_t size,
                const char* name) noexcept {
  auto& entry = table_at<wire::MpiCommunicator>(segment, segment->communicators_offset)[index];
  entry.identity = identity;
  entry.size = static_cast<std::uint32_t>(size);
  strncpy(entry.name, name, sizeof(entry.name) - 1);
  entry.ready.store(1, std::memory_order_release);
}

wire::MpiCommunicator& entry_of(wire::SegmentHeader* segment, std::uint32_t index) noexcept {
  return table_at<wire::MpiCommunicator>(segment, segment->communicators_offset)[index];
}

// From now on the entry counts the operations of this communicator.
void begin_counting(wire::SegmentHeader* segment, const Communicator& communicator) noexcept {
  if (state.attached) return;
  wire::MpiCommunicator& entry = entry_of(segment, communicator.index);
  entry.agreed.store(0, std::memory_order_relaxed);
  entry.collectives.store(0, std::memory_order_relaxed);
  entry.collectives_of.store(communicator.identity, std::memory_order_release);
}

}  // namespace

void forget_entries() noexcept {
  const LockIf held(lock, state.shared);
  used_entries = 0;
  entries_are_shared = false;
  for (std::uint32_t& list : retired_lists) list = 0;
}

void retire_entry(const Communicator& communicator) noexcept {
  if (communicator.family == 0 || communicator.index >= kMaxEntries) return;
  const LockIf held(lock, state.shared);
  std::uint32_t& list = retired_list(communicator.family);
  retired[communicator.index] = {communicator.family, list};
  list = communicator.index + 1;
}

void give_entry(Communicator& communicator, const char* name, std::uint64_t origin) noexcept {
  communicator.index = wire::kNoPath;
  auto* segment = static_cast<wire::SegmentHeader*>(agent->segment());
  if (segment == nullptr || segment->communicators == 0) return;
  if (origin != 0) communicator.family = combine(origin, static_cast<std::uint64_t>(communicator.size));
  const LockIf held(lock, state.shared);
  if (used_entries >= kOwnEntries && communicator.family != 0) {
    communicator.index = take_retired(communicator.family);
    if (communicator.index != wire::kNoPath) return begin_counting(segment, communicator);
  }
  const std::uint32_t last = entry_count(segment) - 1;
  if (used_entries < last) {
    communicator.index = used_entries++;
    fill_entry(segment, communicator.index, communicator.identity, communicator.size, name);
    begin_counting(segment, communicator);
    return;
  }
  communicator.index = last;
  communicator.family = 0;
  if (entries_are_shared) return;
  entries_are_shared = true;
  fill_entry(segment, last, kFurtherIdentity, communicator.size, "(further communicators)");
  agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kCommunicatorTableFull));
}

void publish_collectives(wire::SegmentHeader* segment, const Communicator& communicator, std::uint16_t op,
                         std::uint64_t agreed) noexcept {
  if (state.attached || segment == nullptr || communicator.index >= segment->communicators) return;
  wire::MpiCommunicator& entry = entry_of(segment, communicator.index);
  if (entry.collectives_of.load(std::memory_order_relaxed) != communicator.identity) return;
  const std::uint32_t count = __atomic_load_n(&communicator.collectives, __ATOMIC_RELAXED);
  entry.agreed.store(wire::agreed_word(count, agreed), std::memory_order_relaxed);
  entry.collectives.store(wire::collectives_word(count, op), std::memory_order_release);
}

void rename_communicator(const Communicator& communicator, const char* name) noexcept {
  auto* segment = static_cast<wire::SegmentHeader*>(agent->segment());
  if (segment == nullptr || communicator.index >= segment->communicators || name == nullptr) return;
  if (entries_are_shared && communicator.index + 1 == entry_count(segment)) return;
  auto& entry = table_at<wire::MpiCommunicator>(segment, segment->communicators_offset)[communicator.index];
  strncpy(entry.name, name, sizeof(entry.name) - 1);
}

}  // namespace clusterprof::mpi_wrap
