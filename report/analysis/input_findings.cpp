// SPDX-License-Identifier: BSD-3-Clause
// Finds main threads that wait for data which threads or child processes of theirs make, as data loaders do.
// Told from calls of queues, pipes and PyTorch's DataLoader on the call paths (input_calls.hpp); pools whose
// results are awaited are no loaders. docs/metrics.md has the conditions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "report/analysis/channels.hpp"
#include "report/analysis/evidence.hpp"
#include "report/analysis/finding_groups.hpp"
#include "report/analysis/input_calls.hpp"
#include "report/analysis/last_name.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/threads.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;
using Kind = FindingKind;

class InputFindings {
 public:
  explicit InputFindings(FindingBuilder& builder)
      : builder_(builder),
        data_(builder.data()),
        paths_(builder.paths()),
        analysis_(builder.analysis()),
        calls_(builder.paths()) {}

  void find() {
    if (analysis_.rank_seconds <= 0 || analysis_.run.clock == "cpu") return;
    std::vector<double> waits(paths_.size(), 0.0);  // seconds by path
    std::vector<bool> is_wait(paths_.size(), false);
    double wait_s = 0, of_threads_s = 0, of_processes_s = 0;
    std::uint32_t most = 0;
    for (std::uint32_t path = 1; path < paths_.size(); ++path) {
      const double ns = builder_.main_ns(path, Category::kIdle) + builder_.main_ns(path, Category::kIo);
      if (ns == 0) continue;
      const ChannelCall call = calls_.wait_at(path);
      if (call.channel != Channel::kTake) continue;
      waits[path] = ns / 1e9;
      is_wait[path] = true;
      wait_s += waits[path];
      if (call.between == Between::kThreads) of_threads_s += waits[path];
      if (call.between == Between::kProcesses) of_processes_s += waits[path];
      if (waits[path] > waits[most]) most = path;
    }
    const double share = builder_.share_of_ranks(wait_s);
    if (share < thresholds::kInput || consumed_s(most, is_wait) < thresholds::kConsumed * wait_s) return;
    const Between between = of_threads_s > wait_s / 2     ? Between::kThreads
                            : of_processes_s > wait_s / 2 ? Between::kProcesses
                                                          : Between::kEither;
    find_workers(between);
    const Workers* const workers = slowest(between, wait_s);
    if (workers == nullptr) return;

    Finding& finding = builder_.add_by_share(Kind::kInputBound, share);
    builder_.blame_most(finding, waits);
    finding.gain_s = share * analysis_.recorded_s;
    finding.action = FindingAction::kFasterInput;
    finding.site = workers->site;
    finding.evidence.set(Key::kWorkerKind, std::string(workers->are_threads ? "threads" : "processes"));
    finding.evidence.set(Key::kWorkersBusy, workers->busy_ns / workers->all_ns);
    set_rank(finding);
    if (const std::uint64_t count = count_of(*workers, finding.rank); count != 0)
      finding.evidence.set(Key::kWorkers, static_cast<double>(count));
    builder_.input_waits = std::move(is_wait);
  }

 private:
  // Threads that run one function of the user's, or processes that were made on one call path.
  struct Workers {
    bool are_threads = true;
    std::uint32_t of = 0;  // the function's number, or the path
    double all_ns = 0, busy_ns = 0;
    SourceLocation site;  // where they are busy most
  };

  // What the main threads have computed in and near the code that waits, apart from imports. Who only
  // collects results does nothing else there.
  [[nodiscard]] double consumed_s(std::uint32_t wait, const std::vector<bool>& is_wait) const {
    constexpr int kFunctions = 3;  // of the user's: a wrapper, an iterator, and the loop
    std::uint32_t loop = 0;
    int functions = 0;
    for (std::uint32_t at = wait; at != 0 && functions < kFunctions; at = paths_.parent(at)) {
      if (paths_.owner(at) != Owner::kOwn || paths_.source(at) != at) continue;
      if (functions != 0 && paths_.text(paths_.frame(at)->name) == "<module>")
        break;  // everything is below it
      loop = at;
      ++functions;
    }
    if (loop == 0) return 0;
    // In any line of that function.
    std::vector<bool> below(paths_.size(), false);
    double ns = 0;
    for (std::uint32_t path = 1; path < paths_.size(); ++path) {
      const std::uint32_t above = paths_.parent(path);
      below[path] =
          below[above] || (above == paths_.parent(loop) && paths_.function(path) == paths_.function(loop));
      if (!below[path] || paths_.in_import(path) || is_wait[path]) continue;
      for (const Category category :
           {Category::kPython, Category::kNative, Category::kSystem, Category::kMpi, Category::kRunnable})
        ns += builder_.main_ns(path, category);
    }
    return ns / 1e9;
  }

  // The path of which the process's own paths are below. A forked child goes on in the function that has
  // forked it.
  [[nodiscard]] std::uint32_t begin_of(const shard::Process& process) const {
    if (process.origin == shard::ProcessOrigin::kRank || process.path >= paths_.size()) return 0;
    return process.origin == shard::ProcessOrigin::kFork ? paths_.parent(process.path) : process.path;
  }

  // Divides what threads other than the main ones of ranks did among workers.
  void find_workers(Between between) {
    std::vector<bool> begins(paths_.size(), false);
    for (const shard::Process& process : data_.processes) begins[begin_of(process)] = true;
    begins[0] = false;
    // By path: the process's beginning above it, and the outermost own frame, below that.
    std::vector<std::uint32_t> begin(paths_.size(), 0), own(paths_.size(), 0);
    std::vector<bool> is_aside(paths_.size(), false);
    struct Place {
      double ns = 0;
      std::uint32_t path = 0;
      double most_ns = 0;
    };
    using FunctionKey = std::pair<std::string_view, std::string_view>;  // file, name
    struct Sum {
      Workers workers;
      std::map<FunctionKey, Place> functions;
      std::map<std::tuple<FunctionKey, std::uint32_t>, double> lines;
    };
    std::map<std::pair<bool, std::uint32_t>, Sum> sums;
    for (std::uint32_t path = 1; path < paths_.size(); ++path) {
      const std::uint32_t above = paths_.parent(path);
      begin[path] = begins[path] ? path : begin[above];
      own[path] = begins[path] ? 0 : own[above];
      is_aside[path] = (!begins[path] && is_aside[above]) || begins_aside(path);
      const shard::Frame* const frame = paths_.frame(path);
      const bool is_code = frame != nullptr && (frame->kind == shard::FrameKind::kPython ||
                                                frame->kind == shard::FrameKind::kNative);
      if (!begins[path] && own[path] == 0 && is_code && paths_.owner(path) == Owner::kOwn) own[path] = path;
      if (is_aside[path]) continue;
      const bool is_thread = begin[path] == 0;
      // Who runs nothing of the user's makes no data for it.
      if (is_thread && (own[path] == 0 || paths_.frame(own[path])->kind != shard::FrameKind::kPython))
        continue;
      double all_ns = 0, busy_ns = 0;
      for (std::size_t c = 0; c < shard::kCategories; ++c) {
        const auto category = static_cast<Category>(c);
        const auto ns = static_cast<double>(builder_.time().helper_ns(builder_.time().cell(path, category)));
        if (ns == 0) continue;
        all_ns += ns;
        if (is_busy(path, category, !is_thread && between != Between::kThreads)) busy_ns += ns;
      }
      if (all_ns == 0) continue;
      const std::uint32_t key = is_thread ? paths_.function(own[path]) : begin[path];
      Sum& sum = sums[{is_thread, key}];
      sum.workers.are_threads = is_thread;
      sum.workers.of = key;
      sum.workers.all_ns += all_ns;
      sum.workers.busy_ns += busy_ns;
      if (busy_ns == 0) continue;
      const std::uint32_t at = own[path] != 0 ? paths_.place(path) : innermost_code(path, begin[path]);
      const shard::Frame* const place = paths_.frame(at);
      if (place == nullptr) continue;
      const FunctionKey function{paths_.text(place->file), paths_.text(place->name)};
      double& line_ns = sum.lines[{function, place->line}];
      line_ns += busy_ns;
      Place& known = sum.functions[function];
      known.ns += busy_ns;
      if (line_ns < known.most_ns) continue;
      known.most_ns = line_ns;
      known.path = at;
    }
    for (auto& [key, sum] : sums) {
      const auto most =
          std::max_element(sum.functions.begin(), sum.functions.end(),
                           [](const auto& x, const auto& y) { return x.second.ns < y.second.ns; });
      if (most == sum.functions.end()) continue;
      sum.workers.site = place_of(paths_, most->second.path);
      workers_.push_back(std::move(sum.workers));
    }
  }

  // Threads that only serve a process: the one that feeds a queue, and those of native pools.
  [[nodiscard]] bool begins_aside(std::uint32_t path) const {
    const shard::Frame* const frame = paths_.frame(path);
    if (frame == nullptr) return false;
    const std::string& name = paths_.text(frame->name);
    if (frame->kind == shard::FrameKind::kNative) return name.starts_with('[') && name.ends_with(" threads]");
    return frame->kind == shard::FrameKind::kPython && last_name(name) == "_feed" &&
           channel_file(paths_.text(frame->file)) == ChannelFile::kProcessQueue;
  }

  // The innermost frame of code on the path below `above`.
  [[nodiscard]] std::uint32_t innermost_code(std::uint32_t path, std::uint32_t above) const {
    std::uint32_t native = 0;
    for (; path != 0 && path != above; path = paths_.parent(path)) {
      const shard::Frame* const frame = paths_.frame(path);
      if (frame == nullptr) continue;
      if (frame->kind == shard::FrameKind::kPython) return path;
      if (native == 0 && frame->kind == shard::FrameKind::kNative &&
          !is_runtime_module(paths_.text(frame->module)))
        native = path;
    }
    return native;
  }

  // Whether a worker makes data. One that waits for room, for something to do or for an event does not. Who
  // sleeps or waits for a peer may only watch something, unless it is a process that sends to the one that
  // waits.
  [[nodiscard]] bool is_busy(std::uint32_t path, Category category, bool is_sender) const {
    if (category != Category::kIdle && category != Category::kIo) return true;
    switch (off_cpu_of(paths_, path)) {
      case OffCpu::kGil:
      case OffCpu::kFile:
        return true;
      case OffCpu::kSleep:
        return is_sender;
      case OffCpu::kNetwork:
        return is_sender && !is_in_channel(path);
      default:
        return false;
    }
  }
  [[nodiscard]] bool is_in_channel(std::uint32_t path) const {
    for (; path != 0; path = paths_.parent(path)) {
      const shard::Frame* const frame = paths_.frame(path);
      if (frame == nullptr || frame->kind != shard::FrameKind::kPython) continue;
      const std::string& file = paths_.text(frame->file);
      const std::string_view name = last_name(paths_.text(frame->name));
      if (paths_.owner(path) == Owner::kOwn) return false;
      if (channel_in(file, name).channel != Channel::kNone || awaits_results(file, name)) return true;
    }
    return false;
  }

  // The busy ones with the most work.
  [[nodiscard]] const Workers* slowest(Between between, double wait_s) const {
    const Workers* found = nullptr;
    for (const Workers& workers : workers_) {
      if (between == Between::kProcesses && workers.are_threads) continue;
      if (workers.busy_ns < thresholds::kWorkersBusy * workers.all_ns ||
          workers.busy_ns / 1e9 < thresholds::kExplained * wait_s)
        continue;
      if (found == nullptr || workers.busy_ns > found->busy_ns) found = &workers;
    }
    return found;
  }

  // The rank with most of the waiting on that line.
  void set_rank(Finding& finding) const {
    if (analysis_.ranks.size() == 1) {
      set_ranks(finding, {analysis_.ranks.front().rank});
      return;
    }
    if (!analysis_.off_cpu) return;
    for (const OffCpuRow& row : *analysis_.off_cpu) {  // largest first
      if (row.file != finding.place.file || row.line != finding.place.line ||
          row.function != finding.place.function || row.main_thread_s <= 0)
        continue;
      finding.rank = row.max_rank;
      return;
    }
  }

  // How many there were at a time: loaders are made anew for each pass over the data. `rank`: of which;
  // empty: of all.
  [[nodiscard]] std::uint64_t count_of(const Workers& workers,  // 0: not known, as in a region
                                       const std::optional<std::int32_t>& rank) const {
    double alive_s = 0, start_s = 0, end_s = 0;
    bool any = false;
    const auto add = [&](const auto& row) {
      if (rank && data_.ranks[row.rank].rank != *rank) return;
      const double begin_s = static_cast<double>(row.start_utc_ns - data_.run.start_utc_ns) / 1e9;
      const double elapsed_s = static_cast<double>(row.elapsed_ns) / 1e9;
      alive_s += elapsed_s * (row.count == 1 ? 1 : 0);
      start_s = any ? std::min(start_s, begin_s) : begin_s;
      end_s = any ? std::max(end_s, begin_s + elapsed_s) : begin_s + elapsed_s;
      any = true;
    };
    if (workers.are_threads) {
      for (const shard::Thread& thread : data_.threads) {
        if (thread.kind != shard::ThreadKind::kPython || thread.rank >= data_.ranks.size()) continue;
        for (const std::uint32_t path : {thread.top_path, thread.last_path}) {
          if (path == 0 || path >= paths_.size()) continue;
          const std::uint32_t outermost = outermost_own(paths_, path);
          if (outermost == 0 || paths_.function(outermost) != workers.of) continue;
          add(thread);
          break;
        }
      }
    } else {
      for (const shard::Process& process : data_.processes)
        if (process.rank < data_.ranks.size() && begin_of(process) == workers.of) add(process);
    }
    return end_s > start_s
               ? static_cast<std::uint64_t>(std::max(1L, std::lround(alive_s / (end_s - start_s))))
               : (any ? 1 : 0);
  }

  FindingBuilder& builder_;
  const shard::ShardData& data_;
  const CallPaths& paths_;
  Analysis& analysis_;
  std::vector<Workers> workers_;
  InputCalls calls_;
};

}  // namespace

void find_slow_input(FindingBuilder& builder) { InputFindings(builder).find(); }

}  // namespace clusterprof::report
