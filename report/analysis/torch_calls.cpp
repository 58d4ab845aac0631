// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/torch_calls.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "formats/wire/c10d_functions.h"
#include "report/analysis/mpi_calls.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {

using shard::Category;
using shard::Frame;
using shard::FrameKind;
using shard::kNone;

namespace {

struct Operation {
  std::string_view function;  // of distributed_c10d.py
  std::string_view name;      // that is shown
  TorchKind kind;
  bool waits_for_all;  // no rank leaves it before all have come
};

constexpr auto kCollective = TorchKind::kCollective;
constexpr auto kPointToPoint = TorchKind::kPointToPoint;
constexpr auto kRendezvous = TorchKind::kRendezvous;

constexpr auto kOperations = std::to_array<Operation>({
    {"all_reduce", "all_reduce", kCollective, true},
    {"all_reduce_coalesced", "all_reduce_coalesced", kCollective, true},
    {"all_gather", "all_gather", kCollective, true},
    {"all_gather_coalesced", "all_gather_coalesced", kCollective, true},
    {"all_gather_into_tensor", "all_gather_into_tensor", kCollective, true},
    {"_all_gather_base", "all_gather_into_tensor", kCollective, true},
    {"all_gather_object", "all_gather_object", kCollective, true},
    {"reduce_scatter", "reduce_scatter", kCollective, true},
    {"reduce_scatter_tensor", "reduce_scatter_tensor", kCollective, true},
    {"_reduce_scatter_base", "reduce_scatter_tensor", kCollective, true},
    {"all_to_all", "all_to_all", kCollective, true},
    {"all_to_all_single", "all_to_all_single", kCollective, true},
    {"barrier", "barrier", kCollective, true},
    {"monitored_barrier", "monitored_barrier", kCollective, true},
    {"broadcast", "broadcast", kCollective, false},
    {"broadcast_object_list", "broadcast_object_list", kCollective, false},
    {"reduce", "reduce", kCollective, false},
    {"gather", "gather", kCollective, false},
    {"gather_object", "gather_object", kCollective, false},
    {"scatter", "scatter", kCollective, false},
    {"scatter_object_list", "scatter_object_list", kCollective, false},
    {"send", "send", kPointToPoint, false},
    {"recv", "recv", kPointToPoint, false},
    {"isend", "isend", kPointToPoint, false},
    {"irecv", "irecv", kPointToPoint, false},
    {"batch_isend_irecv", "batch_isend_irecv", kPointToPoint, false},
    {"send_object_list", "send_object_list", kPointToPoint, false},
    {"recv_object_list", "recv_object_list", kPointToPoint, false},
    {"wait", "Work.wait", TorchKind::kWait, false},
    {"init_process_group", "init_process_group", kRendezvous, false},
    {"new_group", "new_group", kRendezvous, false},
});
// Native code.
constexpr Operation kWait = {{}, "Work.wait", TorchKind::kWait, false};
constexpr Operation kReducer = {{}, "Reducer", kCollective, false};
constexpr Operation kFinalizeBackward = {{}, "Reducer.finalize_backward", TorchKind::kWait, false};

// Where `file` is FOLDER/torch/... with this end, FOLDER/torch/; else empty.
std::string_view torch_folder(std::string_view file, std::string_view end) {
  constexpr std::string_view kPackage = "torch/";
  if (!file.ends_with(end)) return {};
  const std::size_t begin = file.size() - end.size();
  return begin == 0 || file[begin - 1] == '/' ? file.substr(0, begin + kPackage.size()) : std::string_view();
}

constexpr std::string_view kFunctionsFile = "torch/distributed/distributed_c10d.py";
// Of the files that a frame between the user's and an operation may be of.
constexpr std::array<std::string_view, 5> kTorchFiles = {
    kFunctionsFile, "torch/_tensor.py", "torch/autograd/__init__.py", "torch/nn/modules/module.py",
    "torch/nn/parallel/distributed.py"};

const Operation* operation_of_python(std::string_view file, std::string_view name) {
  if (torch_folder(file, kFunctionsFile).empty()) return nullptr;
  const std::string_view function = name.substr(name.rfind('.') + 1);
  const auto* const found = std::find_if(kOperations.begin(), kOperations.end(),
                                         [&](const Operation& of) { return of.function == function; });
  return found == kOperations.end() ? nullptr : found;
}

const Operation* operation_of_native(std::string_view name) {
  constexpr std::string_view kNamespace = "c10d::", kOfReducer = "c10d::Reducer::", kEnd = "::wait";
  if (!name.starts_with(kNamespace)) return nullptr;
  name = name.substr(0, name.find('('));
  if (name.starts_with(kOfReducer))
    return name.substr(kOfReducer.size()) == "finalize_backward" ? &kFinalizeBackward : &kReducer;
  if (!name.ends_with(kEnd)) return nullptr;
  // Of Work, ProcessGroupGloo::SendWork, ProcessGroupNCCL::WorkNCCL; not of a store.
  name.remove_suffix(kEnd.size());
  return name.substr(name.rfind(':') + 1).find("Work") != std::string_view::npos ? &kWait : nullptr;
}

TorchKind torch_kind_of(std::string_view op) {
  for (const wire::C10dFunction& function : wire::kC10dFunctions) {
    if (op != function.name) continue;
    if (function.kind == wire::MpiClass::kCollective) return kCollective;
    if (function.kind == wire::MpiClass::kP2p) return kPointToPoint;
    if (function.kind == wire::MpiClass::kManagement) return kRendezvous;
  }
  return TorchKind::kWait;
}

// The longest interval between two looks at a thread that does not run (docs/design/0002).
double longest_look_s(const shard::Run& run) {
  constexpr double kLook_s = 0.1, kPeriods = 4;
  return run.rate_hz > 0 ? std::max(kLook_s, kPeriods / run.rate_hz) : kLook_s;
}

}  // namespace

TorchTime::TorchTime(const shard::ShardData& head, const CallPaths& paths)
    : cpu_clock_(head.run.clock == "cpu"), look_s_(longest_look_s(head.run)) {
  find_calls(head, paths);
  here_.resize(calls_.size());
}

void TorchTime::find_calls(const shard::ShardData& head, const CallPaths& paths) {
  std::vector<const Operation*> operations(head.frames.size(), nullptr);
  std::set<std::string_view> folders;
  bool any = false;
  for (std::size_t i = 0; i < head.frames.size(); ++i) {
    const Frame& frame = head.frames[i];
    const std::string_view file = paths.text(frame.file), name = paths.text(frame.name);
    if (frame.kind == FrameKind::kNative) operations[i] = operation_of_native(name);
    if (frame.kind == FrameKind::kPython) {
      operations[i] = operation_of_python(file, name);
      for (const std::string_view end : kTorchFiles)
        if (const std::string_view folder = torch_folder(file, end); !folder.empty()) folders.insert(folder);
    }
    any = any || operations[i] != nullptr;
  }
  if (!any) return;

  const auto is_torch = [&](std::string_view file) {
    return std::any_of(folders.begin(), folders.end(), [&](auto folder) { return file.starts_with(folder); });
  };
  std::vector<bool> may_call(head.frames.size());
  for (std::size_t i = 0; i < head.frames.size(); ++i)
    may_call[i] = head.frames[i].kind == FrameKind::kPython && !is_torch(paths.text(head.frames[i].file));

  std::map<std::tuple<std::string_view, std::string_view, std::uint32_t, std::string_view>, std::uint32_t>
      numbers;
  const auto number = [&](const Operation& operation, std::uint32_t caller) {
    Call call{operation.name, {}, {}, 0, operation.kind, operation.waits_for_all};
    if (const Frame* const frame = paths.frame(caller)) {
      call.file = paths.text(frame->file);
      call.function = paths.text(frame->name);
      call.line = frame->line;
    }
    const auto [known, is_new] = numbers.try_emplace(std::tuple(call.op, call.file, call.line, call.function),
                                                     static_cast<std::uint32_t>(calls_.size()));
    if (is_new) calls_.push_back(call);
    return known->second;
  };

  // The innermost Python frame outside torch, of the user's own code where there is one.
  std::vector<std::uint32_t> caller(paths.size(), 0);
  call_of_.assign(paths.size(), kNone);
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    const std::uint32_t above = paths.parent(path);
    caller[path] = caller[above];
    call_of_[path] = call_of_[above];
    if (paths.frame(path) == nullptr) continue;
    const std::uint32_t frame = head.paths[path].frame;
    const Operation* const operation = operations[frame];
    // What an operation calls is part of it: barrier() within init_process_group(), Work.wait in
    // all_reduce().
    const bool ends_backward = operation == &kFinalizeBackward && call_of_[above] != kNone &&
                               calls_[call_of_[above]].op == kReducer.name;
    if (operation != nullptr && (call_of_[above] == kNone || ends_backward))
      call_of_[path] = number(*operation, caller[above]);
    if (may_call[frame] &&
        (paths.owner(path) == Owner::kOwn || caller[above] == 0 || paths.owner(caller[above]) != Owner::kOwn))
      caller[path] = path;
  }
}

void TorchTime::add(const RankInput& rank) {
  if (call_of_.empty() || !rank.sampled) return;
  for (const shard::Value& value : rank.values) {
    const std::uint32_t call = call_of_[value.path];
    // A recorded call is told by itself.
    if (call == kNone || value.category == Category::kMpi) continue;
    RankTime& here = here_[call];
    if (here.time_ns + here.samples == 0) touched_.push_back(call);
    here.time_ns += value.wall_ns;
    here.samples += value.samples;
    if (value.category == Category::kRunnable) here.runnable_ns += value.wall_ns;
    if ((value.category == Category::kIdle || value.category == Category::kIo) &&
        value.wall_ns > value.cpu_ns)
      here.blocked_ns += value.wall_ns - value.cpu_ns;
  }
  for (const std::uint32_t call : touched_) {
    RankTime& here = here_[call];
    here.call = call, here.position = rank.position;
    if (here.time_ns != 0) times_.push_back(here);
    here = {};
  }
  touched_.clear();
}

void TorchTime::finish(const RankOrder& ranks, Analysis& analysis) const {
  TorchTimes& result = analysis.torch;
  for (const MpiCallRow& call : analysis.mpi_calls) {
    if (communication_library(call.op) != "torch.distributed") continue;
    TorchRow& row = result.rows.emplace_back();
    row.op = call.op, row.kind = torch_kind_of(call.op);
    row.file = call.file, row.function = call.function, row.line = call.line;
    row.time_s = call.time_s, row.spread = call.spread;
    row.count = call.count, row.wait_s = call.wait_s;
    result.source = TorchSource::kCalls;
  }
  if (result.source == TorchSource::kCalls) return;

  std::vector<std::vector<RankTime>> times(calls_.size());
  for (const RankTime& time : times_)
    if (time.call < times.size() && time.position < ranks.numbers.size()) times[time.call].push_back(time);
  for (std::size_t call = 0; call < calls_.size(); ++call) {
    if (times[call].empty()) continue;
    std::sort(times[call].begin(), times[call].end(),
              [](const RankTime& x, const RankTime& y) { return x.position < y.position; });
    TorchRow& row = result.rows.emplace_back(row_of(calls_[call], times[call], ranks));
    if (calls_[call].waits_for_all && !cpu_clock_) find_late_ranks(times[call], ranks, row);
  }
  std::sort(result.rows.begin(), result.rows.end(), [](const TorchRow& x, const TorchRow& y) {
    return std::tie(y.time_s, x.op, x.file, x.line, x.function) <
           std::tie(x.time_s, y.op, y.file, y.line, y.function);
  });
  if (result.rows.empty()) return;
  const bool is_other =
      std::any_of(analysis.run.notes.begin(), analysis.run.notes.end(),
                  [](const NoteRecord& note) { return note.code == shard::NoteCode::kTorchNotRecorded; });
  result.source = !analysis.mpi_watched ? TorchSource::kNotWatched
                  : is_other            ? TorchSource::kOtherLibtorch
                                        : TorchSource::kNoGlooCall;
}

TorchRow TorchTime::row_of(const Call& call, const std::vector<RankTime>& times,
                           const RankOrder& ranks) const {
  TorchRow row;
  row.op = call.op, row.kind = call.kind;
  row.file = call.file, row.function = call.function, row.line = call.line;
  std::uint64_t time_ns = 0, blocked_ns = 0, runnable_ns = 0, samples = 0;
  Extremes extremes;
  const RankTime* least = &times.front();
  std::uint32_t absent = 0;  // the first position without time
  for (const RankTime& time : times) {
    time_ns += time.time_ns, blocked_ns += time.blocked_ns, runnable_ns += time.runnable_ns;
    samples += time.samples;
    extremes.add(time.time_ns, time.position);
    if (time.time_ns < least->time_ns) least = &time;
    if (time.position == absent) ++absent;
    const std::int32_t rank = ranks.number(time.position);
    if (!row.ranks.empty() && row.ranks.back().last + 1 == rank)
      row.ranks.back().last = rank;
    else
      row.ranks.push_back({rank, rank});
  }
  if (row.ranks.size() > kMaxNoteParts) row.ranks.resize(kMaxNoteParts);
  row.rank_count = times.size();
  row.min_rank = ranks.number(absent < ranks.numbers.size() ? absent : least->position);
  row.time_s = to_seconds(time_ns);
  row.spread = ranks.spread(time_ns, extremes);
  row.samples = samples;
  if (cpu_clock_) return row;
  row.blocked_s = to_seconds(blocked_ns);
  row.runnable_s = to_seconds(runnable_ns);
  row.running_s = to_seconds(time_ns - std::min(time_ns, blocked_ns + runnable_ns));
  return row;
}

// Who comes last to an operation that waits for all does not wait in it. Nothing is said where a rank was not
// seen in it, which may not be a member of the group, or where most ranks have little time: then the one with
// much is early, and no single rank late.
void TorchTime::find_late_ranks(const std::vector<RankTime>& times, const RankOrder& ranks,
                                TorchRow& row) const {
  if (times.size() < 2 || times.size() != ranks.numbers.size()) return;
  // Waiting for a processor within the call is no waiting for a rank.
  const auto seconds = [](const RankTime& time) {
    return to_seconds(time.time_ns - std::min(time.time_ns, time.runnable_ns));
  };
  // A sample's time may belong elsewhere by chance, but of one wait no more than until the next look.
  const auto variance = [&](const RankTime& time) {
    const auto samples = static_cast<double>(std::max<std::uint64_t>(time.samples, 1));
    const double error_s = std::min(seconds(time) / samples, look_s_);
    return samples * error_s * error_s;
  };
  const auto [least, most] =
      std::minmax_element(times.begin(), times.end(),
                          [&](const RankTime& x, const RankTime& y) { return seconds(x) < seconds(y); });
  const double middle_s = (seconds(*least) + seconds(*most)) / 2;
  std::vector<std::int32_t> late;
  double late_sum_s = 0, others_sum_s = 0, others_variance = 0;
  for (const RankTime& time : times) {
    if (seconds(time) < middle_s) {
      late.push_back(ranks.number(time.position));
      late_sum_s += seconds(time);
    } else {
      others_sum_s += seconds(time);
      others_variance += variance(time);
    }
  }
  if (late.empty() || 2 * late.size() > times.size()) return;
  const auto others = static_cast<double>(times.size() - late.size());
  const double late_mean_s = late_sum_s / static_cast<double>(late.size());
  const double more_s = others_sum_s / others - late_mean_s;
  const double error_s = std::sqrt(variance(*least) + others_variance / (others * others));
  if (more_s < thresholds::kSamplingErrors * error_s) return;
  row.late_ranks = std::move(late);
  row.latest_rank = ranks.number(least->position);
  row.late_s = more_s * others;
}

}  // namespace clusterprof::report
