// SPDX-License-Identifier: BSD-3-Clause
// What a call took is divided into what its rank did by itself and what came behind the last operation that
// it depended on (Recording); a prediction is a replay of that with other amounts (ChangedCosts).
#include "aggregator/whatif/whatif.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "aggregator/merger.hpp"
#include "aggregator/waits/activity.hpp"
#include "aggregator/waits/clock_model.hpp"
#include "aggregator/waits/completeness.hpp"
#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/replay_engine.hpp"
#include "aggregator/waits/trace.hpp"
#include "aggregator/whatif/few_samples.hpp"
#include "aggregator/whatif/fork_join.hpp"
#include "aggregator/whatif/processors.hpp"
#include "aggregator/whatif/reach.hpp"
#include "aggregator/whatif/stretches.hpp"
#include "aggregator/whatif/teams.hpp"
#include "aggregator/whatif/threads.hpp"
#include "base/first_names.hpp"

namespace clusterprof::aggregator::whatif {
namespace {

using namespace waits;
using shard::ShardData;

// 95 % of a normal distribution.
constexpr double kNormal = 1.96;
// A thread that was seen in a wait is not looked at for so long, or so many sampling periods: what it waits
// for next is charged to the first wait until then (docs/design/0002-time-from-samples.md).
constexpr double kBlind_s = 0.040, kBlindPeriods = 4;
// How much single runs of a program differ when nothing is changed, as a share of the elapsed time.
constexpr double kRunVariation = 0.01;
// What is latency and what is bandwidth in a transfer is estimated: so much of a gain may be wrong.
// Collective operations and messages of other sizes tell it worse than messages of the sizes below.
constexpr double kNetworkError = 0.25, kRoughNetworkError = 0.5;
// How well work divides among other numbers of threads, and what memory can feed, is not recorded.
constexpr double kThreadsError = 0.25;
// Transfers that show the latency, and those that show the bandwidth.
constexpr std::uint64_t kSmall_bytes = 1024, kLarge_bytes = 64 * 1024;
// From which size on a send waits for its receive, where no message of the run tells.
constexpr std::uint64_t kUsualRendezvous_bytes = 64 * 1024;
// A receive that is later tells whether a send waits for it.
constexpr std::int64_t kTellingDelay_ns = 50'000;
constexpr std::int64_t kNoTime = -1;
// Times in nanoseconds have 63 bits.
constexpr double kLongest_s = 3e9;
constexpr std::size_t kMostRows = 20;
// Of a process's time: of its start and end, when there is no main thread that is recorded.
constexpr double kMostOutsideLife = 0.1;
// Of a rank's time at a call site: with less, it did nothing but wait for a processor.
constexpr double kLeastWork = 1e-3;
// Of the elapsed time: what is shorter is no row of the critical path.
constexpr double kLeastOfPath = 1e-6;
// Keys of gaps before the first and after the last call, which are no call sites.
constexpr std::uint32_t kHelperHead = kNone - 2, kHead = kNone - 1, kTail = kNone;

std::uint64_t key_of(std::uint32_t rank, std::uint32_t site) { return std::uint64_t{rank} << 32 | site; }

double seconds(double ns) { return ns * 1e-9; }

// Of factors: many changes of the same time must not become infinite.
constexpr double kMostProduct = 1e12;
double product(double a, double b) { return std::min(a * b, kMostProduct); }

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a thread did between two calls.
struct Stretch {
  std::int64_t useful_ns = 0;          // outside MPI
  std::int64_t calls_ns = 0;           // in calls without events
  std::int64_t paused_ns = 0;          // nobody knows what it did then: no change makes that shorter
  std::uint32_t first = 0, count = 0;  // rows of Recording::parts: shares of useful_ns
};
struct Part {
  std::uint32_t path = 0;
  float share = 0;
  float ran = 1;  // the share of it on a processor
};

// Transfers between ranks of one node, and of several.
struct Network {
  double latency_ns = 0, ns_per_byte = 0;  // 0: no transfer of the run tells
  bool latency_is_rough = false, bandwidth_is_rough = false;
  std::uint64_t rendezvous_bytes = kUsualRendezvous_bytes;
};

// The recorded run, as a replay needs it.
struct Recording {
  Trace trace;
  Matches matches;
  std::vector<Stretch> before;  // per first event of a call
  std::vector<Stretch> tail;    // per lane
  std::vector<Part> parts;
  std::vector<std::int64_t> own_ns;      // per first event of a call: without what it waited for
  std::vector<std::int64_t> large_ns;    // of that, transfers of large messages: the bandwidth of the network
  std::vector<std::int64_t> transit_ns;  // per event: from what it depends on to its end
  std::vector<bool> begins_in_call;      // per event: that is no earlier than the call's begin
  std::vector<bool> elastic;             // per first event of a call: it was polled for
  std::vector<bool> waits_for_receive;   // per event
  std::vector<std::uint64_t> bytes;      // per event; of collectives without them the mean of their call site
  std::vector<bool> across;              // per event: nodes
  Reaches reaches;
  std::array<Network, 2> network;    // within a node, and across
  std::vector<std::uint32_t> place;  // per first event of a call: the site whose gaps its gap counts to
  // Where only stretches of the run are known: these, the stretch of each lane, and per first event of a call
  // whether it counts for the stretch. Empty: the trace is the run.
  std::vector<TimeSpan> spans;
  std::vector<std::uint32_t> stretch_of;
  std::vector<bool> is_counted;
  Represented represented;  // what they stand for
  double scale = 1;         // of how much time of the run each nanosecond of the replay tells
  // Of the time of each rank's path (key_of), what is input and output: of its main thread, and of its
  // others.
  std::array<std::unordered_map<std::uint64_t, double>, 2> io;
  std::unordered_map<std::uint64_t, double> blocked;  // likewise, of main threads: what they waited
  std::vector<std::uint32_t> region_of;               // Teams::region_of()
  std::vector<bool> is_join;  // per path: a thread waits for the end of another one there
  // Gaps of main threads in which threads are made and joined, by lane and call (key_of).
  std::unordered_map<std::uint64_t, ForkJoin::Window> windows;
  LaneTies ties;

  // Whether the gap before the lane's first call is known: that of a helper thread only if what made it is.
  [[nodiscard]] bool has_head(const Lane& lane) const {
    return lane.thread == 0 || ties.is_made[trace.events[lane.first].lane];
  }
  [[nodiscard]] double io_share(std::uint32_t rank, bool main, std::uint32_t path) const {
    const auto& shares = io[main ? 0 : 1];
    const auto found = shares.find(key_of(rank, path));
    return found == shares.end() ? 0 : found->second;
  }
  [[nodiscard]] const ForkJoin::Window* window(const Lane& lane, std::uint32_t call) const {
    if (windows.empty() || lane.thread != 0) return nullptr;
    const auto found = windows.find(key_of(trace.events[lane.first].lane, call));
    return found == windows.end() ? nullptr : &found->second;
  }

  [[nodiscard]] const Stretch& stretch(const Lane& lane, std::uint32_t call) const {
    return call == lane.end ? tail[trace.events[lane.first].lane] : before[call];
  }
  [[nodiscard]] std::uint32_t site_of(const Lane& lane, std::uint32_t call) const {
    if (call == lane.first && spans.empty()) return lane.thread == 0 ? kHead : kHelperHead;
    return call == lane.end ? kTail : trace.events[call].path;
  }
  [[nodiscard]] bool counts(std::uint32_t call) const { return spans.empty() || is_counted[call]; }
  // When the time before a call began.
  [[nodiscard]] std::int64_t gap_begin(const Lane& lane, std::uint32_t call) const {
    return call == lane.first ? lane.begin_ns : trace.events[call - 1].exit_ns;
  }
  // How much of the time before the call lies within the lane's stretch.
  [[nodiscard]] double share_within(const Lane& lane, std::uint32_t call) const {
    if (spans.empty() || call == lane.end) return 1;
    const std::int64_t end_ns = spans[stretch_of[trace.events[lane.first].lane]].end_ns;
    const std::int64_t from_ns = gap_begin(lane, call), until_ns = recorded_enter(call);
    if (until_ns <= end_ns || until_ns <= from_ns) return 1;
    return std::clamp(static_cast<double>(end_ns - from_ns) / static_cast<double>(until_ns - from_ns), 0.0,
                      1.0);
  }
  // Whether the time on this path is waiting for a processor.
  [[nodiscard]] bool lacks_processor(std::uint32_t path) const {
    return !trace.lacks_processor.empty() && trace.lacks_processor[path];
  }
  // Where ranks are compared.
  [[nodiscard]] std::uint32_t place_of(const Lane& lane, std::uint32_t call) const {
    return call == lane.end || call == lane.first ? site_of(lane, call) : place[call];
  }
  // A call that was polled for begins where the polling did.
  [[nodiscard]] std::int64_t recorded_enter(std::uint32_t e) const {
    const std::uint32_t call = trace.call_begin(e);
    return trace.events[call].enter_ns - (elastic[call] ? before[call].calls_ns : 0);
  }
  // How many latencies one after the other the operation takes.
  [[nodiscard]] double steps(std::uint32_t e) const {
    const Event& event = trace.events[e];
    if (event.kind < MpiEventKind::kCollective || event.match == kNone) return 1;
    return std::bit_width(std::max(matches.instances[event.match].count, 1u) - 1);
  }
  // Of a transfer that takes `ns`: what is latency, and what bandwidth.
  [[nodiscard]] std::pair<double, double> network_parts(std::uint32_t e, double ns) const {
    const Network& net = network[across[e] ? 1 : 0];
    const double latency = std::min(ns, steps(e) * net.latency_ns);
    return {latency, std::min(ns - latency, static_cast<double>(bytes[e]) * net.ns_per_byte)};
  }
  [[nodiscard]] double network_ns(std::uint32_t e) const {
    const auto [latency, bandwidth] = network_parts(e, 1e18);
    return latency + bandwidth;
  }
  // Whether a message is transferred only once both sides are there: a large one.
  [[nodiscard]] bool is_handed_over(std::uint32_t e) const {
    const Event& event = trace.events[e];
    if (event.kind != MpiEventKind::kReceive) return waits_for_receive[e];
    if (event.match == kNone || bytes[e] < network[across[e] ? 1 : 0].rendezvous_bytes) return false;
    const Event& send = trace.events[event.match];
    const bool was_buffered = (send.flags & wire::kEventNonblocking) == 0 && send.exit_ns < event.start_ns;
    return !was_buffered;
  }
  // When the receive of a send was posted; kNone without one.
  [[nodiscard]] std::uint32_t receive_of(std::uint32_t e) const {
    const Event& event = trace.events[e];
    if (event.match == kNone) return kNone;
    if (event.kind == MpiEventKind::kSend) return event.match;
    return event.kind == MpiEventKind::kSendDone ? trace.events[event.match].match : kNone;
  }
};

// Plays the recording as it was, to learn what each operation depended on and when that happened.
class RecordedCosts {
 public:
  RecordedCosts(const Recording& recording, std::int64_t first_ns)
      : r_(recording), first_ns_(first_ns), dependence_ns(recording.trace.events.size(), kNoTime) {}

  [[nodiscard]] std::int64_t before(const Lane& lane, std::uint32_t call) const {
    const std::int64_t until_ns = call == lane.end ? lane.end_ns : r_.recorded_enter(call);
    return std::max<std::int64_t>(until_ns - r_.gap_begin(lane, call), 0);  // adjusted clocks may go back
  }
  [[nodiscard]] std::int64_t recorded_enter(std::uint32_t e) const { return r_.recorded_enter(e); }
  [[nodiscard]] bool waits_for_receive(std::uint32_t e) const { return r_.waits_for_receive[e]; }
  [[nodiscard]] Reach reach(std::uint32_t member) const { return r_.reaches.of_member[member]; }
  [[nodiscard]] bool is_completed_late(std::uint32_t instance) const {
    return r_.reaches.is_completed_late[instance];
  }
  [[nodiscard]] static bool is_left_out(std::uint32_t) { return false; }
  static void begin(std::uint32_t, std::int64_t) {}
  void completes(std::uint32_t, std::uint32_t e, Dependence dependence) {
    if (dependence.event != kNone) dependence_ns[e] = std::max<std::int64_t>(dependence.ns, 0);
  }
  [[nodiscard]] std::int64_t end(std::uint32_t call) const {
    return r_.trace.events[call].exit_ns - first_ns_;
  }

 private:
  const Recording& r_;
  std::int64_t first_ns_;

 public:
  std::vector<std::int64_t> dependence_ns;  // per event, since the first lane began; kNoTime: none
};

// The changes, worked out for a recording.
struct Amounts {
  std::vector<float> of_path;  // factor per path
  bool paths_change = false;
  bool own_processors = false;         // no thread waits for a processor between two calls
  std::vector<ThreadFactors> threads;  // per change of the number of threads
  double latency = 1, bandwidth = 1, io = 1;
  std::vector<bool> removed;  // per path of an MPI call; empty: none is
  // Of a function, or with no `inside` of a whole gap.
  struct Balance {
    std::vector<bool> inside;                          // per path
    std::unordered_map<std::uint64_t, double> factor;  // per rank and Recording::place_of
    std::unordered_map<std::uint64_t, double> added;   // ns per gap, where the rank had none
    // Of waiting for a processor: a factor where there is less to do, and ns per gap where there is more.
    std::unordered_map<std::uint64_t, double> waiting, added_waiting;
  };
  std::vector<Balance> balances;
  // The same among the threads of OpenMP's teams, and among threads that are made and joined together.
  std::vector<Teams::Balance> team_balances;
  struct GroupBalance {
    std::vector<bool> inside;                          // per path
    std::unordered_map<std::uint64_t, double> factor;  // per group and thread
  };
  std::vector<GroupBalance> group_balances;
  // Of a main thread's time in a region, whose last thread decides: by rank and region.
  std::unordered_map<std::uint64_t, double> of_region;

  [[nodiscard]] bool change_work() const {
    return paths_change || own_processors || io != 1 || !balances.empty() || !team_balances.empty() ||
           !group_balances.empty();
  }
  // Of what a thread works, as long as it does not have to wait for others of its team.
  [[nodiscard]] double of_work(const Recording& recording, std::uint32_t rank, bool main,
                               std::uint32_t path) const {
    return static_cast<double>(of_path[path]) *
           (io == 1 ? 1 : 1 + recording.io_share(rank, main, path) * (io - 1));
  }
  // Of a part of a thread's time.
  [[nodiscard]] double factor(const Recording& recording, std::uint32_t rank, bool main,
                              std::uint32_t path) const {
    const double* const region = main ? in_region(recording, rank, path) : nullptr;
    return (region != nullptr ? *region : of_work(recording, rank, main, path)) * of_number(rank, path);
  }
  // Of sampled time.
  [[nodiscard]] double factor(const Recording& recording, const shard::Value& value) const {
    const double* const region = value.main_thread ? in_region(recording, value.rank, value.path) : nullptr;
    return (region != nullptr ? *region
                              : static_cast<double>(of_path[value.path]) *
                                    (value.category == shard::Category::kIo ? io : 1)) *
           of_number(value.rank, value.path);
  }
  // Of a thread in a span of its life.
  [[nodiscard]] double group_factor(std::uint32_t group, std::uint32_t thread, std::uint32_t path) const {
    double all = 1;
    for (const GroupBalance& balance : group_balances)
      if (balance.inside[path])
        if (const auto found = balance.factor.find(key_of(group, thread)); found != balance.factor.end())
          all *= found->second;
    return all;
  }

 private:
  [[nodiscard]] double of_number(std::uint32_t rank, std::uint32_t path) const {
    double factor = 1;
    for (const ThreadFactors& regions : threads)
      factor = product(factor, static_cast<double>(regions.of(rank, path)));
    return factor;
  }
  [[nodiscard]] const double* in_region(const Recording& recording, std::uint32_t rank,
                                        std::uint32_t path) const {
    if (of_region.empty() || recording.region_of[path] == 0) return nullptr;
    const auto found = of_region.find(key_of(rank, recording.region_of[path]));
    return found == of_region.end() ? nullptr : &found->second;
  }
};

class ChangedCosts {
 public:
  ChangedCosts(const Recording& recording, const ForkJoin& fork_join, const Amounts& amounts)
      : r_(recording),
        threads_(fork_join),
        a_(amounts),
        now_(recording.trace.lanes.size()),
        cause(recording.trace.events.size(), kNone),
        behind_ns(recording.trace.events.size()) {}

  // Divides the time outside MPI before the call: take(path, ns, how much of that on a processor); path 0 for
  // what no path is known of.
  template <typename Take>
  void divide(const Lane& lane, std::uint32_t call, const Take& take) const {
    const Stretch& stretch = r_.stretch(lane, call);
    const std::uint64_t key = a_.balances.empty() ? 0 : key_of(lane.rank, r_.place_of(lane, call));
    const auto found_in = [&](const auto& table, double otherwise) {
      const auto found = table.find(key);
      return found == table.end() ? otherwise : found->second;
    };
    double whole = 1, whole_waiting = 1, added = 0, added_waiting = 0;
    for (const Amounts::Balance& balance : a_.balances) {
      added += found_in(balance.added, 0);
      added_waiting += a_.own_processors ? 0 : found_in(balance.added_waiting, 0);
      if (!balance.inside.empty()) continue;
      whole *= found_in(balance.factor, 1);
      whole_waiting *= found_in(balance.waiting, 1);
    }
    double rest = static_cast<double>(stretch.useful_ns), known = 0, ran = 0;
    for (std::uint32_t i = stretch.first; i < stretch.first + stretch.count; ++i) {
      const Part& part = r_.parts[i];
      const double ns = static_cast<double>(stretch.useful_ns) * static_cast<double>(part.share);
      rest -= ns;
      known += ns;
      ran += ns * static_cast<double>(part.ran);
      const bool lacks = r_.lacks_processor(part.path);
      if (a_.own_processors && lacks) continue;
      double factor = a_.factor(r_, lane.rank, lane.thread == 0, part.path) * (lacks ? whole_waiting : whole);
      for (const Amounts::Balance& balance : a_.balances)
        if (!balance.inside.empty() && balance.inside[part.path])
          factor *= found_in(lacks ? balance.waiting : balance.factor, 1);
      take(part.path, ns * factor, ns * factor * static_cast<double>(part.ran));
    }
    const double left_ns = rest * whole;
    take(0, left_ns + added + added_waiting, (known > 0 ? left_ns * ran / known : left_ns) + added);
  }
  [[nodiscard]] double useful_ns(const Lane& lane, std::uint32_t call) const {
    if (!a_.change_work()) return static_cast<double>(r_.stretch(lane, call).useful_ns);
    if (const ForkJoin::Window* const window = r_.window(lane, call); window != nullptr)
      return with_threads_ns(lane, call, *window);
    double sum = 0;
    divide(lane, call, [&](std::uint32_t, double ns, double) { sum += ns; });
    return std::max(sum, 0.0);
  }
  // Of the time outside MPI before the call, on a processor; and waiting for one.
  struct ProcessorTime {
    double ran_ns = 0, lacked_ns = 0;
  };
  [[nodiscard]] ProcessorTime processor_time(const Lane& lane, std::uint32_t call) const {
    ProcessorTime time;
    divide(lane, call, [&](std::uint32_t path, double ns, double ran_ns) {
      time.ran_ns += std::max(ran_ns, 0.0);
      if (r_.lacks_processor(path)) time.lacked_ns += ns;
    });
    return time;
  }
  // Of what a lane does in a gap without waiting for threads that it joins.
  [[nodiscard]] double own_factor(const Lane& lane, std::uint32_t call) const {
    if (!a_.change_work()) return 1;
    std::uint32_t group = 0;
    if (const ForkJoin::Window* const window = r_.window(lane, call); window != nullptr)
      for (std::uint32_t s = window->first; s < window->end && group == 0; ++s) group = threads_.group_of(s);
    const Stretch& stretch = r_.stretch(lane, call);
    double before_ns = static_cast<double>(stretch.useful_ns), after_ns = 0;
    for (std::uint32_t i = stretch.first; i < stretch.first + stretch.count; ++i)
      if (r_.is_join[r_.parts[i].path])
        before_ns -= static_cast<double>(stretch.useful_ns) * static_cast<double>(r_.parts[i].share);
    divide(lane, call, [&](std::uint32_t path, double ns, double) {
      if (path == 0 || !r_.is_join[path]) after_ns += ns * (path == 0 ? 1 : a_.group_factor(group, 0, path));
    });
    return before_ns > 0 ? std::max(after_ns, 0.0) / before_ns : 1;
  }
  [[nodiscard]] std::int64_t after_joins(const Lane& lane, std::uint32_t call, std::int64_t ns,
                                         const std::vector<LaneTies::Joined>& joins,
                                         const std::vector<std::int64_t>& ends) {
    const double own = own_factor(lane, call);
    const Stretch& stretch = r_.stretch(lane, call);
    auto clock_ns = static_cast<double>(ns), rest_ns = static_cast<double>(stretch.useful_ns);
    for (std::size_t i = 0; i < joins.size(); ++i) {
      clock_ns += static_cast<double>(joins[i].own_ns) * own;
      clock_ns = std::max(clock_ns, static_cast<double>(ends[i])) + static_cast<double>(joins[i].behind_ns);
      rest_ns -= static_cast<double>(joins[i].own_ns + joins[i].waited_ns);
    }
    const bool polled = call != lane.end && r_.elastic[call];
    const auto calls_ns = static_cast<double>((polled ? 0 : stretch.calls_ns) + stretch.paused_ns);
    // Calls without events before the last join are in what was spent until then.
    clock_ns += rest_ns > 0 ? rest_ns * own + calls_ns : std::max(rest_ns + calls_ns, 0.0);
    with_threads_[key_of(r_.trace.events[lane.first].lane, call)] =
        std::max(clock_ns - static_cast<double>(ns) - calls_ns, 0.0);
    return std::llround(std::min(clock_ns, 4e18));
  }
  // How long a gap took in which other threads were joined; empty: none were.
  [[nodiscard]] std::optional<double> gap_with_threads_ns(const Lane& lane, std::uint32_t call) const {
    const auto found = with_threads_.find(key_of(r_.trace.events[lane.first].lane, call));
    return found == with_threads_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::int64_t before(const Lane& lane, std::uint32_t call) const {
    const bool polled = call != lane.end && r_.elastic[call];
    const Stretch& stretch = r_.stretch(lane, call);
    return std::llround(std::min(useful_ns(lane, call), 4e18)) + (polled ? 0 : stretch.calls_ns) +
           stretch.paused_ns;
  }
  [[nodiscard]] std::int64_t recorded_enter(std::uint32_t e) const { return r_.recorded_enter(e); }
  [[nodiscard]] bool waits_for_receive(std::uint32_t e) const { return r_.waits_for_receive[e]; }
  [[nodiscard]] Reach reach(std::uint32_t member) const { return r_.reaches.of_member[member]; }
  [[nodiscard]] bool is_completed_late(std::uint32_t instance) const {
    return r_.reaches.is_completed_late[instance];
  }
  [[nodiscard]] bool is_left_out(std::uint32_t call) const {
    return !a_.removed.empty() && a_.removed[r_.trace.events[call].path];
  }
  void begin(std::uint32_t call, std::int64_t ns) {
    Now& now = now_[r_.trace.events[call].lane];
    now = {ns, later_by(ns, is_left_out(call) ? 0 : own_ns(call)), ns};
    cause[call] = kNone;
    behind_ns[call] = now.done_ns - ns;
  }
  void completes(std::uint32_t call, std::uint32_t e, Dependence dependence) {
    if (dependence.event == kNone) return;
    Now& now = now_[r_.trace.events[call].lane];
    const std::int64_t from_ns = r_.begins_in_call[e] ? std::max(dependence.ns, now.begin_ns) : dependence.ns;
    const std::int64_t done_ns = later_by(from_ns, transit_ns(e));
    now.waited_until_ns = std::max(now.waited_until_ns, dependence.ns);
    if (done_ns <= now.done_ns) return;
    now.done_ns = done_ns;
    cause[call] = dependence.ns > now.begin_ns ? dependence.event : kNone;
    behind_ns[call] = done_ns - std::max(dependence.ns, now.begin_ns);
  }
  [[nodiscard]] std::int64_t end(std::uint32_t call) {
    const Now& now = now_[r_.trace.events[call].lane];
    const double wait_ns = static_cast<double>(std::min(now.waited_until_ns, now.done_ns) - now.begin_ns);
    if (wait_ns > 0 && r_.counts(call)) wait_of_site[r_.trace.events[call].path] += wait_ns;
    return now.done_ns;
  }

 private:
  // A gap in which the thread makes other threads and joins them. How its own work changes is known of the
  // whole gap; how that of the others does, of each of them.
  [[nodiscard]] double with_threads_ns(const Lane& lane, std::uint32_t call,
                                       const ForkJoin::Window& window) const {
    const auto [row, is_new] = with_threads_.try_emplace(key_of(r_.trace.events[lane.first].lane, call), 0);
    if (!is_new) return row->second;
    const auto useful_ns = static_cast<double>(r_.stretch(lane, call).useful_ns);
    const double own = own_factor(lane, call);
    const double changed_ns = threads_.play(
        lane.rank, window, own, [&](std::uint32_t thread, std::uint32_t span, std::uint32_t path) {
          return a_.factor(r_, lane.rank, false, path) *
                 a_.group_factor(threads_.group_of(span), thread, path);
        });
    // Until the last join there may be calls without events, which are no part of useful_ns.
    const double as_recorded_ns =
        threads_.play(lane.rank, window, 1, [](std::uint32_t, std::uint32_t, std::uint32_t) { return 1; });
    const auto until_last_ns = static_cast<double>(threads_.last_ns(window) - window.begin_ns);
    const double rest_ns = std::max(useful_ns - until_last_ns, 0.0);
    return row->second = std::max(useful_ns + changed_ns - as_recorded_ns + rest_ns * (own - 1), 0.0);
  }
  [[nodiscard]] std::int64_t own_ns(std::uint32_t call) const {
    if (a_.bandwidth == 1) return r_.own_ns[call];
    const auto own_ns = static_cast<double>(r_.own_ns[call]);
    const auto large_ns = static_cast<double>(r_.large_ns[call]);
    return std::llround(std::clamp(own_ns + large_ns * (1 / a_.bandwidth - 1), 0.0, 4e18));
  }
  [[nodiscard]] std::int64_t transit_ns(std::uint32_t e) const {
    if (a_.latency == 1 && a_.bandwidth == 1) return r_.transit_ns[e];
    const auto ns = static_cast<double>(r_.transit_ns[e]);
    const auto [latency, bandwidth] = r_.network_parts(e, ns);
    return std::llround(
        std::clamp(ns + latency * (a_.latency - 1) + bandwidth * (1 / a_.bandwidth - 1), 0.0, 4e18));
  }

  struct Now {
    std::int64_t begin_ns = 0, done_ns = 0, waited_until_ns = 0;
  };
  const Recording& r_;
  const ForkJoin& threads_;
  const Amounts& a_;
  mutable std::unordered_map<std::uint64_t, double> with_threads_;  // by lane and call
  std::vector<Now> now_;                                            // the call of each lane

 public:
  // Per first event of a call: the event before which another lane did what this call waited for; kNone: its
  // own lane did.
  std::vector<std::uint32_t> cause;
  std::vector<std::int64_t> behind_ns;                     // what the call took after its cause or its begin
  std::unordered_map<std::uint32_t, double> wait_of_site;  // ns per path
};

Error not_found(const Change& change, const char* what) {
  return {"'" + change.text + "': the run has no such " + what, ErrorKind::kNotFound};
}

// What a change names may be several things.
Error which_of(const Change& change, const char* what, const std::set<std::string_view>& names) {
  constexpr std::size_t kMostNames = 8;
  return {"'" + change.text + "': which of these " + what + ": " +
              first_names({names.begin(), names.end()}, kMostNames),
          ErrorKind::kBadArgument};
}

bool has_any(const std::vector<bool>& paths) {
  return std::find(paths.begin(), paths.end(), true) != paths.end();
}

// The last part of "ns::Solver<double>::run(int)", "module.Class.step".
std::string_view last_part(std::string_view name, shard::FrameKind kind) {
  if (kind == shard::FrameKind::kPython) return name.substr(name.rfind('.') + 1);
  const std::size_t arguments = name.find('(');
  if (arguments != std::string_view::npos && arguments != 0) name = name.substr(0, arguments);
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (depth == 0 && name[i] == ':' && name[i + 1] == ':') begin = i + 2;
  }
  name = name.substr(begin);
  return name.substr(0, name.find('<'));
}

}  // namespace

struct WhatIf::State {
  TraceBuilder builder{TraceBuilder::Keep::kAllOfRanks};
  Merger merger;
  ShardData merged;
  Recording recording;
  Teams teams;
  ForkJoin fork_join;
  std::vector<std::vector<ForkJoin::Window>> windows;  // per rank: what is replayed of its main thread
  bool from_sums = false;
  std::size_t threads = 1;
  double elapsed_s = 0, period_s = 0;
  std::vector<double> processors;       // of nodes, for replays of changes; 0: not known
  std::vector<double> wanted_in_calls;  // per rank: wanted_in_mpi()
  Lacked lacked;
  Outcome replayed;

  Result<void> prepare();
  Result<void> take_stretches(const ClockModel& clocks);
  // On the one clock that all times of the trace are on; there are lanes.
  [[nodiscard]] std::int64_t begin_of_run_ns() const {
    std::int64_t ns = recording.trace.lanes.front().begin_ns;
    for (const Lane& lane : recording.trace.lanes) ns = std::min(ns, lane.begin_ns);
    return ns;
  }
  [[nodiscard]] std::int64_t end_of_run_ns() const {
    std::int64_t ns = recording.trace.lanes.front().end_ns;
    for (const Lane& lane : recording.trace.lanes) ns = std::max(ns, lane.end_ns);
    return ns;
  }
  [[nodiscard]] Amounts no_change() const {
    Amounts amounts;
    amounts.of_path.assign(merged.paths.size(), 1);
    return amounts;
  }
  void find_threads();
  void find_windows_of_gaps();
  void find_ties();
  void find_windows_of_ranks();
  [[nodiscard]] double play(std::uint32_t rank, const Amounts& amounts) const;
  void find_stretches();
  void divide_tails();
  void find_places();
  void find_io();
  void find_blocked();
  void find_bytes();
  void find_rendezvous();
  bool calibrate();
  void find_network(const RecordedCosts& recorded, std::int64_t first_ns);
  void set_outcome_of_useful(const std::vector<double>& useful_ns, Outcome& outcome) const;
  Outcome replay(const Amounts& amounts) const;
  Outcome add_up(const Amounts& amounts) const;
  Outcome outcome(const Amounts& amounts) const { return from_sums ? add_up(amounts) : replay(amounts); }
  using Engine = ReplayEngine<ChangedCosts>;
  [[nodiscard]] double end_in_stretch(const Engine& engine, const ChangedCosts& costs,
                                      std::uint32_t lane) const;
  std::vector<std::uint32_t> elapsed_of_stretches(const Engine& engine, const ChangedCosts& costs,
                                                  Outcome& outcome) const;
  using PathSums = std::map<std::pair<std::uint32_t, std::uint32_t>, double>;  // ns by rank and path
  // Returns how many of its calls may wait for other ranks.
  double add_critical_path(const ChangedCosts& costs, std::uint32_t last_lane, PathSums& sums,
                           double& paused_ns) const;
  void critical_path(const ChangedCosts& costs, const std::vector<std::uint32_t>& last_lanes,
                     Outcome& outcome) const;
  [[nodiscard]] TimeRow row_of(std::uint32_t path) const;

  template <typename Of>
  [[nodiscard]] std::vector<bool> paths_with(const Of& frame_is_meant) const;
  [[nodiscard]] Result<std::vector<bool>> paths_of(const Change& change) const;
  [[nodiscard]] Result<std::vector<bool>> paths_in_function(const Change& change) const;
  [[nodiscard]] Result<std::vector<bool>> paths_at(const Change& change) const;
  Result<Amounts> amounts_of(const std::vector<Change>& changes) const;
  Result<void> add_rank_mean(const Change& change, Amounts& amounts) const;
  Result<void> add_function_balance(const Change& change, Amounts& amounts) const;
  Result<void> add_balance(const Change& change, std::vector<bool> inside, std::uint32_t one,
                           Amounts& amounts) const;
  [[nodiscard]] Amounts::GroupBalance group_balance(const std::vector<bool>& inside) const;
  void find_processors();
  void use_processors(const ChangedCosts& costs, const std::vector<double>& useful_ns,
                      Outcome& outcome) const;
  // Whether processors that threads lacked may make a prediction wrong.
  [[nodiscard]] bool is_short_of_processors() const { return !from_sums && lacked.main_s > 0; }
  // `without`: with the change, if nobody waited for a processor between two calls.
  [[nodiscard]] double processors_error_s(const Outcome& outcome, const Outcome& without) const;
  [[nodiscard]] double spread_s(const Outcome& outcome) const;
  [[nodiscard]] double error_s(const Amounts& amounts, const Outcome& outcome,
                               const std::function<Outcome()>& without) const;
  template <typename Take>
  void for_each_stretch(const Take& take) const;
};

// --- the recording ----------------------------------------------------------------------------------------

Result<void> WhatIf::State::prepare() {
  merged = merger.finish();
  if (merged.ranks.empty()) return Error{"the shards have no ranks", ErrorKind::kNotFound};
  period_s = merged.run.rate_hz == 0 ? 0 : 1.0 / merged.run.rate_hz;
  lacked = lacked_processors(merged);
  recording.trace = builder.finish(merged);
  Trace& trace = recording.trace;
  find_threads();
  if (trace.lanes.empty()) {
    for (const shard::Rank& rank : merged.ranks)
      if ((rank.flags & shard::kUsedMpi) != 0)
        return Error{"the run has no MPI events to replay", ErrorKind::kNotFound};
    from_sums = true;
    find_io();
    find_windows_of_ranks();
    replayed = outcome(no_change());
    elapsed_s = replayed.elapsed_s;
    if (!(elapsed_s > 0)) return Error{"nothing is predicted: the run took no time", ErrorKind::kNotFound};
    return {};
  }
  recording.matches = match_events(trace, count_missing(trace, merged), was_recorded_in_windows(merged));
  Incomplete why = why_incomplete(trace, recording.matches, merged);
  const bool is_sample = why == Incomplete::kSampled;
  if (is_sample) why = why_without_stretches(trace, merged);
  if (why != Incomplete::kNo) {
    static constexpr const char* kWhy[] = {"",
                                           "its events are a sample",
                                           "ranks have no MPI events",
                                           "it was recorded in windows",
                                           "MPI calls never returned",
                                           "MPI events were lost",
                                           "too many MPI operations lack the other side"};
    return Error{std::string("the run cannot be replayed: ") + kWhy[static_cast<std::size_t>(why)],
                 ErrorKind::kNotFound};
  }
  if (!is_sample) {  // by the nodes' own clocks; a stretch may have a part of a gap only
    find_windows_of_gaps();
    find_ties();
  }
  const ClockModel clocks(trace, recording.matches, builder.clock_offsets(), merged);
  clocks.adjust(trace);
  elapsed_s = seconds(static_cast<double>(end_of_run_ns() - begin_of_run_ns()));
  if (is_sample)
    if (const Result<void> taken = take_stretches(clocks); !taken) return taken.error();
  find_stretches();
  divide_tails();
  find_places();
  find_io();
  find_blocked();
  find_bytes();
  find_rendezvous();
  recording.reaches = reaches_of(recording.trace, recording.matches,
                                 [&](std::uint32_t e) { return recording.recorded_enter(e); });
  if (!calibrate())
    return Error{"the run cannot be replayed: its events contradict each other", ErrorKind::kNotFound};
  wanted_in_calls = wanted_in_mpi(merged);
  replayed = outcome(no_change());
  if (!(replayed.elapsed_s > 0 && elapsed_s > 0) ||
      std::abs(replayed.elapsed_s - elapsed_s) > kMostReplayError * elapsed_s)
    return Error{"nothing is predicted: a replay without changes takes " +
                     std::to_string(std::max(replayed.elapsed_s, 0.0)) + " s, and the run took " +
                     std::to_string(elapsed_s) + " s",
                 ErrorKind::kNotFound};
  find_processors();
  return {};
}

Result<void> WhatIf::State::take_stretches(const ClockModel& clocks) {
  recording.spans = complete_stretches(recording.trace, builder.event_stretches(), clocks, merged);
  if (recording.spans.size() < kFewestStretches)
    return Error{
        "the run cannot be replayed: it made more MPI operations than the recording keeps, so that its "
        "events are a sample, and beside it " +
            std::to_string(recording.spans.size()) + " stretches of time are complete on all ranks; " +
            std::to_string(kFewestStretches) + " are needed",
        ErrorKind::kNotFound};
  recording.represented =
      represented_by(recording.trace, builder.event_stretches(), clocks, merged, recording.spans);
  double replayed_ns = 0;
  for (const TimeSpan& span : recording.spans) replayed_ns += static_cast<double>(span.length_ns());
  recording.scale = static_cast<double>(recording.represented.length_ns) / replayed_ns;
  StretchTrace part = trace_of_stretches(std::move(recording.trace), recording.spans);
  recording.matches = match_within_stretches(part);
  recording.trace = std::move(part.trace);
  recording.stretch_of = std::move(part.stretch_of);
  recording.is_counted = std::move(part.is_counted);
  recording.ties.is_made.resize(recording.trace.lanes.size());  // of none it is known
  return {};
}

// --- threads ----------------------------------------------------------------------------------------------

void WhatIf::State::find_threads() {
  teams = Teams(merged);
  fork_join = ForkJoin(merged, period_s);
  windows.resize(merged.ranks.size());
  recording.region_of = teams.region_of();
  recording.is_join.resize(merged.paths.size());
  for (std::size_t p = 1; p < merged.paths.size(); ++p) {
    const std::uint32_t frame = merged.paths[p].frame;
    recording.is_join[p] = frame != kNone && merged.frames[frame].kind == shard::FrameKind::kKernel &&
                           merged.strings[merged.frames[frame].name] == shard::kOnThreadName;
  }
}

void WhatIf::State::find_windows_of_gaps() {
  const Trace& trace = recording.trace;
  for (std::uint32_t l = 0; l < trace.lanes.size(); ++l) {
    const Lane& lane = trace.lanes[l];
    if (lane.thread != 0 || !fork_join.is_known(lane.rank)) continue;
    for (std::uint32_t call = lane.first;; call = trace.call_end(call)) {
      const std::int64_t begin_ns = call == lane.first ? lane.begin_ns : trace.events[call - 1].exit_ns;
      const std::int64_t end_ns = call == lane.end ? lane.end_ns : trace.events[call].enter_ns;
      const ForkJoin::Window window = fork_join.between(lane.rank, begin_ns, end_ns);
      if (!fork_join.joined_in(lane.rank, window).empty()) {
        recording.windows.emplace(key_of(l, call), window);
        windows[lane.rank].push_back(window);
      }
      if (call == lane.end) break;
    }
  }
}

// Helper threads with MPI calls of their own: each begins where its main thread makes it, and if that joins
// it between two of its calls, it waits there for its end.
void WhatIf::State::find_ties() {
  Trace& trace = recording.trace;
  LaneTies& ties = recording.ties;
  ties.is_made.resize(trace.lanes.size());
  for (std::uint32_t m = 0; m < trace.lanes.size(); ++m) {
    const Lane& main = trace.lanes[m];
    if (main.thread != 0 || !fork_join.is_known(main.rank)) continue;
    // Of the gap that a time lies in, of the call behind it and of when it began; none within a call.
    const auto gap_of = [&](std::int64_t ns) -> std::optional<std::pair<std::uint32_t, std::int64_t>> {
      const std::uint32_t next = trace.first_entered(main, ns);
      if (next == main.first) return std::pair(next, main.begin_ns);
      if (trace.events[next - 1].exit_ns > ns) return std::nullopt;
      return std::pair(next, trace.events[next - 1].exit_ns);
    };
    std::vector<std::pair<ForkJoin::Caller, std::uint32_t>> joined;
    for (const ForkJoin::Caller& caller : fork_join.callers(main.rank)) {
      std::uint32_t l = m + 1;
      while (l < trace.lanes.size() && trace.lanes[l].rank == main.rank &&
             trace.lanes[l].thread != caller.mpi_thread)
        ++l;
      const auto made = gap_of(caller.created_ns);
      if (l == trace.lanes.size() || trace.lanes[l].rank != main.rank || ties.is_made[l] || !made) continue;
      Lane& lane = trace.lanes[l];
      const Event &first = trace.events[lane.first], &last = trace.events[lane.end - 1];
      if (caller.begin_ns > first.enter_ns || caller.end_ns < last.exit_ns) continue;
      lane.begin_ns = caller.begin_ns;
      lane.head_ns = first.enter_ns - lane.begin_ns;
      lane.end_ns = caller.end_ns;
      lane.tail_ns = lane.end_ns - last.exit_ns;
      ties.is_made[l] = true;
      ties.made[LaneTies::key(m, made->first)].push_back(
          {l, std::max<std::int64_t>(caller.created_ns - made->second, 0),
           std::max<std::int64_t>(caller.begin_ns - caller.created_ns, 0)});
      if (caller.joined_ns != 0) joined.emplace_back(caller, l);
    }
    std::sort(joined.begin(), joined.end(),
              [](const auto& a, const auto& b) { return a.first.joined_ns < b.first.joined_ns; });
    std::int64_t before_ns = main.begin_ns;
    for (const auto& [caller, l] : joined) {
      const auto gap = gap_of(caller.joined_ns);
      if (!gap || gap->second > caller.join_ns || recording.window(main, gap->first) != nullptr) continue;
      before_ns = std::max(before_ns, gap->second);
      ties.joined[LaneTies::key(m, gap->first)].push_back(
          {l, std::max<std::int64_t>(caller.join_ns - before_ns, 0), caller.joined_ns - caller.join_ns,
           std::max<std::int64_t>(caller.joined_ns - std::max(caller.join_ns, caller.end_ns), 0)});
      before_ns = caller.joined_ns;
    }
  }
}

// Without MPI: the whole of the main thread, if a replay of it takes as long as it did.
void WhatIf::State::find_windows_of_ranks() {
  for (std::uint32_t r = 0; r < merged.ranks.size(); ++r) {
    if (!fork_join.is_known(r)) continue;
    const ForkJoin::Window window = fork_join.life_of_main(r);
    if (fork_join.joined_in(r, window).empty()) continue;
    windows[r] = {window};
    const auto elapsed_ns = static_cast<double>(merged.ranks[r].elapsed_ns);
    const auto life_ns = static_cast<double>(fork_join.last_ns(window) - window.begin_ns);
    // A main thread may leave the others alone.
    if (std::abs(elapsed_ns - life_ns) > kMostOutsideLife * elapsed_ns ||
        std::abs(play(r, no_change()) - life_ns) > kMostReplayError * life_ns)
      windows[r].clear();
  }
}

// How long the main thread of a rank takes that is replayed as a whole.
double WhatIf::State::play(std::uint32_t rank, const Amounts& amounts) const {
  return fork_join.play(rank, windows[rank].front(), {},
                        [&](std::uint32_t thread, std::uint32_t span, std::uint32_t path) {
                          return amounts.factor(recording, rank, thread == 0, path) *
                                 amounts.group_factor(fork_join.group_of(span), thread, path);
                        });
}

// --- gaps -------------------------------------------------------------------------------------------------

template <typename Take>
void WhatIf::State::for_each_stretch(const Take& take) const {
  for (const Lane& lane : recording.trace.lanes)
    for (std::uint32_t call = lane.first;; call = recording.trace.call_end(call)) {
      if (call != lane.first || recording.has_head(lane)) take(lane, call);
      if (call == lane.end) break;
    }
}

// Divides each gap by its own samples, or if these are few by those of all such gaps of its call site on the
// rank: single samples would make some gaps all one thing, which biases the maximum over ranks.
void WhatIf::State::find_stretches() {
  Trace& trace = recording.trace;
  recording.before.resize(trace.events.size());
  recording.tail.resize(trace.lanes.size());
  recording.elastic.resize(trace.events.size());
  struct Time {
    double ns = 0, cpu_ns = 0;
  };
  using Times = std::map<std::uint32_t, Time>;  // by path
  struct Polled {
    std::pair<std::uint32_t, std::uint32_t> parts;  // first, count
    double loop = 0;                                // the share of the gap that is none of the parts
  };
  struct Site {
    Times few, many;  // of gaps with few samples, and of the others
    double few_ns = 0, left_out_ns = 0;
    std::pair<std::uint32_t, std::uint32_t> parts;  // first, count; none: not yet divided
    Polled polled{};                                // of these, where it was polled
    bool is_polled_known = false;
  };
  std::unordered_map<std::uint64_t, Site> sites;
  // What was before the first call of a stretch of time is known in part, and by none of its own samples.
  const auto is_short = [&](const Lane& lane, std::uint32_t call, const Stretch& stretch) {
    return seconds(static_cast<double>(stretch.useful_ns)) < kFewSamples * period_s ||
           (call == lane.first && !recording.spans.empty());
  };
  // Returns the sum.
  const auto take_samples = [&](const Lane& lane, std::uint32_t call, Times& times) {
    double sum = 0;
    for (auto row = std::lower_bound(trace.gaps.begin(), trace.gaps.end(), call,
                                     [](const Gap&gap, std::uint32_t e) { return gap.event < e; });
         row != trace.gaps.end() && row->event < lane.end && trace.same_call(row->event, call); ++row) {
      if (trace.outside[row->path] != row->path) continue;
      Time& time = times[row->path];
      time.ns += static_cast<double>(row->wall_ns);
      time.cpu_ns += static_cast<double>(row->cpu_ns);
      sum += static_cast<double>(row->wall_ns);
    }
    return sum;
  };
  // A gap has its longest call paths only (collector/mpi/gap_timeline.cpp). What is more than samples can be
  // wrong by is nobody's.
  const auto left_out_of = [&](const Stretch& stretch, double sampled_ns) {
    const double ns = static_cast<double>(stretch.useful_ns) - sampled_ns;
    return sampled_ns > 0 && seconds(ns) > kSamplesAside * period_s ? ns : 0;
  };
  for_each_stretch([&](const Lane& lane, std::uint32_t call) {
    const Interval gap = interval_before(trace, lane, call);
    Stretch& stretch =
        call == lane.end ? recording.tail[trace.events[lane.first].lane] : recording.before[call];
    stretch.useful_ns = gap.useful_ns;
    stretch.paused_ns = gap.paused_ns;
    stretch.calls_ns = std::max<std::int64_t>(gap.end_ns - gap.begin_ns, 0) - gap.useful_ns - gap.paused_ns;
    if (call == lane.end) return;
    const shard::Path& path = merged.paths[trace.events[call].path];
    if (call != lane.first && path.frame != kNone) {
      const std::string_view function = merged.strings[merged.frames[path.frame].name];
      recording.elastic[call] = function.starts_with("MPI_Test") || function.starts_with("MPI_Iprobe") ||
                                function == "MPI_Parrived";
    }
    Site& site = sites[key_of(lane.rank, recording.site_of(lane, call))];
    if (is_short(lane, call, stretch))
      site.few_ns += take_samples(lane, call, site.few);
    else
      site.left_out_ns += left_out_of(stretch, take_samples(lane, call, site.many));
  });
  const auto add = [&](const Times& times, double left_out_ns) {
    double all = left_out_ns;
    for (const auto& [path, time] : times) all += time.ns;
    const auto first = static_cast<std::uint32_t>(recording.parts.size());
    for (const auto& [path, time] : times)
      if (all > 0)
        recording.parts.push_back({path, static_cast<float>(time.ns / all),
                                   static_cast<float>(time.ns > 0 ? time.cpu_ns / time.ns : 0)});
    return std::pair(first, static_cast<std::uint32_t>(recording.parts.size()) - first);
  };
  // What calls the polls has the rest of the loop around them: that it took long is their doing. It is told
  // apart by samples alone.
  const auto without_loop = [&](std::uint32_t call, std::pair<std::uint32_t, std::uint32_t> parts) {
    const std::uint32_t path = trace.events[call].path, caller = trace.outside[path];
    Polled polled;
    polled.parts.first = static_cast<std::uint32_t>(recording.parts.size());
    for (std::uint32_t i = parts.first; i < parts.first + parts.second; ++i) {
      const Part part = recording.parts[i];
      const std::uint32_t above = merged.paths[part.path].parent;
      const bool lacks = recording.lacks_processor(part.path);
      if (part.path == caller || (lacks && (above == caller || above == path)))
        polled.loop += static_cast<double>(part.share);
      else
        recording.parts.push_back(part);
    }
    polled.parts.second = static_cast<std::uint32_t>(recording.parts.size()) - polled.parts.first;
    const auto rest = static_cast<float>(1 - std::min(polled.loop, 1.0));
    for (std::uint32_t i = polled.parts.first; i < recording.parts.size(); ++i)
      recording.parts[i].share /= rest;
    return polled;
  };
  const auto take_loop_out = [&](Stretch& stretch, const Polled& polled) {
    const auto loop_ns =
        static_cast<std::int64_t>(static_cast<double>(stretch.useful_ns) * std::min(polled.loop, 1.0));
    stretch.useful_ns -= loop_ns;
    stretch.calls_ns += loop_ns;
    std::tie(stretch.first, stretch.count) = polled.parts;
  };
  const auto was_polled = [&](std::uint32_t call, const Stretch& stretch) {
    return recording.elastic[call] && stretch.calls_ns > 0;
  };
  for_each_stretch([&](const Lane& lane, std::uint32_t call) {
    if (call == lane.end) return;
    Stretch& stretch = recording.before[call];
    if (!is_short(lane, call, stretch)) {
      Times times;
      const double sampled_ns = take_samples(lane, call, times);
      std::tie(stretch.first, stretch.count) = add(times, left_out_of(stretch, sampled_ns));
      if (stretch.count != 0 && was_polled(call, stretch))
        return take_loop_out(stretch, without_loop(call, {stretch.first, stretch.count}));
    }
    if (stretch.count != 0) return;
    Site& site = sites[key_of(lane.rank, recording.site_of(lane, call))];
    if (site.parts.second == 0) {
      if (site.few.empty() || seconds(site.few_ns) < kFewSamples * period_s)
        for (const auto& [path, time] : std::exchange(site.many, {})) {
          site.few[path].ns += time.ns;
          site.few[path].cpu_ns += time.cpu_ns;
        }
      else
        site.left_out_ns = 0;
      site.parts = add(site.few, site.left_out_ns);
    }
    if (site.parts.second == 0) {  // no sample at all: the code that made the call
      site.parts = add(Times{{trace.outside[trace.events[call].path], {1, 1}}}, 0);
      site.polled = {site.parts, 0};
      site.is_polled_known = true;
    }
    std::tie(stretch.first, stretch.count) = site.parts;
    if (!was_polled(call, stretch)) return;
    if (!std::exchange(site.is_polled_known, true)) site.polled = without_loop(call, site.parts);
    take_loop_out(stretch, site.polled);
  });
}

// Behind a thread's last call there is no event to keep samples for. Of a main thread, they are those that
// are in no other gap.
void WhatIf::State::divide_tails() {
  if (!recording.spans.empty()) return;  // the other gaps are not known
  const Trace& trace = recording.trace;
  const auto outside_mpi = [&](std::uint32_t path) { return trace.outside[path] == path; };
  struct Sampled {
    double all_ns = 0, cpu_ns = 0;
  };
  std::map<std::uint64_t, double> rest;      // ns by rank and path
  std::map<std::uint64_t, Sampled> sampled;  // likewise
  for (const shard::Value& value : merged.values)
    if (value.main_thread && value.category != shard::Category::kMpi && outside_mpi(value.path)) {
      const std::uint64_t key = key_of(value.rank, value.path);
      rest[key] += static_cast<double>(value.wall_ns);
      sampled[key].all_ns += static_cast<double>(value.wall_ns);
      sampled[key].cpu_ns += static_cast<double>(value.cpu_ns);
    }
  for (const Gap& gap : trace.gaps) {
    const Lane& lane = trace.lanes[trace.events[gap.event].lane];
    if (lane.thread != 0 || !outside_mpi(gap.path)) continue;
    // Its own waiting for a processor is below a path in gaps only.
    const bool lacks = recording.lacks_processor(gap.path);
    const auto row = rest.find(key_of(lane.rank, lacks ? merged.paths[gap.path].parent : gap.path));
    if (row != rest.end()) row->second -= static_cast<double>(gap.wall_ns);
  }
  for (const Lane& lane : trace.lanes) {
    Stretch& tail = recording.tail[trace.events[lane.first].lane];
    const auto tail_ns = static_cast<double>(tail.useful_ns);
    if (lane.thread != 0 || seconds(tail_ns) < kFewSamples * period_s) continue;
    const auto begin = rest.lower_bound(key_of(lane.rank, 0)),
               end = rest.lower_bound(key_of(lane.rank + 1, 0));
    double all_ns = 0;
    for (auto row = begin; row != end; ++row) all_ns += std::max(row->second, 0.0);
    // There are more of them where other gaps had more call paths than are kept.
    all_ns = std::max(all_ns, tail_ns);
    tail.first = static_cast<std::uint32_t>(recording.parts.size());
    for (auto row = begin; row != end; ++row)
      if (row->second > 0) {
        const Sampled& of = sampled[row->first];
        recording.parts.push_back({static_cast<std::uint32_t>(row->first),
                                   static_cast<float>(row->second / all_ns),
                                   static_cast<float>(std::min(of.cpu_ns / of.all_ns, 1.0))});
      }
    tail.count = static_cast<std::uint32_t>(recording.parts.size()) - tail.first;
  }
}

// Calls that only begin something wait for nothing, and not all ranks make them: at the edge of a grid there
// is no neighbour to send to, and what others do before that call is done before the next one there. A gap
// before such a call counts to the next call, where not all ranks make it that come to the wait behind.
void WhatIf::State::find_places() {
  const Trace& trace = recording.trace;
  recording.place.resize(trace.events.size());
  const auto only_begins = [&](std::uint32_t call) {
    for (std::uint32_t e = call, end = trace.call_end(call); e < end; ++e) {
      const Event& event = trace.events[e];
      if (event.kind != MpiEventKind::kCollectiveStart &&
          (event.kind != MpiEventKind::kSend || (event.flags & wire::kEventNonblocking) == 0))
        return false;
    }
    return true;
  };
  // From the last call of a lane to its first: take(call, the site of the wait behind it).
  const auto for_each_back = [&](const auto& take) {
    for (const Lane& lane : trace.lanes) {
      std::uint32_t wait = kTail;
      for (std::uint32_t next = lane.end; next != lane.first;) {
        next = trace.call_begin(next - 1);
        const bool begins = only_begins(next);
        if (!begins) wait = trace.events[next].path;
        take(lane, next, begins, wait);
      }
    }
  };
  struct Ranks {
    std::uint32_t count = 0, last = kNone;  // lanes are in the order of ranks
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Ranks> of_site;  // by wait and site
  const auto come = [&](std::uint32_t wait, std::uint32_t site, std::uint32_t rank) {
    Ranks& ranks = of_site[{wait, site}];
    if (ranks.last != rank) ++ranks.count;
    ranks.last = rank;
  };
  for (const Lane& lane : trace.lanes) come(kTail, kTail, lane.rank);
  for_each_back([&](const Lane& lane, std::uint32_t call, bool, std::uint32_t wait) {
    come(wait, trace.events[call].path, lane.rank);
  });
  std::uint32_t behind = kTail;
  for_each_back([&](const Lane& lane, std::uint32_t call, bool begins, std::uint32_t wait) {
    const std::uint32_t site = trace.events[call].path;
    if (trace.call_end(call) == lane.end) behind = kTail;
    if (!begins || of_site[{wait, site}].count == of_site[{wait, wait}].count) behind = site;
    recording.place[call] = behind;
  });
}

// A path of a gap does not say what kind of time it was: each rank's own samples of that path do.
void WhatIf::State::find_io() {
  for (std::size_t i = 0; i < recording.io.size(); ++i) {
    std::unordered_map<std::uint64_t, double> all_ns;
    const auto for_each_value = [&](const auto& take) {
      for (const shard::Value& value : merged.values)
        if (value.main_thread == (i == 0)) take(value, key_of(value.rank, value.path));
    };
    for_each_value([&](const shard::Value& value, std::uint64_t key) {
      if (value.category == shard::Category::kIo) recording.io[i][key] += static_cast<double>(value.wall_ns);
    });
    for_each_value([&](const shard::Value& value, std::uint64_t key) {
      if (value.category != shard::Category::kMpi && recording.io[i].contains(key))
        all_ns[key] += static_cast<double>(value.wall_ns);
    });
    for (auto& [key, ns] : recording.io[i]) ns = ns > 0 ? ns / all_ns[key] : 0;
  }
}

void WhatIf::State::find_blocked() {
  std::unordered_map<std::uint64_t, double> all_ns;
  for (const shard::Value& value : merged.values) {
    if (!value.main_thread || value.category == shard::Category::kMpi) continue;
    const std::uint64_t key = key_of(value.rank, value.path);
    all_ns[key] += static_cast<double>(value.wall_ns);
    if (value.category == shard::Category::kIdle)
      recording.blocked[key] += static_cast<double>(value.wall_ns);
  }
  for (auto& [key, ns] : recording.blocked) ns = ns > 0 ? ns / all_ns[key] : 0;
}

void WhatIf::State::find_bytes() {
  const Trace& trace = recording.trace;
  recording.bytes = trace.bytes;
  recording.across.resize(trace.events.size());
  std::unordered_map<std::uint64_t, std::pair<double, double>> of_site;  // bytes, calls
  for (const shard::MpiCall& call : merged.mpi_calls) {
    auto& [bytes, calls] = of_site[key_of(call.rank, call.path)];
    bytes += static_cast<double>(call.sent_bytes) + static_cast<double>(call.recv_bytes);
    calls += static_cast<double>(call.count);
  }
  std::vector<bool> instance_across(recording.matches.instances.size());
  for (std::size_t i = 0; i < instance_across.size(); ++i) {
    const Instance& instance = recording.matches.instances[i];
    for (std::uint32_t m = instance.first; m < instance.first + instance.count; ++m)
      instance_across[i] =
          instance_across[i] || merged.ranks[recording.matches.members[m].rank].node !=
                                    merged.ranks[recording.matches.members[instance.first].rank].node;
  }
  for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
    const Event& event = trace.events[e];
    const Lane& lane = trace.lanes[event.lane];
    if (event.kind < MpiEventKind::kCollective) {
      recording.across[e] =
          event.match != kNone && trace.lanes[trace.events[event.match].lane].node != lane.node;
      // The call that completes a send, and a probe, do not say how much it was.
      if (recording.bytes[e] == 0 && event.match != kNone) recording.bytes[e] = trace.bytes[event.match];
      continue;
    }
    if (event.match != kNone) recording.across[e] = instance_across[event.match];
    if (event.match != kNone &&
        event.kind == MpiEventKind::kCollectiveDone) {  // the call that began it knows
      const std::uint32_t row =
          recording.matches.member_of(recording.matches.instances[event.match], lane.rank);
      const std::uint32_t arrival = row == kNone ? kNone : recording.matches.members[row].arrival;
      if (arrival != kNone) recording.bytes[e] = trace.bytes[arrival];
    }
    if (recording.bytes[e] != 0) continue;
    if (const auto found = of_site.find(key_of(lane.rank, event.path));
        found != of_site.end() && found->second.second > 0)
      recording.bytes[e] =
          static_cast<std::uint64_t>(std::min(found->second.first / found->second.second, 1e18));
  }
}

// From which size on sends wait for their receives: the size that tells best those that ended before a
// receive that came later from those that did not.
void WhatIf::State::find_rendezvous() {
  const Trace& trace = recording.trace;
  std::array<std::vector<std::pair<std::uint64_t, bool>>, 2> told;
  std::vector<bool> is_buffered;
  is_buffered.reserve(trace.ops.size());
  for (const Op& op : trace.ops)
    is_buffered.push_back(op.name.find("Bsend") != std::string::npos ||
                          op.name.find("Ibsend") != std::string::npos);
  const auto may_wait = [&](std::uint32_t e) {
    const Event& event = trace.events[e];
    const bool only_begins =
        event.kind == MpiEventKind::kSend && (event.flags & wire::kEventNonblocking) != 0;
    return !only_begins && !is_buffered[event.op] && recording.receive_of(e) != kNone;
  };
  // When what an operation may wait for happened.
  const auto needs_ns = [&](std::uint32_t e) {
    const Event& event = trace.events[e];
    if (event.kind == MpiEventKind::kCollectiveDone) return event.exit_ns;
    if (may_wait(e)) return trace.events[recording.receive_of(e)].start_ns;
    const bool receives = event.kind == MpiEventKind::kReceive || event.kind == MpiEventKind::kProbe;
    return receives && event.match != kNone ? trace.events[event.match].enter_ns : event.enter_ns;
  };
  for (std::uint32_t call = 0, end = 0; call < trace.events.size(); call = end) {
    end = trace.call_end(call);
    // A call that completes several operations lasts until the last is over: only a send that needed
    // something later than all others can be what it waited for.
    std::int64_t latest_ns = trace.events[call].enter_ns, second_ns = latest_ns;
    for (std::uint32_t e = call; e < end; ++e) {
      const std::int64_t ns = needs_ns(e);
      second_ns = std::max(second_ns, std::min(ns, latest_ns));
      latest_ns = std::max(latest_ns, ns);
    }
    for (std::uint32_t e = call; e < end; ++e) {
      // A synchronous one says nothing about its size.
      if (!may_wait(e) || (trace.events[e].flags & wire::kEventSynchronous) != 0) continue;
      const std::int64_t exit_ns = trace.events[e].exit_ns, posted_ns = needs_ns(e);
      const std::int64_t others_ns = exit_ns < posted_ns ? trace.events[e].enter_ns : second_ns;
      if (posted_ns > others_ns + kTellingDelay_ns)
        told[recording.across[e] ? 1 : 0].emplace_back(recording.bytes[e], exit_ns >= posted_ns);
    }
  }
  for (std::size_t i = 0; i < told.size(); ++i) {
    std::sort(told[i].begin(), told[i].end());
    if (told[i].empty()) continue;
    // Wrong ones if all sizes wait; then with the limit behind each size.
    std::int64_t wrong =
        std::count_if(told[i].begin(), told[i].end(), [](const auto& row) { return !row.second; });
    std::int64_t least = wrong;
    std::uint64_t above = 0, below = told[i].front().first;
    for (std::size_t row = 0; row < told[i].size(); ++row) {
      wrong += told[i][row].second ? 1 : -1;
      const bool is_last = row + 1 == told[i].size();
      if ((!is_last && told[i][row + 1].first == told[i][row].first) || wrong >= least) continue;
      least = wrong;
      above = told[i][row].first + 1;
      below = is_last ? std::max(above, kUsualRendezvous_bytes) : told[i][row + 1].first;
    }
    recording.network[i].rendezvous_bytes = std::clamp(kUsualRendezvous_bytes, above, below);
  }
  recording.waits_for_receive.resize(trace.events.size());
  for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
    if (!may_wait(e)) continue;
    const Event& event = trace.events[e];
    const bool large = recording.bytes[e] >= recording.network[recording.across[e] ? 1 : 0].rendezvous_bytes;
    const bool ended_before = event.exit_ns < trace.events[recording.receive_of(e)].start_ns;
    recording.waits_for_receive[e] = ((event.flags & wire::kEventSynchronous) != 0 || large) && !ended_before;
  }
}

// Divides each call into its own part and what came behind the last operation that it depended on.
bool WhatIf::State::calibrate() {
  const Trace& trace = recording.trace;
  const std::int64_t first_ns = begin_of_run_ns();
  RecordedCosts recorded(recording, first_ns);
  ReplayEngine engine(trace, recording.matches, recorded);
  engine.tie(recording.ties);
  if (engine.run() < 0) return false;
  find_network(recorded, first_ns);
  recording.own_ns.resize(trace.events.size());
  recording.large_ns.resize(trace.events.size());
  recording.begins_in_call.resize(trace.events.size());
  recording.transit_ns.resize(trace.events.size());
  for (const Lane& lane : trace.lanes)
    for (std::uint32_t call = lane.first; call != lane.end; call = trace.call_end(call)) {
      const std::uint32_t end = trace.call_end(call);
      const std::int64_t enter_ns = recording.recorded_enter(call) - first_ns;
      const std::int64_t exit_ns = trace.events[call].exit_ns - first_ns;
      std::uint32_t last = kNone;
      for (std::uint32_t e = call; e < end; ++e)
        if (recorded.dependence_ns[e] != kNoTime &&
            (last == kNone || recorded.dependence_ns[e] > recorded.dependence_ns[last]))
          last = e;
      // Whether there was a transfer behind it. The last rank that comes to a collective operation waits for
      // none, but it is in the transfer, too; only the root of one like MPI_Bcast need not be.
      const bool has_transfer =
          last != kNone && (recorded.dependence_ns[last] > enter_ns ||
                            (trace.events[last].kind == MpiEventKind::kCollective &&
                             recorded.dependence_ns[last] == enter_ns && recording.steps(last) > 0 &&
                             trace.ops[trace.events[last].op].sync != Sync::kOneToAll));
      std::int64_t& own_ns = recording.own_ns[call];
      own_ns = exit_ns - enter_ns;
      if (has_transfer) {
        const auto behind_ns = static_cast<double>(exit_ns - recorded.dependence_ns[last]);
        own_ns = std::llround(std::max(behind_ns - recording.network_ns(last), 0.0));
        // If the other side is there first in the replay, the transfer is still to come.
        const Event& event = trace.events[last];
        recording.begins_in_call[last] =
            (event.kind == MpiEventKind::kSend || event.kind == MpiEventKind::kReceive) &&
            (event.flags & wire::kEventNonblocking) == 0 && recording.is_handed_over(last);
      } else {  // the other side was: the transfer is the call's own
        double large_ns = 0;
        for (std::uint32_t e = call; e < end; ++e)
          if (recording.is_handed_over(e))
            large_ns += recording.network_parts(e, static_cast<double>(own_ns)).second;
        recording.large_ns[call] = std::llround(std::min(large_ns, static_cast<double>(own_ns)));
      }
      for (std::uint32_t e = call; e < end; ++e) {
        if (recorded.dependence_ns[e] == kNoTime) continue;
        const std::int64_t most_ns = std::max<std::int64_t>(exit_ns - recorded.dependence_ns[e], 0);
        const auto usual_ns = static_cast<std::int64_t>(std::min(recording.network_ns(e), 4e18));
        recording.transit_ns[e] =
            e == last && has_transfer ? most_ns : std::min(most_ns, std::max(own_ns, usual_ns));
      }
    }
  return true;
}

// By receives that waited for their sends; where they do not tell, by collective operations that waited for a
// rank.
void WhatIf::State::find_network(const RecordedCosts& recorded, std::int64_t first_ns) {
  const Trace& trace = recording.trace;
  struct Transfer {
    std::uint64_t bytes;
    double steps, ns;
  };
  std::array<std::vector<Transfer>, 2> of_messages, of_collectives;
  for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
    const Event& event = trace.events[e];
    const std::int64_t from_ns = recorded.dependence_ns[e];
    const bool is_message = event.kind == MpiEventKind::kReceive;
    if ((!is_message && event.kind != MpiEventKind::kCollective) || from_ns == kNoTime) continue;
    if (trace.call_end(e) - trace.call_begin(e) != 1 || from_ns <= recording.recorded_enter(e) - first_ns)
      continue;
    (is_message ? of_messages : of_collectives)[recording.across[e] ? 1 : 0].push_back(
        {recording.bytes[e], std::max(recording.steps(e), 1.0),
         std::max(static_cast<double>(event.exit_ns - first_ns - from_ns), 0.0)});
  }
  for (std::size_t i = 0; i < recording.network.size(); ++i) {
    Network& net = recording.network[i];
    const auto told_by = [](const std::vector<Transfer>& transfers, std::uint64_t least_bytes,
                            std::uint64_t most_bytes, const auto& tells) {
      std::vector<double> told;
      for (const Transfer& transfer : transfers)
        if (transfer.bytes >= least_bytes && transfer.bytes <= most_bytes) told.push_back(tells(transfer));
      return told.empty() ? 0 : median(told);
    };
    const auto of_step = [](const Transfer& transfer) { return transfer.ns / transfer.steps; };
    for (const std::uint64_t most_bytes : {kSmall_bytes, kLarge_bytes - 1})
      for (const auto* transfers : {&of_messages[i], &of_collectives[i]})
        if (net.latency_ns == 0) {
          net.latency_ns = told_by(*transfers, 0, most_bytes, of_step);
          net.latency_is_rough =
              net.latency_ns > 0 && (most_bytes != kSmall_bytes || transfers != &of_messages[i]);
        }
    const auto of_byte = [&](const Transfer& transfer) {
      return std::max(transfer.ns - transfer.steps * net.latency_ns, 0.0) /
             static_cast<double>(transfer.bytes);
    };
    for (const auto* transfers : {&of_messages[i], &of_collectives[i]})
      if (net.ns_per_byte == 0) {
        net.ns_per_byte =
            told_by(*transfers, kLarge_bytes, std::numeric_limits<std::uint64_t>::max(), of_byte);
        net.bandwidth_is_rough = net.ns_per_byte > 0 && transfers != &of_messages[i];
      }
  }
}

// --- outcomes ---------------------------------------------------------------------------------------------

void WhatIf::State::set_outcome_of_useful(const std::vector<double>& useful_ns, Outcome& outcome) const {
  for (const double ns : useful_ns) {
    outcome.useful_mean_s += seconds(ns) / static_cast<double>(useful_ns.size());
    outcome.useful_max_s = std::max(outcome.useful_max_s, seconds(ns));
  }
  // As in the report: without what all ranks were paused for.
  std::uint64_t least_paused_ns = std::numeric_limits<std::uint64_t>::max();
  for (const shard::Rank& rank : merged.ranks) least_paused_ns = std::min(least_paused_ns, rank.paused_ns);
  const double recorded_s = outcome.elapsed_s - seconds(static_cast<double>(least_paused_ns));
  if (recorded_s <= 0 || outcome.useful_max_s <= 0) return;
  outcome.parallel = outcome.useful_mean_s / recorded_s;
  outcome.load_balance = outcome.useful_mean_s / outcome.useful_max_s;
  outcome.communication = outcome.useful_max_s / recorded_s;
}

Outcome WhatIf::State::replay(const Amounts& amounts) const {
  const Trace& trace = recording.trace;
  ChangedCosts costs(recording, fork_join, amounts);
  ReplayEngine engine(trace, recording.matches, costs);
  engine.tie(recording.ties);
  Outcome outcome;
  const std::int64_t end_ns = engine.run();
  outcome.elapsed_s = end_ns < 0 ? -1 : seconds(static_cast<double>(end_ns));
  if (end_ns < 0) return outcome;
  std::vector<std::uint32_t> last_lanes{0};
  for (std::uint32_t l = 1; l < trace.lanes.size(); ++l)
    if (engine.end_of(l) > engine.end_of(last_lanes[0])) last_lanes[0] = l;
  if (!recording.spans.empty()) last_lanes = elapsed_of_stretches(engine, costs, outcome);
  std::vector<double> useful_ns(merged.ranks.size());
  for_each_stretch([&](const Lane& lane, std::uint32_t call) {
    if (lane.thread == 0)
      useful_ns[lane.rank] +=
          costs.useful_ns(lane, call) * recording.share_within(lane, call) * recording.scale;
  });
  use_processors(costs, useful_ns, outcome);
  set_outcome_of_useful(useful_ns, outcome);
  for (const auto& [path, ns] : costs.wait_of_site) {
    outcome.waits.push_back(row_of(path));
    outcome.waits.back().time_s = seconds(ns * recording.scale);
    outcome.wait_s += outcome.waits.back().time_s;
  }
  critical_path(costs, last_lanes, outcome);
  const auto most_first = [](std::vector<TimeRow>& rows) {
    std::sort(rows.begin(), rows.end(), [](const TimeRow& a, const TimeRow& b) {
      return std::tie(b.time_s, a.rank, a.name, a.caller, a.file, a.line) <
             std::tie(a.time_s, b.rank, b.name, b.caller, b.file, b.line);
    });
    if (rows.size() > kMostRows) rows.resize(kMostRows);
  };
  most_first(outcome.waits);
  most_first(outcome.critical);
  return outcome;
}

// Of a program without MPI: each rank's main thread takes as much less as its paths do; where it joins
// threads, as much less as a replay of all threads does.
Outcome WhatIf::State::add_up(const Amounts& amounts) const {
  std::vector<double> saved(merged.ranks.size()), sampled(merged.ranks.size()), useful(merged.ranks.size());
  for (const shard::Value& value : merged.values) {
    if (!value.main_thread) continue;
    const auto ns = static_cast<double>(value.wall_ns);
    sampled[value.rank] += ns;
    saved[value.rank] += ns * (1 - amounts.factor(recording, value));
  }
  Outcome outcome;
  // As floating point: what a damaged shard has may be any number.
  auto first = static_cast<double>(merged.ranks.front().start_utc_ns);
  for (const shard::Rank& rank : merged.ranks)
    first = std::min(first, static_cast<double>(rank.start_utc_ns));
  for (std::size_t r = 0; r < merged.ranks.size(); ++r) {
    const auto elapsed = static_cast<double>(merged.ranks[r].elapsed_ns);
    useful[r] = sampled[r] > 0 ? elapsed * (1 - saved[r] / sampled[r]) : elapsed;
    if (const auto rank = static_cast<std::uint32_t>(r); !windows[r].empty() && amounts.change_work())
      useful[r] = std::max(elapsed + play(rank, amounts) - play(rank, no_change()), 0.0);
    else if (!windows[r].empty())
      useful[r] = elapsed;
    const double started = static_cast<double>(merged.ranks[r].start_utc_ns) - first;
    outcome.elapsed_s = std::max(outcome.elapsed_s, seconds(started + useful[r]));
  }
  set_outcome_of_useful(useful, outcome);
  return outcome;
}

// When the lane gets to what it was at when its stretch ended, since the first lane began: as far in the time
// between two calls, or as long in a call.
double WhatIf::State::end_in_stretch(const Engine& engine, const ChangedCosts& costs, std::uint32_t l) const {
  const Lane& lane = recording.trace.lanes[l];
  const std::uint32_t last = recording.trace.call_begin(lane.end - 1);
  const std::int64_t end_ns = recording.spans[recording.stretch_of[l]].end_ns;
  const std::int64_t enter_ns = recording.recorded_enter(last);
  const auto entered_ns = static_cast<double>(engine.entered(last));
  if (end_ns <= enter_ns)
    return entered_ns -
           static_cast<double>(costs.before(lane, last)) * (1 - recording.share_within(lane, last));
  const auto length_ns = static_cast<double>(recording.trace.events[last].exit_ns - enter_ns);
  const double share =
      length_ns > 0 ? std::min(static_cast<double>(end_ns - enter_ns) / length_ns, 1.0) : 1.0;
  return entered_ns + share * (static_cast<double>(engine.end_of(l)) - entered_ns);
}

// The mean of the stretches stands for the time from the ranks' first events to their last, and the rest
// stays. Of a stretch the mean of its ranks counts. Returns the last lane of each.
std::vector<std::uint32_t> WhatIf::State::elapsed_of_stretches(const Engine& engine,
                                                               const ChangedCosts& costs,
                                                               Outcome& outcome) const {
  const Trace& trace = recording.trace;
  struct Of {
    double sum_ns = 0, least_ns = 0, most_ns = 0, lanes = 0;
    std::uint32_t last_lane = kNone;
  };
  std::vector<Of> of(recording.spans.size());
  const std::int64_t first_ns = begin_of_run_ns();
  for (std::uint32_t l = 0; l < trace.lanes.size(); ++l) {
    if (trace.lanes[l].thread != 0) continue;
    Of& stretch = of[recording.stretch_of[l]];
    const double ns = end_in_stretch(engine, costs, l) -
                      static_cast<double>(recording.spans[recording.stretch_of[l]].begin_ns - first_ns);
    if (stretch.last_lane == kNone || ns > stretch.most_ns) {
      stretch.most_ns = ns;
      stretch.last_lane = l;
    }
    stretch.least_ns = stretch.lanes == 0 ? ns : std::min(stretch.least_ns, ns);
    stretch.sum_ns += ns;
    ++stretch.lanes;
  }
  const double represented_s = seconds(static_cast<double>(recording.represented.length_ns));
  const auto count = static_cast<double>(of.size());
  double mean = 0;
  std::vector<std::uint32_t> last_lanes;
  for (std::size_t s = 0; s < of.size(); ++s) {
    const auto length_ns = static_cast<double>(recording.spans[s].length_ns());
    const double mean_ns = of[s].sum_ns / of[s].lanes;
    outcome.of_stretches.push_back(mean_ns / length_ns);
    mean += mean_ns / length_ns / count;
    outcome.apart_s +=
        represented_s * std::max(of[s].most_ns - mean_ns, mean_ns - of[s].least_ns) / length_ns / count;
    last_lanes.push_back(of[s].last_lane);
  }
  outcome.elapsed_s = elapsed_s + represented_s * (mean - 1);
  return last_lanes;
}

// Back from the end of the last lane; at each call that waited it goes on where that was caused, and where a
// helper thread began, in its rank's main thread.
double WhatIf::State::add_critical_path(const ChangedCosts& costs, std::uint32_t last_lane, PathSums& sums,
                                        double& paused_ns) const {
  const Trace& trace = recording.trace;
  double calls = 0;
  const Lane* lane = &trace.lanes[last_lane];
  std::uint32_t next = lane->end;
  double share = 1;  // of the gap before the call, that is on the path
  // Every step goes to an earlier call or to a main thread, unless events contradict each other.
  for (std::size_t steps = 3 * trace.events.size() + trace.lanes.size(); steps != 0; --steps) {
    const Stretch& stretch = recording.stretch(*lane, next);
    double scale = share;
    if (const std::optional<double> gap_ns = costs.gap_with_threads_ns(*lane, next); gap_ns) {
      // Who else worked meanwhile has no rows of its own: it is the rank's.
      double sum = 0;
      costs.divide(*lane, next, [&](std::uint32_t, double ns, double) { sum += ns; });
      if (sum > 0) scale *= *gap_ns / sum;
    }
    costs.divide(*lane, next, [&](std::uint32_t path, double ns, double) {
      sums[{lane->rank, path}] += ns * scale;
    });
    if (next == lane->end || !recording.elastic[next])
      sums[{lane->rank, trace.path_before(*lane, next)}] += static_cast<double>(stretch.calls_ns) * share;
    paused_ns += static_cast<double>(stretch.paused_ns) * share;
    share = 1;
    if (next == lane->first) {
      const Lane* const helper = lane;
      lane = trace.main_lane(*helper);
      if (lane == nullptr || lane == helper) break;
      const std::int64_t begin_ns = helper->begin_ns;
      next = trace.first_entered(*lane, begin_ns);
      if (next != lane->first && trace.events[next - 1].exit_ns > begin_ns) {
        next = trace.call_begin(next - 1);
        const std::int64_t in_call_ns = std::max<std::int64_t>(begin_ns - recording.recorded_enter(next), 0);
        sums[{lane->rank, trace.outside[trace.events[helper->first].path]}] +=
            static_cast<double>(in_call_ns);
      } else {
        const std::int64_t from_ns = recording.gap_begin(*lane, next);
        const std::int64_t until_ns = next == lane->end ? lane->end_ns : recording.recorded_enter(next);
        std::int64_t gap_ns = until_ns - from_ns, part_ns = std::min(begin_ns, until_ns) - from_ns;
        if (const Pause* const pause = next != lane->end ? trace.pause_before(next) : nullptr) {
          const auto [paused_from_ns, paused_until_ns] = trace.times_of(*lane, *pause);
          gap_ns -= paused_until_ns - paused_from_ns;
          part_ns -= std::clamp(begin_ns, paused_from_ns, paused_until_ns) - paused_from_ns;
        }
        if (gap_ns > 0)
          share = std::clamp(static_cast<double>(part_ns) / static_cast<double>(gap_ns), 0.0, 1.0);
      }
      continue;
    }
    const std::uint32_t call = trace.call_begin(next - 1);
    sums[{lane->rank, trace.events[call].path}] += static_cast<double>(costs.behind_ns[call]);
    if (costs.cause[call] != kNone || trace.events[call].kind >= MpiEventKind::kCollective) ++calls;
    next = costs.cause[call] == kNone ? call : trace.call_begin(costs.cause[call]);
    lane = &trace.lanes[trace.events[next].lane];
  }
  return calls;
}

void WhatIf::State::critical_path(const ChangedCosts& costs, const std::vector<std::uint32_t>& last_lanes,
                                  Outcome& outcome) const {
  PathSums sums;
  double paused_ns = 0;  // on the path, in no row
  for (const std::uint32_t lane : last_lanes)
    outcome.calls_on_path += add_critical_path(costs, lane, sums, paused_ns) * recording.scale;
  if (!recording.spans.empty()) {
    // What crosses the borders of a stretch is in these paths as a whole. Of pauses, the whole is known.
    const double represented_s = seconds(static_cast<double>(recording.represented.length_ns));
    const double path_s = std::max(outcome.elapsed_s - elapsed_s + represented_s, 0.0);
    double all_ns = 0;
    std::uint64_t most_paused_ns = 0;
    for (const auto& [key, ns] : sums) all_ns += ns;
    for (const shard::Rank& rank : merged.ranks) most_paused_ns = std::max(most_paused_ns, rank.paused_ns);
    const double paused_s = paused_ns > 0 ? std::min(path_s * paused_ns / (all_ns + paused_ns),
                                                     seconds(static_cast<double>(most_paused_ns)))
                                          : 0;
    const double share = all_ns > 0 ? (path_s - paused_s) / seconds(all_ns) : 0;
    for (auto& [key, ns] : sums) ns *= share;
  }
  std::map<std::tuple<std::int32_t, std::string, std::string, std::string, std::uint32_t>, TimeRow> rows;
  for (const auto& [key, ns] : sums) {
    if (seconds(ns) <= kLeastOfPath * outcome.elapsed_s) continue;  // shares are not exact
    TimeRow row = row_of(key.second);
    row.rank = merged.ranks[key.first].rank;
    row.time_s = seconds(ns);
    const auto [place, added] =
        rows.try_emplace({row.rank, row.name, row.caller, row.file, row.line}, std::move(row));
    if (!added) place->second.time_s += seconds(ns);
  }
  for (auto& [key, row] : rows) outcome.critical.push_back(std::move(row));
}

TimeRow WhatIf::State::row_of(std::uint32_t path) const {
  TimeRow row;
  if (merged.paths[path].frame == kNone) return row;
  const shard::Frame& frame = merged.frames[merged.paths[path].frame];
  row.name = merged.strings[frame.name];
  row.kind = frame.kind;
  row.file = merged.strings[frame.file];
  row.line = frame.function_line;
  const std::uint32_t caller = merged.paths[merged.paths[path].parent].frame;
  if (frame.kind != shard::FrameKind::kMpi || caller == kNone) return row;
  row.caller = merged.strings[merged.frames[caller].name];
  row.file = merged.strings[merged.frames[caller].file];
  row.line = merged.frames[caller].line;
  return row;
}

// --- changes ----------------------------------------------------------------------------------------------

// Paths that have such a frame anywhere.
template <typename Of>
std::vector<bool> WhatIf::State::paths_with(const Of& frame_is_meant) const {
  std::vector<bool> is_frame(merged.frames.size()), inside(merged.paths.size());
  for (std::size_t f = 0; f < merged.frames.size(); ++f) is_frame[f] = frame_is_meant(merged.frames[f]);
  for (std::size_t p = 1; p < merged.paths.size(); ++p)
    inside[p] =
        inside[merged.paths[p].parent] || (merged.paths[p].frame != kNone && is_frame[merged.paths[p].frame]);
  return inside;
}

Result<std::vector<bool>> WhatIf::State::paths_of(const Change& change) const {
  switch (change.kind) {
    case ChangeKind::kLine:
    case ChangeKind::kCallRemoved:
      return paths_at(change);
    case ChangeKind::kRegion: {
      std::vector<bool> inside = paths_with([&](const shard::Frame& frame) {
        return frame.kind == shard::FrameKind::kRegion && merged.strings[frame.name] == change.name;
      });
      if (!has_any(inside)) return not_found(change, "region");
      return inside;
    }
    default:
      return paths_in_function(change);
  }
}

// Of the functions with that whole name, or else of the one function that the name is the last part of.
Result<std::vector<bool>> WhatIf::State::paths_in_function(const Change& change) const {
  // The demangled name of a C++ function without parameters ends with "()", as names are shown.
  std::vector<bool> inside = paths_with([&](const shard::Frame& frame) {
    const std::string& name = merged.strings[frame.name];
    return frame.kind != shard::FrameKind::kRegion &&
           (name == change.name ||
            (name.ends_with("()") && name.compare(0, name.size() - 2, change.name) == 0));
  });
  if (has_any(inside)) return inside;
  std::set<std::string_view> names;
  inside = paths_with([&](const shard::Frame& frame) {
    const std::string& name = merged.strings[frame.name];
    const bool is_meant =
        frame.kind != shard::FrameKind::kRegion && last_part(name, frame.kind) == change.name;
    if (is_meant) names.insert(name);
    return is_meant;
  });
  if (names.size() > 1) return which_of(change, "functions", names);
  if (!has_any(inside)) return not_found(change, "function");
  return inside;
}

// What is at a line, or the calls that are below it. A file is meant by its whole path, or by the end of that
// if no other file ends so.
Result<std::vector<bool>> WhatIf::State::paths_at(const Change& change) const {
  const auto may_be_meant = [&](const shard::Frame& frame) {
    const std::string& file = merged.strings[frame.file];
    return frame.line == change.line && frame.kind != shard::FrameKind::kMpi &&
           frame.kind != shard::FrameKind::kRegion &&
           (file == change.file || file.ends_with("/" + change.file));
  };
  const auto is_meant_call = [&](const shard::Path& path) {
    return path.frame != kNone && merged.frames[path.frame].kind == shard::FrameKind::kMpi &&
           merged.strings[merged.frames[path.frame].name] == change.name;
  };
  const bool of_calls = change.kind == ChangeKind::kCallRemoved;
  std::set<std::string_view> files;
  const std::vector<bool> at = paths_with(may_be_meant);
  for (std::uint32_t p = 1; p < at.size(); ++p) {
    if (!at[p] || (of_calls && !is_meant_call(merged.paths[p]))) continue;
    for (std::uint32_t above = p; above != 0; above = merged.paths[above].parent)
      if (const std::uint32_t frame = merged.paths[above].frame;
          frame != kNone && may_be_meant(merged.frames[frame]))
        files.insert(merged.strings[merged.frames[frame].file]);
  }
  if (files.contains(change.file)) files = {change.file};
  if (files.size() > 1) return which_of(change, "files", files);
  if (files.empty()) return not_found(change, of_calls ? "call" : "line");
  std::vector<bool> inside = paths_with([&](const shard::Frame& frame) {
    return may_be_meant(frame) && files.contains(merged.strings[frame.file]);
  });
  for (std::uint32_t p = 0; of_calls && p < inside.size(); ++p)
    inside[p] = inside[p] && is_meant_call(merged.paths[p]);
  return inside;
}

Result<Amounts> WhatIf::State::amounts_of(const std::vector<Change>& changes) const {
  Amounts amounts = no_change();
  for (const Change& change : changes) {
    switch (change.kind) {
      case ChangeKind::kLine:
      case ChangeKind::kFunction:
      case ChangeKind::kRegion: {
        const Result<std::vector<bool>> inside = paths_of(change);
        if (!inside) return inside.error();
        for (std::size_t p = 0; p < inside.value().size(); ++p)
          if (inside.value()[p])
            amounts.of_path[p] = static_cast<float>(product(amounts.of_path[p], change.factor));
        amounts.paths_change = true;
        break;
      }
      case ChangeKind::kIo:
        if (std::none_of(merged.values.begin(), merged.values.end(), [](const shard::Value& value) {
              return value.category == shard::Category::kIo && value.wall_ns > 0;
            }))
          return not_found(change, "time in input and output");
        amounts.io = product(amounts.io, change.factor);
        break;
      case ChangeKind::kRankMean:
        if (const Result<void> added = add_rank_mean(change, amounts); !added) return added.error();
        break;
      case ChangeKind::kBalance:
        if (const Result<void> added = add_function_balance(change, amounts); !added) return added.error();
        break;
      case ChangeKind::kCallRemoved: {
        if (from_sums) return not_found(change, "call");
        const Result<std::vector<bool>> found = paths_of(change);
        if (!found) return found.error();
        const std::vector<bool>& calls = found.value();
        if (std::none_of(recording.trace.events.begin(), recording.trace.events.end(),
                         [&](const Event& event) { return calls[event.path]; }))
          return Error{"'" + change.text +
                           "': the recording has no single events of that call, so that what is "
                           "without it is not known",
                       ErrorKind::kNotFound};
        amounts.removed.resize(calls.size());
        for (std::size_t p = 0; p < calls.size(); ++p)
          if (calls[p]) amounts.removed[p] = true;
        break;
      }
      case ChangeKind::kLatency:
      case ChangeKind::kBandwidth: {
        if (from_sums) return not_found(change, "communication");
        const bool latency = change.kind == ChangeKind::kLatency;
        if (std::none_of(recording.network.begin(), recording.network.end(), [&](const Network& net) {
              return (latency ? net.latency_ns : net.ns_per_byte) > 0;
            }))
          return Error{"'" + change.text + "': nothing tells the network's " +
                           (latency ? "latency: no receive or collective operation of less than 64 KiB"
                                    : "bandwidth: no receive or collective operation of 64 KiB or more") +
                           " waited for another rank",
                       ErrorKind::kNotFound};
        double& factor = latency ? amounts.latency : amounts.bandwidth;
        factor = std::max(product(factor, change.factor), latency ? 0.0 : 1 / kMostProduct);
        break;
      }
      case ChangeKind::kThreads: {
        ThreadFactors factors(merged, change.factor);
        if (factors.empty()) return not_found(change, "OpenMP regions");
        amounts.threads.push_back(std::move(factors));
        amounts.paths_change = true;
        break;
      }
    }
  }
  if (amounts.change_work())
    amounts.of_region =
        teams.factors([&](std::uint32_t rank, bool main,
                          std::uint32_t path) { return amounts.of_work(recording, rank, main, path); },
                      amounts.team_balances);
  return amounts;
}

// Before each call site the rank takes as long as the others that make calls there do on average.
Result<void> WhatIf::State::add_rank_mean(const Change& change, Amounts& amounts) const {
  const auto rank = std::find_if(merged.ranks.begin(), merged.ranks.end(),
                                 [&](const shard::Rank& row) { return row.rank == change.rank; });
  if (rank == merged.ranks.end()) return not_found(change, "rank");
  return add_balance(change, {}, static_cast<std::uint32_t>(rank - merged.ranks.begin()), amounts);
}

Result<void> WhatIf::State::add_function_balance(const Change& change, Amounts& amounts) const {
  const Result<std::vector<bool>> found = paths_of(change);
  if (!found) return found.error();
  const std::vector<bool>& inside = found.value();
  // In an OpenMP region the threads of all teams there share it, and so do threads that are made together.
  bool in_team = false, elsewhere = false;
  std::vector<bool> outside_teams = inside;
  for (const shard::Value& value : merged.values) {
    if (!inside[value.path] || value.category == shard::Category::kMpi) continue;
    const std::uint32_t region = recording.region_of[value.path];
    const bool known = region != 0 && teams.knows(value.rank, region);
    in_team = in_team || known;
    elsewhere = elsewhere || !known;
    if (known) outside_teams[value.path] = false;
  }
  Amounts::GroupBalance groups = group_balance(outside_teams);
  if (in_team) amounts.team_balances.push_back({inside, !from_sums && merged.ranks.size() > 1});
  const bool in_group = !groups.factor.empty();
  if (in_group) amounts.group_balances.push_back(std::move(groups));
  const bool has_others = !from_sums && merged.ranks.size() > 1;
  if ((in_team || in_group) && (!has_others || !elsewhere)) return {};
  if (!has_others)
    return Error{
        "'" + change.text + "': there are neither other ranks to communicate with, nor threads that share it",
        ErrorKind::kNotFound};
  return add_balance(change, std::move(outside_teams), kNone, amounts);
}

// In each group of threads that are made and joined together, what is inside takes as long on each thread
// that does it as on all of these on average.
Amounts::GroupBalance WhatIf::State::group_balance(const std::vector<bool>& inside) const {
  Amounts::GroupBalance balance;
  std::map<std::uint32_t, std::map<std::uint32_t, double>> of_group;  // ns by thread
  for (std::uint32_t r = 0; r < merged.ranks.size(); ++r) {
    if (windows[r].empty()) continue;
    fork_join.for_each_part(r, [&](std::uint32_t thread, std::uint32_t span, std::uint32_t path, double ns) {
      if (inside[path] && fork_join.group_of(span) != 0) of_group[fork_join.group_of(span)][thread] += ns;
    });
  }
  for (const auto& [group, threads] : of_group) {
    double sum = 0;
    for (const auto& [thread, ns] : threads) sum += ns;
    if (threads.size() < 2) continue;
    for (const auto& [thread, ns] : threads)
      if (ns > 0) balance.factor[key_of(group, thread)] = sum / static_cast<double>(threads.size()) / ns;
  }
  balance.inside = inside;
  return balance;
}

// Before each call site: what is inside (empty: everything) takes as long on each rank as on all on average,
// or with `one` on that rank as on the others. Ranks are compared by what they do: that one had to wait
// longer for a processor is no work that others could do. With less to do it waits less in the same ratio;
// for what comes to it, as much as the ranks there do on average.
Result<void> WhatIf::State::add_balance(const Change& change, std::vector<bool> inside, std::uint32_t one,
                                        Amounts& amounts) const {
  if (from_sums || merged.ranks.size() < 2)
    return Error{"'" + change.text + "': there are no other ranks to communicate with", ErrorKind::kNotFound};
  struct Of {
    double ns = 0, waiting_ns = 0, gaps = 0;
  };
  std::map<std::uint32_t, std::map<std::uint32_t, Of>> of_site;  // by rank
  for_each_stretch([&](const Lane& lane, std::uint32_t call) {
    const Stretch& stretch = recording.stretch(lane, call);
    const auto useful = static_cast<double>(stretch.useful_ns);
    Of& of = of_site[recording.place_of(lane, call)][lane.rank];
    ++of.gaps;
    if (inside.empty()) of.ns += useful;
    for (std::uint32_t i = stretch.first; i < stretch.first + stretch.count; ++i) {
      const Part& part = recording.parts[i];
      const double ns = useful * static_cast<double>(part.share);
      const bool is_inside = inside.empty() || inside[part.path];
      if (recording.lacks_processor(part.path)) {
        if (inside.empty()) of.ns -= ns;
        if (is_inside) of.waiting_ns += ns;
      } else if (!inside.empty() && is_inside) {
        of.ns += ns;
      }
    }
  });
  Amounts::Balance balance;
  for (const auto& [site, ranks] : of_site) {
    double sum = 0, waiting = 0, count = 0;
    for (const auto& [rank, of] : ranks) {
      if (rank == one) continue;
      sum += std::max(of.ns, 0.0);
      waiting += of.waiting_ns;
      ++count;
    }
    for (const auto& [rank, of] : ranks) {
      if (count == 0 || (one != kNone && rank != one)) continue;
      const std::uint64_t key = key_of(rank, site);
      // What is left of a gap that was all waiting is rounding.
      const double mean = sum / count, own = of.ns > kLeastWork * (of.ns + of.waiting_ns) ? of.ns : 0.0;
      if (own > 0)
        balance.factor[key] = mean / own;
      else if (sum > 0)
        balance.added[key] = mean / of.gaps;
      if (mean < own)
        balance.waiting[key] = mean / own;
      else if (mean > own && waiting > 0)
        balance.added_waiting[key] = (mean - own) * waiting / sum / of.gaps;
    }
  }
  balance.inside = std::move(inside);
  amounts.balances.push_back(std::move(balance));
  return {};
}

// --- predictions ------------------------------------------------------------------------------------------

// How wrong the gain may be because stretches differ, and stand for a run of which they are a part.
double WhatIf::State::spread_s(const Outcome& outcome) const {
  if (recording.spans.empty()) return 0;
  std::vector<double> gains;
  for (std::size_t s = 0; s < recording.spans.size(); ++s)
    gains.push_back(replayed.of_stretches[s] - outcome.of_stretches[s]);
  return seconds(static_cast<double>(recording.represented.length_ns)) *
         error_of_mean(gains, 1 / recording.scale);
}

// What ranks do with the processors of their nodes: between calls as the samples say, and in MPI per second
// as in the run. A node's processors limit how fast its ranks can be.
void WhatIf::State::use_processors(const ChangedCosts& costs, const std::vector<double>& useful_ns,
                                   Outcome& outcome) const {
  outcome.nodes.resize(merged.nodes.size());
  const auto at_node = [&](std::uint32_t rank) -> NodeUse& { return outcome.nodes[merged.ranks[rank].node]; };
  for_each_stretch([&](const Lane& lane, std::uint32_t call) {
    if (lane.thread != 0) return;
    const ChangedCosts::ProcessorTime time = costs.processor_time(lane, call);
    const double scale = recording.share_within(lane, call) * recording.scale;
    at_node(lane.rank).ran_s += seconds(time.ran_ns * scale);
    at_node(lane.rank).wanted += seconds((time.ran_ns + time.lacked_ns) * scale);
  });
  const double represented_s = seconds(static_cast<double>(recording.represented.length_ns));
  const double other_s = recording.spans.empty() ? 0 : elapsed_s - represented_s;
  const double replayed_s = outcome.elapsed_s;
  for (std::size_t n = 0; n < processors.size(); ++n)
    if (processors[n] > 0)
      outcome.elapsed_s = std::max(outcome.elapsed_s, other_s + outcome.nodes[n].ran_s / processors[n]);
  outcome.limited_s = outcome.elapsed_s - replayed_s;
  for (std::uint32_t r = 0; r < merged.ranks.size(); ++r)
    at_node(r).wanted += std::max(outcome.elapsed_s - seconds(useful_ns[r]) -
                                      seconds(static_cast<double>(merged.ranks[r].paused_ns)),
                                  0.0) *
                         wanted_in_calls[r];
  for (NodeUse& node : outcome.nodes)
    node.wanted = outcome.elapsed_s > 0 ? node.wanted / outcome.elapsed_s : 0;
}

// From now on replays take no less time than the processors need. There are more of them than are known, if
// the recorded run had more of their time.
void WhatIf::State::find_processors() {
  processors = processors_of_nodes(merged);
  const double represented_s = seconds(static_cast<double>(recording.represented.length_ns));
  const double within_s = recording.spans.empty() ? replayed.elapsed_s : represented_s;
  for (std::size_t n = 0; n < processors.size(); ++n)
    if (processors[n] > 0 && within_s > 0)
      processors[n] = std::max(processors[n], replayed.nodes[n].ran_s / within_s);
}

// A replay takes it that threads wait for a processor as they did, in the same ratio to their work. How wrong
// that may be: what the run would gain if nobody waited, by the share by which more or fewer threads want
// processors; and for each call on the critical path how late a thread is that is woken up, which is another
// time each time, and longer by the same share. What other threads of a rank wait is replayed nowhere. No
// more than all waiting of the main threads.
double WhatIf::State::processors_error_s(const Outcome& outcome, const Outcome& without) const {
  if (without.elapsed_s < 0) return lacked.main_s;
  double change = 0;
  for (std::size_t n = 0; n < outcome.nodes.size(); ++n)
    change = std::max(change,
                      change_of_shortage(replayed.nodes[n].wanted, outcome.nodes[n].wanted, processors[n]));
  const double calls = outcome.calls_on_path;
  const double late_s =
      turn_s(merged, processors) * (kNormal * std::sqrt(calls) + calls * std::min(change, 1.0));
  const double gained_s = std::max(outcome.elapsed_s - without.elapsed_s, 0.0);
  return std::min(lacked.main_s, gained_s * change + late_s + lacked.others_s);
}

double WhatIf::State::error_s(const Amounts& amounts, const Outcome& outcome,
                              const std::function<Outcome()>& without) const {
  const auto part_of = [&](std::uint32_t path, double factor) {
    const auto has = [path](const auto& balance) { return !balance.inside.empty() && balance.inside[path]; };
    if (std::any_of(amounts.balances.begin(), amounts.balances.end(), has) ||
        std::any_of(amounts.team_balances.begin(), amounts.team_balances.end(), has) ||
        std::any_of(amounts.group_balances.begin(), amounts.group_balances.end(), has))
      return 1.0;
    return std::abs(1 - factor);
  };
  const auto is_in_team = [&](std::uint32_t rank, std::uint32_t path) {
    return recording.region_of[path] != 0 && teams.knows(rank, recording.region_of[path]);
  };
  struct Of {
    double changed_s = 0, variance = 0, helpers_s = 0, replayed_s = 0;
    // Of gaps with waits that change by different parts: the sums of these differences, and of their squares.
    double differences = 0, squares = 0;
  };
  const double blind_s = std::max(kBlind_s, kBlindPeriods * period_s);
  std::vector<Of> ranks(merged.ranks.size());
  // Of a rank's changed time t, t / period samples tell, with an error of their square root.
  for (const shard::Value& value : merged.values) {
    if (value.category == shard::Category::kMpi) continue;
    const double part = part_of(value.path, amounts.factor(recording, value));
    const double s = seconds(static_cast<double>(value.wall_ns));
    Of& of = ranks[value.rank];
    const double others = std::max(static_cast<double>(merged.ranks[value.rank].threads) - 1, 1.0);
    if (value.main_thread)
      of.changed_s += s * part;
    else if (windows[value.rank].empty() && !is_in_team(value.rank, value.path))
      of.helpers_s += s * part / others;
    // Of a team any thread may be the last. Of stretches, only the samples in these tell.
    if (value.main_thread || is_in_team(value.rank, value.path))
      of.variance += s * period_s * part * part * recording.scale / (value.main_thread ? 1 : others);
  }
  // Threads whose joins are replayed are like the main thread. What others save may not be saved by the run.
  for (std::uint32_t r = 0; r < merged.ranks.size(); ++r) {
    if (windows[r].empty() || !amounts.change_work()) continue;
    struct Helper {
      double changed_s = 0, variance = 0;
    };
    std::map<std::uint32_t, Helper> helpers;
    fork_join.for_each_part(r, [&](std::uint32_t thread, std::uint32_t, std::uint32_t path, double ns) {
      if (thread == 0 || is_in_team(r, path)) return;
      const double part = part_of(path, amounts.factor(recording, r, false, path));
      helpers[thread].changed_s += seconds(ns) * part;
      helpers[thread].variance += seconds(ns) * period_s * part * part;
    });
    std::vector<std::uint32_t> joined;
    for (const ForkJoin::Window& window : windows[r]) {
      const std::vector<std::uint32_t> here = fork_join.joined_in(r, window);
      joined.insert(joined.end(), here.begin(), here.end());
    }
    std::sort(joined.begin(), joined.end());
    double most_variance = 0;
    for (const auto& [thread, helper] : helpers) {
      if (helper.changed_s <= 0) continue;
      if (std::binary_search(joined.begin(), joined.end(), thread))
        most_variance = std::max(most_variance, helper.variance);
      else
        ranks[r].helpers_s = std::max(ranks[r].helpers_s, helper.changed_s);
    }
    ranks[r].variance += most_variance;
  }
  if (!from_sums && amounts.change_work())
    for_each_stretch([&](const Lane& lane, std::uint32_t call) {
      if (lane.thread != 0) return;
      const Stretch& stretch = recording.stretch(lane, call);
      Of& of = ranks[lane.rank];
      double blocked_s = 0, least = std::numeric_limits<double>::infinity(), most = 0;
      for (std::uint32_t i = stretch.first; i < stretch.first + stretch.count; ++i) {
        const Part& part = recording.parts[i];
        const double s = seconds(static_cast<double>(stretch.useful_ns)) * recording.scale *
                         recording.share_within(lane, call) * static_cast<double>(part.share);
        const double changed = part_of(part.path, amounts.factor(recording, lane.rank, true, part.path));
        of.replayed_s += s * changed;
        const auto found = recording.blocked.find(key_of(lane.rank, part.path));
        if (found == recording.blocked.end()) continue;
        blocked_s += s * found->second;
        least = std::min(least, changed), most = std::max(most, changed);
      }
      if (most <= least) return;
      const double difference = most - least;
      if (blocked_s < blind_s) {  // by chance each wait is seen as often as it is long
        of.variance += blocked_s * blind_s * difference * difference;
      } else {
        of.differences += difference;
        of.squares += difference * difference;
      }
    });
  double sampling = 0, helpers = 0, left_out = 0, blind = 0;
  for (std::size_t r = 0; r < merged.ranks.size(); ++r) {
    const Of& of = ranks[r];
    const double error = kNormal * std::sqrt(of.variance);
    sampling = std::max(sampling, error);
    if (!from_sums) left_out = std::max(left_out, of.changed_s - of.replayed_s - error);
    // In each such gap the first wait has up to blind_s of the next one: half of that on average, and always
    // the same way.
    blind = std::max(blind, blind_s * (of.differences / 2 + kNormal * std::sqrt(of.squares / 12)));
    helpers = std::max(helpers, of.helpers_s - of.changed_s);
  }
  const double gain = std::abs(replayed.elapsed_s - outcome.elapsed_s);
  double of_network = 0;
  for (const Network& net : recording.network) {
    if (amounts.latency == 1 && amounts.bandwidth == 1) continue;
    const bool is_rough =
        (amounts.latency != 1 && net.latency_is_rough) || (amounts.bandwidth != 1 && net.bandwidth_is_rough);
    of_network = std::max(of_network, (is_rough ? kRoughNetworkError : kNetworkError) * gain);
  }
  const double of_threads = amounts.threads.empty() ? 0 : kThreadsError * gain;
  const double of_stretches = spread_s(outcome);
  const double random =
      std::sqrt(sampling * sampling + of_network * of_network + of_threads * of_threads +
                of_stretches * of_stretches + std::pow(kRunVariation * outcome.elapsed_s, 2));
  // What helper threads save beyond the main thread may or may not be saved by those that wait for them. What
  // samples know of the changed code, but its gaps do not have, was not changed.
  const Represented& represented = recording.represented;
  const double of_length = represented.length_ns == 0 ? 0
                                                      : gain * static_cast<double>(represented.error_ns) /
                                                            static_cast<double>(represented.length_ns);
  double of_processors = 0;
  if (gain > 0)
    of_processors = is_short_of_processors() ? processors_error_s(outcome, without()) : lacked.main_s;
  const double bound = std::min(helpers, elapsed_s) + left_out + blind + of_processors + outcome.limited_s +
                       outcome.apart_s + of_length;
  return random + std::abs(replayed.elapsed_s - elapsed_s) + bound;
}

WhatIf::WhatIf(std::size_t threads) : state_(std::make_unique<State>()) { state_->threads = threads; }
WhatIf::~WhatIf() = default;

void WhatIf::add(shard::ShardData shard) {
  state_->builder.add(shard);
  state_->merger.add(std::move(shard));
}
Result<void> WhatIf::prepare() { return state_->prepare(); }
std::size_t WhatIf::replays_per_prediction() const { return state_->is_short_of_processors() ? 2 : 1; }
std::size_t WhatIf::threads() const { return state_->threads; }
double WhatIf::elapsed_s() const { return state_->elapsed_s; }
const Outcome& WhatIf::replayed() const { return state_->replayed; }
bool WhatIf::is_from_sums() const { return state_->from_sums; }
std::optional<ReplayedStretches> WhatIf::stretches() const {
  const std::vector<TimeSpan>& spans = state_->recording.spans;
  if (spans.empty()) return std::nullopt;
  ReplayedStretches replayed{spans.size(), 0};
  for (const TimeSpan& span : spans) replayed.time_s += seconds(static_cast<double>(span.length_ns()));
  return replayed;
}

Result<Prediction> WhatIf::predict(const std::vector<Change>& changes) const {
  const Result<Amounts> amounts = state_->amounts_of(changes);
  if (!amounts) return amounts.error();
  // The second replay is needed unless the change gains nothing.
  Amounts alone = amounts.value();
  alone.own_processors = true;
  const auto when = state_->is_short_of_processors() && state_->threads > 1
                        ? std::launch::async | std::launch::deferred
                        : std::launch::deferred;
  std::future<Outcome> without = std::async(when, [&] { return state_->replay(alone); });
  Prediction prediction;
  prediction.outcome = state_->outcome(amounts.value());
  if (prediction.outcome.elapsed_s < 0)
    return Error{"nothing is predicted: with the change the events contradict each other",
                 ErrorKind::kNotFound};
  if (!(prediction.outcome.elapsed_s < kLongest_s))
    return Error{"nothing is predicted: with the change the run would take a century", ErrorKind::kNotFound};
  prediction.error_s = state_->error_s(amounts.value(), prediction.outcome, [&] { return without.get(); });
  return prediction;
}

}  // namespace clusterprof::aggregator::whatif
