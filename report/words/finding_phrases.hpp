// SPDX-License-Identifier: BSD-3-Clause
// What the sentences of all findings are made of, and the functions that make them, one for each subject.
// findings.cpp puts them together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/analysis/analysis.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report::words {

// The first sentence, and what follows it. Each ends in a full stop.
struct FindingText {
  std::string first, more;
};

// Each returns nothing for a finding of another subject.
using MakeFindingText = std::optional<FindingText>(const Finding& finding, const format::ShortPaths& names);
MakeFindingText failure_text;      // ranks that failed or are missing
MakeFindingText mpi_text;          // waiting for other ranks, and communication
MakeFindingText computing_text;    // what ranks do by themselves: Python, memory, files, other waits
MakeFindingText openmp_text;       // OpenMP's threads
MakeFindingText machine_text;      // processors and memory of the nodes
MakeFindingText memory_text;       // who holds memory
MakeFindingText measurement_text;  // what the measurement lacks

// Phrases about one finding.
class FindingPhrases {
 public:
  FindingPhrases(const Finding& finding, const format::ShortPaths& names)
      : f_(finding), e_(finding.evidence), names_(names) {}

 protected:
  using Key = EvidenceKey;
  using Kind = FindingKind;

  // A damaged file may lack what findings of the kind have.
  [[nodiscard]] std::int32_t rank() const { return f_.rank.value_or(-1); }
  [[nodiscard]] SourceLocation site() const { return f_.site.value_or(SourceLocation()); }
  [[nodiscard]] std::string share() const { return format::percent(f_.share.value_or(0)); }
  [[nodiscard]] std::string time(Key key) const { return format::seconds(e_.number(key)); }
  [[nodiscard]] std::string count(Key key) const { return format::count(e_.number(key)); }
  // "OPENBLAS_NUM_THREADS=1", "torch.set_num_threads(1)". Empty: nothing is advised.
  [[nodiscard]] std::string pool_setting() const {
    if (!e_.has(Key::kAdvisedSize)) return {};
    const std::string name = format::printable(e_.name(Key::kPoolSize));
    const std::string size = std::to_string(whole(Key::kAdvisedSize));
    if (name.ends_with("_NUM_THREADS")) return name + "=" + size;
    if (name.starts_with("tbb::")) return name + "(max_allowed_parallelism, " + size + ")";
    return name + "(" + size + ")";
  }
  [[nodiscard]] int whole(Key key) const { return static_cast<int>(e_.number(key)); }
  // "node n0", "4 nodes, first n0"
  [[nodiscard]] std::string nodes() const;
  [[nodiscard]] std::string node() const;
  [[nodiscard]] std::string who() const;
  // " in solve() a.c:4"; of several ranks which of them that was.
  [[nodiscard]] std::string last_seen(std::string_view of_several) const;
  [[nodiscard]] std::string ends() const;
  // "; most in MPI_Allreduce <- step() train.py:88 (15.3 s)"
  [[nodiscard]] std::string most_in(std::string_view remark = {}) const;
  // "; 80.0 % of it in compute() train.py:57"
  [[nodiscard]] std::string of_it_in() const;
  [[nodiscard]] std::string comma_place() const;
  [[nodiscard]] FindingText of_rank_time(std::string_view verb, std::string_view remark = {}) const;

  const Finding& f_;
  const Evidence& e_;
  const format::ShortPaths& names_;
};

}  // namespace clusterprof::report::words
