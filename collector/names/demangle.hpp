// SPDX-License-Identifier: BSD-3-Clause
// From the names compilers give to symbols to the names in the source:
//   C++            _ZN4grid5sweepEl                         grid::sweep(long)
//   Rust, legacy   _ZN4core3fmt5write17h0123456789abcdefE   core::fmt::write
//   Rust, v0       _RNvCs1234_4heat4main                    heat::main
//   gfortran       __kernels_MOD_relax                      kernels::relax
//   Cython         __pyx_pw_4heat_4Grid_3sweep              heat.Grid.sweep
// Parts and copies a compiler makes of a function (.cold, .part.0, .isra.0, .constprop.0, .lto_priv.0,
// .llvm.123) have the function's name. Bodies of OpenMP regions are functions of their own: their suffix
// ("._omp_fn.0") stays. A name that fits no pattern, or more than one, is returned as it is.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace clusterprof::collector {

// What the object file around a name says. It is asked only where the name alone leaves a choice.
struct NameContext {
  std::string_view module_name;                      // of a Python extension: "heat"; empty: not known
  std::function<bool(std::string_view)> has_symbol;  // is there a symbol of that name; may be empty
};

[[nodiscard]] std::string readable_name(std::string_view symbol, const NameContext& context = {});

// The parts of it. No value: `symbol` is not a name of that kind, or is damaged.
[[nodiscard]] std::optional<std::string> demangle_rust_v0(std::string_view symbol);
[[nodiscard]] std::optional<std::string> demangle_rust_legacy(std::string_view symbol);
[[nodiscard]] std::optional<std::string> demangle_cython(std::string_view symbol, const NameContext& context);

}  // namespace clusterprof::collector
