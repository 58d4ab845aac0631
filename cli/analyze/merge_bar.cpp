// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/merge_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/analyze/output.hpp"

namespace clusterprof::cli {
namespace {

using Seconds = std::chrono::duration<double>;
using Phase = aggregator::MergeProgress::Phase;

constexpr Seconds kSoon{1}, kSoonElsewhere{2};  // no word about what is done by then
constexpr Seconds kBetween{0.1}, kBetweenLines{1};
constexpr std::size_t kWidestBar = 40, kNarrowestBar = 8;

// "42 s", "3:05 min", "1:02 h"
std::string duration(double seconds) {
  const auto whole = std::llround(std::clamp(seconds, 0.0, 1e9));
  char text[48];
  if (whole < 100)
    std::snprintf(text, sizeof text, "%lld s", whole);
  else if (whole < 6000)
    std::snprintf(text, sizeof text, "%lld:%02lld min", whole / 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld h", whole / 3600, whole / 60 % 60);
  return text;
}

std::string doing(const aggregator::MergeProgress& progress) {
  const std::string part = std::to_string(progress.done) + " of " + std::to_string(progress.all);
  switch (progress.phase) {
    case Phase::kHeads:
      return "heads of shards, " + part;
    case Phase::kEvents:
      return "MPI events of shards, " + part;
    case Phase::kRows:
      return "shards, " + part;
    case Phase::kWriting:
      return "writing, " + part;
  }
  return part;
}

}  // namespace

std::string MergeBar::update(const aggregator::MergeProgress& progress, Clock::time_point now) {
  const double elapsed_s = Seconds(now - start_).count();
  const double share = std::clamp(progress.share, 0.0, 1.0);
  if (progress.phase != phase_) {
    const bool is_new_pace = phase_ && progress.phase != Phase::kWriting;
    if (is_new_pace) phase_start_ = now, phase_share_ = share;
    phase_ = progress.phase;
  }
  if (now - start_ < (style_.terminal ? kSoon : kSoonElsewhere) ||
      now - shown_ < (style_.terminal ? kBetween : kBetweenLines))
    return {};
  const std::string percent = std::to_string(static_cast<int>(share * 100)) + " %";
  // How long MPI events take says nothing about the rest.
  const double done = share - phase_share_, phase_s = Seconds(now - phase_start_).count();
  const std::string left =
      done > 0.001 ? duration(phase_s * (1 - share) / done) + " left" : std::string("time left not known");
  if (!style_.terminal) {
    const int tenths = static_cast<int>(share * 10);
    if (tenths <= tenths_ || tenths == 10) return {};
    tenths_ = tenths;
    shown_ = now;
    return "clusterprof: merging: " + percent + " after " + duration(elapsed_s) + ", " + left + "\n";
  }
  shown_ = now;
  visible_ = true;
  const std::string numbers = " " + percent + "  " + duration(elapsed_s) + ", " + left;
  const std::string head = "merging ", tail = "  " + doing(progress);
  // The last column stays empty: some terminals go to the next line there.
  const std::size_t room = style_.columns > 1 ? style_.columns - 1 : 0;
  std::string line = head;
  std::size_t used = head.size() + numbers.size();
  const bool bar = used + kNarrowestBar + 2 <= room;
  const bool with_tail = bar && used + tail.size() + kNarrowestBar + 2 <= room;
  if (with_tail) used += tail.size();
  if (bar) {
    const std::size_t width = std::min(kWidestBar, room - used - 2);
    const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
    line += "[";
    if (style_.colour) line += "\x1b[32m";
    line.append(full, '#');
    if (style_.colour) line += "\x1b[0m";
    line.append(width - full, ' ');
    line += "]";
  }
  line += numbers;
  if (with_tail) line += tail;
  if (!bar && line.size() > room) line.resize(room);
  return "\r" + line + "\x1b[K";
}

std::string MergeBar::finish() {
  if (!visible_) return {};
  visible_ = false;
  return "\r\x1b[K";
}

MergeBarOnStderr::MergeBarOnStderr(bool quiet)
    : quiet_(quiet),
      bar_({moves_cursor(STDERR_FILENO), wants_colour(STDERR_FILENO),
            static_cast<std::size_t>(columns_of(STDERR_FILENO))},
           MergeBar::Clock::now()) {}

void MergeBarOnStderr::update(const aggregator::MergeProgress& progress) {
  if (quiet_) return;
  const std::string text = bar_.update(progress, MergeBar::Clock::now());
  if (!text.empty()) (void)std::fputs(text.c_str(), stderr);
}

void MergeBarOnStderr::finish() {
  const std::string text = bar_.finish();
  if (!text.empty()) (void)std::fputs(text.c_str(), stderr);
}

}  // namespace clusterprof::cli
