// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "cli/identity.hpp"

namespace clusterprof::cli {

// The binary interfaces of MPI there is a preload object for. MPICH's is shared by Intel MPI,
// MVAPICH and Cray MPICH.
enum class MpiFlavour { kNone, kOpenMpi, kMpich };

// What is known about the recorded program before it runs.
struct ProgramFacts {
  std::string path;                       // as resolved through PATH
  bool is_elf = false;                    // not a script
  MpiFlavour linked = MpiFlavour::kNone;  // by its own libraries or, one level down, by theirs
  bool needs_asan = false;                // linked to AddressSanitizer's shared run time
};
ProgramFacts inspect_program(const std::string& path, const Environment& environment);

// The flavour a library name stands for: "libmpi.so.40", "libmpich.so.12".
MpiFlavour flavour_of_library(const std::string& name);

// The flavour whose launcher left its variables in the environment.
MpiFlavour flavour_of_launcher(const Environment& environment);

// In this order: what the program is linked to, who launched it, and for a script, which may
// load any MPI late, what this installation has.
MpiFlavour choose_flavour(const ProgramFacts& program, bool is_interpreter, const Environment& environment,
                          bool have_openmpi, bool have_mpich);

}  // namespace clusterprof::cli
