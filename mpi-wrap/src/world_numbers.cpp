// SPDX-License-Identifier: BSD-3-Clause
// Each spawned world is a symbolic link. Its name is the world's number; its target holds its first rank, its
// size and its callers. A link can be made only once, which decides between processes that spawn at the same
// time.
#include "mpi-wrap/src/world_numbers.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "mpi-wrap/src/owned_directory.hpp"
#include "mpi-wrap/src/pages.hpp"

namespace clusterprof::mpi_wrap {
namespace {

constexpr int kLockTries = 200;  // x 10 ms
constexpr int kMaxRivals = 1000;

bool is_regular(const OpenFile& file, struct stat& status) noexcept {
  return file && fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
}

using Worlds = OwnedDirectory;  // RUN/.worlds

// Prevents others from taking numbers or giving them back. If files cannot be locked, it is enough that a
// link can be made only once; then numbers that were given back may stay unused.
class DirectoryLock {
 public:
  explicit DirectoryLock(const Worlds& worlds) noexcept
      : file_(worlds ? openat(worlds.get(), "lock",
                              O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600)
                     : -1) {
    struct stat status {};
    held_ = is_regular(file_, status);
    if (!held_) return;
    for (int tries = 0; tries < kLockTries; ++tries) {
      struct flock all {};
      all.l_type = F_WRLCK;
      exclusive_ = fcntl(file_.get(), F_OFD_SETLK, &all) == 0;
      if (exclusive_ || (errno != EAGAIN && errno != EACCES && errno != EINTR)) return;
      usleep(10'000);
    }
    held_ = false;  // somebody holds it for longer than it should take
  }
  bool held() const noexcept { return held_; }
  bool exclusive() const noexcept { return held_ && exclusive_; }  // false where files cannot be locked

 private:
  OpenFile file_;
  bool held_ = false, exclusive_ = false;
};

struct Name {
  char text[40];
};
Name name_of(int number, const char* end = "") noexcept {
  Name name;
  snprintf(name.text, sizeof(name.text), "%d%s", number, end);
  return name;
}
Name name_of(const SpawnCall& call) noexcept {
  Name name;
  snprintf(name.text, sizeof(name.text), "%016llx.%u", static_cast<unsigned long long>(call.identity),
           call.position);
  return name;
}
// True if there is another caller that looks for the world by this name.
bool has_name(const SpawnCall& call) noexcept { return call.callers->size() >= 2; }

void forget(const Worlds& worlds, const SpawnCall& call) noexcept {
  if (worlds && has_name(call)) unlinkat(worlds.get(), name_of(call).text, 0);
}

void remove(const Worlds& worlds, int number) noexcept {
  for (const char* end : {"", ".callers"}) unlinkat(worlds.get(), name_of(number, end).text, 0);
}

bool write_callers(const Worlds& worlds, int number, const RankMap& callers) noexcept {
  const std::size_t bytes = static_cast<std::size_t>(callers.size()) * sizeof(std::int32_t);
  auto* ranks = static_cast<std::int32_t*>(allocate_pages(bytes));
  if (ranks == nullptr) return false;
  for (std::int32_t i = 0; i < callers.size(); ++i) ranks[i] = callers.world_rank(i);
  const Name name = name_of(number, ".callers");
  unlinkat(worlds.get(), name.text, 0);  // of a root that was killed
  OpenFile file(openat(worlds.get(), name.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  bool good = file && write(file.get(), ranks, bytes) == static_cast<ssize_t>(bytes);
  if (file) good = file.close_checked() && good;
  free_pages(ranks, bytes);
  return good;
}

// Start of the search for the next number: the last one that this process has seen.
std::atomic<int> last_seen;

}  // namespace

NewWorld make_world(const char* path, int own, std::int32_t first_size, const SpawnCall& call,
                    std::int32_t size) noexcept {
  const Worlds worlds(path, Worlds::IfMissing::kMake);
  const DirectoryLock lock(worlds);
  if (!lock.held() || size < 1 || call.callers->size() < 1) return {};
  int number = last_seen.load();
  if (number < own) number = own;
  wire::SpawnedWorld last{}, made{};
  while (number > 0 && !wire::read_spawned_world(worlds.get(), number, last)) --number;
  if (number == 0) last.size = own == 0 ? first_size : 0;
  if (last.size < 1) return {};
  for (int rivals = 0;; ++rivals) {
    while (wire::read_spawned_world(worlds.get(), number + 1, made)) {
      last = made;
      ++number;
    }
    if (size > wire::kMaxRunRanks - last.first - last.size) return {};
    made = {last.first + last.size, size, 0, 0, 0};
    if (call.callers->is_regular(made.caller, made.caller_stride)) made.callers = call.callers->size();
    // Two roots that take the same number would write to the same file.
    if (made.callers == 0 && (!lock.exclusive() || !write_callers(worlds, number + 1, *call.callers)))
      return {};
    char text[128];
    if (!wire::format_spawned_world(made, text, sizeof(text))) return {};
    if (symlinkat(text, worlds.get(), name_of(number + 1).text) == 0) break;
    // Without locks somebody else may have been faster. An existing link may also stay unreadable.
    if (errno != EEXIST || rivals == kMaxRivals) return {};
  }
  const NewWorld world{number + 1, made.first};
  last_seen.store(world.number);
  if (!has_name(call)) return world;
  forget(worlds, call);
  if (symlinkat(name_of(world.number).text, worlds.get(), name_of(call).text) == 0) return world;
  if (lock.exclusive()) remove(worlds, world.number);
  return {};
}

void withdraw_world(const char* path, const SpawnCall& call, const NewWorld& made) noexcept {
  const Worlds worlds(path);
  if (!worlds) return;
  forget(worlds, call);
  const DirectoryLock lock(worlds);
  wire::SpawnedWorld next{};
  // Processes that have already offered an exchange of clocks have left links. These would be mistaken for
  // offers of the processes that get the numbers next.
  char clocks[40];
  snprintf(clocks, sizeof(clocks), "../.clocks-%d", made.number);
  if (faccessat(worlds.get(), clocks, F_OK, 0) == 0) return;
  if (lock.exclusive() && !wire::read_spawned_world(worlds.get(), made.number + 1, next))
    remove(worlds, made.number);
}

void forget_call(const char* path, const SpawnCall& call) noexcept { forget(Worlds(path), call); }

NewWorld find_world(const char* path, const SpawnCall& call) noexcept {
  const Worlds worlds(path);
  if (!worlds || !has_name(call)) return {};
  char text[16];
  const ssize_t length = readlinkat(worlds.get(), name_of(call).text, text, sizeof(text) - 1);
  if (length <= 0) return {};
  text[length] = '\0';
  const char* number_text = text;
  std::int32_t number = 0;
  wire::SpawnedWorld world{};
  if (!wire::parse_world_number(number_text, 1, '\0', number) ||
      !wire::read_spawned_world(worlds.get(), number, world)) {
    return {};
  }
  return {number, world.first};
}

bool read_callers(const char* path, int number, RankMap& callers) noexcept {
  const Worlds worlds(path);
  wire::SpawnedWorld world{};
  if (!worlds || !wire::read_spawned_world(worlds.get(), number, world)) return false;
  if (world.callers > 0) {
    callers.assign_regular(world.caller, world.caller_stride, world.callers);
    return true;
  }
  const OpenFile file(
      openat(worlds.get(), name_of(number, ".callers").text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  constexpr auto kOne = static_cast<off_t>(sizeof(std::int32_t));
  if (!is_regular(file, status) || status.st_size <= 0 || status.st_size % kOne != 0 ||
      status.st_size / kOne > wire::kMaxRunRanks) {
    return false;
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  auto* ranks = static_cast<std::int32_t*>(allocate_pages(bytes));
  const bool good = ranks != nullptr && read(file.get(), ranks, bytes) == status.st_size &&
                    callers.assign(ranks, static_cast<std::int32_t>(status.st_size / kOne));
  free_pages(ranks, bytes);
  return good;
}

void note_unrecorded(const char* path, std::int32_t rank, wire::SpawnObstacle obstacle) noexcept {
  char name[40];
  snprintf(name, sizeof(name), wire::kSpawnNoteFormat, rank, static_cast<unsigned>(obstacle));
  const Worlds worlds(path, Worlds::IfMissing::kMake);
  if (worlds) (void)!symlinkat("-", worlds.get(), name);
}

}  // namespace clusterprof::mpi_wrap
