// SPDX-License-Identifier: BSD-3-Clause
// What every call path of a profile counts for: which function, which source line, which caller.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::report {

// Interpreter, C library, loader, MPI library: code whose own source lines explain nothing to
// the author of the program.
bool is_runtime_module(std::string_view module_path);
bool is_mpi_module(std::string_view module_path);
// One of the frames below a system call that say what its descriptor was.
bool is_descriptor_name(std::string_view name);

// Refers to the ShardData it was made from. Paths are indices into ShardData::paths; 0 is the
// root and stands for "none".
class CallPaths {
 public:
  explicit CallPaths(const shard::ShardData& data);

  [[nodiscard]] std::size_t size() const { return parent_.size(); }
  // Always below `path`, except that the root is its own parent.
  [[nodiscard]] std::uint32_t parent(std::uint32_t path) const { return parent_[path]; }
  // Null for the root and for damaged paths.
  [[nodiscard]] const shard::Frame* frame(std::uint32_t path) const;
  [[nodiscard]] const std::string& text(shard::StringIndex index) const;

  // The path a value of this category counts for: bytecode belongs to the innermost Python
  // function (or the garbage collection in it), not to the interpreter's functions that run it. What a
  // system call's descriptor was is no function.
  [[nodiscard]] std::uint32_t counted(std::uint32_t path, shard::Category category) const;
  // The path itself or its nearest ancestor with a source line outside runtime modules, mpi4py,
  // the import machinery and the system's headers.
  [[nodiscard]] std::uint32_t source(std::uint32_t path) const { return source_[path]; }
  // What a report names when it says where something happened: source(), without a source line the innermost
  // frame outside runtime modules and the kernel. 0: there is none.
  [[nodiscard]] std::uint32_t place(std::uint32_t path) const { return place_[path]; }
  // The path of the innermost region frame; 0 outside all regions.
  [[nodiscard]] std::uint32_t region(std::uint32_t path) const { return region_[path]; }
  // Below a frame of the import machinery.
  [[nodiscard]] bool in_import(std::uint32_t path) const { return import_[path]; }
  // Native frames above it, up to the first that is none, are of Python's time.sleep().
  [[nodiscard]] bool in_python_sleep(std::uint32_t path) const { return python_sleep_[parent_[path]]; }
  // In Python's cyclic garbage collection, below the innermost Python frame.
  [[nodiscard]] bool in_garbage_collection(std::uint32_t path) const { return garbage_[path]; }
  // For the path of an MPI call: the path of the frame to show as its caller.
  [[nodiscard]] std::uint32_t mpi_caller(std::uint32_t path) const { return caller_[parent_[path]]; }

  // Dense ids. kNone for the root, and for lines where none is known.
  [[nodiscard]] std::uint32_t function(std::uint32_t path) const { return function_[path]; }
  [[nodiscard]] std::uint32_t line(std::uint32_t path) const { return line_[path]; }
  // No ancestor has the same function (line): where recursion is counted, once.
  [[nodiscard]] bool outermost_function(std::uint32_t path) const { return outermost_function_[path]; }
  [[nodiscard]] bool outermost_line(std::uint32_t path) const { return outermost_line_[path]; }
  // One frame of each function and line, by id: they agree in all that identifies it.
  [[nodiscard]] const std::vector<const shard::Frame*>& functions() const { return functions_; }
  [[nodiscard]] const std::vector<const shard::Frame*>& lines() const { return lines_; }

 private:
  void name_functions_and_lines();
  void find_outermost();

  const shard::ShardData& data_;
  std::vector<std::uint32_t> parent_, python_, source_, region_, function_, line_;
  std::vector<std::uint32_t> place_, caller_;  // caller: of what a path calls
  std::vector<bool> outermost_function_, outermost_line_, import_, garbage_, descriptor_, python_sleep_;
  std::vector<const shard::Frame*> functions_, lines_;
};

}  // namespace clusterprof::report
