// SPDX-License-Identifier: BSD-3-Clause
// Sentences about ranks that failed, ended early or are missing.
#include <fmt/format.h>
#include <signal.h>

#include <optional>
#include <string>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/words/finding_phrases.hpp"
#include "report/words/hang.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::words {
namespace {

class FailureSentences : private FindingPhrases {
 public:
  using FindingPhrases::FindingPhrases;

  [[nodiscard]] std::optional<FindingText> text() const {
    switch (f_.kind) {
      case Kind::kDeadlock:
        return FindingText{
            f_.hang ? verdict(*f_.hang, names_) : "Deadlock: ranks wait for what nobody will complete.", ""};
      case Kind::kNoProgress:
        return FindingText{no_progress(e_.number(Key::kTime), f_.hang, names_), ""};
      case Kind::kRankFailed:
        return FindingText{rank_failed(), ""};
      case Kind::kTimeLimit:
        return time_limit();
      case Kind::kLauncherGone:
        return launcher_gone();
      case Kind::kRanksEndedAfter:
        return ended_after();
      case Kind::kRanksUnfinished:
        return FindingText{
            fmt::format("{} ended without MPI_Finalize{}.", who(), last_seen("; rank {} was last seen")), ""};
      case Kind::kRanksLost:
        return FindingText{
            fmt::format("{} vanished without an exit status (SIGKILL, out of memory, node failure?){}.",
                        who(), last_seen("; rank {} was last seen")),
            ""};
      case Kind::kRanksSilent:
        return FindingText{
            fmt::format(
                "Nothing has been heard from {} since {} into the run: the node or its collector has ended "
                "(SIGKILL, out of memory), is suspended, or cannot write{}.",
                fmt::format("{} {}", f_.ranks.size() == 1 ? "rank" : "ranks", format::rank_list(f_.ranks)),
                time(Key::kElapsed),
                f_.ranks.size() == 1 && !last_seen("").empty() ? "; it was last seen" + last_seen("")
                                                               : last_seen("; rank {} was last seen")),
            ""};
      case Kind::kRanksMissing:
        return FindingText{
            fmt::format("{} of {} ranks {} not in this profile: {}.", whole(Key::kMissingRanks),
                        whole(Key::kWorldSize), whole(Key::kMissingRanks) == 1 ? "is" : "are", missing()),
            ""};
      default:
        return {};
    }
  }

 private:
  [[nodiscard]] FindingText launcher_gone() const {
    const std::string launcher = e_.has(Key::kLauncher) && !e_.name(Key::kLauncher).empty()
                                     ? format::shorten_middle(format::printable(e_.name(Key::kLauncher)), 32)
                                     : "The MPI launcher";
    const std::string how = ends();
    return {fmt::format(
                "{} ended {} into the run, while the program was still running, and so {} ended, too{}{}.",
                launcher, time(Key::kElapsed),
                fmt::format("{} {}", f_.ranks.size() == 1 ? "rank" : "ranks", format::rank_list(f_.ranks)),
                how.empty() ? "" : " (" + how + ")", last_seen("; rank {} was last seen")),
            "Find out what ended it: a kill, a time limit, a lost login."};
  }

  [[nodiscard]] FindingText time_limit() const {
    const std::string how = ends();
    return {
        fmt::format(
            "The job's time limit had passed: {} ended from {} into the run on{}{}.",
            fmt::format("{} {}", f_.ranks.size() == 1 ? "rank" : "ranks", format::rank_list(f_.ranks)),
            time(Key::kElapsed), how.empty() ? "" : " (" + how + ")", last_seen("; rank {} was last seen")),
        ""};
  }

  [[nodiscard]] std::string quoted(Key key) const {
    constexpr std::size_t kColumns = 200;
    std::string text = format::shorten(format::printable(e_.name(key)), kColumns);
    if (text.ends_with('.') && !text.ends_with("..")) text.pop_back();  // the sentence has one
    return text;
  }

  // "SIGSEGV", "status 1"
  [[nodiscard]] std::string end() const {
    return e_.has(Key::kSignal) ? format::signal_name(whole(Key::kSignal))
                                : fmt::format("status {}", whole(Key::kStatus));
  }

  // What is known beyond how the rank ended.
  [[nodiscard]] std::string signal_details() const {
    if (e_.has(Key::kStackOverflow)) return ": its stack was used up";
    if (e_.has(Key::kMessage)) return ": " + quoted(Key::kMessage);
    const bool of_memory = end() == "SIGSEGV" || end() == "SIGBUS";
    if (of_memory && e_.has(Key::kAddress)) return ": it accessed address " + quoted(Key::kAddress);
    return "";
  }

  // A signal comes where the rank was seen last. A program that exits does so after its last sample, as a
  // rule: an exception may have come from elsewhere.
  [[nodiscard]] std::string rank_failed() const {
    const std::string kind = e_.name(Key::kFailure);
    if (kind == name_of(FailureKind::kAbort)) {
      const std::string why = e_.has(Key::kException) ? " after " + exception() : "";
      return fmt::format("{} called MPI_Abort with code {}{}{}.", who(), whole(Key::kAbortCode), why,
                         last_seen(""));
    }
    if (kind == name_of(FailureKind::kException))
      return fmt::format("{} ended by an uncaught exception ({}){}: {}.", who(), end(),
                         last_seen(", rank {} first"), exception());
    if (kind == name_of(FailureKind::kOutOfMemory))
      return fmt::format("{} was killed because memory was short{}.", who(), last_seen(""));
    const std::string first = f_.ranks.size() > 1 && f_.rank ? fmt::format(", rank {} first", rank()) : "";
    if (e_.has(Key::kEndedByMpi))
      return fmt::format("{} {} ended by MPI itself ({}){}: {}{}{}.", who(),
                         f_.ranks.size() == 1 ? "was" : "were", end(), first, quoted(Key::kMessage),
                         last_seen(""), f_.mismatch.empty() ? "" : "; the operation " + differs(f_.mismatch));
    if (e_.has(Key::kSignal))
      return fmt::format("{} ended by {}{}{}.", who(), format::signal_name(whole(Key::kSignal)),
                         last_seen(", rank {} first"), signal_details());
    const std::string where = name(f_.place, names_);
    return fmt::format("{} exited with status {}{}{}.", who(), whole(Key::kStatus), first,
                       where.empty() ? "" : "; last sampled in " + where);
  }

  // "ValueError: bad batch 17"
  [[nodiscard]] std::string exception() const {
    const std::string type = quoted(Key::kException);
    return e_.has(Key::kMessage) ? fmt::format("{}: {}", type, quoted(Key::kMessage)) : type;
  }

  [[nodiscard]] FindingText ended_after() const {
    const std::string list = ends();
    const bool all_killed =
        e_.list(Key::kSignals) == std::vector<std::int32_t>{SIGKILL} && e_.list(Key::kStatuses).empty();
    if (!e_.has(Key::kCauseRank))
      return {fmt::format("{} {} ended by {}{}.", who(), f_.ranks.size() == 1 ? "was" : "were", list,
                          last_seen(all_killed ? "; rank {}, the first of them, was last seen"
                                               : "; rank {} was last seen")),
              ""};
    return {fmt::format("{} ended after rank {} had failed: {}.", who(), whole(Key::kCauseRank), list), ""};
  }

  [[nodiscard]] std::string missing() const {
    RunInfo run;
    run.missing_ranks = f_.ranks;
    run.missing = static_cast<std::size_t>(e_.number(Key::kMissingRanks));
    return format::missing_ranks(run);
  }
};

}  // namespace

std::optional<FindingText> failure_text(const Finding& finding, const format::ShortPaths& names) {
  return FailureSentences(finding, names).text();
}

}  // namespace clusterprof::report::words
