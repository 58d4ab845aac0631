// SPDX-License-Identifier: BSD-3-Clause
// The libraries that a 64-bit ELF file needs, read straight from its dynamic section: running ldd would run
// the program's own loader.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace clusterprof::cli {

struct ElfDependencies {
  std::string interpreter;          // PT_INTERP; empty: a static program, or a library
  std::vector<std::string> needed;  // DT_NEEDED, in order
  std::string rpath, runpath;       // DT_RPATH, DT_RUNPATH, as they stand
};

// nullopt when `path` cannot be read or is no 64-bit little-endian ELF file. A damaged or static
// file gives what could be read safely.
std::optional<ElfDependencies> read_elf_dependencies(const std::string& path);

// Where the dynamic loader would find library `name` for the object at `path`: RPATH,
// library_path (LD_LIBRARY_PATH), RUNPATH, ld.so.cache, the default directories. Empty: nowhere.
std::string find_library(const std::string& name, const std::string& path, const ElfDependencies& object,
                         const std::string& library_path);

// What a cache that ldconfig wrote says where library `name` is. Empty: nothing.
std::string find_in_loader_cache(const std::string& name, const std::string& cache_file);

}  // namespace clusterprof::cli
