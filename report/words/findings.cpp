// SPDX-License-Identifier: BSD-3-Clause
// The only place where findings become sentences: what was found, how large it is, and what to try. The
// sentences of each subject are in a file of its own (finding_phrases.hpp).
#include "report/words/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/words/finding_phrases.hpp"

namespace clusterprof::report::words {
namespace {

using Key = EvidenceKey;

FindingText text_of(const Finding& finding, const format::ShortPaths& names) {
  for (MakeFindingText* const make :
       {failure_text, mpi_text, computing_text, openmp_text, machine_text, memory_text, measurement_text})
    if (std::optional<FindingText> text = make(finding, names)) return *std::move(text);
  return {};
}

// What communication and imbalance are made of besides what their names say.
std::string other_causes(const Evidence& evidence) {
  std::string out;
  if (evidence.has(Key::kWaitsForProcessor))
    out = "This includes waiting for a processor, as the finding on processors says.";
  if (evidence.has(Key::kRanksMissing)) {
    if (!out.empty()) out += ' ';
    out += fmt::format(
        "What {} did is not known.",
        format::plural(static_cast<std::size_t>(evidence.number(Key::kRanksMissing)), "missing rank"));
  }
  return out;
}

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
    case FindingAction::kLeaveTheLoop:
      return "Run it in a thread or process (asyncio.to_thread, run_in_executor), or in shorter steps.";
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
    case FindingAction::kFewerProcesses:
      return "Start fewer worker processes, or give each rank more processors.";
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
    case FindingAction::kPackLibraries:
      return "Keep the packages on a disk of the node, or in one file (a container image, squashfs), so that "
             "not "
             "every rank asks the shared file system for thousands of them.";
    case FindingAction::kImportLess:
      return "Import only what is needed, or only where it is used (python -X importtime lists modules).";
    case FindingAction::kGiveProcessors:
      return "Give each rank a processor of its own.";
    case FindingAction::kFreeWhatIsHeld:
      return "Free it when it is no longer needed, or bound what is kept.";
    case FindingAction::kTrimAllocator:
      return "Give it back with malloc_trim(0) after large phases, or use jemalloc or mimalloc.";
    case FindingAction::kUseArrays:
      return "An array (numpy, array.array) takes 8 bytes for each.";
    case FindingAction::kRequestLess:
      return "Ask for less, and jobs start earlier.";
    case FindingAction::kFasterInput:
      return "Make that code faster, start it earlier (prefetch), or use more workers if processors are "
             "free.";
    case FindingAction::kBalanceThreads:
      return "Give the threads equal work, in more and smaller parts.";
    case FindingAction::kDynamicSchedule:
      return "Let threads that are done take the next part (schedule(dynamic) or schedule(guided)).";
    case FindingAction::kCyclicSchedule:
      return "Deal out the iterations in turn (schedule(static, 1)), or to threads that are done "
             "(schedule(guided)).";
    case FindingAction::kSmallerChunks:
      return "Use smaller chunks.";
    case FindingAction::kOtherChunks:
      return "Use smaller chunks, and where an iteration is much longer than others, divide its work.";
    case FindingAction::kScheduleOrChunks:
      return "If threads get their parts beforehand, let those that are done take the next one "
             "(schedule(dynamic)); "
             "if they do already, use smaller chunks.";
    case FindingAction::kLargerRegions:
      return "Make one region of several, or use one thread for so little work (an if clause).";
    case FindingAction::kReducePerThread:
      return "Let each thread keep a result of its own (reduction), and put them together once.";
    case FindingAction::kWaitLess:
      return "Let the others go on (nowait), or give them other work.";
    case FindingAction::kMoreInRegions:
      return "Move that work into parallel regions.";
    case FindingAction::kBindWider:
      return "Give each rank as many processors as it has threads (mpirun --map-by slot:PE=N, srun -c N; "
             "OMP_PROC_BIND).";
    case FindingAction::kSmallerPool:
      return "Or give each rank more processors.";  // the sentence has the size
  }
  return "";
}

std::string sentences(const Finding& finding, const format::ShortPaths& names) {
  const FindingText result = text_of(finding, names);
  std::string out = result.first;
  append(out, result.more);
  for (const JoinedFinding& joined : finding.joined) {
    Finding other;
    other.kind = joined.kind, other.share = joined.share, other.rank = joined.rank;
    other.place = joined.place, other.evidence = joined.evidence, other.action = joined.action;
    const FindingText also = text_of(other, names);
    append(out, also.first);
    append(out, also.more);
  }
  append(out, other_causes(finding.evidence));
  // The sentences have said to how many.
  const bool says_number = finding.evidence.has(Key::kAdvisedSize) ||
                           std::ranges::any_of(finding.joined, [](const JoinedFinding& joined) {
                             return joined.evidence.has(Key::kAdvisedSize);
                           });
  append(out,
         advice(finding.action == FindingAction::kFewerThreads && says_number ? FindingAction::kSmallerPool
                                                                              : finding.action));
  return out;
}

std::string gain(const Finding& finding) {
  if (!finding.gain_s) return "";
  if (finding.gain_error_s)
    return fmt::format("To gain: {} +/- {}{} (predicted by replay: {}).", format::seconds(*finding.gain_s),
                       format::seconds(*finding.gain_error_s),
                       *finding.gain_s > *finding.gain_error_s ? "" : ", which may be nothing",
                       format::printable(finding.change));
  return fmt::format("To gain: at most {} (estimated from sums).", format::seconds(*finding.gain_s));
}

std::string headline(const Finding& finding, const format::ShortPaths& names) {
  std::string first = text_of(finding, names).first;
  if (first.ends_with('.')) first.pop_back();
  return first;
}

}  // namespace clusterprof::report::words
