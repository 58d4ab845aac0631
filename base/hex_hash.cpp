// SPDX-License-Identifier: BSD-3-Clause
#include "base/hex_hash.hpp"

#include <cstddef>

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
  return as_hex(hash);
}

std::string as_hex(std::uint64_t number) {
  std::string hex(16, '0');
  for (std::size_t digit = hex.size(); digit-- > 0; number >>= 4)
    hex[digit] = "0123456789abcdef"[number & 15];
  return hex;
}

}  // namespace clusterprof
