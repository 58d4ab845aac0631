// SPDX-License-Identifier: BSD-3-Clause
// libexec/clusterprof/attach: `clusterprof attach`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "base/standard_files.hpp"
#include "cli/attach/attach.hpp"
#include "cli/attach/options.hpp"
#include "cli/message.hpp"

int main(int argc, char** argv) {
  clusterprof::take_closed_standard_files();
  using namespace clusterprof::cli;
  try {
    CLI::App app{"Records processes that run", "clusterprof"};
    app.require_subcommand(1);
    CLI::App* const verb = app.add_subcommand("attach");
    attach::Options options;
    attach::define_options(*verb, options);
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp& help) {
      const int status = app.exit(help);
      std::puts("\nManual page: clusterprof help attach");
      return status;
    } catch (const CLI::ParseError& error) {
      std::string text = error.what();
      while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
      say(text + " (see clusterprof attach --help)");
      return kExitUsage;
    }
    return attach::attach(options);
  } catch (const std::exception& error) {
    say(std::string("internal error: ") + error.what());
    return kExitFailed;
  }
}
