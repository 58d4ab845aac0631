// SPDX-License-Identifier: BSD-3-Clause
// Files for readers to be fuzzed with. Checksums would stop all but the first of a fuzzer's changes, so an
// input is either a whole file (it begins as HDF5 files do), or a list of changes to the columns of a good
// one, whose checksums are then made right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace clusterprof::fuzz {

// One change is kEditBytes of input: which column or attribute (2 bytes, modulo their number), what is done
// (1), where (3) and a number (8).
inline constexpr std::size_t kEditBytes = 14;

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

  // The file that the input stands for.
  const std::filesystem::path& make(std::span<const std::uint8_t> input);

 private:
  std::filesystem::path path_;
  std::vector<char> original_;
  Names names_;
  bool has_blocks_ = false;  // whose checksums are columns
};

}  // namespace clusterprof::fuzz
