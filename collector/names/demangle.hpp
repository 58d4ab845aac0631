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

#include <string>
#include <string_view>

#include "collector/names/demangle_cython.hpp"

namespace clusterprof::collector {

[[nodiscard]] std::string readable_name(std::string_view symbol, const NameContext& context = {});

// A name of a symbol table without the version of a shared library: "clock_nanosleep@@GLIBC_2.17".
[[nodiscard]] std::string_view without_symbol_version(std::string_view symbol);

// Of code that was made at run time: the same without the parts in "[abi:...]" by which numba tells versions
// of a function from each other, with numbers that differ among processes; and numba's wrappers,
// cfunc._ZN1m1fEv.
[[nodiscard]] std::string readable_generated_name(std::string_view symbol, const NameContext& context = {});

}  // namespace clusterprof::collector
