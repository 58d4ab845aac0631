// SPDX-License-Identifier: BSD-3-Clause
// 64-bit mixing for table keys and communicator identities.
#pragma once

#include <cstdint>

namespace clusterprof::mpi_wrap {

// The finaliser of MurmurHash3 (Austin Appleby, public domain): a bijection.
constexpr std::uint64_t mix(std::uint64_t value) noexcept {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdull;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ull;
  value ^= value >> 33;
  return value;
}

// Order matters: combine(combine(0, a), b) differs from combine(combine(0, b), a).
constexpr std::uint64_t combine(std::uint64_t seed, std::uint64_t value) noexcept {
  return mix(seed * 0x9e3779b97f4a7c15ull + value + 0x632be59bd9b4e019ull);
}

constexpr std::uint64_t hash_of_text(const char* text) noexcept {
  std::uint64_t hash = 0;
  for (; text != nullptr && *text != '\0'; ++text) hash = combine(hash, static_cast<unsigned char>(*text));
  return hash;
}

// `hash` spread over [0, count) by its upper half.
constexpr std::uint32_t slot_of(std::uint64_t hash, std::uint32_t count) noexcept {
  return static_cast<std::uint32_t>(((hash >> 32) * count) >> 32);
}

}  // namespace clusterprof::mpi_wrap
