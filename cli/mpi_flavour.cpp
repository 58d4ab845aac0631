// SPDX-License-Identifier: BSD-3-Clause
#include "cli/mpi_flavour.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cli/elf_needed.hpp"
#include "cli/library_token.hpp"
#include "formats/wire/glibc_loader.h"

namespace clusterprof::cli {
namespace {

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool is_system_library(std::string_view name) {
  for (const std::string_view prefix :
       {"libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so", "libstdc++.so",
        "libgcc_s.so", "ld-linux", "libz.so", "libexpat.so"}) {
    if (starts_with(name, prefix)) return true;
  }
  return false;
}

MpiFlavour flavour_among(const ElfDependencies& object) {
  for (const std::string& name : object.needed) {
    if (const MpiFlavour flavour = flavour_of_library(name); flavour != MpiFlavour::kNone) return flavour;
  }
  return MpiFlavour::kNone;
}

// Whether the loader ignores LD_PRELOAD, since the program gets privileges that its user does not have.
bool gets_privileges(const char* path) {
  struct stat status;
  if (::stat(path, &status) != 0) return false;
  const bool sets_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid();
  const bool sets_group =
      (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 && status.st_gid != ::getegid();
  const bool has_capabilities = ::geteuid() != 0 && ::getxattr(path, "security.capability", nullptr, 0) > 0;
  return (sets_user || sets_group || has_capabilities) && ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
}

wire::UnrecordedReason ignores_preloads(const ExecutedProgram& program) {
  // The loader itself, called with a program as its argument, is no static program.
  if (wire::is_glibc_loader(program.path.c_str())) return wire::UnrecordedReason::kCount;
  if (program.object.interpreter.empty()) return wire::UnrecordedReason::kStaticProgram;
  return gets_privileges(program.path.c_str()) ? wire::UnrecordedReason::kPrivileges
                                               : wire::UnrecordedReason::kCount;
}

}  // namespace

MpiFlavour flavour_of_library(const std::string& name) {
  const std::string_view base = std::string_view(name).substr(name.rfind('/') + 1);
  // Its PMPI_ functions may be in a library of their own.
  if (starts_with(base, "libmpi_abi") || starts_with(base, "libpmpi_abi")) return MpiFlavour::kStandard;
  // Intel MPI and MPICH's common ABI call themselves libmpi.so.12; Open MPI started at 0 and is
  // at 40 since version 3.
  if (starts_with(base, "libmpi.so.12") || starts_with(base, "libmpich") ||
      starts_with(base, "libmpifort.so.12") || starts_with(base, "libmpicxx.so.12") ||
      starts_with(base, "libmpi_cray") || starts_with(base, "libmpi_gnu")) {
    return MpiFlavour::kMpich;
  }
  if (starts_with(base, "libmpi.so.") || starts_with(base, "libmpi_mpifh") ||
      starts_with(base, "libmpi_usempi") || starts_with(base, "libmpi_cxx.so") ||
      starts_with(base, "libopen-rte.so")) {
    return MpiFlavour::kOpenMpi;
  }
  return MpiFlavour::kNone;
}

ProgramFacts inspect_program(const std::string& path, const Environment& environment) {
  ProgramFacts facts;
  facts.path = path;
  const auto program = program_behind(path);
  if (!program) return facts;
  facts.ignores_preloads = ignores_preloads(*program);
  if (program->path != path) return facts;  // a script
  const ElfDependencies* const object = &program->object;
  facts.is_elf = true;
  facts.needs_other_libc =
      !object->interpreter.empty() && !wire::is_glibc_loader(object->interpreter.c_str());
  facts.lacks_glibcs_libraries =
      !object->interpreter.empty() && !facts.needs_other_libc &&
      !wire::has_glibcs_libraries(object->interpreter.c_str(),
                                  [](const char* library) { return ::access(library, F_OK) == 0; });
  for (const std::string& name : object->needed) {
    if (starts_with(name, "libasan.so") || starts_with(name, "libclang_rt.asan")) facts.needs_asan = true;
  }
  facts.linked = flavour_among(*object);
  if (facts.linked != MpiFlavour::kNone) return facts;

  const char* library_path = environment("LD_LIBRARY_PATH");
  for (const std::string& name : object->needed) {
    if (is_system_library(name)) continue;
    const std::string library =
        find_library(name, path, *object, library_path == nullptr ? "" : library_path);
    if (library.empty()) continue;
    if (const auto inner = read_elf_dependencies(library)) facts.linked = flavour_among(*inner);
    if (facts.linked != MpiFlavour::kNone) break;
  }
  return facts;
}

MpiFlavour flavour_of_launcher(const Environment& environment) {
  if (any_set(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) return MpiFlavour::kOpenMpi;
  if (any_set(environment,
              {"PMI_RANK", "PMI_FD", "MPI_LOCALNRANKS", "HYDI_CONTROL_FD", "I_MPI_HYDRA_HOST_FILE"})) {
    return MpiFlavour::kMpich;
  }
  if (any_set(environment, {"PMIX_RANK", "PMIX_NAMESPACE"})) return MpiFlavour::kOpenMpi;
  return MpiFlavour::kNone;
}

std::vector<MpiFlavour> choose_flavours(const ProgramFacts& program, bool is_interpreter,
                                        const Environment& environment, bool have_openmpi, bool have_mpich,
                                        bool have_standard) {
  if (program.linked != MpiFlavour::kNone) return {program.linked};
  std::vector<MpiFlavour> chosen;
  if (const MpiFlavour launcher = flavour_of_launcher(environment); launcher != MpiFlavour::kNone)
    chosen.push_back(launcher);
  else if (program.is_elf && !is_interpreter)
    return {};
  else if (have_openmpi || have_mpich)
    chosen.push_back(have_openmpi ? MpiFlavour::kOpenMpi : MpiFlavour::kMpich);
  if (have_standard) chosen.push_back(MpiFlavour::kStandard);
  return chosen;
}

}  // namespace clusterprof::cli
