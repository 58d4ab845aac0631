// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <memory>
#include <utility>

#include "report/diff/diff.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report {
namespace {

using Values = std::vector<Measured>;

class Facts {
 public:
  Facts(const Analysis& analysis, TimeOf whose) : a_(analysis), of_main_(whose == TimeOf::kMainThreads) {}

  void fill(RunFacts& facts) {
    const RunInfo& run = a_.run;
    facts.id = run.id, facts.version = run.version, facts.region = run.region, facts.command = run.command;
    facts.commands = run.commands;
    facts.start_utc_ns = run.start_utc_ns, facts.ranks = run.ranks, facts.nodes = run.nodes;
    facts.complete = run.complete;
    facts.state = run.state, facts.as_of_s = run.as_of_s;
    if (run.rate_hz != 0 && run.sample_on.empty()) facts.sampling_period_s = 1.0 / run.rate_hz;
    const bool sampled = run.samples != 0, waits = a_.wait_quality.has_value();
    const bool by_line = a_.memory.has_value(), by_label = !a_.labelled_memory.spaces.empty();
    facts.zero_if_absent = {
        false, false,   false,    !a_.bottlenecks.empty(),    sampled, sampled, a_.mpi_watched, waits, false,
        false, by_line, by_label, by_label && !joins_labels()};
    facts.findings = a_.findings;
    facts.names = std::make_shared<const format::ShortPaths>(a_);
    this->run();
    efficiency();
    categories();
    bottlenecks();
    functions();
    lines();
    mpi_calls();
    waits_by_kind();
    counters();
    memory();
    labelled_memory();
    facts.rows = std::move(rows_);
  }

 private:
  void row(DiffTable table, Subject subject, Values values) {
    rows_.push_back({table, std::move(subject), std::move(values)});
  }
  static Subject named(std::string name) {
    Subject subject;
    subject.name = std::move(name);
    return subject;
  }
  static Measured seconds(std::string_view key, Seconds value, bool summed, bool sampled = false) {
    return {key, Unit::kSeconds, Better::kLower, summed, sampled, value};
  }
  static Measured amount(std::string_view key, Unit unit, std::optional<double> value) {
    return {key, unit, Better::kNeither, true, false, value};
  }

  // Of all ranks, or nothing: a sum that leaves some out would look complete.
  template <typename Of>
  std::optional<double> sum(const Of& of) const {
    double all = 0;
    for (const RankInfo& rank : a_.ranks) {
      const auto value = of(rank);
      if (!value) return {};
      all += static_cast<double>(*value);
    }
    return a_.ranks.empty() ? std::optional<double>() : all;
  }

  void run() {
    row(DiffTable::kRun, named("elapsed"), {seconds("value", a_.run.elapsed_s, false)});
    row(DiffTable::kRun, named("cpu"),
        {seconds("value", sum([](const RankInfo& r) { return r.cpu_s; }), true)});
    row(DiffTable::kRun, named("useful_mean"), {seconds("value", a_.mean_useful_s, false)});
    row(DiffTable::kRun, named("useful_max"), {seconds("value", a_.max_useful_s, false)});
    row(DiffTable::kRun, named("mpi_wait"), {seconds("value", a_.mpi_wait_s, true)});
    row(DiffTable::kRun, named("mpi_transfer"), {seconds("value", a_.mpi_transfer_s, true)});
    std::optional<double> rss;
    for (const RankInfo& rank : a_.ranks)
      if (rank.max_rss_bytes) rss = std::max(rss.value_or(0), static_cast<double>(*rank.max_rss_bytes));
    row(DiffTable::kRun, named("max_rss"), {{"value", Unit::kBytes, Better::kLower, false, false, rss}});
    std::optional<double> of_rank, of_node;
    if (a_.memory) {
      for (const HeldRank& rank : a_.memory->ranks)
        of_rank = std::max(of_rank.value_or(0), static_cast<double>(rank.peak_bytes));
      for (const HeldNode& node : a_.memory->nodes)
        of_node = std::max(of_node.value_or(0), static_cast<double>(node.peak_bytes));
    }
    row(DiffTable::kRun, named("memory_peak"),
        {{"value", Unit::kBytes, Better::kLower, false, false, of_rank}});
    row(DiffTable::kRun, named("node_memory_peak"),
        {{"value", Unit::kBytes, Better::kLower, false, false, of_node}});
    row(DiffTable::kRun, named("read"),
        {amount("value", Unit::kBytes, sum([](const RankInfo& r) { return r.read_bytes; }))});
    row(DiffTable::kRun, named("written"),
        {amount("value", Unit::kBytes, sum([](const RankInfo& r) { return r.write_bytes; }))});
  }

  void efficiency() {
    const Efficiency& e = a_.efficiency;
    for (const auto& [name, share] : {std::pair("parallel", e.parallel),
                                      {"load_balance", e.load_balance},
                                      {"communication", e.communication},
                                      {"serialization", e.serialization},
                                      {"transfer", e.transfer}})
      row(DiffTable::kEfficiency, named(name),
          {{"value", Unit::kShare, Better::kHigher, false, false, share}});
    if (!a_.openmp) return;
    const OpenMpEfficiency& openmp = a_.openmp->efficiency;
    for (const auto& [name, share] : {std::pair("hybrid", a_.openmp->hybrid_parallel),
                                      {"openmp", openmp.parallel},
                                      {"openmp_load_balance", openmp.load_balance},
                                      {"openmp_scheduling", openmp.scheduling},
                                      {"openmp_serialization", openmp.serialization}})
      row(DiffTable::kEfficiency, named(name),
          {{"value", Unit::kShare, Better::kHigher, false, false, share}});
  }

  void categories() {
    for (std::size_t c = 0; c < shard::kCategories; ++c) {
      const bool sampled = c != static_cast<std::size_t>(shard::Category::kMpi);
      row(DiffTable::kCategories, named(shard::kCategoryNames[c]),
          {seconds("value", a_.category_s[c], true, sampled)});
    }
  }

  void bottlenecks() {
    for (const Bottleneck& bottleneck : a_.bottlenecks)
      if (!bottleneck.rank && bottleneck.region.empty())
        row(DiffTable::kBottlenecks, named(bottleneck.kind),
            {{"value", Unit::kShare, Better::kNeither, false, false, bottleneck.share}});
  }

  void functions() {
    for (const FunctionRow& f : a_.functions) {
      if (of_main_ && f.main_total_s == 0) continue;
      Subject subject{f.name, f.file, f.module, "", "", f.line, 0, f.kind};
      const bool sampled = f.kind != shard::FrameKind::kMpi;
      row(DiffTable::kFunctions, std::move(subject),
          {seconds("self_s", of_main_ ? f.main_self_s : f.active_self_s, true, sampled),
           seconds("total_s", of_main_ ? f.main_total_s : f.active_total_s, true, sampled)});
    }
  }

  // Where functions start, by file and name.
  std::uint32_t start_of(const std::string& file, const std::string& function) {
    if (starts_.empty())
      for (const FunctionRow& f : a_.functions) starts_.try_emplace({f.file, f.name}, f.line);
    const auto found = starts_.find({file, function});
    return found == starts_.end() ? 0 : found->second;
  }

  void lines() {
    for (const LineRow& line : a_.lines) {
      if (of_main_ && line.main_total_s == 0) continue;
      Subject subject;
      subject.file = line.file, subject.function = line.function, subject.line = line.line;
      subject.start = start_of(line.file, line.function);
      row(DiffTable::kLines, std::move(subject),
          {seconds("self_s", of_main_ ? line.main_self_s : line.active_self_s, true, true),
           seconds("total_s", of_main_ ? line.main_total_s : line.active_total_s, true, true)});
    }
  }

  void mpi_calls() {
    for (const MpiCallRow& call : a_.mpi_calls) {
      Subject subject;
      subject.name = call.op;
      subject.file = call.file, subject.function = call.function, subject.line = call.line;
      subject.start = start_of(call.file, call.function);
      subject.kind = shard::FrameKind::kMpi;
      row(DiffTable::kMpiCalls, std::move(subject),
          {seconds("time_s", call.time_s, true), seconds("wait_s", call.wait_s, true),
           amount("count", Unit::kCount, static_cast<double>(call.count)),
           amount("sent_bytes", Unit::kBytes, static_cast<double>(call.sent_bytes)),
           amount("recv_bytes", Unit::kBytes, static_cast<double>(call.recv_bytes))});
    }
  }

  void waits_by_kind() {
    std::map<shard::WaitKind, std::pair<double, double>> kinds;
    for (const WaitRow& wait : a_.waits) {
      auto& [wait_s, count] = kinds[wait.kind];
      wait_s += wait.wait_s;
      count += static_cast<double>(wait.count);
    }
    for (const auto& [kind, of] : kinds)
      row(DiffTable::kWaits, named(shard::kWaitKindNames[static_cast<std::size_t>(kind)]),
          {seconds("wait_s", of.first, true), amount("count", Unit::kCount, of.second)});
  }

  void counters() {
    for (const CounterSpread& counter : a_.counter_spreads)
      if (counter.max_rank >= 0)
        row(DiffTable::kCounters, named(counter.name), {amount("value", Unit::kCount, counter.total)});
    for (const Derived& derived : a_.derived) {
      Subject subject = named(derived.name);
      subject.module = derived.unit;
      row(DiffTable::kDerived, std::move(subject),
          {{"value", Unit::kPlain, Better::kNeither, false, false, derived.value}});
    }
  }

  static Measured held(std::string_view key, std::uint64_t bytes, bool summed = true) {
    return {key, Unit::kBytes, Better::kLower, summed, false, static_cast<double>(bytes)};
  }

  void memory() {
    if (!a_.memory) return;
    for (const MemoryLine& line : a_.memory->lines) {
      if (line.alloc_bytes == 0) continue;
      Subject subject = named(shard::kMemoryDomainNames[static_cast<std::size_t>(line.domain)]);
      subject.file = line.file, subject.function = line.function, subject.line = line.line;
      subject.start = start_of(line.file, line.function);
      subject.kind = line.kind;
      row(DiffTable::kMemory, std::move(subject),
          {held("rank_peak_bytes", line.rank_peak_bytes), held("node_peak_bytes", line.node_peak_bytes),
           held("live_end_bytes", line.live_end_bytes), held("alloc_bytes", line.alloc_bytes)});
    }
  }

  // Then a label without a row may be among those that have one together.
  bool joins_labels() const {
    for (const MemorySpaceRow& space : a_.labelled_memory.spaces)
      for (const MemoryLabelRow& label : space.labels)
        if (label.name == shard::kOtherLabelsName) return true;
    return false;
  }

  void labelled_memory() {
    for (const MemorySpaceRow& space : a_.labelled_memory.spaces) {
      const std::uint64_t most = space.ranks.empty() ? 0 : space.ranks.front().peak_bytes;
      row(DiffTable::kMemorySpaces, named(space.name),
          {held("rank_max_bytes", most, false), held("node_max_bytes", space.node_peaks_bytes, false),
           held("peaks_bytes", space.peaks_bytes), held("live_end_bytes", space.live_end_bytes),
           held("alloc_bytes", space.alloc_bytes)});
      for (const MemoryLabelRow& label : space.labels) {
        Subject subject = named(label.name);
        subject.space = space.name;
        row(DiffTable::kMemoryLabels, std::move(subject),
            {held("peak_bytes", label.peak_bytes, false), held("space_peak_bytes", label.space_peak_bytes),
             held("live_end_bytes", label.live_end_bytes), held("alloc_bytes", label.alloc_bytes)});
      }
    }
  }

  const Analysis& a_;
  const bool of_main_;
  std::vector<FactRow> rows_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> starts_;
};

}  // namespace

RunFacts facts_of(const Analysis& analysis, std::string name, TimeOf whose) {
  RunFacts facts;
  facts.name = std::move(name);
  Facts(analysis, whose).fill(facts);
  return facts;
}

}  // namespace clusterprof::report
