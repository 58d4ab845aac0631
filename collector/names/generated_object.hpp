// SPDX-License-Identifier: BSD-3-Clause
// Object files that compilers keep in memory for debuggers (the GDB JIT interface): they describe code that
// was made at run time. Such a file is usually relocatable, and its sections have the addresses to which they
// were loaded. The process that it comes from may have written anything.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace clusterprof::collector {

// The addresses of functions, with names: sorted, without overlaps, joined where they touch. Empty if there
// are none, or if the object makes no sense.
struct AddressRange {
  std::uint64_t begin, end;
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};
[[nodiscard]] std::vector<AddressRange> functions_of_object(std::span<const std::uint8_t> object);

// The same object as an executable file, which elfutils reads without knowing where its sections are:
// symbols have their addresses, references of the debugging information are filled in, and code and data are
// left out. No value: it makes no sense. `moved_by`: all addresses are lower by that.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> placed_object(std::span<const std::uint8_t> object,
                                                                     std::uint64_t moved_by = 0);

// By how much its code has to be moved so that it is where that of the same object in another process is
// (modulo 2^64). 0: it cannot be moved, or makes no sense.
[[nodiscard]] std::uint64_t common_move(std::span<const std::uint8_t> object);

}  // namespace clusterprof::collector
