// SPDX-License-Identifier: BSD-3-Clause
// Looks for ranks that cannot go on, whatever happens. To begin with, all are taken to be stuck but those
// that may move by themselves, or of which too little is known. Whoever waits for nothing but ranks that may
// move may move as well, and so on. What is left is stuck (docs/design/0020-hangs.md).
#include "report/analysis/hang_search.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/device_libraries.hpp"
#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::CallUnderWay;
using shard::kNone;
using shard::PendingKind;

// Data that are this much older than the newest say nothing about now: the node is lost, or cannot write.
constexpr std::int64_t kStale_ns = 30'000'000'000;
// A thread is gone if it ended this long before its rank was last looked at.
constexpr std::int64_t kGone_ns = 1'000'000'000;
// A library may do with what it gets where members give an operation different sizes. So they are not what
// keeps it before it has had the time to move the data.
constexpr double kSlowData_bytes_per_ns = 0.1;  // 100 MB/s
// CPU time of a thread that sleeps: of our handler, and of few wake-ups. Whoever polls something a few times
// a second uses more.
constexpr std::uint64_t kAsleepCpu_ns = 2'000'000, kAsleepCpuOneIn = 5000;
// And of one in a loop, which may share its processor with others that poll.
constexpr std::uint64_t kLoopCpuOneIn = 10;

std::int64_t look_utc_ns(const shard::Rank& rank) {
  return rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns);
}

bool has_exit(const shard::Rank& rank) {
  return (rank.flags & (shard::kExitStatusKnown | shard::kExitSignalKnown)) != 0;
}

// Whether whoever ended it, and not the rank itself, decided when: then it was in the middle of what it did.
bool was_killed(const shard::Rank& rank) {
  constexpr int kShellBase = 128, kSigHup = 1, kSigInt = 2, kSigKill = 9, kSigTerm = 15;
  if ((rank.flags & shard::kExitSignalKnown) != 0) return true;
  for (const int signal : {kSigHup, kSigInt, kSigKill, kSigTerm})
    if (rank.exit_status == kShellBase + signal) return true;
  return false;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

enum class Calls : std::uint8_t { kOther, kReceive, kSend, kBoth, kWaitAll, kWaitAny };

Calls kind_of_call(std::string_view op) {
  if (op == "MPI_Wait" || op == "MPI_Waitall") return Calls::kWaitAll;
  if (op == "MPI_Waitany" || op == "MPI_Waitsome") return Calls::kWaitAny;
  if (contains(op, "Sendrecv")) return Calls::kBoth;
  if (op == "MPI_Recv" || op == "MPI_Probe" || op == "MPI_Mprobe") return Calls::kReceive;
  if (op == "MPI_Send" || op == "MPI_Ssend" || op == "MPI_Rsend") return Calls::kSend;
  return Calls::kOther;
}

bool is_wait(std::string_view op) { return op.starts_with("MPI_Wait"); }

// The variants for large counts are the same operation.
std::string plain(std::string_view op) {
  if (op.ends_with("_c")) op.remove_suffix(2);
  return std::string(op);
}

std::vector<std::int32_t> rank_numbers(const std::vector<shard::Rank>& ranks,
                                       const std::vector<std::uint32_t>& rows) {
  std::vector<std::int32_t> numbers;
  numbers.reserve(rows.size());
  for (const std::uint32_t row : rows) numbers.push_back(ranks[row].rank);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// What its members say of one collective operation. They have to say the same.
struct SaidOfOperation {
  std::string op;  // of those that are in a blocking call
  std::map<std::pair<std::string, std::int32_t>, std::vector<std::uint32_t>> kinds;   // rows, by op and root
  std::map<std::pair<std::string, std::uint64_t>, std::vector<std::uint32_t>> sizes;  // by op and bytes

  // Of one that is in a blocking call.
  void add_inside(const CallUnderWay& call, std::string_view name) {
    op = plain(name);
    kinds[{op, call.root}].push_back(call.rank);
    add_size(call.rank, name, call.agreed_bytes);
  }
  void add_size(std::uint32_t rank, std::string_view name, std::uint64_t bytes) {
    if (!name.empty() && bytes != CallUnderWay::kNoBytes) sizes[{plain(name), bytes}].push_back(rank);
  }
  // Of one that has left it. What the root was is not known.
  void add_left(std::uint32_t rank, std::string_view name, std::uint64_t bytes) {
    if (!name.empty() && !op.empty() && plain(name) != op)
      kinds[{plain(name), CallUnderWay::kNoRank}].push_back(rank);
    add_size(rank, name, bytes);
  }

  [[nodiscard]] bool kinds_differ() const { return kinds.size() > 1; }
  [[nodiscard]] bool sizes_differ() const {
    return sizes.size() > 1 && sizes.begin()->first.first == sizes.rbegin()->first.first;
  }

  // Those that say the same, the fewest first. Empty: all do.
  [[nodiscard]] std::vector<MismatchedRanks> groups(const std::vector<shard::Rank>& ranks) const {
    std::vector<MismatchedRanks> result;
    if (kinds_differ()) {
      std::set<std::string_view> ops;
      for (const auto& [what, rows] : kinds) ops.insert(what.first);
      std::map<std::pair<std::string, std::int32_t>, std::vector<std::uint32_t>> alike;
      for (const auto& [what, rows] : kinds) {
        // Of several operations, the roots do not matter.
        auto& group = alike[{what.first, ops.size() > 1 ? CallUnderWay::kNoRank : what.second}];
        group.insert(group.end(), rows.begin(), rows.end());
      }
      for (const auto& [what, rows] : alike)
        result.push_back({rank_numbers(ranks, rows), what.first,
                          what.second >= 0 ? std::optional(what.second) : std::nullopt, std::nullopt});
    } else if (sizes_differ()) {
      for (const auto& [what, rows] : sizes)
        result.push_back({rank_numbers(ranks, rows), what.first, std::nullopt, what.second});
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const auto& x, const auto& y) { return x.ranks.size() < y.ranks.size(); });
    return result;
  }

  // How long it takes at most to move the data, where members are in the operation that the sizes are of.
  [[nodiscard]] std::uint64_t slowly_ns(std::uint32_t members) const {
    const auto& [name, bytes] = sizes.rbegin()->first;
    const bool for_each =  // a block for each member
        contains(name, "ather") || contains(name, "catter") || contains(name, "lltoall");
    const double all_bytes = static_cast<double>(bytes) * (for_each ? members : 1);
    return static_cast<std::uint64_t>(std::min(all_bytes / kSlowData_bytes_per_ns, 1e18));
  }
};

class HangSearch {
 public:
  HangSearch(const shard::ShardData& data, const CallPaths& paths) : data_(data), paths_(paths) {}

  std::optional<Hang> find() {
    if (data_.calls_under_way.empty() || !find_time()) return std::nullopt;
    find_main_threads();
    find_states();
    find_operations();
    find_waits();
    let_move();
    return describe();
  }

 private:
  // What a rank does, as far as it does not wait in an MPI call that is understood.
  struct State {
    MissingState what = MissingState::kNotKnown;
    bool stays = false;  // it will not move by itself
    std::uint32_t path = 0;
    std::optional<std::uint64_t> for_ns;
  };

  // What a call waits for.
  enum class Waits : std::uint8_t { kNotKnown, kCollective, kAll, kAny, kAnySource };
  struct Wait {
    const CallUnderWay* call = nullptr;
    std::string_view op;
    bool is_still = false;
    Waits waits = Waits::kNotKnown;
    std::size_t operation = 0;           // kCollective
    std::vector<std::uint32_t> targets;  // rows of ranks; kAll, kAny
    std::size_t left = 0;                // of them that are not known to move
  };

  // A collective operation. Those that are in MPI_Finalize are in an operation of their own.
  struct Operation {
    std::uint32_t communicator = kNone, sequence = 0;
    bool is_finalize = false;
    std::vector<std::size_t> inside;    // numbers of waits
    std::vector<std::uint32_t> absent;  // rows of ranks
    std::size_t left = 0;               // of them that are not known to move
    bool is_known = false;              // who belongs to it
    bool is_mismatched = false;
    SaidOfOperation said;
  };

  struct Member {
    std::uint32_t rank = 0, count = 0, last_path = 0;
    std::uint64_t agreed_bytes = CallUnderWay::kNoBytes;
  };

  [[nodiscard]] std::string_view leaf_of(std::uint32_t path) const {
    const shard::Frame* const frame = paths_.frame(path);
    return frame == nullptr ? std::string_view() : std::string_view(paths_.text(frame->name));
  }
  [[nodiscard]] bool is_before(std::int64_t since_utc_ns) const {
    return since_utc_ns <= time_utc_ns_ - static_cast<std::int64_t>(kStill_ns);
  }
  [[nodiscard]] bool is_still(const shard::Rank& rank, std::uint64_t for_ns) const {
    return for_ns >= kStill_ns && is_before(look_utc_ns(rank) - static_cast<std::int64_t>(for_ns));
  }
  [[nodiscard]] bool has_ended(std::uint32_t row) const { return ended_[row]; }  // or is about to

  [[nodiscard]] bool has_failed(std::uint32_t row) const {
    return has_ended(row) && (data_.ranks[row].exit_signal != 0 || data_.ranks[row].exit_status != 0);
  }

  // Once its launcher is gone, an MPI library ends its process by an exit status, whatever that is doing.
  [[nodiscard]] bool ended_with_launcher(const shard::Rank& rank) const {
    return rank.exit_status != 0 && std::ranges::any_of(data_.run.notes, [&](const shard::Note& note) {
             return note.code == shard::NoteCode::kLauncherGone && note.first_rank <= rank.rank &&
                    rank.rank <= note.last_rank;
           });
  }

  // The latest time of which something is known of all ranks: what they do is compared as of then. Ranks are
  // looked at at different times, and one may have gone on since.
  bool find_time() {
    std::int64_t newest = 0;
    for (const shard::Rank& rank : data_.ranks) newest = std::max(newest, look_utc_ns(rank));
    std::optional<std::int64_t> time;
    ended_.assign(data_.ranks.size(), false);
    stale_.assign(data_.ranks.size(), false);
    for (std::uint32_t row = 0; row < data_.ranks.size(); ++row) {
      const shard::Rank& rank = data_.ranks[row];
      row_of_.emplace(rank.rank, row);
      const std::int64_t look = look_utc_ns(rank);
      // Those that a launcher ends together end in what they were doing.
      ended_[row] = has_exit(rank) && ((!was_killed(rank) && !ended_with_launcher(rank)) ||
                                       look + static_cast<std::int64_t>(kStill_ns) <= newest);
      stale_[row] = !has_exit(rank) && look + kStale_ns < newest;
      if (!ended_[row] && !stale_[row]) time = std::min(time.value_or(look), look);
    }
    if (!time) return false;
    time_utc_ns_ = *time;
    return true;
  }

  void find_main_threads() {
    main_thread_.assign(data_.ranks.size(), nullptr);
    others_may_move_.assign(data_.ranks.size(), false);
    for (const shard::Thread& thread : data_.threads) {
      if (thread.rank >= data_.ranks.size() || thread.last_path >= paths_.size()) continue;
      const shard::Rank& rank = data_.ranks[thread.rank];
      if (!was_alive(thread, rank)) continue;
      if (thread.kind == shard::ThreadKind::kMain && thread.pid == rank.pid)
        main_thread_[thread.rank] = &thread;
      else if (may_move(thread, rank))
        others_may_move_[thread.rank] = true;
    }
  }

  // Whether a thread or process besides the main thread may do something that this one waits for: work, or
  // get what it waits for from a file or a connection. Those of a communication library wait for events all
  // their lives.
  [[nodiscard]] bool may_move(const shard::Thread& thread, const shard::Rank& rank) const {
    const bool waits =
        thread.last_category == shard::Category::kIdle || thread.last_category == shard::Category::kIo;
    if (thread.kind == shard::ThreadKind::kHelper && waits) return false;
    return !state_of_thread(thread, rank, false).stays;
  }

  [[nodiscard]] bool sleeps(std::uint32_t path) const {
    const std::string_view leaf = leaf_of(path);
    return paths_.in_python_sleep(path) || leaf == "nanosleep" || leaf == "clock_nanosleep" ||
           leaf == "pause";
  }

  // Its work may take longer than anything that is seen.
  [[nodiscard]] bool waits_for_device(std::uint32_t path) const {
    for (; path != 0; path = paths_.parent(path)) {
      const shard::Frame* const frame = paths_.frame(path);
      if (frame != nullptr && frame->kind == shard::FrameKind::kNative &&
          is_device_library(paths_.text(frame->module)))
        return true;
    }
    return false;
  }

  // A loop in a library waits for other threads or for a device.
  [[nodiscard]] bool is_own_loop(const shard::Thread& thread) const {
    return thread.last_category == shard::Category::kPython || paths_.owner(thread.last_path) == Owner::kOwn;
  }

  [[nodiscard]] State state_of_thread(const shard::Thread& thread, const shard::Rank& rank,
                                      bool others_may_move) const {
    using Is = MissingState;
    const std::uint32_t path = thread.last_path;
    const bool has_category = static_cast<std::size_t>(thread.last_category) < shard::kCategories;
    if (!has_category || path == 0) return {Is::kNotKnown, false, path, {}};
    const auto seen = [&](Is what, bool stays) { return State{what, stays, path, thread.unmoved_ns}; };
    const bool waits_for_io = thread.last_category == shard::Category::kIo;
    if (!is_still(rank, thread.unmoved_ns))
      return {waits_for_io ? Is::kInIo : Is::kComputes, false, path, {}};
    switch (thread.last_category) {
      case shard::Category::kPython:
      case shard::Category::kNative:
        return thread.unmoved_cpu_ns >= thread.unmoved_ns / kLoopCpuOneIn && is_own_loop(thread)
                   ? seen(Is::kInLoop, !others_may_move)
                   : State{Is::kComputes, false, path, {}};
      case shard::Category::kIo:
        return seen(Is::kInIo, false);
      case shard::Category::kIdle:
        break;
      default:
        return {Is::kNotKnown, false, path, {}};
    }
    if (wakes_up(thread))
      return {Is::kComputes, false, path, {}};  // it wakes up now and then, and looks for something
    if (sleeps(path)) return seen(Is::kAsleep, !others_may_move);
    const std::string_view leaf = leaf_of(path);
    if (leaf == "wait4" || leaf == "waitid" || paths_.awaited(path) == Awaited::kChildren)
      return seen(Is::kChild, false);
    if (paths_.awaited(path) == Awaited::kThreads) return seen(Is::kBlocked, !others_may_move);
    if (!contains(leaf, "futex") || waits_for_device(path)) return seen(Is::kInIo, false);
    return seen(Is::kBlocked, !others_may_move);
  }

  void find_states() {
    states_.resize(data_.ranks.size());
    for (std::uint32_t row = 0; row < data_.ranks.size(); ++row) {
      const shard::Rank& rank = data_.ranks[row];
      State& state = states_[row];
      if (ended_[row]) {
        const std::int64_t for_ns = time_utc_ns_ - look_utc_ns(rank);
        state = {MissingState::kEnded, is_before(look_utc_ns(rank)), 0,
                 static_cast<std::uint64_t>(std::max<std::int64_t>(for_ns, 0))};
      } else if (!stale_[row] && main_thread_[row] != nullptr) {
        state = state_of_thread(*main_thread_[row], rank, others_may_move_[row]);
      }
    }
    for (const CallUnderWay& call : data_.calls_under_way) {
      if (call.rank >= data_.ranks.size() || call.path >= paths_.size() || has_ended(call.rank)) continue;
      if (call.communicator != kNone && call.communicator >= data_.communicators.size()) continue;
      Wait& wait = waits_.emplace_back();
      wait.call = &call;
      wait.op = leaf_of(call.path);
      wait.is_still = !stale_[call.rank] && is_still(data_.ranks[call.rank], call.lasted_ns);
      if (!call.main_thread) continue;
      const bool finalizes = wait.op == "MPI_Finalize";
      states_[call.rank] = {finalizes ? MissingState::kInFinalize : MissingState::kInCall, false, call.path,
                            call.lasted_ns};
    }
    waits_of_.resize(data_.ranks.size());
    for (std::size_t i = 0; i < waits_.size(); ++i) waits_of_[waits_[i].call->rank].push_back(i);
  }

  static bool is_collective(const CallUnderWay& call) {
    return call.sequence != kNone && call.communicator != kNone;
  }

  void find_operations() {
    std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, std::size_t> known;
    std::set<std::uint32_t> communicators;
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      const CallUnderWay& call = *waits_[i].call;
      if (call.communicator != kNone) communicators.insert(call.communicator);
      if (!is_collective(call)) continue;
      const bool is_finalize = waits_[i].op == "MPI_Finalize";
      const auto [found, added] =
          known.try_emplace({call.communicator, call.sequence, is_finalize}, operations_.size());
      if (added) {
        Operation& operation = operations_.emplace_back();
        operation.communicator = call.communicator;
        operation.sequence = call.sequence;
        operation.is_finalize = is_finalize;
      }
      waits_[i].waits = Waits::kCollective;
      waits_[i].operation = found->second;
      operations_[found->second].inside.push_back(i);
    }
    for (const shard::CollectiveCount& row : data_.collective_counts)
      if (row.rank < data_.ranks.size() && communicators.contains(row.communicator))
        members_[row.communicator].push_back({row.rank, row.count, row.path, row.agreed_bytes});
    for (Operation& operation : operations_) find_absent(operation);
  }

  [[nodiscard]] bool knows_members(std::uint32_t communicator) const {
    const auto members = members_.find(communicator);
    return members != members_.end() && communicator < data_.communicators.size() &&
           members->second.size() == data_.communicators[communicator].size;
  }

  void find_absent(Operation& operation) {
    if (!knows_members(operation.communicator)) return;
    const std::vector<Member>& members = members_.at(operation.communicator);
    std::map<std::uint32_t, bool> inside;  // whether by a request that it waits for
    bool all_still = true;
    for (const std::size_t i : operation.inside) {
      const Wait& wait = waits_[i];
      const bool by_request = is_wait(wait.op);
      inside.emplace(wait.call->rank, by_request);
      all_still = all_still && wait.is_still;
      if (!by_request) operation.said.add_inside(*wait.call, wait.op);
    }
    std::size_t found = 0;
    std::vector<std::uint32_t> left;  // rows of those that were inside
    for (const Member& member : members) {
      const bool has_begun = member.count > operation.sequence;
      const std::string_view last = member.count == operation.sequence + 1 && member.last_path < paths_.size()
                                        ? leaf_of(member.last_path)
                                        : std::string_view();
      if (const auto in = inside.find(member.rank); in != inside.end()) {
        ++found;
        if (in->second) operation.said.add_size(member.rank, last, member.agreed_bytes);
      } else if (!has_begun || (last == "MPI_Finalize" && !operation.is_finalize)) {
        operation.absent.push_back(member.rank);
      } else {
        left.push_back(member.rank);
        operation.said.add_left(member.rank, last, member.agreed_bytes);
      }
    }
    operation.is_known = found == inside.size();
    operation.left = operation.absent.size();
    if (!operation.is_known || !all_still || operation.is_finalize) return;
    operation.is_mismatched = operation.said.kinds_differ() || keeps_by_sizes(operation, left);
  }

  // Whether all members have begun the operation, so long ago that it does not just take its time, and have
  // given it different sizes.
  [[nodiscard]] bool keeps_by_sizes(const Operation& operation,
                                    const std::vector<std::uint32_t>& left) const {
    if (!operation.absent.empty() || !operation.said.sizes_differ()) return false;
    const std::uint64_t slowly_ns =
        operation.said.slowly_ns(data_.communicators[operation.communicator].size);
    return std::all_of(operation.inside.begin(), operation.inside.end(),
                       [&](std::size_t i) {
                         const CallUnderWay& call = *waits_[i].call;
                         return stood_for(call.rank, call.lasted_ns, slowly_ns);
                       }) &&
           std::all_of(left.begin(), left.end(),
                       [&](std::uint32_t row) { return left_before(row, slowly_ns); });
  }

  [[nodiscard]] bool stood_for(std::uint32_t row, std::uint64_t for_ns, std::uint64_t slowly_ns) const {
    return !stale_[row] && for_ns >= slowly_ns && is_still(data_.ranks[row], for_ns - slowly_ns);
  }

  // Whether a rank that has left an operation did so long ago: it has been where it is since. Of one that
  // runs it is not known.
  [[nodiscard]] bool left_before(std::uint32_t row, std::uint64_t slowly_ns) const {
    if (has_ended(row)) return states_[row].stays;
    for (const std::size_t i : waits_of_[row]) {
      const CallUnderWay& call = *waits_[i].call;
      if (call.main_thread) return stood_for(row, call.lasted_ns, slowly_ns);
    }
    return main_thread_[row] != nullptr && stood_for(row, main_thread_[row]->unmoved_ns, slowly_ns);
  }

  // --- messages
  // ----------------------------------------------------------------------------------------------

  [[nodiscard]] bool tags_may_match(const CallUnderWay& send, const CallUnderWay& receive) const {
    if (send.communicator != receive.communicator && send.communicator != kNone &&
        receive.communicator != kNone)
      return false;
    return send.tag == CallUnderWay::kNoTag || receive.tag == CallUnderWay::kNoTag ||
           receive.tag == CallUnderWay::kAnyTag || send.tag == receive.tag;
  }

  // Whether the other side may be at work on the message already: a long one takes longer than kStill_ns.
  // `receives`: `mine` waits for a message.
  [[nodiscard]] bool may_be_under_way(const Wait& mine, bool receives, std::uint32_t other) const {
    const std::int32_t me = data_.ranks[mine.call->rank].rank;
    for (const std::size_t i : waits_of_[other]) {
      const Wait& theirs = waits_[i];
      const CallUnderWay& call = *theirs.call;
      if (!theirs.is_still || call.open_requests > call.requests) return true;
      const Calls kind = kind_of_call(theirs.op);
      if (kind == Calls::kBoth || theirs.op == "MPI_Mrecv") return true;
      if (kind == (receives ? Calls::kSend : Calls::kReceive)) {
        const bool means_me = call.peer == me || (!receives && call.peer == CallUnderWay::kAnyRank);
        const bool match = receives ? tags_may_match(call, *mine.call) : tags_may_match(*mine.call, call);
        if (means_me && match) return true;
      }
      for (const shard::PendingRequest& request : pending_of(call)) {
        if (request.kind == PendingKind::kCollective) continue;
        const bool sends = request.kind == PendingKind::kSend;
        if (sends == receives && (request.peer == me || request.peer == CallUnderWay::kAnyRank)) return true;
      }
      if (call.requests > shown_of(call)) return true;  // of which not all are known
    }
    return false;
  }

  [[nodiscard]] static auto call_of(const shard::PendingRequest& request) {
    return std::tuple(request.rank, request.tid, request.enter_ns);
  }
  [[nodiscard]] std::span<const shard::PendingRequest> pending_of(const CallUnderWay& call) const {
    const auto [first, last] = std::equal_range(
        pending_.begin(), pending_.end(), shard::PendingRequest{call.rank, call.tid, call.enter_ns},
        [](const auto& x, const auto& y) { return call_of(x) < call_of(y); });
    return {first, last};
  }
  // How many requests of the call are known: all, unless more than fit were different.
  [[nodiscard]] std::uint32_t shown_of(const CallUnderWay& call) const {
    constexpr std::size_t kMostShown = 8;  // wire::kMaxPending
    return pending_of(call).size() < kMostShown ? call.requests : 0;
  }

  void add_target(Wait& wait, std::int32_t peer, PendingKind kind, bool& not_known) {
    const auto row = row_of_.find(peer);
    if (peer < 0 || row == row_of_.end() || kind == PendingKind::kCollective ||
        may_be_under_way(wait, kind == PendingKind::kReceive, row->second)) {
      not_known = true;
      return;
    }
    wait.targets.push_back(row->second);
  }

  // Whether a member may be sending something to whoever receives from any rank.
  [[nodiscard]] bool sends_on(std::uint32_t communicator) {
    const auto [known, is_new] = sends_on_.try_emplace(communicator, false);
    if (!is_new) return known->second;
    for (const Member& member : members_.at(communicator))
      for (const std::size_t i : waits_of_[member.rank]) {
        const CallUnderWay& call = *waits_[i].call;
        const Calls kind = kind_of_call(waits_[i].op);
        const std::span<const shard::PendingRequest> pending = pending_of(call);
        known->second = known->second || kind == Calls::kSend || kind == Calls::kBoth ||
                        call.open_requests > call.requests || call.requests > shown_of(call) ||
                        std::any_of(pending.begin(), pending.end(), [](const shard::PendingRequest& request) {
                          return request.kind == PendingKind::kSend;
                        });
      }
    return known->second;
  }

  void find_waits() {
    pending_ = data_.pending_requests;
    std::stable_sort(pending_.begin(), pending_.end(),
                     [](const auto& x, const auto& y) { return call_of(x) < call_of(y); });
    for (Wait& wait : waits_) {
      if (!wait.is_still || wait.waits == Waits::kCollective) continue;
      const CallUnderWay& call = *wait.call;
      const Calls kind = kind_of_call(wait.op);
      bool not_known = false;
      if (kind == Calls::kReceive && call.peer == CallUnderWay::kAnyRank) {
        if (call.communicator != kNone && knows_members(call.communicator) && !sends_on(call.communicator))
          wait.waits = Waits::kAnySource;
        continue;
      }
      if (kind == Calls::kReceive || kind == Calls::kSend) {
        add_target(wait, call.peer, kind == Calls::kSend ? PendingKind::kSend : PendingKind::kReceive,
                   not_known);
      } else if (kind == Calls::kWaitAll || kind == Calls::kWaitAny) {
        for (const shard::PendingRequest& request : pending_of(call))
          add_target(wait, request.peer, request.kind, not_known);
        not_known = not_known || call.requests > shown_of(call);
      }
      // Whoever waits for several is stuck if one of them is; whoever waits for one of several if all are.
      if (wait.targets.empty() || (kind == Calls::kWaitAny && not_known)) continue;
      wait.waits = kind == Calls::kWaitAny ? Waits::kAny : Waits::kAll;
      wait.left = wait.targets.size();
    }
  }

  // --- who may move
  // ------------------------------------------------------------------------------------------

  void move(std::uint32_t rank) {
    if (moves_[rank]) return;
    moves_[rank] = true;
    moving_.push_back(rank);
  }

  [[nodiscard]] bool moves_by_itself(std::uint32_t row) const {
    const State& state = states_[row];
    if (has_ended(row)) return !state.stays;
    // Another thread of the program may call MPI.
    if (data_.ranks[row].mpi_helper_threads != 0 && others_may_move_[row]) return true;
    bool waits = false;
    for (const std::size_t i : waits_of_[row]) {
      const Wait& wait = waits_[i];
      if (!wait.is_still || wait.waits == Waits::kNotKnown) return true;
      if (wait.waits == Waits::kCollective) {
        const Operation& operation = operations_[wait.operation];
        const bool is_open = !operation.is_known || (operation.absent.empty() && !operation.is_mismatched);
        if (is_open) return true;
      }
      waits = waits || wait.call->main_thread;
    }
    return !waits && !state.stays;
  }

  void let_move() {
    moves_.assign(data_.ranks.size(), false);
    absent_from_.resize(data_.ranks.size());
    awaited_by_.resize(data_.ranks.size());
    for (std::size_t i = 0; i < operations_.size(); ++i)
      for (const std::uint32_t rank : operations_[i].absent) absent_from_[rank].push_back(i);
    std::map<std::uint32_t, std::vector<std::size_t>> of_any_source;  // waits, by communicator
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      for (const std::uint32_t rank : waits_[i].targets) awaited_by_[rank].push_back(i);
      if (waits_[i].waits == Waits::kAnySource) of_any_source[waits_[i].call->communicator].push_back(i);
    }
    std::vector<std::vector<std::uint32_t>> may_send_on(data_.ranks.size());  // communicators
    for (const auto& [communicator, receives] : of_any_source)
      for (const Member& member : members_.at(communicator)) may_send_on[member.rank].push_back(communicator);

    for (std::uint32_t row = 0; row < data_.ranks.size(); ++row)
      if (moves_by_itself(row)) move(row);
    for (std::size_t next = 0; next < moving_.size(); ++next) {
      const std::uint32_t rank = moving_[next];
      for (const std::size_t i : absent_from_[rank]) {
        Operation& operation = operations_[i];
        if (--operation.left != 0 || operation.is_mismatched) continue;
        for (const std::size_t wait : operation.inside) move(waits_[wait].call->rank);
      }
      for (const std::size_t i : awaited_by_[rank]) {
        Wait& wait = waits_[i];
        if (--wait.left == 0 || wait.waits == Waits::kAny) move(wait.call->rank);
      }
      for (const std::uint32_t communicator : may_send_on[rank]) {
        std::vector<std::size_t>& receives = of_any_source.at(communicator);
        for (const std::size_t i : receives) move(waits_[i].call->rank);
        receives.clear();
      }
    }
  }

  // --- what is said
  // ------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<std::int32_t> numbers_of(const std::vector<std::uint32_t>& rows) const {
    return rank_numbers(data_.ranks, rows);
  }

  // Ranks that will not come by themselves are the reason for those that wait for them.
  [[nodiscard]] bool is_reason(std::uint32_t row) const {
    return !moves_[row] && (states_[row].stays || states_[row].what == MissingState::kInFinalize);
  }

  [[nodiscard]] std::vector<std::uint32_t> missing_of(const Wait& wait) const {
    if (wait.waits == Waits::kCollective) return operations_[wait.operation].absent;
    if (wait.waits != Waits::kAnySource) return wait.targets;
    std::vector<std::uint32_t> rows;
    for (const Member& member : members_.at(wait.call->communicator))
      if (member.rank != wait.call->rank) rows.push_back(member.rank);
    return rows;
  }

  [[nodiscard]] std::vector<MissingRanks> groups_of(const std::vector<std::uint32_t>& rows) const {
    std::map<std::tuple<bool, bool, MissingState, std::uint32_t, std::int32_t, std::int32_t>,
             std::vector<std::uint32_t>>
        groups;
    for (const std::uint32_t row : rows) {
      const shard::Rank& rank = data_.ranks[row];
      const bool ended = has_ended(row);
      groups[{!is_reason(row), !has_failed(row), states_[row].what, states_[row].path,
              ended ? rank.exit_status : 0, ended ? rank.exit_signal : 0}]
          .push_back(row);
    }
    std::vector<MissingRanks> result;
    for (const auto& [what, of] : groups) {
      if (result.size() == HangWait::kMostMissing) break;
      MissingRanks& group = result.emplace_back();
      group.ranks = numbers_of(of);
      group.state = std::get<2>(what);
      group.place = place_of_path(paths_, std::get<3>(what));
      for (const std::uint32_t row : of)
        if (const auto for_ns = states_[row].for_ns)
          group.for_s = std::min(group.for_s.value_or(to_seconds(*for_ns)), to_seconds(*for_ns));
      const shard::Rank& first = data_.ranks[of.front()];
      if (group.state != MissingState::kEnded) continue;
      if ((first.flags & shard::kExitStatusKnown) != 0) group.exit_status = first.exit_status;
      if ((first.flags & shard::kExitSignalKnown) != 0) group.exit_signal = first.exit_signal;
    }
    return result;
  }

  [[nodiscard]] HangWait row_of(const std::vector<std::size_t>& alike) const {
    HangWait row;
    std::vector<std::uint32_t> ranks;
    std::uint64_t shortest_ns = UINT64_MAX;
    for (const std::size_t i : alike) {
      ranks.push_back(waits_[i].call->rank);
      shortest_ns = std::min(shortest_ns, waits_[i].call->lasted_ns);
    }
    const Wait& first = waits_[alike.front()];
    row.ranks = numbers_of(ranks);
    row.place = place_of_path(paths_, first.call->path);
    row.for_s = to_seconds(shortest_ns);
    if (first.call->communicator != kNone) {
      row.communicator = data_.communicators[first.call->communicator].name;
      row.communicator_size = data_.communicators[first.call->communicator].size;
    }
    if (first.waits == Waits::kCollective) row.sequence = first.call->sequence;
    const std::vector<std::uint32_t> missing = missing_of(first);
    row.missing = groups_of(missing);
    row.missing_ranks = numbers_of(missing);
    return row;
  }

  // Waits for the same, those of ranks that are stuck or not.
  [[nodiscard]] std::vector<std::vector<std::size_t>> alike_waits(bool stuck) const {
    std::map<std::size_t, std::vector<std::size_t>> by_operation;
    std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::vector<std::size_t>> by_target;
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      const Wait& wait = waits_[i];
      if (!wait.is_still || wait.waits == Waits::kNotKnown || moves_[wait.call->rank] == stuck) continue;
      if (wait.waits == Waits::kCollective) {
        const Operation& operation = operations_[wait.operation];
        if (operation.is_known && (!operation.absent.empty() || operation.is_mismatched))
          by_operation[wait.operation].push_back(i);
      } else {
        by_target[{wait.call->path, wait.targets}].push_back(i);
      }
    }
    std::vector<std::vector<std::size_t>> all;
    for (auto& [operation, waits] : by_operation) all.push_back(std::move(waits));
    for (auto& [target, waits] : by_target) all.push_back(std::move(waits));
    return all;
  }

  // Of those that a stuck rank waits for, one that is stuck, too.
  [[nodiscard]] std::optional<std::uint32_t> next_stuck(std::uint32_t row) const {
    for (const std::size_t i : waits_of_[row])
      for (const std::uint32_t other : missing_of(waits_[i]))
        if (!moves_[other]) return other;
    return std::nullopt;
  }

  // Each waits for the next. Empty: the chain ends at a rank that waits for nobody.
  [[nodiscard]] std::vector<std::int32_t> find_cycle(std::uint32_t first) const {
    std::unordered_map<std::uint32_t, std::size_t> place;
    std::vector<std::uint32_t> chain;
    std::optional<std::uint32_t> at = first;
    while (at && place.try_emplace(*at, chain.size()).second) {
      chain.push_back(*at);
      at = next_stuck(*at);
    }
    std::vector<std::int32_t> cycle;
    if (!at) return cycle;
    for (std::size_t i = place.at(*at); i < chain.size(); ++i) cycle.push_back(data_.ranks[chain[i]].rank);
    std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
    return cycle;
  }

  void blame(Hang& hang, std::uint32_t row) const {
    hang.rank = data_.ranks[row].rank;
    hang.place = place_of_path(paths_, states_[row].path);
    hang.call_path = frames_of(paths_, states_[row].path);
    hang.follows_failure = has_failed(row);
  }

  void add_mismatch(const Operation& operation, Hang& hang) const {
    hang.mismatch = operation.said.groups(data_.ranks);
    blame(hang, row_of_.at(hang.mismatch.front().ranks.front()));
  }

  [[nodiscard]] std::optional<Hang> describe() const {
    std::vector<std::vector<std::size_t>> waits = alike_waits(true);
    Hang hang;
    hang.is_deadlock = !waits.empty();
    if (waits.empty()) waits = alike_waits(false);
    if (waits.empty()) return std::nullopt;
    const auto place = [&](const std::vector<std::size_t>& alike) {
      const Wait& first = waits_[alike.front()];
      const std::vector<std::uint32_t> missing = missing_of(first);
      const bool mismatched = first.waits == Waits::kCollective && operations_[first.operation].is_mismatched;
      const bool explains = std::any_of(missing.begin(), missing.end(), [&](std::uint32_t row) {
        return hang.is_deadlock ? is_reason(row) : waits_of_[row].empty();
      });
      const bool follows = std::any_of(missing.begin(), missing.end(), [&](std::uint32_t row) {
        return hang.is_deadlock && is_reason(row) && has_failed(row);
      });
      const bool finalizes = first.op == "MPI_Finalize";
      return std::tuple(!mismatched, !explains, !follows, finalizes,
                        -static_cast<std::int64_t>(alike.size()));
    };
    std::vector<std::pair<decltype(place(waits.front())), std::size_t>> order;
    for (std::size_t i = 0; i < waits.size(); ++i) order.emplace_back(place(waits[i]), i);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
    for (const auto& [where, i] : order) {
      if (hang.waiting.size() == Hang::kMostWaits) break;
      hang.waiting.push_back(row_of(waits[i]));
    }
    const std::vector<std::size_t>& first = waits[order.front().second];
    const Wait& wait = waits_[first.front()];
    if (!std::get<0>(order.front().first)) {
      add_mismatch(operations_[wait.operation], hang);
      return hang;
    }
    if (hang.is_deadlock && std::get<1>(order.front().first)) {
      hang.cycle = find_cycle(wait.call->rank);
      if (!hang.cycle.empty()) {
        blame(hang, row_of_.at(hang.cycle.front()));
        return hang;
      }
    }
    const HangWait& row = hang.waiting.front();
    if (!row.missing.empty()) blame(hang, row_of_.at(row.missing.front().ranks.front()));
    return hang;
  }

  const shard::ShardData& data_;
  const CallPaths& paths_;
  std::int64_t time_utc_ns_ = 0;
  std::unordered_map<std::int32_t, std::uint32_t> row_of_;
  // By row of ranks.
  std::vector<bool> ended_, stale_, others_may_move_, moves_;
  std::vector<const shard::Thread*> main_thread_;
  std::vector<State> states_;
  std::vector<std::vector<std::size_t>> waits_of_, absent_from_, awaited_by_;

  std::vector<Wait> waits_;
  std::vector<Operation> operations_;
  std::map<std::uint32_t, std::vector<Member>> members_;  // by communicator
  std::map<std::uint32_t, bool> sends_on_;                // by communicator
  std::vector<shard::PendingRequest> pending_;            // by call
  std::vector<std::uint32_t> moving_;
};

}  // namespace

bool wakes_up(const shard::Thread& thread) {
  return thread.unmoved_cpu_ns > std::max(kAsleepCpu_ns, thread.unmoved_ns / kAsleepCpuOneIn);
}

bool was_alive(const shard::Thread& thread, const shard::Rank& rank) {
  if (thread.count != 1) return (thread.flags & shard::Thread::kRuns) != 0;
  const std::int64_t end = thread.start_utc_ns + static_cast<std::int64_t>(thread.elapsed_ns);
  return (thread.flags & shard::Thread::kRuns) != 0 || end + kGone_ns >= look_utc_ns(rank);
}

std::optional<Hang> find_hang(const shard::ShardData& data, const CallPaths& paths) {
  return HangSearch(data, paths).find();
}

std::vector<MismatchedRanks> find_mismatch(const shard::ShardData& data, const CallPaths& paths,
                                           std::int32_t rank) {
  const auto leaf_of = [&](std::uint32_t path) {
    const shard::Frame* const frame = path < paths.size() ? paths.frame(path) : nullptr;
    return frame == nullptr ? std::string_view() : std::string_view(paths.text(frame->name));
  };
  const auto own =
      std::find_if(data.calls_under_way.begin(), data.calls_under_way.end(), [&](const CallUnderWay& call) {
        return call.rank < data.ranks.size() && data.ranks[call.rank].rank == rank && call.main_thread &&
               call.sequence != kNone && call.communicator != kNone;
      });
  if (own == data.calls_under_way.end() || own->communicator >= data.communicators.size() ||
      is_wait(leaf_of(own->path)))
    return {};
  std::set<std::uint32_t> members;  // rows; none are known of communicators that share an entry
  std::set<std::uint32_t> others;
  for (const shard::CollectiveCount& row : data.collective_counts)
    (row.communicator == own->communicator ? members : others).insert(row.rank);
  // Of all ranks, some may not have been through MPI_Init yet.
  const std::uint32_t size = data.communicators[own->communicator].size;
  const bool is_of_all = size == data.ranks.size() && std::ranges::includes(members, others);
  if (members.size() != size && !(is_of_all && members.contains(own->rank))) return {};
  SaidOfOperation said;
  std::set<std::uint32_t> inside;
  for (const CallUnderWay& call : data.calls_under_way) {
    const bool same = call.communicator == own->communicator && call.sequence == own->sequence;
    const std::string_view op = leaf_of(call.path);
    if (!same || call.rank >= data.ranks.size() || is_wait(op) || op == "MPI_Finalize") continue;
    if (!members.contains(call.rank)) return {};
    inside.insert(call.rank);
    said.add_inside(call, op);
  }
  for (const shard::CollectiveCount& row : data.collective_counts) {
    const bool was_last = row.communicator == own->communicator && row.count == own->sequence + 1;
    const std::string_view op = leaf_of(row.path);
    if (was_last && row.rank < data.ranks.size() && !inside.contains(row.rank) && op != "MPI_Finalize")
      said.add_left(row.rank, op, row.agreed_bytes);
  }
  return said.groups(data.ranks);
}

}  // namespace clusterprof::report
