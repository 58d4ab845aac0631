// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aggregator/team.hpp"

namespace clusterprof::cli {

// `clusterprof VERB ...` for everything but recording; returns the exit status. With a team, all its members
// call this with the same arguments: they merge together, and member 0 alone does all else and prints.
int analyze_main(int argc, char** argv, aggregator::Team* team);

}  // namespace clusterprof::cli
