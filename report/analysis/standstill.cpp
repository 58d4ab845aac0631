// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/standstill.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/analysis/hang_search.hpp"

namespace clusterprof::report {
namespace {

using shard::CallUnderWay;
using shard::Category;
using shard::Thread;

// What a thread beside the main one may have run of its time without getting anywhere: those that say now and
// then that they are alive, or look at a clock.
constexpr std::uint64_t kBesideCpuOneIn = 100, kBesideCpu_ns = 2'000'000;

class Standstill {
 public:
  Standstill(const shard::ShardData& data, const CallPaths& paths) : data_(data), paths_(paths) {}

  std::uint64_t find(const std::vector<std::string>& told) {
    if (!knows_all_ranks() || !is_of_now(told)) return 0;
    find_calls();
    find_threads();
    // From when the last of them stopped to the oldest look.
    std::optional<std::int64_t> stopped, looked;
    for (std::uint32_t row = 0; row < data_.ranks.size(); ++row) {
      const shard::Rank& rank = data_.ranks[row];
      if (has_ended(rank)) continue;
      const State& state = states_[row];
      if (state.moves || !state.has_main || state.still_ns == 0) return 0;
      const std::int64_t look = rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns);
      const std::int64_t since = look - static_cast<std::int64_t>(state.still_ns);
      stopped = std::max(stopped.value_or(since), since);
      looked = std::min(looked.value_or(look), look);
    }
    if (!stopped || *looked <= *stopped) return 0;
    return static_cast<std::uint64_t>(*looked - *stopped);
  }

 private:
  struct State {
    bool has_main = false, moves = false;
    std::uint64_t still_ns = UINT64_MAX;  // the shortest of its threads
  };

  // One that is not recorded may be the one that gets on.
  [[nodiscard]] bool knows_all_ranks() const {
    std::set<std::int32_t> ranks;
    for (const shard::Rank& rank : data_.ranks) ranks.insert(rank.rank);
    return !ranks.empty() && ranks.size() >= data_.run.world_size;
  }

  static bool has_ended(const shard::Rank& rank) {
    return (rank.flags & (shard::kExitStatusKnown | shard::kExitSignalKnown)) != 0;
  }

  // Ranks of a node that is silent, whose collector is gone, or where the site has turned recording off may
  // have gone on since they were last looked at.
  [[nodiscard]] bool is_of_now(const std::vector<std::string>& told) const {
    const auto is_turned_off = [](const shard::Note& note) {
      return note.code == shard::NoteCode::kTurnedOff;
    };
    return std::ranges::none_of(data_.run.notes, is_turned_off) &&
           std::ranges::all_of(data_.ranks, [&](const shard::Rank& rank) {
             return has_ended(rank) || std::ranges::find(told, data_.nodes[rank.node].name) != told.end();
           });
  }

  void find_calls() {
    for (const CallUnderWay& call : data_.calls_under_way)
      if (call.rank < data_.ranks.size() && call.path < paths_.size())
        calls_.insert_or_assign({call.rank, call.tid}, &call);
  }

  void find_threads() {
    states_.resize(data_.ranks.size());
    for (const Thread& thread : data_.threads) {
      if (thread.rank >= data_.ranks.size() || (thread.flags & Thread::kRuns) == 0) continue;
      State& state = states_[thread.rank];
      const bool is_main =
          thread.kind == shard::ThreadKind::kMain && thread.pid == data_.ranks[thread.rank].pid;
      if (is_main) state.has_main = true;
      const auto call = calls_.find({thread.rank, thread.tid});
      // Of the MPI library and the like, which look for messages whatever happens.
      if (thread.kind == shard::ThreadKind::kHelper && call == calls_.end()) continue;
      state.still_ns = std::min(state.still_ns, call != calls_.end() ? still_in_call(*call->second, thread)
                                                                     : still(thread, is_main));
    }
    for (const shard::Process& process : data_.processes) {
      const bool runs = (process.flags & shard::Process::kRuns) != 0;
      if (runs && process.unrecorded != shard::Unrecorded::kNo && process.rank < states_.size())
        states_[process.rank].moves = true;
    }
  }

  // Whoever waits for others may look for messages all the time. Whoever reads or writes a file works.
  [[nodiscard]] std::uint64_t still_in_call(const CallUnderWay& call, const Thread& thread) const {
    const shard::Frame* const leaf = paths_.frame(call.path);
    const bool is_file_call =
        leaf != nullptr && std::string_view(paths_.text(leaf->name)).starts_with("MPI_File_");
    return is_file_call && wakes_up(thread) ? 0 : call.lasted_ns;
  }

  [[nodiscard]] static std::uint64_t still(const Thread& thread, bool is_main) {
    const bool was_sampled = thread.last_path != 0;
    if (!is_main && (!was_sampled || thread.last_category == Category::kIdle) && hardly_runs(thread))
      return thread.elapsed_ns;
    if (!was_sampled) return 0;
    switch (thread.last_category) {
      case Category::kPython:
      case Category::kNative:
        return thread.unmoved_ns;  // in an empty loop
      case Category::kIo:
      case Category::kIdle:
        return wakes_up(thread) ? 0 : thread.unmoved_ns;
      default:
        return 0;
    }
  }

  [[nodiscard]] static bool hardly_runs(const Thread& thread) {
    return thread.cpu_ns <= std::max(kBesideCpu_ns, thread.elapsed_ns / kBesideCpuOneIn);
  }

  const shard::ShardData& data_;
  const CallPaths& paths_;
  std::map<std::pair<std::uint32_t, std::int32_t>, const CallUnderWay*> calls_;  // by rank and thread
  std::vector<State> states_;                                                    // by row of ranks
};

}  // namespace

std::uint64_t standstill_ns(const shard::ShardData& data, const CallPaths& paths,
                            const std::vector<std::string>& told) {
  return Standstill(data, paths).find(told);
}

}  // namespace clusterprof::report
