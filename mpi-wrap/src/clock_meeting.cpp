// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/clock_meeting.hpp"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "mpi-wrap/src/owned_directory.hpp"

namespace clusterprof::mpi_wrap {
namespace {

constexpr const char* kIn = "in";
constexpr const char* kOut = "out";

struct Name {
  explicit Name(int rank) noexcept { snprintf(text, sizeof(text), "%d", rank); }
  char text[16];
};

bool make(int directory, int rank, const char* text) noexcept {
  return symlinkat(text, directory, Name(rank).text) == 0;
}

// `text` is the beginning of what the link says.
bool says(int directory, int rank, const char* text) noexcept {
  char word[64] = "";
  return readlinkat(directory, Name(rank).text, word, sizeof(word) - 1) > 0 &&
         strncmp(word, text, strlen(text)) == 0;
}

void remove(int directory, int rank, const char* text) noexcept {
  if (says(directory, rank, text)) unlinkat(directory, Name(rank).text, 0);
}

}  // namespace

// The directory that is held. Its number may mean something else: a thread of the program has closed all that
// was open, and opened something. Then, and when none is held, the one at the path.
class Meeting::Place {
 public:
  explicit Place(const Meeting& meeting) noexcept : directory_(meeting.held_) {
    struct stat status {};
    if (meeting.holds_ && fstat(directory_, &status) == 0 && status.st_dev == meeting.device_ &&
        status.st_ino == meeting.inode_) {
      held_ = true;
      return;
    }
    opened_.emplace(meeting.path_);
    directory_ = opened_->get();
  }
  explicit operator bool() const noexcept { return directory_ >= 0; }
  bool is_held() const noexcept { return held_; }
  int get() const noexcept { return directory_; }

 private:
  std::optional<OwnedDirectory> opened_;
  int directory_;
  bool held_ = false;
};

bool Meeting::offer(const char* directory, std::uint64_t node) noexcept {
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) rank = getenv("PMIX_RANK");
  if (rank == nullptr && getenv("MPICH_RANK_REORDER_METHOD") == nullptr) rank = getenv("PMI_RANK");
  if (rank == nullptr || strlen(directory) >= sizeof(path_)) return false;
  char* end = nullptr;
  const long number = strtol(rank, &end, 10);
  if (end == rank || *end != '\0' || number < 0 || number > 0x7fff'ffff) return false;
  rank_ = static_cast<int>(number);
  snprintf(name_, sizeof(name_), "%s-%016llx-%d", kIn, static_cast<unsigned long long>(node),
           static_cast<int>(getpid()));
  snprintf(path_, sizeof(path_), "%s", directory);
  OwnedDirectory place(path_, OwnedDirectory::IfMissing::kMake);
  struct stat status {};
  if (!place || fstat(place.get(), &status) != 0) return false;
  // Where a file server's answer gets lost the request is repeated, and fails for having succeeded.
  if (!make(place.get(), rank_, name_) && (errno != EEXIST || !says(place.get(), rank_, name_))) return false;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  held_ = place.release();
  holds_ = true;
  return true;
}

bool Meeting::takes_part(int rank) noexcept {
  const Place place(*this);
  if (!place) return false;
  if (!make(place.get(), rank, kOut)) return says(place.get(), rank, kIn);
  if (refused_count_ < kMostAsked) refused_[refused_count_++] = rank;
  return false;
}

void Meeting::leave() noexcept {
  const Place place(*this);
  if (place) remove(place.get(), rank_, name_);
  if (place.is_held()) close(held_);
  holds_ = false;
}

void Meeting::end() noexcept {
  if (refused_count_ == 0) return;
  const Place place(*this);
  while (refused_count_ > 0) {
    --refused_count_;
    if (place) remove(place.get(), refused_[refused_count_], kOut);
  }
}

}  // namespace clusterprof::mpi_wrap
