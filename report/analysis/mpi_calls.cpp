// SPDX-License-Identifier: BSD-3-Clause
// Tables of MPI: calls by call site, the communication matrix of ranks and of nodes, and the time of ranks
// in MPI.
#include "report/analysis/mpi_calls.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "formats/wire/c10d_functions.h"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {

using shard::kNone;
using shard::Rank;
using shard::ShardData;

namespace {

// Groups MPI call paths by what is shown: operation, and file, line and function of the caller.
class CallSites {
 public:
  using Site = std::tuple<std::string_view, std::string_view, std::uint32_t, std::string_view>;

  explicit CallSites(const CallPaths& paths) : paths_(paths) {}

  // Dense indices; kNone for anything that is not a path.
  std::uint32_t of(std::uint32_t path) {
    if (path >= paths_.size()) return kNone;
    const auto [known, is_new] = of_path_.try_emplace(path, 0);
    if (is_new)
      known->second = ids_.try_emplace(site(path), static_cast<std::uint32_t>(ids_.size())).first->second;
    return known->second;
  }
  [[nodiscard]] const std::map<Site, std::uint32_t>& all() const { return ids_; }

 private:
  [[nodiscard]] Site site(std::uint32_t path) const {
    const shard::Frame* op = paths_.frame(path);
    const shard::Frame* caller = paths_.frame(paths_.mpi_caller(path));
    Site site{op != nullptr ? std::string_view(paths_.text(op->name)) : std::string_view("MPI"), {}, 0, {}};
    if (caller != nullptr) {
      std::get<1>(site) = paths_.text(caller->file);
      std::get<2>(site) = caller->line;
      std::get<3>(site) = paths_.text(caller->name);
    }
    return site;
  }

  const CallPaths& paths_;
  std::map<Site, std::uint32_t> ids_;
  std::unordered_map<std::uint32_t, std::uint32_t> of_path_;
};

// False: the operation may wait for other ranks, but has no events. On intercommunicators other operations
// have none, either, but that is not known here.
bool waiting_is_looked_for(std::string_view op) {
  static const std::map<std::string_view, bool> kLookedFor = [] {
    std::map<std::string_view, bool> looked_for;
    for (std::uint32_t f = 0; f < wire::kFunctionCount; ++f) {
      const bool any = wire::function_sync(f) != wire::MpiSync::kNone;
      const wire::MpiClass kind = wire::function_class(f);
      looked_for[wire::function_name(f)] = any || kind == wire::MpiClass::kP2p ||
                                           kind == wire::MpiClass::kCompletion ||
                                           kind == wire::MpiClass::kManagement;
    }
    for (const char* epoch :
         {"MPI_Win_post", "MPI_Win_start", "MPI_Win_complete", "MPI_Win_wait", "MPI_Win_test"})
      looked_for[epoch] = true;
    for (const char* group : {"MPI_Init", "MPI_Init_thread", "MPI_Comm_create_group", "MPI_Comm_join",
                              "MPI_Intercomm_create_from_groups", "MPI_Intercomm_merge",
                              "MPI_Session_finalize", "new_process_group"})
      looked_for[group] = false;
    return looked_for;
  }();
  const auto known = kLookedFor.find(op);
  return known != kLookedFor.end() && known->second;
}

}  // namespace

bool is_mpi_startup(std::string_view op) {
  constexpr std::array<std::string_view, 6> kOps = {
      "MPI_Init",         "MPI_Init_thread",      "MPI_Finalize",
      "MPI_Session_init", "MPI_Session_finalize", "new_process_group"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

std::string_view communication_library(std::string_view op) {
  for (const wire::C10dFunction& function : wire::kC10dFunctions)
    if (op == function.name) return "torch.distributed";
  return "MPI";
}

bool is_mpi_io(std::string_view op) {
  static const std::set<std::string_view> kOps = [] {
    std::set<std::string_view> ops;
    for (std::uint32_t f = 0; f < wire::kMpiFunctionCount; ++f)
      if (wire::kMpiFunctionClasses[f] == wire::MpiClass::kIo) ops.insert(wire::kMpiFunctionNames[f]);
    return ops;
  }();
  return kOps.contains(op);
}

void describe_mpi_time(const ShardData& data, const CallPaths& paths,
                       const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  enum class Kind : std::uint8_t { kUnasked, kStartup, kIo, kOther };
  std::vector<Kind> kinds(paths.size(), Kind::kUnasked);
  const auto kind_of = [&](std::uint32_t path) {
    Kind& kind = kinds[path];
    if (kind == Kind::kUnasked) {
      const shard::Frame* const frame = paths.frame(path);
      const std::string_view op = frame == nullptr ? std::string_view() : paths.text(frame->name);
      kind = is_mpi_startup(op) ? Kind::kStartup : is_mpi_io(op) ? Kind::kIo : Kind::kOther;
    }
    return kind;
  };
  std::vector<std::uint64_t> startup_ns(data.ranks.size()), io_ns(data.ranks.size());
  for (const shard::MpiCall& call : data.mpi_calls) {
    if (!call.main_thread || call.rank >= data.ranks.size() || call.path >= paths.size()) continue;
    const Kind kind = kind_of(call.path);
    if (kind == Kind::kStartup) startup_ns[call.rank] += call.time_ns;
    if (kind == Kind::kIo) io_ns[call.rank] += call.time_ns;
  }
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    const Rank& rank = data.ranks[ascending[i]];
    RankInfo& info = analysis.ranks[i];
    if (!info.useful_s) continue;
    const double mpi_s = info.category_s[static_cast<std::size_t>(shard::Category::kMpi)].value_or(0);
    info.startup_s = std::min(to_seconds(startup_ns[ascending[i]]), mpi_s);
    info.mpi_io_s = std::min(to_seconds(io_ns[ascending[i]]), mpi_s - *info.startup_s);
    info.mpi_helper_threads = rank.mpi_helper_threads;
    if (rank.mpi_helper_threads == 0) continue;
    const double elapsed_s = to_seconds(rank.mpi_helper_elapsed_ns);
    const double inside_s = std::min(to_seconds(rank.mpi_helper_ns), elapsed_s);
    info.mpi_helper_elapsed_s = elapsed_s;
    info.mpi_helper_s = inside_s;
    // Startup is left out, as in efficiencies.
    const double of_main_s = std::max(info.recorded_s - *info.startup_s, 0.0);
    if (of_main_s + elapsed_s > 0)
      info.threads_useful_s = of_main_s * (*info.useful_s + elapsed_s - inside_s) / (of_main_s + elapsed_s);
  }
}

void count_mpi_calls(const ShardData& data, const CallPaths& paths,
                     const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  CallSites sites(paths);
  std::vector<std::uint32_t> site_of_call(data.mpi_calls.size(), kNone);
  for (std::size_t i = 0; i < data.mpi_calls.size(); ++i) site_of_call[i] = sites.of(data.mpi_calls[i].path);

  SpreadTable time(sites.all().size());
  std::vector<MpiCallRow> rows(sites.all().size());
  std::vector<bool> waits_known(rows.size(), false), waits_missing(rows.size(), false);
  const ByRank calls = by_rank(data.mpi_calls, data.ranks.size());
  for (const std::uint32_t rank : ascending) {
    const bool knows_waits = data.wait_analysis.done && (data.ranks[rank].flags & shard::kWaitKnown) != 0;
    for (std::uint32_t i = calls.starts[rank]; i < calls.starts[rank + 1]; ++i) {
      const shard::MpiCall& call = data.mpi_calls[calls.order[i]];
      const std::uint32_t site = site_of_call[calls.order[i]];
      if (site == kNone) continue;
      time.add(site, call.time_ns);
      rows[site].count += call.count;
      rows[site].unfinished += call.unfinished;
      rows[site].sent_bytes += call.sent_bytes;
      rows[site].recv_bytes += call.recv_bytes;
      (knows_waits ? waits_known : waits_missing)[site] = true;
    }
    time.end_rank(data.ranks[rank].rank);
  }
  std::vector<std::uint64_t> wait_ns(rows.size(), 0);
  for (const shard::WaitState& state : data.wait_states)
    if (const std::uint32_t site = sites.of(state.path); site < wait_ns.size())
      wait_ns[site] += state.wait_ns;
  for (const auto& [site, id] : sites.all()) {
    if (id >= rows.size() || rows[id].count + rows[id].unfinished == 0) continue;
    MpiCallRow& row = rows[id];
    std::tie(row.op, row.file, row.line, row.function) = site;
    row.time_s = to_seconds(time.total(id));
    // Waiting that was scaled up from a sample of events may slightly exceed the time in the calls. A
    // call site without any waiting in a sample may not have been looked at.
    const bool looked_for = data.wait_analysis.event_level == 0 && waiting_is_looked_for(row.op);
    if (waits_known[id] && (looked_for || wait_ns[id] != 0)) {
      row.wait_s = std::min(to_seconds(wait_ns[id]), row.time_s);
      if (!waits_missing[id]) row.transfer_s = row.time_s - *row.wait_s;
    }
    row.spread = time.spread(id);
    analysis.mpi_calls.push_back(std::move(row));
  }
  // Starts from the order of sites, so rows with equal times keep a fixed order.
  std::stable_sort(analysis.mpi_calls.begin(), analysis.mpi_calls.end(),
                   [](const MpiCallRow& a, const MpiCallRow& b) { return a.time_s > b.time_s; });
}

void copy_mpi_tables(const ShardData& data, const CallPaths& paths, Analysis& analysis) {
  const auto pair_of = [](const shard::MatrixCell& cell) { return std::pair(cell.source, cell.destination); };
  analysis.matrix = data.matrix;
  std::sort(analysis.matrix.begin(), analysis.matrix.end(),
            [&](const auto& a, const auto& b) { return pair_of(a) < pair_of(b); });
  std::size_t kept = 0;
  for (const shard::MatrixCell& cell : analysis.matrix) {
    if (kept > 0 && pair_of(analysis.matrix[kept - 1]) == pair_of(cell)) {
      analysis.matrix[kept - 1].messages += cell.messages;
      analysis.matrix[kept - 1].bytes += cell.bytes;
    } else {
      analysis.matrix[kept++] = cell;
    }
  }
  analysis.matrix.resize(kept);

  analysis.node_matrix = between_nodes(data, analysis.matrix);

  std::map<std::pair<std::string_view, std::uint64_t>, std::uint64_t> sizes;
  for (const shard::MpiSize& size : data.mpi_sizes)
    if (size.count != 0) sizes[{paths.text(size.op), size.le_bytes}] += size.count;
  for (const auto& [key, count] : sizes)
    analysis.mpi_sizes.push_back({std::string(key.first), key.second, count});
}

std::vector<NodeCell> between_nodes(const ShardData& data, const std::vector<shard::MatrixCell>& cells) {
  std::unordered_map<std::int32_t, std::uint32_t> nodes;
  for (const Rank& rank : data.ranks)
    if (rank.node < data.nodes.size()) nodes.emplace(rank.rank, rank.node);
  const auto node_of = [&](std::int32_t rank) {
    const auto known = nodes.find(rank);
    return known == nodes.end() ? kNone : known->second;
  };
  const auto optional_node = [](std::uint32_t node) {
    return node == kNone ? std::optional<std::uint32_t>() : node;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, NodeCell> between;
  for (const shard::MatrixCell& cell : cells) {
    NodeCell& sum = between[{node_of(cell.source), node_of(cell.destination)}];
    sum.messages += cell.messages;
    sum.bytes += cell.bytes;
  }
  std::vector<NodeCell> result;
  for (auto& [pair, cell] : between) {
    cell.source = optional_node(pair.first), cell.destination = optional_node(pair.second);
    result.push_back(cell);
  }
  return result;
}

}  // namespace clusterprof::report
