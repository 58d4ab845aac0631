// SPDX-License-Identifier: BSD-3-Clause
// The MPI library that the program has loaded, and its functions. Never a tool between program and library:
// tools define only MPI_X, and the library alone defines PMPI_X.
#pragma once

#include <cstdint>

#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/src/mpi_header.hpp"

namespace clusterprof::mpi_wrap {

// Its handle for dlsym; null when no MPI library is loaded.
void* find_library() noexcept;

// Its PMPI_X by function number; null until looked up.
extern void* real_functions[wire::kMpiFunctionCount];

// The same, looked up when needed; null when the library does not have it.
void* library_function(std::uint32_t number) noexcept;

// A variable of the library; null when it does not have it.
void* library_symbol(const char* name) noexcept;

// For the wrapper of that function: the library's function, which was looked up before the wrapper is
// reached.
#define CLUSTERPROF_REAL(name) \
  reinterpret_cast<decltype(&::name)>(::clusterprof::mpi_wrap::real_functions[::clusterprof::wire::k##name])

// Any other function; null when the library does not have it.
#define CLUSTERPROF_LIBRARY(name) \
  reinterpret_cast<decltype(&::name)>(::clusterprof::mpi_wrap::library_function(::clusterprof::wire::k##name))

}  // namespace clusterprof::mpi_wrap
