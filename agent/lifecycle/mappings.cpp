// SPDX-License-Identifier: BSD-3-Clause
// Memory that the program maps. Addresses are in a list, since a part of a mapping may be given back; what is
// recorded of them is in the table of blocks (kept_blocks.h).
#include "agent/lifecycle/mappings.h"

#include <linux/magic.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>

#include "agent/lifecycle/allocation_record.h"
#include "agent/memory_api.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

// Smaller mappings are left out: an allocator's are larger, and so is what anybody looks for.
constexpr std::uint64_t kSmallestBytes = 64u << 10;
constexpr std::uint32_t kMappings = 1024, kOwnFiles = 64;
constexpr auto kRelaxed = std::memory_order_relaxed;

struct Mapping {
  std::atomic<std::uint64_t> address;  // 0: free
  std::atomic<std::uint64_t> bytes;
};
constinit Mapping g_mappings[kMappings] = {};
constinit std::atomic<std::uint32_t> g_mappings_used = 0;  // none at or above this one

struct OwnFile {
  std::atomic<std::uint64_t> device, inode;
};
constinit OwnFile g_own_files[kOwnFiles] = {};
constinit std::atomic<std::uint32_t> g_own_files_made = 0;

// False: there is no room, which is counted.
bool enter(std::uint64_t address, std::uint64_t bytes) noexcept {
  for (std::uint32_t i = 0; i < kMappings; ++i) {
    std::uint64_t free = 0;
    constexpr std::uint64_t kTaken = 1;
    if (g_mappings[i].address.load(kRelaxed) != 0) continue;
    if (!g_mappings[i].address.compare_exchange_strong(free, kTaken, std::memory_order_acq_rel)) continue;
    g_mappings[i].bytes.store(bytes, kRelaxed);
    g_mappings[i].address.store(address, std::memory_order_release);
    std::uint32_t used = g_mappings_used.load(kRelaxed);
    while (used <= i && !g_mappings_used.compare_exchange_weak(used, i + 1, kRelaxed)) {
    }
    return true;
  }
  if (wire::SegmentHeader* const segment = segment_for_allocations(); segment != nullptr)
    count_drop(segment, wire::DropReason::kMemoryBlockTableFull);
  return false;
}

bool is_own(const struct stat& file) noexcept {
  for (const OwnFile& own : g_own_files)
    if (own.inode.load(std::memory_order_acquire) == file.st_ino && own.device.load(kRelaxed) == file.st_dev)
      return true;
  return false;
}

// Files of these are memory.
bool is_memory(int descriptor) noexcept {
  struct statfs status;
  return raw_syscall(SYS_fstatfs, descriptor, &status) == 0 &&
         (status.f_type == TMPFS_MAGIC || status.f_type == HUGETLBFS_MAGIC);
}

// kCount: it does not count.
wire::MemoryDomain domain_of(int flags, int descriptor) noexcept {
  if ((flags & MAP_ANONYMOUS) != 0) return wire::MemoryDomain::kMapping;
  struct stat file;
  if (raw_syscall(SYS_fstat, descriptor, &file) != 0 || !S_ISREG(file.st_mode))
    return wire::MemoryDomain::kCount;
  if (!is_memory(descriptor)) return wire::MemoryDomain::kFile;
  // Who maps what others have made has no memory of its own there. A private mapping is a copy, page by page.
  return is_own(file) && (flags & MAP_TYPE) != MAP_PRIVATE ? wire::MemoryDomain::kMapping
                                                           : wire::MemoryDomain::kCount;
}

void record(const void* address, std::uint64_t bytes, wire::MemoryDomain domain,
            const void* caller) noexcept {
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  if (bytes < kSmallestBytes || !enter(begin, bytes)) return;
  if (record_allocated({address, bytes, bytes, 1, 0, domain}, caller) == Keeping::kRefused)
    record_unmapped(address, bytes);
}

// A part of what was mapped stays.
void keep_part(const KeptBlock& whole, std::uint64_t begin, std::uint64_t end, std::uint64_t& kept) noexcept {
  if (begin >= end || !enter(begin, end - begin)) return;
  const auto part = static_cast<std::uint64_t>(static_cast<__uint128_t>(whole.weight) * (end - begin) /
                                               std::max<std::uint64_t>(whole.bytes, 1));
  kept += part;
  record_put_back({begin, end - begin, part, whole.time_ns, whole.site});
}

// Calls visit(part) with all that is recorded of this memory, which is not any more then.
template <typename Visit>
void take_recorded(const void* address, std::uint64_t bytes, Visit visit) noexcept {
  // After the end of recording, the program may have forbidden itself the system call below.
  if (segment_for_allocations() == nullptr) return;
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  const std::uint64_t end = begin + bytes;
  const std::uint32_t used = g_mappings_used.load(kRelaxed);
  for (std::uint32_t i = 0; i < used; ++i) {
    std::uint64_t from = g_mappings[i].address.load(std::memory_order_acquire);
    const std::uint64_t to = from + g_mappings[i].bytes.load(kRelaxed);
    if (from <= wire::kBusyBlock || from >= end || to <= begin) continue;
    // A child of vfork has its parent's list.
    if (raw_syscall(SYS_getpid) != g_process.pid) break;
    if (!g_mappings[i].address.compare_exchange_strong(from, 0, std::memory_order_acq_rel)) continue;
    KeptBlock block = {};
    if (!record_take(reinterpret_cast<const void*>(from), block)) continue;
    const std::uint64_t part_begin = std::max(from, begin), part_end = std::min(to, end);
    std::uint64_t kept = 0;
    keep_part(block, from, part_begin, kept);
    keep_part(block, part_end, to, kept);
    visit(KeptBlock{part_begin, part_end - part_begin, block.weight - std::min(kept, block.weight),
                    block.time_ns, block.site});
  }
}

}  // namespace

void record_mapped(const void* address, std::uint64_t bytes, wire::MemoryDomain domain,
                   const void* caller) noexcept {
  record_unmapped(address, bytes);  // with SHM_REMAP
  record(address, bytes, domain, caller);
}

void record_unmapped(const void* address, std::uint64_t bytes) noexcept {
  take_recorded(address, bytes, [](const KeptBlock& part) { record_freed(part); });
}

void record_attached(int segment, const void* address, const void* caller) noexcept {
  if (segment_for_allocations() == nullptr) return;
  shmid_ds status;
  // Who has made it has the memory.
  if (raw_syscall(SYS_shmctl, segment, IPC_STAT, &status) == 0 && status.shm_cpid == g_process.pid)
    record_mapped(address, status.shm_segsz, wire::MemoryDomain::kMapping, caller);
}

void record_moves(const void* address, std::uint64_t bytes, MovingMappings& moving) noexcept {
  moving.count = 0;
  take_recorded(address, bytes, [&](const KeptBlock& part) {
    if (moving.count == MovingMappings::kMost) return record_freed(part);
    moving.parts[moving.count++] = part;
  });
}

void record_moved(const MovingMappings& moving, const void* to, std::uint64_t bytes,
                  const void* caller) noexcept {
  for (std::uint32_t i = 0; i < moving.count; ++i) {
    const KeptBlock& part = moving.parts[i];
    if (to == nullptr && enter(part.address, part.bytes))
      record_put_back(part);
    else
      record_freed(part);
  }
  if (to == nullptr) return;
  record_unmapped(to, bytes);  // with MREMAP_FIXED
  if (moving.count != 0) record(to, bytes, domain_of_block(moving.parts[0]), caller);
}

void forget_mappings() noexcept {
  const std::uint32_t used = g_mappings_used.exchange(0, kRelaxed);
  for (std::uint32_t i = 0; i < used; ++i) g_mappings[i].address.store(0, kRelaxed);
  // What these have is the parent's.
  for (OwnFile& own : g_own_files) own.inode.store(0, kRelaxed);
  g_own_files_made.store(0, kRelaxed);
}

void note_mapping(const void* caller, const void* address, std::size_t bytes, int protection, int flags,
                  int descriptor) noexcept {
  if (segment_for_allocations() == nullptr) return;
  // What was there is gone: with MAP_FIXED, or because a library has replaced the code of munmap.
  record_unmapped(address, bytes);
  // Addresses that are only reserved are no memory.
  if (protection == PROT_NONE || (flags & MAP_NORESERVE) != 0 || bytes < kSmallestBytes ||
      clusterprof_memory_wrap_v1.maps_for_heap(caller))
    return;
  const wire::MemoryDomain domain = domain_of(flags, descriptor);
  if (domain != wire::MemoryDomain::kCount) record(address, bytes, domain, caller);
}

void note_own_file(int descriptor) noexcept {
  struct stat file;
  if (segment_for_allocations() == nullptr || raw_syscall(SYS_fstat, descriptor, &file) != 0 ||
      !S_ISREG(file.st_mode) || is_own(file) || !is_memory(descriptor))
    return;
  OwnFile& own = g_own_files[g_own_files_made.fetch_add(1, kRelaxed) % kOwnFiles];
  own.inode.store(0, kRelaxed);
  own.device.store(file.st_dev, kRelaxed);
  own.inode.store(file.st_ino, std::memory_order_release);
}

}  // namespace clusterprof::agent
