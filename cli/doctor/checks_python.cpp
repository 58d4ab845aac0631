// SPDX-License-Identifier: BSD-3-Clause
// Checks which interpreters' frames are recorded, and where names and lines of native code come from.
#include <algorithm>
#include <cctype>
#include <set>

#include "base/leading_number.hpp"
#include "cli/doctor/checks.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr std::chrono::milliseconds kInterpreterPatience{20'000};
constexpr std::size_t kMaxInterpreters = 32;

// agent/discovery/attach.cpp: kOldestMinor, kNewestMinor
constexpr int kOldestMinor = 8, kNewestMinor = 15;

constexpr const char* kAsk =
    "import sys, sysconfig\n"
    "print(sys.implementation.name, '%d.%d.%d' % sys.version_info[:3] + "
    "('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''), 1 if sys.prefix != sys.base_prefix else "
    "0)\n"
    "print(sys.executable)\n";

struct Interpreter {
  std::string path, version, executable;
  std::string problem;  // why its frames are not recorded; empty: they are
  bool is_environment = false;
};

Interpreter ask(const System& system, const std::string& path) {
  Interpreter result{path, "", "", "", false};
  const CommandOutcome outcome = system.run({path, "-c", kAsk}, kInterpreterPatience);
  if (!outcome.succeeded()) {
    result.problem = outcome.end == CommandOutcome::End::kTimedOut ? "does not answer" : "does not start";
    return result;
  }
  std::vector<std::string> words;
  const std::string line = first_line(outcome.out);
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() != 3) {
    result.problem = "says nothing that is understood";
    return result;
  }
  result.executable = first_line(outcome.out.substr(std::min(line.size() + 1, outcome.out.size())));
  result.version = words[1];
  result.is_environment = words[2] == "1";
  const int minor = leading_number(words[1].substr(words[1].find('.') + 1)).value_or(0);
  if (words[0] != "cpython") {
    result.problem = words[0] + " is not supported";
  } else if (!words[1].starts_with("3.") || minor < kOldestMinor || minor > kNewestMinor) {
    result.problem = "not supported (3." + std::to_string(kOldestMinor) + " to 3." +
                     std::to_string(kNewestMinor) + " are)";
  }
  return result;
}

// python3, python3.12, python3.13t
bool is_python(const std::string& name) {
  if (!name.starts_with("python3")) return false;
  std::string rest = name.substr(7);
  if (rest.ends_with("t")) rest.pop_back();
  if (rest.empty()) return name == "python3";
  return rest[0] == '.' && rest.size() > 1 &&
         std::all_of(rest.begin() + 1, rest.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::vector<std::string> pythons_here(const System& system) {
  std::vector<std::string> paths;
  const std::string list = variable(system, "PATH");
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(':', at), list.size());
    const std::string directory = list.substr(at, end - at);
    at = end + 1;
    // pyenv's shims stand for the interpreters below versions/.
    if (directory.empty() || directory.ends_with("/shims")) continue;
    for (const std::string& name : system.list(directory))
      if (is_python(name)) paths.push_back(directory + "/" + name);
  }
  const std::string home = variable(system, "HOME");
  std::string pyenv = variable(system, "PYENV_ROOT");
  if (pyenv.empty() && !home.empty()) pyenv = home + "/.pyenv";
  if (!pyenv.empty())
    for (const std::string& version : system.list(pyenv + "/versions"))
      paths.push_back(pyenv + "/versions/" + version + "/bin/python3");
  return paths;
}

}  // namespace

void check_python(const Context& context, Checks& out) {
  const System& system = context.system;
  Check check{"python.default", "python", "python3", Status::kOk, "", "", "", {}};
  std::set<std::string> seen;
  const std::string path = in_path(system, "python3");
  if (path.empty()) {
    check.found = "none in PATH";
  } else {
    const Interpreter python = ask(system, path);
    seen.insert(system.resolve(path));
    if (!python.executable.empty()) seen.insert(system.resolve(python.executable));
    check.found = path + (python.version.empty() ? "" : ": " + python.version) +
                  (python.is_environment ? ", a virtual environment" : "");
    if (!python.problem.empty()) {
      check.status = Status::kWarn;
      check.found += ", " + python.problem;
      check.costs = "its programs are recorded without Python functions and lines: native code and MPI only";
      check.fix = "you: run the program with CPython 3." + std::to_string(kOldestMinor) + " to 3." +
                  std::to_string(kNewestMinor);
    }
  }
  out.push_back(check);

  Check others{"python.others", "python", "other interpreters", Status::kOk, "", "", "", {}};
  std::size_t unsupported = 0;
  for (const std::string& candidate : pythons_here(system)) {
    const std::string real = system.resolve(candidate);
    if (real.empty() || !seen.insert(real).second || others.details.size() == kMaxInterpreters) continue;
    const FileFacts facts = system.look(real);
    if (facts.is_directory || !facts.may_execute) continue;
    const Interpreter python = ask(system, candidate);
    if (!python.problem.empty()) ++unsupported;
    others.details.push_back(candidate + ": " + python.version +
                             (python.version.empty() || python.problem.empty() ? "" : ", ") + python.problem);
  }
  others.found = others.details.empty() ? "none" : std::to_string(others.details.size());
  if (unsupported > 0) {
    others.found += ", " + std::to_string(unsupported) + " of them not supported";
    others.costs = "programs that these run are recorded without Python functions and lines";
  }
  out.push_back(others);
}

void check_symbols(const Context& context, Checks& out) {
  const System& system = context.system;
  Check check{"symbols.libraries", "symbols", "names and lines", Status::kOk, "", "", "", {}};
  std::vector<std::string> stripped, full;
  for (const char* name : {"libc.so.6", "libstdc++.so.6", "libmpi.so.40", "libmpich.so.12", "libmpi.so.12"}) {
    const std::string path = system.find_library(name, "", {});
    const std::string real = path.empty() ? "" : system.resolve(path);
    const auto elf = real.empty() ? std::nullopt : system.elf(real);
    if (!elf) continue;
    bool has_lines = elf->has_lines, has_symbols = elf->has_symbols;
    if (elf->build_id.size() > 2) {
      const std::string debug =
          "/usr/lib/debug/.build-id/" + elf->build_id.substr(0, 2) + "/" + elf->build_id.substr(2) + ".debug";
      if (system.look(debug).error == 0) has_lines = has_symbols = true;
    }
    check.details.push_back(std::string(name) + ": " +
                            (has_lines     ? "functions, lines and what is inlined"
                             : has_symbols ? "functions"
                                           : "exported functions only"));
    (has_lines || has_symbols ? full : stripped).emplace_back(name);
  }
  check.found = check.details.empty() ? "no libraries looked at"
                : stripped.empty()    ? "for all of " + joined(full)
                                      : "names of exported functions only: " + joined(stripped);
  if (!stripped.empty()) {
    check.costs =
        "functions inside these libraries are shown under the library's name; your own programs are not "
        "affected";
    check.fix =
        "admin: install their debug packages on the nodes (Debian: libc6-dbg and the like); they are found "
        "by build-id below /usr/lib/debug";
  }
  out.push_back(check);
}

}  // namespace clusterprof::cli::doctor
