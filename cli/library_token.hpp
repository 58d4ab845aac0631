// SPDX-License-Identifier: BSD-3-Clause
// The token in front of the file's name in our entries of LD_PRELOAD (formats/wire/preload_entry.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/elf_needed.hpp"

namespace clusterprof::cli {

// The object as LD_PRELOAD names it: /p/x.so as /p/$LIB/x.so.
std::string with_library_token(const std::string& object);

// The program itself, or the one that executes the script. No value: it cannot be known.
struct ExecutedProgram {
  std::string path;
  ElfDependencies object;
};
std::optional<ExecutedProgram> program_behind(const std::string& path);

// The loader of the program (PT_INTERP), or of the one that executes the script. Empty: it has none, or it
// cannot be known.
std::string loader_of_program(const std::string& path);

// Whether this loader finds all of these objects by the token. It is known of the loader that loaded this
// process, if that is the distribution's.
bool finds_by_library_token(const std::string& loader, const std::vector<std::string>& objects);

}  // namespace clusterprof::cli
