// SPDX-License-Identifier: BSD-3-Clause
// Sentences about OpenMP's teams: threads that wait for others, or for processors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/words/finding_phrases.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::words {
namespace {

using format::percent;

class OpenMpSentences : private FindingPhrases {
 public:
  using FindingPhrases::FindingPhrases;

  [[nodiscard]] std::optional<FindingText> text() const {
    switch (f_.kind) {
      case Kind::kOpenMpImbalance:
        return imbalance();
      case Kind::kOpenMpSerial:
        return serial();
      case Kind::kOpenMpSmallRegions:
        return small_regions();
      case Kind::kOpenMpOneAtATime:
        return one_at_a_time();
      case Kind::kOpenMpThreads:
      case Kind::kOpenMpOneProcessor:
        return too_few_processors();
      default:
        return {};
    }
  }

 private:
  [[nodiscard]] std::string at_place() const {
    const std::string place = name(f_.place, names_);
    return place.empty() ? "" : " at " + place;
  }
  [[nodiscard]] std::string threads() const {
    return format::plural(static_cast<std::size_t>(whole(Key::kThreads)), "thread");
  }

  // "OpenMP threads wait for the slowest one in the region at solve() a.c:12: 21.0 % of all rank time, 40.0 %
  // of what its 4 threads have; most of it at solve() a.c:20."
  [[nodiscard]] FindingText imbalance() const {
    const double whole_s = e_.number(Key::kWhole);
    std::string first = fmt::format(
        "OpenMP threads wait for the slowest one in the region{}: {} of all rank time", at_place(), share());
    if (whole_s > 0)
      first += fmt::format(", {} of what its {} have", percent(e_.number(Key::kWait) / whole_s), threads());
    if (f_.site) first += fmt::format("; most of it at {}", name(*f_.site, names_));
    std::string more = loop();
    if (e_.has(Key::kLastByFirst)) {
      if (!more.empty()) more += ' ';
      more += e_.number(Key::kLastByFirst) > 1 ? "The higher a thread's number, the more work it has."
                                               : "The lower a thread's number, the more work it has.";
    }
    return {first + ".", more};
  }

  // "Its loop (dynamic) has 400 iterations and gives each thread 2.0 chunks on average; try chunks
  // of 6 iterations."
  [[nodiscard]] std::string loop() const {
    std::string has;
    if (e_.has(Key::kIterations)) {
      const auto iterations = static_cast<std::size_t>(std::llround(e_.number(Key::kIterations)));
      has += " has " + format::plural(std::max<std::size_t>(iterations, 1), "iteration");
    }
    if (e_.has(Key::kChunks))
      has += fmt::format("{} gives each thread {:.1f} chunks on average", has.empty() ? "" : " and",
                         e_.number(Key::kChunks));
    if (has.empty() && !e_.has(Key::kSchedule)) return {};
    std::string out = "Its loop";
    if (e_.has(Key::kSchedule)) {
      const std::string schedule = format::printable(e_.name(Key::kSchedule));
      const bool is_named = schedule != "handed_out";  // the run time does not say which
      if (has.empty())
        return is_named ? fmt::format("The schedule of its loop is {}.", schedule)
                        : "The run time hands out the parts of its loop.";
      out += is_named ? fmt::format(" ({})", schedule) : ", whose parts the run time hands out,";
    }
    out += has;
    if (e_.has(Key::kChunkSize))
      out += fmt::format("; try chunks of {}",
                         format::plural(static_cast<std::size_t>(whole(Key::kChunkSize)), "iteration"));
    return out + ".";
  }

  [[nodiscard]] FindingText serial() const {
    return {
        fmt::format(
            "One thread works and the others of OpenMP's {} have nothing to do: {} of all rank time is "
            "lost outside parallel regions{}.",
            threads(), share(), of_it_in()),
        fmt::format(
            "With any number of threads, the program can be no more than {:.1f} times as fast as with one.",
            e_.number(Key::kSpeedupBound))};
  }

  [[nodiscard]] FindingText small_regions() const {
    return {fmt::format(
                "Parallel regions are too small: starting {} and waiting for them takes longer than their "
                "work, {} of all rank time{}.",
                threads(), share(), of_it_in()),
            fmt::format("There were {} of them; there, one takes {} on average.", count(Key::kCalls),
                        time(Key::kMeanTime))};
  }

  [[nodiscard]] FindingText one_at_a_time() const {
    const std::string construct = e_.name(Key::kConstruct);
    return {fmt::format("OpenMP threads wait where one works at a time ({}): {} of all rank time{}.",
                        construct.empty() ? "critical" : format::printable(construct), share(), of_it_in()),
            ""};
  }

  [[nodiscard]] FindingText too_few_processors() const {
    const std::size_t processors =
        f_.kind == Kind::kOpenMpOneProcessor ? 1 : e_.list(Key::kProcessors).size();
    const std::string others = f_.ranks.size() > 1
                                   ? fmt::format("; so {} {}", f_.ranks.size() == 2 ? "does" : "do",
                                                 format::plural(f_.ranks.size() - 1, "other rank"))
                                   : "";
    return {fmt::format("Rank {} runs {} on {}{}{}.", rank(),
                        format::plural(static_cast<std::size_t>(whole(Key::kThreads)), "OpenMP thread"),
                        processors == 0 ? "fewer processors" : format::plural(processors, "processor"),
                        e_.has(Key::kNode) ? fmt::format(" (node {})", node()) : "", others),
            e_.has(Key::kAdvisedSize) ? fmt::format("Set {}.", pool_setting()) : ""};
  }
};

}  // namespace

std::optional<FindingText> openmp_text(const Finding& finding, const format::ShortPaths& names) {
  return OpenMpSentences(finding, names).text();
}

}  // namespace clusterprof::report::words
