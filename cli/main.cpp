// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "cli/identity.hpp"
#include "cli/install_layout.hpp"
#include "cli/merge_launch.hpp"
#include "cli/message.hpp"
#include "cli/options.hpp"
#include "cli/record.hpp"

namespace clusterprof::cli {
namespace {

int analyze(char** argv, bool in_terminal) {
  const auto layout = find_install_layout();
  if (!layout) {
    say(layout.error().message);
    return kExitFailed;
  }
  const std::string program = in_terminal ? layout.value().browser() : layout.value().analyze;
  ::execv(program.c_str(), argv);
  say(program + ": " + std::strerror(errno));
  return kExitFailed;
}

// Whether this process is the one of its job that does what need be done once.
bool is_for_us(const Environment& environment) {
  const auto identity = identify(environment);
  return !identity || identity.value().speaks_for_all();
}

int run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (!arguments.empty() && is_analysis_verb(arguments[0])) {
    if (arguments[0] == "merge") return launch_merge(argc, argv, process_environment());
    return analyze(argv, arguments[0] == "tui");
  }
  if (!arguments.empty() && arguments[0] == "record") arguments.erase(arguments.begin());

  const Environment environment = process_environment();
  auto parsed = parse_record_options(arguments, environment);
  if (const auto* leave = std::get_if<Leave>(&parsed)) {
    std::fwrite(leave->output.data(), 1, leave->output.size(), stdout);
    if (!leave->error.empty() && is_for_us(environment)) say(leave->error);
    return leave->status;
  }
  return record(std::get<Options>(parsed), environment);
}

}  // namespace
}  // namespace clusterprof::cli

int main(int argc, char** argv) {
  try {
    return clusterprof::cli::run(argc, argv);
  } catch (const std::exception& error) {
    clusterprof::cli::say(std::string("internal error: ") + error.what());
    return clusterprof::cli::kExitFailed;
  }
}
