// SPDX-License-Identifier: BSD-3-Clause
// libexec/clusterprof/analyze: `clusterprof VERB ...` for everything but recording. A program of
// its own so that recording does not load HDF5.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <string_view>

#include "base/version.hpp"
#include "cli/analyze/verbs.hpp"

namespace {

using namespace clusterprof;
using namespace clusterprof::cli;

constexpr std::string_view kLaterVerbs[] = {"export", "diff", "doctor", "attach", "top", "tui"};

int not_yet(const std::string& what) {
  return complain(kBadUsage, what + " is not in this version (" + kVersion + ")");
}

int run(int argc, char** argv) {
  if (argc > 1 && std::find(std::begin(kLaterVerbs), std::end(kLaterVerbs), argv[1]) != std::end(kLaterVerbs))
    return not_yet(argv[1]);

  CLI::App app{"What was recorded: merge it, explain it, look at it", "clusterprof"};
  app.require_subcommand(1);

  std::string merge_run;
  bool partial = false;
  CLI::App* merge_verb = app.add_subcommand("merge", "Joins the shards of a run to RUN/profile.h5");
  merge_verb->add_flag("--partial", partial, "leave damaged shards out instead of failing");
  merge_verb->add_option("RUN", merge_run, "run directory")->required();

  ReportOptions report_options;
  std::string html;
  CLI::App* report_verb = app.add_subcommand("report", "Explains a run, merging it first when needed");
  report_verb->add_option("RUN", report_options.run, "run directory")->required();
  CLI::Option* json = report_verb->add_flag("--json", report_options.json, "as JSON");
  CLI::Option* html_option = report_verb->add_option("--html", html, "(not in this version)");
  report_verb->add_option("--section", report_options.sections, "only these sections of the text")
      ->delimiter(',')
      ->excludes(json);
  report_verb->add_option("--region", report_options.region,
                          "only what happened in this region (epoch/step)");

  BannerOptions banner_options;
  double timeout_s = 10;
  CLI::App* banner_verb =
      app.add_subcommand("banner", "Waits for the shards of a run, merges, prints a summary");
  banner_verb->add_option("RUN", banner_options.run, "run directory")->required();
  banner_verb->add_option("--wait-ranks", banner_options.wait_ranks, "wait for so many ranks");
  banner_verb->add_option("--timeout", timeout_s, "but at most so many seconds")
      ->check(CLI::Range(0.0, 86400.0));

  std::string dump_argument;
  CLI::App* dump_verb = app.add_subcommand("dump", "Prints all tables of a shard or profile");
  dump_verb->add_option("FILE", dump_argument, "shard, profile, or run directory for its profile")
      ->required();

  std::string validate_argument;
  CLI::App* validate_verb = app.add_subcommand("validate", "Checks a shard, a profile or all files of a run");
  validate_verb->add_option("FILE", validate_argument, "shard, profile or run directory")->required();

  std::string list_argument = ".";
  CLI::App* list_verb = app.add_subcommand("ls", "Lists the runs in a directory");
  list_verb->add_option("DIR", list_argument, "where to look")->capture_default_str();

  const auto is_named = [&](const CLI::App* verb) { return verb->check_name(argv[1]); };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named).empty())
    return complain(kBadUsage, std::string("there is no verb ") + argv[1] + " (see clusterprof --help)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const std::string verb =
        app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name() + " ";
    std::string text = error.what();
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return complain(kBadUsage, text + " (see clusterprof " + verb + "--help)");
  }

  if (*merge_verb) return merge(merge_run, partial);
  if (*report_verb) {
    if (*html_option) return not_yet("report --html");
    return report(report_options);
  }
  if (*banner_verb) {
    banner_options.timeout = std::chrono::duration<double>(timeout_s);
    return banner(banner_options);
  }
  if (*dump_verb) return dump_file(dump_argument);
  if (*validate_verb) return validate(validate_argument);
  if (*list_verb) return list_runs(list_argument);
  return complain(kBadUsage, "no verb given (see clusterprof --help)");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return complain(kBadInput, "out of memory");
  } catch (const std::exception& error) {
    return complain(kBadInput, error.what());
  }
}
