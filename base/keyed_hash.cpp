// SPDX-License-Identifier: BSD-3-Clause
#include "base/keyed_hash.hpp"

#include <bit>
#include <cstddef>

namespace clusterprof {
namespace {

// Little-endian, of up to eight bytes.
template <typename Bytes>
std::uint64_t word_of(const Bytes& bytes, std::size_t from, std::size_t count) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < count; ++i)
    word |= std::uint64_t{static_cast<std::uint8_t>(bytes[from + i])} << (8 * i);
  return word;
}

struct State {
  std::uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (; count > 0; --count) {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    }
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t keyed_hash(const HashKey& key, std::string_view text) {
  const std::uint64_t k0 = word_of(key, 0, 8), k1 = word_of(key, 8, 8);
  State state{k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
              k1 ^ 0x7465646279746573u};
  std::size_t at = 0;
  for (; text.size() - at >= 8; at += 8) state.take(word_of(text, at, 8));
  state.take(word_of(text, at, text.size() - at) | std::uint64_t{text.size()} << 56);
  state.v2 ^= 0xff;
  state.rounds(4);
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace clusterprof
