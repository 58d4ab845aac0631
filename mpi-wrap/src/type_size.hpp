// SPDX-License-Identifier: BSD-3-Clause
// Sizes of datatypes and buffers, in bytes.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/mpi_header.hpp"

namespace clusterprof::mpi_wrap {

// Looks up the sizes of the predefined datatypes. Call once, after MPI_Init (Open MPI does not return sizes
// before) and before another thread calls MPI.
void find_type_sizes() noexcept;

// 0 for MPI_DATATYPE_NULL.
std::uint64_t type_size_from_library(MPI_Datatype type) noexcept;

struct KnownType {
  HandleKey key;
  std::uint64_t bytes;
};
inline constexpr std::uint32_t kKnownTypes = 256;
extern KnownType known_types[kKnownTypes];

#if CLUSTERPROF_MPI_STANDARD

// Of predefined types, by the lowest byte of the handle; 0: not known yet.
extern std::uint16_t learned_sizes[256];

// Predefined types are 0x200 to 0x2ff. Those whose size is fixed carry it: 10x1sssttt in binary digits, of
// 1 << sss bytes.
inline bool is_predefined(HandleKey key) noexcept { return key >> 8 == 2; }

inline void learn_size(MPI_Datatype type, std::uint64_t bytes) noexcept {
  if (!is_predefined(key_of(type)) || bytes > 0xffff) return;
  __atomic_store_n(&learned_sizes[key_of(type) & 0xff], static_cast<std::uint16_t>(bytes), __ATOMIC_RELAXED);
}

// 0: it is no predefined type, or one that the program has not used yet.
inline std::uint64_t predefined_size(MPI_Datatype type) noexcept {
  const HandleKey key = key_of(type);
  if (!is_predefined(key)) return 0;
  if ((key & 0x40) != 0) return std::uint64_t{1} << (key >> 3 & 7);
  return __atomic_load_n(&learned_sizes[key & 0xff], __ATOMIC_RELAXED);
}

#else

// 0: it is no predefined type, or one that programs seldom use.
inline std::uint64_t predefined_size(MPI_Datatype type) noexcept {
#if !CLUSTERPROF_MPI_OPENMPI
  // Predefined types carry their size in the handle: 0x4c00SSNN.
  const std::uint32_t handle = static_cast<std::uint32_t>(type);
  if ((handle & 0xff000000u) == 0x4c000000u) return (handle & 0xff00u) >> 8;
#endif
  const HandleKey key = key_of(type);
  for (std::uint32_t i = slot_of(mix(key), kKnownTypes); known_types[i].key != 0; i = (i + 1) % kKnownTypes) {
    if (known_types[i].key == key) return known_types[i].bytes;
  }
  return 0;
}

#endif

inline std::uint64_t type_size(MPI_Datatype type) noexcept {
  const std::uint64_t bytes = predefined_size(type);
  return bytes != 0 ? bytes : type_size_from_library(type);
}

template <typename Count>
inline std::uint64_t count_of(Count count) noexcept {
  return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

// Bytes of `count` elements. The type of an empty buffer need not be valid.
template <typename Count>
inline std::uint64_t bytes_of(Count count, MPI_Datatype type) noexcept {
  return count > 0 ? static_cast<std::uint64_t>(count) * type_size(type) : 0;
}

// What a call has to agree on with those of other ranks, as wire::agreed_of_bytes. Asked before the call:
// the library is not, since the program's mistakes in arguments are the call's to find. How many bytes of
// MPI_PACKED stand for the same data is the library's affair.
template <typename Count>
inline std::uint64_t agreed_of(Count count, MPI_Datatype type) noexcept {
  if (count <= 0) return count == 0 ? wire::agreed_of_bytes(0) : 0;
  const std::uint64_t bytes = type == handles.packed ? 0 : predefined_size(type);
  return bytes == 0 ? 0 : wire::agreed_of_bytes(static_cast<std::uint64_t>(count) * bytes);
}

// Bytes of block i. There is one type for all blocks, or one for each.
template <typename Count>
inline std::uint64_t block_bytes(const Count* counts, MPI_Datatype type, std::int32_t i) noexcept {
  return bytes_of(counts[i], type);
}
template <typename Count>
inline std::uint64_t block_bytes(const Count* counts, const MPI_Datatype* types, std::int32_t i) noexcept {
  return bytes_of(counts[i], types[i]);
}

// Bytes of `blocks` blocks.
template <typename Count, typename Types>
inline std::uint64_t sum_of(const Count* counts, Types types, std::int32_t blocks) noexcept {
  std::uint64_t sum = 0;
  for (std::int32_t i = 0; i < blocks; ++i) sum += block_bytes(counts, types, i);
  return sum;
}

}  // namespace clusterprof::mpi_wrap
