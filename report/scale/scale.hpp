// SPDX-License-Identifier: BSD-3-Clause
// Runs of one program at several sizes: how efficient each is, which parts of the program grow and by what
// law, and what larger runs would take. Definitions: docs/scaling.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/diff/diff.hpp"
#include "report/report.hpp"
#include "report/scale/growth_law.hpp"

namespace clusterprof::report {

enum class ScaleBy : std::uint8_t { kRanks = 0, kNodes, kThreads, kSize };

// What the size of a run is. `name`: of kSize, the option or setting on the command line that has it.
struct SizeOf {
  ScaleBy by = ScaleBy::kRanks;
  std::string name;
};
// "ranks", "nodes", "threads", "size=NAME"; empty: it is none of these.
std::optional<SizeOf> parse_size_of(std::string_view text);
// "ranks", "steps"
std::string noun_of(const SizeOf& of);
// Empty: the run does not have it.
std::optional<double> size_of(const Analysis& analysis, const SizeOf& of);

// kStrong: the work of all ranks together is the same; kWeak: that of each rank is.
enum class ScaleMode : std::uint8_t { kStrong = 0, kWeak };
constexpr const char* name_of(ScaleMode mode) { return mode == ScaleMode::kStrong ? "strong" : "weak"; }

// What scaling efficiencies are made of, of one run or of a region in it.
struct ScaleMeasures {
  Efficiency efficiency;
  Seconds mean_useful_s;                       // a rank's
  std::optional<double> instructions, cycles;  // outside MPI, of all ranks
};

struct ScaledRegion {
  std::string name;   // "epoch/step"; "solve [NVTX]", with who names it, where that is not the program
  double time_s = 0;  // of all ranks
  ScaleMeasures measures;
};

// What is kept of a run.
struct ScaledRun {
  RunFacts facts;
  double size = 0;
  double processors = 0;  // ranks, and with kThreads their threads, too
  double elapsed_s = 0;
  double rank_seconds = 0;  // of all ranks
  Seconds mpi_s;            // of all ranks
  ScaleMeasures measures;
  std::vector<ScaledRegion> regions;
  std::vector<CallTreeRow> call_tree;
};
ScaledRun scaled_run(const Analysis& analysis, std::string name, const SizeOf& of, double size);

// Shares of 1, of one run or of all of one size, relative to the runs of the smallest size. docs/scaling.md.
struct ScaleRow {
  double size = 0;
  std::size_t runs = 0;
  std::optional<Sample> elapsed_s;
  std::optional<double> speedup;  // of weak scaling: of the work done in the same time
  std::optional<double> global, parallel, load_balance, communication, serialization, transfer, computation;
  std::optional<double> instructions, ipc, frequency;  // whose product is `computation`
  // Shares of the time of all processors, with what is left over: `global`.
  std::optional<double> lost_to_computation, lost_to_imbalance, lost_to_serialization, lost_to_transfer,
      lost_to_communication;  // the last one where its two parts are not known
};

struct SizedValue {
  double size = 0;
  std::optional<double> value;
};

// A function, line, call site or region with its time per rank.
struct GrowthRow {
  Subject subject;
  std::vector<SizedValue> times;  // means by size; seconds
  std::optional<Law> law;
  Refusal refused = Refusal::kNone;
  // How much longer a rank takes at the largest size than ideal scaling from the smallest one would allow.
  double loss_s = 0;
  std::vector<SizedValue> shares;  // of the run, measured and predicted
  std::optional<double> tenth_at;  // the size from which it takes a tenth of the run; empty: from none, or
                                   // from the smallest one on
  bool tenth_is_measured = false;  // it lies among the sizes that were run
};

// A call path with what scaling loses in it and in what it calls.
struct LossRow {
  std::uint32_t parent = shard::kNone;  // index into ScaleReport::losses
  std::uint32_t depth = 0;
  Subject subject;
  Fold fold = Fold::kNone;
  double loss_s = 0;                     // of a rank, at the largest size
  double share = 0;                      // of a rank's time at the largest size
  double smallest_s = 0, largest_s = 0;  // of a rank, at the smallest and the largest size
  std::optional<double> half_width;      // of loss_s: of its confidence interval by the runs' differences
};

struct PredictedRow {
  double size = 0;
  Prediction elapsed_s;
  // As in ScaleRow, with as many processors for each node or thread as at the largest size that was run;
  // efficiency: of the speed-up, relative to the smallest size.
  std::optional<double> speedup, efficiency;
};

struct RegionScale {
  std::string name;
  std::vector<ScaleRow> rows;  // as ScaleReport::sizes, `elapsed_s` is a rank's time in it
  GrowthRow growth;
};

struct ScaleReport {
  SizeOf of;
  std::optional<ScaleMode> mode;  // empty: sizes are not numbers of processors
  // The work of all processors grows as this power of their number.
  std::optional<double> work_exponent;
  bool work_is_instructions = false;
  bool commands_differ = false;
  std::vector<ScaledRun> runs;     // by size, then start; without what only the rest is made of
  std::vector<ScaleRow> run_rows;  // by run
  std::vector<ScaleRow> sizes;
  Refusal refused = Refusal::kNone;  // why nothing is predicted
  std::vector<PredictedRow> predictions;
  std::vector<LossRow> losses;                     // callers before what they call; largest first
  std::vector<GrowthRow> functions, lines, calls;  // by loss_s, largest first
  std::vector<RegionScale> regions;
};

// No law is believed for sizes above so many times the largest one that was run.
inline constexpr double kFarthest = 64;

// `predict`: sizes to predict; empty: two, four and eight times the largest. Needs two different sizes.
ScaleReport scale(std::vector<ScaledRun> runs, const SizeOf& of, std::vector<double> predict);

// --- renderers -------------------------------------------------------------------------------

std::string render_scale_text(const ScaleReport& report, const TextOptions& options);
// clusterprof.scale/1: report/json/scale.schema.json.
void render_scale_json(const ScaleReport& report, const JsonSink& sink);
// A page of its own, without scripts, that needs nothing else.
std::string render_scale_html(const ScaleReport& report);

}  // namespace clusterprof::report
