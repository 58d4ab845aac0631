// SPDX-License-Identifier: BSD-3-Clause
// Turns the tables of the wait analysis into rows with source locations: waits by kind and rank, root
// causes, critical path, efficiencies over time.
#include "report/analysis/waiting.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::Frame;
using shard::FrameKind;
using shard::kNone;
using shard::ShardData;
using shard::WaitState;

constexpr std::uint32_t kUnasked = kNone - 1;

auto names_of(const SourceLocation& p) {
  return std::tie(p.file, p.line, p.function, p.op, p.module, p.kind);
}

// Gives every call path its place, and every place its function.
class Locations {
 public:
  Locations(const CallPaths& paths, std::vector<SourceLocation>& table) : paths_(paths), table_(table) {
    table_.assign(1, SourceLocation{});
    functions_.assign(1, 0);
    by_path_.assign(paths.size(), kNone);
  }

  // Whatever such a path was about to do: what it lacked is a processor.
  static bool is_runnable(const CallPaths& paths, const Frame& leaf) {
    return leaf.kind == FrameKind::kKernel && paths.text(leaf.name) == shard::kRunnableName;
  }

  LocationIndex of(std::uint32_t path) {
    if (path >= by_path_.size()) return 0;
    if (by_path_[path] == kNone) by_path_[path] = add(key_of(path));
    return by_path_[path];
  }
  // Of a place that outlives this.
  LocationIndex of(const SourceLocation& place) {
    if (place.function.empty() && place.op.empty()) return 0;
    return add({{place.op, place.function, place.file, place.module, place.kind}, place.line});
  }
  // The place of the path if it already has an index, else kNone.
  [[nodiscard]] LocationIndex known(std::uint32_t path) const {
    if (path >= by_path_.size()) return kNone;
    if (by_path_[path] != kNone) return by_path_[path];
    const auto found = ids_.find(key_of(path));
    return found == ids_.end() ? kNone : found->second;
  }
  [[nodiscard]] std::uint32_t known_function(std::uint32_t path) const {
    if (path >= by_path_.size()) return kNone;
    const auto found = function_ids_.find(key_of(path).first);
    return found == function_ids_.end() ? kNone : found->second;
  }
  // Equal for all lines of one function, and for all calls of one MPI function out of it.
  [[nodiscard]] std::uint32_t function(LocationIndex place) const { return functions_[place]; }

 private:
  using Text = std::string_view;
  using Function = std::tuple<Text, Text, Text, Text, FrameKind>;  // operation, function, file, module, kind
  using Key = std::pair<Function, std::uint32_t>;

  [[nodiscard]] std::uint32_t programs_frame(std::uint32_t path) const {
    if (const std::uint32_t place = paths_.place(path); place != 0) return place;
    const Frame* const leaf = paths_.frame(path);
    return leaf != nullptr && leaf->kind == FrameKind::kRegion ? 0 : path;
  }

  [[nodiscard]] Key key_of(std::uint32_t path) const {
    const Frame* const leaf = paths_.frame(path);
    if (leaf == nullptr) return {};
    if (is_runnable(paths_, *leaf)) return {{{}, shard::kRunnableName, {}, {}, FrameKind::kKernel}, 0};
    const bool in_mpi = leaf->kind == FrameKind::kMpi;
    const Frame* const shown = paths_.frame(in_mpi ? paths_.mpi_caller(path) : programs_frame(path));
    const Text op = in_mpi ? Text(paths_.text(leaf->name)) : Text();
    if (shown == nullptr) return {{op, {}, {}, {}, FrameKind::kNative}, 0};
    return {{op, paths_.text(shown->name), paths_.text(shown->file), paths_.text(shown->module), shown->kind},
            shown->line};
  }

  LocationIndex add(const Key& key) {
    if (key == Key{}) return 0;
    const auto [known, is_new] = ids_.try_emplace(key, static_cast<LocationIndex>(table_.size()));
    if (is_new) {
      SourceLocation& place = table_.emplace_back();
      const auto& [op, function, file, module, kind] = key.first;
      place.op = op, place.function = function, place.file = file, place.module = module;
      place.line = key.second, place.kind = kind;
      functions_.push_back(
          function_ids_.try_emplace(key.first, static_cast<std::uint32_t>(function_ids_.size() + 1))
              .first->second);
    }
    return known->second;
  }

  const CallPaths& paths_;
  std::vector<SourceLocation>& table_;
  std::map<Key, LocationIndex> ids_;
  std::map<Function, std::uint32_t> function_ids_;
  std::vector<std::uint32_t> functions_, by_path_;
};

// Sums by place; knows the one with most.
class ByPlace {
 public:
  void add(LocationIndex place, std::uint64_t ns) { sums_[place] += ns; }
  [[nodiscard]] LocationIndex heaviest(const std::vector<SourceLocation>& places) const {
    LocationIndex best = 0;
    std::uint64_t most = 0;
    bool first = true;
    for (const auto& [place, ns] : sums_) {
      const bool better = ns > most || (ns == most && names_of(places[place]) < names_of(places[best]));
      if (!first && !better) continue;
      best = place, most = ns, first = false;
    }
    return best;
  }

 private:
  std::map<LocationIndex, std::uint64_t> sums_;
};

// Distinct ranks, when they come in order.
struct RankCount {
  std::uint32_t count = 0;
  std::int32_t first = -1, last = -1;
  void add(std::int32_t rank) {
    if (count != 0 && last == rank) return;
    if (count++ == 0) first = rank;
    last = rank;
  }
};

using RankNumber = std::optional<std::int32_t>;

class Explainer {
 public:
  Explainer(const ShardData& data, const PathTime& time, const ChargedWaits& waits, const CallPaths& paths,
            Analysis& analysis)
      : data_(data),
        time_(time),
        waits_(waits),
        paths_(paths),
        a_(analysis),
        places_(paths, analysis.places) {
    for (std::uint32_t i = 0; i < data.wait_states.size(); ++i) {
      const WaitState& state = data.wait_states[i];
      if (state.rank < data.ranks.size() && static_cast<std::size_t>(state.kind) < shard::kWaitKinds)
        states_.push_back(i);
    }
    std::sort(states_.begin(), states_.end(), [&](std::uint32_t x, std::uint32_t y) {
      const WaitState &s = data.wait_states[x], &t = data.wait_states[y];
      return std::tuple(s.kind, number(s.rank), x) < std::tuple(t.kind, number(t.rank), y);
    });
  }

  void run() {
    quality();
    waits();
    delays();
    root_causes();
    critical_path();
    windows();
    name_called();
  }

 private:
  [[nodiscard]] std::int32_t number(std::uint32_t rank) const { return data_.ranks[rank].rank; }
  [[nodiscard]] RankNumber cause_of(const WaitState& state) const {
    return state.cause_rank < data_.ranks.size() ? RankNumber(number(state.cause_rank)) : RankNumber();
  }

  void quality() {
    const shard::WaitAnalysis& from = data_.wait_analysis;
    WaitQuality& to = a_.wait_quality.emplace();
    to.event_level = from.event_level;
    to.operations = from.operations, to.events = from.events;
    to.messages = from.messages, to.unmatched_messages = from.unmatched_messages;
    to.collectives = from.collectives, to.unmatched_collectives = from.unmatched_collectives;
    if (from.clock_error_ns != shard::kClocksApart) to.clock_error_s = to_seconds(from.clock_error_ns);
    to.clock_violations = from.clock_violations;
    to.worst_violation_s = to_seconds(from.worst_violation_ns);
    if (from.ideal_ns != 0) to.ideal_s = to_seconds(from.ideal_ns);
    to.unreceived_messages = from.unreceived_messages;
    for (const RankInfo& rank : a_.ranks)
      if (rank.mpi_wait_s) {
        a_.mpi_wait_s = a_.mpi_wait_s.value_or(0) + *rank.mpi_wait_s;
        a_.mpi_transfer_s = a_.mpi_transfer_s.value_or(0) + rank.mpi_transfer_s.value_or(0);
      }
  }

  // Of what a rank did there is no path where others still waited for it and it was in no MPI call: then it
  // is where it was last seen.
  LocationIndex place_of_cause(std::uint32_t rank, std::uint32_t path) {
    if (path != 0 || rank >= data_.ranks.size()) return places_.of(path);
    const RankInfo* const info = info_of(number(rank));
    return info == nullptr ? 0 : places_.of(info->last_seen);
  }
  [[nodiscard]] const RankInfo* info_of(std::int32_t rank) const {
    const auto found = std::lower_bound(a_.ranks.begin(), a_.ranks.end(), rank,
                                        [](const RankInfo& info, std::int32_t of) { return info.rank < of; });
    return found == a_.ranks.end() || found->rank != rank ? nullptr : &*found;
  }

  struct Sum {
    std::uint64_t wait_ns = 0, count = 0;
    void add(const WaitState& state) { wait_ns += state.wait_ns, count += state.count; }
  };
  using Parts = std::map<std::pair<RankNumber, LocationIndex>, Sum>;

  std::vector<WaitPart> largest_parts(const Parts& parts) const {
    std::vector<const Parts::value_type*> order;
    for (const auto& part : parts) order.push_back(&part);
    std::sort(order.begin(), order.end(), [this](const auto* x, const auto* y) {
      if (x->second.wait_ns != y->second.wait_ns) return x->second.wait_ns > y->second.wait_ns;
      if (x->first.first != y->first.first) return x->first.first < y->first.first;
      return names_of(a_.places[x->first.second]) < names_of(a_.places[y->first.second]);
    });
    std::vector<WaitPart> result;
    Sum rest;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto& [key, sum] = *order[i];
      if (i < kMaxWaitParts) {
        result.push_back({key.first, key.second, to_seconds(sum.wait_ns), sum.count, 0});
      } else {
        rest.wait_ns += sum.wait_ns, rest.count += sum.count;
      }
    }
    if (order.size() > kMaxWaitParts)
      result.push_back({{}, 0, to_seconds(rest.wait_ns), rest.count, order.size() - kMaxWaitParts});
    return result;
  }

  void waits() {
    for (std::size_t i = 0; i < states_.size();) {
      const WaitState& first = data_.wait_states[states_[i]];
      Sum all;
      Parts causes, where;
      for (; i < states_.size(); ++i) {
        const WaitState& state = data_.wait_states[states_[i]];
        if (state.kind != first.kind || number(state.rank) != number(first.rank)) break;
        all.add(state);
        causes[{cause_of(state), place_of_cause(state.cause_rank, state.cause_path)}].add(state);
        where[{RankNumber(), places_.of(state.path)}].add(state);
      }
      a_.waits.push_back({first.kind, number(first.rank), to_seconds(all.wait_ns), all.count,
                          largest_parts(causes), largest_parts(where)});
    }
  }

  void delays() {
    struct Delay {
      Sum sum;
      ByPlace places;
      RankCount waiting;
    };
    using Key = std::tuple<shard::WaitKind, LocationIndex, RankNumber, std::uint32_t>;
    std::map<Key, Delay> delays;
    for (const std::uint32_t index : states_) {  // of one kind by rank, so that ranks can be counted
      const WaitState& state = data_.wait_states[index];
      const LocationIndex place = place_of_cause(state.cause_rank, state.cause_path);
      Delay& delay = delays[{state.kind, places_.of(state.path), cause_of(state), places_.function(place)}];
      delay.sum.add(state);
      delay.places.add(place, state.wait_ns);
      delay.waiting.add(number(state.rank));
    }
    for (const auto& [key, delay] : delays) {
      const auto& [kind, site, rank, function] = key;
      a_.delays.push_back({kind, site, rank, delay.places.heaviest(a_.places), to_seconds(delay.sum.wait_ns),
                           delay.sum.count, delay.waiting.count, delay.waiting.first});
    }
    std::sort(a_.delays.begin(), a_.delays.end(), [this](const DelayRow& x, const DelayRow& y) {
      if (x.wait_s != y.wait_s) return x.wait_s > y.wait_s;
      if (x.kind != y.kind) return x.kind < y.kind;
      if (x.rank != y.rank) return x.rank < y.rank;
      const auto site = [this](const DelayRow& row) { return names_of(a_.places[row.site]); };
      if (site(x) != site(y)) return site(x) < site(y);
      return names_of(a_.places[x.place]) < names_of(a_.places[y.place]);
    });
  }

  void root_causes() {
    struct Cause {
      std::uint64_t wait_ns = 0;
      std::uint32_t waiting_ranks = 0;
      std::uint64_t at_most = 0;  // waiting ranks, if those of no two rows are the same
      ByPlace places;
    };
    std::map<std::pair<std::int32_t, std::uint32_t>, Cause> lines, functions;
    for (const shard::RootCause& row : data_.root_causes) {
      if (row.rank >= data_.ranks.size()) continue;
      const LocationIndex place = place_of_cause(row.rank, row.path);
      for (Cause* cause :
           {&lines[{number(row.rank), place}], &functions[{number(row.rank), places_.function(place)}]}) {
        cause->wait_ns += row.wait_ns;
        // Which ranks they were is not known, so of several rows there are at least as many as of one.
        cause->waiting_ranks = std::max(cause->waiting_ranks, row.waiting_ranks);
        cause->at_most += row.waiting_ranks;
        cause->places.add(place, row.wait_ns);
      }
    }
    const std::uint64_t others = data_.ranks.empty() ? 0 : data_.ranks.size() - 1;
    const auto list = [&](const auto& causes, std::vector<RootCauseRow>& rows) {
      for (const auto& [key, cause] : causes) {
        const double wait_s = to_seconds(cause.wait_ns);
        rows.push_back({key.first, cause.places.heaviest(a_.places), wait_s,
                        a_.rank_seconds > 0 ? wait_s / a_.rank_seconds : 0, cause.waiting_ranks,
                        cause.waiting_ranks < std::min(cause.at_most, others)});
      }
      std::sort(rows.begin(), rows.end(), [this](const RootCauseRow& x, const RootCauseRow& y) {
        if (x.wait_s != y.wait_s) return x.wait_s > y.wait_s;
        if (x.rank != y.rank) return x.rank < y.rank;
        return names_of(a_.places[x.place]) < names_of(a_.places[y.place]);
      });
    };
    list(lines, a_.root_causes);
    list(functions, a_.root_functions);
  }

  void critical_path() {
    charged_wait_ns_ = waits_.wait_ns(states_);
    std::vector<CriticalRow>&lines = a_.critical_path, &functions = a_.critical_functions;
    critical_rows([](LocationIndex place) { return place; },
                  [this](std::uint32_t path) { return places_.known(path); }, lines);
    critical_rows([this](LocationIndex place) { return places_.function(place); },
                  [this](std::uint32_t path) { return places_.known_function(path); }, functions);
  }

  // group_of(place): dense enough to be an index; group_of_path(path): the same, kNone when there is none.
  template <typename OfPlace, typename OfPath>
  void critical_rows(const OfPlace& group_of, const OfPath& group_of_path, std::vector<CriticalRow>& rows) {
    struct Part {
      std::map<std::int32_t, std::uint64_t> by_rank;
      ByPlace places;
      std::uint64_t sum = 0;
    };
    std::map<std::uint32_t, Part> parts;
    std::uint64_t length = 0;
    for (const shard::CriticalTime& row : data_.critical_times) {
      if (row.rank >= data_.ranks.size() || row.wall_ns == 0) continue;
      const LocationIndex place = places_.of(row.path);
      Part& part = parts[group_of(place)];
      part.by_rank[number(row.rank)] += row.wall_ns;
      part.places.add(place, row.wall_ns);
      part.sum += row.wall_ns;
      length += row.wall_ns;
    }
    if (length == 0) return;

    // A table of groups, since many paths belong to few; what is not on the critical path has no entry.
    std::map<std::uint32_t, std::uint64_t> all_ranks, waiting;
    for (const auto& [group, part] : parts) all_ranks[group] = waiting[group] = 0;
    std::vector<std::uint32_t> group_of_paths(paths_.size(), kUnasked);
    std::uint32_t runnable_path = kNone;  // any that stands for it
    for (std::uint32_t path = 1; path < paths_.size() && runnable_path == kNone; ++path)
      if (const Frame* leaf = paths_.frame(path); leaf != nullptr && Locations::is_runnable(paths_, *leaf))
        runnable_path = path;
    const auto count = [&](std::map<std::uint32_t, std::uint64_t>& sums, std::uint32_t path,
                           std::uint64_t ns) {
      if (path >= group_of_paths.size()) return;
      std::uint32_t& group = group_of_paths[path];
      if (group == kUnasked) {
        group = group_of_path(path);
        if (all_ranks.find(group) == all_ranks.end()) group = kNone;
      }
      if (group != kNone) sums[group] += ns;
    };
    for (std::uint32_t path = 0; path < paths_.size(); ++path) {
      std::uint64_t main_ns = 0;
      for (std::size_t c = 0; c < shard::kCategories; ++c) {
        const auto category = static_cast<shard::Category>(c);
        const std::uint64_t ns = time_.main_ns(time_.cell(path, category));
        if (category != shard::Category::kRunnable)
          main_ns += ns;
        else if (ns != 0 && runnable_path != kNone)
          count(all_ranks, runnable_path, ns);
      }
      if (main_ns != 0) count(all_ranks, path, main_ns);
    }
    for (std::size_t i = 0; i < states_.size(); ++i)
      count(waiting, data_.wait_states[states_[i]].path, charged_wait_ns_[i]);

    for (const auto& [group, part] : parts) {
      CriticalRow row;
      std::uint64_t most = 0;
      row.place = part.places.heaviest(a_.places);
      for (const auto& [rank, ns] : part.by_rank)
        if (ns > most) most = ns, row.max_rank = rank;
      row.time_s = to_seconds(part.sum);
      row.share = static_cast<double>(part.sum) / static_cast<double>(length);
      const std::uint64_t all_ns = all_ranks[group];
      if (row.place != 0)
        row.mean_s =
            to_seconds(all_ns - std::min(waiting[group], all_ns)) / static_cast<double>(data_.ranks.size());
      rows.push_back(row);
    }
    std::sort(rows.begin(), rows.end(), [this](const CriticalRow& x, const CriticalRow& y) {
      if (x.time_s != y.time_s) return x.time_s > y.time_s;
      return names_of(a_.places[x.place]) < names_of(a_.places[y.place]);
    });
  }

  void windows() {
    for (const shard::TimeWindow& window : data_.time_windows) {
      const auto length = static_cast<double>(focus_ns(window));
      if (length == 0) continue;
      WindowRow row;
      row.begin_s = to_seconds(window.begin_ns), row.end_s = to_seconds(window.end_ns);
      row.parallel = window.useful_mean_ns / length;
      row.communication = window.useful_max_ns / length;
      if (window.useful_max_ns > 0) row.load_balance = window.useful_mean_ns / window.useful_max_ns;
      row.wait_s = to_seconds(window.wait_ns);
      a_.windows.push_back(row);
    }
    std::sort(a_.windows.begin(), a_.windows.end(), [](const WindowRow& x, const WindowRow& y) {
      return std::tie(x.begin_s, x.end_s) < std::tie(y.begin_s, y.end_s);
    });
  }

  // Which library function each place has called for more than half of its time.
  void name_called() {
    std::vector<std::uint64_t> all_ns(a_.places.size(), 0);
    std::map<std::pair<LocationIndex, std::string>, std::uint64_t> called_ns;
    for (std::uint32_t path = 1; path < paths_.size(); ++path) {
      std::uint64_t ns = 0;
      for (std::size_t c = 0; c < shard::kCategories; ++c) {
        const std::uint32_t cell = time_.cell(path, static_cast<shard::Category>(c));
        ns += time_.main_ns(cell) + time_.helper_ns(cell);
      }
      const LocationIndex place = ns == 0 ? kNone : places_.known(path);
      if (place >= all_ns.size() || !a_.places[place].op.empty()) continue;
      all_ns[place] += ns;
      if (paths_.called(path) != 0) called_ns[{place, paths_.library_name(paths_.called(path))}] += ns;
    }
    for (const auto& [key, ns] : called_ns)
      if (2 * ns > all_ns[key.first]) a_.places[key.first].called = key.second;
  }

  const ShardData& data_;
  const PathTime& time_;
  const ChargedWaits& waits_;
  const CallPaths& paths_;
  Analysis& a_;
  Locations places_;
  std::vector<std::uint32_t> states_;           // valid ones by kind, then rank
  std::vector<std::uint64_t> charged_wait_ns_;  // of states_
};

}  // namespace

ChargedWaits::ChargedWaits(const ShardData& head) : head_(head), starts_(head.ranks.size() + 1, 0) {
  if (!head.wait_analysis.done) return;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> sites;
  for (const WaitState& state : head.wait_states)
    if (state.rank < head.ranks.size()) sites.emplace_back(state.rank, state.path);
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  for (const auto& [rank, path] : sites) {
    ++starts_[rank + 1];
    sites_.push_back(path);
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  charged_ns_.resize(sites_.size());
}

// sites_.size(): there is no such site.
std::size_t ChargedWaits::find(std::uint32_t rank, std::uint32_t path) const {
  const auto begin = sites_.begin() + starts_[rank], end = sites_.begin() + starts_[rank + 1];
  const auto at = std::lower_bound(begin, end, path);
  return at == end || *at != path ? sites_.size() : static_cast<std::size_t>(at - sites_.begin());
}

void ChargedWaits::add(const RankInput& rank) {
  if (starts_[rank.index] == starts_[rank.index + 1]) return;
  for (const shard::Value& value : rank.values)
    if (value.main_thread && value.category == shard::Category::kMpi)
      if (const std::size_t at = find(rank.index, value.path); at < charged_ns_.size())
        charged_ns_[at] += value.wall_ns;
}

std::vector<std::uint64_t> ChargedWaits::wait_ns(const std::vector<std::uint32_t>& rows) const {
  std::vector<std::uint64_t> left_ns = charged_ns_, result;
  for (const std::uint32_t row : rows) {
    const WaitState& state = head_.wait_states[row];
    std::uint64_t& left = left_ns[find(state.rank, state.path)];
    result.push_back(std::min(state.wait_ns, left));
    left -= result.back();
  }
  return result;
}

std::uint64_t focus_ns(const shard::TimeWindow& window) {
  if (window.end_ns <= window.begin_ns) return 0;
  const std::uint64_t all_ns = window.end_ns - window.begin_ns;
  const std::uint64_t rest_ns = all_ns - std::min(window.startup_ns, all_ns);
  return rest_ns < all_ns / 100 ? 0 : rest_ns;
}

void explain_waiting(const ShardData& data, const PathTime& time, const ChargedWaits& waits,
                     const CallPaths& paths, Analysis& analysis) {
  analysis.places.assign(1, SourceLocation{});
  if (data.wait_analysis.done) Explainer(data, time, waits, paths, analysis).run();
}

}  // namespace clusterprof::report
