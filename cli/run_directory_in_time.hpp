// SPDX-License-Identifier: BSD-3-Clause
// Agrees on a run directory for commands that are to run whatever becomes of the recording: while a file
// server does not answer, only a child process waits for it.
#pragma once

#include <chrono>
#include <functional>

#include "formats/run/run_directory.hpp"

namespace clusterprof::cli {

// Returns what `agree` returns, which is called in a child process and given up after `patience`. `place`:
// the directory that is named in the error then. If no child process can be made, `agree` is called here. The
// program that this process becomes does not find the child, even if it cannot be killed: it ends without a
// signal, so waiting for any child does not return it.
Result<RunDirectory> in_time(std::chrono::milliseconds patience, const std::string& place,
                             const std::function<Result<RunDirectory>()>& agree);

}  // namespace clusterprof::cli
