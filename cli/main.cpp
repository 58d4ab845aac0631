// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "base/standard_files.hpp"
#include "base/write_all.hpp"
#include "cli/execute.hpp"
#include "cli/help.hpp"
#include "cli/identity.hpp"
#include "cli/install_layout.hpp"
#include "cli/mask_arguments.hpp"
#include "cli/merge_launch.hpp"
#include "cli/message.hpp"
#include "cli/options.hpp"
#include "cli/record.hpp"
#include "cli/repeat.hpp"

namespace clusterprof::cli {
namespace {

int analyze(char** argv, const std::string& verb) {
  const auto layout = find_install_layout();
  if (!layout) {
    say(layout.error().message);
    return kExitFailed;
  }
  const std::string program = verb == "tui" || verb == "top" ? layout.value().browser()
                              : verb == "doctor"             ? layout.value().doctor()
                              : verb == "attach"             ? layout.value().attacher()
                                                             : layout.value().analyze;
  return program == layout.value().analyze ? execute_reader(program, argv) : execute(program, argv);
}

// Whether this process is the one of its job that does what need be done once.
bool is_for_us(const Environment& environment) {
  const auto identity = identify(environment);
  return !identity || identity.value().speaks_for_all();
}

// Help, or a version, and whether it could be written.
int print(const Leave& leave) {
  if (write_all(STDOUT_FILENO, leave.output)) return leave.status;
  say(std::string("standard output: ") + std::strerror(errno));
  return kExitFailed;
}

// `clusterprof help [TOPIC]`: the manual page, where man(1) can show it, else the options.
int help(char** argv, const std::string& topic) {
  const auto layout = find_install_layout();
  const std::string page = layout ? find_manual_page(layout.value(), topic) : "";
  if (!page.empty()) ::execlp("man", "man", page.c_str(), nullptr);
  if (is_analysis_verb(topic)) {
    std::string verb = topic, option = "--help";
    char* const arguments[] = {argv[0], verb.data(), option.data(), nullptr};
    return analyze(const_cast<char**>(arguments), topic);
  }
  if (!topic.empty() && topic != "record" && topic != "run") {
    const std::string meant = meant_verb(topic);
    say(page.empty() ? "there is no verb " + topic +
                           (meant.empty() ? " (see clusterprof --help)" : ", did you mean " + meant + "?")
                     : page + ": man(1) is needed to show it");
    return page.empty() ? kExitUsage : kExitFailed;
  }
  const auto parsed = parse_record_options({"--help"}, process_environment());
  return print(std::get<Leave>(parsed));
}

int run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (!arguments.empty() && arguments[0] == "help" && arguments.size() <= 2)
    return help(argv, arguments.size() == 2 ? arguments[1] : "");
  if (!arguments.empty() && is_analysis_verb(arguments[0])) {
    if (arguments[0] == "merge") return launch_merge(argc, argv, process_environment());
    return analyze(argv, arguments[0]);
  }
  const bool is_run = !arguments.empty() && arguments[0] == "run";
  if (is_run || (!arguments.empty() && arguments[0] == "record")) arguments.erase(arguments.begin());

  const Environment environment = process_environment();
  auto parsed = parse_record_options(arguments, environment);
  if (const auto* leave = std::get_if<Leave>(&parsed)) {
    if (!leave->error.empty() && is_for_us(environment)) say(leave->error);
    return print(*leave);
  }
  const Options& options = std::get<Options>(parsed);
  if (options.repeat != 0 && !is_run) {
    if (is_for_us(environment))
      say("--repeat is for clusterprof run: clusterprof run --repeat " + std::to_string(options.repeat) +
          " -- [LAUNCHER] COMMAND");
    return kExitUsage;
  }
  mask_argument_secrets({argv + 1, argv + argc});
  return is_run ? repeat(options) : record(options, environment);
}

// Of a command that is to run whatever becomes of the recording (Options::started).
void run_unrecorded(std::vector<std::string>& words) {
  if (words.size() < 3 || words[1] != "record" || words[2] != "--started") return;
  const auto command = std::find(words.begin() + 3, words.end(), "--");
  std::vector<char*> argv;
  for (auto word = command; word != words.end(); ++word) argv.push_back(word->data());
  argv.push_back(nullptr);
  if (argv.size() > 2) ::execvp(argv[1], argv.data() + 1);
}

}  // namespace
}  // namespace clusterprof::cli

int main(int argc, char** argv) {
  clusterprof::take_closed_standard_files();
  std::vector<std::string> words(argv, argv + argc);  // of which some get hidden
  try {
    return clusterprof::cli::run(argc, argv);
  } catch (const std::exception& error) {
    clusterprof::cli::say(std::string("internal error: ") + error.what());
    clusterprof::cli::run_unrecorded(words);
    return clusterprof::cli::kExitFailed;
  }
}
