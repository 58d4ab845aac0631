// SPDX-License-Identifier: BSD-3-Clause
// Completion for shells: the definitions put into the scripts *.in of this folder, in place of @WORDS@ in
// lines of their own.
#pragma once

#include <string>
#include <string_view>

#include "cli/manual/definitions.hpp"

namespace clusterprof::cli {

enum class Shell { kBash, kZsh, kFish };

std::string render_completion(Shell shell, std::string_view script, const ProgramText& program);

}  // namespace clusterprof::cli
