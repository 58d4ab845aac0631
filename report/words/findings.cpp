// SPDX-License-Identifier: BSD-3-Clause
// The only place where findings become sentences: what was found, how large it is, and what to try.
#include "report/words/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "report/words/phrases.hpp"

namespace clusterprof::report::words {
namespace {

using text::percent;
using text::seconds;
using Key = EvidenceKey;
using Kind = FindingKind;

// The first sentence, and what follows it. Each ends in a full stop.
struct FindingText {
  std::string first, more;
};

class FindingWriter {
 public:
  FindingWriter(const Finding& finding, const text::ShortPaths& names)
      : f_(finding), e_(finding.evidence), names_(names) {}

  [[nodiscard]] FindingText text() const {
    switch (f_.kind) {
      case Kind::kRankFailed:
        return {rank_failed(), ""};
      case Kind::kLauncherGone:
        return launcher_gone();
      case Kind::kRanksEndedAfter:
        return ended_after();
      case Kind::kRanksUnfinished:
        return {fmt::format("{} ended without MPI_Finalize{}.", who(), last_seen("; rank {} was last seen")),
                ""};
      case Kind::kRanksLost:
        return {fmt::format("{} vanished without an exit status (SIGKILL, out of memory, node failure?){}.",
                            who(), last_seen("; rank {} was last seen")),
                ""};
      case Kind::kRanksMissing:
        return {fmt::format("{} of {} ranks are not in this profile: {}.", whole(Key::kMissingRanks),
                            whole(Key::kWorldSize), missing()),
                ""};
      case Kind::kWaitingForProcessor:
        return waiting_for_processor();
      case Kind::kDelay:
        return delay();
      case Kind::kDelayPassedOn:
        return {fmt::format("Passed on: {} made {} wait {} in {}; that rank was itself waiting there.",
                            culprit(rank(), f_.place, names_), who_waited(e_), time(Key::kWait),
                            text::describe(site(), names_)),
                ""};
      case Kind::kLoadImbalance:
        return imbalance();
      case Kind::kSerialization:
        return {fmt::format(
                    "Serialization costs {} of the run: even on an ideal network it would take {}, because "
                    "ranks wait for each other in turn or start late, while none works longer than {} "
                    "outside MPI.",
                    share(), time(Key::kIdeal), time(Key::kMaxUseful)),
                ""};
      case Kind::kTransfer:
        return {
            fmt::format("Transfer costs {} of the run: on an ideal network it would take {} instead of {}{}.",
                        share(), time(Key::kIdeal), time(Key::kElapsed),
                        most_in(" of all ranks without waiting")),
            ""};
      case Kind::kMutualWaiting:
        return {
            fmt::format("Ranks wait for each other for {} of all rank time, with no single rank or function "
                        "to blame{}.",
                        share(), most_in()),
            ""};
      case Kind::kMpiBesidesWaiting:
        return {fmt::format("MPI takes {} of all rank time besides waiting{}.", share(), most_in()), ""};
      case Kind::kMpiTime:
        return {
            fmt::format("MPI takes {} of all rank time{}{}.", percent(e_.number(Key::kMpiShare)),
                        e_.has(Key::kImbalanceShare) ? fmt::format(" ({} explained by load imbalance)",
                                                                   percent(e_.number(Key::kImbalanceShare)))
                                                     : "",
                        most_in()),
            ""};
      case Kind::kMpiFileIo:
        return {
            fmt::format("MPI's file calls take {} of all rank time{}.", share(), most_in(" of all ranks")),
            ""};
      case Kind::kGilWait:
        return {fmt::format("Threads wait for Python's global lock (GIL) for {} of their time{}.", share(),
                            of_it_in()),
                "Only one thread of a process runs Python at a time."};
      case Kind::kPythonBytecode:
        return of_rank_time("The Python interpreter runs bytecode for");
      case Kind::kPythonGarbage:
        return of_rank_time("Python's garbage collection takes");
      case Kind::kMemoryBound:
        return memory_bound();
      case Kind::kMemoryPages:
        return of_rank_time("Memory pages (page faults and mapping) take", page_parts());
      case Kind::kFileIo:
        return file_io();
      case Kind::kRankIo:
        return {fmt::format("{}{}.", who_calls(), comma_place()), ""};
      case Kind::kSmallIo:
        return {fmt::format("Small {}s: {} of {} on average take {} of all rank time{}.", e_.name(Key::kCall),
                            io_calls(e_), text::bytes(e_.number(Key::kMeanBytes)), share(), comma_place()),
                ""};
      case Kind::kWaitsForData:
        return of_rank_time("Ranks are blocked on pipes, sockets or other processes for");
      case Kind::kBlocked:
        return blocked();
      case Kind::kSystemCalls:
        return of_rank_time(f_.action == FindingAction::kNone
                                ? "The kernel (system calls other than I/O, page faults) takes"
                                : "System calls other than I/O and mapping take");
      case Kind::kSharedProcessors:
        return shared_processors();
      case Kind::kTooManyThreads:
        return {fmt::format(
                    "{} of {} {} too many threads: {} on {} that are busy {}, and each rank is switched out "
                    "{}/s.",
                    who(), nodes(), f_.ranks.size() == 1 ? "has" : "have",
                    text::plural(static_cast<std::size_t>(whole(Key::kThreads)), "thread"),
                    text::plural(e_.list(Key::kProcessors).size(), "processor"),
                    percent(e_.number(Key::kBusy)), count(Key::kSwitchedOut)),
                ""};
      case Kind::kBusyNode:
        return {fmt::format("The processors of {} are busy {}, with this job {}, and each of its ranks is "
                            "switched out {}/s.",
                            nodes(), percent(e_.number(Key::kBusy)), percent(e_.number(Key::kOwnBusy)),
                            count(Key::kSwitchedOut)),
                ""};
      case Kind::kAcrossMemoryNodes:
        return {
            fmt::format("{} of {} {} bound to processors of several memory nodes, although one has enough.",
                        who(), nodes(), f_.ranks.size() == 1 ? "is" : "are"),
            ""};
      case Kind::kFullMemory:
        return full_memory();
      case Kind::kPagesFromDisk:
        return {
            fmt::format("{} waited for pages from disk, of swapped out memory or mapped files: rank {} {} "
                        "times, {}/s.",
                        who(), rank(), count(Key::kMajorFaults), count(Key::kMajorFaultsPerSecond)),
            ""};
      case Kind::kSamplesLost:
        return {fmt::format("{} lost: shares of functions may be off by as much.", lost("sample")), ""};
      case Kind::kThreadsNotSampled:
        return {fmt::format("{} not sampled: their time is in no function.", lost("thread")), ""};
      case Kind::kIoNotCounted:
        return {
            fmt::format("{} counted without their line, some without their file: the lines in the I/O tables "
                        "show too little.",
                        lost("I/O operation")),
            ""};
      case Kind::kMpiPathsLost:
        return {
            fmt::format("{} counted without the call path: the time is there, its call site is not known.",
                        lost("MPI call")),
            ""};
      case Kind::kMpiPeersLost:
        return {fmt::format("{} not in the matrix of who sends to whom.", lost("message")), ""};
      case Kind::kMpiEventsLost:
        return {fmt::format("{} left out of the analysis of waiting: there was more waiting than it shows.",
                            lost("MPI event")),
                ""};
      case Kind::kRegionsLost:
        return {fmt::format("{} counted in the region around them.", lost("region instance")), ""};
      case Kind::kThrottled:
        return {
            fmt::format("{} of the samples were left out so as not to slow the program down (throttled): a "
                        "lower rate shows as much.",
                        share()),
            ""};
      case Kind::kCallPathsCut:
        return {fmt::format("The call path of {} of the samples is cut short.", share()), ""};
      case Kind::kFramesNotJoined:
        return {fmt::format("Python and native frames could not be joined in {} of the samples.", share()),
                ""};
      case Kind::kNoSamples:
        return {e_.number(Key::kCalls) == 0
                    ? "There are no samples: functions, lines and categories are not known."
                    : "There are no samples: outside MPI, functions, lines and categories are not known.",
                ""};
      case Kind::kWaitsSampled:
        return {
            fmt::format("There were too many MPI operations to keep all of them: waiting is computed from a "
                        "sample of about one in {} and scaled.",
                        count(Key::kOneIn)),
            ""};
      case Kind::kUnmatched:
        return {fmt::format(
                    "For {} of the {} the other side is not known: waiting in them is not counted.", share(),
                    e_.number(Key::kMessages) >= e_.number(Key::kCollectives) ? "messages"
                                                                              : "collective operations"),
                ""};
      case Kind::kClocks:
        return clocks();
    }
    return {};
  }

  // What communication and imbalance are made of besides what their names say.
  [[nodiscard]] std::string other_causes() const {
    std::string out;
    if (e_.has(Key::kWaitsForProcessor))
      out = "This includes waiting for a processor, as the finding on processors says.";
    if (e_.has(Key::kRanksMissing)) {
      if (!out.empty()) out += ' ';
      out += fmt::format("What {} did is not known.",
                         text::plural(static_cast<std::size_t>(whole(Key::kRanksMissing)), "missing rank"));
    }
    return out;
  }

 private:
  // A damaged file may lack what the kind has.
  [[nodiscard]] std::int32_t rank() const { return f_.rank.value_or(-1); }
  [[nodiscard]] SourceLocation site() const { return f_.site.value_or(SourceLocation()); }
  [[nodiscard]] std::string share() const { return percent(f_.share.value_or(0)); }
  [[nodiscard]] std::string time(Key key) const { return seconds(e_.number(key)); }
  [[nodiscard]] std::string count(Key key) const { return text::count(e_.number(key)); }
  [[nodiscard]] int whole(Key key) const { return static_cast<int>(e_.number(key)); }
  // "1.2 % of the samples (12 of 1000) were"
  [[nodiscard]] std::string lost(std::string_view what) const {
    return fmt::format("{} of the {}s ({} of {}) {}", share(), what, count(Key::kLost), count(Key::kOf),
                       e_.number(Key::kLost) == 1 ? "was" : "were");
  }
  // "node n0", "4 nodes, first n0"
  [[nodiscard]] std::string nodes() const {
    const int number = whole(Key::kNodes);
    return number > 1 ? fmt::format("{} nodes (most on {})", number, node()) : fmt::format("node {}", node());
  }
  [[nodiscard]] std::string node() const {
    return text::shorten_middle(text::printable(e_.name(Key::kNode)), 32);
  }
  [[nodiscard]] std::string who() const {
    return fmt::format("{} {}", f_.ranks.size() == 1 ? "Rank" : "Ranks", text::rank_list(f_.ranks));
  }

  // " in solve() a.c:4"; of several ranks which of them that was.
  [[nodiscard]] std::string last_seen(std::string_view of_several) const {
    const std::string where = name(f_.place, names_);
    const std::string which =
        f_.ranks.size() > 1 && f_.rank && !(where.empty() && f_.kind != Kind::kRankFailed)
            ? fmt::format(fmt::runtime(of_several), rank())
            : "";
    if (where.empty()) return which;
    return fmt::format("{} in {}", which, where);
  }
  [[nodiscard]] std::string ends() const {
    std::vector<std::string> how;
    for (const std::int32_t signal : e_.list(Key::kSignals)) how.push_back(text::signal_name(signal));
    for (const std::int32_t status : e_.list(Key::kStatuses)) how.push_back(fmt::format("status {}", status));
    return fmt::format("{}", fmt::join(how, ", "));
  }
  [[nodiscard]] FindingText launcher_gone() const {
    const std::string launcher = e_.has(Key::kLauncher) && !e_.name(Key::kLauncher).empty()
                                     ? text::shorten_middle(text::printable(e_.name(Key::kLauncher)), 32)
                                     : "The MPI launcher";
    const std::string how = ends();
    return {
        fmt::format("{} ended {} into the run, while the program was running: therefore {} ended{}{}.",
                    launcher, time(Key::kElapsed),
                    fmt::format("{} {}", f_.ranks.size() == 1 ? "rank" : "ranks", text::rank_list(f_.ranks)),
                    how.empty() ? "" : " (" + how + ")", last_seen("; rank {} was last seen")),
        "Find out what ended it: a kill, a time limit, a lost login."};
  }
  // A signal comes where the rank was seen last. A program that exits does so after its last sample, as a
  // rule: an exception may have come from elsewhere.
  [[nodiscard]] std::string rank_failed() const {
    if (e_.has(Key::kSignal))
      return fmt::format("{} ended by {}{}.", who(), text::signal_name(whole(Key::kSignal)),
                         last_seen(", rank {} first"));
    const std::string first = f_.ranks.size() > 1 && f_.rank ? fmt::format(", rank {} first", rank()) : "";
    const std::string where = name(f_.place, names_);
    return fmt::format("{} exited with status {}{}{}.", who(), whole(Key::kStatus), first,
                       where.empty() ? "" : "; last sampled in " + where);
  }
  [[nodiscard]] FindingText ended_after() const {
    const std::string list = ends();
    if (!e_.has(Key::kCauseRank))
      return {fmt::format("{} {} ended by {}{}.", who(), f_.ranks.size() == 1 ? "was" : "were", list,
                          last_seen("; rank {} was last seen")),
              ""};
    return {fmt::format("{} ended after rank {} had failed: {}.", who(), whole(Key::kCauseRank), list), ""};
  }
  [[nodiscard]] std::string missing() const {
    RunInfo run;
    run.missing_ranks = f_.ranks;
    run.missing = static_cast<std::size_t>(e_.number(Key::kMissingRanks));
    return text::missing_ranks(run);
  }

  [[nodiscard]] FindingText waiting_for_processor() const {
    std::string first = fmt::format("Ranks wait for a processor: {} of all rank time", share());
    if (e_.has(Key::kReadyThreads))
      first += fmt::format("; on node {} an average of {:.1f} threads run or are ready to, on {}", node(),
                           e_.number(Key::kReadyThreads),
                           text::plural(e_.list(Key::kProcessors).size(), "processor"));
    return {first + ".", e_.number(Key::kMpiRunnable) > 0
                             ? fmt::format("{} of it is outside MPI, {} inside.", time(Key::kRunnable),
                                           time(Key::kMpiRunnable))
                             : ""};
  }

  [[nodiscard]] FindingText shared_processors() const {
    const std::vector<std::int32_t> processors = e_.list(Key::kProcessors);
    const bool several = whole(Key::kNodes) > 1;
    return {fmt::format("{} share {}of {}: each can run for at most {} of its time.", who(),
                        several ? "processors "
                                : fmt::format("{} {} ", processors.size() == 1 ? "processor" : "processors",
                                              text::rank_list(processors)),
                        nodes(), percent(e_.number(Key::kRunShare))),
            fmt::format("They use {} of the processors' time, and each is switched out {}/s.",
                        percent(e_.number(Key::kBusy)), count(Key::kSwitchedOut))};
  }

  [[nodiscard]] FindingText delay() const {
    const bool several = f_.ranks.size() > 1;
    std::string late = culprit(rank(), f_.place, names_);
    if (several && late.ends_with(',')) late.pop_back();  // "waiting for a processor,"
    if (several) late += fmt::format(", and {} there,", text::plural(f_.ranks.size() - 1, "other rank"));
    FindingText result{fmt::format("Delay: {} made {} wait {}", late, who_waited(e_), time(Key::kWait)), ""};
    if (several) result.first += fmt::format(", rank {} for {} of it", rank(), time(Key::kRankWait));
    if (f_.site) {
      const bool all = e_.number(Key::kSiteWait) >= (1 - thresholds::kBlame / 5) * e_.number(Key::kWait);
      result.first += fmt::format("{} in {}", all ? "" : fmt::format(", {} of it", time(Key::kSiteWait)),
                                  text::describe(site(), names_));
    }
    result.first += ".";
    if (e_.has(Key::kMaxUseful))
      result.more = several ? fmt::format("One of them works {} outside MPI, the mean rank {}.",
                                          time(Key::kMaxUseful), time(Key::kMeanUseful))
                            : fmt::format("Outside MPI it works {}, the mean rank {}.", time(Key::kMaxUseful),
                                          time(Key::kMeanUseful));
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

  // "; most in MPI_Allreduce <- step() train.py:88 (15.3 s)"
  [[nodiscard]] std::string most_in(std::string_view remark = {}) const {
    if (f_.place.op.empty()) return {};
    return fmt::format("; most in {} ({}{})", text::describe(f_.place, names_), time(Key::kPlaceTime),
                       remark);
  }
  // "; 80.0 % of it in compute() train.py:57"
  [[nodiscard]] std::string of_it_in() const {
    if (!e_.has(Key::kPlaceShare)) return {};
    return fmt::format("; {} of it in {}", percent(e_.number(Key::kPlaceShare)), name(f_.place, names_));
  }
  [[nodiscard]] std::string comma_place() const {
    const std::string place = name(f_.place, names_);
    return place.empty() ? "" : ", " + place;
  }
  [[nodiscard]] FindingText of_rank_time(std::string_view verb, std::string_view remark = {}) const {
    return {fmt::format("{} {} of all rank time{}{}.", verb, share(), remark, of_it_in()), ""};
  }

  [[nodiscard]] FindingText memory_bound() const {
    const std::string place = name(f_.place, names_);
    if (f_.is_estimate)
      return {fmt::format(
                  "Memory may limit {} of all rank time (estimate): {}{} touches {}.", share(),
                  place.empty() ? "most of it" : place,
                  e_.has(Key::kPlaceShare) ? fmt::format(" ({})", percent(e_.number(Key::kPlaceShare))) : "",
                  memory_use(e_)),
              "Code that reuses what it has fetched runs at full speed all the same; hardware counters tell "
              "(-e PAPI_L3_TCM)."};
    return {fmt::format(
                "Memory limits {} of all rank time: {}{} computes on {}.", share(),
                place.empty() ? "most of it" : place,
                e_.has(Key::kPlaceShare) ? fmt::format(" ({})", percent(e_.number(Key::kPlaceShare))) : "",
                memory_use(e_)),
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

  // "Rank 0 spends 34.0 % of its time in 12000 fsync calls on out.dat"
  [[nodiscard]] std::string who_calls() const {
    return fmt::format("Rank {} spends {} of its time in {}{}", rank(), percent(e_.number(Key::kRankShare)),
                       io_calls(e_),
                       e_.has(Key::kSampledShare) ? " (timed: samples miss part of such short waits)" : "");
  }
  [[nodiscard]] FindingText file_io() const {
    FindingText result = of_rank_time("Calls on files take");
    if (e_.has(Key::kRankShare))
      result.more = fmt::format("{}{}.", who_calls(), e_.has(Key::kPlaceShare) ? "" : comma_place());
    return result;
  }

  [[nodiscard]] FindingText blocked() const {
    const std::string kinds = idle_kinds(e_, false);
    return of_rank_time(e_.has(Key::kGil) ? "Apart from MPI, I/O and the GIL, ranks are blocked for"
                                          : "Ranks are blocked outside MPI and I/O for",
                        kinds.empty() ? "" : fmt::format(" ({})", kinds));
  }

  [[nodiscard]] FindingText full_memory() const {
    const double used = e_.number(Key::kMemoryUsed), all = e_.number(Key::kMemory);
    FindingText result{fmt::format("The memory of node {} was {} full ({} of {})", node(),
                                   percent(std::min(1.0, used / all)), text::bytes(used), text::bytes(all)),
                       ""};
    if (f_.rank)
      result.first += fmt::format("; of its ranks, rank {} held most, {} at its peak", rank(),
                                  text::bytes(e_.number(Key::kRankRss)));
    result.first += ".";
    return result;
  }

  [[nodiscard]] FindingText clocks() const {
    std::vector<std::string> parts;
    if (e_.has(Key::kViolations))
      parts.push_back(fmt::format(
          "{} seem to be received before they were sent, by at most {}: waiting may be wrong by that.",
          text::plural(static_cast<std::size_t>(e_.number(Key::kViolations)), "message"),
          time(Key::kWorstViolation)));
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

  const Finding& f_;
  const Evidence& e_;
  const text::ShortPaths& names_;
};

void append(std::string& to, std::string_view sentence) {
  if (sentence.empty()) return;
  if (!to.empty()) to += ' ';
  to += sentence;
}

}  // namespace

std::string_view advice(FindingAction action) {
  switch (action) {
    case FindingAction::kNone:
      return "";
    case FindingAction::kBalanceWork:
      return "Give the ranks equal work.";
    case FindingAction::kFillWaiting:
      return "Let ranks do something else while they wait for their turn.";
    case FindingAction::kFewerMessages:
      return "Send fewer and larger messages, or overlap them with computing.";
    case FindingAction::kCompileLoop:
      return "Move the loop to NumPy or compiled code.";
    case FindingAction::kFewerObjects:
      return "Make fewer objects that refer to each other, or collect less often (gc.freeze).";
    case FindingAction::kUseProcesses:
      return "Use processes, or code that releases the GIL.";
    case FindingAction::kFewerIo:
      return "Read and write less often, in larger pieces.";
    case FindingAction::kFewerSyncs:
      return "Call fsync less often, once for many writes.";
    case FindingAction::kBufferIo:
      return "Buffer them.";
    case FindingAction::kBlockForCache:
      return "Work on blocks that fit into the cache, or on smaller types.";
    case FindingAction::kReuseMemory:
      return "Reuse memory instead of freeing it, or use huge pages.";
    case FindingAction::kFewerSystemCalls:
      return "Make fewer system calls.";
    case FindingAction::kReplaceSleep:
      return "Wait for the event itself instead of sleeping.";
    case FindingAction::kHoldLockLess:
      return "Hold the lock for a shorter time, or split what it protects.";
    case FindingAction::kWorkWhilePolling:
      return "Do other work until the data arrive.";
    case FindingAction::kWorkWhileThreadsDo:
      return "Work in this thread too, or give the threads that it waits for equal work.";
    case FindingAction::kStartChildrenEarlier:
      return "Start child processes earlier, or work while they do.";
    case FindingAction::kFindWhatIsAwaited:
      return "Find out what they wait for.";
    case FindingAction::kFewerRanks:
      return "Start fewer ranks per node, or bind each to processors of its own.";
    case FindingAction::kFewerThreads:
      return "Start fewer threads (OMP_NUM_THREADS), or give each rank more processors.";
    case FindingAction::kFreeNode:
      return "Leave the node to one job, or processors to its other work.";
    case FindingAction::kBindToMemoryNode:
      return "Bind each rank within one memory node (--bind-to numa).";
    case FindingAction::kSpreadData:
      return "Start fewer ranks per node, or spread the data over more nodes.";
    case FindingAction::kUseLessMemory:
      return "Use less memory per node, or read files instead of mapping them.";
    case FindingAction::kLowerRate:
      return "";  // the sentence says it
    case FindingAction::kFewerFiles:
      return "Open fewer files, and each of them once; keep many small ones in one container (HDF5, tar).";
    case FindingAction::kCollectiveIo:
      return "Use collective calls (MPI_File_write_all) on larger pieces, or let fewer ranks read and write.";
    case FindingAction::kGiveProcessors:
      return "Give each rank a processor of its own.";
  }
  return "";
}

std::string sentences(const Finding& finding, const text::ShortPaths& names) {
  const FindingText result = FindingWriter(finding, names).text();
  std::string out = result.first;
  append(out, result.more);
  for (const JoinedFinding& joined : finding.joined) {
    Finding other;
    other.kind = joined.kind, other.share = joined.share, other.rank = joined.rank;
    other.place = joined.place, other.evidence = joined.evidence, other.action = joined.action;
    const FindingText also = FindingWriter(other, names).text();
    append(out, also.first);
    append(out, also.more);
  }
  append(out, FindingWriter(finding, names).other_causes());
  append(out, advice(finding.action));
  return out;
}

std::string gain(const Finding& finding) {
  return finding.gain_s ? fmt::format("To gain: at most {}.", seconds(*finding.gain_s)) : "";
}

std::string headline(const Finding& finding, const text::ShortPaths& names) {
  std::string first = FindingWriter(finding, names).text().first;
  if (first.ends_with('.')) first.pop_back();
  return first;
}

}  // namespace clusterprof::report::words
