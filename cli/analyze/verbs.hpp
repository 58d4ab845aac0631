// SPDX-License-Identifier: BSD-3-Clause
// What `clusterprof VERB` does with finished runs. Results go to stdout, complaints, one line
// each, to stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace clusterprof::cli {

inline constexpr int kOk = 0;
inline constexpr int kNothingFound = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kBadInput = 3;

struct ReportOptions {
  std::string run;
  bool json = false;
  std::vector<std::string> sections;
  std::string region;  // empty: the whole run
};

struct BannerOptions {
  std::string run;
  std::uint32_t wait_ranks = 0;  // 0: as many as there are
  std::chrono::duration<double> timeout{10};
};

// A RUN is a run directory, or profile.h5 or a shard inside one. Each returns the exit status.
int merge(const std::string& run, bool partial);
int report(const ReportOptions& options);
int banner(const BannerOptions& options);
int dump_file(const std::string& file);
int validate(const std::string& file_or_run);
int list_runs(const std::string& directory);

// "clusterprof: TEXT" on stderr, one line and safe to print; returns `status`.
int complain(int status, const std::string& text);

}  // namespace clusterprof::cli
