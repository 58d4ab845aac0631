// SPDX-License-Identifier: BSD-3-Clause
// Findings on files: time in calls, waiting for data of other processes, and many small reads or writes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "report/analysis/evidence.hpp"
#include "report/analysis/file_io.hpp"
#include "report/analysis/finding_groups.hpp"
#include "report/analysis/limits.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;
using Kind = FindingKind;

// Of a rank's time: by so much samples must differ from timed calls to be mentioned.
constexpr double kMissed = 0.05;
// Calls of which samples see so much in main threads are theirs: what is left may be chance.
constexpr double kOfMainThreads = 0.95;

class IoFindings {
 public:
  explicit IoFindings(FindingBuilder& builder)
      : builder_(builder), analysis_(builder.analysis()), paths_(builder.paths()) {
    if (analysis_.io) find_callers();
  }

  void find() {
    calls();
    waits_for_data();
    small_calls();
  }

 private:
  void calls() {
    const IoCallRow* most = nullptr;
    if (analysis_.io)
      for (const IoCallRow& row : analysis_.io->calls)  // largest first
        if (is_programs(row) && (most == nullptr || main_s(row) > main_s(*most))) most = &row;
    if (Finding* const finding = builder_.add_rank_time(
            Kind::kFileIo, Category::kIo,
            [this](std::uint32_t path) {
              return !is_wait_for_data(path) && !(builder_.imports_found && builder_.paths().in_import(path));
            },
            thresholds::kIo, FindingAction::kFewerIo)) {
      if (most == nullptr || main_s(*most) < thresholds::kBlame * of(analysis_.category_s, Category::kIo))
        return;
      add_who_calls(*most, rank_share(*most), *finding);
      finding->action = action_for(*most);
      if (finding->place.file.empty() && !most->file.empty()) point_to(*finding, *most);
      return;
    }
    // Too little of all ranks' time, but perhaps much of one rank's.
    if (most == nullptr) return;
    for (const IoCallRow& row : analysis_.io->calls)
      if (is_programs(row) && main_rank_s(row) > main_rank_s(*most)) most = &row;
    const double share = rank_share(*most);
    if (share < thresholds::kIo) return;
    const double own_s = std::max(0.0, main_s(*most) - lacked_s(*most));
    Finding& finding = builder_.add_by_share(Kind::kRankIo, builder_.share_of_ranks(own_s));
    finding.gain_s = rank_time_s(*most);
    finding.evidence.set(Key::kTime, own_s);
    add_who_calls(*most, share, finding);
    finding.action = action_for(*most);
    point_to(finding, *most);
  }

  void waits_for_data() {
    Finding* const finding = builder_.add_rank_time(
        Kind::kWaitsForData, Category::kIo,
        [this](std::uint32_t path) { return is_wait_for_data(path) && !builder_.is_input_wait(path); },
        thresholds::kIo, FindingAction::kFindWhatIsAwaited);
    if (finding != nullptr) name_awaited_children(builder_, Category::kIo, *finding);
  }

  // Many small reads or writes.
  void small_calls() {
    if (!analysis_.io) return;
    for (const IoCallRow& row : analysis_.io->calls) {  // largest first
      if (!is_programs(row)) continue;
      if (builder_.share_of_ranks(row.time_s) < thresholds::kSmallIo) return;
      const double share = builder_.share_of_ranks(main_s(row));
      if (share < thresholds::kSmallIo) continue;
      const bool read = row.operation == shard::IoOperation::kRead;
      if ((!read && row.operation != shard::IoOperation::kWrite) || row.count < thresholds::kManyCalls)
        continue;
      const double size = static_cast<double>(row.bytes) / static_cast<double>(row.count);
      if (size >= thresholds::kSmallIoBytes) continue;
      Finding& finding = builder_.add_by_share(Kind::kSmallIo, share);
      finding.gain_s = main_rank_s(row);
      finding.evidence.set(Key::kTime, main_s(row));
      add_io_evidence(analysis_, row, part_of(row.count, main_s(row), row.time_s), finding.evidence);
      finding.evidence.set(Key::kMeanBytes, size);
      finding.action = FindingAction::kBufferIo;
      set_ranks(finding, {row.max_rank});
      point_to(finding, row);
      return;
    }
  }

  // The calls are timed together, whatever thread or process of the rank makes them. While others than the
  // main thread are in them, the rank itself may well go on. Samples tell who was there.
  struct Callers {
    double main_ns = 0, others_ns = 0;
  };
  using Place = std::tuple<std::string_view, std::uint32_t, std::string_view>;  // file, line, function

  void find_callers() {
    alone_ = std::all_of(analysis_.ranks.begin(), analysis_.ranks.end(), is_alone);
    for (std::uint32_t path = 0; path < paths_.size(); ++path) {
      const std::uint32_t cell = builder_.time().cell(path, Category::kIo);
      const auto main_ns = static_cast<double>(builder_.time().main_ns(cell)),
                 others_ns = static_cast<double>(builder_.time().helper_ns(cell));
      if (main_ns + others_ns == 0 || is_wait_for_data(path)) continue;
      const shard::Frame* const place = paths_.frame(paths_.place(path));
      Callers& callers =
          callers_[place == nullptr ? Place()
                                    : Place(paths_.text(place->file), place->line, paths_.text(place->name))];
      callers.main_ns += main_ns;
      callers.others_ns += others_ns;
    }
  }

  // The part of the calls that main threads make.
  double main_part(const IoCallRow& row) const {
    if (alone_) return 1;
    const auto found = callers_.find(Place(row.file, row.line, row.function));
    if (found == callers_.end()) return 0;  // then it is not known
    const double part = found->second.main_ns / (found->second.main_ns + found->second.others_ns);
    return part >= kOfMainThreads ? 1 : part;
  }

  // The main threads' time in the calls: of all ranks, and of the rank with most time in them. Its main
  // thread may have less of its calls than others have of theirs.
  double main_s(const IoCallRow& row) const {
    return std::max(row.time_s * main_part(row), main_rank_s(row));
  }
  double main_rank_s(const IoCallRow& row) const {
    const double part = main_part(row);
    const auto rank = rank_of(row);
    if (rank == analysis_.ranks.end()) return part * row.rank_time_s;
    if (part == 1 || is_alone(*rank)) return std::min(row.rank_time_s, rank->recorded_s);
    return std::min(part * row.rank_time_s, of(rank->category_s, Category::kIo));
  }
  static bool is_alone(const RankInfo& rank) { return rank.threads <= 1 && rank.processes <= 1; }
  // How many of the calls are those that take `part_s` of `whole_s`.
  static std::uint64_t part_of(std::uint64_t count, double part_s, double whole_s) {
    if (part_s >= whole_s) return count;
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(count) * part_s / whole_s));
  }

  // The rank with most time in the calls; end() where nothing is recorded of it.
  std::vector<RankInfo>::const_iterator rank_of(const IoCallRow& row) const {
    const std::vector<RankInfo>& ranks = analysis_.ranks;
    const auto rank =
        std::lower_bound(ranks.begin(), ranks.end(), row.max_rank,
                         [](const RankInfo& r, std::int32_t number) { return r.rank < number; });
    return rank == ranks.end() || rank->rank != row.max_rank || rank->recorded_s <= 0 ? ranks.end() : rank;
  }

  // The share of its time that the rank with most time in the calls spends in them, without what it lacked a
  // processor there.
  double rank_share(const IoCallRow& row) const {
    const auto rank = rank_of(row);
    return rank == analysis_.ranks.end() ? 0 : rank_time_s(row) / rank->recorded_s;
  }

  double rank_time_s(const IoCallRow& row) const {
    const auto rank = rank_of(row);
    const double lacked = rank == analysis_.ranks.end()
                              ? 0
                              : std::min(lacked_s(row), of(rank->category_s, Category::kRunnable));
    return std::max(0.0, main_rank_s(row) - lacked);
  }

  // How long main threads of all ranks lacked a processor to return from the calls. Where several kinds of
  // calls are on one line, each has its part.
  double lacked_s(const IoCallRow& row) const {
    if (row.file.empty()) return 0;
    double on_line_s = 0, lacked_s = 0;
    for (const IoCallRow& other : analysis_.io->calls)
      if (other.line == row.line && other.function == row.function && other.file == row.file)
        on_line_s += other.time_s;
    for (std::uint32_t path = 1; path < paths_.size(); ++path)
      if (const double ns = builder_.main_ns(path, Category::kRunnable); ns > 0 && is_below(path, row))
        lacked_s += ns / 1e9;
    return on_line_s > 0 ? lacked_s * row.time_s / on_line_s : 0;
  }

  bool is_below(std::uint32_t path, const IoCallRow& row) const {
    for (; path != 0; path = paths_.parent(path)) {
      const shard::Frame* const frame = paths_.frame(path);
      if (frame != nullptr && frame->line == row.line && paths_.text(frame->name) == row.function &&
          paths_.text(frame->file) == row.file)
        return true;
    }
    return false;
  }

  static FindingAction action_for(const IoCallRow& row) {
    switch (row.operation) {
      case shard::IoOperation::kSync:
        return FindingAction::kFewerSyncs;
      case shard::IoOperation::kOpen:
      case shard::IoOperation::kClose:
      case shard::IoOperation::kMetadata:
        return FindingAction::kFewerFiles;
      default:
        return FindingAction::kFewerIo;
    }
  }

  static void point_to(Finding& finding, const IoCallRow& row) {
    finding.place.function = row.function;
    finding.place.file = row.file;
    finding.place.line = row.line;
    finding.place.kind = row.kind;
  }

  // Adds what the rank with most time in the calls spends in them.
  void add_who_calls(const IoCallRow& row, double share, Finding& finding) const {
    set_ranks(finding, {row.max_rank});
    finding.evidence.set(Key::kRankShare, share);
    const double call_s = main_rank_s(row);
    add_io_evidence(analysis_, row, part_of(row.rank_count, call_s, row.rank_time_s), finding.evidence);
    finding.evidence.set(Key::kCallTime, call_s);
    const auto rank = rank_of(row);
    if (rank == analysis_.ranks.end() || rank->threads != 1) return;
    // The calls are timed exactly, unlike the time by category.
    const double sampled = of(rank->category_s, Category::kIo) / rank->recorded_s;
    if (share - sampled >= kMissed) finding.evidence.set(Key::kSampledShare, sampled);
  }

  // Waits for what another process or thread has not sent yet. Larger pieces would not come sooner.
  [[nodiscard]] bool is_wait_for_data(std::uint32_t path) const {
    switch (off_cpu_of(paths_, path)) {
      case OffCpu::kPipe:
      case OffCpu::kNetwork:
      case OffCpu::kChild:
      case OffCpu::kJoin:
        return true;
      default:
        return false;
    }
  }

  // Calls of the program itself: not on the kernel's own files, nor of an MPI function, which is another
  // finding.
  static bool is_programs(const IoCallRow& row) { return !row.in_background && row.mpi.empty(); }

  FindingBuilder& builder_;
  Analysis& analysis_;
  const CallPaths& paths_;
  bool alone_ = false;  // all ranks are: main threads without other threads or processes
  std::map<Place, Callers> callers_;
};

}  // namespace

void find_io_costs(FindingBuilder& builder) { IoFindings(builder).find(); }

}  // namespace clusterprof::report
