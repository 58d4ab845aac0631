// SPDX-License-Identifier: BSD-3-Clause
// Agreement of all ranks of a job on one run directory, by atomic operations in the file system (header),
// and removal of what earlier jobs left behind.
#include "formats/run/run_directory.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/directory.hpp"
#include "base/leading_number.hpp"
#include "base/path_resolver.hpp"
#include "base/shared_directory.hpp"
#include "base/unique_fd.hpp"
#include "formats/run/run_control.hpp"
#include "formats/shard/run_files.hpp"

namespace clusterprof {
namespace {

constexpr const char* kOwnerLink = shard::kOwnerLink.data();
constexpr const char* kJobLink = shard::kJobLink.data();
constexpr const char* kStartsDirectory = shard::kStartsDirectory.data();
constexpr int kMostStarts = 10'000, kMostRanks = 1 << 24;
constexpr std::string_view kLinkPrefix = shard::kRendezvousLinkPrefix;
constexpr const char* kNodeLocal[] = {"/dev/shm", "/tmp"};
constexpr std::string_view kWaitingPrefix = "clusterprof-waiting-";
constexpr std::string_view kMarkPrefix = shard::kExitMarkPrefix;
constexpr std::int64_t kClockSlack_s = 60;           // between this node and the file server
constexpr std::int64_t kAbandonedAfter_s = 10 * 60;  // meeting links of jobs that died early
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr mode_t kRunMode = 0700;     // and so that of the files in it
constexpr mode_t kParentMode = 0775;  // less the umask, which may be 0
constexpr const char* kOfAnotherUser = ": belongs to another user, where everybody may write";
constexpr int kTriesForFileSystem = 200;  // x 10 ms: until another node's link is visible here

Error failed(const std::string& path, int error) { return Error{path + ": " + std::strerror(error)}; }

// Left by an earlier job that had the same key by chance.
bool is_stale(const Link& link, const JobStep& step) {
  return step.job_start_unix_s != 0 && link.status.st_mtim.tv_sec < step.job_start_unix_s - kClockSlack_s;
}

UniqueFd open_run(const RunDirectory& directory) { return open_directory(AT_FDCWD, directory.path); }

std::string clock_rendezvous_name(int world) {
  return std::string(shard::kClocksDirectoryPrefix) + (world == 0 ? "" : "-" + std::to_string(world));
}

// For those who look for the run by its job. Not being found that way is no reason not to record.
void name_job(int run, const JobStep& step) {
  if (step.batch_name.empty()) return;
  const bool differ = !step.batch_id.empty() && step.batch_id != step.batch_name;
  const std::string names = step.batch_name + (differ ? " " + step.batch_id : "");
  [[maybe_unused]] const int ignored = ::symlinkat(names.c_str(), run, kJobLink);
}

// 128 random bits, or none where the system has none to give at once.
HashKey new_secret() {
  HashKey secret{};
  if (::getrandom(secret.data(), secret.size(), GRND_NONBLOCK) != static_cast<ssize_t>(secret.size()))
    return {};
  return secret;
}

// What the link that makes a directory a run says: KEY#SECRET, the secret in hex digits.
struct Owner {
  std::string_view key;
  HashKey secret{};
};

std::string owner_text(const std::string& key, const HashKey& secret) {
  std::string text = key + shard::kSecretMark;
  for (const std::uint8_t byte : secret) text += {kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  return text;
}

Owner read_owner(std::string_view text) {
  const Owner without_secret{shard::owner_key(text)};
  const std::string_view digits = text.substr(std::min(text.size(), without_secret.key.size() + 1));
  Owner owner = without_secret;
  if (digits.size() != 2 * owner.secret.size()) return without_secret;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t digit = kHexDigits.find(digits[i]);
    if (digit == std::string_view::npos) return without_secret;
    owner.secret[i / 2] = static_cast<std::uint8_t>(owner.secret[i / 2] << 4 | digit);
  }
  return owner;
}

enum class Holder { kUs, kPeer, kOtherRun, kOtherFiles, kOtherUser };

struct Claim {
  Holder holder;
  HashKey secret{};  // of the run, if it is ours
};

// Makes `name` in `place` the run directory of the key, or finds out whose it is.
Result<Claim> claim(const ParentDirectory& parent, const std::string& name, const std::string& path,
                    const JobStep& step) {
  const int place = parent.fd.get();
  for (int attempt = 0; attempt < kTriesForFileSystem; ++attempt) {
    const bool made = ::mkdirat(place, name.c_str(), kRunMode) == 0;
    if (!made && errno != EEXIST) return failed(path, errno);
    const UniqueFd directory = open_directory(place, name);
    if (!directory && errno == ENOENT) continue;  // a peer took its own back
    const auto status = directory ? status_of(directory.get()) : std::nullopt;
    if (!status) return failed(path, errno);
    if (parent.is_untrusted(*status)) return Claim{Holder::kOtherUser};
    const int run = directory.get();
    if (const auto owner = read_link(run, kOwnerLink)) {
      if (is_untrusted(run, owner->status)) return Claim{Holder::kOtherUser};
      const auto [key, secret] = read_owner(owner->target);
      if (key != step.key || is_stale(*owner, step)) return Claim{Holder::kOtherRun};
      return Claim{Holder::kPeer, secret};
    }
    if (errno == EINVAL) return Claim{Holder::kOtherFiles};  // .run is no link
    if (errno != ENOENT && errno != ESTALE) return failed(path + "/" + kOwnerLink, errno);

    bool empty = true;
    const int error = for_each_entry(run, [&](const std::string&) { return empty = false; });
    if (error == ENOENT) continue;
    if (error != 0) return failed(path, error);
    if (!empty) {
      if (read_link(run, kOwnerLink)) continue;  // a peer made it meanwhile
      return Claim{Holder::kOtherFiles};
    }
    const HashKey secret = new_secret();
    if (::symlinkat(owner_text(step.key, secret).c_str(), run, kOwnerLink) == 0) {
      name_job(run, step);
      return Claim{Holder::kUs, secret};
    }
    if (errno != EEXIST && errno != ENOENT) {
      Error why = failed(path, errno);
      if (made) ::unlinkat(place, name.c_str(), AT_REMOVEDIR);
      return why;
    }
  }
  return failed(path, ESTALE);
}

// Takes back what claim() made, if nobody has used it.
void unclaim(int place, const std::string& name) {
  {
    const UniqueFd run = open_directory(place, name);
    if (!run) return;
    const auto is_used = [](const std::string& entry) { return entry != kOwnerLink && entry != kJobLink; };
    if (!entries_of(run.get(), is_used).empty()) return;
    ::unlinkat(run.get(), kJobLink, 0);
    ::unlinkat(run.get(), kOwnerLink, 0);
  }
  ::unlinkat(place, name.c_str(), AT_REMOVEDIR);
}

Result<std::string> absolute(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  if (!resolved) return failed(path, errno);
  return std::string(resolved.get());
}

// Whether there can be a directory of that name at all.
bool names_no_directory(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return !S_ISDIR(status.st_mode);
  return errno == ENOTDIR || errno == ENAMETOOLONG || errno == ELOOP;
}

std::string local_time(std::int64_t start_unix_s) {
  const time_t start = start_unix_s != 0 ? static_cast<time_t>(start_unix_s) : ::time(nullptr);
  tm parts{};
  ::localtime_r(&start, &parts);
  char text[32];
  return {text, ::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts)};
}

// Where run directories with a chosen name are.
struct Parent {
  ParentDirectory place;
  std::string path;
};

struct Claimed {
  std::string name;
  bool made_by_us = false;
  HashKey secret{};
};

// The first of BASE, BASE-2, BASE-3 ... that is free or ours already.
Result<Claimed> claim_free_name(const Parent& parent, const std::string& base, const JobStep& step) {
  for (int suffix = 1; suffix < 10000; ++suffix) {
    const std::string name = suffix == 1 ? base : base + '-' + std::to_string(suffix);
    const auto claimed = claim(parent.place, name, parent.path + "/" + name, step);
    if (!claimed) {
      // A file of that name is as taken as a directory.
      const auto status = status_of(parent.place.fd.get(), name);
      if (status && !S_ISDIR(status->st_mode)) continue;
      return claimed.error();
    }
    const auto& [holder, secret] = claimed.value();
    if (holder == Holder::kUs || holder == Holder::kPeer) return Claimed{name, holder == Holder::kUs, secret};
  }
  return failed(parent.path + "/" + base, EEXIST);
}

const char* problem_with(Holder holder) {
  switch (holder) {
    case Holder::kOtherRun:
      return ": a run is there already";
    case Holder::kOtherFiles:
      return ": there are other files in it";
    case Holder::kOtherUser:
      return kOfAnotherUser;
    case Holder::kUs:
    case Holder::kPeer:
      break;
  }
  return "";
}

// All ranks of the launch come to the same name: each takes the first that is free or theirs.
Result<RunDirectory> use_next_name(PathResolver& resolver, const JobStep& step, const std::string& problem) {
  // Of `-o .`, a directory in it.
  const std::string name = resolver.result().name == "." ? "clusterprof-run" : resolver.result().name;
  auto place = absolute("/proc/self/fd/" + std::to_string(resolver.result().parent.fd.get()));
  if (!place) return place.error();
  const Parent parent{std::move(resolver.result().parent), std::move(place).value()};
  const auto claimed = claim_free_name(parent, name, step);
  if (!claimed) return claimed.error();
  const auto& [next, made_by_us, secret] = claimed.value();
  return RunDirectory{parent.path + "/" + next, "", made_by_us, secret, problem};
}

Result<RunDirectory> use_given(const std::string& output, const JobStep& step, bool& refused) {
  std::string path = output;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  PathResolver resolver(path, kParentMode);
  if (resolver.error() != 0) {
    refused = resolver.found_untrusted() || names_no_directory(path);
    if (resolver.found_untrusted())
      return Error{resolver.failed_part() + kOfAnotherUser + "; choose another -o"};
    return failed(resolver.failed_part(), resolver.error());
  }
  const auto claimed = claim(resolver.result().parent, resolver.result().name, path, step);
  if (!claimed) {
    refused = names_no_directory(path);
    const auto status = status_of(resolver.result().parent.fd.get(), resolver.result().name);
    if (step.launched && status && !S_ISDIR(status->st_mode))
      return use_next_name(resolver, step, output + ": is no directory");
    return claimed.error();
  }
  const auto& [holder, secret] = claimed.value();
  if (holder == Holder::kUs || holder == Holder::kPeer) {
    auto resolved = absolute(path);
    if (!resolved) return resolved.error();
    return RunDirectory{std::move(resolved).value(), "", holder == Holder::kUs, secret};
  }
  const std::string problem = output + problem_with(holder);
  if (step.launched) return use_next_name(resolver, step, problem);
  refused = true;
  return Error{problem + "; choose another -o"};
}

// Our published link is there: sweep up those of jobs that did not live to remove theirs.
void remove_abandoned_links(int parent) {
  const std::int64_t now = ::time(nullptr);
  int entries = 0;
  for_each_entry(parent, [&](const std::string& name) {
    if (++entries > 20000) return false;
    if (name.compare(0, kLinkPrefix.size(), kLinkPrefix) != 0) return true;
    const auto status = status_of(parent, name);
    if (status && S_ISLNK(status->st_mode) && status->st_uid == ::geteuid() &&
        status->st_mtim.tv_sec < now - kAbandonedAfter_s) {
      ::unlinkat(parent, name.c_str(), 0);
    }
    return true;
  });
}

// Waiting places whose collector was killed, or that no collector ever held.
void remove_abandoned_waiting_places(int parent) {
  const std::int64_t now = ::time(nullptr);
  std::vector<std::string> abandoned;
  for_each_entry(parent, [&](const std::string& name) {
    if (!name.starts_with(kWaitingPrefix)) return true;
    const auto status = status_of(parent, name);
    if (status && S_ISDIR(status->st_mode) && status->st_uid == ::geteuid() &&
        status->st_mtim.tv_sec < now - kAbandonedAfter_s)
      abandoned.push_back(name);
    return true;
  });
  for (const std::string& name : abandoned) {
    const UniqueFd place(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (place && ::flock(place.get(), LOCK_EX | LOCK_NB) == 0) unclaim(parent, name);
  }
}

// Returns the secret of the run directory `name` of the key; nothing if it is somebody else's.
std::optional<HashKey> secret_of_run(const ParentDirectory& place, const std::string& name,
                                     const JobStep& step) {
  if (name.find('/') != std::string::npos) return {};
  for (int attempt = 0; attempt < kTriesForFileSystem; ++attempt) {
    const UniqueFd run = open_directory(place.fd.get(), name);
    if (run) {
      const auto status = status_of(run.get());
      if (!status || place.is_untrusted(*status)) return {};
      if (const auto link = read_link(run.get(), kOwnerLink)) {
        const Owner owner = read_owner(link->target);
        if (owner.key != step.key || is_untrusted(run.get(), link->status)) return {};
        return owner.secret;
      }
    } else if (attempt > kTriesForFileSystem / 4) {
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

Result<RunDirectory> meet(const Parent& parent, const std::string& base, const JobStep& step) {
  const int place = parent.place.fd.get();
  // A stale link is left alone (another rank may be about to read its successor) and passed by.
  for (int generation = 1; generation < 100; ++generation) {
    std::string link = std::string(kLinkPrefix) + step.key;
    if (generation > 1) link.append(1, '-').append(std::to_string(generation));
    const std::string path_of_link = parent.path + "/" + link;
    while (true) {
      if (const auto met = read_link(place, link)) {
        if (is_stale(*met, step) || parent.place.is_untrusted(met->status)) break;
        const auto secret = secret_of_run(parent.place, met->target, step);
        if (!secret) break;
        return RunDirectory{parent.path + "/" + met->target, path_of_link, false, *secret};
      }
      if (errno != ENOENT && errno != ESTALE) return failed(path_of_link, errno);
      const auto claimed = claim_free_name(parent, base, step);
      if (!claimed) return claimed.error();
      const auto& [name, made_by_us, secret] = claimed.value();
      if (::symlinkat(name.c_str(), place, link.c_str()) == 0) {
        remove_abandoned_links(place);
        return RunDirectory{parent.path + "/" + name, path_of_link, made_by_us, secret};
      }
      if (errno != EEXIST) return failed(path_of_link, errno);
      const auto others = read_link(place, link);
      if (made_by_us && others && others->target != name) unclaim(place, name);
    }
  }
  return failed(parent.path, EEXIST);
}

}  // namespace

Result<RunDirectory> agree_on_run_directory(const RunDirectoryRequest& request, const JobStep& step,
                                            bool* refused) {
  if (!request.output.empty()) {
    bool ignored = false;
    return use_given(request.output, step, refused == nullptr ? ignored : *refused);
  }

  const std::string root = request.root.empty() ? "." : request.root;
  PathResolver resolver(root + "/", kParentMode);
  if (resolver.found_untrusted()) return Error{resolver.failed_part() + kOfAnotherUser};
  if (resolver.error() != 0) return failed(resolver.failed_part(), resolver.error());
  auto resolved = absolute(root);
  if (!resolved) return resolved.error();
  const Parent parent{std::move(resolver.result().parent), std::move(resolved).value()};
  const std::string base = "clusterprof-" + request.command_name + "-" +
                           (step.batch_name.empty() ? local_time(request.start_unix_s) : step.batch_name);
  if (step.has_peers) return meet(parent, base, step);

  const auto claimed = claim_free_name(parent, base, step);
  if (!claimed) return claimed.error();
  return RunDirectory{parent.path + "/" + claimed.value().name, "", true, claimed.value().secret};
}

Result<RankStart> join_start(const RunDirectory& directory, std::uint64_t launch, int rank, int size) {
  const std::string place = directory.path + "/" + kStartsDirectory;
  if (::mkdir(place.c_str(), kRunMode) != 0 && errno != EEXIST) return failed(place, errno);
  const UniqueFd starts = open_directory(AT_FDCWD, place);
  if (!starts) return failed(place, errno);
  RankStart start;
  for (; start.restart < kMostStarts; ++start.restart) {
    const std::string name = std::to_string(start.restart);
    const std::string text = std::to_string(launch) + "+" + std::to_string(size);
    if (::symlinkat(text.c_str(), starts.get(), name.c_str()) != 0 && errno != EEXIST)
      return failed(place, errno);
    const auto link = read_link(starts.get(), name);
    if (!link) return failed(place + "/" + name, errno);
    const std::size_t plus = link->target.find('+');
    if (plus == std::string::npos) return failed(place + "/" + name, EINVAL);
    const int ranks = leading_number(std::string_view(link->target).substr(plus + 1)).value_or(0);
    if (ranks < 1 || ranks > kMostRanks - start.first_rank) return failed(place + "/" + name, ERANGE);
    if (link->target == text) {
      if (::symlinkat("-", starts.get(), (name + "." + std::to_string(rank)).c_str()) == 0) return start;
      if (errno != EEXIST) return failed(place, errno);
    }
    start.first_rank += ranks;
  }
  return failed(place, EOVERFLOW);
}

void remove_rendezvous_link(const RunDirectory& directory) {
  if (directory.rendezvous_link.empty()) return;
  ::unlink(directory.rendezvous_link.c_str());
  const UniqueFd run = open_run(directory);
  if (run) remove_entries(run.get(), [](const std::string& name) { return name.starts_with(kMarkPrefix); });
}

void leave_rendezvous(const RunDirectory& directory, const std::string& node, int ranks, int all_ranks) {
  if (directory.rendezvous_link.empty() || ranks < 1 || all_ranks < ranks) return;
  const UniqueFd run = open_run(directory);
  if (!run) return;
  const std::string stem = std::string(kMarkPrefix) + node;
  const std::string text = std::to_string(ranks);
  for (int number = 1; number < 1000; ++number) {
    const std::string mark = number == 1 ? stem : stem + '.' + std::to_string(number);
    if (::symlinkat(text.c_str(), run.get(), mark.c_str()) == 0) break;
    if (errno != EEXIST) return;
  }
  long left = 0;
  for_each_entry(run.get(), [&](const std::string& name) {
    if (!name.starts_with(kMarkPrefix)) return true;
    if (const auto mark = read_link(run.get(), name)) left += leading_number<long>(mark->target).value_or(0);
    return true;
  });
  // Whoever merged the shards may have seen that all are there, and have taken the link and marks away.
  if (left >= all_ranks || !read_link(AT_FDCWD, directory.rendezvous_link)) remove_rendezvous_link(directory);
}

Result<RunDirectory> agree_on_waiting_place(const JobStep& step) {
  Error why;
  for (const char* const root : kNodeLocal) {
    PathResolver resolver(std::string(root) + "/");
    if (resolver.error() != 0) {
      why = failed(root, resolver.error());
      continue;
    }
    const Parent parent{std::move(resolver.result().parent), root};
    const auto claimed = claim_free_name(parent, std::string(kWaitingPrefix) + step.key, step);
    if (!claimed) {
      why = claimed.error();
      continue;
    }
    const auto& [name, made_by_us, secret] = claimed.value();
    if (made_by_us) remove_abandoned_waiting_places(parent.place.fd.get());
    return RunDirectory{parent.path + "/" + name, "", made_by_us, secret};
  }
  return why;
}

UniqueFd hold_waiting_place(const std::string& path) {
  UniqueFd place(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (place) (void)::flock(place.get(), LOCK_SH | LOCK_NB);
  return place;
}

void remove_waiting_place(const std::string& path) { unclaim(AT_FDCWD, path); }

std::string clock_rendezvous_path(const RunDirectory& directory, int world) {
  return directory.path + "/" + clock_rendezvous_name(world);
}

void remove_clock_rendezvous(const RunDirectory& directory, int world) {
  const UniqueFd run = open_run(directory);
  if (run) remove_link_directory(run.get(), clock_rendezvous_name(world));
}

void withdraw_run_directory(const RunDirectory& directory) {
  if (!directory.created || !directory.rendezvous_link.empty()) return;
  unclaim(AT_FDCWD, directory.path);
}

void remove_shards(const RunDirectory& directory, const std::string& node) {
  if (!directory.created || !directory.rendezvous_link.empty()) return;
  const UniqueFd run = open_run(directory);
  const std::string shard = "node-" + node + ".";
  if (run) {
    remove_control(run.get());
    remove_entries(run.get(), [&](const std::string& name) {
      return name.compare(name[0] == '.' ? 1 : 0, shard.size(), shard) == 0;
    });
  }
}

}  // namespace clusterprof
