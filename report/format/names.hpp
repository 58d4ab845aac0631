// SPDX-License-Identifier: BSD-3-Clause
// Writes functions, files, source locations and commands as readers know them. All results are printable
// UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report::format {

// A function's label: first its template arguments go, then its namespaces, modules and outer functions. Its
// own name and Python's <locals>, <lambda>, <genexpr> stay as long as they fit.
std::string shorten_name(std::string_view label, std::size_t width);

// "step()", "Solver<double>::run()": without the types of arguments and result, and in long names without
// template arguments. Names of MPI functions, of the kernel's and of regions stay as they are.
std::string function_label(std::string_view name, shard::FrameKind kind);

// "sgemm_() [libblas]", "loop() [jit]": a function's label with its object file, unless there is none, or the
// label has it already ("module+0x12ab").
std::string name_and_module(std::string_view label, std::string_view module);

// File names by their last component, or the last two where that is ambiguous in this profile.
class ShortPaths {
 public:
  explicit ShortPaths(const Analysis& analysis);
  [[nodiscard]] std::string file(std::string_view path) const;
  // "train.py:88", "train.py:~88" if the line is approximate; without a line the file alone; empty without a
  // file.
  [[nodiscard]] std::string place(std::string_view path, std::uint32_t line, bool approximate = false) const;

 private:
  std::unordered_map<std::string, std::string> seen_;  // base name: the one path, or "" for several
};

// "name place", shortened in the name first.
std::string name_and_place(std::string_view name, std::string_view place, std::size_t width);
// The other way round, where the place is what matters: "train.py:57 step()".
std::string place_and_name(std::string_view place, std::string_view name, std::size_t width);

inline constexpr std::size_t kAnyWidth = 4096;

// "compute() train.py:57", "dgemm_kernel() [libopenblas]" (the module where there is room), "MPI_Send", "read
// [kernel]"
std::string describe(const FunctionRow& row, const ShortPaths& paths, std::size_t width = kAnyWidth);
// "MPI_Allreduce <- step() train.py:88"; the operation alone when the caller is not known.
std::string describe(const MpiCallRow& row, const ShortPaths& paths, std::size_t width = kAnyWidth);
// Either of these forms, and what was called there, "step() train.py:57 (numpy.dot)"; "code that is not
// known" without a function.
std::string describe(const SourceLocation& place, const ShortPaths& paths, std::size_t width = kAnyWidth);
// "python", "native", "mpi", "kernel", "region"
const char* frame_kind_name(shard::FrameKind kind);
const char* lock_kind_label(LockKind kind);
// "queue_lock", "queue_filled (condition)", "mutex at 0x55d0c0de4060 of rank 3", "locks that found no room"
std::string lock_label(const LockRow& row);
// "loop (dynamic)", "critical"
std::string construct_label(shard::OmpKind kind, std::uint8_t schedules);
// "late sender", "wait at NxN"
const char* wait_kind(shard::WaitKind kind);
// Quoted for a shell where need be. Names with control characters do not survive.
std::string shell_word(std::string_view word);
// "python3 train.py --epochs 3"
std::string command_line(const std::vector<std::string>& words);
// The same of the run; of several commands "ranks 0-1: ./a; ranks 2-3: ./b".
std::string command_line(const RunInfo& run);
// One line for each command, at most `most`, the last of which says how many are left out.
std::vector<std::string> command_lines(const RunInfo& run, std::size_t most);
}  // namespace clusterprof::report::format
