// SPDX-License-Identifier: BSD-3-Clause
// A run's profile and what the report says of it, without doing again what was done when it was merged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "aggregator/run_directory.hpp"
#include "base/result.hpp"
#include "formats/profile/profile_reader.hpp"
#include "report/analysis/run_state.hpp"
#include "report/report.hpp"

namespace clusterprof::cli {

// How the command line asked to look at runs.
struct View {
  std::vector<std::string>
      own;  // absolute paths of the user's own code, besides those that the run was recorded with
  report::FrameMode frames = report::FrameMode::kFolded;

  // What a merge computes and stores.
  [[nodiscard]] bool is_usual() const { return own.empty() && frames == report::FrameMode::kFolded; }
};
// Of all runs that are opened from now on.
void choose_view(View view);
const View& chosen_view();

// aggregator::open_run with a bar on stderr. `observer` may be null: the profile then gets an analysis
// anyway.
Result<profile::ProfileReader> open_profile(const std::filesystem::path& run,
                                            aggregator::RankObserver* observer);

struct AnalysedRun {
  profile::ProfileReader profile;
  report::Analysis analysis;
};

// A run and its analysis: of the merge that had to be done, else the one that is stored in the profile, where
// this program made it, else a new one. rank_timelines: as decode().
Result<AnalysedRun> analysed_run(const std::filesystem::path& run, bool rank_timelines,
                                 report::Job job = report::Job::kMayRun);
// The analysis alone.
Result<report::Analysis> stored_analysis(const std::filesystem::path& run, bool rank_timelines,
                                         report::Job job = report::Job::kMayRun);

}  // namespace clusterprof::cli
