// SPDX-License-Identifier: BSD-3-Clause
// The mapped object files of this process, as the unwinder needs them: a sorted immutable array behind an
// atomic pointer, made outside signal handlers (discovery/module_table.h). Old arrays stay valid for handlers
// that still read them; their number is bounded by how often the set of modules changed.
#pragma once

#include <cstdint>

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

// Copies the module whose executable range contains pc. False if there is none, or if `table` was overwritten
// meanwhile (the caller has held it across many changes). Async-signal-safe.
bool find_module(const ModuleTable* table, std::uint64_t pc, Module& out) noexcept;

// Makes `table` the current one. For module_table_refresh (discovery/module_table.h).
void publish_module_table(const ModuleTable* table) noexcept;

}  // namespace clusterprof::agent
