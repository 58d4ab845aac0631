// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof start RUN` and `clusterprof stop RUN`: ask the collectors of a running run to open or close a
// window of recording, and say what they did.
#pragma once

#include <string>

#include "formats/run/run_control.hpp"

namespace clusterprof::cli {

struct ControlOptions {
  std::string run;
  std::string lasting;  // --for; empty: until it is stopped
};

// The exit status: 0 if any node did it.
int start_recording(const ControlOptions& options);
int stop_recording(const ControlOptions& options);

// `clusterprof detach RUN`: lets go the processes that `clusterprof attach` has attached to, on all nodes.
// Waits until that is done and the run is written.
int detach(const ControlOptions& options);

}  // namespace clusterprof::cli
