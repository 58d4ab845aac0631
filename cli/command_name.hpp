// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace clusterprof::cli {

// What a person would call this command, for the run's name: the script's or module's base name
// for an interpreter ("python3 -u examples/train.py" is "train", "python3 -m pkg.mod" is "mod"),
// else the program's. Letters, digits, '.', '_' and '-' only, at most 64, never empty.
std::string command_name(const std::vector<std::string>& command);

// Python, Perl, R, a shell ...: what runs is a text it is given.
bool is_interpreter(const std::string& program);

}  // namespace clusterprof::cli
