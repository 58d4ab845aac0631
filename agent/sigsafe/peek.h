// SPDX-License-Identifier: BSD-3-Clause
// Reading the interpreter's memory by address. A read may fault: only under a guard (guard.h).
#pragma once

#include <cstdint>
#include <cstring>

namespace clusterprof::agent {

// Memory around an object may be read as well. In tests, AddressSanitizer would report that as an error.
template <typename T>
[[gnu::no_sanitize("address")]] T peek(std::uint64_t address) noexcept {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

// Aligned, in user space and not in the first page. Says nothing about what is there.
inline bool is_plausible_object(std::uint64_t address) noexcept {
  return address - 4096 < (std::uint64_t{1} << 47) - 4096 && address % 8 == 0;
}

}  // namespace clusterprof::agent
