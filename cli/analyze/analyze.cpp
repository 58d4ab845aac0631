// SPDX-License-Identifier: BSD-3-Clause
// Command-line interface of the analysis commands (report, merge, query, diff, export, ls, ...): defines
// their options with CLI11 and dispatches to the function of each. The program clusterprof starts this one
// for everything but recording.
#include "cli/analyze/analyze.hpp"

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "base/nearest_word.hpp"
#include "base/own_paths.hpp"
#include "base/shared_directory.hpp"
#include "base/standard_files.hpp"
#include "base/version.hpp"
#include "cli/analyze/control.hpp"
#include "cli/analyze/diff.hpp"
#include "cli/analyze/export.hpp"
#include "cli/analyze/hang.hpp"
#include "cli/analyze/history.hpp"
#include "cli/analyze/ls.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/query.hpp"
#include "cli/analyze/scale.hpp"
#include "cli/analyze/snapshot.hpp"
#include "cli/analyze/stacks.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "cli/analyze/verbs.hpp"
#include "cli/analyze/whatif.hpp"
#include "report/report.hpp"

namespace clusterprof::cli {
namespace {

constexpr const char* kRunHelp = "run directory, or a batch job: JOB, JOB_TASK, JOB.STEP";

// One of `names`. The message for a mistyped name suggests the nearest one.
template <typename Names>
CLI::Validator one_of(const char* what, const Names& names) {
  std::vector<std::string> known(std::begin(names), std::end(names));
  std::string list, values;
  for (const std::string& name : known) {
    list += (list.empty() ? "" : ", ") + name;
    values += (values.empty() ? "" : ",") + name;  // as completion reads them
  }
  const auto check = [what, known, list](const std::string& word) -> std::string {
    if (std::find(known.begin(), known.end(), word) != known.end()) return {};
    const std::string meant = nearest_word(word, known);
    return "there is no " + std::string(what) + " " + word +
           (meant.empty() ? "." : ", did you mean " + meant + "?") + " There are: " + list;
  };
  return CLI::Validator(check, "{" + values + "}");
}

// The commands as CLI11 sees them, and the variables that it stores their options in.
struct Verbs {
  Verbs();
  void add_merge();
  void add_report();
  void add_query();
  void add_banner();
  void add_dump_and_validate();
  void add_list();
  void add_diff();
  void add_export();
  void add_control();
  void add_stacks();
  void add_hang();
  void add_snapshot();
  void add_scale();
  void add_whatif();
  void add_history();
  int run(int argc, char** argv, aggregator::Team* team);
  std::string no_verb(const std::string& word);
  std::string unknown_option(int argc, char** argv);

  CLI::App app{"Merge, explain and export recorded runs", "clusterprof"};
  MergeVerbOptions merge_options;
  ReportOptions report_options;
  QueryOptions query_options;
  BannerOptions banner_options;
  ListOptions list_options;
  DiffOptions diff_options;
  ExportVerbOptions export_options;
  ControlOptions control_options;
  StacksOptions stacks_options;
  HangVerbOptions hang_options;
  SnapshotOptions snapshot_options;
  ScaleOptions scale_options;
  WhatIfOptions whatif_options;
  HistoryOptions history_options;
  std::string dump_argument;
  std::string validate_argument;
  std::vector<std::string> own;
  bool all_frames = false;
  double timeout_s = 10;
  CLI::App *merge_verb = nullptr, *report_verb = nullptr, *query_verb = nullptr, *rank_question = nullptr,
           *path_question = nullptr, *functions_question = nullptr, *node_question = nullptr,
           *banner_verb = nullptr, *dump_verb = nullptr, *validate_verb = nullptr, *list_verb = nullptr,
           *diff_verb = nullptr, *export_verb = nullptr, *start_verb = nullptr, *stop_verb = nullptr,
           *detach_verb = nullptr, *stacks_verb = nullptr, *hang_verb = nullptr, *snapshot_verb = nullptr;
  CLI::App *scale_verb = nullptr, *whatif_verb = nullptr, *history_verb = nullptr;
  CLI::Option* html = nullptr;  // of report
};

// To verbs that show code.
void add_own(CLI::App* verb, std::vector<std::string>& own) {
  verb->add_option("--own", own,
                   "treat code below PATH as your own, not as a library's; repeat or separate by colons")
      ->type_name("PATH")
      ->envname("CLUSTERPROF_OWN")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->allow_extra_args(false);
}

void add_colour(CLI::App* verb, std::string& colour) {
  verb->add_option("--color", colour, "auto (default): on terminals, unless NO_COLOR is set")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

// In the order in which --help lists them.
Verbs::Verbs() {
  app.require_subcommand(1);
  add_merge();
  add_report();
  add_query();
  add_banner();
  add_dump_and_validate();
  add_list();
  add_diff();
  add_export();
  add_control();
  add_stacks();
  add_hang();
  add_snapshot();
  add_scale();
  add_whatif();
  add_history();
}

void Verbs::add_merge() {
  merge_verb = app.add_subcommand("merge", "Merges the shards of a run into RUN/profile.h5");
  merge_verb->add_flag("--partial", merge_options.partial, "leave damaged shards out instead of failing");
  merge_verb->add_flag("-q,--quiet", merge_options.quiet, "no progress on stderr");
  merge_verb->add_option("RUN", merge_options.run, kRunHelp)->required();
}

void Verbs::add_report() {
  report_verb = app.add_subcommand("report", "Explains a run; merges it first if needed");
  report_verb->add_option("RUN", report_options.run, kRunHelp)->required();
  CLI::Option* json = report_verb->add_flag("--json", report_options.json, "print JSON");
  html = report_verb
             ->add_option("--html", report_options.html, "write the HTML page to this file (- for stdout)")
             ->type_name("FILE")
             ->excludes(json);
  CLI::Option* oneline =
      report_verb
          ->add_flag("--oneline", report_options.oneline,
                     "print one line of at most 255 ASCII characters, for a job comment or a mail")
          ->excludes(json)
          ->excludes(html);
  report_verb->add_flag("--ended", report_options.ended,
                        "the job has ended: a node whose last data are missing is lost, not running");
  report_verb
      ->add_flag("--no-source", report_options.no_source, "leave the text of source files out of the page")
      ->envname("CLUSTERPROF_NO_SOURCE");
  report_verb->add_option("--section", report_options.sections, "only these sections of the text")
      ->type_name("NAME")
      ->check(one_of("section", report::section_names()))
      ->delimiter(',')
      ->excludes(json)
      ->excludes(html)
      ->excludes(oneline);
  report_verb
      ->add_option("--region", report_options.region,
                   "only this region; give its full name, as in epoch/step")
      ->type_name("REGION")
      ->excludes(html);  // the page has all regions
  report_verb
      ->add_option("--last", report_options.last,
                   "only the end of the run, as far as it is known by time: 60s, 5m, 2h")
      ->type_name("TIME")
      ->excludes(html)  // time can be selected in the page
      ->excludes(oneline)
      ->excludes("--region");
  report_verb
      ->add_option("--at", report_options.at,
                   "only what was held in memory at that time since the start, with --memory: 12.5s, 3m")
      ->type_name("TIME")
      ->excludes(html)
      ->excludes(oneline)
      ->excludes("--section")
      ->excludes("--region")
      ->excludes("--last");
  report_verb
      ->add_flag("--all-frames", all_frames,
                 "show every function and line, also those of libraries and the interpreter")
      ->excludes(html);  // the page has a switch
  add_own(report_verb, own);
  add_colour(report_verb, report_options.colour);
}

void Verbs::add_query() {
  query_verb = app.add_subcommand("query", "Answers one question about a run, without reading all of it");
  query_verb->require_subcommand(1);
  const auto add_question = [&](const char* name, const char* what, const char* argument,
                                const char* meaning) {
    CLI::App* const question = query_verb->add_subcommand(name, what);
    question->fallthrough();
    if (argument != nullptr) question->add_option(argument, query_options.argument, meaning)->required();
    return question;
  };
  query_verb->add_option("RUN", query_options.run, kRunHelp)->required();
  query_verb->add_flag("--json", query_options.json, "print JSON, with all rows unless --top is given");
  query_verb
      ->add_option("--top", query_options.top,
                   "at most N rows of the longest table (default: 15 in text, all in JSON)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  query_verb->add_flag("--all-frames", all_frames,
                       "show every function, also those of the interpreter and those without a name");
  add_own(query_verb, own);
  rank_question = add_question("rank", "call paths of one rank, by time", "R", "rank");
  path_question =
      add_question("path", "one call path on all ranks", "ID|ROW", "32 hexadecimal digits, or row of paths");
  path_question->add_flag("--inclusive", query_options.inclusive, "include what is called from there");
  functions_question = add_question("functions", "functions by time, all ranks", nullptr, nullptr);
  node_question = add_question("node", "ranks of one node, and its messages", "NAME", "of the node");
}

void Verbs::add_banner() {
  banner_verb = app.add_subcommand("banner", "Waits for the shards of a run, merges, prints a summary");
  banner_verb->group("");  // between parts of clusterprof
  banner_verb->add_option("RUN", banner_options.run, "run directory")->required();
  banner_verb->add_option("--wait-ranks", banner_options.wait_ranks, "wait for this many ranks");
  banner_verb->add_option("--timeout", timeout_s, "but at most this many seconds")
      ->check(CLI::Range(0.0, 86400.0));
  banner_verb->add_option("--launcher-fd", banner_options.launcher_fd,
                          "socket to the launcher that waits for this process");
  banner_verb->add_option("--memory", banner_options.memory_bytes, "bytes that this process may take");
  banner_verb->add_flag("--no-html", banner_options.no_html, "do not write RUN/report.html");
  banner_verb->add_flag("--no-source", banner_options.no_source, "without the text of source files");
}

void Verbs::add_dump_and_validate() {
  dump_verb = app.add_subcommand("dump", "Prints all tables of a shard or profile");
  dump_verb->add_option("FILE", dump_argument, "shard or profile, or a run directory, for its profile")
      ->required();

  validate_verb = app.add_subcommand("validate", "Checks a shard, a profile or all files of a run");
  validate_verb->add_option("FILE", validate_argument, "shard, profile or run directory")->required();
}

void Verbs::add_list() {
  list_verb = app.add_subcommand("ls", "Lists the runs in a directory, the newest last");
  list_verb->add_option("DIR", list_options.directory,
                        "directory to search (default: CLUSTERPROF_ROOT, or here)");
  list_verb
      ->add_option("--job", list_options.job, "only runs of this batch job: JOB, JOB_TASK, JOB.STEP, ...")
      ->type_name("ID");
  list_verb->add_option("--sort", list_options.sort, "by start, name, elapsed, ranks or efficiency")
      ->type_name("ORDER")
      ->check(one_of("order", kListOrders))
      ->capture_default_str();
  list_verb->add_flag("--reverse", list_options.reverse, "in reverse order");
  list_verb->add_flag("--json", list_options.json, "print JSON");
  add_colour(list_verb, list_options.colour);
}

void Verbs::add_diff() {
  diff_verb =
      app.add_subcommand("diff", "Compares two runs, or several on each side: diff A1 A2 A3 --vs B1 B2 B3");
  diff_verb
      ->add_option("RUN", diff_options.runs, "run directories: the two runs, or with --vs those of side A")
      ->required();
  diff_verb->add_option("--vs", diff_options.against, "the runs of side B")->type_name("RUN");
  diff_verb->add_flag("--json", diff_options.json, "print JSON");
  diff_verb->add_option("--html", diff_options.html, "write an HTML page to this file")->type_name("FILE");
  diff_verb
      ->add_option("--fail-if", diff_options.fail_if, "exit status 1 when one of these CONDITIONS is true")
      ->type_name("CONDITIONS");
  diff_verb->add_flag("--any-difference", diff_options.any_difference,
                      "let differences within the noise make conditions true as well");
  diff_verb
      ->add_option("--history", diff_options.history,
                   "how much single runs vary is known from those in this directory (default: for METRIC "
                   "regressed, where A is)")
      ->type_name("DIR");
  CLI::Option* const github = diff_verb->add_flag("--github", diff_options.github,
                                                  "print the conditions as annotations of GitHub Actions");
  github->excludes(diff_verb->get_option("--json"));
  diff_verb->add_option("--junit", diff_options.junit, "write the conditions as JUnit XML to this file")
      ->type_name("FILE");
  diff_verb->add_option("--top", diff_options.top, "rows of the long tables")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  add_colour(diff_verb, diff_options.colour);
  add_own(diff_verb, own);
  diff_verb->footer(kConditionsHelp);
}

void Verbs::add_export() {
  export_verb = app.add_subcommand("export", "Writes a run in the format of another tool");
  export_verb->add_option("RUN", export_options.run, kRunHelp)->required();
  export_verb->add_option("-f,--format", export_options.format, "what to write")
      ->required()
      ->type_name("FORMAT")
      ->check(one_of("format", kExportFormats));
  export_verb
      ->add_option("-o,--output", export_options.output,
                   "file to write (- for stdout; csv: a directory for all tables)")
      ->type_name("FILE")
      ->capture_default_str();
  add_own(export_verb, own);
  export_verb->add_option("--ranks", export_options.ranks, "only these ranks, as in 0-3,8")
      ->type_name("LIST");
  export_verb
      ->add_option(
          "--weight", export_options.weight,
          "folded, speedscope: time (default) or samples; these and pprof, with --memory: bytes held at "
          "peaks (rank_peak, node_peak) or in the end (live), or allocated (alloc)")
      ->type_name("WEIGHT")
      ->check(one_of("weight", kExportWeights));
  export_verb->add_flag("--all-ranks", export_options.all_ranks,
                        "each rank separately: folded, speedscope, pprof, perfetto, hatchet");
  export_verb->add_flag("--idle-threads", export_options.idle_threads,
                        "include helper threads that wait for work, which reports leave out");
  export_verb->add_flag("--no-regions", export_options.no_regions,
                        "do not show regions as frames: folded, speedscope, hatchet");
  export_verb->add_option("--table", export_options.table, "csv: " + export_tables())->type_name("TABLE");
}

void Verbs::add_control() {
  start_verb = app.add_subcommand(
      "start", "Starts recording a run of --standby, or records a run of --mode light in full");
  start_verb->add_option("RUN", control_options.run, kRunHelp)->required();
  start_verb
      ->add_option("--for", control_options.lasting,
                   "stop after this time: 60s, 5m, 2h; seconds without a unit")
      ->type_name("TIME");
  stop_verb = app.add_subcommand("stop", "Stops the recording that clusterprof start began");
  stop_verb->add_option("RUN", control_options.run, kRunHelp)->required();
  detach_verb = app.add_subcommand("detach", "Lets go the processes that clusterprof attach records");
  detach_verb->add_option("RUN", control_options.run, kRunHelp)->required();
}

void Verbs::add_stacks() {
  stacks_verb =
      app.add_subcommand("stacks", "Shows where all ranks are, or were last, and who waits for whom");
  stacks_verb->add_option("RUN", stacks_options.run, kRunHelp)->required();
  stacks_verb->add_flag("--json", stacks_options.json, "print JSON");
  stacks_verb->add_flag("--all-frames", all_frames, "show every frame, also those of the interpreter");
  add_own(stacks_verb, own);
}

void Verbs::add_snapshot() {
  snapshot_verb = app.add_subcommand("snapshot", "Keeps a profile of now of a run that goes on");
  snapshot_verb->add_option("RUN", snapshot_options.run, kRunHelp)->required();
  snapshot_verb
      ->add_option("-o,--output", snapshot_options.output,
                   "make this directory (default: RUN.snapshot-1, or the next number)")
      ->type_name("DIR");
}

void Verbs::add_scale() {
  scale_verb = app.add_subcommand(
      "scale", "Tells how a program scales, from runs of several sizes: efficiencies, growth, predictions");
  scale_verb->add_option("RUN", scale_options.runs, "run directories, of two sizes at least")->required();
  scale_verb
      ->add_option("--by", scale_options.by,
                   "what the size of a run is: ranks (default), nodes, threads, or size=NAME, a number in "
                   "the command line (--NAME 100, NAME=100)")
      ->type_name("SIZE");
  scale_verb
      ->add_option("--at", scale_options.at,
                   "predict these sizes (default: two, four and eight times the largest)")
      ->type_name("N")
      ->check(CLI::Range(1.0, 1e12))
      ->delimiter(',')
      ->allow_extra_args(false);
  scale_verb->add_flag("--json", scale_options.json, "print JSON");
  scale_verb->add_option("--html", scale_options.html, "write an HTML page to this file")->type_name("FILE");
  scale_verb->add_option("--top", scale_options.top, "rows of the long tables")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  add_colour(scale_verb, scale_options.colour);
  add_own(scale_verb, own);
}

void Verbs::add_whatif() {
  whatif_verb = app.add_subcommand(
      "whatif", "Predicts what changes of the program would gain, by replaying the run with them");
  whatif_verb->add_option("RUN", whatif_options.run, kRunHelp)->required();
  whatif_verb
      ->add_option("--change", whatif_options.changes,
                   "what is different, several times for several changes at once: \"line FILE:N x0.5\", "
                   "\"function NAME x0\", \"region NAME xF\", \"rank R = mean\", \"balance function NAME\", "
                   "\"call OP FILE:N removed\", \"latency xF\", \"bandwidth xF\", \"io xF\", "
                   "\"threads N\" (default: what is "
                   "worth a try in this run, ranked by its gain)")
      ->type_name("CHANGE")
      ->allow_extra_args(false);
  whatif_verb->add_flag("--json", whatif_options.json, "print JSON");
  whatif_verb
      ->add_option("--max-events", whatif_options.max_events,
                   "replay a run of so many MPI events, 500 bytes of memory each (default: as many as fit "
                   "into four fifths of the available memory)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  whatif_verb->add_option("--top", whatif_options.top, "rows of the tables")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  add_colour(whatif_verb, whatif_options.colour);
  add_own(whatif_verb, own);
}

void Verbs::add_history() {
  history_verb = app.add_subcommand(
      "history", "Lists the runs of a command over time, and since when its numbers are different");
  history_verb->add_option(
      "WHAT", history_options.what,
      "a directory of runs (default: where runs are), a run, for those of its command, or "
      "the name of a program");
  history_verb->add_flag("--json", history_options.json, "print JSON");
  history_verb->add_option("--html", history_options.html, "write an HTML page to this file")
      ->type_name("FILE");
  history_verb
      ->add_option("--badge", history_options.badge,
                   "write an SVG image with the parallel efficiency of the newest run to this file")
      ->type_name("FILE");
  history_verb->add_option("--top", history_options.top, "runs of each command")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  add_colour(history_verb, history_options.colour);
  add_own(history_verb, own);
}

void Verbs::add_hang() {
  hang_verb = app.add_subcommand("hang", "Looks whether any rank makes progress, and tells the collectors");
  hang_verb->group("");  // between parts of clusterprof
  hang_verb->add_option("RUN", hang_options.run, "run directory")->required();
  hang_verb->add_option("--after", hang_options.after_s, "seconds without progress")->required();
  hang_verb->add_flag("--abort", hang_options.end_ranks, "the collectors are to end the ranks");
}

// The message for an unknown command.
std::string Verbs::no_verb(const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* verb : app.get_subcommands({}))
    if (!verb->get_group().empty()) known.push_back(verb->get_name());
  const std::string meant = nearest_word(word, known);
  return "there is no verb " + word +
         (meant.empty() ? " (see clusterprof --help)" : ", did you mean " + meant + "?");
}

// The message for a mistyped option that is near an existing one; empty where none is near.
std::string Verbs::unknown_option(int argc, char** argv) {
  if (argc < 2) return {};
  const auto is_named = [&](const CLI::App* verb) { return verb->check_name(argv[1]); };
  const std::vector<CLI::App*> verbs = app.get_subcommands(is_named);
  if (verbs.empty()) return {};
  std::vector<std::string> known{"--help"};
  for (const CLI::Option* option : verbs.front()->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (int i = 2; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (!word.starts_with("--") || word == "--" || std::find(known.begin(), known.end(), word) != known.end())
      continue;
    const std::string meant = nearest_word(word, known);
    return meant.empty() ? "" : "there is no option " + word + ", did you mean " + meant + "?";
  }
  return {};
}

int Verbs::run(int argc, char** argv, aggregator::Team* team) {
  const auto is_named = [&](const CLI::App* verb) { return verb->check_name(argv[1]); };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named).empty())
    return complain(kBadUsage, no_verb(argv[1]));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    if (team != nullptr && team->member() != 0) return kOk;
    const int status = app.exit(help);
    const std::vector<CLI::App*> verbs = app.get_subcommands();
    if (!verbs.empty()) print("\nManual page: clusterprof help " + verbs.front()->get_name() + "\n");
    return status;
  } catch (const CLI::ParseError& error) {
    const std::string verb =
        app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name() + " ";
    std::string text = error.what();
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    if (const std::string better = unknown_option(argc, argv); !better.empty()) text = better;
    return complain(kBadUsage, text + " (see clusterprof " + verb + "--help)");
  }
  if (!own.empty() || all_frames) {
    Result<std::vector<std::string>> paths = own_paths(own);
    if (!paths) return complain(kBadUsage, "--own: " + paths.error().message);
    choose_view(
        {std::move(paths).value(), all_frames ? report::FrameMode::kAll : report::FrameMode::kFolded});
  }

  if (*merge_verb) return merge(merge_options, team);
  // All else is for one process.
  if (team != nullptr && team->member() != 0) return kOk;
  if (*report_verb) {
    if (*html && report_options.html.empty())
      return complain(kBadUsage,
                      "--html needs the name of a file, or - for stdout (see clusterprof report --help)");
    return report(report_options);
  }
  if (*query_verb) {
    if (*rank_question) return query_rank(query_options);
    if (*path_question) return query_path(query_options);
    if (*functions_question) return query_functions(query_options);
    if (*node_question) return query_node(query_options);
  }
  if (*banner_verb) {
    banner_options.timeout = std::chrono::duration<double>(timeout_s);
    return banner(banner_options);
  }
  if (*dump_verb) return dump_file(dump_argument);
  if (*validate_verb) return validate(validate_argument);
  if (*list_verb) return list_runs(list_options);
  if (*diff_verb) return diff(diff_options);
  if (*export_verb) return export_run(export_options);
  if (*start_verb) return start_recording(control_options);
  if (*stop_verb) return stop_recording(control_options);
  if (*detach_verb) return detach(control_options);
  if (*stacks_verb) return stacks(stacks_options);
  if (*snapshot_verb) return snapshot(snapshot_options);
  if (*scale_verb) return scale(scale_options);
  if (*whatif_verb) return whatif(whatif_options);
  if (*history_verb) return history(history_options);
  if (*hang_verb) return look_for_hang(hang_options);
  return complain(kBadUsage, "no verb given (see clusterprof --help)");
}

// A merge makes and frees the same large buffers for every node. From the system each time, its clearing of
// pages took 5 % of a merge; kept, they are reused, and the peak is the same.
void keep_freed_memory() {
  constexpr int kMost_bytes = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kMost_bytes);
  mallopt(M_TRIM_THRESHOLD, kMost_bytes);
}

}  // namespace

void with_verbs(const std::function<void(CLI::App&)>& use) {
  Verbs verbs;
  use(verbs.app);
}

void define_browser(CLI::App& app, std::string& run) {
  app.name("clusterprof tui");
  app.description("Looks at a run in a terminal");
  app.add_option("RUN", run, kRunHelp)->required();
  const auto own = std::make_shared<std::vector<std::string>>();
  add_own(&app, *own);
  app.callback([own] {
    Result<std::vector<std::string>> paths = own_paths(*own);
    if (!paths) throw CLI::ValidationError("--own", paths.error().message);
    choose_view({std::move(paths).value(), report::FrameMode::kFolded});
  });
}

void define_top(CLI::App& app, TopOptions& options) {
  app.name("clusterprof top");
  app.description("Shows what the ranks of a running run do now");
  app.add_option("RUN", options.run, kRunHelp)->required();
  app.add_flag("--once", options.once, "print it once, as where there is no terminal");
  app.add_flag("--json", options.json, "print it once as JSON");
  add_colour(&app, options.colour);
  const auto own = std::make_shared<std::vector<std::string>>();
  add_own(&app, *own);
  app.callback([own] {
    Result<std::vector<std::string>> paths = own_paths(*own);
    if (!paths) throw CLI::ValidationError("--own", paths.error().message);
    choose_view({std::move(paths).value(), report::FrameMode::kFolded});
  });
}

int analyze_main(int argc, char** argv, aggregator::Team* team) {
  take_closed_standard_files();
  deny_world_write();
  keep_freed_memory();
  if (team != nullptr && team->member() != 0) be_silent();
  try {
    return Verbs().run(argc, argv, team);
  } catch (const std::bad_alloc&) {
    return complain(kBadInput, "out of memory");
  } catch (const std::exception& error) {
    return complain(kBadInput, error.what());
  }
}

}  // namespace clusterprof::cli
