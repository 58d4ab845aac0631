// SPDX-License-Identifier: BSD-3-Clause
// The collector's view of a process's shared memory (formats/wire/segment.h). The process that writes it may
// be broken or hostile. So the layout is checked and copied once, and everything that is read later is copied
// and checked before use. Shrinking the file cannot kill the collector: it is sealed if possible, and a
// SIGBUS handler maps zero pages behind its end.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

class SegmentView {
 public:
  // Maps and checks a segment; the announced size must agree with the header's. Takes the file.
  static Result<SegmentView> open(UniqueFd file, std::uint64_t announced_bytes);

  SegmentView(SegmentView&& other) noexcept;
  SegmentView& operator=(SegmentView&& other) noexcept;
  SegmentView(const SegmentView&) = delete;
  SegmentView& operator=(const SegmentView&) = delete;
  ~SegmentView();

  // The header as it changes while the process runs. Sizes and offsets must not be taken from it:
  // those that were checked are in layout().
  [[nodiscard]] wire::SegmentHeader& header() const noexcept {
    return *reinterpret_cast<wire::SegmentHeader*>(base_);
  }

  struct Layout {
    std::uint64_t code_slots_offset, code_arena_offset, module_arena_offset, mpi_sites_offset,
        path_arena_offset, mpi_peers_offset, mpi_sizes_offset, communicators_offset, thread_slots_offset,
        mpi_event_rings_offset, mpi_site_counters_offset, regions_offset, io_files_offset, io_sites_offset,
        io_amounts_offset, omp_sites_offset, omp_rows_offset, memory_sites_offset, memory_addresses_offset,
        memory_blocks_offset, memory_rings_offset, labelled_memory_offset, generated_arena_offset;
    std::uint32_t code_slots, mpi_sites, mpi_peers, mpi_ops, communicators, thread_slots, mpi_event_rings,
        regions, io_files, io_sites, omp_sites, omp_rows, memory_sites, memory_blocks, memory_rings;
    std::uint64_t code_arena_bytes, module_arena_bytes, path_arena_bytes, generated_arena_bytes;
  };
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }

  // index < layout().thread_slots.
  [[nodiscard]] wire::ThreadSlot& thread_slot(std::uint32_t index) const noexcept {
    return reinterpret_cast<wire::ThreadSlot*>(base_ + layout_.thread_slots_offset)[index];
  }
  // index < layout().mpi_event_rings.
  [[nodiscard]] wire::MpiEventRing& mpi_event_ring(std::uint32_t index) const noexcept {
    return reinterpret_cast<wire::MpiEventRing*>(base_ + layout_.mpi_event_rings_offset)[index];
  }
  // layout().memory_rings != 0.
  [[nodiscard]] wire::MemoryRing& memory_ring() const noexcept {
    return *reinterpret_cast<wire::MemoryRing*>(base_ + layout_.memory_rings_offset);
  }
  [[nodiscard]] const wire::LabelledMemory& labelled_memory() const noexcept {
    return *reinterpret_cast<const wire::LabelledMemory*>(base_ + layout_.labelled_memory_offset);
  }
  // A table of `count` entries at `offset`, both from layout().
  template <typename T>
  [[nodiscard]] const T* table(std::uint64_t offset) const noexcept {
    return reinterpret_cast<const T*>(base_ + offset);
  }

  // Calls visit(index) for the entries of a table that are in pages that have been written. Reading other
  // pages would make the kernel allocate them.
  template <typename Visit>
  void for_each_touched(std::uint64_t offset, std::uint32_t count, std::uint64_t entry_bytes,
                        Visit&& visit) const {
    std::uint32_t next = 0;
    for (const auto& [begin, end] : touched(offset, count * entry_bytes)) {
      std::uint64_t first = (begin - offset) / entry_bytes;
      const std::uint64_t last = (end - offset + entry_bytes - 1) / entry_bytes;
      if (first < next) first = next;
      for (std::uint64_t i = first; i < last && i < count; ++i) visit(static_cast<std::uint32_t>(i));
      next = static_cast<std::uint32_t>(last);
    }
  }

  // Copies [offset, offset + bytes) of an arena; false when it does not lie inside it.
  [[nodiscard]] bool copy(std::uint64_t arena_offset, std::uint64_t arena_bytes, std::uint64_t offset,
                          void* to, std::uint64_t bytes) const noexcept {
    if (offset > arena_bytes || bytes > arena_bytes - offset) return false;
    if (bytes != 0) std::memcpy(to, base_ + arena_offset + offset, bytes);
    return true;
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Extent {
    std::uint64_t begin, end;
  };
  SegmentView(UniqueFd file, std::uint8_t* base, std::uint64_t bytes, const Layout& layout);
  [[nodiscard]] std::vector<Extent> touched(std::uint64_t offset, std::uint64_t bytes) const;
  static Layout copy_layout(const wire::SegmentHeader& h);
  static const char* damage_of(const Layout& l, std::uint64_t n);
  void unmap() noexcept;

  UniqueFd file_;
  std::uint8_t* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  Layout layout_{};
};

// The longest path or name that is accepted from a process.
inline constexpr std::uint32_t kMaxTextBytes = 1u << 16;

// The text of a fixed-size field up to its NUL, or all of it when there is none.
[[nodiscard]] std::string bounded_text(const char* field, std::size_t bytes);

// Installs the SIGBUS handler described above; once, before the first segment. A SIGBUS anywhere
// else keeps its meaning.
void install_truncation_guard();

}  // namespace clusterprof::collector
