// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace clusterprof::cli {

// What a person would call this command, for the run's name: the script's or module's base name
// for an interpreter ("python3 -u examples/train.py" is "train", "python3 -m pkg.mod" is "mod"),
// else the program's. Letters, digits, '.', '_' and '-' only, at most 64, never empty.
std::string command_name(const std::vector<std::string>& command);

// Where the program of a command lies: the directory of the script that an interpreter is given, the working
// directory for `python -m` and `python -c`, else that of the executable (`found`). Empty where that is one
// of those which programs share, /usr/bin.
std::string program_directory(const std::vector<std::string>& command, const std::string& found);

// Python, Perl, R, a shell ...: what runs is a text it is given.
bool is_interpreter(const std::string& program);

}  // namespace clusterprof::cli
