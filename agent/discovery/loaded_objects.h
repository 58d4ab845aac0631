// SPDX-License-Identifier: BSD-3-Clause
// What the loader tells of the object files that are loaded. Not for signal handlers.
#pragma once

#include <link.h>

#include <cstdint>

#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

// The addresses from the object's first segment to the end of its last one.
inline AddressRange range_of(const dl_phdr_info& info) noexcept {
  AddressRange range{~std::uint64_t{0}, 0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const std::uint64_t begin = info.dlpi_addr + header.p_vaddr;
    if (begin < range.begin) range.begin = begin;
    if (begin + header.p_memsz > range.end) range.end = begin + header.p_memsz;
  }
  return range;
}

}  // namespace clusterprof::agent
