// SPDX-License-Identifier: BSD-3-Clause
// Files for readers to be fuzzed with. Checksums would stop all but the first of a fuzzer's changes, so an
// input is either a whole file (it begins as HDF5 files do), or a list of changes to the columns of a good
// one, whose checksums are then made right, or a list of changes to a file with two copies of the good one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clusterprof::fuzz {

// One change is kEditBytes of input: which column or attribute (2 bytes, modulo their number), what is done
// (1), where (3) and a number (8).
inline constexpr std::size_t kEditBytes = 14;

// With this begins an input that stands for a file with two copies (formats/shard/two_copies.hpp). Changes
// follow, of kCopyEditBytes each: what is done (1 byte), where (4) and a number (8).
inline constexpr std::string_view kOfTwoCopies = "cpshard1";
inline constexpr std::size_t kCopyEditBytes = 13;
enum class CopyEdit : std::uint8_t {
  kField,     // a field of a header becomes the number
  kSomewhat,  // a field becomes somewhat more or less
  kBytes,     // eight bytes anywhere; no checksum is made right
  kEnd,       // the file becomes shorter or longer
};
// In what is done: the checksum of the copy becomes right, too, not only that of its header.
inline constexpr std::uint8_t kWithImage = 0x80;
inline constexpr std::size_t kCopyFields = 6;  // of each header, beside its own checksum

class EditedFile {
 public:
  // Paths of datasets; paths of objects with names of their attributes, checksums aside. In order.
  struct Names {
    std::vector<std::string> columns;
    std::vector<std::pair<std::string, std::string>> attributes;
  };

  // `original` lends its columns. The file that is made lies in memory where there is /dev/shm.
  explicit EditedFile(const std::filesystem::path& original);
  ~EditedFile();
  EditedFile(const EditedFile&) = delete;
  EditedFile& operator=(const EditedFile&) = delete;

  // Whether the input stands for the file with two copies as it was written.
  static bool is_unchanged_copies(std::span<const std::uint8_t> input);
  // The file that the input stands for.
  const std::filesystem::path& make(std::span<const std::uint8_t> input);

 private:
  void make_copies();
  void write_copies(std::span<const std::uint8_t> edits);

  std::filesystem::path path_;
  std::vector<char> original_;
  std::vector<std::uint8_t> copies_;      // the file with two copies
  std::vector<std::size_t> copy_places_;  // of their headers
  Names names_;
  bool has_blocks_ = false;  // whose checksums are columns
};

}  // namespace clusterprof::fuzz
