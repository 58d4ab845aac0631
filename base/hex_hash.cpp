// SPDX-License-Identifier: BSD-3-Clause
#include "base/hex_hash.hpp"

#include <cstdint>

namespace clusterprof {

std::string hex_hash(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ull;
  }
  hash ^= hash >> 33;  // finaliser of MurmurHash3
  hash *= 0xff51afd7ed558ccdull;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53ull;
  hash ^= hash >> 33;
  std::string hex(16, '0');
  for (int digit = 15; digit >= 0; --digit, hash >>= 4) {
    hex[static_cast<std::size_t>(digit)] = "0123456789abcdef"[hash & 15];
  }
  return hex;
}

}  // namespace clusterprof
