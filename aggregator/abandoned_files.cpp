// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/abandoned_files.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "aggregator/notes.hpp"
#include "aggregator/shard_files.hpp"
#include "base/directory.hpp"
#include "base/process_mark.hpp"
#include "base/shared_directory.hpp"
#include "base/unique_fd.hpp"
#include "formats/shard/run_files.hpp"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t kUntouched_s = 600, kUntouchedWithoutLocks_s = 86'400;
constexpr std::time_t kQuiet_s = 60;  // the clocks of file server and nodes may be apart
constexpr std::uint64_t kMostInterval_s = 86'400;
constexpr int kMaxRendezvousLinks = 8;  // links that jobs of the same key have made

// Who writes a temporary file of `file_name`; nullopt when the name is not that of one.
std::optional<ProcessMark> writer_of(std::string_view name, std::string_view file_name) {
  if (!name.starts_with('.') || !name.ends_with(".tmp")) return std::nullopt;
  name = name.substr(1);
  if (!name.starts_with(file_name)) return std::nullopt;
  name = name.substr(file_name.size());
  if (!name.starts_with('.')) return std::nullopt;
  return parse_process_mark(name.substr(1));
}

UniqueFd open_to_list(const fs::path& directory) {
  return UniqueFd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

bool is_abandoned(int directory, const std::string& name, const ProcessMark& writer) {
  const bool has_gone = has_ended(writer), may_run_here = ::kill(writer.pid, 0) == 0 || errno != ESRCH;
  // A writer takes its lock only once, and must not find ours.
  if (!has_gone && may_run_here && writer.machine == mark_of_this_process().machine) return false;
  // NFS grants an exclusive lock only on a file that is open for writing.
  const UniqueFd fd(::openat(directory, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return false;
  const auto status = status_of(fd.get());
  if (!status || !S_ISREG(status->st_mode) || status->st_uid != ::geteuid()) return false;
  std::time_t untouched_s = kUntouched_s;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    untouched_s = kUntouchedWithoutLocks_s;
  }
  if (has_gone) return true;
  return !may_run_here && std::time(nullptr) - status->st_mtim.tv_sec >= untouched_s;
}

// How long a file was not written to; nothing if it is not there.
std::time_t untouched_s(int directory, const std::string& name) {
  const auto status = status_of(directory, name);
  return status ? std::time(nullptr) - status->st_mtim.tv_sec : -1;
}

struct RendezvousLink {
  UniqueFd place;
  std::string name;
};
// Returns the link beside the run directory at which its ranks met, if it is still there and ours.
std::optional<RendezvousLink> rendezvous_link(int run, const fs::path& run_dir) {
  const auto owner = read_link(run, std::string(shard::kOwnerLink));
  std::error_code error;
  const std::string run_name = fs::canonical(run_dir, error).filename().string();
  UniqueFd place(::openat(run, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!owner || error || !place) return std::nullopt;
  const std::string key(shard::owner_key(owner->target));
  if (key.find('/') != std::string::npos) return std::nullopt;
  const auto here = status_of(run), there = status_of(place.get(), run_name);
  if (!here || !there || !is_same_file(*here, *there)) return std::nullopt;
  const std::string base = std::string(shard::kRendezvousLinkPrefix) + key;
  for (int number = 1; number <= kMaxRendezvousLinks; ++number) {
    std::string name = number == 1 ? base : base + "-" + std::to_string(number);
    const auto link = read_link(place.get(), name);
    if (link && link->target == run_name && link->status.st_uid == ::geteuid())
      return RendezvousLink{std::move(place), std::move(name)};
  }
  return std::nullopt;
}

struct Leftovers {
  std::vector<std::string> claims, half_written, marks, clocks;
  std::optional<RendezvousLink> link;
  bool control = false;
  std::time_t untouched_s = 0;  // since the run was made or one of its shards was written
};

// What was asked for from outside, and answers: of no use without collectors.
void remove_control(int run) {
  {
    const UniqueFd directory = open_directory(run, shard::kControlDirectory);
    const auto status = directory ? status_of(directory.get()) : std::nullopt;
    if (!status || status->st_uid != ::geteuid()) return;
    remove_entries(directory.get(), [](const std::string&) { return true; });
  }
  (void)::unlinkat(run, shard::kControlDirectory, AT_REMOVEDIR);
}

// `prefix`: what leads from the run directory to `directory`.
void find_files_of_shards(int directory, const std::string& prefix, Leftovers& found) {
  for_each_entry(directory, [&](const std::string& name) {
    if (shard::is_shard_name(name)) {
      found.untouched_s = std::min(found.untouched_s, untouched_s(directory, name));
    } else if (shard::is_claim(name)) {
      found.claims.push_back(prefix + name);
    } else if (name.starts_with(".node-") && name.ends_with(".tmp")) {
      found.half_written.push_back(prefix + name);
    }
    return true;
  });
}

Leftovers find_leftovers(int run, const fs::path& run_dir) {
  Leftovers found;
  found.untouched_s = untouched_s(run, std::string(shard::kOwnerLink));
  find_files_of_shards(run, "", found);
  for_each_entry(run, [&](const std::string& name) {
    if (shard::is_shard_directory(name)) {
      const UniqueFd below(::openat(run, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
      if (below) find_files_of_shards(below.get(), name + "/", found);
    } else if (name.starts_with(shard::kExitMarkPrefix)) {
      found.marks.push_back(name);
    } else if (name.starts_with(shard::kClocksDirectoryPrefix)) {
      found.clocks.push_back(name);
    } else if (name == shard::kControlDirectory) {
      found.control = true;
    }
    return true;
  });
  found.link = rendezvous_link(run, run_dir);
  return found;
}

}  // namespace

RunProgress progress_of(const shard::ShardData& head) {
  const std::vector<bool> here = present_ranks(head);
  RunProgress progress;
  progress.all_came = !here.empty() && std::find(here.begin(), here.end(), false) == here.end();
  for (const shard::Note& note : head.run.notes)
    if (note.code == shard::NoteCode::kCheckpointInterval)
      progress.checkpoint_interval =
          std::chrono::seconds(std::min<std::uint64_t>(note.number, kMostInterval_s));
  progress.all_ended = progress.all_came && !has_note(head, shard::NoteCode::kIncompleteShard);
  return progress;
}

void remove_leftovers(const fs::path& run_dir, const std::function<RunProgress()>& progress) {
  const UniqueFd opened = open_to_list(run_dir);
  const auto status = opened ? status_of(opened.get()) : std::nullopt;
  if (!status || status->st_uid != ::geteuid()) return;
  const int run = opened.get();
  const Leftovers found = find_leftovers(run, run_dir);
  const auto remove = [](int place, const std::string& name) { (void)::unlinkat(place, name.c_str(), 0); };
  const bool any = !found.half_written.empty() || !found.marks.empty() || !found.clocks.empty() ||
                   found.link || found.control;
  if (found.claims.empty() && !any) return;
  // Nobody writes any more, unless the checkpoints are farther apart than that.
  const RunProgress told = found.untouched_s >= kQuiet_s ? progress() : RunProgress{};
  const std::time_t quiet_s = kQuiet_s + told.checkpoint_interval.count();
  const bool is_any_on_its_node =
      std::any_of(found.claims.begin(), found.claims.end(),
                  [&](const auto& claim) { return shard_on_node(run, claim).has_value(); });
  const bool is_run_quiet = found.untouched_s >= quiet_s && !is_any_on_its_node;
  const auto is_quiet = [&](const std::string& name) { return untouched_s(run, name) >= quiet_s; };
  for (const std::string& claim : found.claims) {
    if (status_of(run, shard::shard_of_claim(claim)) ||
        (is_run_quiet && is_quiet(claim) && !shard_on_node(run, claim)))
      remove(run, claim);
  }
  if (!any) return;
  const RunProgress now = is_run_quiet ? RunProgress{true, true, {}} : progress();
  if (now.all_came) {
    if (found.link) remove(found.link->place.get(), found.link->name);
    for (const std::string& mark : found.marks) remove(run, mark);
  }
  if (now.all_ended) {
    // When the file server delays a collector, its last shard is older than the one it is writing.
    for (const std::string& file : found.half_written)
      if (!is_run_quiet || is_quiet(file)) remove(run, file);
    for (const std::string& directory : found.clocks) remove_link_directory(run, directory);
    // A collector that was stopped for a while has said only once that it can be asked.
    if (found.control && progress().all_ended) remove_control(run);
  }
}

void remove_abandoned(const fs::path& file) {
  const std::string file_name = file.filename().string();
  const UniqueFd directory = open_to_list(file.has_parent_path() ? file.parent_path() : fs::path("."));
  if (!directory) return;
  remove_entries(directory.get(), [&](const std::string& name) {
    const auto writer = writer_of(name, file_name);
    return writer && is_abandoned(directory.get(), name, *writer);
  });
}

}  // namespace clusterprof::aggregator
