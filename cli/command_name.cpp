// SPDX-License-Identifier: BSD-3-Clause
#include "cli/command_name.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/base_name.hpp"
#include "formats/wire/launchers.h"

namespace clusterprof::cli {
namespace {

std::string without_version(std::string name) {
  while (!name.empty() &&
         (std::isdigit(static_cast<unsigned char>(name.back())) != 0 || name.back() == '.')) {
    name.pop_back();
  }
  return name;
}

bool is_python(const std::string& program) {
  const std::string name = without_version(std::string(base_name(program)));
  return name == "python" || name == "pypy";
}

std::string without_script_suffix(std::string_view name) {
  for (const std::string_view suffix : {".py", ".sh", ".bash", ".pl", ".rb", ".jl", ".R", ".lua"}) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) {
      return std::string(name.substr(0, name.size() - suffix.size()));
    }
  }
  return std::string(name);
}

struct Script {
  std::string word;  // a file, or with `module` its name; empty: neither (-c, stdin)
  bool module = false;
};

// What an interpreter's arguments tell it to run.
Script script_of(const std::vector<std::string>& arguments, bool python) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.empty() || word == "-") return {};
    if (word[0] != '-') return {word, false};
    if (word == "--") continue;
    if (python && word.size() >= 2 && word[1] != '-') {
      // Short options come in clusters ("-uW error"); -c and -m end them.
      const std::size_t at = word.find_first_of("cmWXQ", 1);
      if (at == std::string::npos) continue;
      const bool attached = at + 1 < word.size();
      if (word[at] == 'c') return {};
      if (word[at] != 'm') {
        if (!attached) ++i;
        continue;
      }
      const std::string module = attached                   ? word.substr(at + 1)
                                 : i + 1 < arguments.size() ? arguments[i + 1]
                                                            : "";
      // `python -m mpi4py script.py` is mpi4py's way to run a script.
      if (module == "mpi4py" || module == "mpi4py.run" || module == "mpi4py.futures") {
        const std::size_t rest = attached ? i + 1 : i + 2;
        const Script inner =
            rest <= arguments.size()
                ? script_of({arguments.begin() + static_cast<std::ptrdiff_t>(rest), arguments.end()}, true)
                : Script();
        if (!inner.word.empty()) return inner;
      }
      return {module, true};
    }
    if (word == "--check-hash-based-pycs") ++i;
    if (!python && (word == "-c" || word == "-e")) return {};
  }
  return {};
}

// The Python script that a launcher of workers is given ("torchrun --nproc-per-node 4 train.py"). Empty: the
// command is no such launcher, or has no such script.
std::string script_of_workers(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += word + '\0';
  if (!wire::starts_torch_workers(line.data(), line.size())) return {};
  const auto script = std::find_if(command.begin() + 1, command.end(), [](const std::string& word) {
    return word.ends_with(".py") && word[0] != '-';
  });
  return script == command.end() ? "" : *script;
}

}  // namespace

bool is_interpreter(const std::string& program) {
  static constexpr std::string_view kOthers[] = {"sh",   "bash", "dash",  "ksh",     "zsh", "perl",
                                                 "ruby", "lua",  "julia", "Rscript", "R",   "node"};
  const std::string name = without_version(std::string(base_name(program)));
  return is_python(program) || std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

std::string program_directory(const std::vector<std::string>& command, const std::string& found) {
  std::string program = found;
  if (const std::string workers = script_of_workers(command); !workers.empty()) {
    program = workers;
  } else if (is_interpreter(command[0])) {
    const Script script = script_of({command.begin() + 1, command.end()}, is_python(command[0]));
    program = script.module || script.word.empty() ? "./" : script.word;
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(program, error).lexically_normal();
  if (error || program.empty()) return {};
  const std::string directory = path.parent_path().string();
  static constexpr std::string_view kShared[] = {"/",        "/bin",      "/sbin",          "/usr",
                                                 "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local",
                                                 "/opt",     "/usr/lib"};
  return std::find(std::begin(kShared), std::end(kShared), directory) == std::end(kShared) ? directory : "";
}

std::string command_name(const std::vector<std::string>& command) {
  std::string name;
  if (const std::string workers = script_of_workers(command); !workers.empty()) {
    name = without_script_suffix(base_name(workers));
  } else if (is_interpreter(command[0])) {
    const Script script = script_of({command.begin() + 1, command.end()}, is_python(command[0]));
    name = script.module ? script.word.substr(script.word.rfind('.') + 1)
                         : without_script_suffix(base_name(script.word));
  }
  if (name.empty()) name = without_script_suffix(base_name(command[0]));
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-') c = '_';
  }
  if (name.size() > 64) name.resize(64);
  return name.empty() ? "command" : name;
}

}  // namespace clusterprof::cli
