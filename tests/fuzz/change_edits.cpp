// SPDX-License-Identifier: BSD-3-Clause
// How inputs that stand for HDF5 files are changed: as lists of edits. A whole file that is changed anywhere
// tests HDF5, and what that makes of damage is for tests/faults/damaged_files to see, in processes of their
// own.
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* bytes, std::size_t size, std::size_t most);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t most,
                                               unsigned seed);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t most,
                                               unsigned /*seed*/) {
  const bool is_whole_file = size >= 4 && std::memcmp(bytes, "\x89HDF", 4) == 0;
  return LLVMFuzzerMutate(bytes, is_whole_file ? 0 : size, most);
}
