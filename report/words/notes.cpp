// SPDX-License-Identifier: BSD-3-Clause
// The only place where notes of shards and merges (formats/shard/note.hpp) become sentences.
#include "report/words/notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "report/format/numbers.hpp"
#include "report/words/phrases.hpp"
#include "report/words/unrecorded.hpp"

namespace clusterprof::report::words {
namespace {

using shard::NoteCode;

constexpr std::size_t kMaxNodesNamed = 4;

// "node n1", "nodes n1, n2 and 3 more"
std::string nodes_of(const NoteRecord& note) {
  if (note.nodes.empty()) return "a node";
  std::string names;
  const std::size_t named = std::min(note.nodes.size(), kMaxNodesNamed);
  for (std::size_t i = 0; i < named; ++i) names += (i == 0 ? "" : ", ") + note.nodes[i];
  return fmt::format("{} {}{}", note.node_count == 1 ? "node" : "nodes", names,
                     note.node_count > named ? fmt::format(" and {} more", note.node_count - named) : "");
}

// "Rank 3", "Ranks 0-3, 7"
std::string ranks_of(const NoteRecord& note, bool begins = true) {
  if (note.rank_count == 0) return begins ? "Some ranks" : "some ranks";
  const bool more = note.code == NoteCode::kMissingRanks && note.number > note.rank_count;
  return fmt::format("{}{} {}", begins ? "Rank" : "rank", note.rank_count == 1 ? "" : "s",
                     format::range_list(note.ranks, more));
}

std::string on(const NoteRecord& note, std::string_view what) {
  return fmt::format("On {}: {}", nodes_of(note), what);
}

std::string by_rank(const NoteRecord& note, std::string_view what) {
  return fmt::format("{}: {}", ranks_of(note), what);
}

std::string system_error(const NoteRecord& note) { return std::strerror(static_cast<int>(note.number)); }

// "Python 3.11", of a PY_VERSION_HEX
std::string python(const NoteRecord& note) {
  return fmt::format("Python {}.{}", note.number >> 24, note.number >> 16 & 0xff);
}

std::string no_frames(const NoteRecord& note, std::string_view why) {
  return fmt::format("{}: Python frames are missing: {}.", ranks_of(note), why);
}

std::string no_names(const NoteRecord& note, std::string_view why) {
  return fmt::format("Functions in {} have no names: {}.", note.text, why);
}

std::string spawned(const NoteRecord& note, std::string_view why) {
  return fmt::format("{}: processes that it spawned are not recorded: {}.", ranks_of(note), why);
}

std::string not_recorded(const NoteRecord& note, std::string_view why) {
  return on(note, fmt::format("process {} is not recorded: {}.", note.number, why));
}

// About the whole run.
std::optional<std::string> of_run(const NoteRecord& note) {
  const bool one_rank = note.rank_count == 1, one = note.number == 1;
  switch (note.code) {
    case NoteCode::kMissingRanks:
      return fmt::format(
          "{} missing: {}. Either {} never started, or the file of {} node (node-<host>.h5) was not written.",
          one ? "1 rank is" : fmt::format("{} ranks are", note.number), ranks_of(note, false),
          one ? "it" : "they", one ? "its" : "their");
    case NoteCode::kDamagedShard:
      return fmt::format("{} is damaged and was left out: nothing of its ranks is in this report.",
                         note.text);
    case NoteCode::kIncompleteShard:
      return fmt::format("{} is incomplete: ranks of its node were still running when it was last written.",
                         note.text);
    case NoteCode::kDifferentRuns:
      return "The files node-*.h5 of this directory belong to different runs.";
    case NoteCode::kRepeatedRanks:
      return fmt::format("{} recorded more than once; the most complete record was kept{}.",
                         ranks_of(note) + (one_rank ? " was" : " were"), one_rank ? "" : " of each");
    case NoteCode::kClocksDisagree:
      return "The nodes' clocks disagree, so the run's elapsed time is taken from its longest node.";
    case NoteCode::kClocksApart:
      return fmt::format(
          "The {} of {} {} could not be compared with the others': waiting between them is not known.",
          one ? "clock" : "clocks", note.number, one ? "node" : "nodes");
    case NoteCode::kWrongDate:
      return fmt::format(
          "The date of {} was {} off that of the other nodes: {} times are shown as if {} ranks had started "
          "when the others did.",
          nodes_of(note), format::seconds(static_cast<double>(note.number)),
          note.node_count == 1 ? "its" : "their", note.node_count == 1 ? "its" : "their");
    case NoteCode::kRanksWithoutEvents:
      return fmt::format("Waiting was analysed without {} {} no MPI events.", note.number,
                         one ? "rank that has" : "ranks that have");
    case NoteCode::kOnlySomeRanks:
      return fmt::format("Only some ranks were recorded, as --ranks asked: {}.", note.text);
    case NoteCode::kLauncherGone:
      return by_rank(note, fmt::format("{}, which had started them, ended while they were running.",
                                       note.text.empty() ? "the MPI launcher" : note.text));
    case NoteCode::kSnapshot:
      return fmt::format(
          "This is a snapshot that was made while the run was running (clusterprof snapshot), as of {}.",
          format::utc(static_cast<std::int64_t>(note.number) * 1'000'000'000));
    case NoteCode::kNoProgress:
      return fmt::format(
          "No rank had made progress for {} (--hang-after). What each was doing then is in hang.txt.",
          format::seconds(static_cast<double>(note.number)));
    case NoteCode::kEndedForHang:
      return fmt::format(
          "No rank had made progress for {} (--hang-after), and so all ranks were ended by SIGABRT "
          "(--hang-abort). What each was doing then is in hang.txt.",
          format::seconds(static_cast<double>(note.number)));
    case NoteCode::kCountersTookTurns:
      return "More counters were asked for than the processors count at a time: they took turns, and their "
             "values are estimates.";
    case NoteCode::kLightRecording:
      return fmt::format(
          "This is a light recording (--mode light), with {} samples per second: waiting in MPI was recorded "
          "only in windows that clusterprof start opened. --mode full records it always.",
          note.number);
    case NoteCode::kAttached:
      return "clusterprof attach began the recording: times and bytes are from then on, and who waits for "
             "whom is not known. Not recorded: file operations, started processes, torch.distributed, "
             "OpenMP's "
             "and the program's regions, MPI calls by way of dlsym. With --standby from the start, all of "
             "that is.";
    case NoteCode::kNeverStarted:
      return "Nothing was recorded: the run was on standby (--standby), and nobody started recording "
             "(clusterprof start RUN).";
    case NoteCode::kOnlyWindows:
      return fmt::format(
          "The run was on standby (--standby). All times and shares cover only the {} of recording that "
          "clusterprof start opened.",
          format::plural(note.number, "window"));
    case NoteCode::kFullInWindows:
      return fmt::format(
          "In {} that clusterprof start opened, the run was recorded in full, with waiting in MPI.",
          format::plural(note.number, "window"));
    case NoteCode::kEventBudgetIgnored:
      return fmt::format("CLUSTERPROF_EVENT_BUDGET={} is not a number of events and was ignored.", note.text);
    default:
      return {};
  }
}

std::string annotation_variables(std::uint64_t bits) {
  constexpr std::array<const char*, 4> kNames = {"NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64",
                                                 "KOKKOS_TOOLS_LIBS", "KOKKOS_PROFILE_LIBRARY"};
  std::string names;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if ((bits >> i & 1) != 0) names += (names.empty() ? "" : ", ") + std::string(kNames[i]);
  return names;
}

// Processes that are not recorded, or only in part.
std::optional<std::string> of_processes(const NoteRecord& note) {
  const bool one_rank = note.rank_count == 1;
  switch (note.code) {
    case NoteCode::kNoSamples:
      return fmt::format(
          "{} no samples: clusterprof's library was not loaded there (the program is linked "
          "statically, or something on the way to it removes LD_PRELOAD).",
          ranks_of(note) + (one_rank ? " has" : " have"));
    case NoteCode::kTooManyFiles:
      return on(note, fmt::format("some processes were recorded late or not at all: there were so many at a "
                                  "time that the limit of {} open files was reached (ulimit -n).",
                                  note.number));
    case NoteCode::kConnectionFailed:
      return on(note,
                fmt::format("some processes were recorded late or not at all: {}.", system_error(note)));
    case NoteCode::kMemoryNotReceived:
      return on(note, "some processes are not recorded: their shared memory did not reach the collector.");
    case NoteCode::kProcessOfOtherVersion:
      return not_recorded(note, "it has loaded another version of clusterprof");
    case NoteCode::kProcessDamaged:
      return not_recorded(note, "what is in its shared memory cannot be right");
    case NoteCode::kProcessNotMapped:
      return not_recorded(note, "its shared memory could not be mapped");
    case NoteCode::kOtherUser:
      return on(note,
                fmt::format("the collector refused connections of another user (uid {}).", note.number));
    case NoteCode::kPidNamespaces:
      return on(note,
                "processes in PID namespaces of their own are not recorded: the collector could not see "
                "them end (that takes Linux 5.4 and permission for pidfd_open).");
    case NoteCode::kStartNotKnown:
      return by_rank(note, "it is not known when a process began: the time that it reports cannot be true.");
    case NoteCode::kSpawnedWithoutLauncher:
      return spawned(note, "clusterprof itself could no longer be executed on that node");
    case NoteCode::kSpawnedWithInfo:
      return spawned(note,
                     "their MPI_Info has a key that clusterprof does not know, or one that says where to "
                     "look for the command");
    case NoteCode::kSpawnedCommandNotFound:
      return spawned(note, "their command was not found on that node");
    case NoteCode::kSpawnedWithoutNumbers:
      return spawned(note, "the run directory could not be used to agree on their rank numbers");
    case NoteCode::kUnrecordedPrograms:
      return on(note, fmt::format("{} {} that recorded processes executed ran unrecorded: {}.", note.number,
                                  note.number == 1 ? "program" : "programs", why_unrecorded(note.text)));
    case NoteCode::kCallersLeftOut:
      return by_rank(note, fmt::format("there were too many different call paths. Those that came late are "
                                       "shown as their innermost function below {}.",
                                       shard::kCallersLeftOutName));
    case NoteCode::kAnnotationsElsewhere:
      return by_rank(note,
                     fmt::format("what the program names itself was not recorded as regions where these "
                                 "variables had named another library before: {}.",
                                 annotation_variables(note.number)));
    case NoteCode::kTorchNotRecorded:
      return by_rank(note, fmt::format("calls of torch.distributed were not recorded: its libtorch is {}.",
                                       kLibtorchNotKnown));
    case NoteCode::kTorchOpsNotSeen:
      return by_rank(note,
                     "PyTorch's operators are not shown: libtorch was loaded, but no operator came by the "
                     "function by which they are seen (none ran, or libtorch is older than 1.13 or linked in "
                     "another way).");
    case NoteCode::kTorchOpsOtherRelease:
      return by_rank(note,
                     "PyTorch's operators are not shown: its libtorch is of no release whose objects are "
                     "known, so it was left alone.");
    case NoteCode::kTorchOpsNoMemory:
      return by_rank(note, "PyTorch's operators are not shown: there was no memory for a table of 1 MiB.");
    default:
      return {};
  }
}

// What is missing of Python.
std::optional<std::string> of_python(const NoteRecord& note) {
  switch (note.code) {
    case NoteCode::kPythonVersionNotTold:
      return no_frames(note, "the interpreter does not tell its version");
    case NoteCode::kPythonVersionNotSupported:
      return no_frames(note, python(note) + " is not supported");
    case NoteCode::kPythonPypy:
      return no_frames(note, "PyPy is not supported");
    case NoteCode::kPythonFreeThreaded:
      return no_frames(note, "free-threaded " + python(note) + " is not supported");
    case NoteCode::kPythonWithoutOffsets:
      return no_frames(note, python(note) + " does not say where its data lie (no valid _Py_DebugOffsets)");
    case NoteCode::kPythonOffsetsWrong:
      return no_frames(
          note, "where " + python(note) + " says that its data lie cannot be right (_Py_DebugOffsets)");
    case NoteCode::kPythonSymbolMissing:
      return no_frames(note,
                       "this " + python(note) + " lacks a function or type that is needed to read them");
    case NoteCode::kPythonOtherLayout:
      return no_frames(note, "this build of " + python(note) + " lays its objects out differently");
    case NoteCode::kPythonCodeNotFound:
      return no_frames(note,
                       "a self-check found no code objects where " + python(note) + " should have them");
    case NoteCode::kPythonFramesNotFound:
      return no_frames(
          note, "a self-check found that " + python(note) + " runs without frames where they should be");
    case NoteCode::kPythonNativeMissing:
      return by_rank(note,
                     fmt::format("samples with Python frames have no native frames, because the evaluation "
                                 "loop of {} was not recognised in native stacks.",
                                 python(note)));
    case NoteCode::kPythonGarbageUnknown:
      return by_rank(note,
                     fmt::format("time in the garbage collector of {} is not shown separately: its state "
                                 "was not found.",
                                 python(note)));
    default:
      return {};
  }
}

// What of the memory is not seen.
std::optional<std::string> of_memory(const NoteRecord& note) {
  switch (note.code) {
    case NoteCode::kMemoryNotWrapped:
      return by_rank(note,
                     "allocations are not recorded, although --memory asked for it: the library that sees "
                     "them was not loaded before the program's others.");
    case NoteCode::kMemoryOwnMalloc:
      return by_rank(note,
                     "the program has a malloc of its own, which nothing can be put in front of: what it "
                     "allocates with it is not known.");
    case NoteCode::kMemoryOtherMalloc:
      return by_rank(note,
                     "some libraries call a malloc that is not the program's (dlopen with RTLD_DEEPBIND, or "
                     "linked statically): what they allocate with it is not known.");
    case NoteCode::kMemoryPythonNotSeen:
      return by_rank(note,
                     "Python objects of up to 512 bytes are not known: this interpreter is free-threaded, or "
                     "its allocator was not found.");
    case NoteCode::kMemoryPythonReplaced:
      return by_rank(
          note,
          "the allocators of Python were replaced (as by PYTHONMALLOC): its objects count as native "
          "memory.");
    default:
      return {};
  }
}

// Files whose functions have no names.
std::optional<std::string> of_names(const NoteRecord& note) {
  switch (note.code) {
    case NoteCode::kFileNotOpened:
      return no_names(note, fmt::format("the file cannot be opened ({})", system_error(note)));
    case NoteCode::kFileNotRegular:
      return no_names(note, "it is not a regular file");
    case NoteCode::kFileNotReadable:
      return no_names(note, fmt::format("it cannot be read as an object file ({})", note.detail));
    case NoteCode::kFileChanged:
      return no_names(
          note, fmt::format("the file is not the one that ran, which had the build-id {}", note.detail));
    case NoteCode::kSplitDebugMissing:
      return fmt::format("Functions inlined in {} are not shown: its split debug information{} is missing.",
                         note.text, note.detail.empty() ? "" : " (" + note.detail + ")");
    case NoteCode::kVdsoNotReadable:
      return fmt::format("Functions of the kernel's vdso have no names: it could not be read{}.",
                         note.number == 0 ? "" : " (" + system_error(note) + ")");
    default:
      return {};
  }
}

// Where checkpoints were, and the limits of the collector.
std::optional<std::string> of_collectors(const NoteRecord& note) {
  switch (note.code) {
    case NoteCode::kCheckpointInterval:
      return fmt::format(
          "Nodes wrote their data to the run directory every {} s (--checkpoint): a node that is lost loses "
          "up to {} s of it.",
          note.number, note.number);
    case NoteCode::kCheckpointsLocal:
      return "Nodes kept their data on disks of their own until the end, as --checkpoint local asked: a node "
             "that is lost loses all of it.";
    case NoteCode::kNoLocalCheckpoints:
      return on(note,
                "neither TMPDIR, /tmp nor /dev/shm is a private place on a disk of the node, so checkpoints "
                "went to the run directory in spite of --checkpoint local.");
    case NoteCode::kShardLeftOnNode:
      return on(note,
                fmt::format("the collector was killed or is still at work, and its data is not in the run "
                            "directory. The last checkpoint may be on that node, in {}. What was left "
                            "is brought to the run directory when your next recording on that node ends.",
                            note.text));
    case NoteCode::kMemoryKills:
      return on(note, fmt::format("the kernel killed {} because memory was short.",
                                  format::plural(static_cast<std::size_t>(note.number), "process")));
    case NoteCode::kTimeLimit:
      return on(note, "the job's time limit had passed.");
    case NoteCode::kMemoryBound:
      return on(note,
                fmt::format("the collector was near its limit of {} (--max-memory). Call paths that "
                            "came later are shown as their innermost function below {}.",
                            format::bytes(static_cast<double>(note.number)), shard::kCallersLeftOutName));
    case NoteCode::kJobMemoryShort:
      return on(note,
                fmt::format("the job was near its memory limit of {}, so the collector took no more "
                            "until there was room again. Call paths that were new then are shown as their "
                            "innermost function below {}.",
                            format::bytes(static_cast<double>(note.number)), shard::kCallersLeftOutName));
    case NoteCode::kProcessorBound:
      return on(note, fmt::format("the collector waited for {} in all, to take no more processor time than "
                                  "--max-cpu allows. Samples for which there was no room meanwhile are "
                                  "counted as dropped (ring_full).",
                                  format::seconds(static_cast<double>(note.number) / 1000)));
    default:
      return {};
  }
}

// From the site's check of a node, and notes left out.
std::optional<std::string> of_site(const NoteRecord& note) {
  switch (note.code) {
    case NoteCode::kNodeCheckFailed:
      return on(note, fmt::format("the site's check before the job failed: {}", note.text));
    case NoteCode::kNodeCheckWarned:
      return on(note, fmt::format("the site's check before the job warned: {}", note.text));
    case NoteCode::kTurnedOff:
      return on(note,
                fmt::format("the site turned recording off {} s after the start; nothing later is recorded.",
                            note.number));
    case NoteCode::kMoreNotes:
      return on(note, fmt::format("{} more such {} left out.", note.number,
                                  note.number == 1 ? "note was" : "notes were"));
    default:
      return {};
  }
}

}  // namespace

std::string sentence(const NoteRecord& note) {
  for (const auto& part : {of_run, of_processes, of_python, of_memory, of_names, of_collectors, of_site})
    if (std::optional<std::string> text = part(note)) return *std::move(text);
  return {};
}

}  // namespace clusterprof::report::words
