// SPDX-License-Identifier: BSD-3-Clause
// The objects that a process has loaded: where their functions are, and the call stacks of its stopped
// threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/attach/stack_rules.hpp"

namespace clusterprof::cli::attach {

class MemoryMap {
 public:
  // Reads what stack walks need, so that they are short.
  static Result<MemoryMap> read(pid_t pid);
  MemoryMap(MemoryMap&&) noexcept;
  MemoryMap& operator=(MemoryMap&&) noexcept;
  ~MemoryMap();

  // The address of a function that an object of this kind, or of that file name, defines; none: 0.
  [[nodiscard]] std::uint64_t function_of_libc(const std::string& name) const;
  [[nodiscard]] std::uint64_t function_of(const std::string& file_name, const std::string& name) const;
  // Whether the program itself defines malloc.
  [[nodiscard]] bool has_own_malloc() const;

  // Of a thread that is stopped by this process. `call`: the system call that it is in; -1: none.
  [[nodiscard]] ThreadStack stack_of(pid_t tid, long call) const;

 private:
  struct Impl;
  explicit MemoryMap(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace clusterprof::cli::attach
