// SPDX-License-Identifier: BSD-3-Clause

#include "report/format/names.hpp"
#include "report/json/json_writer.hpp"
#include "report/scale/scale.hpp"
#include "report/scale/scale_format.hpp"

namespace clusterprof::report {
namespace {

class ScaleDocument {
 public:
  ScaleDocument(const ScaleReport& report, const JsonSink& sink) : r_(report), out_(sink) {}

  void write() {
    out_.object([&] {
      out_("schema", "clusterprof.scale/1");
      out_("by", r_.of.by == ScaleBy::kSize ? "size=" + r_.of.name : noun_of(r_.of));
      out_("mode", r_.mode ? MaybeText(name_of(*r_.mode)) : MaybeText());
      out_("work_exponent", r_.work_exponent);
      out_("work", !r_.work_exponent ? MaybeText() : r_.work_is_instructions ? "instructions" : "useful_s");
      out_("confidence", kConfidence)("commands_differ", r_.commands_differ);
      runs();
      out_.rows("sizes", r_.sizes, [&](const ScaleRow& row) {
        out_("p", row.size)("runs", row.runs);
        sample("elapsed_s", row.elapsed_s);
        efficiencies(row);
      });
      out_("refused", refusal_or_null(r_.refused));
      out_.rows("predictions", r_.predictions, [&](const PredictedRow& row) {
        out_("p", row.size)("elapsed_s", row.elapsed_s.value)("low_s", row.elapsed_s.low);
        out_("high_s", row.elapsed_s.high)("speedup", row.speedup)("efficiency", row.efficiency);
      });
      losses();
      for (const auto& [name, rows] :
           {std::pair("functions", &r_.functions), {"lines", &r_.lines}, {"calls", &r_.calls}})
        out_.rows(name, *rows, [&](const GrowthRow& row) {
          subject(row.subject);
          growth(row);
        });
      out_.rows("regions", r_.regions, [&](const RegionScale& region) {
        out_("name", region.name)("file", nullptr)("line", nullptr);
        growth(region.growth);
        out_.rows("sizes", region.rows, [&](const ScaleRow& row) {
          out_("p", row.size)("runs", row.runs);
          sample("rank_time_s", row.elapsed_s);
          efficiencies(row);
        });
      });
    });
    out_.finish();
  }

 private:
  static MaybeText refusal_or_null(Refusal refusal) {
    return refusal == Refusal::kNone ? MaybeText() : MaybeText(name_of(refusal));
  }

  void sample(std::string_view name, const std::optional<Sample>& sample) {
    if (!sample) {
      out_(name, nullptr);
      return;
    }
    out_.object(name, [&] {
      out_("mean", sample->mean)("half_width", sample->half_width)("min", sample->min)("max", sample->max);
    });
  }

  void efficiencies(const ScaleRow& row) {
    out_("speedup", row.speedup)("global", row.global)("parallel", row.parallel);
    out_("load_balance", row.load_balance)("communication", row.communication);
    out_("serialization", row.serialization)("transfer", row.transfer)("computation", row.computation);
    out_("instructions", row.instructions)("ipc", row.ipc)("frequency", row.frequency);
    out_.object("lost", [&] {
      out_("computation", row.lost_to_computation)("load_balance", row.lost_to_imbalance);
      out_("serialization", row.lost_to_serialization)("transfer", row.lost_to_transfer);
      out_("communication", row.lost_to_communication);
    });
  }

  void runs() {
    out_.rows("runs", r_.runs.size(), [&](std::size_t r) {
      const ScaledRun& run = r_.runs[r];
      out_("id", run.facts.id)("run", run.facts.name)("p", run.size);
      out_("ranks", run.facts.ranks)("nodes", run.facts.nodes);
      out_("start_utc", utc_or_null(run.facts.start_utc_ns))("complete", run.facts.complete);
      out_("elapsed_s", run.elapsed_s);
      efficiencies(r_.run_rows[r]);
    });
  }

  void subject(const Subject& subject) {
    out_("name", text_or_null(subject.name))("file", text_or_null(subject.file));
    out_("line", or_null(subject.line))("kind", format::frame_kind_name(subject.kind));
    out_("module", text_or_null(subject.module))("function", text_or_null(subject.function));
  }

  void growth(const GrowthRow& row) {
    if (!row.law) {
      out_("law", nullptr);
    } else {
      out_.object("law", [&] {
        const Law& law = *row.law;
        out_("term", name_of(law.term))("exponent", law.exponent)("coefficient", law.coefficient);
        out_("constant", law.constant)("ci", std::vector<double>{law.least_exponent, law.most_exponent});
      });
    }
    out_("refused", refusal_or_null(row.refused))("loss_s", row.loss_s);
    by_size("rank_time_s", row.times);
    by_size("share_at", row.shares);
    out_("tenth_at", row.tenth_at)("tenth_is_measured", row.tenth_is_measured);
  }

  void by_size(std::string_view name, const std::vector<SizedValue>& values) {
    out_.object(name, [&] {
      for (const SizedValue& value : values) out_(size_text(value.size), value.value);
    });
  }

  void losses() {
    out_.rows("losses", r_.losses, [&](const LossRow& row) {
      out_("parent", row.parent == shard::kNone ? std::nullopt : std::optional(row.parent));
      subject(row.subject);
      out_("loss_s", row.loss_s)("half_width_s", row.half_width)("share", row.share);
      out_("smallest_s", row.smallest_s)("largest_s", row.largest_s);
    });
  }

  const ScaleReport& r_;
  JsonWriter out_;
};

}  // namespace

void render_scale_json(const ScaleReport& report, const JsonSink& sink) {
  ScaleDocument(report, sink).write();
}

}  // namespace clusterprof::report
