// SPDX-License-Identifier: BSD-3-Clause
// Stream buffers that write to and read from bytes in place. A string stream would copy them into a string.
#pragma once

#include <cstddef>
#include <span>
#include <streambuf>
#include <vector>

namespace clusterprof {

// Appends what is written to `bytes`, which must outlive this.
class ByteWriter final : public std::streambuf {
 public:
  explicit ByteWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}

 protected:
  std::streamsize xsputn(const char* from, std::streamsize count) override {
    const auto* const begin = reinterpret_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + count);
    return count;
  }
  int_type overflow(int_type byte) override {
    if (byte != traits_type::eof()) bytes_.push_back(static_cast<std::byte>(byte));
    return traits_type::not_eof(byte);
  }

 private:
  std::vector<std::byte>& bytes_;
};

// Reads `bytes`, which must outlive this.
class ByteReader final : public std::streambuf {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) {
    // setg() wants char*, but nothing writes to a get area.
    char* const begin = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
    setg(begin, begin, begin + bytes.size());
  }
};

}  // namespace clusterprof
