// SPDX-License-Identifier: BSD-3-Clause
// Sentences about ranks that wait for each other, and about communication.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/words/finding_phrases.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::words {
namespace {

using format::percent;

class MpiSentences : private FindingPhrases {
 public:
  using FindingPhrases::FindingPhrases;

  [[nodiscard]] std::optional<FindingText> text() const {
    switch (f_.kind) {
      case Kind::kDelay:
        return delay();
      case Kind::kDelayPassedOn:
        return FindingText{
            fmt::format("Delay passed on: {} made {} wait {} in {}; it was itself waiting there.",
                        culprit(rank(), f_.place, names_), who_waited(e_), time(Key::kWait),
                        format::describe(site(), names_)),
            ""};
      case Kind::kLateBySamples:
        return late_by_samples();
      case Kind::kLoadImbalance:
        return imbalance();
      case Kind::kSerialization:
        return FindingText{
            fmt::format(
                "Serialization costs {} of the run: even on an ideal network it would take {}, because "
                "ranks wait for each other in turn or start late, while none works longer than {} "
                "outside MPI.",
                share(), time(Key::kIdeal), time(Key::kMaxUseful)),
            ""};
      case Kind::kTransfer:
        return FindingText{
            fmt::format(
                "Transfer costs {} of the run: on an ideal network it would take {} instead of {}{}{}.",
                share(), time(Key::kIdeal), time(Key::kElapsed),
                e_.has(Key::kRunnable) ? fmt::format(", less {} without a processor", time(Key::kRunnable))
                                       : "",
                most_in(" of all ranks without waiting")),
            ""};
      case Kind::kMutualWaiting:
        return FindingText{
            fmt::format("Ranks wait for each other for {} of all rank time, with no single rank or function "
                        "to blame{}.",
                        share(), most_in()),
            ""};
      case Kind::kMpiBesidesWaiting:
        return FindingText{
            fmt::format("Besides waiting, MPI takes {} of all rank time{}.", share(), most_in()), ""};
      case Kind::kMpiTime:
        return FindingText{
            fmt::format("MPI takes {} of all rank time{}{}.", percent(e_.number(Key::kMpiShare)),
                        e_.has(Key::kImbalanceShare) ? fmt::format(" ({} explained by load imbalance)",
                                                                   percent(e_.number(Key::kImbalanceShare)))
                                                     : "",
                        most_in()),
            ""};
      case Kind::kMpiFileIo:
        return FindingText{
            fmt::format("MPI-IO takes {} of all rank time{}.", share(), most_in(" of all ranks")), ""};
      case Kind::kMpiErrors:
        return mpi_errors();
      case Kind::kRequestsOpen:
        return FindingText{
            fmt::format("{} that {} had started on {} {} not complete at MPI_Finalize{}.",
                        format::plural(static_cast<std::uint64_t>(e_.number(Key::kRequests)), "request"),
                        format::describe(f_.place, names_), who_here(),
                        e_.number(Key::kRequests) == 1 ? "was" : "were", of_all("of them in all")),
            "Wait for them, or free or cancel them."};
      case Kind::kMessagesUnmatched:
        return FindingText{
            fmt::format("Rank {} sent {} to rank {}, tag {}, that nobody received: {}{}.", rank(),
                        format::plural(static_cast<std::uint64_t>(e_.number(Key::kUnreceived)), "message"),
                        whole(Key::kPeerRank), whole(Key::kTag), format::describe(f_.place, names_),
                        of_all("such messages in all")),
            ""};
      default:
        return {};
    }
  }

 private:
  [[nodiscard]] std::string who_here() const {
    return fmt::format("{} {}", f_.ranks.size() == 1 ? "rank" : "ranks", format::rank_list(f_.ranks));
  }
  // What the finding's line is only a part of.
  [[nodiscard]] std::string of_all(std::string_view what) const {
    return whole(Key::kCallSites) < 2 ? "" : fmt::format("; {} {}", count(Key::kOf), what);
  }

  [[nodiscard]] FindingText mpi_errors() const {
    constexpr std::size_t kColumns = 120;
    const auto words = [&](Key key) { return format::shorten(format::printable(e_.name(key)), kColumns); };
    std::string error = words(Key::kErrorClass);
    if (e_.has(Key::kErrorText)) error += fmt::format(" ({})", words(Key::kErrorText));
    const auto calls = static_cast<std::uint64_t>(e_.number(Key::kCalls));
    std::string text =
        fmt::format("{} returned {} on {}", format::describe(f_.place, names_), error, who_here());
    if (calls != 1) text += fmt::format(", {} times", format::count(static_cast<double>(calls)));
    if (e_.has(Key::kMessageNumber) && e_.has(Key::kPeerRank))
      text += fmt::format(", {}for message {} from rank {}", calls == 1 ? "" : "first ",
                          whole(Key::kMessageNumber), whole(Key::kPeerRank));
    else if (e_.has(Key::kPeerRank))
      text += fmt::format(", other side: rank {}", whole(Key::kPeerRank));
    if (e_.has(Key::kTag)) text += fmt::format(", tag {}", whole(Key::kTag));
    text += f_.severity == Severity::kInfo ? "; the program went on." : ".";
    return {text, whole(Key::kCallSites) < 2
                      ? ""
                      : fmt::format("In all, calls of {} lines returned errors.", count(Key::kCallSites))};
  }

  [[nodiscard]] FindingText delay() const {
    const bool several = f_.ranks.size() > 1;
    std::string late = culprit(rank(), f_.place, names_);
    if (several && late.ends_with(',')) late.pop_back();  // "waiting for a processor,"
    if (several) late += fmt::format(", and {} there,", format::plural(f_.ranks.size() - 1, "other rank"));
    FindingText result{fmt::format("Delay: {} made {} wait {}", late, who_waited(e_), time(Key::kWait)), ""};
    if (several) result.first += fmt::format(", rank {} for {} of it", rank(), time(Key::kRankWait));
    if (f_.site) {
      const bool all = e_.number(Key::kSiteWait) >= (1 - thresholds::kBlame / 5) * e_.number(Key::kWait);
      result.first += fmt::format("{} in {}", all ? "" : fmt::format(", {} of it", time(Key::kSiteWait)),
                                  format::describe(site(), names_));
    }
    result.first += ".";
    if (e_.has(Key::kMaxUseful))
      result.more = several ? fmt::format("One of them works {} outside MPI, the mean rank {}.",
                                          time(Key::kMaxUseful), time(Key::kMeanUseful))
                            : fmt::format("Outside MPI it works {}, the mean rank {}.", time(Key::kMaxUseful),
                                          time(Key::kMeanUseful));
    return result;
  }

  [[nodiscard]] FindingText late_by_samples() const {
    const std::size_t also = f_.ranks.empty() ? 0 : f_.ranks.size() - 1;
    FindingText result{
        fmt::format("Judging by samples, rank {}{} comes late to {}: {} {} {} there.", rank(),
                    also == 0 ? "" : fmt::format(" with {}", format::plural(also, "other rank")),
                    format::describe(site(), names_), who_waited(e_),
                    whole(Key::kWaitingRanks) == 1 ? "waits" : "wait", time(Key::kWait)),
        ""};
    if (e_.has(Key::kPlaceTime))
      result.more = fmt::format("Rank {} spends {} more than the mean in {}.", rank(), time(Key::kPlaceTime),
                                name(f_.place, names_));
    return result;
  }

  [[nodiscard]] FindingText imbalance() const {
    FindingText result{
        fmt::format("Load imbalance costs {} of the run: rank {} works {} outside MPI, the mean rank {}.",
                    share(), rank(), time(Key::kMaxUseful), time(Key::kMeanUseful)),
        ""};
    if (e_.has(Key::kCpuExcess)) {
      result.more = fmt::format(
          "It uses only {} more CPU time than the mean rank: rather than having more work, it waits for a "
          "processor.",
          time(Key::kCpuExcess));
      return result;
    }
    if (e_.has(Key::kPlaceTime))
      result.more = fmt::format("Rank {} spends {} more than the mean in {}.", rank(), time(Key::kPlaceTime),
                                name(f_.place, names_));
    return result;
  }
};

}  // namespace

std::optional<FindingText> mpi_text(const Finding& finding, const format::ShortPaths& names) {
  return MpiSentences(finding, names).text();
}

}  // namespace clusterprof::report::words
