// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "cli/identity.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::cli {

// The binary interfaces of MPI for which there is a preload object. Intel MPI, MVAPICH and Cray MPICH share
// that of MPICH. kStandard: that of the MPI standard (libmpi_abi, MPI 5.0), which libraries of either family
// offer beside their own.
enum class MpiFlavour { kNone, kOpenMpi, kMpich, kStandard };

// What is known about the recorded program before it runs.
struct ProgramFacts {
  std::string path;                       // as resolved through PATH
  bool is_elf = false;                    // not a script
  bool lacks_glibcs_libraries = false;    // libdl.so.2 or libpthread.so.0, which our preload objects name
  bool needs_other_libc = false;          // its dynamic loader is not that of glibc
  MpiFlavour linked = MpiFlavour::kNone;  // by its own libraries or, one level down, by theirs
  bool needs_asan = false;                // linked to AddressSanitizer's shared run time
  // Of a script: of what executes it. The loader of such a program ignores our objects, or there is none, but
  // what it starts may be recorded. kCount: neither.
  wire::UnrecordedReason ignores_preloads = wire::UnrecordedReason::kCount;
};
ProgramFacts inspect_program(const std::string& path, const Environment& environment);

// The flavour of a library by its name: "libmpi.so.40", "libmpich.so.12", "libmpi_abi.so.0".
MpiFlavour flavour_of_library(const std::string& name);

// The flavour whose launcher set its variables in the environment.
MpiFlavour flavour_of_launcher(const Environment& environment);

// The flavours whose objects are preloaded. Decides by the first of these that gives one: the libraries that
// the program is linked to; the launcher; for a script, which may load any MPI later, the flavours in this
// installation. A program that is not linked to any may load a library with the standard's interface, whoever
// launches it: that object comes second, and each passes on the calls that are the other's.
std::vector<MpiFlavour> choose_flavours(const ProgramFacts& program, bool is_interpreter,
                                        const Environment& environment, bool have_openmpi, bool have_mpich,
                                        bool have_standard);

}  // namespace clusterprof::cli
