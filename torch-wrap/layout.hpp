// SPDX-License-Identifier: BSD-3-Clause
// What is known of the objects of libtorch, read only. The program passes these objects to libtorch, so they
// are valid. tests/e2e/torch_test.py checks the results.
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

// Offsets that differ between releases. All of these objects begin with two counts of references, which have
// become smaller, and a tensor has one pointer less in the latest releases.
struct Layout {
  const char* library;          // as the report names it
  const char* base_class;       // of ProcessGroupGloo, as its type says
  std::size_t prefix_of_store;  // of a c10d::PrefixStore, a std::string; then the store it stands for
  std::size_t elements;         // of a tensor: their number; then their type
  std::size_t root_in_reduce_options;
  bool cxx11_strings = true;  // std::string as in the C++ ABI since C++11: pointer, length, 16 bytes

  constexpr std::size_t inner_store() const noexcept { return prefix_of_store + (cxx11_strings ? 32 : 8); }
};

// Of the libtorch that is recorded: before anything is, library.cpp has found the one that it has.
const Layout& layout() noexcept;

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
inline constexpr std::uint8_t kElementBytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2,  //
                                                 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1,  2, 4, 8, 1, 1,  //
                                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 1, 4};

// tensor: of an at::Tensor. 0 where it has no elements, or of a type that is not known.
inline std::uint64_t bytes_of_tensor(Address tensor) noexcept {
  const auto impl = read<Address>(tensor);
  if (impl == 0) return 0;
  const auto elements = read<std::int64_t>(impl + layout().elements);
  const auto type = read<std::uint16_t>(impl + layout().elements + 8);
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

// A std::string.
struct Text {
  const char* begin;
  std::size_t length;

  explicit Text(Address string) noexcept
      : begin(reinterpret_cast<const char*>(read<Address>(string))),
        length(layout().cxx11_strings ? read<std::size_t>(string + 8) : length_in_front()) {}

 private:
  // In the ABI of before C++11 a string is a pointer to its text, in front of which are length, capacity and
  // count.
  std::size_t length_in_front() const noexcept {
    return read<std::size_t>(reinterpret_cast<Address>(begin) - 24);
  }
};

}  // namespace clusterprof::torch_wrap
