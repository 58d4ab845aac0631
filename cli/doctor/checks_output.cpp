// SPDX-License-Identifier: BSD-3-Clause
// Checks the directory that runs are written to.
#include <algorithm>

#include "base/leading_number.hpp"
#include "cli/doctor/checks.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kOutputGroup = "output";
constexpr std::uint64_t kMinFreeBytes = 50'000'000, kFewFreeBytes = 1'000'000'000, kFewFreeFiles = 1000;
constexpr std::uint64_t kSlow_us = 1'000'000;

int nodes_of_job(const System& system) {
  for (const char* name : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"})
    if (const std::string text = variable(system, name); !text.empty())
      return leading_number(text).value_or(0);
  return 0;
}

// The directory to check, and who chose it.
struct Directory {
  std::string path, chosen_by;
};

Directory directory_of(const Context& context) {
  if (!context.request.directory.empty()) return {context.request.directory, "RUN_OR_DIR"};
  if (const std::string root = variable(context.system, "CLUSTERPROF_ROOT"); !root.empty())
    return {root, "CLUSTERPROF_ROOT"};
  return {".", "the working directory"};
}

Check check_place(const System& system, const DirectoryFacts& facts, const std::string& place,
                  const std::string& chosen_by) {
  Check type{"output.place", kOutputGroup, "directory for runs", Status::kOk, "", "", "", {}};
  type.found = place + " (" + chosen_by +
               (facts.missing.empty() ? "" : "; " + facts.missing + " is still to be made") + ")";
  if (!facts.type.empty()) type.found += " on " + facts.type + ", mounted on " + facts.mounted_on;
  if (!facts.type.empty() && !is_shared_file_system(facts.type)) {
    const int nodes = nodes_of_job(system);
    const bool is_cluster = nodes > 0 || !variable(system, "SLURM_CONF").empty() ||
                            system.look("/etc/slurm/slurm.conf").error == 0 ||
                            system.look("/run/slurm/conf/slurm.conf").error == 0;
    type.costs = "other nodes do not see it: jobs on several nodes need another directory";
    if (nodes > 1) {
      type.status = Status::kFail;
      type.costs = "each of the job's " + std::to_string(nodes) +
                   " nodes writes its shard to a directory of its own: no report of the whole";
    } else if (is_cluster) {
      type.status = Status::kWarn;
    }
    if (type.status != Status::kOk)
      type.fix = "you: export CLUSTERPROF_ROOT=DIR, or -o DIR, on a file system that all nodes share";
    if (facts.type == "tmpfs" || facts.type == "ramfs")
      type.costs += "; it takes memory, and is gone after a restart";
  }
  return type;
}

Check check_operations(const DirectoryFacts& facts, const std::string& place) {
  Check operations{"output.operations", kOutputGroup, "file operations", Status::kOk, "", "", "", {}};
  if (!facts.problem.empty()) {
    operations.status = Status::kFail;
    operations.found = place + ": " + facts.problem;
    operations.costs = facts.timed_out ? "jobs wait for it at their end, and their runs are lost"
                                       : "nothing can be recorded there";
    operations.fix = facts.timed_out
                         ? "admin: look at the file system; you: another directory for CLUSTERPROF_ROOT"
                         : "you: a directory of yours: export CLUSTERPROF_ROOT=DIR, or -o DIR";
  } else if (!facts.failed.empty()) {
    operations.status = Status::kFail;
    std::vector<std::string> failed;
    for (const auto& [operation, reason] : facts.failed) failed.push_back(operation + " (" + reason + ")");
    operations.found = "do not work there: " + joined(failed);
    operations.costs =
        "ranks cannot agree on a run directory, or shards cannot be replaced while they are written";
    operations.fix = "you: another file system: export CLUSTERPROF_ROOT=DIR, or -o DIR";
  } else {
    operations.found = "all that a run needs; the slowest, " + facts.slowest + ", took " +
                       (facts.slowest_us < 10'000 ? std::to_string(facts.slowest_us) + " us"
                                                  : std::to_string(facts.slowest_us / 1000) + " ms");
    if (facts.slowest_us >= kSlow_us) {
      operations.status = Status::kWarn;
      operations.costs = "jobs start and end seconds later";
      operations.fix = "you: another file system for CLUSTERPROF_ROOT; admin: look at its load";
    }
    if (!facts.locks) {
      operations.found += "; no locks";
      operations.costs += operations.costs.empty() ? "" : "; ";
      operations.costs +=
          "other programs on HDF5 (h5py, h5dump) may refuse to open shards and profiles there";
      operations.fix += operations.fix.empty() ? "" : "; ";
      operations.fix += "you: export HDF5_USE_FILE_LOCKING=FALSE for these";
    }
    if (facts.left_behind) operations.found += "; a temporary .clusterprof-doctor-* could not be removed";
  }
  return operations;
}

Check check_space(const DirectoryFacts& facts) {
  Check space{"output.space", kOutputGroup, "free space", Status::kOk, "", "", "", {}};
  space.found = bytes_text(facts.space.free_bytes) + " of " + bytes_text(facts.space.total_bytes);
  const bool few_files = facts.space.total_files > 0 && facts.space.free_files < kFewFreeFiles;
  if (few_files) space.found += ", " + std::to_string(facts.space.free_files) + " more files";
  if (facts.space.free_bytes < kFewFreeBytes || few_files) {
    const bool is_full = facts.space.free_bytes < kMinFreeBytes || (few_files && facts.space.free_files == 0);
    space.status = is_full ? Status::kFail : Status::kWarn;
    space.costs = "a run takes about 40 kB per rank and the profile as much again: shards may not be written";
    space.fix = "you: remove old runs (clusterprof ls), or another directory for CLUSTERPROF_ROOT";
  }
  return space;
}

}  // namespace

void check_output(const Context& context, Checks& out) {
  const Directory directory = directory_of(context);
  const DirectoryFacts facts = context.system.try_directory(directory.path);
  const std::string place = facts.resolved.empty() ? directory.path : facts.resolved;
  out.push_back(check_place(context.system, facts, place, directory.chosen_by));
  out.push_back(check_operations(facts, place));
  if (facts.space.total_bytes != 0) out.push_back(check_space(facts));
}

}  // namespace clusterprof::cli::doctor
