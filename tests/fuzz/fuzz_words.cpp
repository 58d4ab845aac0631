// SPDX-License-Identifier: BSD-3-Clause
// Text from users, launchers and batch systems: command lines of all verbs, variables, conditions of diff,
// lists of nodes and ranks, requests to the Slurm plugin and its site's settings, names of runs, what
// collectors are told through files and what they answer, changes of a replay. The first byte says which;
// each line is one word.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/lifecycle/options.h"
#include "aggregator/whatif/change.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/identity.hpp"
#include "cli/manual/definitions.hpp"
#include "cli/options.hpp"
#include "cli/sample_event.hpp"
#include "formats/run/run_control.hpp"
#include "report/analysis/placement.hpp"
#include "report/diff/diff.hpp"
#include "slurm/activation/activation.hpp"
#include "slurm/activation/options.hpp"
#include "slurm/start/decide.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

using namespace clusterprof;
using fuzz::Input;
using Words = std::vector<std::string>;

// As execve takes them: nothing behind a 0.
std::string as_argument(std::string_view text) { return std::string(text.substr(0, text.find('\0'))); }
Words arguments(Input& input) {
  Words words;
  for (const std::string& line : input.lines()) words.push_back(as_argument(line));
  return words;
}

// Lines NAME=VALUE up to an empty one.
std::map<std::string, std::string> variables(Input& input) {
  std::map<std::string, std::string> result;
  while (!input.empty()) {
    const std::string line = as_argument(input.line());
    if (line.empty()) break;
    const std::size_t equals = std::min(line.find('='), line.size());
    result[line.substr(0, equals)] = equals == line.size() ? "" : line.substr(equals + 1);
  }
  return result;
}
cli::Environment environment_of(const std::map<std::string, std::string>& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

void require(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void record(Input& input) {
  const auto given = variables(input);
  const Words words = arguments(input);
  const auto parsed = cli::parse_record_options(words, environment_of(given));
  if (const auto* const leave = std::get_if<cli::Leave>(&parsed)) {
    require(leave->status == 0 || !leave->error.empty(), "a command line refused without a word");
    return;
  }
  const auto& options = std::get<cli::Options>(parsed);
  require(!options.command.empty(), "no command");
  (void)options.rank_list();
  require(options.selected_ranks(64).count <= 64, "more ranks than there are");
  if (!options.problem.empty() || options.started) return;
  // Text that was formatted from the result is read back as the same result.
  Words again = options.words;
  again.emplace_back("--");
  again.insert(again.end(), options.command.begin(), options.command.end());
  const auto second = cli::parse_record_options(again, [](const char*) -> const char* { return nullptr; });
  const auto* const same = std::get_if<cli::Options>(&second);
  require(same != nullptr && same->command == options.command && same->words == options.words &&
              same->ranks == options.ranks && same->rate_hz == options.rate_hz,
          "words of a command line are not the same command line");
}

void identity(Input& input) {
  auto given = variables(input);
  (void)cli::identify(environment_of(given));
  (void)cli::slurm_tasks_on_node(given["SLURM_TASKS_PER_NODE"], std::atoi(given["SLURM_NODEID"].c_str()));
  (void)cli::hydra_job(arguments(input));
  cli::SpawnedAs spawned;
  if (cli::parse_spawned_as(given["SPAWNED"], spawned))
    require(!spawned.key.empty() && spawned.world > 0 && spawned.first_rank > 0, "a spawned world of none");
}

void conditions(Input& input) {
  const std::string text(input.text());
  const auto parsed = report::parse_conditions(text);
  if (!parsed) return;
  static const report::Diff nothing;
  (void)report::judge(nothing, parsed.value(), false);
  for (const report::Condition& condition : parsed.value()) {
    const auto again = report::parse_conditions(condition.text);
    require(again.ok() && again.value().size() == 1 && again.value()[0].value == condition.value,
            "a condition's text is not that condition");
  }
}

void slurm_request(Input& input) {
  const std::string option = as_argument(input.line());
  const auto given = variables(input);
  const auto site = slurm::parse_site(arguments(input));
  const slurm::JobVariable job = [&](const char* name) -> std::optional<std::string> {
    const auto found = given.find(name);
    return found == given.end() ? std::nullopt : std::optional(found->second);
  };
  (void)slurm::prefix_of(option);
  const slurm::UserFacts user = {[] { return false; }, [] { return std::string("user"); }};
  for (const auto& asked : {std::optional<std::string>(option), std::optional<std::string>()}) {
    const slurm::Decision decision = slurm::decide(asked, site, job, user);
    const slurm::Step step{option.size() % 2 == 0, [] { return std::string("user"); },
                           [] { return std::string("/home/user"); }};
    for (const auto& [name, value] : slurm::activate(decision, site, step, job))
      require(name.starts_with("CLUSTERPROF_") || name == "LD_PRELOAD", "a variable that is not ours");
    if (decision.kind != slurm::Decision::kActivate) continue;
    // The launcher on the node understands it.
    std::map<std::string, std::string> in_task;
    for (const auto& [name, value] : decision.request.variables) in_task[name] = value;
    const auto parsed = cli::parse_record_options({"--", "true"}, environment_of(in_task));
    if (const auto* const leave = std::get_if<cli::Leave>(&parsed))
      require(leave->error.find("CLUSTERPROF_EVENT") != std::string::npos ||
                  leave->error.find("CLUSTERPROF_SAMPLE_ON") != std::string::npos,
              leave->error.c_str());
  }
}

// In strings of their own, so that a sanitizer sees where they end.
void starter(Input& input) {
  const std::string path = as_argument(input.line()), executable = as_argument(input.line());
  Words words = arguments(input);
  words.push_back("LD_PRELOAD=/opt/lib/libclusterprof_start.so");
  std::vector<std::vector<char>> strings;
  std::vector<char*> list;
  for (const std::string& word : words)
    list.push_back(strings.emplace_back(word.c_str(), word.c_str() + word.size() + 1).data());
  list.push_back(nullptr);
  (void)start::decide({path.c_str(), executable.c_str(), list.data(), 77});
  (void)start::first_argument(path.c_str(), true, static_cast<int>(words.size()), list.data());
  (void)start::speaks_for_all(list.data());
  start::remove_option(list.data());
  start::remove_starter(list.data());
  require(start::value_of(list.data(), start::kStartVariable) == nullptr, "the starter is still to begin");
  for (char** at = list.data(); *at != nullptr; ++at) {
    if (std::strncmp(*at, "LD_PRELOAD=", 11) != 0) continue;
    const std::string left = std::string(*at + 11) + ":";
    for (std::size_t entry = 0; entry < left.size();) {
      const std::size_t end = left.find_first_of(": ", entry);
      require(left.substr(entry, end - entry) != "/opt/lib/libclusterprof_start.so",
              "the starter is still preloaded");
      entry = end + 1;
    }
  }
}

void lists(Input& input) {
  const std::string text = as_argument(input.line());
  std::vector<std::pair<int, int>> ranks;
  if (cli::parse_rank_list(text, ranks))
    for (const auto& [first, last] : ranks) require(0 <= first && first <= last, "a rank list of no ranks");
  if (const auto event = cli::parse_sample_on(text))
    require(!event.value().event.empty(), "an event without a name");
  if (const auto numbers = clusterprof::parse_number_list(text))
    require(!numbers->empty(), "a list of nothing");
  (void)cli::is_of_job(cli::job_in_name(text), as_argument(input.line()));
}

// Files that whoever may write to a run leaves for its collectors, and their answers.
void told(Input& input) {
  const std::string_view text = input.text();
  if (const auto request = parse_request(text)) {
    require(parse_request(text_of(*request)) == request, "a request's text is not that request");
    constexpr std::int64_t kNow_ns = 1'800'000'000'000'000'000, kLatest_ns = 60'000'000'000;
    for (const bool late : {false, true}) {
      const ControlSchedule schedule = schedule_of(*request, kNow_ns, kLatest_ns, late);
      require(schedule.end_unix_ns == 0 || schedule.end_unix_ns >= schedule.begin_unix_ns,
              "a window ends before it begins");
    }
  }
  if (const auto answer = parse_answer(text, "n1"))
    require(parse_answer(text_of(*answer), "n1") == answer, "an answer's text is not that answer");
  if (const auto notice = parse_hang_notice(text))
    require(parse_hang_notice(text_of(*notice)) == notice, "a notice's text is not that notice");
  if (const auto lasting_ns = parse_lasting_ns(text))
    require(*lasting_ns >= 1'000'000'000 && *lasting_ns <= kLongestWindow_ns, "a time that is none");
}

void changes(Input& input) {
  namespace whatif = aggregator::whatif;
  for (const std::string& line : input.lines()) {
    const Result<whatif::Change> change = whatif::parse_change(line);
    if (!change) {
      require(!change.error().message.empty(), "a change refused without a word");
      continue;
    }
    const whatif::Change& read = change.value();
    require(read.text == line, "a change of another text");
    require(read.factor >= 0 && read.factor <= 1e6, "a factor that is none");
    require(read.kind != whatif::ChangeKind::kLine || (read.line > 0 && !read.file.empty()),
            "a line of no file");
  }
}

// The agent, in the program.
void agent_options(Input& input) {
  const auto given = variables(input);
  for (const auto& [name, value] : given)
    if (name.starts_with("CLUSTERPROF_") || name == "LD_PRELOAD") setenv(name.c_str(), value.c_str(), 1);
  agent::g_options = {};
  agent::read_options();
  require(!agent::g_options.record || (agent::g_options.rate_hz >= 1 && agent::g_options.rate_hz <= 20'000),
          "a rate that is none");
  agent::hide_from_children();
  for (const auto& [name, value] : given)
    if (name.starts_with("CLUSTERPROF_") || name == "LD_PRELOAD") unsetenv(name.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Input input(bytes, size);
  switch (input.byte() % 16) {
    case 0:
      (void)cli::problem_of(arguments(input));
      break;
    case 1:
      record(input);
      break;
    case 2:
      identity(input);
      break;
    case 3:
      conditions(input);
      break;
    case 4:
      slurm_request(input);
      break;
    case 5:
      starter(input);
      break;
    case 6:
      lists(input);
      break;
    case 8:
      told(input);
      break;
    case 9:
      changes(input);
      break;
    default:
      agent_options(input);
      break;
  }
  return 0;
}
