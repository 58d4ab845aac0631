// SPDX-License-Identifier: BSD-3-Clause
// The checks' view of a machine. Checks use nothing else, so that tests can stand in for any machine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/elf_needed.hpp"
#include "cli/identity.hpp"

namespace clusterprof::cli::doctor {

struct FileFacts {
  int error = 0;  // of stat(2); 0: it is there
  bool is_directory = false;
  mode_t mode = 0;
  uid_t owner = 0;
  bool may_read = false, may_execute = false;  // by this process
};

struct CommandOutcome {
  enum class End { kExited, kSignalled, kTimedOut, kNotStarted } end = End::kNotStarted;
  int status = 0;  // exit status, or signal
  std::string out, err;
  [[nodiscard]] bool succeeded() const { return end == End::kExited && status == 0; }
};

struct Space {
  std::uint64_t total_bytes = 0, free_bytes = 0;
  std::uint64_t free_files = 0;  // 0 with total_files 0: not told
  std::uint64_t total_files = 0;
};

struct Limit {
  std::uint64_t soft = 0, hard = 0;  // RLIM_INFINITY as it is
};

// A performance event of the calling thread.
struct EventProbe {
  std::uint32_t type = 0;
  std::uint64_t config = 0;
  bool in_kernel = false;  // what happens in the kernel is wanted as well
};

// System calls that the agent and the collector need: 0, or the errno.
struct CallProbes {
  int memory_file = 0;      // memfd_create with sealing
  int thread_timer = 0;     // timer_create on the thread's CPU clock, signalling that thread
  int abstract_socket = 0;  // bind to an abstract name
  int process_handle = 0;   // pidfd_open
};

struct ClockSync {
  bool known = false, synchronised = false;
  std::int64_t greatest_error_us = 0;
};

struct ElfFacts {
  int machine = 0;  // e_machine
  bool has_symbols = false, has_lines = false;
  std::string build_id;  // hexadecimal digits
};

struct PapiFacts {
  std::string library;  // as it was loaded; empty: none was found
  std::string problem;  // why it cannot be used, else empty
  std::string version;
  std::vector<std::string> components;  // "perf_event", or "rapl: why it is disabled"
  std::vector<std::string> presets;     // that can be counted per thread
  std::vector<std::pair<std::string, std::string>> unavailable;  // preset: why
  std::uint64_t native_events = 0;
};

// Operations that the run directory needs of its file system, tried in a private temporary directory.
struct DirectoryFacts {
  std::string problem;  // why nothing was tried
  bool timed_out = false;
  std::string resolved;  // the real path of what was tried
  std::string missing;   // what was asked for, when a directory above it was tried instead
  std::string type;      // "lustre", "nfs4", "ext4"; from the mount table
  std::string mounted_on;
  Space space;
  std::vector<std::pair<std::string, std::string>> failed;  // operation: what happened
  bool locks = false;                                       // flock(2) works
  std::uint64_t slowest_us = 0;
  std::string slowest;       // which operation that was
  bool left_behind = false;  // the temporary directory could not be removed
};

class System {
 public:
  System() = default;
  System(const System&) = delete;
  System& operator=(const System&) = delete;
  virtual ~System() = default;

  // Reads small files of the kernel or of the system's configuration; nullopt: cannot be read.
  [[nodiscard]] virtual std::optional<std::string> read(const std::string& path) const = 0;
  // Names in a directory, sorted; also empty when there is no such directory.
  [[nodiscard]] virtual std::vector<std::string> list(const std::string& directory) const = 0;
  [[nodiscard]] virtual FileFacts look(const std::string& path) const = 0;
  // With all links followed; empty: there is no such file.
  [[nodiscard]] virtual std::string resolve(const std::string& path) const = 0;
  [[nodiscard]] virtual std::optional<Space> space(const std::string& path) const = 0;

  [[nodiscard]] virtual Environment environment() const = 0;
  [[nodiscard]] virtual uid_t user() const = 0;
  [[nodiscard]] virtual std::string host() const = 0;
  [[nodiscard]] virtual std::string kernel_release() const = 0;
  [[nodiscard]] virtual std::string libc_version() const = 0;
  [[nodiscard]] virtual unsigned processors() const = 0;
  [[nodiscard]] virtual Limit limit(int resource) const = 0;
  [[nodiscard]] virtual std::optional<ElfDependencies> needed_by(const std::string& path) const = 0;
  [[nodiscard]] virtual std::optional<ElfFacts> elf(const std::string& path) const = 0;
  // The first four bytes of a data symbol that a library exports.
  [[nodiscard]] virtual std::optional<std::uint32_t> exported_number(const std::string& path,
                                                                     const std::string& symbol) const = 0;
  [[nodiscard]] virtual std::string find_library(const std::string& name, const std::string& for_object,
                                                 const ElfDependencies& object) const = 0;

  // Tries events as `user`, if this process may become that user. Returns 0 or the errno of
  // perf_event_open(2) for each probe.
  [[nodiscard]] virtual std::vector<int> try_events(uid_t user,
                                                    const std::vector<EventProbe>& probes) const = 0;
  [[nodiscard]] virtual CallProbes try_calls() const = 0;
  [[nodiscard]] virtual ClockSync clock_sync() const = 0;

  // The functions below may take long. Each has a time limit, and no process that it started is left
  // afterwards.
  [[nodiscard]] virtual CommandOutcome run(const std::vector<std::string>& command,
                                           std::chrono::milliseconds patience) const = 0;
  [[nodiscard]] virtual PapiFacts papi() const = 0;
  [[nodiscard]] virtual DirectoryFacts try_directory(const std::string& path) const = 0;
};

}  // namespace clusterprof::cli::doctor
