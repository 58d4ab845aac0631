// SPDX-License-Identifier: BSD-3-Clause
// What becomes of recordings, for the site: a line per recording and node. There is a file for each node, day
// and user, since the directory is the node's own and nobody can write to another user's file:
//
//   /var/spool/clusterprof/counts-2026-11-23.1000
//   17:03:55 4711.0 unrecorded prefix-hangs
//
// Only where an administrator has made the directory (slurm/install_on_node --count), which belongs to root
// and is sticky: users can write only files of their own, and each of these is small. Whatever fails here
// fails silently, since nothing may depend on it. No libc is used: the starter has none.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

namespace clusterprof::wire {

inline constexpr const char* kCountsDirectory = "/var/spool/clusterprof";
inline constexpr std::int64_t kMaxCountsBytes = 1 << 20;

inline constexpr const char* kCountStarted = "started";        // a collector began
inline constexpr const char* kCountRecorded = "recorded";      // its last shard was written
inline constexpr const char* kCountIncomplete = "incomplete";  // it was not, or not all is in it
inline constexpr const char* kCountUnrecorded = "unrecorded";

// Text in a buffer of fixed size; what does not fit is left out.
template <std::size_t kBytes>
class ShortText {
 public:
  ShortText() noexcept { text_[0] = '\0'; }
  ShortText& add(const char* text) noexcept {
    while (text != nullptr && *text != '\0') put(*text++);
    return *this;
  }
  // A word of letters, digits and "._-"; "-" if it is none.
  ShortText& add_word(const char* text) noexcept {
    const std::size_t before = used_;
    for (; text != nullptr && *text != '\0' && used_ < before + kMostOfWord; ++text) {
      const char c = *text;
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                         c == '.' || c == '_' || c == '-';
      put(plain ? c : '_');
    }
    if (used_ == before) put('-');
    return *this;
  }
  // With at least `digits` digits.
  ShortText& add_number(std::uint64_t number, int digits = 1) noexcept {
    char text[24];
    int count = 0;
    do text[count++] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    while (count < digits) text[count++] = '0';
    while (count > 0) put(text[--count]);
    return *this;
  }
  const char* text() const noexcept { return text_; }
  std::size_t size() const noexcept { return used_; }

 private:
  static constexpr std::size_t kMostOfWord = 40;
  void put(char c) noexcept {
    if (used_ + 1 >= kBytes) return;
    text_[used_++] = c;
    text_[used_] = '\0';
  }
  char text_[kBytes];
  std::size_t used_ = 0;
};
using CountsPath = ShortText<96>;
using CountsLine = ShortText<200>;

// "2026-11-23" in UTC.
template <std::size_t kBytes>
void add_day(ShortText<kBytes>& text, std::int64_t unix_s) noexcept {
  // Days are counted from 0000-03-01, so that a leap day is the last of its year.
  const std::uint64_t days = static_cast<std::uint64_t>(unix_s) / 86400 + 719468;
  const std::uint64_t era = days / 146097, of_era = days % 146097;
  const std::uint64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const std::uint64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::uint64_t month_from_march = (5 * of_year + 2) / 153;
  const std::uint64_t day = of_year - (153 * month_from_march + 2) / 5 + 1;
  const std::uint64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
  const std::uint64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  text.add_number(year, 4).add("-").add_number(month, 2).add("-").add_number(day, 2);
}

inline void make_counts_path(CountsPath& path, const char* directory, std::int64_t unix_s,
                             std::uint64_t uid) noexcept {
  path.add(directory).add("/counts-");
  add_day(path, unix_s);
  path.add(".").add_number(uid);
}

inline void make_counts_line(CountsLine& line, std::int64_t unix_s, const char* job, const char* step,
                             const char* what, const char* reason) noexcept {
  const auto second = static_cast<std::uint64_t>(unix_s) % 86400;
  line.add_number(second / 3600, 2)
      .add(":")
      .add_number(second / 60 % 60, 2)
      .add(":")
      .add_number(second % 60, 2);
  line.add(" ").add_word(job).add(".").add_word(step).add(" ").add_word(what).add(" ").add_word(reason).add(
      "\n");
}

// Appends a line. `call(number, a, b, c, d)` makes a system call and returns its result, or -errno. `job`,
// `step`: Slurm's; may be null. `reason`: a fixed word; may be null.
template <typename Call>
void count_recording(Call call, const char* directory, const char* job, const char* step, const char* what,
                     const char* reason) noexcept {
  timespec now = {};
  const auto word = [](const void* pointer) { return reinterpret_cast<long>(pointer); };
  if (call(SYS_clock_gettime, CLOCK_REALTIME, word(&now), 0, 0) != 0) return;
  const long uid = call(SYS_geteuid, 0, 0, 0, 0);
  CountsPath path;
  make_counts_path(path, directory, now.tv_sec, static_cast<std::uint64_t>(uid));
  CountsLine line;
  make_counts_line(line, now.tv_sec, job, step, what, reason);
  constexpr long kHow = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                 kMode = 0644;
  const long file = call(SYS_openat, AT_FDCWD, word(path.text()), kHow, kMode);
  if (file < 0) return;
  struct stat status;
  // Somebody else could have put another file, or a link to one, under this name.
  if (call(SYS_fstat, file, word(&status), 0, 0) == 0 && S_ISREG(status.st_mode) &&
      status.st_uid == static_cast<uid_t>(uid) && status.st_nlink == 1 && status.st_size < kMaxCountsBytes)
    (void)call(SYS_write, file, word(line.text()), static_cast<long>(line.size()),
               0);  // less than PIPE_BUF, at once
  call(SYS_close, file, 0, 0, 0);
}

// The reasons that are fixed words of clusterprof itself.
inline constexpr const char* kWhyTurnedOff = "turned-off";  // by the site
inline constexpr const char* kWhyPrefixMissing =
    "prefix-missing";  // the launcher or the starter is not there
inline constexpr const char* kWhyPrefixHangs = "prefix-hangs";
inline constexpr const char* kWhyRunDirectory = "run-directory";  // it cannot be made, or does not answer
inline constexpr const char* kWhyBadRequest = "bad-request";
inline constexpr const char* kWhyBadEnvironment = "bad-environment";  // who this rank is cannot be told
inline constexpr const char* kWhyInstallation =
    "installation";  // a part is missing, or does not fit the program
inline constexpr const char* kWhySystemCallFilter = "seccomp";
inline constexpr const char* kWhyCollector =
    "collector";  // it cannot be started or reached, or it ended early
inline constexpr const char* kWhyTooShort = "too-short";

}  // namespace clusterprof::wire
