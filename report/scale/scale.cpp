// SPDX-License-Identifier: BSD-3-Clause
#include "report/scale/scale.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/base_name.hpp"
#include "report/diff/joined_rows.hpp"

namespace clusterprof::report {
namespace {

// Sums over all processors that grow by a larger power of their number are of weak scaling.
constexpr double kWeak = 0.5;
// Time that so few samples were counted of says nothing about how it grows.
constexpr double kSignificantSamples = 20;
// Calls that are timed but take less of the run do not matter, whatever their law.
constexpr double kSignificantShare = 1e-4;
// Losses of call paths below this share of a rank's time are left out.
constexpr double kLeastLoss = 0.005;
constexpr std::size_t kMostLosses = 300;
constexpr double kTenth = 0.1;
// The elapsed time is predicted from so many functions or call paths, and from those that have so much of a
// run. What the others take has one law together.
constexpr std::size_t kMostParts = 50;
constexpr double kLeastPart = 0.005;
// Call paths are used only if they miss the measured times by less than half as much as functions: variation
// between runs does not explain that.
constexpr double kMuchBetter = 4;  // of squares
constexpr double kPredicted[] = {2, 4, 8};

using Value = std::optional<double>;

// A value of every run; empty: not known.
using PerRun = std::vector<Value>;

Value mean(const std::vector<double>& values) {
  const std::optional<Sample> sample = sample_of(values);
  return sample ? Value(sample->mean) : Value();
}

std::vector<double> known(const PerRun& values, const std::vector<std::size_t>& of) {
  std::vector<double> result;
  for (const std::size_t run : of)
    if (values[run]) result.push_back(*values[run]);
  return result;
}

Value ratio(const Value& above, const Value& below) {
  if (!above || !below || *below <= 0) return {};
  return *above / *below;
}
Value product(const Value& a, const Value& b) { return a && b ? Value(*a * *b) : Value(); }

class Scaler {
 public:
  Scaler(std::vector<ScaledRun> runs, const SizeOf& of, std::vector<double> predict) {
    report_.of = of;
    std::stable_sort(runs.begin(), runs.end(), [](const ScaledRun& a, const ScaledRun& b) {
      return std::tie(a.size, a.facts.start_utc_ns) < std::tie(b.size, b.facts.start_utc_ns);
    });
    report_.runs = std::move(runs);
    for (std::size_t r = 0; r < report_.runs.size(); ++r) {
      if (r == 0 || report_.runs[r].size != report_.runs[r - 1].size) {
        sizes_.push_back(report_.runs[r].size);
        runs_of_.emplace_back();
      }
      runs_of_.back().push_back(r);
    }
    if (predict.empty())
      for (const double times : kPredicted) predict.push_back(times * sizes_.back());
    std::sort(predict.begin(), predict.end());
    predict_ = std::move(predict);
  }

  ScaleReport report() {
    find_mode();
    compare_commands();
    const std::vector<ScaleMeasures> measures = measures_of_runs();
    const PerRun elapsed = per_run([](const ScaledRun& run) { return Value(run.elapsed_s); });
    report_.sizes = rows(measures, elapsed);
    for (std::size_t r = 0; r < report_.runs.size(); ++r)
      report_.run_rows.push_back(row({r}, measures, elapsed, runs_of_.front()));
    find_laws_of_elapsed();
    predict();
    find_growth();
    find_regions();
    find_losses();
    for (ScaledRun& run : report_.runs) {
      run.facts.rows = {};
      run.call_tree = {};
      run.regions = {};
    }
    return std::move(report_);
  }

 private:
  template <typename Of>
  PerRun per_run(const Of& of) const {
    PerRun values;
    for (const ScaledRun& run : report_.runs) values.push_back(of(run));
    return values;
  }
  [[nodiscard]] std::vector<ScaleMeasures> measures_of_runs() const {
    std::vector<ScaleMeasures> measures;
    for (const ScaledRun& run : report_.runs) measures.push_back(run.measures);
    return measures;
  }
  [[nodiscard]] double processors(std::size_t size) const {
    return report_.runs[runs_of_[size].front()].processors;
  }
  static double ranks(const ScaledRun& run) {
    return std::max<double>(1, static_cast<double>(run.facts.ranks));
  }
  static double outside_mpi_s(const ScaledRun& run) {
    return std::max(0.0, run.elapsed_s - run.mpi_s.value_or(0) / ranks(run));
  }

  // --- strong or weak --------------------------------------------------------------------------

  void find_mode() {
    if (report_.of.by == ScaleBy::kSize) return;
    const auto every = [&](const auto& has) {
      return std::all_of(report_.runs.begin(), report_.runs.end(), has);
    };
    report_.work_is_instructions =
        every([](const ScaledRun& run) { return run.measures.instructions.has_value(); });
    const bool useful = every([](const ScaledRun& run) { return run.measures.mean_useful_s.has_value(); });
    double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
    for (const ScaledRun& run : report_.runs) {
      const double rank_s = useful ? *run.measures.mean_useful_s : outside_mpi_s(run);
      const double work = report_.work_is_instructions ? *run.measures.instructions : rank_s * run.processors;
      if (work <= 0 || run.processors <= 0) continue;
      const double x = std::log(run.processors), y = std::log(work);
      n += 1, sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y;
    }
    const double determinant = n * sum_xx - sum_x * sum_x;
    report_.mode = ScaleMode::kStrong;
    if (determinant <= 1e-9) return;
    report_.work_exponent = (n * sum_xy - sum_x * sum_y) / determinant;
    if (*report_.work_exponent > kWeak) report_.mode = ScaleMode::kWeak;
  }

  void compare_commands() {
    for (const ScaledRun& run : report_.runs)
      report_.commands_differ = report_.commands_differ ||
                                (!run.facts.command.empty() && !report_.runs.front().facts.command.empty() &&
                                 run.facts.command[0] != report_.runs.front().facts.command[0]);
  }

  // What a rank's time at the smallest size would be at another one if the program scaled ideally.
  [[nodiscard]] double ideal(double smallest_s, std::size_t size) const {
    if (report_.mode != ScaleMode::kStrong) return smallest_s;
    return smallest_s * processors(0) / processors(size);
  }

  // --- efficiencies ----------------------------------------------------------------------------

  // The mean of what the runs know.
  template <typename Of>
  static Value mean_of(const std::vector<ScaleMeasures>& measures, const std::vector<std::size_t>& runs,
                       const Of& of) {
    std::vector<double> values;
    for (const std::size_t run : runs)
      if (const Value value = of(measures[run])) values.push_back(*value);
    return mean(values);
  }
  static ScaleMeasures mean_measures(const std::vector<ScaleMeasures>& measures,
                                     const std::vector<std::size_t>& runs) {
    ScaleMeasures result;
    const auto share = [&](std::optional<double> Efficiency::*which) {
      return mean_of(measures, runs, [&](const ScaleMeasures& m) { return m.efficiency.*which; });
    };
    result.efficiency = {share(&Efficiency::parallel), share(&Efficiency::load_balance),
                         share(&Efficiency::communication), share(&Efficiency::serialization),
                         share(&Efficiency::transfer)};
    result.mean_useful_s = mean_of(measures, runs, [](const ScaleMeasures& m) { return m.mean_useful_s; });
    result.instructions = mean_of(measures, runs, [](const ScaleMeasures& m) { return m.instructions; });
    result.cycles = mean_of(measures, runs, [](const ScaleMeasures& m) { return m.cycles; });
    return result;
  }

  ScaleRow row(const std::vector<std::size_t>& runs, const std::vector<ScaleMeasures>& measures,
               const PerRun& times, const std::vector<std::size_t>& smallest) const {
    const ScaleMeasures here = mean_measures(measures, runs), first = mean_measures(measures, smallest);
    const ScaledRun& run = report_.runs[runs.front()];
    const double more = run.processors / report_.runs[smallest.front()].processors;
    ScaleRow result;
    result.size = run.size;
    result.runs = runs.size();
    result.elapsed_s = sample_of(known(times, runs));
    result.parallel = here.efficiency.parallel;
    result.load_balance = here.efficiency.load_balance;
    result.communication = here.efficiency.communication;
    result.serialization = here.efficiency.serialization;
    result.transfer = here.efficiency.transfer;
    if (!report_.mode) {
      result.global = result.parallel;
    } else {
      const bool weak = report_.mode == ScaleMode::kWeak;
      const std::optional<Sample> before = sample_of(known(times, smallest));
      if (before && result.elapsed_s && result.elapsed_s->mean > 0)
        result.speedup = before->mean / result.elapsed_s->mean * (weak ? more : 1);
      // Of all processors for the same work, of each for work of its own.
      const double spread = weak ? 1 : 1 / more;
      if (const Value useful = ratio(first.mean_useful_s, here.mean_useful_s))
        result.computation = *useful * spread;
      if (const Value fewer = ratio(first.instructions, here.instructions))
        result.instructions = *fewer * (weak ? more : 1);
      result.ipc = ratio(ratio(here.instructions, here.cycles), ratio(first.instructions, first.cycles));
      const Value faster =
          ratio(ratio(here.cycles, here.mean_useful_s), ratio(first.cycles, first.mean_useful_s));
      if (faster) result.frequency = *faster / more;
      result.global = product(result.parallel, result.computation);
    }
    divide_losses(result);
    return result;
  }

  // Each factor takes its share of what those before it have left.
  static void divide_losses(ScaleRow& row) {
    double left = 1;
    const auto lose = [&left](const Value& efficiency) {
      const double kept = std::clamp(*efficiency, 0.0, 1.0), lost = left * (1 - kept);
      left *= kept;
      return lost;
    };
    if (row.transfer && row.serialization) {
      row.lost_to_transfer = lose(row.transfer);
      row.lost_to_serialization = lose(row.serialization);
    } else if (row.communication) {
      row.lost_to_communication = lose(row.communication);
    }
    if (row.load_balance) row.lost_to_imbalance = lose(row.load_balance);
    if (row.computation) row.lost_to_computation = lose(row.computation);
  }

  std::vector<ScaleRow> rows(const std::vector<ScaleMeasures>& measures, const PerRun& times) const {
    std::vector<ScaleRow> result;
    for (const std::vector<std::size_t>& runs : runs_of_)
      result.push_back(row(runs, measures, times, runs_of_.front()));
    return result;
  }

  // --- laws ------------------------------------------------------------------------------------

  // What there is by size; `sampled`: the values were counted in samples.
  [[nodiscard]] std::vector<SizeSample> samples(const PerRun& values, bool sampled) const {
    std::vector<SizeSample> result;
    for (std::size_t s = 0; s < sizes_.size(); ++s) {
      SizeSample sample{sizes_[s], known(values, runs_of_[s]), 0};
      if (sample.values.empty()) continue;
      const ScaledRun& run = report_.runs[runs_of_[s].front()];
      if (sampled) sample.variance = *mean(sample.values) * run.facts.sampling_period_s / ranks(run);
      result.push_back(std::move(sample));
    }
    return result;
  }

  // Some functions shrink, others grow, so no law fits the elapsed time. But it is the sum of what functions
  // take by themselves, which have laws; unless many parts of the program call one (a sleep, a library). Then
  // it is the sum of what call paths take, of which the short ones are not known.
  void find_laws_of_elapsed() {
    if (sizes_.size() < kLeastSizes) return;
    elapsed_parts_ = laws_of(function_times());
    const std::vector<PerRun> paths = path_times();
    if (paths.empty()) return;
    std::vector<FittedLaw> of_paths = laws_of(paths);
    if (kMuchBetter * squared_error(of_paths) < squared_error(elapsed_parts_))
      elapsed_parts_ = std::move(of_paths);
  }

  // Of what the parts, a rank's times by run, take of the elapsed time; and of what is left.
  [[nodiscard]] std::vector<FittedLaw> laws_of(const std::vector<PerRun>& times) const {
    std::vector<double> all(report_.runs.size());
    for (const PerRun& part : times)
      for (std::size_t r = 0; r < all.size(); ++r) all[r] += part[r].value_or(0);
    PerRun rest = per_run([](const ScaledRun& run) { return Value(run.elapsed_s); });
    std::vector<std::pair<double, PerRun>> parts;  // with the largest share that it has in a run
    for (const PerRun& time : times) {
      std::pair<double, PerRun>& part = parts.emplace_back(0, PerRun(all.size()));
      for (std::size_t r = 0; r < all.size(); ++r) {
        const double share = all[r] > 0 ? std::max(time[r].value_or(0), 0.0) / all[r] : 0;
        part.first = std::max(part.first, share);
        part.second[r] = share * report_.runs[r].elapsed_s;
      }
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<FittedLaw> laws;
    for (std::size_t i = 0; i < std::min(parts.size(), kMostParts); ++i) {
      const auto& [share, part] = parts[i];
      if (share < kLeastPart) break;
      for (std::size_t r = 0; r < all.size(); ++r) *rest[r] = std::max(0.0, *rest[r] - *part[r]);
      laws.emplace_back(samples(part, true));
    }
    laws.emplace_back(samples(rest, false));
    return laws;
  }

  // Relative, of the mean elapsed times that were measured.
  [[nodiscard]] double squared_error(const std::vector<FittedLaw>& laws) const {
    double sum = 0;
    for (std::size_t s = 0; s < sizes_.size(); ++s) {
      const double elapsed_s = report_.sizes[s].elapsed_s->mean;
      if (elapsed_s > 0) sum += std::pow(sum_at(laws, sizes_[s]) / elapsed_s - 1, 2);
    }
    return sum;
  }

  // What functions take by themselves.
  [[nodiscard]] std::vector<PerRun> function_times() const {
    std::vector<PerRun> result;
    for (JoinedRow& joined : join_rows(facts(), DiffTable::kFunctions))
      for (JoinedColumn& column : joined.columns)
        if (column.measured.key == "self_s") result.push_back(std::move(column.values));
    return result;
  }

  // The time of each call path that has a row in every run. What a run leaves out as too short counts for its
  // caller, or without one for the rest. Empty: there is no such call path.
  [[nodiscard]] std::vector<PerRun> path_times() const {
    const std::vector<PathNode> nodes = joined_tree();
    std::vector<PerRun> result(nodes.size());
    PerRun rest(report_.runs.size(), 0.0);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const PathNode& node = nodes[n];
      if (node.is_in_all()) {
        result[n] = node.times;
        for (std::size_t r = 0; r < rest.size() && node.parent != shard::kNone; ++r)
          *result[node.parent][r] -= *node.times[r];  // a caller is in all, too
      } else if (node.parent == shard::kNone) {
        for (std::size_t r = 0; r < rest.size(); ++r) *rest[r] += node.times[r].value_or(0);
      }
    }
    std::erase_if(result, [](const PerRun& times) { return times.empty(); });
    if (!result.empty()) result.push_back(std::move(rest));
    return result;
  }

  [[nodiscard]] std::vector<const RunFacts*> facts() const {
    std::vector<const RunFacts*> facts;
    for (const ScaledRun& run : report_.runs) facts.push_back(&run.facts);
    return facts;
  }

  [[nodiscard]] std::optional<Prediction> elapsed_at(double size) const {
    Prediction sum;
    double below = 0, above = 0;
    for (const FittedLaw& part : elapsed_parts_) {
      if (!part.law()) continue;  // no time in it at any size
      const Prediction prediction = part.predict(size);
      sum.value += prediction.value;
      below = std::hypot(below, prediction.value - prediction.low);
      above = std::hypot(above, prediction.high - prediction.value);
    }
    if (sum.value <= 0) return {};
    sum.low = std::max(0.0, sum.value - below);
    sum.high = sum.value + above;
    return sum;
  }

  // The same without limits, which take long to find.
  [[nodiscard]] static double sum_at(const std::vector<FittedLaw>& laws, double size) {
    double sum = 0;
    for (const FittedLaw& part : laws)
      if (part.law()) sum += part.law()->at(size);
    return sum;
  }

  void predict() {
    if (sizes_.size() < kLeastSizes) report_.refused = Refusal::kFewSizes;
    const Value first_s =
        report_.sizes.front().elapsed_s ? Value(report_.sizes.front().elapsed_s->mean) : Value();
    for (const double size : predict_) {
      const std::optional<Prediction> elapsed = elapsed_at(size);
      if (!elapsed) continue;
      PredictedRow& row = report_.predictions.emplace_back();
      row.size = size;
      row.elapsed_s = *elapsed;
      if (!report_.mode || !first_s) continue;
      const double more = size / sizes_.back() * processors(sizes_.size() - 1) / processors(0);
      row.speedup = *first_s / elapsed->value * (report_.mode == ScaleMode::kWeak ? more : 1);
      row.efficiency = *row.speedup / more;
    }
  }

  // --- growth of parts of the program ----------------------------------------------------------

  // Fills in all but the subject. `values`: a rank's time in every run.
  void grow(const PerRun& values, bool sampled, GrowthRow& row) const {
    for (std::size_t s = 0; s < sizes_.size(); ++s) {
      row.times.push_back({sizes_[s], mean(known(values, runs_of_[s]))});
      const Value elapsed_s = Value(report_.sizes[s].elapsed_s->mean);
      row.shares.push_back({sizes_[s], ratio(row.times[s].value, elapsed_s)});
    }
    if (row.times.front().value && row.times.back().value)
      row.loss_s = *row.times.back().value - ideal(*row.times.front().value, sizes_.size() - 1);
    const std::vector<SizeSample> by_size = samples(values, sampled);
    row.refused = sizes_.size() < kLeastSizes    ? Refusal::kFewSizes
                  : by_size.size() < kLeastSizes ? Refusal::kNotKnown
                  : is_little(values, sampled)   ? Refusal::kLittleTime
                                                 : Refusal::kNone;
    std::optional<FittedLaw> fitted;
    if (row.refused == Refusal::kNone) {
      fitted.emplace(by_size);
      row.law = fitted->law();
    }
    for (const double size : predict_) {
      if (row.law) row.shares.push_back({size, share_of(*row.law, size)});
    }
    find_tenth(row);
  }

  [[nodiscard]] bool is_little(const PerRun& values, bool sampled) const {
    double most = 0;
    for (const std::vector<std::size_t>& runs : runs_of_) {
      double here = 0;
      for (const std::size_t r : runs) {
        const ScaledRun& run = report_.runs[r];
        if (!values[r]) continue;
        if (sampled && run.facts.sampling_period_s > 0)
          here += *values[r] * ranks(run) / run.facts.sampling_period_s / kSignificantSamples;
        else if (run.elapsed_s > 0)
          here = std::max(here, *values[r] / run.elapsed_s / kSignificantShare);
      }
      most = std::max(most, here);
    }
    return most < 1;
  }

  [[nodiscard]] double share_of(const Law& law, double size) const {
    const double elapsed_s = sum_at(elapsed_parts_, size);
    return elapsed_s > 0 ? std::clamp(law.at(size) / elapsed_s, 0.0, 1.0) : 0;
  }

  void find_tenth(GrowthRow& row) const {
    const auto is_tenth = [](const SizedValue& share) { return share.value.value_or(0) >= kTenth; };
    for (std::size_t s = 0; s < sizes_.size(); ++s) {
      if (!is_tenth(row.shares[s])) continue;
      if (s != 0) row.tenth_at = sizes_[s], row.tenth_is_measured = true;
      return;
    }
    if (!row.law) return;
    const auto reaches = [&](double size) { return share_of(*row.law, size) >= kTenth; };
    double below = sizes_.back(), above = below;
    do {
      below = above;
      above *= 2;
      if (above > kFarthest * sizes_.back()) return;
    } while (!reaches(above));
    while (above - below > 1) {
      const double middle = std::floor((below + above) / 2);
      if (middle <= below || middle >= above) break;  // there is no number between them
      (reaches(middle) ? above : below) = middle;
    }
    row.tenth_at = std::ceil(above);
  }

  [[nodiscard]] std::vector<GrowthRow> growth_of(DiffTable table, std::string_view key) const {
    std::vector<GrowthRow> result;
    for (const JoinedRow& joined : join_rows(facts(), table))
      for (const JoinedColumn& column : joined.columns) {
        if (column.measured.key != key) continue;
        PerRun values = column.values;
        bool sampled = column.measured.sampled;
        for (std::size_t r = 0; r < values.size(); ++r) {
          if (values[r]) values[r] = *values[r] / ranks(report_.runs[r]);
          sampled = sampled && report_.runs[r].facts.sampling_period_s > 0;
        }
        GrowthRow& row = result.emplace_back();
        row.subject = joined.last().subject;
        grow(values, sampled, row);
      }
    std::stable_sort(result.begin(), result.end(),
                     [](const GrowthRow& a, const GrowthRow& b) { return a.loss_s > b.loss_s; });
    return result;
  }

  void find_growth() {
    report_.functions = growth_of(DiffTable::kFunctions, "total_s");
    report_.lines = growth_of(DiffTable::kLines, "self_s");
    report_.calls = growth_of(DiffTable::kMpiCalls, "time_s");
  }

  void find_regions() {
    using InRun = std::pair<std::size_t, const ScaledRegion*>;
    std::vector<std::vector<InRun>> regions;  // by name, in the order of their first run
    std::unordered_map<std::string_view, std::size_t> index;
    for (std::size_t r = 0; r < report_.runs.size(); ++r)
      for (const ScaledRegion& region : report_.runs[r].regions) {
        const auto [found, is_new] = index.try_emplace(region.name, regions.size());
        if (is_new) regions.emplace_back();
        regions[found->second].emplace_back(r, &region);
      }
    for (const std::vector<InRun>& of_name : regions) {
      const std::string& name = of_name.front().second->name;
      std::vector<ScaleMeasures> measures(report_.runs.size());
      PerRun times(report_.runs.size());
      for (const auto& [r, in_run] : of_name) {
        measures[r] = in_run->measures;
        times[r] = in_run->time_s / ranks(report_.runs[r]);
      }
      RegionScale& region = report_.regions.emplace_back();
      region.name = name;
      region.rows = rows(measures, times);
      region.growth.subject.name = name;
      region.growth.subject.kind = shard::FrameKind::kRegion;
      grow(times, true, region.growth);
    }
  }

  // --- losses of call paths --------------------------------------------------------------------

  struct PathNode {
    std::uint32_t parent = shard::kNone;
    const CallTreeRow* row = nullptr;
    PerRun times;           // of a rank
    std::vector<bool> has;  // per run: a row
    [[nodiscard]] bool is_in_all() const { return std::find(has.begin(), has.end(), false) == has.end(); }
  };

  // Rows of different runs are the same where the functions from the outermost on are.
  [[nodiscard]] std::vector<PathNode> joined_tree() const {
    using Key = std::tuple<std::uint32_t, Fold, shard::FrameKind, std::string, std::string>;
    std::vector<PathNode> nodes;
    std::map<Key, std::uint32_t> known_nodes;
    PerRun absent;
    for (const ScaledRun& run : report_.runs) absent.push_back(run.call_tree.empty() ? Value() : Value(0));
    for (std::size_t r = 0; r < report_.runs.size(); ++r) {
      const ScaledRun& run = report_.runs[r];
      std::vector<std::uint32_t> node_of(run.call_tree.size());
      for (std::size_t i = 0; i < run.call_tree.size(); ++i) {
        const CallTreeRow& row = run.call_tree[i];
        const std::uint32_t parent = row.parent == shard::kNone ? shard::kNone : node_of[row.parent];
        const std::string& place = row.file.empty() ? row.module : row.file;
        const auto [found, is_new] =
            known_nodes.try_emplace({parent, row.fold, row.kind, row.name, std::string(base_name(place))},
                                    static_cast<std::uint32_t>(nodes.size()));
        node_of[i] = found->second;
        if (is_new) nodes.push_back({parent, &row, absent, std::vector<bool>(absent.size())});
        PathNode& node = nodes[found->second];
        node.times[r] = node.times[r].value_or(0) + row.main_total_s / ranks(run);
        node.has[r] = true;
      }
    }
    return nodes;
  }

  [[nodiscard]] LossRow loss_of(const PathNode& node) const {
    LossRow loss;
    const CallTreeRow& row = *node.row;
    loss.subject.name = row.name, loss.subject.file = row.file, loss.subject.module = row.module;
    loss.subject.line = row.line, loss.subject.kind = row.kind;
    loss.fold = row.fold;
    const std::size_t last = sizes_.size() - 1;
    std::vector<double> smallest = known(node.times, runs_of_[0]),
                        largest = known(node.times, runs_of_[last]);
    if (smallest.empty() || largest.empty()) return loss;
    loss.smallest_s = *mean(smallest);
    loss.largest_s = *mean(largest);
    for (double& time : smallest) time = ideal(time, last);
    loss.loss_s = loss.largest_s - *mean(smallest);
    loss.half_width = half_width_of_difference(smallest, largest);
    std::vector<double> rank_s;
    for (const std::size_t r : runs_of_[last])
      rank_s.push_back(report_.runs[r].rank_seconds / ranks(report_.runs[r]));
    loss.share = ratio(loss.loss_s, mean(rank_s)).value_or(0);
    return loss;
  }

  void find_losses() {
    const std::vector<PathNode> nodes = joined_tree();
    std::vector<LossRow> losses;
    for (const PathNode& node : nodes) losses.push_back(loss_of(node));
    std::vector<std::uint32_t> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return losses[a].loss_s > losses[b].loss_s; });
    std::set<std::uint32_t> kept;
    for (const std::uint32_t n : order) {
      if (losses[n].share < kLeastLoss || kept.size() >= kMostLosses) break;
      for (std::uint32_t at = n; at != shard::kNone && kept.insert(at).second;) at = nodes[at].parent;
    }
    std::map<std::uint32_t, std::vector<std::uint32_t>> children;  // the largest first
    for (const std::uint32_t n : order)
      if (kept.contains(n)) children[nodes[n].parent].push_back(n);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> open;  // node, row of its parent
    const auto put_off = [&](std::uint32_t node, std::uint32_t row) {
      const auto found = children.find(node);
      if (found == children.end()) return;
      for (auto child = found->second.rbegin(); child != found->second.rend(); ++child)
        open.emplace_back(*child, row);
    };
    put_off(shard::kNone, shard::kNone);
    while (!open.empty()) {
      const auto [node, parent] = open.back();
      open.pop_back();
      LossRow& row = report_.losses.emplace_back(losses[node]);
      row.parent = parent;
      row.depth = parent == shard::kNone ? 0 : report_.losses[parent].depth + 1;
      put_off(node, static_cast<std::uint32_t>(report_.losses.size() - 1));
    }
  }

  ScaleReport report_;
  std::vector<double> sizes_;                      // ascending
  std::vector<std::vector<std::size_t>> runs_of_;  // by size: indices into report_.runs
  std::vector<double> predict_;
  std::vector<FittedLaw> elapsed_parts_;  // whose sum is the elapsed time; none with too few sizes
};

}  // namespace

ScaleReport scale(std::vector<ScaledRun> runs, const SizeOf& of, std::vector<double> predict) {
  return Scaler(std::move(runs), of, std::move(predict)).report();
}

}  // namespace clusterprof::report
