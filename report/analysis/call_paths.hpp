// SPDX-License-Identifier: BSD-3-Clause
// The function, source line and caller that the time of each call path counts for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/frame_owner.hpp"

namespace clusterprof::report {

// Whether this is the name of a frame that the recorder puts below a system call to say what it was about:
// its descriptor, or a thread.
bool is_descriptor_name(std::string_view name);

// What a blocked thread waits for, judged by the functions that it is in.
enum class Awaited : std::uint8_t { kOthers, kThreads, kChildren };

// Whether this is the file of Python's import machinery, whose functions do every import.
bool imports_modules(std::string_view file);

// Whether a function only passes calls on to others, and is not called by its name.
bool is_wrapper(std::string_view name);

// kFolded: all code without a name is one function per module, the interpreter's own frames count for the
// Python function that runs, and library code counts for the user's line that called it. kAll: every frame
// counts for itself. The sums over all functions and lines are the same.
enum class FrameMode : std::uint8_t { kFolded, kAll };

// Refers to the ShardData it was made from. Paths are indices into ShardData::paths; 0 is the
// root and stands for "none".
class CallPaths {
 public:
  explicit CallPaths(const shard::ShardData& data, FrameMode frames = FrameMode::kFolded);

  [[nodiscard]] FrameMode frames() const { return frames_; }
  [[nodiscard]] std::size_t size() const { return parent_.size(); }
  // Always below `path`, except that the root is its own parent.
  [[nodiscard]] std::uint32_t parent(std::uint32_t path) const { return parent_[path]; }
  // Null for the root and for damaged paths.
  [[nodiscard]] const shard::Frame* frame(std::uint32_t path) const;
  [[nodiscard]] const std::string& text(shard::StringIndex index) const;

  // Whose code the path's last frame is. The root is kOwn.
  [[nodiscard]] Owner owner(std::uint32_t path) const { return owner_[path]; }
  // FrameOwners::is_machinery() of its last frame.
  [[nodiscard]] bool is_machinery(std::uint32_t path) const;
  // FrameOwners::package() of its last frame.
  [[nodiscard]] std::string_view package(std::uint32_t path) const;

  // The path that a value of this category counts for. Bytecode, and the interpreter's work in its own
  // functions, count for the Python function around them; frames that name a descriptor are skipped.
  [[nodiscard]] std::uint32_t counted(std::uint32_t path, shard::Category category) const;
  // The path itself or its nearest ancestor with a source line of the user's code. If no frame is the user's:
  // the most informative line of a library.
  [[nodiscard]] std::uint32_t source(std::uint32_t path) const { return source_[path]; }
  // The path that reports name as the place where something happened. As source(), but the user's code
  // without a source line is preferred to library code with one. 0: there is none.
  [[nodiscard]] std::uint32_t place(std::uint32_t path) const { return place_[path]; }
  // The path of the library function that the user's code called, where place() is the user's and the path
  // goes on into a library; 0: it does not.
  [[nodiscard]] std::uint32_t called(std::uint32_t path) const { return called_[path]; }
  // The function of a path by the name that users of the library know: "numpy.dot",
  // "threading.Condition.wait", "libopenblas.dgemm_".
  [[nodiscard]] std::string library_name(std::uint32_t path) const;
  // The path of the innermost region frame; 0 outside all regions.
  [[nodiscard]] std::uint32_t region(std::uint32_t path) const { return region_[path]; }
  // Below a frame of the import machinery.
  [[nodiscard]] bool in_import(std::uint32_t path) const { return import_[path]; }
  // Whether it was called by Python's time.sleep(), through native frames only.
  [[nodiscard]] bool in_python_sleep(std::uint32_t path) const { return python_sleep_[parent_[path]]; }
  // Threads that it joins, or child processes of subprocess, multiprocessing and concurrent.futures.
  [[nodiscard]] Awaited awaited(std::uint32_t path) const { return awaited_[path]; }
  // In Python's cyclic garbage collection, below the innermost Python frame.
  [[nodiscard]] bool in_garbage_collection(std::uint32_t path) const { return garbage_[path]; }
  // For the path of an MPI call: the path of the frame to show as its caller.
  [[nodiscard]] std::uint32_t mpi_caller(std::uint32_t path) const { return caller_[parent_[path]]; }

  // Dense ids. kNone for the root, and for lines where none is known.
  [[nodiscard]] std::uint32_t function(std::uint32_t path) const { return function_[path]; }
  [[nodiscard]] std::uint32_t line(std::uint32_t path) const { return line_[path]; }
  // No ancestor has the same function (line). Inclusive time is counted only there, so that recursion counts
  // once.
  [[nodiscard]] bool outermost_function(std::uint32_t path) const { return outermost_function_[path]; }
  [[nodiscard]] bool outermost_line(std::uint32_t path) const { return outermost_line_[path]; }
  // What to call a function by id: its frame's name, but "_multiarray_umath, no names" for all of a module
  // that has none, and "python3.11, interpreter".
  [[nodiscard]] const std::string& function_name(std::uint32_t function) const {
    return function_names_[function];
  }
  // One frame of each function and line, by id: they agree in all that identifies it (but the name of those
  // which stand for a module).
  [[nodiscard]] const std::vector<const shard::Frame*>& functions() const { return functions_; }
  [[nodiscard]] const std::vector<const shard::Frame*>& lines() const { return lines_; }

 private:
  void find_owners();
  void name_functions_and_lines();
  void find_outermost();

  const shard::ShardData& data_;
  FrameMode frames_;
  FrameOwners owners_;
  std::vector<Owner> owner_of_frame_, owner_;  // by frame; by path
  std::vector<bool> machinery_of_frame_;
  std::vector<std::uint32_t> parent_, python_, source_, region_, function_, line_;
  std::vector<std::uint32_t> place_, called_, caller_;  // caller: of what a path calls
  std::vector<std::uint32_t> code_;  // by path: it, or what is around the interpreter's frames
  std::vector<std::string> function_names_;
  std::vector<bool> outermost_function_, outermost_line_, import_, garbage_, descriptor_, python_sleep_;
  std::vector<Awaited> awaited_;
  std::vector<const shard::Frame*> functions_, lines_;
};

}  // namespace clusterprof::report
