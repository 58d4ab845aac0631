// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/world_numbers.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "mpi-wrap/src/pages.hpp"

namespace clusterprof::mpi_wrap {
namespace {

constexpr std::size_t kPathBytes = 4096;
constexpr int kLockTries = 200;  // x 10 ms
constexpr int kMostRivals = 1000;

// Keeps others from taking numbers or giving them back. Where files cannot be locked it is enough that a link
// is made only once; then numbers that are given back may stay unused.
class DirectoryLock {
 public:
  explicit DirectoryLock(const char* directory) noexcept {
    char path[kPathBytes];
    if (snprintf(path, sizeof(path), "%s/lock", directory) >= static_cast<int>(sizeof(path))) return;
    file_ = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file_ < 0 && errno == ENOENT && (mkdir(directory, 0700) == 0 || errno == EEXIST))
      file_ = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file_ < 0) return;
    held_ = true;
    for (int tries = 0; tries < kLockTries; ++tries) {
      struct flock all {};
      all.l_type = F_WRLCK;
      exclusive_ = fcntl(file_, F_OFD_SETLK, &all) == 0;
      if (exclusive_ || (errno != EAGAIN && errno != EACCES && errno != EINTR)) return;
      usleep(10'000);
    }
    held_ = false;  // somebody has it for longer than it takes
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock() {
    if (file_ >= 0) close(file_);
  }
  bool held() const noexcept { return held_; }
  bool exclusive() const noexcept { return held_ && exclusive_; }  // false where files cannot be locked

 private:
  int file_ = -1;
  bool held_ = false, exclusive_ = false;
};

// False for a call of one process: there is nobody else to find it.
bool path_of(const char* worlds, const SpawnCall& call, char* path) noexcept {
  if (call.callers->size() < 2) return false;
  const int length = snprintf(path, kPathBytes, "%s/%016llx.%u", worlds,
                              static_cast<unsigned long long>(call.identity), call.position);
  return length > 0 && length < static_cast<int>(kPathBytes);
}

void remove(const char* worlds, int number) noexcept {
  char path[kPathBytes];
  for (const char* end : {"", ".callers"}) {
    if (wire::world_path(worlds, number, end, path, sizeof(path))) unlink(path);
  }
}

bool write_callers(const char* worlds, int number, const RankMap& callers) noexcept {
  char path[kPathBytes];
  const std::size_t bytes = static_cast<std::size_t>(callers.size()) * sizeof(std::int32_t);
  auto* ranks = static_cast<std::int32_t*>(allocate_pages(bytes));
  if (ranks == nullptr || !wire::world_path(worlds, number, ".callers", path, sizeof(path))) return false;
  for (std::int32_t i = 0; i < callers.size(); ++i) ranks[i] = callers.world_rank(i);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool good = file >= 0 && write(file, ranks, bytes) == static_cast<ssize_t>(bytes);
  if (file >= 0) good = close(file) == 0 && good;
  free_pages(ranks, bytes);
  return good;
}

// Where the search for the next number begins: the last one that this process has seen.
std::atomic<int> last_seen;

}  // namespace

NewWorld make_world(const char* worlds, int own, std::int32_t first_size, const SpawnCall& call,
                    std::int32_t size) noexcept {
  const DirectoryLock lock(worlds);
  if (!lock.held() || size < 1 || call.callers->size() < 1) return {};
  int number = last_seen.load();
  if (number < own) number = own;
  wire::SpawnedWorld last{}, made{};
  while (number > 0 && !wire::read_spawned_world(worlds, number, last)) --number;
  if (number == 0) last.size = own == 0 ? first_size : 0;
  if (last.size < 1) return {};
  for (int rivals = 0;; ++rivals) {
    while (wire::read_spawned_world(worlds, number + 1, made)) {
      last = made;
      ++number;
    }
    if (size > wire::kMostRunRanks - last.first - last.size) return {};
    made = {last.first + last.size, size, 0, 0, 0};
    if (call.callers->is_regular(made.caller, made.caller_stride)) made.callers = call.callers->size();
    // Two that take the same number would write one file.
    if (made.callers == 0 && (!lock.exclusive() || !write_callers(worlds, number + 1, *call.callers)))
      return {};
    char path[kPathBytes], text[128];
    if (!wire::world_path(worlds, number + 1, "", path, sizeof(path)) ||
        !wire::format_spawned_world(made, text, sizeof(text))) {
      return {};
    }
    if (symlink(text, path) == 0) break;
    // Without locks somebody may have been faster. What is there may also be unreadable, and stay so.
    if (errno != EEXIST || rivals == kMostRivals) return {};
  }
  const NewWorld world{number + 1, made.first};
  last_seen.store(world.number);
  char path[kPathBytes], text[16];
  if (call.callers->size() < 2) return world;
  forget_call(worlds, call);
  snprintf(text, sizeof(text), "%d", world.number);
  if (path_of(worlds, call, path) && symlink(text, path) == 0) return world;
  if (lock.exclusive()) remove(worlds, world.number);
  return {};
}

void take_back_world(const char* worlds, const SpawnCall& call, const NewWorld& made) noexcept {
  forget_call(worlds, call);
  const DirectoryLock lock(worlds);
  wire::SpawnedWorld next{};
  // Processes that got as far as to offer an exchange of clocks have left links, which would be taken for
  // offers of those who come to bear the numbers.
  char clocks[kPathBytes];
  if (snprintf(clocks, sizeof(clocks), "%s/../.clocks-%d", worlds, made.number) >=
          static_cast<int>(kPathBytes) ||
      access(clocks, F_OK) == 0) {
    return;
  }
  if (lock.exclusive() && !wire::read_spawned_world(worlds, made.number + 1, next))
    remove(worlds, made.number);
}

void forget_call(const char* worlds, const SpawnCall& call) noexcept {
  char path[kPathBytes];
  if (path_of(worlds, call, path)) unlink(path);
}

NewWorld find_world(const char* worlds, const SpawnCall& call) noexcept {
  char path[kPathBytes], text[16];
  if (!path_of(worlds, call, path)) return {};
  const ssize_t length = readlink(path, text, sizeof(text) - 1);
  if (length <= 0) return {};
  text[length] = '\0';
  const char* number_text = text;
  std::int32_t number = 0;
  wire::SpawnedWorld world{};
  if (!wire::parse_world_number(number_text, 1, '\0', number) ||
      !wire::read_spawned_world(worlds, number, world)) {
    return {};
  }
  return {number, world.first};
}

bool read_callers(const char* worlds, int number, RankMap& callers) noexcept {
  wire::SpawnedWorld world{};
  if (!wire::read_spawned_world(worlds, number, world)) return false;
  if (world.callers > 0) {
    callers.assign_regular(world.caller, world.caller_stride, world.callers);
    return true;
  }
  char path[kPathBytes];
  if (!wire::world_path(worlds, number, ".callers", path, sizeof(path))) return false;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status {};
  constexpr auto kOne = static_cast<off_t>(sizeof(std::int32_t));
  bool good = fstat(file, &status) == 0 && status.st_size > 0 && status.st_size % kOne == 0 &&
              status.st_size / kOne <= wire::kMostRunRanks;
  if (good) {
    const auto bytes = static_cast<std::size_t>(status.st_size);
    auto* ranks = static_cast<std::int32_t*>(allocate_pages(bytes));
    good = ranks != nullptr && read(file, ranks, bytes) == status.st_size &&
           callers.assign(ranks, static_cast<std::int32_t>(status.st_size / kOne));
    free_pages(ranks, bytes);
  }
  close(file);
  return good;
}

void note_unrecorded(const char* worlds, std::int32_t rank, unsigned kind, const char* reason) noexcept {
  char path[kPathBytes], text[256];
  snprintf(text, sizeof(text), "rank %d: processes that it spawned are not recorded: %s", rank, reason);
  if (snprintf(path, sizeof(path), "%s/note-%d-%u", worlds, rank, kind) >= static_cast<int>(sizeof(path)))
    return;
  if (symlink(text, path) != 0 && errno == ENOENT && (mkdir(worlds, 0700) == 0 || errno == EEXIST))
    (void)!symlink(text, path);
}

}  // namespace clusterprof::mpi_wrap
