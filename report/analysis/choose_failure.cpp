// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/choose_failure.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/frame_owner.hpp"
#include "report/analysis/hang_search.hpp"
#include "report/analysis/stderr_text.hpp"

namespace clusterprof::report {
namespace {

// By number; others are rare where a program does not handle its errors.
std::string_view open_mpi_error_class(int number) {
  static constexpr std::string_view kNames[] = {"",
                                                "MPI_ERR_BUFFER",
                                                "MPI_ERR_COUNT",
                                                "MPI_ERR_TYPE",
                                                "MPI_ERR_TAG",
                                                "MPI_ERR_COMM",
                                                "MPI_ERR_RANK",
                                                "MPI_ERR_REQUEST",
                                                "MPI_ERR_ROOT",
                                                "MPI_ERR_GROUP",
                                                "MPI_ERR_OP",
                                                "MPI_ERR_TOPOLOGY",
                                                "MPI_ERR_DIMS",
                                                "MPI_ERR_ARG",
                                                "MPI_ERR_UNKNOWN",
                                                "MPI_ERR_TRUNCATE",
                                                "MPI_ERR_OTHER",
                                                "MPI_ERR_INTERN"};
  return number > 0 && number < static_cast<int>(std::size(kNames)) ? kNames[number] : std::string_view();
}

constexpr int kSigAbrt = 6, kSigKill = 9, kSigTerm = 15;
constexpr int kPythonExceptionStatus = 1;
// Slurm looks for jobs past their limit every half minute or so, and kills what is left 30 s later
// (OverTimeLimit, KillWait). A job that ends much later was given more time, which it is not told.
constexpr std::int64_t kLimitPatience_ns = 300'000'000'000;

const RankInfo* first_ended_by(int signal, const Analysis& analysis) {
  const RankInfo* first = nullptr;
  for (const RankInfo& rank : analysis.ranks)
    if (rank.exit_signal == signal && (first == nullptr || rank.end_s < first->end_s)) first = &rank;
  return first;
}

// A launcher that kills begins with SIGTERM.
bool was_killed_before_others_were_ended(const Analysis& analysis) {
  const RankInfo* const killed = first_ended_by(kSigKill, analysis);
  const RankInfo* const ended = first_ended_by(kSigTerm, analysis);
  return killed != nullptr && ended != nullptr && killed->end_s < ended->end_s;
}

class FailureChoice {
 public:
  FailureChoice(const shard::ShardData& head, const CallPaths& paths, const Analysis& analysis)
      : head_(head), paths_(paths), analysis_(analysis) {
    for (const shard::Failure& row : head.failures)
      if (row.rank < head.ranks.size()) rows_.emplace(head.ranks[row.rank].rank, &row);
    for (const shard::Rank& rank : head.ranks)
      end_utc_ns_.emplace(rank.rank, rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns));
  }

  [[nodiscard]] std::optional<Failure> choose() const {
    if (const auto& hang = analysis_.hang; hang && hang->is_deadlock && !hang->follows_failure)
      return failure_of_hang(FailureKind::kDeadlock, *hang);
    const RankInfo* const victim = earliest([](const RankInfo& rank) { return failed(rank) || rank.lost; });
    if (victim == nullptr) return std::nullopt;
    const bool past_limit = note_on(shard::NoteCode::kTimeLimit, *victim) != nullptr;
    const auto first = first_of_all();
    // MPICH's launcher may end before the ranks that it ends because of an MPI_Abort or an error of MPI.
    if (first && first->second == FailureKind::kAbort) return failure_of(*first->first, first->second);
    const RankInfo* const mpi_error = ended_by_mpi();
    if (!first && mpi_error != nullptr) return failure_of(*mpi_error, kind_of(*mpi_error));
    if (launcher_that_ended_first(analysis_) != nullptr)
      return past_limit ? std::optional(failure_of(*victim, FailureKind::kTimeLimit)) : std::nullopt;
    if (first) return failure_of(*first->first, first->second);
    if (ended_for_hang()) return failure_of_hang(FailureKind::kHang, analysis_.hang.value_or(Hang()));
    if (past_limit) return failure_of(*victim, FailureKind::kTimeLimit);
    // Without SIGTERM nobody but the kernel or a person kills before a launcher does.
    if (const RankInfo* const rank = killed_before_others(); rank != nullptr)
      return failure_of(*rank, FailureKind::kSignal);
    const RankInfo* const silent = earliest([&](const RankInfo& rank) { return is_silent(rank, analysis_); });
    if (silent != nullptr) return failure_of(*silent, FailureKind::kNode);
    return std::nullopt;
  }

 private:
  template <typename Condition>
  const RankInfo* earliest(Condition condition) const {
    const RankInfo* first = nullptr;
    for (const RankInfo& rank : analysis_.ranks)
      if (condition(rank) && (first == nullptr || rank.end_s < first->end_s)) first = &rank;
    return first;
  }

  const shard::Failure* row_of(const RankInfo& rank) const {
    const auto row = rows_.find(rank.rank);
    return row == rows_.end() ? nullptr : row->second;
  }

  const shard::Note* note_on(shard::NoteCode code, const RankInfo& rank) const {
    if (rank.node >= analysis_.nodes.size()) return nullptr;
    const std::string& node = analysis_.nodes[rank.node].name;
    const auto note = std::ranges::find_if(
        head_.run.notes, [&](const shard::Note& row) { return row.code == code && row.node == node; });
    return note == head_.run.notes.end() ? nullptr : &*note;
  }

  // When the job's time was up already. A program may catch the SIGTERM that says so, and end in its own way.
  bool was_past_limit(const RankInfo& rank, double earlier_s = 0) const {
    const shard::Note* const limit = note_on(shard::NoteCode::kTimeLimit, rank);
    if (limit == nullptr) return false;
    const std::int64_t past_ns = end_utc_ns_.at(rank.rank) - static_cast<std::int64_t>(earlier_s * 1e9) -
                                 static_cast<std::int64_t>(limit->number) * 1'000'000'000;
    return past_ns >= 0 && past_ns < kLimitPatience_ns;
  }

  // Of a rank that nobody saw die it is not known that it was SIGKILL.
  bool was_out_of_memory(const RankInfo& rank) const {
    const bool vanished = rank.lost && !rank.exit_signal && !rank.exit_status && !is_silent(rank, analysis_);
    return (rank.exit_signal == kSigKill || vanished) &&
           note_on(shard::NoteCode::kMemoryKills, rank) != nullptr && !was_past_limit(rank);
  }

  // The collectors ended all ranks by SIGABRT.
  bool ended_for_hang() const {
    return std::ranges::any_of(
        head_.run.notes, [](const shard::Note& note) { return note.code == shard::NoteCode::kEndedForHang; });
  }

  bool called_abort(const RankInfo& rank) const {
    const shard::Failure* const row = row_of(rank);
    return row != nullptr && (row->flags & shard::Failure::kCalledAbort) != 0;
  }

  // Of two ranks that were killed at once. Where one grew too fast for the last look at it, it is the one
  // that did not wait in MPI.
  bool held_more(const RankInfo& rank, const RankInfo& other) const {
    constexpr double kClearly = 2;
    const auto held = static_cast<double>(rank.max_rss_bytes.value_or(0));
    const auto other_held = static_cast<double>(other.max_rss_bytes.value_or(0));
    if (held > kClearly * other_held || other_held > kClearly * held) return held > other_held;
    const bool waited = mpi_call_at_end(analysis_, rank.rank) != nullptr,
               other_waited = mpi_call_at_end(analysis_, other.rank) != nullptr;
    return waited == other_waited ? held > other_held : other_waited;
  }

  // What came first of MPI_Abort, an end that a rank came to by itself, and a kill for lack of memory: the
  // others fail, or abort, when they notice that a rank is gone.
  std::optional<std::pair<const RankInfo*, FailureKind>> first_of_all() const {
    std::optional<std::pair<const RankInfo*, FailureKind>> first;
    const bool aborts_are_ours = ended_for_hang();
    double first_s = 0;
    const auto offer = [&](const RankInfo& rank, FailureKind kind, double at_s) {
      if (first && first_s <= at_s) return;
      first.emplace(&rank, kind);
      first_s = at_s;
    };
    for (const RankInfo& rank : analysis_.ranks) {
      if (aborts_are_ours && rank.exit_signal == kSigAbrt) continue;
      const double in_abort_s = called_abort(rank) ? abort_lasted_s(rank) : 0;
      if (called_abort(rank)) {
        if (!was_past_limit(rank, in_abort_s)) offer(rank, FailureKind::kAbort, rank.end_s - in_abort_s);
      } else if (failed_by_itself(rank)) {
        const FailureKind kind = kind_of(rank);
        if (kind != FailureKind::kExit || !was_past_limit(rank)) offer(rank, kind, rank.end_s);
      } else if (was_out_of_memory(rank)) {
        // The kernel takes the process that holds most, and a launcher then ends the others in the same way,
        // at once.
        constexpr double kAtOnceS = 1;
        const bool at_once =
            first && first->second == FailureKind::kOutOfMemory && std::abs(first_s - rank.end_s) < kAtOnceS;
        if (!at_once)
          offer(rank, FailureKind::kOutOfMemory, rank.end_s);
        else if (held_more(rank, *first->first))
          first->first = &rank;
      }
    }
    return first;
  }

  // What the MPI library has said before it ended the rank, because one of its calls had failed.
  std::optional<FatalMpiError> fatal_error_of(const RankInfo& rank) const {
    const shard::Failure* const row = row_of(rank);
    if (row == nullptr || (row->flags & shard::Failure::kCalledAbort) != 0) return std::nullopt;
    std::optional<FatalMpiError> error = fatal_mpi_error(row->stderr_tail);
    if (error) return error;
    // Open MPI may say it through its launcher only. Its error codes are the classes, and the rank exits with
    // the code from inside the call. 1 is what error handlers of programs exit with, too; and where all ranks
    // have ended alike, they may have exited with the number of a signal that all of them got.
    const CallUnderWayRow* const call = mpi_call_at_end(analysis_, rank.rank);
    const int status = rank.exit_status.value_or(0);
    const std::string_view error_class = open_mpi_error_class(status);
    const bool all_alike = std::ranges::all_of(
        analysis_.ranks, [&](const RankInfo& other) { return other.exit_status == status; });
    if (call == nullptr || status == EXIT_FAILURE || error_class.empty() || all_alike ||
        !head_.run.mpi_library.starts_with("Open MPI"))
      return std::nullopt;
    return FatalMpiError{call->place.op, std::string(error_class), ""};
  }

  const RankInfo* ended_by_mpi() const {
    return earliest([&](const RankInfo& rank) {
      const shard::Failure* const row = row_of(rank);
      return (failed(rank) || rank.lost) && row != nullptr && fatal_mpi_error(row->stderr_tail);
    });
  }

  // A rank that was killed, for example because memory was full, before a launcher ended the others by
  // SIGTERM or others came to their own end. Launchers that kill begin with SIGTERM, so that nobody ends well
  // later.
  const RankInfo* killed_before_others() const {
    const RankInfo* const killed = first_ended_by(kSigKill, analysis_);
    if (killed == nullptr) return nullptr;
    if (first_ended_by(kSigTerm, analysis_) != nullptr)
      return was_killed_before_others_were_ended(analysis_) ? killed : nullptr;
    const bool others_went_on = std::ranges::any_of(analysis_.ranks, [&](const RankInfo& rank) {
      return rank.exit_status == 0 && !rank.lost && rank.end_s > killed->end_s;
    });
    return others_went_on ? killed : nullptr;
  }

  const CallUnderWayRow* abort_of(const RankInfo& rank) const {
    for (const CallUnderWayRow& row : calls_under_way_of(analysis_, rank.rank))
      if (row.place.op == "MPI_Abort") return &row;
    return nullptr;
  }

  // In MPI_Abort a rank may wait for the launcher's signal.
  double abort_lasted_s(const RankInfo& rank) const {
    const CallUnderWayRow* const call = abort_of(rank);
    return call == nullptr ? 0 : call->age_s;
  }

  FailureKind kind_of(const RankInfo& rank) const {
    const shard::Failure* const row = row_of(rank);
    if (row != nullptr && exception_of(rank, *row)) return FailureKind::kException;
    return rank.exit_signal ? FailureKind::kSignal : FailureKind::kExit;
  }

  // Only where the end is what the run time makes of an exception: others may have been caught.
  static std::optional<UncaughtException> exception_of(const RankInfo& rank, const shard::Failure& row) {
    const bool aborted = (row.flags & shard::Failure::kCalledAbort) != 0;
    if (rank.exit_signal == kSigAbrt) return cpp_exception(row.stderr_tail);
    if (rank.exit_status == kPythonExceptionStatus || aborted) return python_exception(row.stderr_tail);
    return std::nullopt;
  }

  // The innermost line of the program, not that of a library that it has called.
  static const UncaughtException::Frame* own_frame(const UncaughtException& exception) {
    const auto is_own = [](const UncaughtException::Frame& frame) {
      return installed_package(frame.file).empty() && !frame.file.starts_with('<');
    };
    const auto own = std::find_if(exception.frames.rbegin(), exception.frames.rend(), is_own);
    if (own != exception.frames.rend()) return &*own;
    return exception.frames.empty() ? nullptr : &exception.frames.back();
  }

  Failure failure_of(const RankInfo& rank, FailureKind kind) const {
    Failure failure;
    failure.kind = kind;
    failure.rank = rank.rank;
    failure.status = rank.exit_status;
    failure.signal = rank.exit_signal;
    failure.place = rank.last_seen;
    failure.call_path = rank.last_call_path;
    if (kind == FailureKind::kAbort)
      if (const CallUnderWayRow* const call = abort_of(rank)) failure.place = call->place;
    const shard::Failure* const row = row_of(rank);
    if (row == nullptr) return failure;
    if ((row->flags & shard::Failure::kHasStderr) != 0) failure.stderr_tail = row->stderr_tail;
    failure.stack_overflow = (row->flags & shard::Failure::kStackOverflow) != 0;
    // The program may have handled an earlier fault of another kind.
    if ((row->flags & shard::Failure::kFault) != 0 && rank.exit_signal == row->signal) {
      if ((row->flags & shard::Failure::kNoAddress) == 0) failure.address = row->address;
      failure.instruction = row->instruction;
    }
    if ((row->flags & shard::Failure::kCalledAbort) != 0) failure.abort_code = row->abort_code;
    if (rank.exit_signal == kSigAbrt) failure.message = first_line(row->message);
    if (const auto error = fatal_error_of(rank)) {
      failure.ended_by_mpi = true;
      failure.message = words_of(*error);
      const CallUnderWayRow* const call = mpi_call_at_end(analysis_, rank.rank);
      if (call != nullptr && call->place.op == error->op) {
        failure.place = call->place;
        failure.mismatch = find_mismatch(head_, paths_, rank.rank);
      }
    }
    if (const auto exception = exception_of(rank, *row)) {
      failure.exception = exception->type;
      failure.message = exception->message;
      if (const UncaughtException::Frame* const frame = own_frame(*exception)) {
        failure.place = {};
        failure.place.kind = shard::FrameKind::kPython;
        failure.place.file = frame->file;
        failure.place.function = frame->function;
        failure.place.line = frame->line;
      }
    }
    return failure;
  }

  static Failure failure_of_hang(FailureKind kind, const Hang& hang) {
    Failure failure;
    failure.kind = kind;
    failure.rank = hang.rank;
    failure.place = hang.place;
    failure.call_path = hang.call_path;
    return failure;
  }

  // "MPI_ERR_TRUNCATE in MPI_Recv: message truncated"
  static std::string words_of(const FatalMpiError& error) {
    std::string words = (error.error_class.empty() ? "an error" : error.error_class) + " in " + error.op;
    if (!error.text.empty()) words += ": " + error.text;
    return words;
  }

  static std::string first_line(std::string_view text) {
    return std::string(text.substr(0, text.find('\n')));
  }

  const shard::ShardData& head_;
  const CallPaths& paths_;
  const Analysis& analysis_;
  // By rank number.
  std::unordered_map<std::int32_t, const shard::Failure*> rows_;
  std::unordered_map<std::int32_t, std::int64_t> end_utc_ns_;
};

}  // namespace

const NoteRecord* launcher_that_ended_first(const Analysis& analysis) {
  // It learns of a rank's end by the connection that this closes, and may be gone before the kernel has ended
  // the rank.
  if (was_killed_before_others_were_ended(analysis)) return nullptr;
  const auto& notes = analysis.run.notes;
  const auto note = std::ranges::find(notes, shard::NoteCode::kLauncherGone, &NoteRecord::code);
  if (note == notes.end()) return nullptr;
  for (const RankInfo& rank : analysis.ranks) {
    const bool was_running = std::ranges::any_of(note->ranks, [&](const shard::RankRange& range) {
      return range.first <= rank.rank && rank.rank <= range.last;
    });
    if (!was_running && failed_by_itself(rank)) return nullptr;
  }
  return &*note;
}

std::string address_text(std::uint64_t address) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), address, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

bool failed(const RankInfo& rank) { return rank.exit_signal || rank.exit_status.value_or(0) != 0; }

bool failed_by_itself(const RankInfo& rank) {
  if (rank.exit_signal) return *rank.exit_signal != kSigTerm && *rank.exit_signal != kSigKill;
  const int status = rank.exit_status.value_or(0);
  return status != 0 && status != 128 + kSigTerm && status != 128 + kSigKill;
}

bool is_silent(const RankInfo& rank, const Analysis& analysis) {
  return rank.still_ran && rank.node < analysis.nodes.size() && analysis.nodes[rank.node].as_of_utc_ns != 0;
}

std::optional<Failure> choose_failure(const shard::ShardData& head, const CallPaths& paths,
                                      const Analysis& analysis) {
  return FailureChoice(head, paths, analysis).choose();
}

}  // namespace clusterprof::report
