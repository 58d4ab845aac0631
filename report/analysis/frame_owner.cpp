// SPDX-License-Identifier: BSD-3-Clause
// Decides whether a frame belongs to the user's code, a library or the Python interpreter, from its file
// and module.
#include "report/analysis/frame_owner.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/command_text.hpp"
#include "base/base_name.hpp"

namespace clusterprof::report {
namespace {

using shard::Frame;
using shard::FrameKind;

bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return text.starts_with(prefix); });
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The part after "python" in an interpreter's name: "", "3", "3.11", "3.13t", "3.11-dbg".
bool is_python_version(std::string_view text) {
  if (text.empty()) return true;
  if (!is_digit(text.front())) return false;
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const bool is_exact = text.substr(0, end).find('.') != std::string_view::npos;
  text = text.substr(end);
  return text.empty() || text == "-dbg" ||
         (is_exact && (text == "t" || text == "d" || text == "m" || text == "td"));
}

constexpr std::array<std::string_view, 5> kMpiModules = {"libmpi", "libpmpi", "libopen-rte", "libopen-pal",
                                                         "libfmpich"};
constexpr std::array<std::string_view, 9> kCLibrary = {
    "libc.so", "libc-2", "libm.so", "libm-2", "libpthread", "ld-linux", "ld-2", "[vdso]", "linux-vdso"};
// Directories in which distributions, package managers and vendors install.
constexpr std::array<std::string_view, 14> kSystemDirectories = {
    "/usr/lib",        "/usr/libexec/",  "/usr/include/",
    "/usr/share/",     "/usr/local/lib", "/usr/local/include/",
    "/usr/local/cuda", "/lib/",          "/lib64/",
    "/lib32/",         "/opt/",          "/cvmfs/",
    "/nix/store/",     "/gnu/store/"};
// Libraries that sites may install anywhere.
constexpr std::array<std::string_view, 22> kKnownLibraries = {
    "libstdc++",    "libc++",      "libgcc_s",  "libgomp",        "libiomp",   "libomp",
    "libgfortran",  "libquadmath", "libtbb",    "libopenblas",    "libblas",   "liblapack",
    "libscalapack", "libmkl_",     "libfftw3",  "libhdf5",        "libnetcdf", "libcuda",
    "libcublas",    "libucp",      "libfabric", "libclusterprof_"};

struct Installed {
  std::size_t end = std::string_view::npos;  // where the name of the package begins; npos: not installed
  bool standard = false;                     // in the standard library
};

// ".../site-packages/", ".../dist-packages/", ".../lib/python3.11/" in a path: the last one counts.
Installed installed_in(std::string_view path) {
  Installed found;
  for (const std::string_view directory : {"site-packages/", "dist-packages/"}) {
    for (std::size_t at = path.find(directory); at != std::string_view::npos;
         at = path.find(directory, at + 1))
      if (at == 0 || path[at - 1] == '/') {
        const std::size_t end = at + directory.size();
        if (found.end == std::string_view::npos || end > found.end) found = {end, false};
      }
  }
  if (found.end != std::string_view::npos) return found;
  for (const std::string_view directory : {"lib/python", "lib64/python", "lib/pypy"}) {
    const std::size_t at = path.find(directory);
    if (at == std::string_view::npos || (at != 0 && path[at - 1] != '/')) continue;
    const std::size_t slash = path.find('/', at + directory.size());
    std::string_view version = path.substr(at + directory.size(), slash - at - directory.size());
    if (version.ends_with(".zip")) version.remove_suffix(4);
    if (slash == std::string_view::npos || !is_python_version(version)) continue;
    std::size_t end = slash + 1;
    if (path.substr(end).starts_with("lib-dynload/")) end += 12;
    return {end, true};
  }
  return {};
}

// "numpy" of "numpy/core/multiarray.py", "threading" of "threading.py" and "_ssl.cpython-311-x86_64.so".
std::string_view package_at(std::string_view rest) {
  const std::size_t slash = rest.find('/');
  return slash != std::string_view::npos ? rest.substr(0, slash) : rest.substr(0, rest.find('.'));
}

// A name in <...> is code without a file: somebody typed it, or a library made it.
bool is_typed(std::string_view file) {
  constexpr std::array<std::string_view, 6> kTyped = {"<stdin>",   "<console>", "<input>",
                                                      "<ipython-", "<doctest ", "<timeit"};
  return starts_with_any(file, kTyped);
}

bool is_python_command(std::string_view word) {
  const std::string_view name = base_name(word);
  return name.starts_with("python") && is_python_version(name.substr(6));
}

// Modules that run the program which their arguments name.
bool runs_others(std::string_view module) {
  constexpr std::array<std::string_view, 16> kRunners = {"mpi4py",
                                                         "mpi4py.run",
                                                         "mpi4py.futures",
                                                         "cProfile",
                                                         "profile",
                                                         "pdb",
                                                         "trace",
                                                         "runpy",
                                                         "coverage",
                                                         "pytest",
                                                         "torch.distributed.run",
                                                         "torch.distributed.launch",
                                                         "accelerate.commands.launch",
                                                         "kernprof",
                                                         "line_profiler",
                                                         "faulthandler"};
  return std::find(kRunners.begin(), kRunners.end(), module) != kRunners.end();
}

struct Program {
  std::string package;  // of python -m, or of a command that pip made
  bool on_command_line = false;
};

// Installers make bin/PACKAGE as the command of a package.
std::string package_of_command(std::string_view path) {
  std::string name(base_name(path));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

Program program_of(const std::vector<std::string>& command) {
  const auto python = std::find_if(command.begin(), command.end(), is_python_command);
  if (python == command.end()) return {command.empty() ? "" : package_of_command(command.front()), false};
  for (auto word = python + 1; word != command.end(); ++word) {
    if (word->empty() || *word == "-") return {};
    if ((*word)[0] != '-') return {package_of_command(*word), false};
    if (word->size() < 2 || (*word)[1] == '-') continue;
    const std::size_t at = word->find_first_of("cmWX", 1);
    if (at == std::string::npos) continue;
    const char option = (*word)[at];
    if (option == 'c') return {"", true};
    const std::string* value = &*word;
    std::size_t begin = at + 1;
    if (begin == word->size()) {
      if (++word == command.end()) return {};
      value = &*word, begin = 0;
    }
    const std::string module = value->substr(begin);
    if (option == 'm' && !runs_others(module)) return {module.substr(0, module.find('.')), false};
  }
  return {};
}

}  // namespace

bool is_mpi_module(std::string_view module_path) {
  return starts_with_any(base_name(module_path), kMpiModules);
}

bool is_interpreter_module(std::string_view module_path) {
  const std::string_view name = base_name(module_path);
  if (name.starts_with("libpython")) return true;
  return name.starts_with("python") && is_python_version(name.substr(6));
}

bool is_runtime_module(std::string_view module_path) {
  return is_interpreter_module(module_path) || starts_with_any(base_name(module_path), kCLibrary) ||
         is_mpi_module(module_path);
}

std::string_view module_name(std::string_view module_path) {
  const std::string_view name = base_name(module_path);
  const std::size_t end = std::min(name.find(".cpython-"), name.find(".so"));
  return name.substr(0, std::min(end, name.find(".abi3")));
}

std::string_view installed_package(std::string_view path) {
  const Installed installed = installed_in(path);
  return installed.end == std::string_view::npos ? std::string_view()
                                                 : package_at(path.substr(installed.end));
}

bool has_no_name(std::string_view name, std::string_view module_path) {
  const std::string_view module = base_name(module_path);
  return name.empty() ||
         (!module.empty() && name.starts_with(module) && name.substr(module.size()).starts_with("+0x"));
}

FrameOwners::FrameOwners(const shard::ShardData& data) : data_(data) {
  for (const std::string& path : data.run.own) {
    std::string_view own = path;
    while (own.size() > 1 && own.back() == '/') own.remove_suffix(1);
    if (own.size() > 1) own_.push_back(own);
  }
  // Of all ranks: those of an MPMD job run several programs.
  std::set<shard::StringIndex> seen;
  std::vector<std::vector<std::string>> commands = {data.run.command};
  for (const shard::Rank& rank : data.ranks)
    if (rank.command != 0 && seen.insert(rank.command).second)
      commands.push_back(command_words(text(rank.command)));
  for (const std::vector<std::string>& command : commands) {
    Program program = program_of(command);
    if (!program.package.empty()) own_packages_.insert(std::move(program.package));
    code_on_command_line_ = code_on_command_line_ || program.on_command_line;
  }
}

const std::string& FrameOwners::text(shard::StringIndex index) const {
  static const std::string kEmpty;
  return index < data_.strings.size() ? data_.strings[index] : kEmpty;
}

std::string_view FrameOwners::below_own(std::string_view path, bool& is_below) const {
  std::size_t longest = 0;
  for (const std::string_view own : own_)
    if (own.size() > longest && path.starts_with(own) &&
        (path.size() == own.size() || path[own.size()] == '/'))
      longest = own.size();
  is_below = longest != 0;
  return is_below ? path.substr(std::min(longest + 1, path.size())) : path;
}

bool FrameOwners::is_library_file(std::string_view file) const {
  if (file.starts_with('<')) return !is_typed(file) && !(code_on_command_line_ && file == "<string>");
  bool is_below = false;
  const std::string_view rest = below_own(file, is_below);
  if (const Installed installed = installed_in(rest); installed.end != std::string_view::npos)
    return !own_packages_.contains(package_at(rest.substr(installed.end)));
  if (is_below) return false;
  return starts_with_any(file, kSystemDirectories) || file.find("/include/c++/") != std::string_view::npos;
}

bool FrameOwners::is_library_module(std::string_view module) const {
  if (module == "[jit]") return false;
  if (module.empty() || is_runtime_module(module)) return true;
  bool is_below = false;
  const std::string_view rest = below_own(module, is_below);
  if (const Installed installed = installed_in(rest); installed.end != std::string_view::npos)
    return !own_packages_.contains(package_at(rest.substr(installed.end)));
  if (starts_with_any(base_name(module), kKnownLibraries)) return true;
  return !is_below && starts_with_any(module, kSystemDirectories);
}

Owner FrameOwners::of(const Frame& frame) const {
  switch (frame.kind) {
    case FrameKind::kRegion:
      return Owner::kOwn;
    case FrameKind::kMpi:
    case FrameKind::kKernel:
      return Owner::kLibrary;
    case FrameKind::kPython:
      return is_library_file(text(frame.file)) ? Owner::kLibrary : Owner::kOwn;
    case FrameKind::kNative:
      break;
  }
  const std::string_view module = text(frame.module), file = text(frame.file);
  if (is_interpreter_module(module)) return Owner::kInterpreter;
  if (is_library_module(module)) return Owner::kLibrary;
  return !file.empty() && is_library_file(file) ? Owner::kLibrary : Owner::kOwn;
}

std::string_view FrameOwners::package(const Frame& frame) const {
  const std::string_view module = text(frame.module);
  std::string_view file = text(frame.file);
  if (frame.kind == FrameKind::kNative) {
    if (!is_library_module(module)) return {};  // a header's function, in a module of the user's
    file = module;
  }
  if (file == "<__array_function__ internals>") return "numpy";
  if (file.starts_with("<frozen ")) {
    file = file.substr(8, file.size() - 9);
    return file.substr(0, file.find('.'));
  }
  if (file.starts_with('<')) return {};
  if (const Installed installed = installed_in(file); installed.end != std::string_view::npos)
    return package_at(file.substr(installed.end));
  if (frame.kind == FrameKind::kNative) return module_name(module);
  const std::string_view name = base_name(file);
  return name.substr(0, name.find('.'));
}

bool FrameOwners::is_standard(const Frame& frame) const {
  const std::string_view file = text(frame.file);
  return file.starts_with("<frozen ") || installed_in(file).standard;
}

bool FrameOwners::is_machinery(const Frame& frame) const {
  const bool native = frame.kind == FrameKind::kNative;
  if (!native && frame.kind != FrameKind::kPython) return false;
  const std::string_view file = text(native ? frame.module : frame.file);
  if (file.starts_with("<frozen ")) return true;
  const Installed installed = installed_in(file);
  if (installed.end == std::string_view::npos || !installed.standard)
    return installed.end != std::string_view::npos && package_at(file.substr(installed.end)) == "mpi4py";
  if (native) return false;
  constexpr std::array<std::string_view, 3> kStarts = {"importlib/", "runpy.py", "multiprocessing/"};
  if (starts_with_any(file.substr(installed.end), kStarts)) return true;
  const std::string_view name = text(frame.name);
  return file.ends_with("/threading.py") &&
         (name.find("_bootstrap") != std::string_view::npos || name == "Thread.run" || name == "run");
}

}  // namespace clusterprof::report
