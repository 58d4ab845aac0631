// SPDX-License-Identifier: BSD-3-Clause
// Sums up time by function, source line, activity, module and system call, with the distribution over
// ranks.
#include "report/analysis/functions.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "report/analysis/run_and_ranks.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::kCategories;
using shard::kNone;

// Of a path outside MPI, GC and the interpreter's own work: the object file of its innermost native frame.
std::string_view module_of(const CallPaths& paths, std::uint32_t path) {
  const shard::Frame* const frame = paths.frame(path);
  const bool native = frame != nullptr && frame->kind == shard::FrameKind::kNative;
  const std::string_view module = native ? std::string_view(paths.text(frame->module)) : "";
  return module.empty() ? "[unknown]" : module;
}

// Over the ranks that had samples. What one of them does not know is not known of the run: a sum that
// leaves ranks out would look complete.
void sum_activities(Analysis& analysis) {
  for (std::size_t a = 0; a < kActivities; ++a) {
    Seconds sum;
    bool known = true;
    for (const RankInfo& rank : analysis.ranks) {
      if (rank.activity_s[a]) sum = sum.value_or(0) + *rank.activity_s[a];
      known = known && (rank.activity_s[a] || rank.samples == 0);
    }
    if (known) analysis.activity_s[a] = sum;
  }
}

struct FunctionSum {
  std::uint64_t self_ns = 0, active_ns = 0, total_ns = 0, active_total_ns = 0, cpu_ns = 0;
  std::uint64_t main_ns = 0, main_total_ns = 0;
  std::array<std::uint64_t, kCategories> category_ns{};
  ActivityTimes activity_ns{};
};

void sort_functions(Analysis& analysis) {
  const auto by_time = [](const FunctionRow& row) { return std::tuple(-row.self_s, -row.total_s); };
  std::sort(analysis.functions.begin(), analysis.functions.end(),
            [&](const FunctionRow& a, const FunctionRow& b) {
              if (by_time(a) != by_time(b)) return by_time(a) < by_time(b);
              return std::tie(a.name, a.file, a.module, a.line, a.kind) <
                     std::tie(b.name, b.file, b.module, b.line, b.kind);
            });
}

}  // namespace

void give_activities(const shard::Rank& rank, const ActivityTimes& times, bool cpu_clock, RankInfo& info) {
  const bool sampled = rank.samples != 0;
  for (std::size_t a = 0; a < kActivities; ++a) {
    const auto activity = static_cast<Activity>(a);
    bool known = sampled;
    if (activity == Activity::kMpi) known = measures_mpi(rank) || times[a] != 0;
    if (activity == Activity::kPageFault) known = sampled && (rank.flags & shard::kFaultsApart) != 0;
    if (activity == Activity::kGarbageCollection) known = sampled && (rank.flags & shard::kGarbageApart) != 0;
    const bool of_python = activity == Activity::kInterpreter || activity == Activity::kImport ||
                           activity == Activity::kGarbageCollection || activity == Activity::kGilWait;
    if (of_python && (rank.flags & shard::kPythonUnread) != 0) known = false;
    const bool waits = activity == Activity::kGilWait || activity == Activity::kSleep ||
                       activity == Activity::kLock || activity == Activity::kOtherWait;
    if (waits && cpu_clock) known = false;
    if (activity == Activity::kRunnable) known = sampled && (rank.flags & shard::kRunDelayKnown) != 0;
    if (known) info.activity_s[a] = to_seconds(times[a]);
  }
}

FunctionTime::FunctionTime(const CallPaths& paths, const Cells& cells)
    : paths_(paths),
      cells_(cells),
      parent_(paths.size(), 0),
      outermost_(paths.size(), kNone),
      total_(paths.functions().size()),
      active_(total_.size()),
      line_active_(paths.lines().size()),
      inclusive_(paths.size()),
      of_function_(total_.size()),
      of_line_(line_active_.size()),
      touched_paths_(paths.size()) {
  for (std::uint32_t path = 0; path < paths.size(); ++path) {
    if (path != 0) parent_[path] = paths.parent(path);
    if (paths.outermost_function(path)) outermost_[path] = paths.function(path);
  }
}

void FunctionTime::find_charges() {
  for (std::size_t cell = charges_.size(); cell < cells_.size(); ++cell) {
    const auto& [path, category] = cells_[cell];
    grow(charges_, cell + 1);
    Charge& charge = charges_.back();
    charge.path = paths_.counted(path, category);
    charge.line = paths_.line(paths_.source(charge.path));
    charge.activity = activity_of(paths_, path, category);
    charge.is_work = is_work(paths_, path, category);
  }
}

ActivityTimes FunctionTime::add(const RankInput& rank) {
  ActivityTimes activity_ns{};
  find_charges();
  const auto parent_of = [this](std::uint32_t path) { return parent_[path]; };
  for (std::size_t i = 0; i < rank.values.size(); ++i) {
    const shard::Value& value = rank.values[i];
    // A thread's time from start to end is known without samples; what it did then is not.
    if (!rank.sampled && value.category != Category::kMpi) continue;
    const Charge& charge = charges_[rank.cells[i]];
    activity_ns[index(charge.activity)] += value.wall_ns;
    const std::uint64_t active_ns = value.main_thread || charge.is_work ? value.wall_ns : 0;
    touched_paths_.touch(charge.path, parent_of);
    inclusive_[charge.path].all_ns += value.wall_ns;
    inclusive_[charge.path].active_ns += active_ns;
    if (charge.line == kNone || active_ns == 0) continue;
    if (of_line_[charge.line] == 0) touched_lines_.push_back(charge.line);
    of_line_[charge.line] += active_ns;
  }
  touched_paths_.drain([this](std::uint32_t path) {
    const InclusiveTime here = inclusive_[path];
    inclusive_[path] = {};
    InclusiveTime& up = inclusive_[parent_[path]];
    up.all_ns += here.all_ns;
    up.active_ns += here.active_ns;
    const std::uint32_t function = outermost_[path];
    if (function == kNone || here.all_ns == 0) return;
    InclusiveTime& sum = of_function_[function];
    if (sum.all_ns == 0) touched_functions_.push_back(function);
    sum.all_ns += here.all_ns;
    sum.active_ns += here.active_ns;
  });
  inclusive_[0] = {};
  for (const std::uint32_t function : touched_functions_) {
    InclusiveTime& sum = of_function_[function];
    total_[function].add(sum.all_ns, rank.position);
    if (sum.active_ns != 0) active_[function].add(sum.active_ns, rank.position);
    sum = {};
  }
  touched_functions_.clear();
  for (const std::uint32_t line : touched_lines_) {
    line_active_[line].add(of_line_[line], rank.position);
    of_line_[line] = 0;
  }
  touched_lines_.clear();
  return activity_ns;
}

// Sums over all ranks.
struct FunctionTime::Sums {
  std::vector<FunctionSum> functions;
  std::vector<InclusiveTime> lines;
  std::vector<InclusiveTime> inclusive;  // by path
  ActivityTimes active_activity_ns{};
  std::map<std::string_view, std::uint64_t> modules_ns, calls_ns, active_calls_ns;
  std::uint64_t sampled_ns = 0, helper_idle_ns = 0, without_function_ns = 0, without_line_ns = 0;
};

// Charges the time of each cell to its function, activity, module and system call.
void FunctionTime::charge_cells(const PathTime& time, Sums& sums) const {
  for (std::uint32_t cell = 0; cell < cells_.size(); ++cell) {
    const std::uint64_t main_ns = time.observed_main_ns(cell), helper_ns = time.observed_helper_ns(cell);
    const std::uint64_t all_ns = main_ns + helper_ns;
    if (all_ns == 0 && time.cpu_ns(cell) == 0) continue;
    const auto& [path, category] = cells_[cell];
    const Charge& charge = charges_[cell];
    const std::uint64_t active_ns = charge.is_work ? all_ns : main_ns;
    sums.sampled_ns += all_ns;
    sums.helper_idle_ns += all_ns - active_ns;
    sums.active_activity_ns[index(charge.activity)] += active_ns;
    if (charge.activity == Activity::kNative) sums.modules_ns[module_of(paths_, path)] += all_ns;
    if (const std::string_view call = system_call_of(paths_, path); !call.empty()) {
      sums.calls_ns[call] += all_ns;
      if (active_ns != 0) sums.active_calls_ns[call] += active_ns;
    }
    sums.inclusive[charge.path].all_ns += all_ns;
    sums.inclusive[charge.path].active_ns += active_ns;
    sums.inclusive[charge.path].main_ns += main_ns;
    if (charge.line == kNone) sums.without_line_ns += all_ns;
    const std::uint32_t function = paths_.function(charge.path);
    if (function == kNone) {
      sums.without_function_ns += all_ns;
      continue;
    }
    FunctionSum& sum = sums.functions[function];
    sum.self_ns += all_ns;
    sum.cpu_ns += time.cpu_ns(cell);
    sum.active_ns += active_ns;
    sum.main_ns += main_ns;
    sum.category_ns[static_cast<std::size_t>(category)] += all_ns;
    sum.activity_ns[index(charge.activity)] += all_ns;
  }
}

// Adds up inclusive times along the call tree.
void FunctionTime::add_inclusive_times(Sums& sums) const {
  // Parents have lower numbers than their children, so every path is complete when it is read.
  for (std::uint32_t path = static_cast<std::uint32_t>(paths_.size()); path-- > 1;) {
    const InclusiveTime here = sums.inclusive[path];
    sums.inclusive[paths_.parent(path)].all_ns += here.all_ns;
    sums.inclusive[paths_.parent(path)].active_ns += here.active_ns;
    sums.inclusive[paths_.parent(path)].main_ns += here.main_ns;
    if (paths_.outermost_function(path)) {
      FunctionSum& function = sums.functions[paths_.function(path)];
      function.total_ns += here.all_ns;
      function.active_total_ns += here.active_ns;
      function.main_total_ns += here.main_ns;
    }
    if (paths_.outermost_line(path)) {
      InclusiveTime& line = sums.lines[paths_.line(path)];
      line.all_ns += here.all_ns;
      line.active_ns += here.active_ns;
      line.main_ns += here.main_ns;
    }
  }
}

void FunctionTime::give_run_totals(const Sums& sums, Analysis& analysis) {
  sum_activities(analysis);
  for (std::size_t a = 0; a < kActivities; ++a)
    if (analysis.activity_s[a]) analysis.active_activity_s[a] = to_seconds(sums.active_activity_ns[a]);
  for (const auto& [name, ns] : sums.modules_ns) analysis.native_modules.emplace(name, to_seconds(ns));
  for (const auto& [name, ns] : sums.active_calls_ns)
    analysis.active_system_calls.emplace(name, to_seconds(ns));
  for (const auto& [name, ns] : sums.calls_ns) analysis.system_calls.emplace(name, to_seconds(ns));
  analysis.sampled_s = to_seconds(sums.sampled_ns);
  analysis.without_function_s = to_seconds(sums.without_function_ns);
  analysis.without_line_s = to_seconds(sums.without_line_ns);
  analysis.helper_idle_s = to_seconds(sums.helper_idle_ns);
}

void FunctionTime::give_functions(const Sums& sums, const RankOrder& ranks, Analysis& analysis) const {
  analysis.functions.reserve(
      static_cast<std::size_t>(std::count_if(sums.functions.begin(), sums.functions.end(),
                                             [](const FunctionSum& sum) { return sum.total_ns != 0; })));
  for (std::size_t i = 0; i < sums.functions.size(); ++i) {
    const FunctionSum& sum = sums.functions[i];
    if (sum.total_ns == 0) continue;
    const shard::Frame& f = *paths_.functions()[i];
    FunctionRow& row = analysis.functions.emplace_back();
    row.id = static_cast<std::uint32_t>(i);
    row.name = paths_.function_name(row.id);
    row.module = paths_.text(f.module);
    row.kind = f.kind;
    if (row.name == paths_.text(f.name)) {  // else it is a whole module
      row.file = paths_.text(f.file);
      row.line = f.function_line;
    }
    row.self_s = to_seconds(sum.self_ns);
    row.total_s = to_seconds(sum.total_ns);
    row.cpu_s = to_seconds(sum.cpu_ns);
    row.spread = ranks.spread(sum.total_ns, total_[i]);
    row.active_self_s = to_seconds(sum.active_ns);
    row.active_total_s = to_seconds(sum.active_total_ns);
    row.main_self_s = to_seconds(sum.main_ns);
    row.main_total_s = to_seconds(sum.main_total_ns);
    row.active_spread = ranks.spread(sum.active_total_ns, active_[i]);
    give_seconds(sum.category_ns, row.category_s);
    give_seconds(sum.activity_ns, row.activity_s);
  }
}

std::vector<InclusiveTime> FunctionTime::finish(const PathTime& time, const RankOrder& ranks,
                                                Analysis& analysis) {
  find_charges();
  Sums sums;
  sums.functions.resize(total_.size());
  sums.lines.resize(line_active_.size());
  sums.inclusive.resize(paths_.size());
  charge_cells(time, sums);
  add_inclusive_times(sums);
  give_run_totals(sums, analysis);
  give_functions(sums, ranks, analysis);
  sort_functions(analysis);
  return std::move(sums.lines);
}

}  // namespace clusterprof::report
