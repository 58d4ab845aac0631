// SPDX-License-Identifier: BSD-3-Clause
// What the groups of findings share: adding a finding, weighing call paths, and finding the source line that
// a time is due to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/activities.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/path_time.hpp"

namespace clusterprof::report {

// The call path that a time is due to.
struct Blame {
  std::uint32_t path = 0;  // 0: no single one
  double time_s = 0;
};

// The value of a category; 0 where it is not known.
inline double of(const OptionalCategorySeconds& categories, shard::Category category) {
  return categories[static_cast<std::size_t>(category)].value_or(0);
}

// Says which ranks a finding is about; `ranks` is not empty, and its first rank is the one to look at.
void set_ranks(Finding& finding, std::vector<std::int32_t> ranks);
// Says that most of the finding's time, `time_s`, is in that call of an MPI function.
void set_call_site(Finding& finding, const MpiCallRow& row, double time_s);

class FindingBuilder {
 public:
  // All must outlive the builder. The analysis must be finished but for its findings.
  FindingBuilder(const shard::ShardData& data, const PathTime& time, const CallPaths& paths,
                 Analysis& analysis);

  [[nodiscard]] const shard::ShardData& data() const { return data_; }
  [[nodiscard]] const PathTime& time() const { return time_; }
  [[nodiscard]] const CallPaths& paths() const { return paths_; }
  [[nodiscard]] Analysis& analysis() const { return analysis_; }

  // Adds a finding. The reference is valid until the next one is added.
  Finding& add(FindingKind kind, Severity severity, std::optional<double> share = {});
  Finding& add_by_share(FindingKind kind, double share);

  // Of call paths with time in the category in question.
  using PathFilter = std::function<bool(std::uint32_t path)>;
  [[nodiscard]] PathFilter with_activity(shard::Category category, Activity activity) const;

  // Adds a finding on the main threads' time in `category` on the chosen call paths, with the line that most
  // of it is due to. Null: it is less than `threshold` of all rank time.
  Finding* add_rank_time(FindingKind kind, shard::Category category, const PathFilter& chosen,
                         double threshold, FindingAction action);

  // Seconds by call path; `ns_of(path, category)` says how many nanoseconds count.
  template <typename NsOf>
  [[nodiscard]] std::vector<double> weigh(const NsOf& ns_of) const {
    std::vector<double> weight(paths_.size(), 0.0);
    for (std::uint32_t path = 0; path < paths_.size(); ++path)
      for (std::size_t c = 0; c < shard::kCategories; ++c) {
        const auto category = static_cast<shard::Category>(c);
        const double ns = ns_of(path, category);
        if (ns != 0) weight[paths_.counted(path, category)] += ns / 1e9;
      }
    return weight;
  }
  // Of the main threads.
  [[nodiscard]] double main_ns(std::uint32_t path, shard::Category category) const;

  // Follows the call tree from the root into the child that holds most of `weight` (seconds by path,
  // exclusive; may be negative) as long as this child holds kBlame of `total_s`. The last call path on the
  // way with a source line of the program is to blame.
  [[nodiscard]] Blame blame(std::vector<double> weight, double total_s) const;
  // Sets the finding's time to the sum of `weight`, and its place to the line that is to blame, which it
  // returns; 0: there is none. A line that nearly all of the program's time is below explains nothing, unless
  // the time is its own.
  std::uint32_t blame_most(Finding& finding, const std::vector<double>& weight) const;

  // A time as a share of all rank time.
  [[nodiscard]] double share_of_ranks(double time_s) const;
  [[nodiscard]] double sum_over_ranks(Seconds RankInfo::*part) const;

  // Findings with the functions that they blame: on delays, and on blocked time.
  struct BlamedFunction {
    std::size_t finding;  // index in the analysis
    std::string function, file;
  };
  std::vector<BlamedFunction> delay_functions, blocked_functions;

  // By path: waiting of the main threads that a finding on slow input is about, so that no other one is.
  // Empty: none.
  std::vector<bool> input_waits;
  bool imports_found = false;  // a finding on imports is there: their file I/O is in no other one
  [[nodiscard]] bool is_input_wait(std::uint32_t path) const {
    return path < input_waits.size() && input_waits[path];
  }

 private:
  [[nodiscard]] std::vector<bool> paths_above_all_time() const;
  [[nodiscard]] double longest_s(shard::Category category) const;

  const shard::ShardData& data_;
  const PathTime& time_;
  const CallPaths& paths_;
  Analysis& analysis_;
  const std::vector<bool> above_all_time_;  // by path: nearly all of the main threads' time is below it
};

}  // namespace clusterprof::report
