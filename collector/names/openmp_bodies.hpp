// SPDX-License-Identifier: BSD-3-Clause
// Functions that compilers have made of the bodies of OpenMP constructs.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "collector/names/symbolize.hpp"

namespace clusterprof::collector {

// "main._omp_fn.0" (GCC; demangled "f() [clone ._omp_fn.0]"), "main.omp_outlined" (clang since 17),
// ".omp_outlined." (before). Returns the name of the function that it was made from; empty: it is not told;
// no value: it is none.
[[nodiscard]] std::optional<std::string_view> made_from(std::string_view function);

// Symbols have the types of parameters, debug information does not.
[[nodiscard]] bool is_same_function(std::string_view a, std::string_view b);

// `call`: the functions at the call that begins a region whose threads run `body`, innermost first. GCC gives
// the call the line of what comes before it, which may be in a function that is inlined there: such functions
// are removed, and the line becomes that of the body, which is the region's own. A function that has left the
// stack with that call (a tail call) is added.
void move_to_region(std::vector<SourceFrame>& call, const SourceFrame& body);

}  // namespace clusterprof::collector
