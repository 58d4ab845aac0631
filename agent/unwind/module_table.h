// SPDX-License-Identifier: BSD-3-Clause
// The mapped object files of this process, as the unwinder needs them: a sorted immutable array
// behind an atomic pointer, rebuilt outside signal handlers when the loader's counters move.
// Old arrays stay valid for handlers that still read them (they are kept, and bounded by the
// number of times the set of modules changed, see module_table.cpp).
#pragma once

#include <atomic>
#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

struct Module {
  std::uint64_t start, end;  // runtime range of executable segments
  std::uint64_t load_bias;
  const std::uint8_t* eh_frame_hdr;  // runtime address, null when there is none
  std::uint64_t eh_frame_hdr_bytes;
  std::uint64_t cfi_start, cfi_end;  // runtime range of the segment that holds .eh_frame_hdr and .eh_frame
  std::uint64_t identity;            // hash of path and build-id
};

struct ModuleTable {
  std::uint32_t epoch;  // 0 while a very old table is being overwritten: see find_module
  std::uint32_t count;
  const Module* modules;  // sorted by start
};

// The current table; never null after the first module_table_refresh. Async-signal-safe.
const ModuleTable* module_table() noexcept;

// Copies the module whose executable range contains pc. False when there is none, or when `table` was
// overwritten meanwhile (the caller held it across many changes). Async-signal-safe.
bool find_module(const ModuleTable* table, std::uint64_t pc, Module& out) noexcept;

// Makes `table` the current one. For module_table_refresh.
void publish_module_table(const ModuleTable* table) noexcept;

// Looks whether modules came or went and publishes a new table; describes new ones to the
// collector (ModuleEntry with path and build-id, vdso included) in `segment` (may be null) and
// advances its module_epoch. Takes the loader's lock: never from a handler, and never while
// another thread could be forking (the caller holds the agent's fork lock).
// Returns true when something changed.
bool module_table_refresh(wire::SegmentHeader* segment) noexcept;

// Writes all modules to a new segment.
void module_table_describe_all(wire::SegmentHeader* segment) noexcept;

// In the child of a fork: what the parent had told about the modules that are known here. No call of the
// loader.
void module_table_copy(const wire::SegmentHeader* parents, wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
