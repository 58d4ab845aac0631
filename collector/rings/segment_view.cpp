// SPDX-License-Identifier: BSD-3-Clause
// Maps a rank's shared memory, checks where its tables lie, and survives if the memory is cut short later
// (handle_sigbus). Called by the server's event loop when an agent greets; the polling thread reads the
// mapping.
#include "collector/rings/segment_view.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

namespace clusterprof::collector {
namespace {

// The largest sizes that a segment may declare: far more than the agent uses, but small enough that a forged
// size cannot keep the collector busy.
constexpr std::uint64_t kMaxSegmentBytes = 1ull << 36;
constexpr std::uint32_t kMaxTableEntries = 1u << 22;
constexpr std::uint32_t kMaxThreadSlots = 1u << 16;
constexpr std::uint32_t kMaxMpiOps = 4096;

// Mappings that the SIGBUS handler may repair. The table has a fixed size because a handler reads it.
constexpr std::size_t kGuardedMappings = 8192;
struct GuardedMapping {
  std::atomic<std::uintptr_t> begin, end;
};
GuardedMapping g_mappings[kGuardedMappings];
std::atomic<std::size_t> g_mappings_used;
std::uintptr_t g_page_bytes;

void guard_mapping(std::uintptr_t begin, std::uintptr_t end) noexcept {
  const std::size_t used = g_mappings_used.load();
  for (std::size_t i = 0; i < kGuardedMappings; ++i) {
    if (g_mappings[i].begin.load() != 0) continue;
    g_mappings[i].end.store(end);
    g_mappings[i].begin.store(begin);
    if (i >= used) g_mappings_used.store(i + 1);
    return;
  }
}

void forget_mapping(std::uintptr_t begin) noexcept {
  const std::size_t used = g_mappings_used.load();
  for (std::size_t i = 0; i < used; ++i) {
    if (g_mappings[i].begin.load() == begin) {
      g_mappings[i].begin.store(0);
      return;
    }
  }
}

void handle_sigbus(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::size_t used = g_mappings_used.load();
  for (std::size_t i = 0; i < used; ++i) {
    const std::uintptr_t begin = g_mappings[i].begin.load();
    if (begin == 0 || address < begin || address >= g_mappings[i].end.load()) continue;
    void* const page = reinterpret_cast<void*>(address & ~(g_page_bytes - 1));
    if (mmap(page, g_page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        MAP_FAILED) {
      errno = saved_errno;
      return;
    }
    break;
  }
  // Not one of our mappings: the same instruction faults again and ends the process as usual.
  (void)::signal(signal, SIG_DFL);
}

Error damaged(const char* what) {
  return Error{fmt::format("segment refused: {}", what), ErrorKind::kDamaged};
}

bool region_fits(std::uint64_t offset, std::uint64_t count, std::uint64_t entry_bytes,
                 std::uint64_t alignment, std::uint64_t segment_bytes) {
  if (offset < sizeof(wire::SegmentHeader) || offset % alignment != 0 || offset > segment_bytes) return false;
  return count <= (segment_bytes - offset) / entry_bytes;
}

}  // namespace

void install_truncation_guard() {
  g_page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = handle_sigbus;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

std::string bounded_text(const char* field, std::size_t bytes) {
  std::string text(field, bytes);
  text.resize(std::strlen(text.c_str()));
  return text;
}

// One copy of every field, which is checked and then used: the process could change the original at any time.
SegmentView::Layout SegmentView::copy_layout(const wire::SegmentHeader& h) {
  Layout l{};
  l.code_slots_offset = h.code_slots_offset;
  l.code_arena_offset = h.code_arena_offset;
  l.module_arena_offset = h.module_arena_offset;
  l.mpi_sites_offset = h.mpi_sites_offset;
  l.path_arena_offset = h.path_arena_offset;
  l.mpi_peers_offset = h.mpi_peers_offset;
  l.mpi_sizes_offset = h.mpi_sizes_offset;
  l.communicators_offset = h.communicators_offset;
  l.thread_slots_offset = h.thread_slots_offset;
  l.mpi_event_rings_offset = h.mpi_event_rings_offset;
  l.mpi_site_counters_offset = h.mpi_site_counters_offset;
  l.regions_offset = h.regions_offset;
  l.io_files_offset = h.io_files_offset;
  l.io_sites_offset = h.io_sites_offset;
  l.io_amounts_offset = h.io_amounts_offset;
  l.omp_sites_offset = h.omp_sites_offset;
  l.omp_rows_offset = h.omp_rows_offset;
  l.memory_sites_offset = h.memory_sites_offset;
  l.memory_addresses_offset = h.memory_addresses_offset;
  l.memory_blocks_offset = h.memory_blocks_offset;
  l.memory_rings_offset = h.memory_rings_offset;
  l.labelled_memory_offset = h.labelled_memory_offset;
  l.generated_arena_offset = h.generated_arena_offset;
  l.code_slots = h.code_slots;
  l.mpi_sites = h.mpi_sites;
  l.mpi_peers = h.mpi_peers;
  l.mpi_ops = h.mpi_ops;
  l.communicators = h.communicators;
  l.thread_slots = h.thread_slots;
  l.mpi_event_rings = h.mpi_event_rings;
  l.regions = h.regions;
  l.io_files = h.io_files;
  l.io_sites = h.io_sites;
  l.omp_sites = h.omp_sites;
  l.omp_rows = h.omp_rows;
  l.memory_sites = h.memory_sites;
  l.memory_blocks = h.memory_blocks;
  l.memory_rings = h.memory_rings;
  l.code_arena_bytes = h.code_arena_bytes;
  l.module_arena_bytes = h.module_arena_bytes;
  l.path_arena_bytes = h.path_arena_bytes;
  l.generated_arena_bytes = h.generated_arena_bytes;
  return l;
}

// Null, or what is wrong with it in a segment of `n` bytes.
const char* SegmentView::damage_of(const Layout& l, std::uint64_t n) {
  if (l.code_slots > kMaxTableEntries || l.mpi_sites > kMaxTableEntries || l.mpi_peers > kMaxTableEntries ||
      l.mpi_ops > kMaxMpiOps || l.communicators > kMaxTableEntries || l.thread_slots > kMaxThreadSlots ||
      l.mpi_event_rings > kMaxThreadSlots || l.regions > kMaxTableEntries || l.io_files > kMaxTableEntries ||
      l.io_sites > kMaxTableEntries || l.omp_sites > kMaxTableEntries || l.omp_rows > kMaxTableEntries ||
      l.memory_sites > kMaxTableEntries || l.memory_blocks > kMaxTableEntries || l.memory_rings > 1) {
    return "a table is too large";
  }
  const std::uint32_t all_sites = wire::all_mpi_sites(l.mpi_sites, l.mpi_ops);
  const bool fits =
      region_fits(l.code_slots_offset, l.code_slots, sizeof(wire::CodeSlot), 8, n) &&
      region_fits(l.code_arena_offset, l.code_arena_bytes, 1, 8, n) &&
      region_fits(l.module_arena_offset, l.module_arena_bytes, 1, 8, n) &&
      region_fits(l.mpi_sites_offset, all_sites, sizeof(wire::MpiSite), 8, n) &&
      region_fits(l.path_arena_offset, l.path_arena_bytes, 1, 8, n) &&
      region_fits(l.mpi_peers_offset, l.mpi_peers, sizeof(wire::MpiPeer), 8, n) &&
      region_fits(l.mpi_sizes_offset, l.mpi_ops, sizeof(wire::MpiSizeBins), 8, n) &&
      region_fits(l.communicators_offset, l.communicators, sizeof(wire::MpiCommunicator), 8, n) &&
      region_fits(l.thread_slots_offset, l.thread_slots, sizeof(wire::ThreadSlot), alignof(wire::ThreadSlot),
                  n) &&
      region_fits(l.mpi_event_rings_offset, l.mpi_event_rings, sizeof(wire::MpiEventRing),
                  alignof(wire::MpiEventRing), n) &&
      region_fits(l.mpi_site_counters_offset, all_sites, sizeof(wire::MpiSiteCounters), 8, n) &&
      region_fits(l.regions_offset, l.regions, sizeof(wire::Region), 8, n) &&
      region_fits(l.io_files_offset, l.io_files, sizeof(wire::IoFile), 8, n) &&
      region_fits(l.io_sites_offset, l.io_sites, sizeof(wire::IoSite), 8, n) &&
      region_fits(l.io_amounts_offset, std::uint64_t{l.io_files} * wire::kIoOperations,
                  sizeof(wire::IoAmount), 8, n) &&
      region_fits(l.omp_sites_offset, l.omp_sites, sizeof(wire::OmpSite), 8, n) &&
      region_fits(l.omp_rows_offset, l.omp_rows, sizeof(wire::OmpRow), alignof(wire::OmpRow), n) &&
      region_fits(l.memory_sites_offset, l.memory_sites, sizeof(wire::MemorySite), 8, n) &&
      region_fits(l.memory_addresses_offset, l.memory_blocks, sizeof(std::uint64_t), 8, n) &&
      region_fits(l.memory_blocks_offset, l.memory_blocks, sizeof(wire::MemoryBlock), 8, n) &&
      region_fits(l.memory_rings_offset, l.memory_rings, sizeof(wire::MemoryRing), alignof(wire::MemoryRing),
                  n) &&
      region_fits(l.labelled_memory_offset, 1, sizeof(wire::LabelledMemory), 8, n) &&
      region_fits(l.generated_arena_offset, l.generated_arena_bytes, 1, 8, n);
  return fits ? nullptr : "a table lies outside it";
}

Result<SegmentView> SegmentView::open(UniqueFd file, std::uint64_t announced_bytes) {
  // Some files cannot be sealed (EINVAL, EPERM). Then only the SIGBUS handler protects us.
  (void)fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return damaged("not a memory file");
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  if (announced_bytes < sizeof(wire::SegmentHeader) || announced_bytes > kMaxSegmentBytes ||
      announced_bytes > file_bytes) {
    return damaged("wrong size");
  }
  void* const mapped = mmap(nullptr, announced_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return Error{fmt::format("cannot map a segment: {}", std::strerror(errno))};
  auto* const base = static_cast<std::uint8_t*>(mapped);
  SegmentView view(std::move(file), base, announced_bytes, Layout{});  // unmaps on the way out

  const wire::SegmentHeader& h = view.header();
  if (h.magic != wire::kSegmentMagic) return damaged("wrong magic");
  if (h.wire_major != wire::kWireMajor)
    return Error{"segment refused: another version of clusterprof made it", ErrorKind::kOtherVersion};
  if (h.segment_bytes != announced_bytes) return damaged("wrong size");
  const Layout layout = copy_layout(h);
  if (const char* const damage = damage_of(layout, announced_bytes)) return damaged(damage);
  view.layout_ = layout;
  return view;
}

SegmentView::SegmentView(UniqueFd file, std::uint8_t* base, std::uint64_t bytes, const Layout& layout)
    : file_(std::move(file)), base_(base), bytes_(bytes), layout_(layout) {
  guard_mapping(reinterpret_cast<std::uintptr_t>(base_), reinterpret_cast<std::uintptr_t>(base_) + bytes_);
}

SegmentView::SegmentView(SegmentView&& other) noexcept
    : file_(std::move(other.file_)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_),
      layout_(other.layout_) {}

SegmentView& SegmentView::operator=(SegmentView&& other) noexcept {
  if (this != &other) {
    unmap();
    file_ = std::move(other.file_);
    base_ = std::exchange(other.base_, nullptr);
    bytes_ = other.bytes_;
    layout_ = other.layout_;
  }
  return *this;
}

SegmentView::~SegmentView() { unmap(); }

void SegmentView::unmap() noexcept {
  if (base_ == nullptr) return;
  forget_mapping(reinterpret_cast<std::uintptr_t>(base_));
  munmap(base_, bytes_);
  base_ = nullptr;
}

std::vector<SegmentView::Extent> SegmentView::touched(std::uint64_t offset, std::uint64_t bytes) const {
  std::vector<Extent> extents;
  const std::uint64_t end = offset + bytes;
  std::uint64_t position = offset;
  while (position < end) {
    const off_t data = lseek(file_.get(), static_cast<off_t>(position), SEEK_DATA);
    if (data < 0) {
      // ENXIO: only holes from here on. Other errors: the file does not know its holes, so read everything.
      if (errno != ENXIO) extents.push_back({position, end});
      break;
    }
    const std::uint64_t begin = static_cast<std::uint64_t>(data);
    if (begin >= end) break;
    const off_t hole = lseek(file_.get(), data, SEEK_HOLE);
    const std::uint64_t stop = hole < 0 ? end : std::min(end, static_cast<std::uint64_t>(hole));
    extents.push_back({std::max(begin, offset), stop});
    position = stop;
  }
  return extents;
}

}  // namespace clusterprof::collector
