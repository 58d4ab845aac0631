// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/hang.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report::words {
namespace {

std::string ranks_named(const std::vector<std::int32_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", format::rank_list(ranks));
}

// "MPI_Barrier (train.py:57)"
std::string call_at(const SourceLocation& place, const format::ShortPaths& names) {
  const std::string where = names.place(place.file, place.line);
  std::string call = format::printable(place.op);
  if (!where.empty()) call += fmt::format(" ({})", where);
  return call;
}

std::string code_at(SourceLocation place, const format::ShortPaths& names) {
  place.called.clear();
  return format::describe(place, names);
}

// "is in lost() train.py:20, asleep for 600 s". Empty: that is not known.
std::string what_is(const MissingRanks& missing, const format::ShortPaths& names) {
  const bool one = missing.ranks.size() == 1;
  const char* const be = one ? "is" : "are";
  const std::string lasting = missing.for_s ? fmt::format(" for {}", format::seconds(*missing.for_s)) : "";
  const std::string code = code_at(missing.place, names);
  switch (missing.state) {
    case MissingState::kNotKnown:
      break;
    case MissingState::kComputes:
      return fmt::format("{} in {}", one ? "computes" : "compute", code);
    case MissingState::kInIo:
      return fmt::format("{} for input, output or an event in {}", one ? "waits" : "wait", code);
    case MissingState::kChild:
      return fmt::format("{} for a child process in {}", one ? "waits" : "wait", code);
    case MissingState::kInCall:
      return fmt::format("{} in {}", be, call_at(missing.place, names));
    case MissingState::kInFinalize:
      return fmt::format("{} in MPI_Finalize", be);
    case MissingState::kEnded: {
      const std::string ended = one ? "has ended" : "have ended";
      if (missing.exit_signal)
        return fmt::format("{} by {}", ended, format::signal_name(*missing.exit_signal));
      if (missing.exit_status.value_or(0) != 0)
        return fmt::format("{} with status {}", ended, *missing.exit_status);
      return ended;
    }
    case MissingState::kAsleep:
      return fmt::format("{} in {}, asleep{}", be, code, lasting);
    case MissingState::kBlocked:
      return fmt::format("{} in {}, blocked by a lock{}", be, code, lasting);
    case MissingState::kInLoop:
      return fmt::format("{} in a loop in {}{}", be, code, lasting);
  }
  return {};
}

// "rank 2, which is in MPI_Finalize", "ranks 2, 3 (what they are doing is not known)"
std::string with_state(const MissingRanks& missing, const format::ShortPaths& names) {
  const std::string is = what_is(missing, names);
  if (!is.empty()) return fmt::format("{}, which {}", ranks_named(missing.ranks), is);
  return fmt::format("{} (what {} doing is not known)", ranks_named(missing.ranks),
                     missing.ranks.size() == 1 ? "it is" : "they are");
}

// "ranks 0, 1, 3 wait in MPI_Barrier (train.py:57) on MPI_COMM_WORLD, operation 412,"
std::string waiting(const HangWait& wait, const format::ShortPaths& names) {
  std::string out = fmt::format("{} {} in {}", ranks_named(wait.ranks),
                                wait.ranks.size() == 1 ? "waits" : "wait", call_at(wait.place, names));
  if (!wait.communicator.empty())
    out += fmt::format(" on {}", format::printable(wait.communicator));
  else if (wait.sequence && wait.communicator_size != 0)
    out += fmt::format(" on a communicator of {} ranks", wait.communicator_size);
  if (wait.sequence) out += fmt::format(", operation {},", *wait.sequence);
  return out;
}

std::string missing_of(const HangWait& wait, const format::ShortPaths& names) {
  constexpr std::size_t kMostGroups = 3;
  std::string out;
  std::size_t told = 0;
  for (const MissingRanks& group : wait.missing) {
    if (told == kMostGroups) break;
    out += fmt::format("{}{}",
                       told == 0                         ? ""
                       : told + 1 == wait.missing.size() ? ", and "
                                                         : ", ",
                       with_state(group, names));
    ++told;
  }
  if (told < wait.missing.size()) out += fmt::format(", and others");
  return out;
}

std::string cycle_of(const Hang& hang) {
  constexpr std::size_t kMost = 8;
  std::string out = fmt::format("{}", hang.cycle.front());
  for (std::size_t i = 1; i < std::min(hang.cycle.size(), kMost); ++i)
    out += fmt::format(" waits for {}", hang.cycle[i]);
  if (hang.cycle.size() > kMost) out += " waits for ..";
  return out + fmt::format(" waits for {}", hang.cycle.front());
}

std::string mismatch_of(const Hang& hang, const format::ShortPaths& names) {
  const HangWait& wait = hang.waiting.front();
  std::string out =
      fmt::format("operation {} on {} {}", wait.sequence.value_or(0),
                  wait.communicator.empty() ? "a communicator" : format::printable(wait.communicator),
                  differs(hang.mismatch));
  const std::string where = names.place(wait.place.file, wait.place.line);
  if (!where.empty()) out += fmt::format("; rank {} is at {}", wait.ranks.front(), where);
  return out;
}

}  // namespace

std::string differs(const std::vector<MismatchedRanks>& groups) {
  constexpr std::size_t kMost = 4;
  std::string out = groups.front().root    ? "has different roots: "
                    : groups.front().bytes ? "has different sizes: "
                                           : "is not the same on all members: ";
  for (std::size_t i = 0; i < groups.size() && i < kMost; ++i) {
    const MismatchedRanks& group = groups[i];
    if (i != 0) out += " against ";
    out += format::printable(group.op);
    if (group.root) out += fmt::format(" with root {}", *group.root);
    if (group.bytes)
      out += fmt::format(" of {} bytes", *group.bytes);  // all digits: they may differ by little
    out += fmt::format(" on {}", ranks_named(group.ranks));
  }
  if (groups.size() > kMost) out += " and others";
  return out;
}

std::string mismatch_error(const Failure& failure) {
  std::string message = format::printable(failure.message);
  if (message.ends_with('.')) message.pop_back();  // the sentence has one
  return fmt::format("Rank {} was ended by MPI itself: {}; the operation {}.", failure.rank, message,
                     differs(failure.mismatch));
}

std::string verdict(const Hang& hang, const format::ShortPaths& names) {
  if (hang.waiting.empty()) return {};
  const HangWait& first = hang.waiting.front();
  if (!hang.mismatch.empty()) return fmt::format("Deadlock: {}.", mismatch_of(hang, names));
  if (!hang.cycle.empty()) {
    const auto of_first = std::find_if(hang.waiting.begin(), hang.waiting.end(), [&](const HangWait& wait) {
      return std::binary_search(wait.ranks.begin(), wait.ranks.end(), hang.cycle.front());
    });
    const HangWait& wait = of_first == hang.waiting.end() ? first : *of_first;
    return fmt::format("Deadlock: {}; rank {} in {}, for {}.", cycle_of(hang), hang.cycle.front(),
                       call_at(wait.place, names), format::seconds(wait.for_s));
  }
  std::string text = waiting(first, names);
  if (!first.missing.empty()) text += " for " + missing_of(first, names);
  if (hang.is_deadlock) return fmt::format("Deadlock: {}.", text);
  text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text + ".";
}

std::string what_is_wrong(const Analysis& run, const format::ShortPaths& names) {
  std::string text = run.hang ? verdict(*run.hang, names) : "";
  if (run.failure && !run.failure->mismatch.empty()) {
    if (!text.empty()) text += ' ';
    text += mismatch_error(*run.failure);
  }
  return text;
}

std::string no_progress(double for_s, const std::optional<Hang>& hang, const format::ShortPaths& names) {
  std::string text = fmt::format("No rank has made progress for {}.", format::seconds(for_s));
  if (hang && !hang->waiting.empty()) text += " " + verdict(*hang, names);
  return text;
}

}  // namespace clusterprof::report::words
