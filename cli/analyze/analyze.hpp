// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

#include "aggregator/team.hpp"
#include "cli/analyze/top.hpp"

namespace CLI {
class App;
}

namespace clusterprof::cli {

// `clusterprof VERB ...` for everything but recording; returns the exit status. With a team, all its members
// call this with the same arguments: they merge together, and member 0 alone does all else and prints.
int analyze_main(int argc, char** argv, aggregator::Team* team);

// What it understands, for manual pages and completion. The definitions live no longer than the call.
void with_verbs(const std::function<void(CLI::App&)>& use);
// `clusterprof tui`, which is a program of its own.
void define_browser(CLI::App& app, std::string& run);
// `clusterprof top`, of the same program.
void define_top(CLI::App& app, TopOptions& options);

}  // namespace clusterprof::cli
