// SPDX-License-Identifier: BSD-3-Clause
#include "base/local_checkpoints.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/directory.hpp"
#include "base/process_mark.hpp"

namespace clusterprof {
namespace {

constexpr std::string_view kShardSuffix = ".h5", kNewSuffix = ".new", kClaimSuffix = ".claim",
                           kTargetSuffix = ".to";
constexpr std::int64_t kAbandonedAfter_s = 7 * 86'400;  // its run directory could not be reached since then

std::string directory_name() { return "clusterprof-" + std::to_string(::geteuid()); }

// The directory with our checkpoints below `place`, if nobody else can have prepared it.
UniqueFd open_ours(const std::filesystem::path& place, bool make) {
  const UniqueFd parent(::open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!parent) return {};
  const std::string name = directory_name();
  if (make && ::mkdirat(parent.get(), name.c_str(), 0700) != 0 && errno != EEXIST) return {};
  UniqueFd ours(::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const auto status = ours ? status_of(ours.get()) : std::nullopt;
  if (!status || status->st_uid != ::geteuid() || (status->st_mode & 077) != 0) return {};
  struct statfs system {};
  if (::fstatfs(ours.get(), &system) != 0 || !is_node_local(static_cast<long>(system.f_type))) return {};
  return ours;
}

std::string random_key() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random))
    random = static_cast<std::uint64_t>(::time(nullptr)) << 20 | static_cast<std::uint64_t>(::getpid());
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(random));
  return text.data();
}

std::string key_of(const std::string& name) { return name.substr(0, name.rfind('.')); }
std::string claim_name(const std::string& key) { return key + std::string(kClaimSuffix); }
std::string target_name(const std::string& key) { return key + std::string(kTargetSuffix); }

bool copy_all(int from, int to) {
  std::vector<char> buffer(1 << 20);
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(from, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return ::ftruncate(to, at) == 0 && ::fdatasync(to) == 0;
    for (ssize_t done = 0; done < got;) {
      const ssize_t written =
          ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(got - done), at + done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      done += written;
    }
    at += got;
  }
}

enum class Delivery { kDone, kNotWanted, kNotNow };

bool is_newer(const struct stat& a, const struct stat& b) {
  return a.st_mtim.tv_sec != b.st_mtim.tv_sec ? a.st_mtim.tv_sec > b.st_mtim.tv_sec
                                              : a.st_mtim.tv_nsec > b.st_mtim.tv_nsec;
}

bool is_our_file(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

// Where anything else becomes of the copy, the file `name` is as it was.
bool replace(int directory, const std::string& name, mode_t mode, int contents) {
  // Merging knows these names, so it removes what a killed launcher leaves.
  const std::string temporary =
      "." + name + "." + to_string(mark_of_this_process()) + "." + random_key() + ".tmp";
  const UniqueFd to(
      ::openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!to) return false;
  (void)::flock(to.get(), LOCK_EX | LOCK_NB);
  if (::fchmod(to.get(), mode & 0777) == 0 && copy_all(contents, to.get()) &&
      ::renameat(directory, temporary.c_str(), directory, name.c_str()) == 0) {
    (void)::fsync(directory);
    return true;
  }
  (void)::unlinkat(directory, temporary.c_str(), 0);
  return false;
}

// Makes `file` the shard, if there is a claim for it or an older shard: its collector may have written one to
// the run directory in between. A directory that cannot be seen, or whose files seem to be somebody else's,
// may be another one tomorrow.
Delivery deliver(int file, const struct stat& status, const std::filesystem::path& claim_path,
                 const std::filesystem::path& shard_path) {
  const UniqueFd directory(::open(claim_path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto place = directory ? status_of(directory.get()) : std::nullopt;
  if (!place) return Delivery::kNotNow;
  const std::string claim_file = claim_path.filename(), shard_file = shard_path.filename();
  const auto claim = status_of(directory.get(), claim_file);
  if (claim ? !is_our_file(*claim) : errno != ENOENT) return Delivery::kNotNow;
  const auto shard = status_of(directory.get(), shard_file);
  if (shard ? !is_our_file(*shard) : errno != ENOENT) return Delivery::kNotNow;
  if (!claim && !shard) return place->st_uid == ::geteuid() ? Delivery::kNotWanted : Delivery::kNotNow;
  if (shard && !is_newer(status, *shard)) return Delivery::kNotWanted;
  if (!replace(directory.get(), shard_file, shard ? shard->st_mode : claim->st_mode, file))
    return Delivery::kNotNow;
  if (claim) (void)::unlinkat(directory.get(), claim_file.c_str(), 0);
  return Delivery::kDone;
}

void bring_home(int directory, const std::string& name) {
  const UniqueFd file(::openat(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  const auto status = status_of(file.get());
  if (!status || !S_ISREG(status->st_mode) || status->st_nlink == 0) return;
  const std::string key = key_of(name);
  Delivery delivery = Delivery::kNotWanted;
  if (name.ends_with(kShardSuffix)) {
    const auto claim = read_link(directory, claim_name(key)), shard = read_link(directory, target_name(key));
    delivery =
        claim && shard ? deliver(file.get(), *status, claim->target, shard->target) : Delivery::kNotNow;
  }
  const bool abandoned = ::time(nullptr) - status->st_mtim.tv_sec > kAbandonedAfter_s;
  if (delivery == Delivery::kNotNow && !abandoned) return;
  for (const std::string& link : {claim_name(key), target_name(key)})
    (void)::unlinkat(directory, link.c_str(), 0);
  (void)::unlinkat(directory, name.c_str(), 0);
}

}  // namespace

// A list of those that are local, because new network file systems appear more often than new local ones.
bool is_node_local(long type) {
  constexpr std::array<unsigned long, 12> kLocal = {
      0xef53,      // ext2, ext3, ext4
      0x58465342,  // xfs
      0x9123683e,  // btrfs
      0x01021994,  // tmpfs
      0x858458f6,  // ramfs
      0x794c7630,  // overlayfs, of containers
      0x2fc12fc1,  // zfs
      0xf2f52010,  // f2fs
      0xca451a4e,  // bcachefs
      0x3153464a,  // jfs
      0x52654973,  // reiserfs
      0x3434,      // nilfs
  };
  return std::find(kLocal.begin(), kLocal.end(), static_cast<unsigned long>(type) & 0xffff'ffff) !=
         kLocal.end();
}

std::vector<std::filesystem::path> places_for_checkpoints() {
  std::vector<std::filesystem::path> places;
  if (const char* const given = std::getenv("TMPDIR"); given != nullptr && *given == '/')
    places.emplace_back(given);
  for (const char* const usual : {"/tmp", "/dev/shm"})
    if (std::find(places.begin(), places.end(), usual) == places.end()) places.emplace_back(usual);
  return places;
}

std::optional<LocalCheckpoints> LocalCheckpoints::create(const std::filesystem::path& claim,
                                                         const std::filesystem::path& shard,
                                                         const std::vector<std::filesystem::path>& places) {
  for (const std::filesystem::path& place : places) {
    const UniqueFd ours = open_ours(place, true);
    if (!ours) continue;
    const std::string key = random_key(), name = key + std::string(kNewSuffix);
    UniqueFd file(
        ::openat(ours.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) continue;
    // Between the two, somebody may have taken it for an abandoned one.
    const auto is_there = [&file] {
      const auto status = status_of(file.get());
      return status && status->st_nlink > 0;
    };
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && is_there() &&
        ::symlinkat(claim.c_str(), ours.get(), claim_name(key).c_str()) == 0 &&
        ::symlinkat(shard.c_str(), ours.get(), target_name(key).c_str()) == 0)
      return LocalCheckpoints(place / directory_name() / (key + std::string(kShardSuffix)), std::move(file));
    for (const std::string& made : {name, claim_name(key), target_name(key)})
      (void)::unlinkat(ours.get(), made.c_str(), 0);
  }
  return std::nullopt;
}

std::filesystem::path LocalCheckpoints::unnamed() const {
  return path_.parent_path() / (key_of(path_.filename().string()) + std::string(kNewSuffix));
}

void LocalCheckpoints::remove() const {
  const std::string key = key_of(path_.filename().string());
  for (const std::string& name : {claim_name(key), target_name(key)})
    (void)::unlink((path_.parent_path() / name).c_str());
  (void)::unlink(path_.c_str());
  (void)::unlink(unnamed().c_str());
}

void bring_home_checkpoints(const std::vector<std::filesystem::path>& places) {
  struct Left {
    std::size_t directory;
    std::string name;
    struct stat status;
  };
  std::vector<UniqueFd> directories;
  std::vector<Left> files;
  for (const std::filesystem::path& place : places) {
    UniqueFd ours = open_ours(place, false);
    if (!ours) continue;
    for (std::string& name : entries_of(ours.get(), [](const std::string& entry) {
           return entry.ends_with(kShardSuffix) || entry.ends_with(kNewSuffix);
         }))
      if (const auto status = status_of(ours.get(), name))
        files.push_back({directories.size(), std::move(name), *status});
    directories.push_back(std::move(ours));
  }
  // The caller's own run first: the file server of another may not answer.
  std::sort(files.begin(), files.end(),
            [](const Left& a, const Left& b) { return is_newer(a.status, b.status); });
  for (const Left& file : files) bring_home(directories[file.directory].get(), file.name);
}

}  // namespace clusterprof
