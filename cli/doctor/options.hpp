// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "cli/doctor/checks.hpp"

namespace CLI {
class App;
}

namespace clusterprof::cli::doctor {

struct Options {
  Request request;
  bool json = false, verbose = false;
  std::string colour = "auto";
};

// Defines the options of `clusterprof doctor`; `options` must outlive `verb`.
void define_options(CLI::App& verb, Options& options);

}  // namespace clusterprof::cli::doctor
