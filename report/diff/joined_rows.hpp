// SPDX-License-Identifier: BSD-3-Clause
// Puts the rows of several runs that are about the same thing side by side.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "report/diff/diff.hpp"

namespace clusterprof::report {

struct JoinedColumn {
  Measured measured;
  std::vector<std::optional<double>> values;  // by run; empty: not known
};
struct JoinedRow {
  std::vector<const FactRow*> of_run;  // by run: the last of it that is meant; null: there is none
  std::vector<JoinedColumn> columns;

  [[nodiscard]] const FactRow& last() const;  // of the last run that has it
};

// The rows of one table in the order of first appearance. Of several rows of one run that are about the same
// thing (overloads in one file) the values are added up. They refer to the facts.
std::vector<JoinedRow> join_rows(std::span<const RunFacts* const> runs, DiffTable table);

}  // namespace clusterprof::report
