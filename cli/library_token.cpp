// SPDX-License-Identifier: BSD-3-Clause
#include "cli/library_token.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "formats/wire/preload_entry.h"

namespace clusterprof::cli {
namespace {

// The program named in a script's first line. Empty: it is none.
std::string program_of_script(const std::string& path) {
  std::array<char, 256> begin{};  // what Linux reads of it
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  const std::string text(begin.data(), static_cast<std::size_t>(file.gcount()));
  if (text.compare(0, 2, "#!") != 0) return {};
  const std::size_t first = text.find_first_not_of(" \t", 2);
  return first == std::string::npos ? "" : text.substr(first, text.find_first_of(" \t\n", first) - first);
}

// Opens the file, as the loader would open one that it preloads, but loads nothing.
bool is_found(const std::string& entry) {
  ::dlerror();
  if (void* const handle = ::dlopen(entry.c_str(), RTLD_LAZY | RTLD_NOLOAD); handle != nullptr) {
    ::dlclose(handle);  // of a clusterprof around this one
    return true;
  }
  return ::dlerror() == nullptr;
}

}  // namespace

std::string with_library_token(const std::string& object) {
  const std::size_t name = object.rfind('/') + 1;
  return object.substr(0, name) + wire::kLibraryToken + object.substr(name);
}

std::optional<ExecutedProgram> program_behind(const std::string& path) {
  constexpr int kScripts = 5;  // of scripts, as in Linux
  std::string program = path;
  for (int i = 0; i < kScripts && !program.empty(); ++i) {
    if (auto object = read_elf_dependencies(program)) return ExecutedProgram{program, std::move(*object)};
    program = program_of_script(program);
  }
  return std::nullopt;
}

std::string loader_of_program(const std::string& path) {
  const auto program = program_behind(path);
  return program ? program->object.interpreter : "";
}

bool finds_by_library_token(const std::string& loader, const std::vector<std::string>& objects) {
  if (loader != wire::kUsualLoader) return false;
  const auto self = read_elf_dependencies("/proc/self/exe");
  if (!self || self->interpreter != loader) return false;
  return std::all_of(objects.begin(), objects.end(), [](const std::string& object) {
    // Another token in the path would be replaced, too.
    return object.find('$') == std::string::npos && is_found(with_library_token(object));
  });
}

}  // namespace clusterprof::cli
