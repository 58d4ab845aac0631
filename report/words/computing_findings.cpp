// SPDX-License-Identifier: BSD-3-Clause
// Sentences about what ranks do outside MPI: Python, memory, files and other waits.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/words/finding_phrases.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::words {
namespace {

using format::percent;

class ComputingSentences : private FindingPhrases {
 public:
  using FindingPhrases::FindingPhrases;

  [[nodiscard]] std::optional<FindingText> text() const {
    switch (f_.kind) {
      case Kind::kGilWait:
        return FindingText{fmt::format("Threads wait for Python's global lock (GIL) for {} of their time{}.",
                                       share(), of_it_in()),
                           "Only one thread of a process runs Python at a time."};
      case Kind::kPythonBytecode:
        return of_rank_time("The Python interpreter runs bytecode for");
      case Kind::kPythonGarbage:
        return of_rank_time("Python's garbage collection takes");
      case Kind::kImports:
        return imports();
      case Kind::kMemoryBound:
        return memory_bound();
      case Kind::kMemoryPages:
        return memory_pages();
      case Kind::kFileIo:
        return file_io();
      case Kind::kRankIo:
        return FindingText{fmt::format("{}{}.", who_calls(), comma_place()), ""};
      case Kind::kSmallIo:
        return FindingText{fmt::format("Small {}s: {}, with {} each on average, take {} of all rank time{}.",
                                       e_.name(Key::kCall), io_calls(e_),
                                       format::bytes(e_.number(Key::kMeanBytes)), share(), comma_place()),
                           ""};
      case Kind::kWaitsForData:
        return with_children(of_rank_time("Ranks are blocked on pipes, sockets or other processes for"));
      case Kind::kInputBound:
        return input_bound();
      case Kind::kBlocked:
        return blocked();
      case Kind::kEventLoopBlocked:
        return event_loop_blocked();
      case Kind::kSystemCalls:
        return of_rank_time(f_.action == FindingAction::kNone
                                ? "The kernel (system calls other than I/O, page faults) takes"
                                : "System calls other than I/O and mapping take");
      default:
        return {};
    }
  }

 private:
  [[nodiscard]] FindingText imports() const {
    std::string most;
    if (e_.has(Key::kPackage)) {
      const std::string place = name(f_.place, names_);
      most = fmt::format("; {} of it for {}{}{}", percent(e_.number(Key::kPlaceShare)),
                         format::printable(e_.name(Key::kPackage)), place.empty() ? "" : ", imported in ",
                         place);
    }
    return {fmt::format("Importing Python packages takes {} of all rank time, {} per rank on average{}.",
                        share(), time(Key::kRankMean), most),
            fmt::format("Looking for their files and reading them is {} of it.",
                        percent(e_.number(Key::kReadingShare)))};
  }

  [[nodiscard]] FindingText memory_bound() const {
    const std::string place = name(f_.place, names_);
    if (f_.is_estimate)
      return {
          fmt::format(
              "Memory may limit {} of all rank time (estimate): {}{} touches {}.", share(),
              place.empty() ? "most of it" : place,
              e_.has(Key::kPlaceShare) ? fmt::format(" ({})", percent(e_.number(Key::kPlaceShare))) : "",
              memory_use(e_)),
          "Code that reuses the data it has loaded may still run at full speed; hardware counters can tell "
          "(-e PAPI_L3_TCM)."};
    return {
        fmt::format(
            "Memory limits {} of all rank time: {}{} {} {}.", share(), place.empty() ? "most of it" : place,
            e_.has(Key::kPlaceShare) ? fmt::format(" ({})", percent(e_.number(Key::kPlaceShare))) : "",
            e_.has(Key::kBandwidth) ? "has" : "works on", memory_use(e_)),
        ""};
  }

  [[nodiscard]] std::string page_parts() const {
    std::string parts;
    const auto part = [&](std::string_view what, Key key) {
      if (e_.has(key))
        parts += fmt::format("{}{} {}", parts.empty() ? ": " : ", ", what, percent(e_.number(key)));
    };
    part("page faults", Key::kPageFaultShare);
    part("mapping and unmapping (mmap, munmap, brk)", Key::kMappingShare);
    if (e_.has(Key::kFaultsPerSecond))
      parts += fmt::format("; {} faults/s per rank", count(Key::kFaultsPerSecond));
    return parts;
  }

  [[nodiscard]] FindingText memory_pages() const {
    FindingText result = of_rank_time("Page faults and memory mapping take", page_parts());
    if (e_.has(Key::kFreedSoon))
      result.more += fmt::format("{}{} that {} allocated were freed at once.", result.more.empty() ? "" : " ",
                                 format::bytes(e_.number(Key::kFreedSoon)), name(site(), names_));
    return result;
  }

  // "Rank 0 spends 34.0 % of its time in 12000 fsync calls on out.dat"
  [[nodiscard]] std::string who_calls() const {
    return fmt::format("Rank {} spends {} of its time in {}{}", rank(), percent(e_.number(Key::kRankShare)),
                       io_calls(e_),
                       e_.has(Key::kSampledShare) ? " (timed: samples miss part of such short waits)" : "");
  }

  [[nodiscard]] FindingText file_io() const {
    FindingText result = of_rank_time("File I/O takes");
    if (e_.has(Key::kRankShare))
      result.more = fmt::format("{}{}.", who_calls(), e_.has(Key::kPlaceShare) ? "" : comma_place());
    return result;
  }

  // "An event loop of rank 0 was blocked for 1.20 s (12.0 % of its time) while others waited for it; 1.20 s
  // of that was json.loads <- handle() app.py:40."
  [[nodiscard]] FindingText event_loop_blocked() const {
    const std::string place = name(f_.place, names_);
    return {fmt::format(
                "An event loop of rank {} was blocked for {} ({} of its time) while others waited for it{}.",
                rank(), time(Key::kTime), share(),
                place.empty() ? "" : fmt::format("; {} of that was {}", time(Key::kPlaceTime), place)),
            whole(Key::kTurns) == 1 ? "That was in one turn."
                                    : fmt::format("The longest of its {} blocked turns took {}.",
                                                  count(Key::kTurns), time(Key::kLongest))};
  }

  [[nodiscard]] FindingText blocked() const {
    const std::string kinds = idle_kinds(e_, false);
    FindingText text = with_children(
        of_rank_time(e_.has(Key::kGil) ? "Apart from MPI, I/O and the GIL, ranks are blocked for"
                                       : "Ranks are blocked outside MPI and I/O for",
                     kinds.empty() ? "" : fmt::format(" ({})", kinds)));
    if (e_.has(Key::kThreadsRan))
      text.more += fmt::format(
          "{}Meanwhile their other threads and processes ran for {} and waited {} for a free processor.",
          text.more.empty() ? "" : " ", time(Key::kThreadsRan), time(Key::kThreadsReady));
    return text;
  }

  // "Input-bound: rank 0 waits 45 % of its time at train() train.py:31 for 4 worker processes, which are
  // mostly in __getitem__() data.py:12."
  [[nodiscard]] FindingText input_bound() const {
    const std::string place = name(f_.place, names_);
    const bool known = e_.has(Key::kWorkers);
    const bool one = known && e_.number(Key::kWorkers) == 1;
    const bool threads = e_.name(Key::kWorkerKind) == "threads";
    const std::string workers =
        fmt::format("{}worker {}", one ? "a " : (known ? count(Key::kWorkers) + " " : ""),
                    one ? (threads ? "thread" : "process") : (threads ? "threads" : "processes"));
    const bool alone = f_.ranks.size() == 1;
    const std::string who = alone ? fmt::format("rank {} waits {} of its time", rank(), share())
                                  : fmt::format("ranks wait {} of their time", share());
    return {fmt::format("Input-bound: {}{} for {}, which {} mostly in {}.", who,
                        place.empty() ? "" : fmt::format(" at {}", place), workers, one ? "is" : "are",
                        name(site(), names_)),
            fmt::format("The workers are busy for {} of their time.", percent(e_.number(Key::kWorkersBusy)))};
  }

  // "The lock is mostly held in load() data.py:12."
  [[nodiscard]] FindingText with_holder(FindingText text) const {
    if (f_.action != FindingAction::kHoldLockLess || !f_.site) return text;
    text.more +=
        fmt::format("{}The lock is mostly held in {}.", text.more.empty() ? "" : " ", name(*f_.site, names_));
    return text;
  }

  // "They wait for 8 child processes (worker), which are mostly in work() pool.py:12."
  [[nodiscard]] FindingText with_children(FindingText text) const {
    if (!e_.has(Key::kChildren)) return with_holder(std::move(text));
    const bool one = e_.number(Key::kChildren) == 1;
    std::string who =
        one ? "a child process" : fmt::format("{:.0f} child processes", e_.number(Key::kChildren));
    if (e_.has(Key::kProgram)) who += fmt::format(" ({})", format::printable(e_.name(Key::kProgram)));
    const std::string sentence = f_.site ? fmt::format("They wait for {}, which {} mostly in {}.", who,
                                                       one ? "is" : "are", name(*f_.site, names_))
                                         : fmt::format("They wait for {}.", who);
    text.more += text.more.empty() ? sentence : " " + sentence;
    return text;
  }
};

}  // namespace

std::optional<FindingText> computing_text(const Finding& finding, const format::ShortPaths& names) {
  return ComputingSentences(finding, names).text();
}

}  // namespace clusterprof::report::words
