// SPDX-License-Identifier: BSD-3-Clause
// How often `clusterprof history` is wrong about series of runs whose truth is known: false alarms of all
// numbers of a series together where nothing changes, and changes of elapsed time that are found, with the
// function that made them; and how often `diff --fail-if 'elapsed regressed'` is true of two runs between
// which nothing has changed. docs/history.md and docs/ci.md have the results.
//   history_alarms [SERIES]: so many of each kind, 2000
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "report/history/history.hpp"

namespace {

using namespace clusterprof::report;

constexpr std::size_t kFunctions = 40;
constexpr double kRun_s = 100, kSample_s = 0.01;
constexpr double kFunctionNoise = 0.03, kCommonNoise = 0.02;

enum class Vary { kNormal, kSkewed, kDisturbed, kCounted };
struct Kind {
  const char* name;
  Vary vary_as;
};
constexpr Kind kKinds[] = {{"normal", Vary::kNormal},
                           {"skewed (lognormal)", Vary::kSkewed},
                           {"one run of 20 takes 30 % longer", Vary::kDisturbed},
                           {"few samples (Poisson)", Vary::kCounted}};

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}

  // A run whose first function takes `factor` times as long. What is common to all functions is the
  // machine's.
  HistoryRun run(std::size_t day, Vary vary_as, double factor) {
    HistoryRun run;
    run.name = fmt::format("{:06}", day);
    run.command = {"solver"};
    run.start_utc_ns = static_cast<std::int64_t>(day + 1) * 86'400'000'000'000;
    run.ranks = 1, run.nodes = 1;
    run.complete = run.has_functions = true;
    run.sample_s = kSample_s;
    double common = vary(vary_as, kCommonNoise);
    if (vary_as == Vary::kDisturbed && uniform_(random_) < 0.05) common *= 1.3;
    // The first has a fifth, and the others are ever smaller.
    double share = 0.2, all = 0;
    for (std::size_t f = 0; f < kFunctions; ++f, share *= 0.9) {
      double seconds = kRun_s * share / 2 * (f == 0 ? factor : 1) * common;
      if (vary_as == Vary::kCounted) {
        seconds = kSample_s *
                  static_cast<double>(std::poisson_distribution<int>(seconds * 0.02 / kSample_s)(random_));
      } else {
        seconds *= vary(vary_as, kFunctionNoise);
      }
      all += seconds;
      run.metrics.push_back({{FollowedKind::kSelf, fmt::format("f{:02}", f), "solver.c"}, seconds});
    }
    run.elapsed_s = all;
    run.metrics.push_back({{FollowedKind::kRun, "elapsed", ""}, all});
    for (const char* const name : {"cpu", "max_rss", "mpi_transfer", "mpi_wait", "useful_max", "useful_mean"})
      run.metrics.push_back({{FollowedKind::kRun, name, ""}, 10 * vary(vary_as, 0.05)});
    for (const char* const name : {"communication", "load_balance", "parallel", "serialization", "transfer"})
      run.metrics.push_back({{FollowedKind::kEfficiency, name, ""}, 0.8 * vary(vary_as, 0.02)});
    std::sort(run.metrics.begin(), run.metrics.end());
    return run;
  }

 private:
  double vary(Vary vary_as, double deviation) {
    const double z = normal_(random_);
    return vary_as == Vary::kSkewed ? std::exp(3 * deviation * z) : 1 + deviation * z;
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

HistorySeries series(Draws& draws, Vary vary_as, std::size_t before, std::size_t after, double factor) {
  std::vector<HistoryRun> runs;
  for (std::size_t r = 0; r < before + after; ++r)
    runs.push_back(draws.run(r, vary_as, r < before ? 1 : factor));
  return std::move(history(std::move(runs)).series.front());
}

RunFacts facts_of(const HistoryRun& run) {
  RunFacts facts;
  facts.name = run.name;
  facts.ranks = run.ranks;
  facts.complete = run.complete;
  Subject subject;
  subject.name = "elapsed";
  facts.rows.push_back(
      {DiffTable::kRun, subject, {{"value", Unit::kSeconds, Better::kLower, false, false, run.elapsed_s}}});
  return facts;
}

// The reference and the new run are none of those that tell how much runs vary.
bool is_called_regressed(Draws& draws, Vary vary_as, std::size_t earlier) {
  const Noise noise = noise_of(series(draws, vary_as, earlier, 0, 1));
  const Diff diff = compare({facts_of(draws.run(earlier, vary_as, 1))},
                            {facts_of(draws.run(earlier + 1, vary_as, 1))}, noise);
  const std::vector<Judgement> judgements = judge(diff, parse_conditions("elapsed regressed").value(), false);
  return judgements.front().holds.value_or(false);
}

}  // namespace

int main(int count, char** words) {
  const int draws = count > 1 ? std::atoi(words[1]) : 2000;
  fmt::print("{} series of each kind, {} functions; false alarms stated: at most {:.1f} %\n", draws,
             kFunctions, 100 * kFalseAlarm);
  Draws random(1);
  for (const Kind& kind : kKinds)
    for (const std::size_t runs : {10, 40, 200}) {
      int alarms = 0;
      for (int i = 0; i < draws; ++i)
        alarms += series(random, kind.vary_as, runs, 0, 1).changes.empty() ? 0 : 1;
      fmt::print("no change, {}, {} runs: {:.2f} % have one\n", kind.name, runs, 100.0 * alarms / draws);
    }
  for (const Kind& kind : kKinds)
    for (const std::size_t runs : {6, 12, 40}) {
      int alarms = 0;
      for (int i = 0; i < draws; ++i) alarms += is_called_regressed(random, kind.vary_as, runs) ? 1 : 0;
      fmt::print("elapsed regressed, {}, {} earlier runs: true of {:.2f} % without a change\n", kind.name,
                 runs, 100.0 * alarms / draws);
    }
  // The first function has a tenth of the run.
  for (const auto& [each, factor] :
       {std::pair<std::size_t, double>{10, 1.2}, {10, 1.5}, {10, 2.0}, {20, 1.2}, {20, 1.5}}) {
    int of_run = 0, of_function = 0, named = 0, others = 0;
    for (int i = 0; i < draws; ++i) {
      const HistorySeries one = series(random, Vary::kNormal, each, each, factor);
      bool elapsed = false, function = false, is_named = false, other = false;
      for (const HistoryChange& change : one.changes) {
        const bool is_elapsed = change.metric.name == "elapsed";
        elapsed = elapsed || is_elapsed;
        function = function || change.metric.name == "f00";
        other = other || (!is_elapsed && change.metric.name != "f00");
        for (const FunctionChange& at : change.functions) {
          is_named = is_named || (is_elapsed && at.metric.name == "f00");
          other = other || at.metric.name != "f00";
        }
      }
      of_run += elapsed ? 1 : 0, of_function += function ? 1 : 0, named += is_named ? 1 : 0,
          others += other ? 1 : 0;
    }
    const auto percent = [&](int number) { return 100.0 * number / draws; };
    fmt::print(
        "a function +{:.0f} % after {} of {} runs: told of it in {:.1f} %, of elapsed in {:.1f} % and there "
        "named in {:.1f} %; "
        "others called changed in {:.2f} %\n",
        100 * (factor - 1), each, 2 * each, percent(of_function), percent(of_run), percent(named),
        percent(others));
  }
  return 0;
}
