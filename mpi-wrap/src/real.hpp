// SPDX-License-Identifier: BSD-3-Clause
// Finding the MPI library and its functions, and deciding what the entry points
// (generated/stubs.cpp) lead to.
//
// A call of MPI_X or PMPI_X comes here once. From then on the entry point leads to
//   the wrapper   when the agent records this process, CLUSTERPROF_NO_MPI is not set and the
//                 library has the binary interface this object was built for;
//   the library   otherwise, also where it has the interface of the MPI standard (libmpi_abi): a
//                 call through the entry point costs one jump;
//   another tool  for MPI_X, when a tool that wraps MPI_X stands between the program and the
//                 library: the tool's own call of PMPI_X is what is recorded.
#pragma once

#include <cstdint>

#include "agent/agent_api.h"
#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/src/mpi_header.hpp"

namespace clusterprof::mpi_wrap {

// The wrapper of a function, null when it has none in this object.
void* wrapper_of(std::uint32_t number) noexcept;

// The library's PMPI_X, by function number; null until looked up.
extern void* real_functions[wire::kMpiFunctionCount];

// The same, looked up when needed; null when the library does not have it.
void* library_function(std::uint32_t number) noexcept;

// A variable of the library, null when it does not have it.
void* library_symbol(const char* name) noexcept;

// The agent; set before any wrapper can run.
extern const clusterprof_agent_api* agent;

// Inside a wrapper, its own library function: has been looked up on the way there.
#define CLUSTERPROF_REAL(name) \
  reinterpret_cast<decltype(&::name)>(::clusterprof::mpi_wrap::real_functions[::clusterprof::wire::k##name])

// Any other function; null when the library does not have it.
#define CLUSTERPROF_LIBRARY(name) \
  reinterpret_cast<decltype(&::name)>(::clusterprof::mpi_wrap::library_function(::clusterprof::wire::k##name))

}  // namespace clusterprof::mpi_wrap
