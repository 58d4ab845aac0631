// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/check.hpp"

#include <algorithm>

namespace clusterprof::cli::doctor {

std::string_view name_of(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kWarn:
      return "warn";
    case Status::kFail:
      break;
  }
  return "fail";
}

Status verdict_of(const std::vector<Check>& checks) {
  Status worst = Status::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.status);
  return worst;
}

}  // namespace clusterprof::cli::doctor
