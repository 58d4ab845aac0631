// SPDX-License-Identifier: BSD-3-Clause
// slurm-activation [root=DIR] [options=LIST] [default=on|off] [prefix=DIR] [starter=FILE]: prints what
// slurm/task_prolog passes to Slurm, that is, what the plugin would set in the environment of this task, as
// lines "export NAME=VALUE" and "unset NAME".
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/unique_fd.hpp"
#include "slurm/activation/activation.hpp"
#include "slurm/start/decide.hpp"

namespace clusterprof::slurm {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string own_prefix() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return {};
  const std::string self(path, static_cast<std::size_t>(length));
  const std::string place = "/libexec/clusterprof/slurm-activation";
  return self.size() > place.size() && self.compare(self.size() - place.size(), place.size(), place) == 0
             ? self.substr(0, self.size() - place.size())
             : "";
}

// The task is not executed yet: its process still bears the name of the step's daemon, "slurmstepd:
// [4711.batch]".
bool has_tasks() {
  char name[256] = {};
  const std::string path = "/proc/" + variable("SLURM_TASK_PID").value_or("self") + "/cmdline";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t bytes = file.get() < 0 ? 0 : ::read(file.get(), name, sizeof name - 1);
  const std::string_view daemon(name, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return daemon.find(".batch]") == std::string_view::npos &&
         daemon.find(".interactive]") == std::string_view::npos;
}

// TaskProlog has no standard error, and what it prints goes to the job's output, which is the program's.
void complain(const std::string& problem) {
  ::syslog(LOG_USER | LOG_WARNING, "clusterprof: %s", problem.c_str());
}

void run(const std::vector<std::string>& arguments) {
  Site site = parse_site(arguments);
  if (site.prefix.empty()) site.prefix = own_prefix();
  for (const std::string& problem : site.problems) complain(problem);

  const std::string home = variable("HOME").value_or("");
  const auto user_name = [] {
    // The directory service is not asked if possible: all tasks of a large job would do it at once.
    if (const auto name = variable("SLURM_JOB_USER"); name && !name->empty()) return *name;
    const passwd* const entry = ::getpwuid(::getuid());
    return entry == nullptr ? variable("USER").value_or("") : std::string(entry->pw_name);
  };
  Decision decision =
      decide(std::nullopt, site, variable, {[&home] { return has_opted_out(home); }, user_name});
  if (is_explained(decision, variable))
    complain("not recorded: " + decision.explanation + " (" + decision.reason + ")");
  // The launcher reports it where users look.
  const std::string problem = decision.problem;
  if (!problem.empty()) decision.kind = Decision::kActivate;
  if (decision.kind == Decision::kActivate) {
    if (const char* const off = off_file(); off != nullptr) {
      complain(off_text(off) + "; not recorded");
      decision.kind = Decision::kStrip;
    } else if (const std::string missing = obstacle(site); !missing.empty()) {
      complain(missing + "; not recorded");
      decision.kind = Decision::kStrip;
    } else if (!problem.empty()) {
      std::printf("export %s=%s\n", start::kProblemVariable, problem.c_str());
    }
  }
  const Step step{has_tasks(), user_name, [&home] { return home; }};
  for (const auto& [name, value] : activate(decision, site, step, variable)) {
    std::printf(value.empty() ? "unset %s\n" : "export %s=%s\n", name.c_str(), value.c_str());
  }
}

}  // namespace
}  // namespace clusterprof::slurm

int main(int argc, char** argv) {
  try {
    clusterprof::slurm::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& error) {
    clusterprof::slurm::complain(error.what());
  }
  return 0;
}
