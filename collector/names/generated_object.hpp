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
// left out. No value: it makes no sense.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> placed_object(std::span<const std::uint8_t> object);

}  // namespace clusterprof::collector
