// SPDX-License-Identifier: BSD-3-Clause
// Sentences about the measurement itself: what is missing, and what is an estimate.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/words/finding_phrases.hpp"

namespace clusterprof::report::words {
namespace {

class MeasurementSentences : private FindingPhrases {
 public:
  using FindingPhrases::FindingPhrases;

  [[nodiscard]] std::optional<FindingText> text() const {
    switch (f_.kind) {
      case Kind::kSamplesLost:
        return FindingText{fmt::format("{} lost: shares of functions may be off by as much.", lost("sample")),
                           ""};
      case Kind::kThreadsNotSampled:
        return FindingText{fmt::format("{} not sampled: their time is in no function.", lost("thread")), ""};
      case Kind::kIoNotCounted:
        return FindingText{
            fmt::format("{} counted without their line, some without their file: the lines in the I/O tables "
                        "show too little.",
                        lost("I/O operation")),
            ""};
      case Kind::kMpiPathsLost:
        return FindingText{
            fmt::format("{} counted without the call path: the time is there, its call site is not known.",
                        lost("MPI call")),
            ""};
      case Kind::kMpiPeersLost:
        return FindingText{fmt::format("{} not in the communication matrix.", lost("message")), ""};
      case Kind::kMpiEventsLost:
        return FindingText{
            fmt::format("{} left out of the analysis of waiting: there was more waiting than it shows.",
                        lost("MPI event")),
            ""};
      case Kind::kRegionsLost:
        return FindingText{fmt::format("{} counted in the region around them.", lost("region instance")), ""};
      case Kind::kThrottled:
        return FindingText{
            fmt::format("{} of the samples were left out so as not to slow the program down (throttled): a "
                        "lower rate shows as much.",
                        share()),
            ""};
      case Kind::kRecordingCost: {
        const std::string place = f_.place.op.empty() ? "" : format::describe(f_.place, names_);
        return FindingText{fmt::format("Recording took {} of the ranks' CPU time, with {} MPI calls{}. "
                                       "Without clusterprof these calls, "
                                       "and the code that makes them, are faster than shown.",
                                       share(), count(Key::kCalls),
                                       place.empty() ? "" : fmt::format(", most of them {}", place)),
                           ""};
      }
      case Kind::kCallPathsCut:
        return FindingText{fmt::format("The call path of {} of the samples is cut short.", share()), ""};
      case Kind::kFramesNotJoined:
        return FindingText{
            fmt::format("Python and native frames could not be joined in {} of the samples.", share()), ""};
      case Kind::kNoSamples:
        return FindingText{
            e_.number(Key::kCalls) == 0
                ? "There are no samples: functions, lines and categories are not known."
                : "There are no samples: outside MPI, functions, lines and categories are not known.",
            ""};
      case Kind::kWaitsSampled:
        return FindingText{
            fmt::format("There were too many MPI operations to keep all of them: waiting is computed from a "
                        "sample of about one in {} and scaled.",
                        count(Key::kOneIn)),
            ""};
      case Kind::kUnmatched:
        return FindingText{
            fmt::format("For {} of the {} the other side is not known: waiting in them is not counted.",
                        share(),
                        e_.number(Key::kMessages) >= e_.number(Key::kCollectives) ? "messages"
                                                                                  : "collective operations"),
            ""};
      case Kind::kClocks:
        return clocks();
      default:
        return {};
    }
  }

 private:
  // "1.2 % of the samples (12 of 1000) were"
  [[nodiscard]] std::string lost(std::string_view what) const {
    return fmt::format("{} of the {}s ({} of {}) {}", share(), what, count(Key::kLost), count(Key::kOf),
                       e_.number(Key::kLost) == 1 ? "was" : "were");
  }

  [[nodiscard]] FindingText clocks() const {
    std::vector<std::string> parts;
    const auto violations = static_cast<std::size_t>(e_.number(Key::kViolations));
    if (e_.has(Key::kViolations))
      parts.push_back(
          fmt::format("{} to be received before {} sent, by at most {}: waiting may be wrong by as much.",
                      format::plural(violations, "message") + (violations == 1 ? " seems" : " seem"),
                      violations == 1 ? "it was" : "they were", time(Key::kWorstViolation)));
    if (e_.has(Key::kClocksApart))
      parts.emplace_back("The clocks of some nodes cannot be compared: waiting between these is not known.");
    if (e_.has(Key::kClockError))
      parts.push_back(fmt::format(
          "The nodes' clocks are only known to within {}: shorter waits between nodes are not counted.",
          time(Key::kClockError)));
    FindingText result;
    if (!parts.empty()) result.first = parts[0];
    if (parts.size() > 1) result.more = parts[1];
    return result;
  }
};

}  // namespace

std::optional<FindingText> measurement_text(const Finding& finding, const format::ShortPaths& names) {
  return MeasurementSentences(finding, names).text();
}

}  // namespace clusterprof::report::words
