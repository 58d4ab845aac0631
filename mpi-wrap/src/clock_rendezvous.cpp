// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/clock_rendezvous.hpp"

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

constexpr const char* kTakesPart = "in";
constexpr const char* kStaysOut = "out";

struct LinkName {
  explicit LinkName(int rank) noexcept { snprintf(text, sizeof(text), "%d", rank); }
  char text[16];
};

bool make_link(int directory, int rank, const char* text) noexcept {
  return symlinkat(text, directory, LinkName(rank).text) == 0;
}

// True if the target of the rank's link begins with `text`.
bool link_begins_with(int directory, int rank, const char* text) noexcept {
  char word[64] = "";
  return readlinkat(directory, LinkName(rank).text, word, sizeof(word) - 1) > 0 &&
         strncmp(word, text, strlen(text)) == 0;
}

// True if the rank takes part in this exchange: its link ends with the occasion, if there is one.
bool link_takes_part(int directory, int rank, const char* occasion) noexcept {
  char word[64] = "";
  if (readlinkat(directory, LinkName(rank).text, word, sizeof(word) - 1) <= 0 ||
      strncmp(word, kTakesPart, strlen(kTakesPart)) != 0) {
    return false;
  }
  const char* const theirs = strchr(word, '.');
  return strcmp(theirs == nullptr ? "" : theirs, occasion) == 0;
}

void remove_link(int directory, int rank, const char* text) noexcept {
  if (link_begins_with(directory, rank, text)) unlinkat(directory, LinkName(rank).text, 0);
}

}  // namespace

// The directory that is held open. Its descriptor number may have been reused: a thread of the program may
// have closed all descriptors and opened something else. In that case, and if none is held, this is the
// directory at the path.
class ClockRendezvous::LinkDirectory {
 public:
  explicit LinkDirectory(const ClockRendezvous& rendezvous) noexcept : directory_(rendezvous.descriptor_) {
    struct stat status {};
    if (rendezvous.is_open_ && fstat(directory_, &status) == 0 && status.st_dev == rendezvous.device_ &&
        status.st_ino == rendezvous.inode_) {
      is_held_ = true;
      return;
    }
    opened_.emplace(rendezvous.path_);
    directory_ = opened_->get();
  }
  explicit operator bool() const noexcept { return directory_ >= 0; }
  bool is_held() const noexcept { return is_held_; }
  int get() const noexcept { return directory_; }

 private:
  std::optional<OwnedDirectory> opened_;
  int directory_;
  bool is_held_ = false;
};

bool ClockRendezvous::learn_rank() noexcept {
  if (knows_rank_) return true;
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) rank = getenv("PMIX_RANK");
  if (rank == nullptr && getenv("MPICH_RANK_REORDER_METHOD") == nullptr) rank = getenv("PMI_RANK");
  if (rank == nullptr) return false;
  char* end = nullptr;
  const long number = strtol(rank, &end, 10);
  if (end == rank || *end != '\0' || number < 0 || number > 0x7fff'ffff) return false;
  rank_ = static_cast<int>(number);
  knows_rank_ = true;
  return true;
}

bool ClockRendezvous::offer(const char* directory, std::uint64_t node, std::uint64_t occasion) noexcept {
  if (!learn_rank() || strlen(directory) >= sizeof(path_)) return false;
  if (occasion != 0)
    snprintf(occasion_, sizeof(occasion_), ".%016llx", static_cast<unsigned long long>(occasion));
  snprintf(name_, sizeof(name_), "%s-%016llx-%d%s", kTakesPart, static_cast<unsigned long long>(node),
           static_cast<int>(getpid()), occasion_);
  snprintf(path_, sizeof(path_), "%s", directory);
  OwnedDirectory links(path_, OwnedDirectory::IfMissing::kMake);
  struct stat status {};
  if (!links || fstat(links.get(), &status) != 0) return false;
  // If a file server's answer is lost, the request is sent again and fails because the first one has
  // succeeded.
  if (!make_link(links.get(), rank_, name_) &&
      (errno != EEXIST || !link_begins_with(links.get(), rank_, name_)))
    return false;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  descriptor_ = links.release();
  is_open_ = true;
  return true;
}

bool ClockRendezvous::takes_part(int rank) noexcept {
  const LinkDirectory links(*this);
  if (!links) return false;
  if (!make_link(links.get(), rank, kStaysOut)) return link_takes_part(links.get(), rank, occasion_);
  if (refused_count_ < kMaxAsked) refused_[refused_count_++] = rank;
  return false;
}

void ClockRendezvous::leave() noexcept {
  const LinkDirectory links(*this);
  if (links) remove_link(links.get(), rank_, name_);
  if (links.is_held()) close(descriptor_);
  is_open_ = false;
}

void ClockRendezvous::end() noexcept {
  if (refused_count_ == 0) return;
  const LinkDirectory links(*this);
  while (refused_count_ > 0) {
    --refused_count_;
    if (links) remove_link(links.get(), refused_[refused_count_], kStaysOut);
  }
}

}  // namespace clusterprof::mpi_wrap
