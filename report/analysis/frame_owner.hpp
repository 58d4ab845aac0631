// SPDX-License-Identifier: BSD-3-Clause
// The owner of a frame's code: docs/metrics.md, "The user's own code".
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::report {

// kLibrary: installed packages, the standard library, MPI and its calls, the system's libraries, and the
// kernel. kInterpreter: native code of Python itself.
enum class Owner : std::uint8_t { kOwn = 0, kLibrary, kInterpreter };

// The C library, the loader, the MPI library and the interpreter: their source lines explain nothing to the
// author of the program.
bool is_runtime_module(std::string_view module_path);
bool is_mpi_module(std::string_view module_path);
bool is_interpreter_module(std::string_view module_path);

// "_multiarray_umath" of ".../numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so"
std::string_view module_name(std::string_view module_path);

// "numpy" of ".../site-packages/numpy/core/multiarray.py"; empty: the file is of no installed package, nor of
// the standard library.
std::string_view installed_package(std::string_view path);

// Whether the collector had no symbol for this native frame: it is called "module+0x12ab".
bool has_no_name(std::string_view name, std::string_view module_path);

// Refers to the ShardData it was made from.
class FrameOwners {
 public:
  explicit FrameOwners(const shard::ShardData& data);

  [[nodiscard]] Owner of(const shard::Frame& frame) const;
  // The package that a library frame belongs to: "numpy", "threading", "libopenblas"; empty where there is
  // none to name.
  [[nodiscard]] std::string_view package(const shard::Frame& frame) const;
  [[nodiscard]] bool is_standard(const shard::Frame& frame) const;  // of Python's standard library
  // Code that only starts or imports other code.
  [[nodiscard]] bool is_machinery(const shard::Frame& frame) const;

 private:
  [[nodiscard]] const std::string& text(shard::StringIndex index) const;
  // What follows the longest of own_ that `path` lies below; all of it when there is none.
  [[nodiscard]] std::string_view below_own(std::string_view path, bool& is_below) const;
  [[nodiscard]] bool is_library_file(std::string_view file) const;
  [[nodiscard]] bool is_library_module(std::string_view module) const;

  const shard::ShardData& data_;
  std::vector<std::string_view> own_;                // directories and files
  std::set<std::string, std::less<>> own_packages_;  // installed packages that are the program
  bool code_on_command_line_ = false;                // python -c: what is called <string> is the program
};

}  // namespace clusterprof::report
