// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace clusterprof::cli {

// A name for this command, as a person would say it, for the run's name: for an interpreter the base name of
// the script or module ("python3 -u examples/train.py" is "train", "python3 -m pkg.mod" is "mod"), else the
// program's. Only letters, digits, '.', '_' and '-', at most 64, never empty.
std::string command_name(const std::vector<std::string>& command);

// The directory of a command's program: that of the script given to an interpreter, the working directory for
// `python -m` and `python -c`, else that of the executable (`found`). Empty for a directory that programs
// share, such as /usr/bin.
std::string program_directory(const std::vector<std::string>& command, const std::string& found);

// Whether the program is an interpreter (Python, Perl, R, a shell ...), which runs a text that it is given.
bool is_interpreter(const std::string& program);

}  // namespace clusterprof::cli
