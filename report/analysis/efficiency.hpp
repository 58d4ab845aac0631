// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// Whether an efficiency is above 1, which only measuring errors can cause.
[[nodiscard]] inline bool is_measuring_error(const std::optional<double>& share) {
  return share.value_or(0) > 1;
}

// The names of efficiencies above 1.
[[nodiscard]] inline std::vector<std::string> above_one(const Efficiency& efficiency) {
  std::vector<std::string> names;
  const auto look = [&](const char* name, const std::optional<double>& share) {
    if (is_measuring_error(share)) names.emplace_back(name);
  };
  look("parallel", efficiency.parallel);
  look("load_balance", efficiency.load_balance);
  look("communication", efficiency.communication);
  look("serialization", efficiency.serialization);
  look("transfer", efficiency.transfer);
  return names;
}

}  // namespace clusterprof::report
