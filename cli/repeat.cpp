// SPDX-License-Identifier: BSD-3-Clause
#include "cli/repeat.hpp"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/install_layout.hpp"
#include "cli/launcher_words.hpp"
#include "cli/message.hpp"
#include "cli/supervisor.hpp"

namespace clusterprof::cli {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kOwnName = "clusterprof";
constexpr std::string_view kNextProgram = ":";  // of mpirun

bool is_own(const std::string& word) { return word.substr(word.rfind('/') + 1) == kOwnName; }

// Options of the launcher that are not known may have a value: the program is a word that could be executed,
// or clusterprof, which need not be found from here.
std::size_t program_in(const Words& words) {
  std::size_t at = behind_launcher(words);
  while (at < words.size() && !is_own(words[at]) && find_command(words[at]).status != 0) ++at;
  return at;
}

void append(Words& to, Words::const_iterator begin, Words::const_iterator end) {
  to.insert(to.end(), begin, end);
}

// DIR-1 and so on, without those that are there.
class Names {
 public:
  explicit Names(std::string base) : base_(std::move(base)) {
    while (base_.size() > 1 && base_.back() == '/') base_.pop_back();
  }
  std::string next() {
    std::error_code error;
    std::string name;
    do name = base_ + "-" + std::to_string(++last_);
    while (std::filesystem::exists(std::filesystem::symlink_status(name, error)));
    return name;
  }

 private:
  std::string base_;
  int last_ = 0;
};

}  // namespace

Result<Words> recorded_command(const Words& command, const Words& recorder) {
  Words result;
  const auto record = [&](Words::const_iterator program, Words::const_iterator end) {
    if (is_own(*program)) {
      auto behind = program + 1;
      if (behind != end && (*behind == "record" || *behind == "run")) ++behind;
      append(result, program, behind);
      append(result, recorder.begin() + 1, recorder.end());
      append(result, behind, end);
      return;
    }
    append(result, recorder.begin(), recorder.end());
    result.emplace_back("--");
    append(result, program, end);
  };
  if (launcher_name(command[0]).empty()) {
    record(command.begin(), command.end());
    return result;
  }
  // Each part of the command line as the launcher's own, with options first.
  for (auto begin = command.begin(); begin != command.end();) {
    const auto end = std::find(begin, command.end(), kNextProgram);
    const bool is_first = begin == command.begin();
    Words part(begin, end);
    if (!is_first) part.insert(part.begin(), command[0]);
    const std::size_t program = program_in(part);
    if (program == part.size())
      return Error{"it cannot be told where the program begins in this command: put clusterprof before it"};
    const auto at = begin + static_cast<std::ptrdiff_t>(program - (is_first ? 0 : 1));
    append(result, begin, at);
    record(at, end);
    begin = end;
    if (begin == command.end()) break;
    result.emplace_back(*begin++);
  }
  return result;
}

int repeat(const Options& options) {
  const auto layout = find_install_layout();
  if (!layout) {
    say(layout.error().message);
    return kExitFailed;
  }
  Words recorder = {layout.value().launcher};
  append(recorder, options.words.begin(), options.words.end());
  const SignalState signals;
  Names names(options.output);
  const int runs = std::max(options.repeat, 1);
  std::string made;
  for (int run = 0; run < runs; ++run) {
    Words with_output = recorder;
    if (!options.output.empty()) {
      const std::string name = runs == 1 ? options.output : names.next();
      with_output.push_back("--output=" + name);
      made += " " + name;
    }
    const Result<Words> words = recorded_command(options.command, with_output);
    if (!words) {
      say(words.error().message);
      return kExitUsage;
    }
    auto probe = GroupSignalProbe::start();
    if (!probe) {
      say(probe.error().message);
      return kExitFailed;
    }
    const StartedProgram program =
        start_program(words.value()[0], words.value(), signals, [] { return true; });
    if (program.pid < 0) {
      say(words.value()[0] + ": " + std::strerror(program.exec_error));
      return program.exec_error == ENOENT ? kExitNotFound : kExitNotExecutable;
    }
    CollectorHandle none;
    GroupSignalProbe watching = std::move(probe).value();
    const int status = supervise(program.pid, 0, none, watching, std::chrono::seconds(1)).wait_status;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (run + 1 < runs) say("run " + std::to_string(run + 1) + " of " + std::to_string(runs) + " failed");
    end_as(status);
  }
  if (runs > 1 && !options.quiet)
    say(std::to_string(runs) + " runs" + (made.empty() ? std::string() : ":" + made));
  return 0;
}

}  // namespace clusterprof::cli
