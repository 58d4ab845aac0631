// SPDX-License-Identifier: BSD-3-Clause
// What `--clusterprof[=OPTIONS]` and CLUSTERPROF_SLURM say: the options of `clusterprof record` without
// dashes, separated by commas, as the variables that say the same.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace clusterprof::slurm {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct Request {
  bool is_on = true;
  Variables variables;  // none of them twice
};

// "", "on", "off", "rate=1000,no-mpi,event=PAPI_TOT_INS,PAPI_TOT_CYC,ranks=0-3,8", "on,rate=500". The message
// of an error is one line.
Result<Request> parse_request(std::string_view text);

struct RecordOption {
  std::string_view name;
  enum Kind { kSwitch, kValue, kList } kind;
};
const std::vector<RecordOption>& record_options();

}  // namespace clusterprof::slurm
