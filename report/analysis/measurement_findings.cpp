// SPDX-License-Identifier: BSD-3-Clause
// Findings on the measurement itself: what was lost, and where it is not exact.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "report/analysis/finding_groups.hpp"

namespace clusterprof::report {
namespace {

using Key = EvidenceKey;
using Kind = FindingKind;

class MeasurementFindings {
 public:
  explicit MeasurementFindings(FindingBuilder& builder) : builder_(builder), analysis_(builder.analysis()) {}

  void find() {
    const auto samples = static_cast<double>(analysis_.run.samples);
    double threads = 0, messages = 0, io_calls = 0, mpi_calls = 0, regions = 0;
    for (const RankInfo& rank : analysis_.ranks) threads += rank.threads;
    for (const MpiCallRow& call : analysis_.mpi_calls) mpi_calls += static_cast<double>(call.count);
    for (const shard::MatrixCell& cell : analysis_.matrix) messages += static_cast<double>(cell.messages);
    for (const RegionRow& region : analysis_.regions) regions += static_cast<double>(region.count);
    if (analysis_.io)
      for (const IoCallRow& call : analysis_.io->calls) io_calls += static_cast<double>(call.count);
    lost(Kind::kSamplesLost, {"ring_full", "reentrant", "fault_in_walk"}, samples);
    lost(Kind::kThreadsNotSampled, {"no_thread_slot", "timer_failed", "signal_blocked"}, threads);
    lost(Kind::kIoNotCounted, {"io_site_table_full", "io_file_table_full", "io_path_room_full"}, io_calls,
         true);
    lost(Kind::kMpiPathsLost, {"path_arena_full", "mpi_site_table_full"}, mpi_calls, true);
    lost(Kind::kMpiPeersLost, {"mpi_peer_table_full"}, messages);
    lost(Kind::kRegionsLost, {"region_table_full", "region_mismatch"}, regions);
    if (analysis_.wait_quality)
      lost(Kind::kMpiEventsLost, {"mpi_event_ring_full"},
           static_cast<double>(analysis_.wait_quality->events));
    // Throttled threads have fewer samples, each of which stands for more time.
    lost(Kind::kThrottled, {kThrottled}, samples);
    const Quality& quality = analysis_.quality;
    if (quality.recording_share.value_or(0) >= thresholds::kRecordingCost &&
        quality.recording_s >= thresholds::kRecordingCost_s)
      recording_cost(quality, mpi_calls);
    if (const double s = share_of(static_cast<double>(quality.truncated), samples);
        s >= thresholds::kTruncated)
      builder_.add(Kind::kCallPathsCut, Severity::kInfo, s);
    if (const double s =
            share_of(static_cast<double>(quality.merges_failed), static_cast<double>(quality.merges_tried));
        s >= thresholds::kMergeFailed)
      builder_.add(Kind::kFramesNotJoined, Severity::kInfo, s);
    if (analysis_.wait_quality) waiting_quality(*analysis_.wait_quality);
    if (samples == 0 && !analysis_.ranks.empty())
      builder_.add(Kind::kNoSamples, Severity::kInfo).evidence.set(Key::kCalls, mpi_calls);
  }

 private:
  static double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

  // Adds a finding if a noticeable share of something was lost, by reasons of drops. `kept`: how much was not
  // lost. `counted`: what was lost is counted in `kept` all the same, without its details.
  void lost(Kind kind, std::initializer_list<std::string_view> reasons, double kept, bool counted = false) {
    double lost = 0;
    for (const std::string_view reason : reasons)
      if (const auto found = analysis_.run.dropped.find(std::string(reason));
          found != analysis_.run.dropped.end())
        lost += static_cast<double>(found->second);
    if (counted) {
      lost = std::min(lost, kept);
      kept -= lost;
    }
    const double share = share_of(lost, kept + lost);
    if (share < thresholds::kDropped || lost < thresholds::kMinLost) return;
    Finding& finding = builder_.add(kind, Severity::kInfo, share);
    finding.evidence.set(Key::kLost, lost);
    finding.evidence.set(Key::kOf, kept + lost);
    if (kind == Kind::kThrottled) finding.action = FindingAction::kLowerRate;
  }

  // Programs that ask MPI millions of times whether something is there run longer for being recorded. Whoever
  // reads the times of these calls must know.
  void recording_cost(const Quality& quality, double mpi_calls) {
    Finding& finding = builder_.add(Kind::kRecordingCost, Severity::kInfo, quality.recording_share);
    finding.evidence.set(Key::kTime, quality.recording_s);
    finding.evidence.set(Key::kCalls, mpi_calls);
    const auto most =
        std::max_element(analysis_.mpi_calls.begin(), analysis_.mpi_calls.end(),
                         [](const MpiCallRow& a, const MpiCallRow& b) { return a.count < b.count; });
    if (most == analysis_.mpi_calls.end()) return;
    finding.place.op = most->op;
    finding.place.function = most->function;
    finding.place.file = most->file;
    finding.place.line = most->line;
  }

  void waiting_quality(const WaitQuality& quality) {
    if (quality.event_level > 0)
      builder_.add(Kind::kWaitsSampled, Severity::kInfo)
          .evidence.set(Key::kOneIn, std::uint64_t{1} << std::min(quality.event_level, 63u));
    const auto share = [](std::uint64_t part, std::uint64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const std::uint64_t unreceived = std::min(quality.unreceived_messages, quality.unmatched_messages);
    const double messages = share(quality.unmatched_messages - unreceived, quality.messages);
    const double collectives = share(quality.unmatched_collectives, quality.collectives);
    if (const double s = std::max(messages, collectives); s >= thresholds::kUnmatched) {
      Finding& finding = builder_.add(Kind::kUnmatched, Severity::kInfo, s);
      finding.evidence.set(Key::kMessages, messages);
      finding.evidence.set(Key::kCollectives, collectives);
    }
    Evidence clocks;
    const bool early =
        quality.clock_violations != 0 && quality.worst_violation_s >= thresholds::kClockError_s;
    if (early) {
      clocks.set(Key::kViolations, static_cast<double>(quality.clock_violations));
      clocks.set(Key::kWorstViolation, quality.worst_violation_s);
    }
    if (analysis_.nodes.size() > 1) {
      if (!quality.clock_error_s)
        clocks.set(Key::kClocksApart, 1.0);
      else if (early || *quality.clock_error_s >= thresholds::kClockError_s)
        clocks.set(Key::kClockError, *quality.clock_error_s);
    }
    if (!clocks.entries.empty()) builder_.add(Kind::kClocks, Severity::kInfo).evidence = std::move(clocks);
  }

  FindingBuilder& builder_;
  Analysis& analysis_;
};

}  // namespace

void find_measurement_errors(FindingBuilder& builder) { MeasurementFindings(builder).find(); }

}  // namespace clusterprof::report
