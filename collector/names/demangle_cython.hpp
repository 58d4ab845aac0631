// SPDX-License-Identifier: BSD-3-Clause
// Names of functions of Cython modules from the names of their symbols. No state: any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace clusterprof::collector {

// What the object file around a name tells. It is asked only where the name alone leaves a choice.
struct NameContext {
  std::string_view module_name;                      // of a Python extension: "heat"; empty: not known
  std::function<bool(std::string_view)> has_symbol;  // is there a symbol of that name; may be empty
};

// __pyx_pw_4heat_4Grid_3sweep  ->  heat.Grid.sweep. No value: it is no such name, or can be read in several
// ways.
[[nodiscard]] std::optional<std::string> demangle_cython(std::string_view symbol, const NameContext& context);

}  // namespace clusterprof::collector
