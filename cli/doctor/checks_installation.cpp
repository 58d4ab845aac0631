// SPDX-License-Identifier: BSD-3-Clause
// Checks that all parts of the installation are there and that the users who run jobs may use them.
#include <elf.h>
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/base_name.hpp"
#include "cli/doctor/checks.hpp"
#include "formats/wire/preload_entry.h"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kNothing = "nothing can be recorded";

struct Part {
  std::string path, what;
  bool is_vital = false;    // nothing is recorded without it
  bool is_program = false;  // else it is loaded
  std::string costs;
};

std::vector<Part> parts_of(const InstallLayout& layout) {
  const std::string& libraries = layout.preload_directory;
  std::vector<Part> parts = {
      {layout.launcher, "bin/clusterprof", true, true, kNothing},
      {layout.collector, "the collector", true, true, kNothing},
      {layout.agent(), "the agent", true, false, kNothing},
      {layout.analyze, "the analysis", true, true, "no reports, no summary at the end of a job"},
      {layout.browser(), "the terminal browser", false, true, "no clusterprof tui"},
      {layout.memory_preload(), "the preload in front of malloc", false, false, "no --memory"},
      {libraries + "/libclusterprof_start.so", "the starter", false, false,
       "neither srun --clusterprof nor task_prolog starts a recording"},
      {libraries + "/python/clusterprof/__init__.py", "the Python module", false, false,
       "programs cannot import clusterprof to name regions or read runs"},
  };
  for (const char* const directory : wire::kLibraryDirectories) {
    const std::string link = std::string(directory) + "/" + std::string(base_name(layout.agent()));
    parts.push_back({libraries + "/" + link, link, false, false,
                     "programs of containers with another system may not be recorded, and ld.so says so"});
  }
  return parts;
}

int machine_here() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
  return EM_NONE;
#endif
}

// Collects the libraries that an object needs, directly or not, and that are nowhere.
void missing_libraries(const System& system, const std::string& path, std::set<std::string>& seen,
                       std::set<std::string>& missing) {
  if (!seen.insert(path).second) return;
  const auto object = system.needed_by(path);
  if (!object) return;
  for (const std::string& name : object->needed) {
    if (name.starts_with("ld-linux")) continue;
    const std::string library = system.find_library(name, path, *object);
    if (library.empty()) {
      missing.insert(name);
    } else {
      missing_libraries(system, library, seen, missing);
    }
  }
}

}  // namespace

void check_files(const Context& context, Checks& out) {
  Check check{"install.files", "installation", "installation", Status::kOk, "", "", "", {}};
  const std::string prefix = context.layout.prefix();
  std::map<std::string, std::vector<std::string>> problems;
  std::vector<std::string> costs;
  for (const Part& part : parts_of(context.layout)) {
    const FileFacts facts = context.system.look(part.path);
    std::string problem;
    if (facts.error != 0) {
      problem = facts.error == ENOENT ? "missing" : std::strerror(facts.error);
    } else if (part.is_program ? !facts.may_execute : !facts.may_read) {
      problem = part.is_program ? "may not be executed" : "may not be read";
    } else if (const auto elf = context.system.elf(part.path); elf && elf->machine != machine_here()) {
      problem = "built for another processor";
    }
    if (problem.empty()) continue;
    problems[problem].push_back(part.what);
    check.details.push_back(part.path + ": " + problem);
    check.status = std::max(check.status, part.is_vital ? Status::kFail : Status::kWarn);
    if (std::find(costs.begin(), costs.end(), part.costs) == costs.end()) costs.push_back(part.costs);
  }
  check.found = "whole, below " + prefix;
  if (!problems.empty()) {
    std::vector<std::string> texts;
    for (const auto& [problem, parts] : problems) texts.push_back(problem + ": " + joined(parts));
    check.found = joined(texts, "; ");
    check.costs = check.status == Status::kFail && costs.front() == kNothing ? kNothing : joined(costs, "; ");
    check.fix = "whoever installed it: install again below " + prefix;
  }
  out.push_back(check);
}

void check_libraries(const Context& context, Checks& out) {
  Check check{"install.libraries", "installation", "libraries", Status::kOk, "", "", "", {}};
  std::set<std::string> seen, missing;
  bool any = false;
  for (const std::string& program :
       {context.layout.collector, context.layout.analyze, context.layout.browser()}) {
    any = any || context.system.needed_by(program);
    missing_libraries(context.system, program, seen, missing);
  }
  if (missing.empty()) {
    check.found = any ? "all that the collector and the analysis need" : "not known: no programs";
  } else {
    check.status = Status::kFail;
    check.found = "not found: " + joined({missing.begin(), missing.end()});
    check.costs = "the collector or the analysis does not start on this node";
    check.fix = "admin: install these packages on all nodes; you: load the module that has them";
  }
  out.push_back(check);
}

void check_access(const Context& context, Checks& out) {
  Check check{"install.access", "installation", "access", Status::kOk, "", "", "", {}};
  const std::string prefix = context.system.resolve(context.layout.prefix());
  const uid_t owner = context.system.look(prefix).owner;
  std::vector<std::string> closed;
  // Every directory on the way has to be passed.
  for (std::size_t at = prefix.find('/', 1); !prefix.empty(); at = prefix.find('/', at + 1)) {
    const std::string directory = prefix.substr(0, at);
    if ((context.system.look(directory).mode & 01) == 0) closed.push_back(directory);
    if (at == std::string::npos) break;
  }
  for (const Part& part : parts_of(context.layout)) {
    const FileFacts facts = context.system.look(part.path);
    const mode_t wanted = part.is_program ? 05 : 04;
    if (facts.error == 0 && (facts.mode & wanted) != wanted) closed.push_back(part.path);
  }
  if (closed.empty()) {
    check.found = "every user may read and execute it";
  } else if (owner != 0 && owner == subject(context.system)) {
    check.found = "yours alone (" + closed.front() + " is closed to others)";
  } else {
    check.status = Status::kWarn;
    check.found = closed.front() + " is closed to other users" +
                  (closed.size() > 1 ? " (and " + std::to_string(closed.size() - 1) + " more)" : "");
    check.costs = "jobs of other users are not recorded";
    check.fix = "whoever installed it: chmod a+rX " +
                joined({closed.begin(), closed.begin() + std::min<std::ptrdiff_t>(
                                                             3, static_cast<std::ptrdiff_t>(closed.size()))},
                       " ");
  }
  out.push_back(check);
}

}  // namespace clusterprof::cli::doctor
