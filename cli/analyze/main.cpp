// SPDX-License-Identifier: BSD-3-Clause
// libexec/clusterprof/analyze: `clusterprof VERB ...` for everything but recording. A program of
// its own so that recording does not load HDF5.
#include "cli/analyze/analyze.hpp"

int main(int argc, char** argv) { return clusterprof::cli::analyze_main(argc, argv, nullptr); }
