// SPDX-License-Identifier: BSD-3-Clause
// libexec/clusterprof/doctor: `clusterprof doctor`. Needs only libc, because it has to start where the rest
// does not.
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/leading_number.hpp"
#include "base/write_all.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/options.hpp"
#include "cli/doctor/real_system.hpp"
#include "cli/doctor/report.hpp"
#include "cli/doctor/site.hpp"
#include "cli/install_layout.hpp"
#include "cli/merge_launch.hpp"
#include "cli/message.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr int kOk = 0, kSomethingFails = 1;
// A time limit for work that has none of its own: reading files of a file system that does not answer. A
// process that waits for such a file does not react to signals that have a handler.
constexpr std::chrono::seconds kQuickPatience{1}, kPatience{240};

void give_up_after(std::chrono::seconds patience, int fd) {
  std::thread([patience, fd] {
    std::this_thread::sleep_for(patience);
    constexpr char kText[] = "fail: node check: stopped, because a file system does not answer\n";
    [[maybe_unused]] const ssize_t written = ::write(fd, kText, sizeof kText - 1);
    ::_exit(kSomethingFails);
  }).detach();
}

void print(const std::string& text) {
  if (!write_all(STDOUT_FILENO, text))
    throw std::runtime_error(std::string("standard output: ") + std::strerror(errno));
}

std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80, kMost = 120, kLeast = 60;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::clamp<std::size_t>(size.ws_col, kLeast, kMost);
  const char* const variable = std::getenv("COLUMNS");
  const int columns = variable == nullptr ? 0 : leading_number(variable).value_or(0);
  return columns > 0 ? std::clamp<std::size_t>(static_cast<std::size_t>(columns), kLeast, kMost) : kUsual;
}

bool wants_colour(const std::string& choice) {
  const auto set = [](const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  if (choice != "auto") return choice == "always";
  return ::isatty(STDOUT_FILENO) == 1 && set("NO_COLOR").empty() && set("TERM") != "dumb" &&
         !set("TERM").empty();
}

// A directory for recordings; removed afterwards.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::error_code error;
    std::string name =
        (std::filesystem::temp_directory_path(error) / "clusterprof-self-test-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no temporary directory can be made: " +
                               (error ? error.message() : std::string(std::strerror(errno))));
    path_ = name;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The user's own settings for recording would change what is recorded here.
void forget_own_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (text.starts_with("CLUSTERPROF_")) names.push_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

int report_on_site(const Options& options) {
  const Request& request = options.request;
  const auto layout = find_install_layout_of_helper();
  if (!layout) throw std::runtime_error(layout.error().message);
  // The processes that answer are not to be recorded.
  ::setenv("CLUSTERPROF_SLURM", "off", 1);
  std::string error;
  const SiteReport report = ask_site(
      *this_machine(), {layout.value().launcher, request.nodes, request.partition, request.directory}, error);
  if (!error.empty()) {
    say(error);
    return kExitUsage;
  }
  print(options.json ? json_of(report) : text_of(report));
  const bool fails =
      std::any_of(report.problems.begin(), report.problems.end(),
                  [](const Difference& problem) { return problem.fact == name_of(Status::kFail); });
  return fails || !report.missing.empty() ? kSomethingFails : kOk;
}

int run(int argc, char** argv) {
  CLI::App app{"What was recorded: merge it, explain it, look at it", "clusterprof"};
  app.require_subcommand(1);
  CLI::App* const verb = app.add_subcommand("doctor");
  Options options;
  define_options(*verb, options);
  verb->footer(
      "Exit status: 0, 1 when something fails, 2 for a bad command line.\n"
      "mpirun clusterprof doctor, srun clusterprof doctor: each node checks itself.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    std::ostringstream text;  // not std::cout, which may be written only at the end
    const int status = app.exit(help, text, text);
    print(text.str() + "\nManual page: clusterprof help doctor\n");
    return status;
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    say(text + " (see clusterprof doctor --help)");
    return kExitUsage;
  }

  Request& request = options.request;
  if (request.site) {
    remove_agent_from_environment();
    return report_on_site(options);
  }

  // When a job starts several processes, one per node checks the node, and one checks what all have in
  // common.
  remove_agent_from_environment();
  const auto identity = identify(process_environment());
  const bool has_peers = identity && identity.value().has_peers && identity.value().world_size > 1;
  if (has_peers && request.self_test) {
    if (identity.value().speaks_for_all())
      say("--self-test starts its own ranks: call it without a launcher");
    return kExitUsage;
  }
  if (has_peers) {
    if (identity.value().rank > 0 && identity.value().local_rank > 0) return kOk;
    if (identity.value().rank > 0) request.node = true;
  }

  const std::unique_ptr<System> system = this_machine();
  const auto layout = find_install_layout_of_helper();
  if (!layout) throw std::runtime_error(layout.error().message);
  const Context context{*system, layout.value(), request};
  const std::string node = has_peers ? identity.value().node : system->host();
  const bool notes = request.quick && request.node && !options.json;
  give_up_after(request.quick ? kQuickPatience : kPatience, notes ? STDOUT_FILENO : STDERR_FILENO);
  std::optional<ScratchDirectory> scratch;
  if (request.self_test) {
    forget_own_variables();
    scratch.emplace();
    request.scratch = scratch->path();
  }
  Checks checks;
  for (const CheckRow& row : request.self_test ? self_test_checks() : all_checks()) {
    if ((request.node && !row.node) || (request.quick && !row.quick)) continue;
    const std::size_t before = checks.size();
    row.check(context, checks);
    // Prints each result as soon as it is known, in case the next check does not return.
    std::string lines;
    for (std::size_t i = before; notes && i < checks.size(); ++i) lines += note_of(checks[i]) + "\n";
    print(has_peers ? with_prefix(lines, node) : lines);
  }
  if (request.answer) {
    const std::string slurms_name = variable(*system, "SLURMD_NODENAME");
    print(answer_lines(slurms_name.empty() ? node : slurms_name, json_of(checks, node, false)));
  } else if (options.json) {
    print(json_of(checks, node, !has_peers));
  } else if (!notes) {
    TextOptions how{node, options.verbose, wants_colour(options.colour), terminal_columns()};
    if (has_peers) how.width -= std::min(how.width / 4, node.size() + 2);
    const std::string text = text_of(checks, how);
    print(has_peers ? with_prefix(text, node) : text);
  }
  return verdict_of(checks) == Status::kFail ? kSomethingFails : kOk;
}

}  // namespace
}  // namespace clusterprof::cli::doctor

int main(int argc, char** argv) {
  try {
    return clusterprof::cli::doctor::run(argc, argv);
  } catch (const std::exception& error) {
    clusterprof::cli::say(std::string("doctor: ") + error.what());
    return clusterprof::cli::kExitFailed;
  }
}
