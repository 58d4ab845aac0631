// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/dwarf_functions.hpp"

#include <dwarf.h>
#include <fmt/format.h>

#include <cstring>

namespace clusterprof::collector {
namespace {

// gcc gives the classes of lambdas no name: their line tells them apart.
std::string unnamed_class(Dwarf_Die& die) {
  const char* kind = "unnamed";
  Dwarf_Die member;
  for (int more = dwarf_child(&die, &member); more == 0; more = dwarf_siblingof(&member, &member)) {
    if (dwarf_tag(&member) != DW_TAG_subprogram) continue;
    const char* const name = dwarf_diename(&member);
    if (name != nullptr && std::strcmp(name, "operator()") == 0) kind = "lambda";
  }
  int line = 0;
  if (dwarf_decl_line(&die, &line) != 0) return fmt::format("{{{}}}", kind);
  return fmt::format("{{{}:{}}}", kind, line);
}

}  // namespace

const char* full_linkage_name(Dwarf_Die& die, decltype(&dwarf_attr) read) {
  Dwarf_Attribute attribute;
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (read(&die, name, &attribute) == nullptr) continue;
    const char* const text = dwarf_formstring(&attribute);
    if (text != nullptr && (std::strncmp(text, "_Z", 2) == 0 || std::strncmp(text, "_R", 2) == 0))
      return text;
  }
  return nullptr;
}

void collect_functions(Dwarf_Die& parent, const std::string& scope, std::vector<FunctionRange>& functions,
                       ScopeNames& scopes, unsigned depth) {
  Dwarf_Die die;
  if (depth >= kMaxNesting || dwarf_child(&parent, &die) != 0) return;
  do {
    switch (const int tag = dwarf_tag(&die)) {
      case DW_TAG_subprogram: {
        for_each_range(die, [&](std::uint64_t begin, std::uint64_t end) {
          functions.push_back({begin, end, die});
        });
        if (!scope.empty() && full_linkage_name(die, dwarf_attr) == nullptr) scopes.emplace(die.addr, scope);
        if (dwarf_haschildren(&die) <= 0) break;
        // Contained procedures, local classes.
        const char* const name = dwarf_diename(&die);
        collect_functions(die, name != nullptr ? scope + name + "::" : scope, functions, scopes, depth + 1);
        break;
      }
      case DW_TAG_namespace:
      case DW_TAG_structure_type:
      case DW_TAG_class_type:
      case DW_TAG_union_type:
      case DW_TAG_module: {
        const char* const name = dwarf_diename(&die);
        const std::string own = name != nullptr           ? std::string(name)
                                : tag == DW_TAG_namespace ? std::string("(anonymous namespace)")
                                                          : unnamed_class(die);
        collect_functions(die, scope + own + "::", functions, scopes, depth + 1);
        break;
      }
      case DW_TAG_lexical_block:
        collect_functions(die, scope, functions, scopes, depth + 1);
        break;
      default:
        break;
    }
  } while (dwarf_siblingof(&die, &die) == 0);
}

void collect_inlined(Dwarf_Die& parent, InlinedCalls& out, unsigned depth) {
  Dwarf_Die die;
  if (depth >= kMaxNesting || dwarf_child(&parent, &die) != 0) return;
  do {
    switch (dwarf_tag(&die)) {
      case DW_TAG_inlined_subroutine:
        for_each_range(die, [&](std::uint64_t begin, std::uint64_t end) {
          out.push_back({begin, end, die});
        });
        break;
      case DW_TAG_lexical_block:
      case DW_TAG_try_block:
      case DW_TAG_catch_block:
        collect_inlined(die, out, depth + 1);
        break;
      default:
        break;
    }
  } while (dwarf_siblingof(&die, &die) == 0);
}

Dwarf_Die declaration_of(Dwarf_Die die) {
  for (unsigned step = 0; step < 8; ++step) {  // link-time optimisation makes chains; a damaged file a ring
    Dwarf_Attribute attribute;
    Dwarf_Die next;
    if ((dwarf_attr(&die, DW_AT_abstract_origin, &attribute) == nullptr &&
         dwarf_attr(&die, DW_AT_specification, &attribute) == nullptr) ||
        dwarf_formref_die(&attribute, &next) == nullptr)
      break;
    die = next;
  }
  return die;
}

std::uint32_t unsigned_attribute(Dwarf_Die& die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(&die, name, &attribute) == nullptr || dwarf_formudata(&attribute, &value) != 0) return 0;
  return static_cast<std::uint32_t>(value);
}

}  // namespace clusterprof::collector
