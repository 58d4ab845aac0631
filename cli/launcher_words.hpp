// SPDX-License-Identifier: BSD-3-Clause
// MPI's launchers in a command: where the program begins behind them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace clusterprof::cli {

// "mpirun" of mpirun, /usr/bin/mpirun or mpirun.openmpi; empty: it is no launcher.
std::string launcher_name(const std::string& command);

// The index of the first word behind the launcher, which is words[0], and its options. An option of a
// launcher that is not known counts as a switch without a value.
std::size_t behind_launcher(const std::vector<std::string>& words);

}  // namespace clusterprof::cli
