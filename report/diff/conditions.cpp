// SPDX-License-Identifier: BSD-3-Clause
// Parses and judges the conditions of `clusterprof diff --fail-if`. Grammar and meaning: docs/diff.md.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/base_name.hpp"
#include "report/diff/diff.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report {
namespace {

struct UnitName {
  std::string_view name;
  Unit of;
  double factor;
};
constexpr UnitName kUnits[] = {
    {"ns", Unit::kSeconds, 1e-9},  {"us", Unit::kSeconds, 1e-6},  {"ms", Unit::kSeconds, 1e-3},
    {"s", Unit::kSeconds, 1},      {"min", Unit::kSeconds, 60},   {"h", Unit::kSeconds, 3600},
    {"pp", Unit::kShare, 0.01},    {"B", Unit::kBytes, 1},        {"kB", Unit::kBytes, 1e3},
    {"MB", Unit::kBytes, 1e6},     {"GB", Unit::kBytes, 1e9},     {"TB", Unit::kBytes, 1e12},
    {"KiB", Unit::kBytes, 0x1p10}, {"MiB", Unit::kBytes, 0x1p20}, {"GiB", Unit::kBytes, 0x1p30},
    {"k", Unit::kCount, 1e3},      {"M", Unit::kCount, 1e6},      {"G", Unit::kCount, 1e9}};

struct Metric {
  std::string_view name;
  DiffTable table;
  std::string_view key;  // of the value
  Unit unit;
  bool takes_name;  // "function:NAME"
  Better better = Better::kLower;
};
constexpr Metric kMetrics[] = {
    {"elapsed", DiffTable::kRun, "value", Unit::kSeconds, false},
    {"cpu", DiffTable::kRun, "value", Unit::kSeconds, false},
    {"useful_mean", DiffTable::kRun, "value", Unit::kSeconds, false},
    {"useful_max", DiffTable::kRun, "value", Unit::kSeconds, false},
    {"mpi_wait", DiffTable::kRun, "value", Unit::kSeconds, false},
    {"mpi_transfer", DiffTable::kRun, "value", Unit::kSeconds, false},
    {"max_rss", DiffTable::kRun, "value", Unit::kBytes, false},
    {"memory_peak", DiffTable::kRun, "value", Unit::kBytes, false},
    {"node_memory_peak", DiffTable::kRun, "value", Unit::kBytes, false},
    {"read", DiffTable::kRun, "value", Unit::kBytes, false, Better::kNeither},
    {"written", DiffTable::kRun, "value", Unit::kBytes, false, Better::kNeither},
    {"parallel", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"load_balance", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"communication", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"serialization", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"transfer", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"hybrid", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"openmp", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"openmp_load_balance", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"openmp_scheduling", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"openmp_serialization", DiffTable::kEfficiency, "value", Unit::kShare, false, Better::kHigher},
    {"python", DiffTable::kCategories, "value", Unit::kSeconds, false},
    {"native", DiffTable::kCategories, "value", Unit::kSeconds, false},
    {"system", DiffTable::kCategories, "value", Unit::kSeconds, false},
    {"mpi", DiffTable::kCategories, "value", Unit::kSeconds, false},
    {"io", DiffTable::kCategories, "value", Unit::kSeconds, false},
    {"idle", DiffTable::kCategories, "value", Unit::kSeconds, false},
    {"runnable", DiffTable::kCategories, "value", Unit::kSeconds, false},
    {"bottleneck", DiffTable::kBottlenecks, "value", Unit::kShare, true, Better::kNeither},
    {"function", DiffTable::kFunctions, "self_s", Unit::kSeconds, true},
    {"total", DiffTable::kFunctions, "total_s", Unit::kSeconds, true},
    {"line", DiffTable::kLines, "self_s", Unit::kSeconds, true},
    {"wait", DiffTable::kWaits, "wait_s", Unit::kSeconds, true},
    {"counter", DiffTable::kCounters, "value", Unit::kCount, true, Better::kNeither},
    {"derived", DiffTable::kDerived, "value", Unit::kPlain, true, Better::kNeither}};

const Metric* metric_of(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                         [&](const Metric& metric) { return metric.name == name; });
  return found == std::end(kMetrics) ? nullptr : found;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Condition>> parse() {
    std::vector<Condition> conditions;
    do {
      Result<Condition> condition = parse_condition();
      if (!condition) return condition.error();
      conditions.push_back(std::move(condition.value()));
      blanks();
    } while (take(",") || take_word("or"));
    if (at_ != text_.size())
      return Error{fmt::format("there is {} behind {}", text_.substr(at_), conditions.back().text)};
    return conditions;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  bool take_word(std::string_view what) {
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with(what) && rest.size() > what.size() && rest[what.size()] == ' ' && take(what);
  }
  // A word that may be the last.
  bool take_last_word(std::string_view what) {
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with(what)) return false;
    const char behind = rest.size() > what.size() ? rest[what.size()] : ' ';
    return (behind == ' ' || behind == ',') && take(what);
  }
  template <typename Belongs>
  std::string_view take_while(const Belongs& belongs) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  Result<Condition> parse_condition() {
    blanks();
    const std::size_t begin = at_;
    Condition condition;
    condition.metric = take_while([](char c) { return is_letter(c) || c == '_'; });
    const Metric* const metric = metric_of(condition.metric);
    if (metric == nullptr)
      return Error{condition.metric.empty()
                       ? fmt::format("a metric is missing before \"{}\"", text_.substr(begin))
                       : fmt::format("there is no metric {}", condition.metric)};
    if (take(":") != metric->takes_name)
      return Error{metric->takes_name ? fmt::format("{0} needs a name: {0}:NAME", metric->name)
                                      : fmt::format("{} takes no name", metric->name)};
    if (metric->takes_name)
      if (const Result<void> named = parse_name(condition); !named) return named.error();
    blanks();
    if (take_last_word("regressed")) {
      if (const Result<void> regressed = parse_regression(*metric, condition); !regressed)
        return regressed.error();
    } else {
      if (const Result<void> compared = parse_operator(condition); !compared) return compared.error();
      if (const Result<void> valued = parse_value(*metric, condition); !valued) return valued.error();
    }
    condition.text = text_.substr(begin, at_ - begin);
    return condition;
  }

  Result<void> parse_name(Condition& condition) {
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const char quote = text_[at_++];
      condition.name = take_while([quote](char c) { return c != quote; });
      if (at_ == text_.size()) return Error{"a name's closing quote is missing"};
      ++at_;
    } else {
      const std::size_t name_begin = at_;
      std::string_view name = take_while([](char c) { return c != '<' && c != '>' && c != ','; });
      if (const std::size_t word = name.find(" regressed"); word != std::string_view::npos) {
        name = name.substr(0, word);
        at_ = name_begin + word;
      }
      while (name.ends_with(' ')) name.remove_suffix(1);
      condition.name = name;
    }
    if (condition.name.empty()) return Error{fmt::format("{}: has no name behind it", condition.metric)};
    return {};
  }

  // "regressed", which is taken, "by 3%".
  Result<void> parse_regression(const Metric& metric, Condition& condition) {
    if (metric.better == Better::kNeither)
      return Error{fmt::format("{} cannot regress: neither more nor less of it is better", metric.name)};
    condition.of = Condition::Of::kRegression;
    condition.value = kLeastRegression;
    const std::size_t end = at_;
    blanks();
    if (!take_word("by")) {
      at_ = end;
      return {};
    }
    blanks();
    double number = 0;
    const auto read =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), number, std::chars_format::fixed);
    at_ = static_cast<std::size_t>(read.ptr - text_.data());
    if (read.ec != std::errc() || !std::isfinite(number) || number < 0 || !take("%"))
      return Error{fmt::format("{} regressed by how many per cent?", metric.name)};
    condition.value = number / 100;
    return {};
  }

  Result<void> parse_operator(Condition& condition) {
    using Op = Condition::Op;
    if (take(">="))
      condition.op = Op::kAtLeast;
    else if (take(">"))
      condition.op = Op::kAbove;
    else if (take("<="))
      condition.op = Op::kAtMost;
    else if (take("<"))
      condition.op = Op::kBelow;
    else
      return Error{fmt::format("{} has to be followed by >, >=, <, <= or regressed", condition.metric)};
    return {};
  }

  Result<void> parse_value(const Metric& metric, Condition& condition) {
    blanks();
    const bool minus = at_ < text_.size() && text_[at_] == '-';
    const bool is_signed = minus || (at_ < text_.size() && text_[at_] == '+');
    if (is_signed) ++at_;
    double number = 0;
    const char* const end = text_.data() + text_.size();
    const auto read = std::from_chars(text_.data() + at_, end, number, std::chars_format::fixed);
    if (read.ec != std::errc() || !std::isfinite(number) || number < 0)
      return Error{fmt::format("{} is compared with no number", condition.metric)};
    at_ = static_cast<std::size_t>(read.ptr - text_.data());
    blanks();
    const std::size_t before = at_;
    std::string_view unit = take("%") ? "%" : take_while(is_letter);
    if (unit == "or") at_ = before, unit = "";
    if (minus) number = -number;

    condition.of = is_signed ? Condition::Of::kChange : Condition::Of::kLevel;
    if (unit == "%") {
      condition.value = number / 100;
      if (is_signed)
        condition.of = Condition::Of::kRelativeChange;
      else if (metric.unit != Unit::kShare)
        return Error{fmt::format("{} is no share; a change by so many per cent has a sign: +{}%", metric.name,
                                 number)};
      return {};
    }
    if (unit.empty()) {
      if (metric.unit == Unit::kSeconds || metric.unit == Unit::kShare)
        return Error{fmt::format("{} is compared with a number without unit ({})", metric.name,
                                 metric.unit == Unit::kShare ? "%, pp" : "s, ms, %")};
      condition.value = number;
      return {};
    }
    const auto* const known = std::find_if(std::begin(kUnits), std::end(kUnits),
                                           [&](const UnitName& name) { return name.name == unit; });
    if (known == std::end(kUnits)) return Error{fmt::format("there is no unit {}", unit)};
    if (known->of != metric.unit) return Error{fmt::format("{} is not measured in {}", metric.name, unit)};
    condition.value = number * known->factor;
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_meant(const Metric& metric, const Subject& subject, std::string_view name) {
  if (metric.table == DiffTable::kLines) {
    const std::string number = fmt::format(":{}", subject.line);
    if (!name.ends_with(number)) return false;
    const std::string_view file = name.substr(0, name.size() - number.size());
    return file == subject.file || file == base_name(subject.file);
  }
  if (!metric.takes_name) return subject.name == metric.name;
  if (subject.name == name) return true;
  if (metric.table != DiffTable::kFunctions) return false;
  const std::string label = format::function_label(subject.name, subject.kind);
  return label == name ||
         (label.ends_with("()") && std::string_view(label).substr(0, label.size() - 2) == name);
}

bool compares(Condition::Op op, double value, double with) {
  switch (op) {
    case Condition::Op::kAbove:
      return value > with;
    case Condition::Op::kAtLeast:
      return value >= with;
    case Condition::Op::kBelow:
      return value < with;
    case Condition::Op::kAtMost:
      return value <= with;
  }
  return false;
}

// What a condition is about, of B's mean or of one of its runs. `difference`, `relative`: from A's mean.
struct Compared {
  double b = 0;
  std::optional<double> difference, relative;
};

// Empty: A does not have it, which the condition needs.
std::optional<bool> fulfils(const Condition& condition, Better better, const Compared& compared) {
  if (condition.of == Condition::Of::kLevel) return compares(condition.op, compared.b, condition.value);
  if (!compared.difference) return {};
  double change = *compared.difference;
  if (condition.of == Condition::Of::kRegression) {
    const bool worse = change != 0 && (change > 0) == (better == Better::kLower);
    return worse && (!compared.relative || std::abs(*compared.relative) >= condition.value);
  }
  if (condition.of == Condition::Of::kRelativeChange) {
    const double from_nothing =
        change == 0 ? 0 : std::copysign(std::numeric_limits<double>::infinity(), change);
    change = compared.relative.value_or(from_nothing);
  }
  return compares(condition.op, change, condition.value);
}

Compared compared_with(const std::optional<Sample>& a, double b) {
  if (!a) return {b, {}, {}};
  const double difference = b - a->mean;
  return {b, difference, a->mean == 0 ? std::optional<double>() : difference / std::abs(a->mean)};
}

void count_runs(Judgement& judgement, Better better) {
  const Comparison& c = judgement.comparison;
  judgement.b_runs = c.b_values.size();
  for (const double b : c.b_values)
    if (fulfils(judgement.condition, better, compared_with(c.a, b)).value_or(false)) ++judgement.b_runs_alike;
}

// Whether the interval tells how much runs vary. That of counted samples is narrower than runs differ, so
// nearly every function would be called regressed.
bool tells_noise(const Comparison& c) { return c.significant && !c.by_sampling; }

void decide(Judgement& judgement, Better better, bool any_difference) {
  const Comparison& c = judgement.comparison;
  if (!c.b) return;
  judgement.holds = fulfils(judgement.condition, better, {c.b->mean, c.difference, c.relative});
  if (!judgement.holds) return;
  count_runs(judgement, better);
  switch (judgement.condition.of) {
    case Condition::Of::kLevel: {
      const bool agree = judgement.b_runs_alike == 0 || judgement.b_runs_alike == judgement.b_runs;
      if (any_difference || agree || !c.b->half_width) return;
      if (std::abs(c.b->mean - judgement.condition.value) > *c.b->half_width) return;
      judgement.holds = false;
      judgement.undecided = Undecided::kRunsDisagree;
      return;
    }
    case Condition::Of::kRegression:
      if (!*judgement.holds) return;
      if (tells_noise(c) && *c.significant) return;
      judgement.holds = false;
      if (tells_noise(c))
        judgement.within_noise = true;
      else
        judgement.undecided = c.by_sampling ? Undecided::kOnlySampling : Undecided::kNoiseUnknown;
      return;
    case Condition::Of::kRelativeChange:
    case Condition::Of::kChange:
      if (!*judgement.holds || any_difference || c.significant.value_or(true)) return;
      judgement.holds = false;
      judgement.within_noise = true;
  }
}

bool is_tested(const Judgement& judgement, bool any_difference) {
  if (!judgement.comparison.error || judgement.condition.of == Condition::Of::kLevel) return false;
  if (judgement.condition.of == Condition::Of::kRegression) return !judgement.comparison.by_sampling;
  return !any_difference;
}

// So many intervals are each so much wider that all of them together are as certain as one.
void widen_together(std::vector<Judgement>& judgements, bool any_difference) {
  const auto tested = std::count_if(judgements.begin(), judgements.end(), [&](const Judgement& judgement) {
    return is_tested(judgement, any_difference);
  });
  for (Judgement& judgement : judgements) {
    if (!is_tested(judgement, any_difference)) continue;
    Comparison& c = judgement.comparison;
    c.half_width = c.error->half_width(1 - (1 - kConfidence) / static_cast<double>(tested));
    c.significant = std::abs(*c.difference) > *c.half_width;
  }
}

}  // namespace

Result<std::vector<Condition>> parse_conditions(std::string_view expression) {
  return Parser(expression).parse();
}

std::vector<Judgement> judge(const Diff& diff, const std::vector<Condition>& conditions,
                             bool any_difference) {
  std::vector<Judgement> result;
  std::vector<Better> better;
  for (const Condition& condition : conditions) {
    const Metric* const metric = metric_of(condition.metric);
    const std::size_t before = result.size();
    if (metric != nullptr)
      for (const ComparedRow& row : diff.of(metric->table)) {
        if (!is_meant(*metric, row.subject, condition.name)) continue;
        for (const ComparedValue& value : row.values) {
          if (value.key != metric->key) continue;
          Judgement& judgement = result.emplace_back();
          judgement.condition = condition;
          judgement.key = value.key;
          judgement.unit = value.unit;
          judgement.per_rank = value.per_rank.has_value();
          judgement.comparison = value.fair();
          if (metric->table == DiffTable::kFunctions) {
            judgement.subject = format::function_label(row.subject.name, row.subject.kind);
            const std::string_view file =
                base_name(row.subject.file.empty() ? row.subject.module : row.subject.file);
            if (!file.empty()) judgement.subject.append(" ").append(file);
          }
          judgement.file = row.subject.file;
          judgement.line = row.subject.line;
          better.push_back(value.better);
        }
      }
    if (result.size() == before) {
      result.emplace_back().condition = condition;
      better.push_back(Better::kNeither);
    }
  }
  widen_together(result, any_difference);
  for (std::size_t i = 0; i < result.size(); ++i) decide(result[i], better[i], any_difference);
  return result;
}

}  // namespace clusterprof::report
