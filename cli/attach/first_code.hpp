// SPDX-License-Identifier: BSD-3-Clause
// What `clusterprof attach` puts into the memory that a process gets: code, a stack for one call, and the block
// (formats/wire/attach.h), in this order. Nobody can write to the code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/wire/attach.h"

namespace clusterprof::cli::attach {

inline constexpr std::uint64_t kPageBytes = 4096, kCallStackBytes = 64 * 1024;
inline constexpr std::uint64_t kBlockAt = kPageBytes + kCallStackBytes;
inline constexpr std::uint64_t kLandedAt = kBlockAt - 16;  // above the stack: a word, not 0: the call has returned
inline constexpr std::uint64_t kMemoryBytes =
    kBlockAt + (sizeof(wire::AttachBlock) + kPageBytes - 1) / kPageBytes * kPageBytes;

struct FirstCode {
  std::span<const std::uint8_t> bytes;
  // Where the thread that is held begins: with r12, the address of the block, and r13, that of pthread_create.
  // All of the memory may be read and executed. It makes what is behind the code writable instead, calls, and
  // stays between landing and bytes.size() with the error number in ebx; below 0: the memory stayed as it was.
  std::size_t begin;
  std::size_t landing;
};

FirstCode first_code();

}  // namespace clusterprof::cli::attach
