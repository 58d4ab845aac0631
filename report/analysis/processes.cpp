// SPDX-License-Identifier: BSD-3-Clause
// The shard says how the kernel was asked for a process. Which interface of Python's did that is seen from
// the call path.
#include "report/analysis/processes.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/command_text.hpp"
#include "base/base_name.hpp"
#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/evidence.hpp"
#include "report/analysis/frame_owner.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::ProcessOrigin;

constexpr std::string_view kWorkerProgram = "worker", kTrackerProgram = "resource tracker",
                           kServerProgram = "fork server";

// The innermost module of Python's standard library on a path that makes processes.
enum class Maker { kNone, kSubprocess, kFork, kSpawn, kForkServer, kResourceTracker };

Maker maker_of(const CallPaths& paths, std::uint32_t path) {
  constexpr std::pair<std::string_view, Maker> kFiles[] = {
      {"/subprocess.py", Maker::kSubprocess},
      {"/multiprocessing/popen_fork.py", Maker::kFork},
      {"/multiprocessing/popen_spawn_posix.py", Maker::kSpawn},
      {"/multiprocessing/forkserver.py", Maker::kForkServer},
      {"/multiprocessing/resource_tracker.py", Maker::kResourceTracker}};
  for (; path != 0; path = paths.parent(path)) {
    const shard::Frame* const frame = paths.frame(path);
    if (frame == nullptr || frame->kind != shard::FrameKind::kPython) continue;
    if (paths.owner(path) == Owner::kOwn) break;
    const std::string_view file = paths.text(frame->file);
    for (const auto& [ending, maker] : kFiles)
      if (file.ends_with(ending)) return maker;
  }
  return Maker::kNone;
}

ProcessHow how_of(ProcessOrigin origin, Maker maker) {
  switch (origin) {
    case ProcessOrigin::kRank:
      return ProcessHow::kRank;
    case ProcessOrigin::kFork:
    case ProcessOrigin::kRequest:
      return maker == Maker::kForkServer ? ProcessHow::kForkserver : ProcessHow::kFork;
    case ProcessOrigin::kShell:
      return ProcessHow::kShell;
    case ProcessOrigin::kExec:
    case ProcessOrigin::kPosixSpawn:
      if (maker == Maker::kSubprocess) return ProcessHow::kSubprocess;
      if (maker == Maker::kSpawn) return ProcessHow::kSpawn;
      return origin == ProcessOrigin::kExec ? ProcessHow::kExec : ProcessHow::kPosixSpawn;
    case ProcessOrigin::kUnknown:
      break;
  }
  return ProcessHow::kUnknown;
}

bool is_python(std::string_view program) { return base_name(program).starts_with("python"); }

// "python3 train.py", "solver": without the arguments, in which processes of one kind differ.
std::string program_name(const std::vector<std::string>& command) {
  if (command.empty()) return {};
  std::string program(base_name(command.front()));
  if (!is_python(command.front())) return program;
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (!word.starts_with("-") || word == "-") return program + " " + std::string(base_name(word));
    if (word.starts_with("--")) {
      if (word == "--check-hash-based-pycs") ++i;
      continue;
    }
    // Of letters in one word the first with a value takes the rest of the word, or the next one.
    const std::size_t letter = word.find_first_of("cmWX", 1);
    if (letter == std::string::npos) continue;
    const bool is_next = letter + 1 == word.size();
    if (word[letter] == 'c') return program + " -c";
    if (word[letter] == 'm')
      return program + " -m " +
             (!is_next                 ? word.substr(letter + 1)
              : i + 1 < command.size() ? command[i + 1]
                                       : "");
    if (is_next) ++i;
  }
  return program;
}

std::string program_of(ProcessHow how, Maker maker, const std::vector<std::string>& command) {
  if (maker == Maker::kResourceTracker) return std::string(kTrackerProgram);
  if (how == ProcessHow::kExec && maker == Maker::kForkServer) return std::string(kServerProgram);
  const bool is_worker =
      how == ProcessHow::kFork || how == ProcessHow::kSpawn || how == ProcessHow::kForkserver;
  return is_worker && maker != Maker::kNone ? std::string(kWorkerProgram) : program_name(command);
}

class ProcessList {
 public:
  ProcessList(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis)
      : data_(data), paths_(paths), analysis_(analysis) {
    analysis_.creation_paths.emplace_back();  // of those whose path is not known
    creation_index_.emplace(0, 0);
  }

  void add(const shard::Process& process) {
    const Maker maker = maker_of(paths_, process.path);
    ProcessRow row;
    row.rank = data_.ranks[process.rank].rank;
    row.pid = process.pid;
    row.parent_pid = process.parent_pid;
    row.how = how_of(process.origin, maker);
    row.count = process.count;
    row.command = command_words(process.command);
    row.runs = (process.flags & shard::Process::kRuns) != 0;
    if ((process.flags & shard::Process::kExitStatusKnown) != 0) row.exit_status = process.exit_status;
    if ((process.flags & shard::Process::kExitSignalKnown) != 0) row.exit_signal = process.exit_signal;
    row.start_s = static_cast<double>(process.start_utc_ns - data_.run.start_utc_ns) / 1e9;
    row.elapsed_s = to_seconds(process.elapsed_ns);
    row.unrecorded = process.unrecorded;
    if (row.unrecorded == shard::Unrecorded::kNo || process.cpu_ns != 0)
      row.cpu_s = to_seconds(process.cpu_ns);
    row.children_cpu_s = to_seconds(process.children_cpu_ns);
    row.created_by = place_of_path(paths_, process.path);
    row.top = top_of(process, row.created_by);
    row.top_s = to_seconds(process.top_ns);
    row.group = join(process, row, program_of(row.how, maker, row.command));
    analysis_.processes.push_back(std::move(row));
  }

  void finish() {
    for (std::size_t i = 0; i < analysis_.process_groups.size(); ++i) {
      ProcessGroup& group = analysis_.process_groups[i];
      if (group.measured != 0) group.cpu_mean_s = group.cpu_s / group.measured;
      for (const auto& [key, top] : tops_[i]) {
        if (top.second <= group.top_s) continue;
        group.top = top.first;
        group.top_s = top.second;
      }
    }
  }

 private:
  // Where the process spent the most time. The place of a call path is the user's innermost line, and an
  // executed program without a file of the user's (python -c, sh) has that of its parent, which made it. For
  // such a program it is the innermost function that is no library's.
  SourceLocation top_of(const shard::Process& process, const SourceLocation& created_by) const {
    SourceLocation top = place_of_path(paths_, process.top_path);
    const bool has_own_stack =
        process.origin == ProcessOrigin::kExec || process.origin == ProcessOrigin::kPosixSpawn ||
        process.origin == ProcessOrigin::kShell || process.origin == ProcessOrigin::kRequest;
    const auto line = [](const SourceLocation& place) {
      return std::tie(place.file, place.line, place.function);
    };
    if (!has_own_stack || line(top) != line(created_by)) return top;
    std::unordered_set<std::uint32_t> above;
    for (std::uint32_t path = process.path; path != 0; path = paths_.parent(path)) above.insert(path);
    top = {};
    for (std::uint32_t path = process.top_path; path != 0 && !above.contains(path);
         path = paths_.parent(path)) {
      const shard::Frame* const frame = paths_.frame(path);
      if (frame == nullptr) continue;
      SourceLocation place = place_of(paths_, path);
      const bool is_program = frame->kind == shard::FrameKind::kPython ||
                              (frame->kind == shard::FrameKind::kNative && !is_runtime_module(place.module));
      if (is_program) return place;
      if (top.function.empty()) top = std::move(place);
    }
    return top;
  }

  std::uint32_t creation(std::uint32_t path) {
    const auto [found, is_new] =
        creation_index_.try_emplace(path, static_cast<std::uint32_t>(analysis_.creation_paths.size()));
    if (is_new) analysis_.creation_paths.push_back(frames_of(paths_, path));
    return found->second;
  }

  // The group of the row, which it is added to.
  std::uint32_t join(const shard::Process& process, const ProcessRow& row, std::string program) {
    const auto [found, is_new] =
        groups_.try_emplace(std::tuple(row.rank, row.how, row.unrecorded, program, process.path),
                            static_cast<std::uint32_t>(analysis_.process_groups.size()));
    const double cpu_min_s = to_seconds(process.cpu_min_ns), cpu_max_s = to_seconds(process.cpu_max_ns);
    if (is_new) {
      ProcessGroup& group = analysis_.process_groups.emplace_back();
      group.rank = row.rank;
      group.how = row.how;
      group.unrecorded = row.unrecorded;
      group.program = std::move(program);
      group.start_s = row.start_s;
      group.created_by = row.created_by;
      group.creation_path = creation(process.path);
      tops_.emplace_back();
    }
    ProcessGroup& group = analysis_.process_groups[found->second];
    group.count += row.count;
    if (row.cpu_s) {
      group.cpu_s += *row.cpu_s;
      group.cpu_min_s = group.measured == 0 ? cpu_min_s : std::min(group.cpu_min_s, cpu_min_s);
      group.cpu_max_s = std::max(group.cpu_max_s, cpu_max_s);
      group.measured += row.count;
    }
    group.start_s = std::min(group.start_s, row.start_s);
    group.end_s = std::max(group.end_s, row.start_s + row.elapsed_s);
    if (row.top_s > 0) {
      auto& [place, seconds] =
          tops_[found->second][std::tuple(row.top.file, row.top.line, row.top.function, row.top.called)];
      place = row.top;
      seconds += row.top_s;
    }
    return found->second;
  }

  const shard::ShardData& data_;
  const CallPaths& paths_;
  Analysis& analysis_;
  std::unordered_map<std::uint32_t, std::uint32_t> creation_index_;  // by path
  std::map<std::tuple<std::int32_t, ProcessHow, shard::Unrecorded, std::string, std::uint32_t>, std::uint32_t>
      groups_;
  using PlaceKey = std::tuple<std::string, std::uint32_t, std::string, std::string>;
  std::vector<std::map<PlaceKey, std::pair<SourceLocation, double>>> tops_;  // by group
};

}  // namespace

void list_processes(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis) {
  ProcessList list(data, paths, analysis);
  std::vector<const shard::Process*> order;
  for (const shard::Process& process : data.processes)
    if (process.rank < data.ranks.size() && process.path < paths.size() && process.top_path < paths.size() &&
        process.count != 0)
      order.push_back(&process);
  const auto place = [&](const shard::Process* process) {
    return std::tuple(data.ranks[process->rank].rank, process->start_utc_ns, process->pid);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const shard::Process* x, const shard::Process* y) { return place(x) < place(y); });
  for (const shard::Process* const process : order) list.add(*process);
  list.finish();
}

}  // namespace clusterprof::report
