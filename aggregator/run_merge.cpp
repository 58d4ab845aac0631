// SPDX-License-Identifier: BSD-3-Clause
// Merges a run directory in two passes: the first unites the heads of all shards, the second goes through the
// rows one node at a time. Decides which shards the old profile can stand for, begins again when a shard has
// changed, and divides the work among threads and members of a team. docs/design/0010-merging-at-scale.md.
#include "aggregator/run_merge.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "aggregator/abandoned_files.hpp"
#include "aggregator/archive.hpp"
#include "aggregator/block_exchange.hpp"
#include "aggregator/corrected_time.hpp"
#include "aggregator/merge_plan.hpp"
#include "aggregator/merger.hpp"
#include "aggregator/node_dates.hpp"
#include "aggregator/node_rows.hpp"
#include "aggregator/notes.hpp"
#include "aggregator/record_quality.hpp"
#include "aggregator/shard_files.hpp"
#include "aggregator/wait_analyser.hpp"
#include "base/workers.hpp"
#include "formats/profile/node_matrix.hpp"
#include "formats/profile/path_statistics.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;
using shard::kNone;
using shard::ShardData;

// Collectors of a running job replace their shards from time to time. A merge begins again at most this
// often.
constexpr int kMaxRestarts = 3;

// Shares of the whole work, as measured; they are only used to display progress.
constexpr double kShareOfHeads = 0.2, kShareOfRows = 0.75;

// Member 0's work on writing a node's rows, as a share of the time that these rows take.
constexpr double kShareOfWriting = 0.05;

std::vector<std::string> names_of(const std::vector<shard::Node>& nodes) {
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const shard::Node& node : nodes) names.push_back(node.name);
  return names;
}

std::vector<std::int32_t> numbers_of(const std::vector<shard::Rank>& ranks) {
  std::vector<std::int32_t> numbers;
  numbers.reserve(ranks.size());
  for (const shard::Rank& rank : ranks) numbers.push_back(rank.rank);
  return numbers;
}

// Converts the statistics of a profile to the numbers of another profile that has all of its paths.
profile::PathStatisticsTable renumbered(profile::PathStatisticsTable from,
                                        const std::vector<std::uint32_t>& new_path, std::size_t paths) {
  profile::PathStatisticsTable to;
  to.paths.resize(paths);
  for (std::size_t i = 0; i < from.paths.size(); ++i) to.paths[new_path[i]] = from.paths[i];
  to.quantile_bins = std::move(from.quantile_bins);
  for (profile::QuantileBin& bin : to.quantile_bins) bin.path = new_path[bin.path];
  return to;
}

// What a thread needs to work on the rows of one node after another.
struct NodeWorker {
  explicit NodeWorker(const HeadIndex& index) : rows(index), corrector(index.head()) {}
  NodeRows rows;
  TimeCorrector corrector;
  std::optional<std::pair<std::uint32_t, shard::ShardMatrix>> matrix;  // the last shard that was read
};

class RunMerge {
 public:
  RunMerge(fs::path run_dir, const MergeOptions& options, Destination& destination)
      : run_dir_(std::move(run_dir)),
        options_(options),
        destination_(destination),
        team_(options.team != nullptr ? *options.team : alone_) {}

  Result<MergeReport> run();

 private:
  [[nodiscard]] bool leads() const { return team_.member() == 0; }
  [[nodiscard]] bool is_alone() const { return team_.size() == 1; }
  [[nodiscard]] fs::path path_of(std::uint32_t shard) const { return run_dir_ / plan_.shards[shard].name; }
  // The threads of a member may call these at the same time.
  void fail(Failure::Kind kind, std::uint32_t shard, std::string message) {
    const std::lock_guard<std::mutex> lock(failures_mutex_);
    failures_.push_back({kind, shard, std::move(message)});
  }
  [[nodiscard]] bool has_failures() const {
    const std::lock_guard<std::mutex> lock(failures_mutex_);
    return !failures_.empty();
  }
  void fail_to_read(std::uint32_t shard, const Error& error);
  // Whether the shard is still the one that the plan is about.
  bool is_unchanged(std::uint32_t shard);
  // Whether a failure leaves no choice but to end.
  [[nodiscard]] bool is_lost() const { return has_failures() && !options_.partial; }

  // Plans, of member 0.
  void plan_anew();
  bool plan_reuse();
  bool plan_after(std::vector<Failure> failures, bool rows_read);
  bool plan_lost_ranks(const std::vector<Facts>& facts);
  bool plan_dates(const Heads& heads);
  void end_with(std::string error, ErrorKind kind = ErrorKind::kOther) {
    plan_ = Plan{};
    plan_.kind = Plan::kFailed;
    plan_.error = std::move(error);
    plan_.error_kind = kind;
  }

  // The passes.
  void merge_once();
  Heads read_heads();
  bool complete_head(Heads& heads);
  void analyse_waiting(const std::vector<Facts>& facts);
  bool create_writer();
  void read_rows();
  void distribute(std::vector<int>& owner, std::vector<std::vector<std::uint32_t>>& shards_of) const;
  // Members of a team have one processor each.
  [[nodiscard]] std::size_t threads() const {
    if (!is_alone()) return 1;
    return options_.threads != 0 ? options_.threads : useful_threads();
  }
  profile::EncodedBlock work_on(std::uint32_t node, const std::vector<std::uint32_t>& shards, bool encode,
                                NodeWorker& worker);
  bool read_node_rows(std::uint32_t node, const std::vector<std::uint32_t>& shards, NodeWorker& worker);
  void add_to_results(std::uint32_t node, NodeRows& rows);
  profile::EncodedBlock block_of(std::uint32_t node, NodeRows& rows);
  void work_alone(const std::vector<std::vector<std::uint32_t>>& shards_of,
                  const std::function<void(std::uint32_t node)>& begin_node);
  void write_block(const profile::EncodedBlock& block);
  bool read_node(std::uint32_t node, std::uint32_t shard, NodeWorker& worker);
  bool read_old_node(std::uint32_t node, std::uint32_t old_node, NodeRows& rows);
  std::vector<Failure> all_failures();
  void unite_results();
  void write_rest();
  void date_as_shards() const;

  void progress(MergeProgress::Phase phase, std::size_t done, std::size_t all, double share) const {
    if (options_.progress) options_.progress({phase, done, all, std::min(share, 1.0)});
  }

  const fs::path run_dir_;
  const MergeOptions& options_;
  Destination& destination_;
  Alone alone_;
  Team& team_;

  Plan plan_;
  mutable std::mutex failures_mutex_;
  std::vector<Failure> failures_;  // of this member, since the last time all were told
  MergeReport report_;

  // Of member 0.
  int restarts_ = 0;
  bool may_reuse_ = true;
  std::optional<OldProfile> old_;               // what stands for the shards that are reused
  std::map<std::string, std::string> damaged_;  // name, what was wrong
  std::set<std::int32_t> repeated_ranks_;
  std::optional<profile::ProfileWriter> writer_;
  std::size_t blocks_ = 0;

  // Of the second pass.
  Union union_;
  std::unique_ptr<HeadIndex> index_;
  std::mutex statistics_mutex_, observer_mutex_, old_profile_mutex_;
  std::optional<profile::PathStatisticsBuilder> statistics_;
  std::optional<profile::ProfileReader> old_profile_;
  std::unordered_map<std::uint32_t, std::uint32_t> old_node_of_;  // row of the old nodes per new row
  std::vector<std::uint32_t> new_path_, new_rank_, new_counter_;  // of the old profile's
};

void RunMerge::fail_to_read(std::uint32_t shard, const Error& error) {
  if (is_unchanged(shard)) fail(Failure::kDamaged, shard, error.message);
}

bool RunMerge::is_unchanged(std::uint32_t shard) {
  const FileState now = state_of(path_of(shard));
  if (now == plan_.shards[shard].state && now != FileState{}) return true;
  fail(Failure::kChanged, shard,
       path_of(shard).string() + (now == FileState{} ? ": has gone" : ": has changed") +
           " while it was merged");
  return false;
}

// --- plans ---------------------------------------------------------------------------------

void RunMerge::plan_anew() {
  plan_ = Plan{};
  old_.reset();
  const Result<std::vector<fs::path>> listed = list_shards(run_dir_);
  if (!listed) return end_with(listed.error().message);
  if (listed.value().empty()) return end_with(run_dir_.string() + ": " + nothing_found(run_dir_));
  for (const fs::path& path : listed.value()) {
    Shard& row = plan_.shards.emplace_back();
    row.name = name_of_shard(run_dir_, path);
    row.state = state_of(path);
    row.left_out = damaged_.contains(row.name);
  }
  if (may_reuse_) may_reuse_ = plan_reuse();
}

// Lets the existing profile stand for the shards that it was made from, if all of them still exist.
bool RunMerge::plan_reuse() {
  const fs::path path = run_dir_ / kProfileName;
  const FileState state = state_of(path);
  if (state == FileState{}) return false;
  Result<profile::ProfileReader> reader = profile::ProfileReader::open(path);
  if (!reader) return false;
  const Result<std::vector<profile::Source>> sources = reader.value().sources();
  if (!sources || sources.value().empty()) return false;
  std::map<std::string_view, Shard*> by_name;
  for (Shard& row : plan_.shards) by_name.emplace(row.name, &row);
  for (const profile::Source& source : sources.value()) {
    const auto found = by_name.find(source.name);
    if (!source.merged || found == by_name.end() || found->second->left_out) return false;
    const FileState& shard = found->second->state;
    if (shard.size_bytes != source.size_bytes || is_later(shard, state)) return false;
  }
  const Result<profile::PathStatisticsTable> statistics = reader.value().statistics();
  if (!statistics) return false;
  const Result<const ShardData*> head = reader.value().head();
  if (!head || head.value()->paths.size() != statistics.value().paths.size()) return false;
  if (state_of(path) != state) return false;
  if (has_note(*head.value(), shard::NoteCode::kDifferentRuns) ||
      has_note(*head.value(), shard::NoteCode::kRepeatedRanks) ||
      has_note(*head.value(), shard::NoteCode::kWrongDate))
    return false;
  std::vector<shard::Note> notes;
  std::set<std::string_view> incomplete;
  for (const shard::Note& note : head.value()->run.notes) {
    if (note.code == shard::NoteCode::kIncompleteShard) incomplete.insert(note.text);
    if (!is_of_all_shards(note.code)) notes.push_back(note);
  }
  const bool complete =
      std::none_of(sources.value().begin(), sources.value().end(),
                   [&](const profile::Source& source) { return incomplete.contains(source.name); });

  OldProfile& old = old_.emplace();
  old.head = *head.value();
  restore_path_series(old.head);
  old.head.run.notes = std::move(notes);
  old.head.run.complete = complete;
  old.run_id = old.head.run.id;
  for (const shard::Path& row : old.head.paths) old.numbers.paths.push_back(row.id);
  old.numbers.ranks = numbers_of(old.head.ranks);
  old.numbers.nodes = names_of(old.head.nodes);
  old.numbers.counters = old.head.counters;
  plan_.old_profile = state;
  plan_.old_events = old.head.wait_analysis.done;
  for (const profile::Source& source : sources.value()) by_name[source.name]->reused = true;
  return true;
}

// Changes the plan after failures. Returns false when the plan has changed: the merge then begins again or
// ends. rows_read: a shard that must be left out has already been united with others.
bool RunMerge::plan_after(std::vector<Failure> failures, bool rows_read) {
  std::sort(failures.begin(), failures.end(), [](const Failure& a, const Failure& b) {
    return std::tie(a.shard, a.kind, a.message) < std::tie(b.shard, b.kind, b.message);
  });
  for (const Failure& failure : failures) {
    if (failure.kind != Failure::kOther) continue;
    end_with(failure.message);
    return false;
  }
  bool changed = false;
  for (const Failure& failure : failures) {
    if (failure.kind != Failure::kOldProfile) continue;
    may_reuse_ = false;
    changed = true;
  }
  const bool try_again =
      std::any_of(failures.begin(), failures.end(),
                  [](const Failure& failure) { return failure.kind == Failure::kChanged; }) &&
      restarts_ < kMaxRestarts;
  if (try_again) {
    ++restarts_;
    damaged_.clear();
    plan_anew();
    return false;
  }
  for (const Failure& failure : failures) {
    if (failure.shard == kNone) continue;
    if (!options_.partial) {
      end_with(failure.message, failure.kind == Failure::kDamaged ? ErrorKind::kDamaged : ErrorKind::kOther);
      return false;
    }
    Shard& row = plan_.shards[failure.shard];
    damaged_.emplace(row.name, failure.message);
    if (row.reused) may_reuse_ = false;
    changed = changed || rows_read || row.reused;
    row.left_out = true;
  }
  if (std::all_of(plan_.shards.begin(), plan_.shards.end(), [](const Shard& row) { return row.left_out; })) {
    end_with(run_dir_.string() + ": every shard in it is damaged");
    return false;
  }
  if (changed) plan_anew();
  return !changed;
}

// Returns true when no rank is in several shards, or when the lost ones were known before.
bool RunMerge::plan_lost_ranks(const std::vector<Facts>& facts) {
  std::vector<std::vector<bool>> lost(plan_.shards.size());
  std::unordered_map<std::int32_t, std::pair<const Facts*, std::size_t>> best;
  for (const Facts& shard : facts) {  // by name: of equal records the first
    for (std::size_t i = 0; i < shard.ranks.size(); ++i) {
      const auto quality = [](const Facts& of, std::size_t row) {
        return record_quality(of.ranks[row], of.nodes[of.ranks[row].node]);
      };
      const auto [entry, added] = best.try_emplace(shard.ranks[i].rank, &shard, i);
      if (added) continue;
      repeated_ranks_.insert(shard.ranks[i].rank);
      std::pair<const Facts*, std::size_t> worse(&shard, i);
      if (quality(*entry->second.first, entry->second.second) < quality(shard, i))
        std::swap(worse, entry->second);
      std::vector<bool>& rows = lost[worse.first->shard];
      rows.resize(worse.first->ranks.size());
      rows[worse.second] = true;
    }
  }
  const auto known = [&](std::size_t shard) { return lost[shard] == plan_.shards[shard].lost_ranks; };
  bool all_known = true;
  for (std::size_t i = 0; i < lost.size(); ++i) all_known = all_known && known(i);
  if (all_known) return true;
  for (std::size_t i = 0; i < lost.size(); ++i) plan_.shards[i].lost_ranks = std::move(lost[i]);
  return false;
}

// Returns true when no node has a wrong date, or when what they are moved by was known before.
bool RunMerge::plan_dates(const Heads& heads) {
  NodeDates dates;
  std::set<std::string_view> run_ids;
  if (old_) {  // no shard has been moved
    run_ids.insert(old_->run_id);
    for (const shard::Rank& rank : heads.head.ranks) dates.add(heads.head.nodes[rank.node].name, rank);
  }
  for (const Facts& shard : heads.facts) {
    const Shard& row = plan_.shards[shard.shard];
    if (row.reused) continue;
    run_ids.insert(shard.run_id);
    for (std::size_t i = 0; i < shard.ranks.size() && !old_; ++i)
      if (row.lost_ranks.empty() || !row.lost_ranks[i])
        dates.add(shard.nodes[shard.ranks[i].node], shard.ranks[i]);
  }
  // Runs that share a directory have each its own time.
  std::map<std::string, std::int64_t> moved_ns;
  if (run_ids.size() == 1) moved_ns = dates.corrections();
  if (old_) return moved_ns.empty();
  bool all_known = true;
  for (const Facts& shard : heads.facts) {
    Shard& row = plan_.shards[shard.shard];
    const auto found = shard.nodes.size() == 1 ? moved_ns.find(shard.nodes[0]) : moved_ns.end();
    const std::int64_t by_ns = found == moved_ns.end() ? 0 : found->second;
    all_known = all_known && row.moved_ns == by_ns;
    row.moved_ns = by_ns;
  }
  return all_known;
}

// --- the first pass ------------------------------------------------------------------------

Heads RunMerge::read_heads() {
  std::vector<std::uint32_t> wanted;
  double all_bytes = 0;
  for (std::uint32_t i = 0; i < plan_.shards.size(); ++i) {
    const Shard& row = plan_.shards[i];
    if (row.left_out || (row.reused && !plan_.old_events)) continue;
    wanted.push_back(i);
    all_bytes += static_cast<double>(row.state.size_bytes);
  }
  // Takes the shards that begin in this member's part of all bytes.
  const double from = all_bytes * team_.member() / team_.size(),
               to = all_bytes * (team_.member() + 1) / team_.size();
  std::vector<std::uint32_t> mine;
  double before = 0, my_bytes = 0;
  for (const std::uint32_t shard : wanted) {
    const auto bytes = static_cast<double>(plan_.shards[shard].state.size_bytes);
    if (before >= from && (before < to || team_.member() + 1 == team_.size())) {
      mine.push_back(shard);
      my_bytes += bytes;
    }
    before += bytes;
  }

  Heads heads;
  Merger merger(kMaxSeriesRows);
  if (leads() && old_) {
    merger.add(std::exchange(old_->head, {}));
    heads.any = true;
  }
  double bytes_done = 0;
  std::size_t done = 0;
  std::mutex mutex;  // of all that the threads have in common
  share_work(threads(), mine.size(), [&](std::size_t, std::size_t i) {
    if (is_lost()) return;
    const std::uint32_t shard = mine[i];
    const Shard& row = plan_.shards[shard];
    {
      const std::lock_guard<std::mutex> lock(mutex);
      progress(MergeProgress::Phase::kHeads, done++, mine.size(),
               kShareOfHeads * bytes_done / std::max(my_bytes, 1.0));
      bytes_done += static_cast<double>(row.state.size_bytes);
    }
    Facts facts;
    facts.shard = shard;
    const Result<shard::LargeTables> sizes = shard::read_large_table_sizes(path_of(shard));
    Result<ShardData> head = !sizes       ? Result<ShardData>(sizes.error())
                             : row.reused ? shard::read_shard_summary(path_of(shard))
                                          : shard::read_shard_head(path_of(shard));
    if (!head) return fail_to_read(shard, head.error());
    if (!is_unchanged(shard)) return;
    ShardData& data = head.value();
    facts.run_id = data.run.id;
    facts.complete = data.run.complete;
    facts.nodes = names_of(data.nodes);
    facts.ranks = data.ranks;
    facts.events = sizes.value().mpi_events;
    for (const shard::Rank& rank : data.ranks)
      facts.event_level = std::max(facts.event_level, rank.event_level);
    const bool unites = !row.reused && !row.lost_all();
    if (unites) correct_ranks(data);
    if (unites && row.moved_ns != 0) move_dates(data, row.moved_ns);
    const std::lock_guard<std::mutex> lock(mutex);
    heads.facts.push_back(std::move(facts));
    if (!unites) return;
    merger.add(std::move(data), row.lost_ranks);
    heads.any = true;
  });
  heads.failures = std::exchange(failures_, {});
  const auto finish = [&] {
    if (heads.any) heads.head = merger.finish();
  };
  gather(
      team_,
      [&](Bytes bytes) {
        Heads theirs = from_bytes<Heads>(bytes);
        bytes = {};
        heads.facts.insert(heads.facts.end(), std::make_move_iterator(theirs.facts.begin()),
                           std::make_move_iterator(theirs.facts.end()));
        heads.failures.insert(heads.failures.end(), theirs.failures.begin(), theirs.failures.end());
        if (theirs.any) merger.add(std::move(theirs.head));
        heads.any = heads.any || theirs.any;
      },
      [&] {
        finish();
        return to_bytes(std::exchange(heads, {}));
      });
  if (!leads()) return {};
  finish();
  return heads;
}

// On member 0: makes the profile's head from the union of all heads. Returns false when the plan has changed.
bool RunMerge::complete_head(Heads& heads) {
  if (!plan_after(std::move(heads.failures), false)) return false;
  std::sort(heads.facts.begin(), heads.facts.end(),
            [](const Facts& a, const Facts& b) { return a.shard < b.shard; });

  if (old_) {
    // The old profile stands for several shards. It can neither lose a rank to another shard nor share a node
    // with one.
    const std::vector<std::string>& nodes = old_->numbers.nodes;
    const std::vector<std::int32_t>& ranks = old_->numbers.ranks;
    for (const Facts& shard : heads.facts) {
      if (plan_.shards[shard.shard].reused) continue;
      may_reuse_ = may_reuse_ &&
                   std::none_of(shard.nodes.begin(), shard.nodes.end(),
                                [&](const std::string& name) {
                                  return std::binary_search(nodes.begin(), nodes.end(), name);
                                }) &&
                   std::none_of(shard.ranks.begin(), shard.ranks.end(), [&](const shard::Rank& rank) {
                     return std::binary_search(ranks.begin(), ranks.end(), rank.rank);
                   });
    }
    if (!may_reuse_) {
      plan_anew();
      return false;
    }
  }
  repeated_ranks_.clear();
  if (!plan_lost_ranks(heads.facts) || !plan_dates(heads)) {
    if (old_) {  // two new shards have a rank, or a node of the old profile may have the wrong date
      may_reuse_ = false;
      plan_anew();
    }
    return false;
  }

  ShardData& head = union_.head = std::move(heads.head);
  heads.head = {};
  analyse_waiting(heads.facts);
  if (!failures_.empty() && !plan_after(std::exchange(failures_, {}), true)) return false;

  std::vector<shard::Note>& notes = head.run.notes;
  std::set<std::string> run_ids;
  if (old_) run_ids.insert(old_->run_id);
  union_.places.resize(plan_.shards.size());
  report_.shards = report_.reused = 0;
  report_.warnings.clear();
  for (const Facts& shard : heads.facts) {
    const std::string& name = plan_.shards[shard.shard].name;
    if (plan_.shards[shard.shard].reused) continue;
    run_ids.insert(shard.run_id);
    if (!shard.complete) notes.push_back(note_of_run(shard::NoteCode::kIncompleteShard, 0, name));
    if (const std::int64_t ns = plan_.shards[shard.shard].moved_ns; ns != 0)
      notes.push_back(
          note_of_node(shard::NoteCode::kWrongDate, shard.nodes[0],
                       static_cast<std::uint64_t>(std::llround(std::abs(static_cast<double>(ns)) / 1e9))));
    union_.places[shard.shard] = {shard.nodes, numbers_of(shard.ranks)};
  }
  for (const std::int32_t rank : repeated_ranks_)
    notes.push_back(note_of_ranks(shard::NoteCode::kRepeatedRanks, {rank, rank}));
  for (shard::Note& note : notes_on_shards_left(run_dir_)) notes.push_back(std::move(note));
  if (run_ids.size() > 1) notes.push_back(note_of_run(shard::NoteCode::kDifferentRuns));
  for (const Shard& row : plan_.shards) {
    if (row.left_out) {
      head.run.complete = false;
      notes.push_back(note_of_run(shard::NoteCode::kDamagedShard, 0, row.name));
      report_.warnings.push_back(damaged_.at(row.name) + "; left out");
    } else {
      ++report_.shards;
      report_.reused += row.reused ? 1 : 0;
    }
  }
  if (options_.snapshot) note_snapshot(head);
  note_missing_ranks(head);
  if (old_) union_.old = std::move(old_->numbers);
  old_.reset();
  return true;
}

void RunMerge::analyse_waiting(const std::vector<Facts>& facts) {
  std::uint64_t events = 0;
  std::uint32_t highest = 0;
  for (const Facts& shard : facts) {
    events += shard.events;
    if (shard.events != 0) highest = std::max(highest, shard.event_level);
  }
  if (events == 0 && union_.head.calls_under_way.empty()) return;
  std::uint32_t level = 0;
  if (events > options_.most_events) {
    // Each level keeps half of the operations.
    const auto left = [&](std::uint32_t at) {
      std::uint64_t sum = 0;
      for (const Facts& shard : facts) sum += shard.events >> (at - std::min(at, shard.event_level));
      return sum;
    };
    level = std::max(highest, 1u);
    while (level < wire::kMaxEventLevel && left(level) > options_.most_events) ++level;
  }
  ShardData& head = union_.head;
  std::unordered_map<std::int32_t, std::uint32_t> row_of_rank;
  for (std::uint32_t i = 0; i < head.ranks.size(); ++i) row_of_rank.emplace(head.ranks[i].rank, i);
  WaitAnalyser analyser;
  for (std::uint32_t i = 0; i < plan_.shards.size() && !is_lost(); ++i) {
    const Shard& row = plan_.shards[i];
    if (row.left_out) continue;
    progress(MergeProgress::Phase::kEvents, i, plan_.shards.size(), kShareOfHeads);
    Result<ShardData> data = shard::read_shard_events(path_of(i), level);
    if (!data) {
      fail_to_read(i, data.error());
      continue;
    }
    if (!is_unchanged(i)) continue;
    if (row.moved_ns != 0) move_dates(data.value(), row.moved_ns);
    // Fields that an earlier analysis changed, and the level.
    for (std::size_t k = 0; k < data.value().ranks.size(); ++k) {
      const shard::Rank& rank = data.value().ranks[k];
      const auto found = row_of_rank.find(rank.rank);
      if (found == row_of_rank.end() || (!row.lost_ranks.empty() && row.lost_ranks[k])) continue;
      shard::Rank& into = head.ranks[found->second];
      into.flags = rank.flags;
      into.mpi_wait_ns = rank.mpi_wait_ns;
      into.event_level = rank.event_level;
    }
    analyser.add(data.value());
  }
  if (failures_.empty()) analyser.finish(head);
}

// --- the second pass -----------------------------------------------------------------------

bool RunMerge::create_writer() {
  writer_.reset();
  blocks_ = 0;
  destination_.made.clear();
  report_.write_error.reset();
  if (!options_.write) return false;
  remove_abandoned(destination_.profile);
  for (const fs::path& path : {destination_.profile, destination_.fallback}) {
    if (path.empty()) continue;
    Result<profile::ProfileWriter> writer = profile::ProfileWriter::create(path);
    if (writer) {
      writer_.emplace(std::move(writer.value()));
      destination_.made = path;
      report_.write_error.reset();
      return true;
    }
    if (!report_.write_error) report_.write_error = writer.error();
  }
  return false;
}

// Assigns nodes to members so that all members have about the same work at any time: blocks are written in
// the order of nodes.
void RunMerge::distribute(std::vector<int>& owner, std::vector<std::vector<std::uint32_t>>& shards_of) const {
  const std::size_t nodes = union_.head.nodes.size();
  std::vector<double> bytes(nodes);
  shards_of.assign(nodes, {});
  for (std::uint32_t i = 0; i < plan_.shards.size(); ++i) {
    const Shard& row = plan_.shards[i];
    if (row.reused || row.left_out || row.lost_all()) continue;
    for (const std::string& name : union_.places[i].nodes) {
      const std::uint32_t node = index_->node(name);
      if (node == kNone) continue;
      // A shard may name a node twice.
      if (shards_of[node].empty() || shards_of[node].back() != i) shards_of[node].push_back(i);
      bytes[node] +=
          static_cast<double>(row.state.size_bytes) / static_cast<double>(union_.places[i].nodes.size());
    }
  }
  for (const auto& [node, old_node] : old_node_of_)
    bytes[node] =
        static_cast<double>(plan_.old_profile.size_bytes) / static_cast<double>(union_.old.nodes.size());
  std::vector<double> load(static_cast<std::size_t>(team_.size()));
  owner.assign(nodes, 0);
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto least = std::min_element(load.begin(), load.end());
    owner[node] = static_cast<int>(least - load.begin());
    *least += bytes[node] + 1;
    load[0] += kShareOfWriting * bytes[node];
  }
}

bool RunMerge::read_node(std::uint32_t node, std::uint32_t shard, NodeWorker& worker) {
  auto& last = worker.matrix;
  if (!last || last->first != shard) {
    last.reset();
    Result<shard::ShardMatrix> read = shard::read_shard_matrix(path_of(shard));
    if (!read) {
      fail_to_read(shard, read.error());
      return false;
    }
    if (!is_unchanged(shard)) return false;
    last.emplace(shard, std::move(read.value()));
  }
  const std::vector<bool>& lost = plan_.shards[shard].lost_ranks;
  const bool last_use = last->second.nodes.size() == 1;
  shard::ShardMatrix copy;
  if (!last_use) copy = last->second;
  shard::ShardMatrix& matrix = last_use ? last->second : copy;
  std::vector<std::uint32_t> new_rank = index_->ranks(matrix.ranks);
  bool fits = matrix.ranks == union_.places[shard].ranks && matrix.nodes == union_.places[shard].nodes;
  for (std::size_t i = 0; i < new_rank.size() && fits; ++i) {
    if ((!lost.empty() && lost[i]) || index_->node(matrix.nodes[matrix.rank_node[i]]) != node)
      new_rank[i] = kNone;
    else
      fits = new_rank[i] != kNone && union_.head.ranks[new_rank[i]].node == node;
  }
  fits = fits && worker.rows.add(std::move(matrix.rows), index_->paths(matrix.paths), new_rank,
                                 index_->counters(matrix.counters));
  if (last_use) last.reset();
  // The file's state does not show this.
  if (!fits) fail(Failure::kChanged, shard, path_of(shard).string() + ": has changed while it was merged");
  return fits;
}

bool RunMerge::read_old_node(std::uint32_t node, std::uint32_t old_node, NodeRows& rows) {
  Result<shard::MatrixRows> read = [&] {
    const std::lock_guard<std::mutex> lock(old_profile_mutex_);
    return old_profile_->node(old_node);
  }();
  if (!read) {
    fail(Failure::kOldProfile, kNone, read.error().message);
    return false;
  }
  rows.begin(node);
  if (rows.add(std::move(read.value()), new_path_, new_rank_, new_counter_)) return true;
  fail(Failure::kOldProfile, kNone, (run_dir_ / kProfileName).string() + ": does not fit its head");
  return false;
}

// After a failure the other shards are still read, so that all damaged ones are found. Returns false when
// nothing is to be added to the results.
bool RunMerge::read_node_rows(std::uint32_t node, const std::vector<std::uint32_t>& shards,
                              NodeWorker& worker) {
  NodeRows& rows = worker.rows;
  rows.begin(node);
  const auto old_node = old_node_of_.find(node);
  if (old_node != old_node_of_.end()) {
    // The statistics already have its rows; only the observer still needs them.
    if (options_.observer != nullptr && !read_old_node(node, old_node->second, rows)) return false;
  } else {
    for (const std::uint32_t shard : shards)
      if (!read_node(node, shard, worker) && is_lost()) return false;
  }
  if (has_failures()) return false;
  if (old_node == old_node_of_.end()) rows.correct(worker.corrector);
  return true;
}

void RunMerge::add_to_results(std::uint32_t node, NodeRows& rows) {
  const auto add_to_statistics = [&](std::unique_lock<std::mutex> lock) {
    if (old_node_of_.contains(node)) return;
    const std::vector<shard::Rank>& ranks = union_.head.ranks;
    rows.for_each_rank([&](const shard::RankRows& of_rank) {
      statistics_->add(ranks[of_rank.rank].rank, of_rank.values);
      team_.progress();
    });
    lock.unlock();
  };
  const auto add_to_observer = [&](std::unique_lock<std::mutex> lock) {
    if (options_.observer == nullptr) return;
    rows.for_each_rank([&](const shard::RankRows& of_rank) {
      options_.observer->add(of_rank);
      team_.progress();
    });
    lock.unlock();
  };
  // Begins with what no other thread is adding to.
  std::unique_lock<std::mutex> observer(observer_mutex_, std::try_to_lock);
  if (observer.owns_lock()) {
    add_to_observer(std::move(observer));
    add_to_statistics(std::unique_lock(statistics_mutex_));
  } else {
    add_to_statistics(std::unique_lock(statistics_mutex_));
    add_to_observer(std::unique_lock(observer_mutex_));
  }
}

profile::EncodedBlock RunMerge::block_of(std::uint32_t node, NodeRows& rows) {
  if (const auto old_node = old_node_of_.find(node); old_node != old_node_of_.end()) {
    const std::lock_guard<std::mutex> lock(old_profile_mutex_);
    Result<profile::EncodedBlock> block =
        old_profile_->encoded_block(old_node->second, node, new_path_, new_rank_, new_counter_);
    if (block) return std::move(block.value());
    fail(Failure::kOldProfile, kNone, block.error().message);
    return {};
  }
  shard::MatrixRows of_node = rows.take_by_path();
  if (of_node == shard::MatrixRows{}) return {};
  return profile::encode_block(node, std::move(of_node));
}

// Adds the node's ranks to the results.
profile::EncodedBlock RunMerge::work_on(std::uint32_t node, const std::vector<std::uint32_t>& shards,
                                        bool encode, NodeWorker& worker) {
  if (!read_node_rows(node, shards, worker)) return {};
  add_to_results(node, worker.rows);
  return encode ? block_of(node, worker.rows) : profile::EncodedBlock{};
}

void RunMerge::read_rows() {
  index_ = std::make_unique<HeadIndex>(union_.head);
  // path_series is corrected with the statistics, even where nothing is written.
  statistics_.emplace(union_.head.paths);
  if (options_.observer != nullptr) options_.observer->begin(union_.head);

  old_profile_.reset();
  old_node_of_.clear();
  if (!union_.old.nodes.empty()) {
    const fs::path path = run_dir_ / kProfileName;
    Result<profile::ProfileReader> reader = profile::ProfileReader::open(path);
    new_path_ = index_->paths(union_.old.paths);
    new_rank_ = index_->ranks(union_.old.ranks);
    new_counter_ = index_->counters(union_.old.counters);
    if (!reader || state_of(path) != plan_.old_profile) {
      fail(Failure::kOldProfile, kNone, path.string() + ": has changed while it was merged");
    } else {
      old_profile_.emplace(std::move(reader.value()));
      if (leads()) {
        Result<profile::PathStatisticsTable> old = old_profile_->statistics();
        if (old && old.value().paths.size() == new_path_.size())
          statistics_->absorb(renumbered(std::move(old.value()), new_path_, union_.head.paths.size()));
        else
          fail(Failure::kOldProfile, kNone, path.string() + ": has changed while it was merged");
      }
    }
    for (std::uint32_t i = 0; i < union_.old.nodes.size(); ++i)
      old_node_of_.emplace(index_->node(union_.old.nodes[i]), i);
  }

  std::vector<int> owner;
  std::vector<std::vector<std::uint32_t>> shards_of;
  distribute(owner, shards_of);
  std::size_t mine = 0, done = 0;
  double my_bytes = 0, bytes_done = 0;
  const auto bytes_of = [&](std::size_t node) {
    double bytes = 0;
    for (const std::uint32_t shard : shards_of[node])
      bytes += static_cast<double>(plan_.shards[shard].state.size_bytes);
    return bytes + 1;
  };
  for (std::size_t node = 0; node < owner.size(); ++node) {
    if (owner[node] != team_.member()) continue;
    ++mine;
    my_bytes += bytes_of(node);
  }

  const bool usable = old_profile_ || union_.old.nodes.empty();
  const auto begin_node = [&](std::uint32_t node) {
    progress(MergeProgress::Phase::kRows, done++, mine, kShareOfHeads + kShareOfRows * bytes_done / my_bytes);
    bytes_done += bytes_of(node);
  };
  if (is_alone()) {
    if (usable) work_alone(shards_of, begin_node);
    return;
  }
  NodeWorker worker(*index_);
  const auto work = [&](std::uint32_t node, bool encode) {
    begin_node(node);
    if (!usable || is_lost()) return profile::EncodedBlock{};
    return work_on(node, shards_of[node], encode && failures_.empty(), worker);
  };
  std::vector<std::vector<std::uint32_t>> nodes_of(static_cast<std::size_t>(team_.size()));
  for (std::uint32_t node = 0; node < owner.size(); ++node)
    nodes_of[static_cast<std::size_t>(owner[node])].push_back(node);
  const std::vector<std::uint32_t>& my_nodes = nodes_of[static_cast<std::size_t>(team_.member())];
  const BlockExchange blocks{team_, [&](std::uint32_t node) { return work(node, true); },
                             [this] { return is_lost(); },
                             [this](const profile::EncodedBlock& block) { write_block(block); }};
  if (!union_.writes)
    for (const std::uint32_t node : my_nodes) static_cast<void>(work(node, false));
  else if (leads())
    blocks.collect(nodes_of);
  else
    blocks.post(my_nodes);
}

// Each thread works on a node of its own. Blocks are written in the order of nodes.
void RunMerge::work_alone(const std::vector<std::vector<std::uint32_t>>& shards_of,
                          const std::function<void(std::uint32_t node)>& begin_node) {
  std::vector<std::unique_ptr<NodeWorker>> workers(threads());
  for (std::unique_ptr<NodeWorker>& worker : workers) worker = std::make_unique<NodeWorker>(*index_);
  std::mutex begin_mutex, write_mutex;
  std::map<std::size_t, profile::EncodedBlock> finished;  // by node, but for those that are written
  std::size_t next = 0;                                   // to be written
  share_work(workers.size(), shards_of.size(), [&](std::size_t worker, std::size_t item) {
    if (is_lost()) return;
    const auto node = static_cast<std::uint32_t>(item);
    {
      const std::lock_guard<std::mutex> lock(begin_mutex);
      begin_node(node);
    }
    profile::EncodedBlock block = work_on(node, shards_of[node], union_.writes, *workers[worker]);
    const std::lock_guard<std::mutex> lock(write_mutex);
    finished.emplace(item, std::move(block));
    for (auto first = finished.begin(); first != finished.end() && first->first == next;
         first = finished.erase(first), ++next)
      write_block(first->second);
  });
}

void RunMerge::write_block(const profile::EncodedBlock& block) {
  if (!writer_ || block.bytes.empty() || is_lost()) return;
  ++blocks_;
  const Result<void> written = writer_->add(block);
  if (written) return;
  report_.write_error = written.error();
  writer_.reset();
  destination_.made.clear();
}

std::vector<Failure> RunMerge::all_failures() {
  std::vector<Failure> mine = std::exchange(failures_, {});
  if (is_alone()) return mine;
  const Bytes all = team_.reduce(to_bytes(Failures{std::move(mine)}), [](Bytes a, Bytes b) {
    Failures left = from_bytes<Failures>(a);
    const Failures right = from_bytes<Failures>(b);
    left.rows.insert(left.rows.end(), right.rows.begin(), right.rows.end());
    return to_bytes(left);
  });
  return leads() ? from_bytes<Failures>(all).rows : std::vector<Failure>{};
}

// Unites the statistics and the observer's results up the tree.
void RunMerge::unite_results() {
  if (is_alone()) return;
  gather(
      team_,
      [&](const Bytes& bytes) {
        const Result<profile::PathStatisticsTable> theirs = profile::from_bytes(bytes);
        if (theirs)
          statistics_->absorb(theirs.value());
        else
          fail(Failure::kOther, kNone, theirs.error().message);
      },
      [&] { return profile::to_bytes(statistics_->finish()); });
  if (options_.observer != nullptr) {
    RankObserver& observer = *options_.observer;
    gather(
        team_,
        [&](const Bytes& theirs) {
          if (const Result<void> absorbed = observer.absorb(theirs); !absorbed)
            fail(Failure::kOther, kNone, absorbed.error().message);
        },
        [&] { return observer.state(); });
  }
}

// Member 0.
void RunMerge::write_rest() {
  progress(MergeProgress::Phase::kWriting, blocks_, blocks_, kShareOfHeads + kShareOfRows);
  const profile::PathStatisticsTable statistics = statistics_->finish();
  // Where ranks have call paths of their own, these are a large part of the memory.
  statistics_.reset();
  index_.reset();
  std::vector<std::uint64_t> exclusive_ns;
  exclusive_ns.reserve(statistics.paths.size());
  for (const profile::PathStatistics& path : statistics.paths) exclusive_ns.push_back(path.exclusive.sum_ns);
  correct_path_series(union_.head, exclusive_ns);
  // The analysis is finished while the other tables are written.
  const auto when = threads() > 1 ? std::launch::async : std::launch::deferred;
  std::future<Bytes> kept = std::async(
      when, [this] { return options_.observer != nullptr ? options_.observer->finish() : Bytes{}; });
  if (!writer_) {
    kept.get();
    return;
  }
  std::exception_ptr analysis_error;  // usually bad_alloc: no error of the file
  const auto report = [&] {
    try {
      return kept.get();
    } catch (...) {
      analysis_error = std::current_exception();
      throw;
    }
  };
  std::vector<profile::Source> sources;
  for (const Shard& row : plan_.shards) sources.push_back({row.name, row.state.size_bytes, !row.left_out});
  const Result<void> written = writer_->finish(
      {.head = union_.head, .statistics = statistics, .sources = sources, .report = report, .gains = [this] {
         return options_.observer != nullptr ? options_.observer->gains() : std::optional<profile::Gains>{};
       }});
  writer_.reset();
  if (analysis_error) std::rethrow_exception(analysis_error);
  if (kept.valid()) kept.get();
  if (written) return date_as_shards();
  report_.write_error = written.error();
  destination_.made.clear();
}

// Gives the profile the time of the newest shard that it was made from. So a shard that is written again
// while the profile is being written is newer than the profile, which is then out of date.
void RunMerge::date_as_shards() const {
  const auto newest =
      std::max_element(plan_.shards.begin(), plan_.shards.end(),
                       [](const Shard& a, const Shard& b) { return is_later(b.state, a.state); });
  if (newest == plan_.shards.end()) return;
  const timespec times[2] = {{0, UTIME_OMIT}, {newest->state.modified_s, newest->state.modified_ns}};
  (void)::utimensat(AT_FDCWD, destination_.made.c_str(), times, 0);
}

// One attempt. Leaves in plan_ what comes next.
void RunMerge::merge_once() {
  union_ = {};
  Heads heads = read_heads();
  if (leads()) {
    union_.go_on = complete_head(heads);
    heads = {};
    if (union_.go_on) union_.writes = create_writer();
  }
  if (!is_alone()) {
    // The series of ranks are by far the largest table, and only member 0 needs them. The same holds for
    // those of paths.
    std::vector<shard::RankSeries> rank_series;
    std::vector<shard::PathSeries> path_series;
    rank_series.swap(union_.head.rank_series);
    path_series.swap(union_.head.path_series);
    Bytes bytes = leads() ? to_bytes(union_) : Bytes{};
    rank_series.swap(union_.head.rank_series);
    path_series.swap(union_.head.path_series);
    team_.broadcast(bytes);
    if (!leads()) union_ = from_bytes<Union>(bytes);
  }
  if (!union_.go_on) return;

  read_rows();
  std::vector<Failure> failures = all_failures();
  if (leads()) {
    if (failures.empty() && options_.write)
      for (std::uint32_t i = 0; i < plan_.shards.size(); ++i)
        if (!plan_.shards[i].left_out) static_cast<void>(is_unchanged(i));
    failures.insert(failures.end(), failures_.begin(), failures_.end());
    failures_.clear();
    union_.go_on = failures.empty() || plan_after(std::move(failures), true);
    if (!union_.go_on) writer_.reset();
  }
  Bytes verdict(1, static_cast<std::byte>(union_.go_on));
  team_.broadcast(verdict);
  if (verdict[0] == std::byte{0}) return;

  unite_results();
  failures = all_failures();
  if (!leads()) return;
  if (!failures.empty()) {
    static_cast<void>(plan_after(std::move(failures), true));
    return;
  }
  write_rest();
  plan_.kind = Plan::kDone;
}

Result<MergeReport> RunMerge::run() {
  if (leads()) plan_anew();
  for (;;) {
    if (!is_alone()) {
      Bytes bytes = leads() ? to_bytes(plan_) : Bytes{};
      team_.broadcast(bytes);
      if (!leads()) plan_ = from_bytes<Plan>(bytes);
    }
    if (plan_.kind == Plan::kFailed) return Error{plan_.error, plan_.error_kind};
    if (plan_.kind == Plan::kDone) break;
    merge_once();
  }
  index_.reset();
  if (!leads()) {
    for (const Shard& row : plan_.shards) {
      report_.shards += row.left_out ? 0 : 1;
      report_.reused += row.reused ? 1 : 0;
    }
    return std::move(report_);
  }
  report_.head = std::move(union_.head);
  return std::move(report_);
}

}  // namespace

Result<MergeReport> merge_shards(const fs::path& run_dir, const MergeOptions& options,
                                 Destination& destination) {
  return RunMerge(run_dir, options, destination).run();
}

}  // namespace clusterprof::aggregator
