// SPDX-License-Identifier: BSD-3-Clause
// Functions in debug information (DWARF, read by elfutils): where they are, what they are called, and what is
// inlined into them. Damaged files give fewer functions, never an error. One thread at a time for one object
// file.
#pragma once

#include <elfutils/libdw.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace clusterprof::collector {

struct FunctionRange {
  std::uint64_t begin, end;
  Dwarf_Die die;
};

// Entries of the debugging information by where they lie in memory: offsets repeat in the files that dwz and
// -gsplit-dwarf make.
using DieKey = const void*;

// Where a function without linkage name (one in an anonymous namespace, a Fortran procedure) is declared:
// "ns::Class::".
using ScopeNames = std::unordered_map<DieKey, std::string>;

// The functions inlined directly into one, sorted by address.
using InlinedCalls = std::vector<FunctionRange>;

// How deep entries may lie in each other: deeper than any compiler nests them only in a file made to harm.
inline constexpr unsigned kMaxNesting = 256;

// Adds the functions with code in a compilation unit, or in a part of it, and the scopes of those that have
// no linkage name. `scope`: of `parent`, "ns::".
void collect_functions(Dwarf_Die& parent, const std::string& scope, std::vector<FunctionRange>& functions,
                       ScopeNames& scopes, unsigned depth = 0);
// Adds what is inlined directly into a function or an inlined call.
void collect_inlined(Dwarf_Die& parent, InlinedCalls& out, unsigned depth = 0);

// A linkage name from which more can be told than from the name in the source; null: it has none. `read`:
// dwarf_attr, or dwarf_attr_integrate to ask the declaration too.
[[nodiscard]] const char* full_linkage_name(Dwarf_Die& die, decltype(&dwarf_attr) read);
// What `die` is a copy, or the body, of: the entry at the place of its declaration.
[[nodiscard]] Dwarf_Die declaration_of(Dwarf_Die die);
// 0: it has no such attribute.
[[nodiscard]] std::uint32_t unsigned_attribute(Dwarf_Die& die, unsigned name);

// visit(begin, end) for each range of addresses of an entry.
template <typename Visit>
void for_each_range(Dwarf_Die& die, Visit&& visit) {
  Dwarf_Addr base = 0;
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  std::ptrdiff_t offset = 0;
  while ((offset = dwarf_ranges(&die, offset, &base, &begin, &end)) > 0)
    if (begin < end && begin != 0) visit(begin, end);
}

}  // namespace clusterprof::collector
