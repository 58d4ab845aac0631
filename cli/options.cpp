// SPDX-License-Identifier: BSD-3-Clause
// Parses and checks the options of recording, from the command line and from CLUSTERPROF_* variables.
// Values stay text until all sources are read, so that every message names the option as the user wrote
// it.
#include "cli/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "base/nearest_word.hpp"
#include "base/own_paths.hpp"
#include "base/resource_limits.hpp"
#include "base/version.hpp"
#include "cli/launcher_words.hpp"
#include "cli/message.hpp"

namespace clusterprof::cli {
namespace {

constexpr int kMaxRate_hz = 10000;
constexpr int kLightRate_hz = 20;
constexpr int kMaxMinDuration_s = 7 * 24 * 3600;
constexpr int kMaxMinRanks = 1 << 24;
constexpr int kMinHangAfter_s = 5;  // a deadlock is said after that time, too
constexpr int kMaxHangAfter_s = 7 * 24 * 3600;
constexpr int kMaxRepeats = 1000;
constexpr std::size_t kMaxEventBytes = 1000;  // with separators; the agent has room for so many

constexpr std::string_view kUsage = "[LAUNCHER] clusterprof [options] [--] COMMAND [ARGUMENTS]";

constexpr std::string_view kHelpHead =
    "clusterprof records where an MPI job spends its time: Python and native code, MPI calls,\n"
    "system calls and waiting, on every rank.\n\n"
    "Usage: [LAUNCHER] clusterprof [options] [--] COMMAND [ARGUMENTS]\n"
    "       clusterprof run [options] -- [LAUNCHER] COMMAND [ARGUMENTS]\n"
    "       clusterprof report RUN\n\n"
    "LAUNCHER is mpirun, mpiexec, srun, torchrun --no-python or nothing, and comes first; it may\n"
    "also be the command: clusterprof torchrun train.py. The command's output, exit\n"
    "status and signals are its own. At the end a summary goes to stderr, once.\n";

constexpr std::string_view kHelpTail =
    R"(
Other commands (each has --help; clusterprof help COMMAND shows its manual page):
  report RUN                  the profile as text, --json or --html FILE
  merge RUN                   merge the nodes' shards into RUN/profile.h5
  query RUN rank|path|functions|node ...
                              one rank, call path or node of a large run
  export RUN -f FORMAT -o F   folded, speedscope, pprof, perfetto, callgrind, ...
  diff RUN_A RUN_B            compare two runs
  whatif RUN                  what a change would gain
  scale RUN RUN ...           how the program scales, from runs of several sizes
  history [DIR]               runs of the same command over time, and since when they are slower
  ls [DIR]                    list runs
  stacks RUN                  where all ranks are now, or were last, and who waits for whom
  top RUN                     what the ranks of a running run do now
  snapshot RUN                keep a profile of now of a run that goes on
  tui RUN                     browse in a terminal
  start RUN, stop RUN         turn recording of a --standby or light run on and off
  attach PID..., detach RUN   record programs that run already, and let them go
  dump FILE, validate FILE    print or check a shard or profile
  doctor                      check what this machine can measure

Every option has a variable: CLUSTERPROF_RATE=500 is --rate 500, CLUSTERPROF_NO_MPI=1 is
--no-mpi. The command line wins. CLUSTERPROF_ROOT is the directory for runs with a chosen
name (default: here); CLUSTERPROF_NODE overrides the node's host name.

Exit status: the command's own. 125: clusterprof failed; 126: the command cannot be
executed; 127: it was not found; 2: bad command line.

Examples:
  mpirun -n 4 clusterprof python3 train.py
  srun -n 256 clusterprof -o run1 ./stencil --steps 100
  clusterprof -r 500 -- python3 -m package.module
  clusterprof report run1
)";

// The record options as CLI11 sees them: all text, so that our messages can say whether a bad
// value came from the command line or the environment.
struct RawOptions {
  std::string output, rate, clock, clock_sync, ranks, sample_on, spawned, argv0, command_detail, min_duration,
      min_ranks, mode, hang_after, memory, repeat;
  std::map<std::string_view, std::string> of_collector;  // by kCollectorOptions
  std::vector<std::string> events, own;
  bool no_python = false, no_native = false, no_mpi = false, no_children = false, only_regions = false;
  bool no_stderr = false, torch_ops = false;
  bool no_html = false, no_source = false, no_arguments = false;
  bool quiet = false, strict = false, help = false, version = false;
  bool started = false, standby = false;
  bool hang_abort = false;
};

class RecordParser {
 public:
  RecordParser() {
    app_.set_help_flag();
    app_.formatter(formatter_);
    formatter_->column_width(28);
    value("-o,--output", raw_.output, "DIR",
          "write the run to DIR (default: clusterprof-COMMAND-JOB or -TIME)", kOutput);
    value("--repeat", raw_.repeat, "N",
          "of clusterprof run: run the command N times, each in a run of its own (DIR-1, DIR-2, ...)",
          kOutput);
    flag("-q,--quiet", raw_.quiet, "print no summary and write no page at the end", kOutput);
    flag("--no-html", raw_.no_html, "do not write DIR/report.html at the end", kOutput);
    flag("--no-source", raw_.no_source, "leave the text of source files out of the page", kOutput);
    value("--command", raw_.command_detail, "name|hash|masked|full",
          "how much of the command line to store: name (the program alone), hash (and a hash of "
          "its\narguments), "
          "masked (all except passwords and the like), full (default: masked)",
          kOutput);
    flag("--no-arguments", raw_.no_arguments, "store no arguments of the command, as --command name",
         kOutput);
    value("--checkpoint", raw_.of_collector["checkpoint"], "SECONDS|local",
          "write each node's data to the run directory every SECONDS, which is what a lost node\nloses at "
          "most; local: keep it on the node until the end (default: 5)",
          kOutput);
    value("--max-memory", raw_.of_collector["max-memory"], "BYTES",
          "memory that the collector of a node may use, as in 500M (default: what it needs, but it takes\nno "
          "more when the job is near its limit)",
          kScope);
    value("--max-cpu", raw_.of_collector["max-cpu"], "PERCENT",
          "time on one processor that the collector of a node may use (default: what it needs)", kScope);
    value("-r,--rate", raw_.rate, "HZ", "samples per second and thread, 1 to 10000 (default: 100)", kMeasure);
    value(
        "--mode", raw_.mode, "light|full",
        "light: 20 samples per second, MPI totals, no counters, no waiting in MPI, no page\n(default: full)",
        kMeasure);
    flag("--standby", raw_.standby,
         "load everything, but record nothing until clusterprof start RUN (from any node);\n"
         "no counters unless --event names them",
         kMeasure);
    value("--clock", raw_.clock, "wall|cpu",
          "sample by wall clock, waiting included, or by CPU time (default: wall)", kMeasure);
    value("--clock-sync", raw_.clock_sync, "auto|never|always",
          "compare the clocks of the nodes; auto: only if all ranks are known to be recorded (default: auto)",
          kMeasure);
    app_.add_option(
            "-e,--event", raw_.events,
            "count these events instead of the default ones: PAPI's presets and native\nevents; repeat or "
            "separate by commas; none: no counters")
        ->type_name("EVENT")
        ->group(kMeasure)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->expected(1)
        ->allow_extra_args(false);
    app_.add_option("--own", raw_.own,
                    "treat code below PATH as your own, not as a library's, so that findings name its lines; "
                    "repeat\nor separate by colons (default: the program's directory, and code that is not "
                    "installed)")
        ->type_name("PATH")
        ->group(kMeasure)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->expected(1)
        ->allow_extra_args(false);
    value(
        "--sample-on", raw_.sample_on, "EVENT[:PERIOD]",
        "sample at this event instead of by time: after every PERIOD occurrences, or as often as --rate says",
        kMeasure);
    value(kMemory, raw_.memory, "BYTES",
          "record who allocates memory: one of so many bytes, as in --memory=16K; --memory alone: 64K",
          kMeasure);
    flag("--torch-ops", raw_.torch_ops,
         "record PyTorch's operators and what the program names by record_function as regions", kMeasure);
    flag("--no-python", raw_.no_python, "do not record Python frames", kMeasure);
    flag("--no-native", raw_.no_native, "do not record native frames", kMeasure);
    flag("--no-mpi", raw_.no_mpi, "do not wrap MPI calls", kMeasure);
    flag("--only-regions", raw_.only_regions, "record only inside regions that the program names", kScope);
    flag("--no-children", raw_.no_children, "do not record the processes that the command starts", kScope);
    flag("--no-stderr", raw_.no_stderr, "do not keep what a failed rank last wrote to stderr", kScope);
    value("--ranks", raw_.ranks, "LIST", "record only these ranks, as in 0-3,8; the others run untouched",
          kScope);
    value("--min-duration", raw_.min_duration, "SECONDS",
          "keep nothing of a run that ends before it has lasted SECONDS (default: 0)", kScope);
    value("--min-ranks", raw_.min_ranks, "N", "do not record a run of fewer ranks than N (default: 1)",
          kScope);
    value("--hang-after", raw_.hang_after, "SECONDS",
          "when no rank makes progress for SECONDS, say once on stderr and in the run who waits\nfor whom "
          "(default: do not look)",
          kScope);
    flag("--hang-abort", raw_.hang_abort, "with --hang-after: then end the ranks by SIGABRT", kScope);
    flag("--strict", raw_.strict, "do not run the command if it cannot be recorded", kScope);
    flag("-h,--help", raw_.help, "show this help", kOutput);
    flag("-V,--version", raw_.version, "show the version", kOutput);
    value("--spawned", raw_.spawned, "KEY:WORLD:FIRST", "", kHidden);
    flag("--started", raw_.started, "", kHidden);
    value("--argv0", raw_.argv0, "NAME", "", kHidden);
  }

  std::variant<Options, Leave> parse(const std::vector<std::string>& arguments,
                                     const Environment& environment);
  // What of it is known when the rest was refused: the command, if --started says that it is to run
  // nevertheless.
  [[nodiscard]] std::optional<Options> unrecorded(const std::vector<std::string>& arguments) const;
  CLI::App& app() { return app_; }
  // CLUSTERPROF_RATE for "rate".
  static std::string variable_of(std::string name) {
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return "CLUSTERPROF_" + name;
  }

 private:
  static constexpr const char* kOutput = "Output";
  static constexpr const char* kMeasure = "What is measured";
  static constexpr const char* kScope = "What is recorded";
  static constexpr const char* kHidden = "";  // not in the help; mostly between parts of clusterprof
  static constexpr const char* kMemory =
      "--memory";  // its value can be left out, and is never a word of its own

  void value(const char* names, std::string& target, const char* type, const char* what, const char* group) {
    app_.add_option(names, target, what)
        ->type_name(type)
        ->group(group)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  void flag(const char* names, bool& target, const char* what, const char* group) {
    app_.add_flag(names, target, what)->group(group)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  [[nodiscard]] std::string help() const;
  [[nodiscard]] const CLI::Option* find(const std::string& name) const {
    return app_.get_option_no_throw(name);
  }
  [[nodiscard]] std::string unknown(const std::string& word) const;
  [[nodiscard]] bool from_command_line(const std::string& name) const {
    return std::find(seen_.begin(), seen_.end(), name) != seen_.end();
  }
  // How to call a setting in a message: by where its value came from.
  [[nodiscard]] std::string label(const std::string& name) const {
    return from_command_line(name) ? "--" + name : variable_of(name);
  }
  void see(const CLI::Option* option) { seen_.push_back(option->get_lnames().front()); }

  // The number of words that are ours, or a message.
  Result<std::size_t> count_option_words(const std::vector<std::string>& arguments);
  Result<void> read_environment(const Environment& environment);
  Result<Options> check() const;
  Result<void> check_hang(Options& options) const;
  [[nodiscard]] std::vector<std::string> words() const;

  RawOptions raw_;
  std::shared_ptr<CLI::Formatter> formatter_ = std::make_shared<CLI::Formatter>();
  CLI::App app_;
  std::vector<std::string> seen_;  // long names of the options on the command line
};

Leave usage_error(const std::string& message) { return Leave{kExitUsage, "", message}; }

bool takes_value(const CLI::Option* option) {
  return option->get_expected_max() > 0 && option->get_type_size() > 0;
}

std::string RecordParser::unknown(const std::string& word) const {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : app_.get_options())
    for (const std::string& candidate : option->get_lnames()) known.push_back("--" + candidate);
  const std::string best = nearest_word(name, known);
  return "unknown option " + name +
         (best.empty() ? " (see clusterprof --help; the command's own options come after the command)"
                       : ", did you mean " + best + "?");
}

Result<std::size_t> RecordParser::count_option_words(const std::vector<std::string>& arguments) {
  std::size_t at = 0;
  while (at < arguments.size()) {
    const std::string& word = arguments[at];
    if (word == "--" || word == "-" || word.empty() || word[0] != '-') break;
    const CLI::Option* wants_value = nullptr;
    if (word[1] == '-') {
      const std::size_t equals = word.find('=');
      const CLI::Option* const option = find(word.substr(0, equals));
      if (option == nullptr) return Error{unknown(word)};
      see(option);
      const bool attached = equals != std::string::npos;
      if (attached && !takes_value(option)) return Error{word.substr(0, equals) + " takes no value"};
      if (takes_value(option) && !attached && word != kMemory) wants_value = option;
    } else {
      for (std::size_t letter = 1; letter < word.size(); ++letter) {
        const CLI::Option* const option = find(std::string("-") + word[letter]);
        if (option == nullptr) return Error{unknown(letter == 1 ? word : std::string("-") + word[letter])};
        see(option);
        if (!takes_value(option)) continue;
        if (letter + 1 == word.size()) wants_value = option;
        break;
      }
    }
    ++at;
    if (wants_value == nullptr) continue;
    if (at == arguments.size() || arguments[at] == "--") return Error{word + " needs a value"};
    ++at;
  }
  return at;
}

Result<void> RecordParser::read_environment(const Environment& environment) {
  for (CLI::Option* const option : app_.get_options()) {
    const std::string name = option->get_lnames().front();
    if (name == "help" || name == "version" || name == "spawned" || name == "started" || name == "argv0" ||
        name == "repeat" || from_command_line(name))
      continue;
    const std::string variable = variable_of(name);
    const char* text = environment(variable.c_str());
    if ((text == nullptr || *text == '\0') && raw_.started && name == "min-duration")
      text = environment((kSiteVariablePrefix + variable.substr(variable.find('_') + 1)).c_str());
    if (text == nullptr || *text == '\0') continue;
    if (takes_value(option)) {
      option->add_result(std::string(text));
    } else {
      std::string word = text;
      std::transform(word.begin(), word.end(), word.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const bool on = word == "1" || word == "true" || word == "yes" || word == "on";
      if (!on && word != "0" && word != "false" && word != "no" && word != "off") {
        return Error{variable + " is a switch: 1 or 0, not '" + text + "'"};
      }
      if (!on) continue;
      option->add_result("true");
    }
    option->run_callback();
  }
  return {};
}

template <typename Number>
bool to_number(const std::string& text, Number& out) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && rest == text.data() + text.size();
}

Result<Options> RecordParser::check() const {
  Options options;
  options.output = raw_.output;
  if (from_command_line("output") && raw_.output.empty())
    return Error{"--output needs the name of a directory"};
  if (!raw_.rate.empty() || from_command_line("rate")) {
    if (!to_number(raw_.rate, options.rate_hz) || options.rate_hz < 1 || options.rate_hz > kMaxRate_hz) {
      return Error{label("rate") + ": a whole number of samples per second from 1 to " +
                   std::to_string(kMaxRate_hz) + ", not '" + raw_.rate + "'"};
    }
  }
  if (!raw_.mode.empty() || from_command_line("mode")) {
    if (raw_.mode != "light" && raw_.mode != "full")
      return Error{label("mode") + ": light or full, not '" + raw_.mode + "'"};
    options.light = raw_.mode == "light" && !raw_.standby;  // --standby overrides it
  }
  options.standby = raw_.standby;
  if (options.standby && raw_.events.empty()) options.events = {"none"};
  if (options.light) {
    options.clock_sync = ClockSync::kNever;
    if (raw_.rate.empty()) options.rate_hz = kLightRate_hz;
    if (raw_.events.empty()) options.events = {"none"};
  }
  if (!raw_.clock.empty() || from_command_line("clock")) {
    if (raw_.clock != "wall" && raw_.clock != "cpu") {
      return Error{label("clock") + ": wall or cpu, not '" + raw_.clock + "'"};
    }
    options.clock = raw_.clock == "cpu" ? SampleClock::kCpu : SampleClock::kWall;
  }
  if (!raw_.clock_sync.empty() || from_command_line("clock-sync")) {
    if (raw_.clock_sync != "auto" && raw_.clock_sync != "never" && raw_.clock_sync != "always") {
      return Error{label("clock-sync") + ": auto, never or always, not '" + raw_.clock_sync + "'"};
    }
    options.clock_sync = raw_.clock_sync == "never"    ? ClockSync::kNever
                         : raw_.clock_sync == "always" ? ClockSync::kAlways
                                                       : ClockSync::kAuto;
  }
  if (!raw_.command_detail.empty() || from_command_line("command")) {
    const auto detail = command_detail(raw_.command_detail);
    if (!detail)
      return Error{label("command") + ": name, hash, masked or full, not '" + raw_.command_detail + "'"};
    options.command_detail = *detail;
  }
  for (const std::string_view name : kCollectorOptions) {
    const std::string& value = raw_.of_collector.at(name);
    if (value.empty() && !from_command_line(std::string(name))) continue;
    const Result<void> set = set_collector_option(options.collector, name, value, label(std::string(name)));
    if (!set) return set.error();
  }
  if (raw_.no_arguments && (from_command_line("no-arguments") || !from_command_line("command")))
    options.command_detail = CommandDetail::kName;
  std::size_t event_bytes = 0;
  for (const std::string& list : raw_.events) {
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t end = std::min(list.find(',', at), list.size());
      const std::string event = list.substr(at, end - at);
      if (event.empty()) return Error{label("event") + ": an empty name in '" + list + "'"};
      options.events.push_back(event);
      at = end + 1;
      event_bytes += event.size() + 1;
    }
  }
  if (event_bytes > kMaxEventBytes)
    return Error{label("event") + ": names of together at most " + std::to_string(kMaxEventBytes) +
                 " characters"};
  auto own = own_paths(raw_.own);
  if (!own) return Error{label("own") + ": " + own.error().message};
  options.own = std::move(own).value();
  if (!raw_.sample_on.empty() || from_command_line("sample-on")) {
    auto sample_on = parse_sample_on(raw_.sample_on);
    if (!sample_on) return Error{label("sample-on") + ": " + sample_on.error().message};
    options.sample_on = std::move(sample_on).value();
  }
  if ((!raw_.ranks.empty() || from_command_line("ranks")) && !parse_rank_list(raw_.ranks, options.ranks)) {
    return Error{label("ranks") + ": ranks and ranges such as 0-3,8, not '" + raw_.ranks + "'"};
  }
  const auto minimum = [this](const char* name, const std::string& text, int least, int most,
                              const char* what, int& number) -> Result<void> {
    if (text.empty() && !from_command_line(name)) return {};
    if (to_number(text, number) && number >= least && number <= most) return {};
    return Error{label(name) + ": " + what + " from " + std::to_string(least) + " to " +
                 std::to_string(most) + ", not '" + text + "'"};
  };
  int min_duration_s = 0;
  if (auto ok = minimum("min-duration", raw_.min_duration, 0, kMaxMinDuration_s, "a whole number of seconds",
                        min_duration_s);
      !ok)
    return ok.error();
  options.min_duration = std::chrono::seconds(min_duration_s);
  if (auto ok = minimum("min-ranks", raw_.min_ranks, 1, kMaxMinRanks, "a whole number", options.min_ranks);
      !ok)
    return ok.error();
  if (const Result<void> ok = check_hang(options); !ok) return ok.error();
  if (!raw_.memory.empty() || from_command_line("memory")) {
    const auto interval = parse_memory_interval(raw_.memory);
    if (!interval)
      return Error{label("memory") + ": " + std::string(kMemoryIntervalValues) + ", not '" + raw_.memory +
                   "'"};
    options.memory_interval_bytes = *interval;
  }
  if (auto ok = minimum("repeat", raw_.repeat, 1, kMaxRepeats, "a whole number", options.repeat); !ok)
    return ok.error();
  if (from_command_line("spawned") && !parse_spawned_as(raw_.spawned, options.spawned))
    return Error{"--spawned: not '" + raw_.spawned + "'"};
  options.words = words();
  for (const std::string& path : options.own) options.words.push_back("--own=" + path);  // from any directory
  options.no_python = raw_.no_python;
  options.no_native = raw_.no_native;
  options.no_mpi = raw_.no_mpi;
  options.no_children = raw_.no_children;
  options.no_stderr = raw_.no_stderr;
  options.only_regions = raw_.only_regions;
  options.torch_ops = raw_.torch_ops;
  if (options.standby && !options.sample_on.event.empty())
    return Error{label("standby") + " samples by time: it does not go with --sample-on"};
  options.no_html = raw_.no_html || options.light;
  options.no_source = raw_.no_source;
  options.quiet = raw_.quiet;
  options.started = raw_.started;
  options.strict = raw_.strict && !raw_.started;
  options.argv0 = raw_.argv0;
  return options;
}

// Where not all ranks are sampled while they wait, nobody can tell whether one makes progress.
Result<void> RecordParser::check_hang(Options& options) const {
  if (raw_.hang_after.empty() && !from_command_line("hang-after"))
    return raw_.hang_abort ? Result<void>(Error{label("hang-abort") + " needs --hang-after"})
                           : Result<void>();
  int seconds = 0;
  if (!to_number(raw_.hang_after, seconds) || seconds < kMinHangAfter_s || seconds > kMaxHangAfter_s)
    return Error{label("hang-after") + ": a whole number of seconds from " + std::to_string(kMinHangAfter_s) +
                 " to " + std::to_string(kMaxHangAfter_s) + ", not '" + raw_.hang_after + "'"};
  const char* const other = options.standby                      ? "standby"
                            : options.clock == SampleClock::kCpu ? "clock"
                            : !options.sample_on.event.empty()   ? "sample-on"
                            : raw_.only_regions                  ? "only-regions"
                            : !options.ranks.empty()             ? "ranks"
                                                                 : nullptr;
  if (other != nullptr)
    return Error{label("hang-after") + " needs to know of all ranks all the time: it does not go with " +
                 label(other) + (options.clock == SampleClock::kCpu && !options.standby ? " cpu" : "")};
  options.hang_after = std::chrono::seconds(seconds);
  options.hang_abort = raw_.hang_abort;
  return {};
}

std::vector<std::string> RecordParser::words() const {
  std::vector<std::string> words;
  for (const CLI::Option* const option : app_.get_options()) {
    const std::string name = option->get_lnames().front();
    if (option->count() == 0 || name == "output" || name == "spawned" || name == "argv0" || name == "own" ||
        name == "repeat")
      continue;
    if (!takes_value(option)) {
      words.push_back("--" + name);
      continue;
    }
    const CLI::results_t& values = option->results();
    const bool all = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    for (auto it = all ? values.begin() : values.end() - 1; it != values.end(); ++it)
      words.push_back("--" + name + "=" + *it);
  }
  return words;
}

std::string RecordParser::help() const {
  std::string text(kHelpHead);
  text += formatter_->make_groups(&app_, CLI::AppFormatMode::Normal);
  for (std::size_t at = 0; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  text += kHelpTail;
  return text;
}

// "mpirun -n 4 clusterprof true" for "mpirun -n 4 true": the launcher's own options stay where
// they are.
std::string right_order(const std::vector<std::string>& command) {
  const std::size_t at = behind_launcher(command);
  std::string text;
  for (std::size_t i = 0; i < at; ++i) text += command[i] + " ";
  text += "clusterprof";
  for (std::size_t i = at; i < command.size(); ++i) text += " " + command[i];
  return at == command.size() ? text + " COMMAND" : text;
}

std::variant<Options, Leave> RecordParser::parse(const std::vector<std::string>& arguments,
                                                 const Environment& environment) {
  const auto counted = count_option_words(arguments);
  if (!counted) return usage_error(counted.error().message);
  const auto first_command_word = arguments.begin() + static_cast<std::ptrdiff_t>(counted.value());
  try {
    // CLI11 takes the words from the back.
    std::vector<std::string> words(arguments.begin(), first_command_word);
    for (std::string& word : words)
      if (word == kMemory) word += "=on";
    std::reverse(words.begin(), words.end());
    app_.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
  if (raw_.help) return Leave{0, help(), ""};
  if (raw_.version) return Leave{0, std::string("clusterprof ") + kVersion + "\n", ""};
  if (const char* const problem = environment(kStartProblemVariable);
      raw_.started && problem != nullptr && *problem != '\0')
    return usage_error(problem);
  if (const auto read = read_environment(environment); !read) return usage_error(read.error().message);

  auto checked = check();
  if (!checked) return usage_error(checked.error().message);
  Options options = std::move(checked).value();
  options.command.assign(first_command_word, arguments.end());
  const bool escaped = !options.command.empty() && options.command[0] == "--";
  if (escaped) options.command.erase(options.command.begin());
  if (options.command.empty()) {
    return usage_error("no command to record; usage: " + std::string(kUsage) + " (more: clusterprof --help)");
  }
  if (const std::string launcher = launcher_name(options.command[0]);
      !escaped && !launcher.empty() && options.repeat == 0) {
    return usage_error("wrong order: " + launcher + " comes first: " + right_order(options.command) +
                       " (to record " + launcher + " itself: clusterprof -- " + launcher + " ...)");
  }
  return options;
}

std::optional<Options> RecordParser::unrecorded(const std::vector<std::string>& arguments) const {
  const auto end_of_options = std::find(arguments.begin(), arguments.end(), "--");
  if (!raw_.started || arguments.end() - end_of_options < 2) return std::nullopt;
  Options options;
  options.started = true;
  options.argv0 = raw_.argv0;
  options.command.assign(end_of_options + 1, arguments.end());
  return options;
}

}  // namespace

bool Options::wants_rank(int rank) const {
  // A command without a launcher is rank 0 of 1.
  const int number = std::max(rank, 0);
  return ranks.empty() || std::any_of(ranks.begin(), ranks.end(), [number](const std::pair<int, int>& range) {
           return range.first <= number && number <= range.second;
         });
}

Options::Selection Options::selected_ranks(int world_size) const {
  Selection selection;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!wants_rank(rank)) continue;
    if (selection.lowest < 0) selection.lowest = rank;
    ++selection.count;
  }
  return selection;
}

std::string Options::rank_list() const {
  std::string text;
  for (const auto& [first, last] : ranks) {
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last != first) text += '-' + std::to_string(last);
  }
  return text;
}

bool parse_rank_list(const std::string& text, std::vector<std::pair<int, int>>& out) {
  std::vector<std::pair<int, int>> ranges;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    const std::size_t dash = part.find('-', 1);
    int first = 0, last = 0;
    if (!to_number(part.substr(0, dash), first) || first < 0) return false;
    last = first;
    if (dash != std::string::npos && (!to_number(part.substr(dash + 1), last) || last < first)) return false;
    ranges.emplace_back(first, last);
  }
  out = std::move(ranges);
  return true;
}

std::variant<Options, Leave> parse_record_options(const std::vector<std::string>& arguments,
                                                  const Environment& environment) {
  RecordParser parser;
  auto parsed = parser.parse(arguments, environment);
  if (const auto* leave = std::get_if<Leave>(&parsed); leave != nullptr && !leave->error.empty()) {
    if (auto options = parser.unrecorded(arguments)) {
      options->problem = leave->error;
      return std::move(*options);
    }
  }
  return parsed;
}

void with_record_options(const std::function<void(CLI::App&)>& use) {
  RecordParser parser;
  use(parser.app());
}

const std::vector<std::string>& analysis_verbs() {
  static const std::vector<std::string> kVerbs = {
      "report", "merge", "query", "export", "diff",   "ls",       "tui",    "dump",  "validate", "doctor",
      "attach", "top",   "start", "stop",   "stacks", "snapshot", "detach", "scale", "history",  "whatif"};
  return kVerbs;
}

std::string meant_verb(const std::string& word) {
  std::vector<std::string> verbs = analysis_verbs();
  verbs.insert(verbs.end(), {"record", "run", "help"});
  return word.size() < 2 ? "" : nearest_word(word, verbs);
}

bool is_analysis_verb(const std::string& word) {
  const std::vector<std::string>& verbs = analysis_verbs();
  return std::find(verbs.begin(), verbs.end(), word) != verbs.end();
}

}  // namespace clusterprof::cli
