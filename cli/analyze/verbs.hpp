// SPDX-License-Identifier: BSD-3-Clause
// What `clusterprof VERB` does with finished runs. Results go to stdout, complaints, one line
// each, to stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/team.hpp"

namespace clusterprof::cli {

struct MergeVerbOptions {
  std::string run;
  bool partial = false;  // leave damaged shards out
  bool quiet = false;    // say nothing while it lasts
};

struct ReportOptions {
  std::string run;
  bool json = false;
  bool oneline = false;
  bool ended = false;  // the job is known to have ended
  std::vector<std::string> sections;
  std::string region;      // empty: the whole run
  std::string last;        // a time: only so much of the end; empty: the whole run
  std::string at;          // a time since the start: what was held in memory then; empty: the whole run
  std::string html;        // the page to this file, "-" for stdout, instead of the text; empty: no
  bool no_source = false;  // the page without the text of source files
  std::string colour = "auto";
};

struct BannerOptions {
  std::string run;
  std::uint32_t wait_ranks = 0;  // 0: as many as there are
  std::chrono::duration<double> timeout{10};
  int launcher_fd = -1;                       // socket to who waits for this; -1: nobody
  std::optional<std::uint64_t> memory_bytes;  // that this process may take; none: as much as it needs
  bool no_html = false;                       // no page
  bool no_source = false;                     // as above
};

// A RUN is a run directory, profile.h5 or a shard inside one, or a batch job (run_lookup.hpp). Each returns
// the exit status.
int merge(const MergeVerbOptions& options, aggregator::Team* team);
int report(const ReportOptions& options);
int banner(const BannerOptions& options);
int dump_file(const std::string& file);
int validate(const std::string& file_or_run);

}  // namespace clusterprof::cli
