// SPDX-License-Identifier: BSD-3-Clause
// What is known of the objects of libtorch 1.13, read only. The program passes these objects to libtorch, so
// they are valid. Offsets are those of the headers of 1.13.1; tests/e2e/torch_test.py checks the results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace clusterprof::torch_wrap {

using Address = std::uint64_t;

template <typename Value>
Value read(Address at) noexcept {
  Value value;
  memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
  return value;
}

// A std::vector of elements of this size.
struct Vector {
  Address begin, end;
  std::size_t element;

  Vector(Address vector, std::size_t element_bytes) noexcept
      : begin(read<Address>(vector)), end(read<Address>(vector + 8)), element(element_bytes) {}
  std::size_t size() const noexcept { return (end - begin) / element; }
  Address operator[](std::size_t i) const noexcept { return begin + i * element; }
};
inline constexpr std::size_t kTensorBytes = 8;  // a pointer to a TensorImpl
inline constexpr std::size_t kVectorBytes = 24;

// Bytes of an element by c10::ScalarType.
inline constexpr std::uint8_t kElementBytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, 1, 1};

// tensor: of an at::Tensor. 0 where it has no elements, or of a type that is not known.
inline std::uint64_t bytes_of_tensor(Address tensor) noexcept {
  constexpr std::size_t kNumel = 168, kDataType = 176;
  const auto impl = read<Address>(tensor);
  if (impl == 0) return 0;
  const auto elements = read<std::int64_t>(impl + kNumel);
  const auto type = read<std::uint16_t>(impl + kDataType);
  if (elements <= 0 || type >= sizeof kElementBytes) return 0;
  return static_cast<std::uint64_t>(elements) * kElementBytes[type];
}

// vector: of a std::vector<at::Tensor>
inline std::uint64_t bytes_of_tensors(Address vector) noexcept {
  const Vector tensors(vector, kTensorBytes);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) bytes += bytes_of_tensor(tensors[i]);
  return bytes;
}

// vector: of a std::vector<std::vector<at::Tensor>>
inline std::uint64_t bytes_of_lists(Address vector) noexcept {
  const Vector lists(vector, kVectorBytes);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < lists.size(); ++i) bytes += bytes_of_tensors(lists[i]);
  return bytes;
}

inline constexpr std::size_t kRootInOptions = 0, kRootInReduceOptions = 40;

// c10d::PrefixStore: a std::string (pointer, length) and the store that it stands for.
inline constexpr std::size_t kPrefixOfStore = 32, kInnerStore = 64;

}  // namespace clusterprof::torch_wrap
