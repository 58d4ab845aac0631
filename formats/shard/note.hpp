// SPDX-License-Identifier: BSD-3-Clause
// Notes: what was not recorded, or not as it should be. A note is data, a code with a few fields; only
// report/words makes sentences of notes. Table "notes" in FORMATS.md says what each code means.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof::shard {

// Reports show notes in this order. Files store the names in kNoteKinds, so the values may change.
enum class NoteCode : std::uint8_t {
  // About the whole run. The merge and the report find these.
  kMissingRanks = 0,
  kDamagedShard,
  kIncompleteShard,
  kDifferentRuns,
  kRepeatedRanks,
  kClocksDisagree,
  kClocksApart,
  kWrongDate,
  kRanksWithoutEvents,
  kOnlySomeRanks,
  kLauncherGone,  // the MPI launcher ended while these ranks were running
  kNoProgress,    // no rank made progress for so long (--hang-after)
  kEndedForHang,  // likewise, and so all of them were ended by SIGABRT (--hang-abort)
  // Processes that a collector could not record, or only in part
  kNoSamples,
  kTooManyFiles,
  kConnectionFailed,
  kMemoryNotReceived,
  kProcessOfOtherVersion,
  kProcessDamaged,
  kProcessNotMapped,
  kOtherUser,
  kPidNamespaces,
  kStartNotKnown,
  kSpawnedWithoutLauncher,
  kSpawnedWithInfo,
  kSpawnedCommandNotFound,
  kSpawnedWithoutNumbers,
  kUnrecordedPrograms,  // that recorded processes executed
  kCallersLeftOut,
  kTorchNotRecorded,  // calls of torch.distributed over gloo
  // Why operators of PyTorch are no regions, with --torch-ops
  kTorchOpsNotSeen,
  kTorchOpsOtherRelease,
  kTorchOpsNoMemory,
  // Why there are no Python frames
  kPythonVersionNotTold,
  kPythonVersionNotSupported,
  kPythonPypy,
  kPythonFreeThreaded,
  kPythonWithoutOffsets,
  kPythonOffsetsWrong,
  kPythonSymbolMissing,
  kPythonOtherLayout,
  kPythonCodeNotFound,
  kPythonFramesNotFound,
  // What is missing although there are Python frames
  kPythonNativeMissing,
  kPythonGarbageUnknown,
  kAnnotationsElsewhere,  // of the program: the user had given them to another library
  // What of the memory is not seen, with --memory
  kMemoryNotWrapped,
  kMemoryOwnMalloc,
  kMemoryOtherMalloc,
  kMemoryPythonNotSeen,
  kMemoryPythonReplaced,
  // Files whose names and lines could not be read, and the rest
  kFileNotOpened,
  kFileNotRegular,
  kFileNotReadable,
  kFileChanged,
  kSplitDebugMissing,
  kVdsoNotReadable,
  kCountersTookTurns,
  kEventBudgetIgnored,
  // Where the shards were until the end, and what that costs when a node is lost
  kCheckpointInterval,
  kCheckpointsLocal,
  kNoLocalCheckpoints,
  kShardLeftOnNode,
  // What may have ended ranks
  kMemoryKills,  // by the kernel
  kTimeLimit,    // of the job has passed
  // What the collector did without because of its limits
  kMemoryBound,
  kJobMemoryShort,
  kProcessorBound,
  kNodeCheckFailed,
  kNodeCheckWarned,
  kTurnedOff,  // by the site, for jobs that run
  kLightRecording,
  kAttached,  // recorded from when clusterprof attach was called
  // Windows of recording that were opened from outside
  kNeverStarted,
  kOnlyWindows,
  kFullInWindows,
  kSnapshot,  // of a run that was running, made by `clusterprof snapshot`
  kMoreNotes
};

// What a note is about: the whole run, one node, or a range of ranks.
enum class NoteScope : std::uint8_t { kRun, kNode, kRanks };

// The fields that a code uses, with the names that JSON gives them. null: the field is not used and 0 or
// empty.
struct NoteKind {
  const char* name;
  NoteScope scope;
  const char* number;
  const char* text;  // comes from a file, the system or a person; never a sentence of ours
  const char* detail;
};
inline constexpr auto kNoteKinds = std::to_array<NoteKind>({
    {"missing_ranks", NoteScope::kRanks, "missing", nullptr, nullptr},
    {"damaged_shard", NoteScope::kRun, nullptr, "shard", nullptr},
    {"incomplete_shard", NoteScope::kRun, nullptr, "shard", nullptr},
    {"different_runs", NoteScope::kRun, nullptr, nullptr, nullptr},
    {"repeated_ranks", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"clocks_disagree", NoteScope::kRun, nullptr, nullptr, nullptr},
    {"clocks_apart", NoteScope::kRun, "nodes", nullptr, nullptr},
    {"wrong_date", NoteScope::kNode, "seconds", nullptr, nullptr},
    {"ranks_without_events", NoteScope::kRun, "ranks", nullptr, nullptr},
    {"only_some_ranks", NoteScope::kRun, nullptr, "ranks_option", nullptr},
    {"launcher_gone", NoteScope::kRanks, nullptr, "launcher", nullptr},
    {"no_progress", NoteScope::kRun, "seconds", nullptr, nullptr},
    {"ended_for_hang", NoteScope::kRun, "seconds", nullptr, nullptr},
    {"no_samples", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"too_many_files", NoteScope::kNode, "file_limit", nullptr, nullptr},
    {"connection_failed", NoteScope::kNode, "errno", nullptr, nullptr},
    {"memory_not_received", NoteScope::kNode, nullptr, nullptr, nullptr},
    {"process_of_other_version", NoteScope::kNode, "pid", nullptr, nullptr},
    {"process_damaged", NoteScope::kNode, "pid", nullptr, nullptr},
    {"process_not_mapped", NoteScope::kNode, "pid", nullptr, nullptr},
    {"other_user", NoteScope::kNode, "uid", nullptr, nullptr},
    {"pid_namespaces", NoteScope::kNode, nullptr, nullptr, nullptr},
    {"start_not_known", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"spawned_without_launcher", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"spawned_with_info", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"spawned_command_not_found", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"spawned_without_numbers", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"unrecorded_programs", NoteScope::kNode, "programs", "reason", nullptr},
    {"callers_left_out", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"torch_not_recorded", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"torch_ops_not_seen", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"torch_ops_other_release", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"torch_ops_no_memory", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"python_version_not_told", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"python_version_not_supported", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_pypy", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"python_free_threaded", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_without_offsets", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_offsets_wrong", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_symbol_missing", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_other_layout", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_code_not_found", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_frames_not_found", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_native_missing", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"python_garbage_unknown", NoteScope::kRanks, "python_version", nullptr, nullptr},
    {"annotations_elsewhere", NoteScope::kRanks, "variables", nullptr, nullptr},
    {"memory_not_wrapped", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"memory_own_malloc", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"memory_other_malloc", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"memory_python_not_seen", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"memory_python_replaced", NoteScope::kRanks, nullptr, nullptr, nullptr},
    {"file_not_opened", NoteScope::kRun, "errno", "file", nullptr},
    {"file_not_regular", NoteScope::kRun, nullptr, "file", nullptr},
    {"file_not_readable", NoteScope::kRun, nullptr, "file", "library_message"},
    {"file_changed", NoteScope::kRun, nullptr, "file", "build_id"},
    {"split_debug_missing", NoteScope::kRun, nullptr, "file", "debug_file"},
    {"vdso_not_readable", NoteScope::kRun, "errno", nullptr, nullptr},
    {"counters_took_turns", NoteScope::kRun, nullptr, nullptr, nullptr},
    {"event_budget_ignored", NoteScope::kRun, nullptr, "value", nullptr},
    {"checkpoint_interval", NoteScope::kRun, "seconds", nullptr, nullptr},
    {"checkpoints_local", NoteScope::kRun, nullptr, nullptr, nullptr},
    {"no_local_checkpoints", NoteScope::kNode, nullptr, nullptr, nullptr},
    {"shard_left_on_node", NoteScope::kNode, nullptr, "file", nullptr},
    {"memory_kills", NoteScope::kNode, "processes", nullptr, nullptr},
    {"time_limit", NoteScope::kNode, "limit_utc_s", nullptr, nullptr},
    {"memory_bound", NoteScope::kNode, "limit_bytes", nullptr, nullptr},
    {"job_memory_short", NoteScope::kNode, "limit_bytes", nullptr, nullptr},
    {"processor_bound", NoteScope::kNode, "waited_ms", nullptr, nullptr},
    {"node_check_failed", NoteScope::kNode, nullptr, "site_message", nullptr},
    {"node_check_warned", NoteScope::kNode, nullptr, "site_message", nullptr},
    {"turned_off", NoteScope::kNode, "after_s", nullptr, nullptr},
    {"light_recording", NoteScope::kRun, "rate_hz", nullptr, nullptr},
    {"attached", NoteScope::kRun, nullptr, nullptr, nullptr},
    {"never_started", NoteScope::kRun, nullptr, nullptr, nullptr},
    {"only_windows", NoteScope::kRun, "windows", nullptr, nullptr},
    {"full_in_windows", NoteScope::kRun, "windows", nullptr, nullptr},
    {"snapshot", NoteScope::kRun, "utc_s", nullptr, nullptr},
    {"more_notes", NoteScope::kNode, "notes", nullptr, nullptr},
});
inline constexpr std::size_t kNoteCodes = kNoteKinds.size();
static_assert(kNoteCodes == static_cast<std::size_t>(NoteCode::kMoreNotes) + 1);

constexpr const NoteKind& kind_of(NoteCode code) { return kNoteKinds[static_cast<std::size_t>(code)]; }
constexpr const char* name_of(NoteCode code) { return kind_of(code).name; }
std::optional<NoteCode> note_code(std::string_view name);

struct RankRange {
  std::int32_t first = 0, last = 0;  // inclusive
  friend auto operator<=>(const RankRange&, const RankRange&) = default;
};

// A note about the run, one node or one range of ranks. What is true of several nodes or ranges is several
// notes.
struct Note {
  NoteCode code = NoteCode::kMissingRanks;
  std::string node;  // its name; empty: not about a node
  std::string text, detail;
  std::uint64_t number = 0;
  std::int32_t first_rank = -1, last_rank = -1;  // -1: not about ranks
  friend auto operator<=>(const Note&, const Note&) = default;
};

Note note_of_run(NoteCode code, std::uint64_t number = 0, std::string text = {}, std::string detail = {});
Note note_of_node(NoteCode code, std::string node, std::uint64_t number = 0, std::string text = {});
Note note_of_ranks(NoteCode code, RankRange ranks, std::uint64_t number = 0);

// Sorts notes and removes duplicates. Joins ranges of ranks that overlap or follow each other.
void unite(std::vector<Note>& notes);

// What is wrong with a note by the rules of its code. null: nothing.
const char* problem_of(const Note& note);

}  // namespace clusterprof::shard
