// SPDX-License-Identifier: BSD-3-Clause
// Sentences about the processors and the memory of nodes.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/words/finding_phrases.hpp"

namespace clusterprof::report::words {
namespace {

using format::percent;

class MachineSentences : private FindingPhrases {
 public:
  using FindingPhrases::FindingPhrases;

  [[nodiscard]] std::optional<FindingText> text() const {
    switch (f_.kind) {
      case Kind::kWaitingForProcessor:
        return waiting_for_processor();
      case Kind::kSharedProcessors:
        return shared_processors();
      case Kind::kTooManyThreads:
        return FindingText{
            fmt::format("{} of {} {} too many threads: {} on {} that are {} busy, and each rank is switched "
                        "out {} times "
                        "per second.",
                        who(), nodes(), f_.ranks.size() == 1 ? "has" : "have",
                        format::plural(static_cast<std::size_t>(whole(Key::kThreads)), "thread"),
                        format::plural(e_.list(Key::kProcessors).size(), "processor"),
                        percent(e_.number(Key::kBusy)), count(Key::kSwitchedOut)),
            pool()};
      case Kind::kBusyNode:
        return FindingText{
            fmt::format("The processors of {} are {} busy, {} with this job, and each of its ranks is "
                        "switched out {} times per second.",
                        nodes(), percent(e_.number(Key::kBusy)), percent(e_.number(Key::kOwnBusy)),
                        count(Key::kSwitchedOut)),
            ""};
      case Kind::kAcrossMemoryNodes:
        return FindingText{fmt::format("{} of {} {} bound to processors of several memory nodes, although "
                                       "one has enough processors.",
                                       who(), nodes(), f_.ranks.size() == 1 ? "is" : "are"),
                           ""};
      case Kind::kFullMemory:
        return full_memory();
      case Kind::kPagesFromDisk:
        return FindingText{
            fmt::format(
                "{} waited for pages to come from disk (swapped-out memory or mapped files): rank {} {} "
                "times, {} times per second.",
                who(), rank(), count(Key::kMajorFaults), count(Key::kMajorFaultsPerSecond)),
            ""};
      default:
        return {};
    }
  }

 private:
  [[nodiscard]] FindingText waiting_for_processor() const {
    std::string first = fmt::format("Ranks wait for a processor: {} of all rank time", share());
    if (e_.has(Key::kReadyThreads))
      first += fmt::format("; on node {}, {:.1f} threads on average run or are ready to run, on {}", node(),
                           e_.number(Key::kReadyThreads),
                           format::plural(e_.list(Key::kProcessors).size(), "processor"));
    std::string more;
    if (e_.number(Key::kMpiRunnable) > 0)
      more =
          fmt::format("{} of it is outside MPI, {} inside.", time(Key::kRunnable), time(Key::kMpiRunnable));
    if (const std::string threads = pool(); !threads.empty()) more += (more.empty() ? "" : " ") + threads;
    return {first + ".", more};
  }

  // "There are 64 threads of OpenBLAS for 2 processors (1 rank x 2 processes x 32 threads): set
  // OPENBLAS_NUM_THREADS=1."
  [[nodiscard]] std::string pool() const {
    if (!e_.has(Key::kPool)) return {};
    const auto counted = [](int number, std::string_view noun) {
      return format::plural(static_cast<std::size_t>(number), noun);
    };
    const int threads = whole(Key::kPoolThreads), ranks = whole(Key::kPoolRanks),
              processes = whole(Key::kPoolProcesses), of_process = whole(Key::kPoolOfProcess);
    const bool is_even = ranks > 0 && processes % ranks == 0 && processes * of_process == threads;
    const std::string parts =
        is_even ? fmt::format("{} x {} x {}", counted(ranks, "rank"), counted(processes / ranks, "process"),
                              counted(of_process, "thread"))
                : fmt::format("{}, {} at a time, up to {} in each", counted(ranks, "rank"),
                              counted(processes, "process"), counted(of_process, "thread"));
    const std::size_t processors = e_.list(Key::kProcessors).size();
    return fmt::format("There are {} of {}{} ({}): set {}.", counted(threads, "thread"),
                       format::printable(e_.name(Key::kPool)),
                       processors == 0 ? "" : " for " + format::plural(processors, "processor"), parts,
                       pool_setting());
  }

  [[nodiscard]] FindingText shared_processors() const {
    const std::vector<std::int32_t> processors = e_.list(Key::kProcessors);
    const bool several = whole(Key::kNodes) > 1;
    return {fmt::format("{} share {}of {}: each can run for at most {} of its time.", who(),
                        several ? "processors "
                                : fmt::format("{} {} ", processors.size() == 1 ? "processor" : "processors",
                                              format::rank_list(processors)),
                        nodes(), percent(e_.number(Key::kRunShare))),
            fmt::format("They use {} of the processors' time, and each is switched out {} times per second.",
                        percent(e_.number(Key::kBusy)), count(Key::kSwitchedOut))};
  }

  [[nodiscard]] FindingText full_memory() const {
    const double used = e_.number(Key::kMemoryUsed), all = e_.number(Key::kMemory);
    const int nodes = whole(Key::kNodes);
    const std::string whose =
        nodes > 1
            ? fmt::format("The memory of {} nodes was nearly full, that of node {} most:", nodes, node())
            : fmt::format("The memory of node {} was", node());
    FindingText result{fmt::format("{} {} full ({} of {})", whose, percent(std::min(1.0, used / all)),
                                   format::bytes(used), format::bytes(all)),
                       ""};
    if (f_.rank)
      result.first += fmt::format("; of its ranks, rank {} held most, {} at its peak", rank(),
                                  format::bytes(e_.number(Key::kRankRss)));
    result.first += ".";
    return result;
  }
};

}  // namespace

std::optional<FindingText> machine_text(const Finding& finding, const format::ShortPaths& names) {
  return MachineSentences(finding, names).text();
}

}  // namespace clusterprof::report::words
