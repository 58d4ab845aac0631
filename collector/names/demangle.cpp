// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/demangle.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "collector/names/demangle_rust.hpp"
#include "collector/names/freer.hpp"

namespace clusterprof::collector {
namespace {

std::string_view without_clone_suffix(std::string_view name) {
  static constexpr std::string_view kClones[] = {".cold", ".constprop", ".isra",
                                                 ".part", ".lto_priv",  ".llvm"};
  for (;;) {
    bool cut = false;
    for (const std::string_view clone : kClones) {
      const std::size_t at = name.rfind(clone);
      if (at == std::string_view::npos || at == 0) continue;
      const std::string_view rest = name.substr(at + clone.size());
      if (rest.find_first_not_of(".0123456789") != std::string_view::npos) continue;
      name = name.substr(0, at);
      cut = true;
    }
    if (!cut) return name;
  }
}

// gfortran's __module_MOD_procedure (and __module_MOD_procedure._omp_fn.0).
std::optional<std::string> fortran_name(std::string_view symbol) {
  if (!symbol.starts_with("__")) return std::nullopt;
  const std::size_t at = symbol.find("_MOD_");
  if (at == std::string_view::npos || at <= 2 || at + 5 == symbol.size()) return std::nullopt;
  return std::string(symbol.substr(2, at - 2)) + "::" + std::string(symbol.substr(at + 5));
}

std::string without_abi_tags(std::string_view name) {
  constexpr std::string_view kTag = "[abi:";
  std::string text;
  for (std::size_t at = 0; (at = name.find(kTag)) != std::string_view::npos;) {
    const std::size_t end = name.find(']', at);
    if (end == std::string_view::npos) break;
    text.append(name.substr(0, at));
    name.remove_prefix(end + 1);
  }
  return text.append(name);
}

}  // namespace

std::string readable_name(std::string_view symbol, const NameContext& context) {
  const std::string_view name = without_clone_suffix(symbol);
  if (name.starts_with("_R")) {
    if (auto text = demangle_rust_v0(name)) return std::move(*text);
  } else if (name.starts_with("_Z")) {
    if (auto text = demangle_rust_legacy(name)) return std::move(*text);
    // Behind a dot: bodies of OpenMP regions, static variables' numbers.
    const std::size_t dot = std::min(name.find('.'), name.size());
    int status = 0;
    const std::unique_ptr<char, Freer> text(
        abi::__cxa_demangle(std::string(name.substr(0, dot)).c_str(), nullptr, nullptr, &status));
    if (status == 0) return std::string(text.get()).append(name.substr(dot));
  } else if (name.starts_with("__pyx_")) {
    if (auto text = demangle_cython(name, context)) return std::move(*text);
  } else if (auto text = fortran_name(name)) {
    return std::move(*text);
  }
  return std::string(name);
}

std::string_view without_symbol_version(std::string_view symbol) {
  const std::size_t at = symbol.find('@');
  return at == 0 ? symbol : symbol.substr(0, at);
}

std::string readable_generated_name(std::string_view symbol, const NameContext& context) {
  const std::size_t dot = symbol.starts_with("_Z") ? std::string_view::npos : symbol.find("._Z");
  const std::size_t prefix = dot == std::string_view::npos ? 0 : dot + 1;
  return std::string(symbol.substr(0, prefix))
      .append(without_abi_tags(readable_name(symbol.substr(prefix), context)));
}

}  // namespace clusterprof::collector
