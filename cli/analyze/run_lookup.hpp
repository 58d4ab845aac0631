// SPDX-License-Identifier: BSD-3-Clause
// Runs by what the batch system calls their jobs: `clusterprof report 1234.0`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace clusterprof::cli {

// Where runs are that are named by less than a path: CLUSTERPROF_ROOT, or else here.
std::filesystem::path run_root();

// RUN.snapshot-1: what `clusterprof snapshot` makes of a run. It is not found by the run's job.
inline constexpr std::string_view kSnapshotMark = ".snapshot-";

// Whether it is a directory, and not the link by which ranks of a run that has begun, or was killed, find it.
bool may_be_run(const std::filesystem::directory_entry& entry);

// What is meant by RUN: what lies at that path, or in run_root() under that name, or the one run there of the
// job JOB[_TASK][.STEP]. `what` is being looked for ("run", "file"). An error is kNotFound, or kBadArgument
// if several runs are meant, or kOther if something could not be read.
// With kRunning, of several runs of a job only those are meant that are running, if any is.
enum class Meant { kAny, kRunning };
Result<std::filesystem::path> find_path(const std::string& argument, std::string_view what,
                                        Meant meant = Meant::kAny);

// The run directory that RUN means: a directory, one that contains the given profile.h5 or shard, or that of
// a job. Errors as above. Files created afterwards can be read only by users who may read the run.
Result<std::filesystem::path> run_directory(const std::string& argument, Meant meant = Meant::kAny);

// The job step of a run: as it was recorded, or else as far as the directory's name tells: "1234.0",
// "1234_7.0", "1234" for what mpirun started; the time in the name where there is no job; empty for names
// that users gave.
std::string job_of_run(const std::filesystem::path& run);
// The same of a name alone.
std::string job_in_name(std::string_view name);

// Whether `id` names the job step `job`, or a job or an array that it is part of: 1234 names 1234, 1234.0,
// 1234_7 and 1234_7.0; 1234_7 the last two; 1234.0 the second.
bool is_of_job(std::string_view job, std::string_view id);
// Whether the run at this path is.
bool run_is_of_job(const std::filesystem::path& run, std::string_view id);

}  // namespace clusterprof::cli
