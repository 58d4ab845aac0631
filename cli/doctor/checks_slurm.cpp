// SPDX-License-Identifier: BSD-3-Clause
// Checks whether this Slurm and the plugin fit together, and how Slurm starts MPI programs.
#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/leading_number.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/directory_trial.hpp"
#include "cli/mpi_flavour.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kSlurmGroup = "slurm";
constexpr const char* kPluginName = "spank_clusterprof.so";
// Where docs/slurm.md has install_on_node put the copies: on the node's own disk.
constexpr const char* kNodeDirectory = "/opt/clusterprof-node";
constexpr std::chrono::milliseconds kToolPatience{8'000};
constexpr int kMaxIncludes = 8;
constexpr int kMaxFiles = 256;  // files may include each other
constexpr int kMinKillWait_s = 5;

// The Slurm release that it was built with, from SLURM_VERSION_NUMBER: 22.05 of 0x160508.
std::string release_of(std::uint32_t number) {
  const std::string minor = std::to_string(number >> 8 & 0xff);
  return std::to_string(number >> 16 & 0xff) + "." + (minor.size() == 1 ? "0" : "") + minor;
}

// 22.05 of 22.05.8
std::string release_of(const std::string& version) {
  const std::size_t first = version.find('.');
  return first == std::string::npos ? version : version.substr(0, version.find('.', first + 1));
}

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

struct Plugin {
  std::string path, release;
};

std::vector<Plugin> plugins_installed(const Context& context) {
  std::vector<Plugin> plugins;
  const std::string& directory = context.layout.preload_directory;
  std::vector<std::string> paths = {directory + "/" + kPluginName};
  for (const std::string& name : context.system.list(directory))
    if (name.starts_with("slurm-")) paths.push_back(directory + "/" + name + "/" + kPluginName);
  for (const std::string& path : paths)
    if (const auto number = context.system.exported_number(path, "plugin_version"))
      plugins.push_back({path, release_of(*number)});
  return plugins;
}

struct StackLine {
  std::string file, path;
  bool is_required = false;
  std::string arguments = {};
};

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    at = line.find_first_not_of(" \t", at);
    if (at == std::string::npos || line[at] == '#') break;
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// The files that match a pattern in the last part of a path.
std::vector<std::string> files_like(const System& system, const std::string& pattern) {
  std::vector<std::string> paths;
  for (const std::string& name : system.list(directory_of(pattern)))
    if (::fnmatch(name_of(pattern).c_str(), name.c_str(), 0) == 0)
      paths.push_back(directory_of(pattern) + "/" + name);
  return paths;
}

// Finds our lines in plugstack.conf and the files that it includes. At most `files` more files are read.
void find_lines(const System& system, const std::string& file, int depth, int& files,
                std::vector<StackLine>& out) {
  if (--files < 0) return;
  const std::string text = system.read(file).value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::vector<std::string> words = words_of(text.substr(at, end - at));
    at = end + 1;
    if (words.size() < 2) continue;
    if (words[0] == "include" && depth < kMaxIncludes) {
      const std::string pattern = words[1].starts_with('/') ? words[1] : directory_of(file) + "/" + words[1];
      for (const std::string& path : files_like(system, pattern))
        find_lines(system, path, depth + 1, files, out);
    } else if ((words[0] == "required" || words[0] == "optional") && name_of(words[1]) == kPluginName) {
      out.push_back({file, words[1], words[0] == "required",
                     joined(std::vector<std::string>(words.begin() + 2, words.end()), " ")});
    }
  }
}

void check_plugin(const Context& context, const std::string& version, Checks& out) {
  Check check{"slurm.plugin", kSlurmGroup, "version and plugin", Status::kOk, "Slurm " + version, "", "", {}};
  const std::vector<Plugin> plugins = plugins_installed(context);
  std::vector<std::string> releases;
  for (const Plugin& plugin : plugins) {
    check.details.push_back(plugin.path + ": for " + plugin.release);
    releases.push_back(plugin.release);
  }
  const bool fits = std::find(releases.begin(), releases.end(), release_of(version)) != releases.end();
  check.found += plugins.empty() ? ", no plugin" : ", plugin for " + joined(releases);
  if (!fits) {
    check.status = Status::kWarn;
    check.costs = (plugins.empty() ? std::string() : "this Slurm does not load it: ") +
                  "no srun --clusterprof (srun clusterprof COMMAND works)";
    check.fix = "whoever installed it: build with Slurm " + release_of(version) +
                "'s headers (slurm/spank.h; -DCLUSTERPROF_SLURM_INCLUDE_DIRS=DIR)";
  }
  out.push_back(check);
}

// Where plugstack.conf may be, by what Slurm says.
std::vector<std::string> places_of_plugstack(const System& system, const std::string& configuration) {
  std::vector<std::string> places;
  if (const std::string set = field_of(configuration, "PlugStackConfig"); set.starts_with('/'))
    places.push_back(set);
  for (const std::string& set : {field_of(configuration, "SLURM_CONF"), variable(system, "SLURM_CONF")})
    if (set.starts_with('/')) places.push_back(directory_of(set) + "/plugstack.conf");
  for (const char* usual :
       {"/etc/slurm/plugstack.conf", "/etc/slurm-llnl/plugstack.conf", "/run/slurm/conf/plugstack.conf"})
    places.emplace_back(usual);
  return places;
}

// Empty: none is.
std::string first_that_is_there(const System& system, const std::vector<std::string>& places) {
  for (const std::string& place : places)
    if (system.read(place)) return place;
  return {};
}

// "PATH is on TYPE" for a path on a network file system; empty: it is on none.
std::string on_network(const System& system, const std::string& mounts, const std::string& path) {
  // A link is resolved only where that cannot hang.
  std::string type = mount_of(mounts, path).type;
  if (!is_shared_file_system(type)) type = mount_of(mounts, system.resolve(path)).type;
  return is_shared_file_system(type) ? path + " is on " + type : std::string();
}

// What Slurm loads at each start, and each task of a recorded job, as far as it is on a network file system.
std::vector<std::string> remote_objects(const System& system, const std::string& plugin,
                                        const std::string& arguments) {
  const std::string mounts = system.read("/proc/self/mountinfo").value_or("");
  std::vector<std::string> paths = {plugin}, remote;
  constexpr std::string_view kStarter = "starter=";
  for (const std::string& word : words_of(arguments))
    if (word.starts_with(kStarter)) paths.push_back(word.substr(kStarter.size()));
  for (const std::string& path : paths) {
    if (!path.starts_with('/')) continue;
    if (std::string where = on_network(system, mounts, path); !where.empty())
      remote.push_back(std::move(where));
  }
  return remote;
}

void check_plugstack(const Context& context, const std::string& configuration, const std::string& version,
                     Checks& out) {
  const System& system = context.system;
  Check check{"slurm.plugstack", kSlurmGroup, "plugstack.conf", Status::kOk, "", "", "", {}};
  const std::vector<std::string> places = places_of_plugstack(system, configuration);
  const std::string file = first_that_is_there(system, places);
  std::vector<StackLine> lines;
  int files = kMaxFiles;
  if (!file.empty()) find_lines(system, file, 0, files, lines);

  const std::string prefix = context.layout.prefix();
  const std::string copy = prefix + "/share/clusterprof/slurm/install_on_node " + kNodeDirectory;
  const std::string wanted =
      std::string("optional ") + kNodeDirectory + "/" + kPluginName + " prefix=" + kNodeDirectory + "/prefix";
  if (lines.empty()) {
    const std::string task_prolog = field_of(configuration, "TaskProlog");
    const bool by_prolog =
        task_prolog.ends_with("/task_prolog") && task_prolog.find("clusterprof") != std::string::npos;
    check.found = by_prolog ? "no line for clusterprof; TaskProlog is ours"
                            : (file.empty() ? std::string("none that can be read")
                                            : file + " has no line for clusterprof");
    if (!by_prolog) {
      check.status = Status::kWarn;
      check.costs = "no srun --clusterprof (srun clusterprof COMMAND works)";
      check.fix = "admin: on each node " + copy + "; then add to " + (file.empty() ? places.front() : file) +
                  ": " + wanted;
    }
    out.push_back(check);
    return;
  }
  const StackLine& line = lines.front();
  const std::string path =
      line.path.starts_with('/') ? line.path : field_of(configuration, "PluginDir") + "/" + line.path;
  check.found = line.file + ": " + (line.is_required ? "required " : "optional ") + line.path;
  // First, since reading a file there may hang.
  if (const std::vector<std::string> remote = remote_objects(system, path, line.arguments); !remote.empty()) {
    check.status = Status::kFail;
    check.found += "; " + joined(remote);
    check.costs =
        "while that file system is unavailable, tasks do not start and Slurm drains nodes, even of jobs that "
        "are not recorded";
    check.fix = "admin: on each node " + copy + "; then " + wanted;
    out.push_back(check);
    return;
  }
  const auto number = system.exported_number(path, "plugin_version");
  if (!number) {
    check.status = line.is_required ? Status::kFail : Status::kWarn;
    check.found += ", which is not there on this node";
    check.costs =
        line.is_required ? "jobs cannot start here, and Slurm drains the node" : "no srun --clusterprof here";
    check.fix = "admin: on each node " + copy + "; then " + wanted;
  } else if (release_of(*number) != release_of(version)) {
    check.status = Status::kFail;
    check.found += ", built for Slurm " + release_of(*number);
    check.costs = line.is_required ? "jobs cannot start, and Slurm drains nodes"
                                   : "Slurm " + version + " does not load it: no srun --clusterprof";
    check.fix = "admin: a plugin built with this Slurm's headers";
  } else if (line.is_required) {
    check.status = Status::kWarn;
    check.costs = "if the file is ever out of reach, jobs fail and Slurm drains nodes";
    check.fix = "admin: optional instead of required";
  } else if (lines.size() > 1) {
    check.status = Status::kWarn;
    check.found += ", and " + std::to_string(lines.size() - 1) + " more";
    check.costs = "Slurm takes the option from one of them";
    check.fix = "admin: leave one line";
  }
  out.push_back(check);
}

void check_start_of_mpi(const Context& context, const std::string& configuration, Checks& out) {
  const System& system = context.system;
  Check check{"slurm.mpi", kSlurmGroup, "srun --mpi", Status::kOk, "", "", "", {}};
  const std::string srun = in_path(system, "srun");
  const CommandOutcome outcome =
      srun.empty() ? CommandOutcome() : system.run({srun, "--mpi=list"}, kToolPatience);
  std::vector<std::string> kinds;
  const std::string said = outcome.out + outcome.err;
  // The output has a title, then one name per line (before 20.11: "srun: none").
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t end = std::min(said.find('\n', at), said.size());
    std::vector<std::string> words = words_of(said.substr(at, end - at));
    at = end + 1;
    if (!words.empty() && words[0] == "srun:") words.erase(words.begin());
    if (words.size() == 1 && words[0].find_first_of(":.") == std::string::npos) kinds.push_back(words[0]);
  }
  const auto has = [&](const char* kind) {
    return std::any_of(kinds.begin(), kinds.end(),
                       [kind](const std::string& name) { return name.starts_with(kind); });
  };
  const std::string usual = field_of(configuration, "MpiDefault");
  check.found = (kinds.empty() ? "not known" : joined(kinds)) + (usual.empty() ? "" : "; default " + usual);
  const bool openmpi = !system.find_library("libmpi.so.40", "", {}).empty();
  const bool mpich = !system.find_library("libmpich.so.12", "", {}).empty() ||
                     !system.find_library("libmpi.so.12", "", {}).empty();
  std::vector<std::string> costs, fixes;
  if (!kinds.empty() && openmpi && !has("pmix")) {
    costs.emplace_back("srun starts programs with Open MPI as N jobs of one rank, or not at all");
    fixes.emplace_back("admin: Slurm's PMIx plugin; you: mpirun clusterprof COMMAND in the job");
  }
  if (!kinds.empty() && mpich && !has("pmi2") && !has("pmix") && !has("cray")) {
    costs.emplace_back("srun starts programs with MPICH as N jobs of one rank");
    fixes.emplace_back("admin: Slurm's pmi2 plugin; you: mpiexec clusterprof COMMAND in the job");
  }
  if (!costs.empty()) {
    check.status = Status::kWarn;
  } else if (openmpi && usual == "none" && has("pmix")) {
    costs.emplace_back("jobs must ask for it: Open MPI needs srun --mpi=pmix, MPICH --mpi=pmi2");
  }
  check.costs = joined(costs, "; ");
  check.fix = joined(fixes, "; ");
  out.push_back(check);
}

void check_configuration(const std::string& configuration, Checks& out) {
  Check check{"slurm.config", kSlurmGroup, "configuration", Status::kOk, "", "", "", {}};
  std::vector<std::string> found, costs, fixes;
  for (const char* key :
       {"ProctrackType", "TaskPlugin", "JobContainerType", "KillWait", "Prolog", "Epilog", "TaskProlog"})
    if (const std::string value = field_of(configuration, key); !value.empty() && value != "(null)") {
      check.details.push_back(std::string(key) + "=" + value);
    }
  const std::string tracking = field_of(configuration, "ProctrackType"),
                    container = field_of(configuration, "JobContainerType");
  found.push_back(tracking);
  if (tracking != "proctrack/cgroup") {
    check.status = Status::kWarn;
    costs.emplace_back("processes that leave their group outlive a cancelled step");
    fixes.emplace_back("admin: ProctrackType=proctrack/cgroup, or our Epilog, which ends what is ours");
  }
  const int wait_s = leading_number(field_of(configuration, "KillWait")).value_or(0);
  found.push_back("KillWait " + std::to_string(wait_s) + " s");
  if (wait_s < kMinKillWait_s) {
    check.status = Status::kWarn;
    costs.emplace_back(
        "a cancelled or timed out step is killed before its shards are complete: its last seconds are lost");
    fixes.emplace_back("admin: KillWait=30");
  }
  if (container == "job_container/tmpfs") {
    found.push_back(container);
    costs.emplace_back("runs below /tmp are gone after the job");
  }
  check.found = joined(found);
  check.costs = joined(costs, "; ");
  check.fix = joined(fixes, "; ");
  out.push_back(check);
}

// Keys and values. Slurm 23.11 and later print "Prolog[0]", "Prolog[1]" for what 22.05 prints as "Prolog".
std::vector<std::pair<std::string, std::string>> scripts_of(const std::string& configuration) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string key : {"Prolog", "Epilog", "TaskProlog", "TaskEpilog"}) {
    if (const std::string value = field_of(configuration, key); !value.empty())
      found.emplace_back(key, value);
    for (int i = 0;; ++i) {
      const std::string numbered = key + "[" + std::to_string(i) + "]";
      const std::string value = field_of(configuration, numbered);
      if (value.empty()) break;
      found.emplace_back(numbered, value);
    }
  }
  return found;
}

// Slurm drains a node whose prolog or epilog cannot be started, and fails the tasks for a task prolog.
void check_scripts(const Context& context, const std::string& configuration, Checks& out) {
  const System& system = context.system;
  Check check{"slurm.scripts", kSlurmGroup, "prologs and epilogs", Status::kOk, "", "", "", {}};
  const std::string mounts = system.read("/proc/self/mountinfo").value_or("");
  std::vector<std::string> found, remote;
  for (const auto& [key, value] : scripts_of(configuration)) {
    if (!value.starts_with('/')) continue;
    found.push_back(key + "=" + value);
    const bool is_pattern = value.find_first_of("*?[") != std::string::npos;
    const std::vector<std::string> paths = is_pattern ? files_like(system, value) : std::vector{value};
    for (const std::string& path : paths)
      if (std::string where = on_network(system, mounts, path); !where.empty())
        remote.push_back(std::move(where));
  }
  if (found.empty()) return;
  check.found = joined(found);
  if (!remote.empty()) {
    check.status = Status::kFail;
    check.found = joined(remote);
    check.costs =
        "while that file system is unavailable, Slurm drains nodes and fails tasks, even of jobs that are "
        "not recorded";
    check.fix = "admin: on each node " + context.layout.prefix() +
                "/share/clusterprof/slurm/install_on_node DIRECTORY, and name its copies in slurm.conf";
  }
  out.push_back(check);
}

// What tells one copy of a program or library from another.
std::string copy_of(const System& system, const std::string& path) {
  const FileFacts file = system.look(path);
  if (file.error != 0) return "missing";
  const auto elf = system.elf(path);
  return elf && !elf->build_id.empty() ? "build-id " + elf->build_id.substr(0, 12) : "without a build-id";
}

}  // namespace

// On each node: what Slurm loads there, and which copies these are. No command is run.
void check_node_of_slurm(const Context& context, Checks& out) {
  const System& system = context.system;
  const std::string file = first_that_is_there(system, places_of_plugstack(system, ""));
  std::vector<StackLine> lines;
  int files = kMaxFiles;
  if (!file.empty()) find_lines(system, file, 0, files, lines);
  Check check{"node.slurm", "node", "plugin of this node", Status::kOk, "", "", "", {}};
  if (lines.empty()) {
    check.found = file.empty() ? "no plugstack.conf" : file + " has no line for clusterprof";
    check.facts = {{"plugstack.conf", check.found}};
  } else {
    const StackLine& line = lines.front();
    check.found = line.path + " " + line.arguments;
    const std::string starter = directory_of(line.path) + "/libclusterprof_start.so";
    check.facts = {{"plugstack.conf", (line.is_required ? "required " : "optional ") + check.found},
                   {"plugin", copy_of(system, line.path)},
                   {"starter", copy_of(system, starter)}};
  }
  out.push_back(check);
}

void check_slurm(const Context& context, Checks& out) {
  const System& system = context.system;
  const std::string srun = in_path(system, "srun"), scontrol = in_path(system, "scontrol");
  if (srun.empty() && scontrol.empty()) {
    out.push_back(
        {"slurm.plugin", kSlurmGroup, "version and plugin", Status::kOk, "no Slurm in PATH", "", "", {}});
    return;
  }
  const CommandOutcome configuration =
      scontrol.empty() ? CommandOutcome() : system.run({scontrol, "show", "config"}, kToolPatience);
  std::string version = field_of(configuration.out, "SLURM_VERSION");
  CommandOutcome asked;
  if (version.empty() && !srun.empty()) {
    asked = system.run({srun, "--version"}, kToolPatience);
    if (asked.succeeded()) version = version_in(asked.out);
  }
  if (version.empty()) {
    // Only the programs are here: the machine has Slurm's packages but belongs to no cluster.
    const std::string said = first_line(asked.err.empty() ? configuration.err : asked.err);
    const bool timed_out =
        asked.end == CommandOutcome::End::kTimedOut || configuration.end == CommandOutcome::End::kTimedOut;
    Check check{"slurm.plugin",
                kSlurmGroup,
                "version and plugin",
                Status::kOk,
                "Slurm's commands are here, but belong to no cluster",
                "",
                "",
                {}};
    if (timed_out) {
      check.status = Status::kWarn;
      check.found = "Slurm's commands do not answer";
      check.costs = "nothing is known about it";
      check.fix = "you: try srun --version, scontrol ping";
    } else if (!said.empty()) {
      check.found += " (" + said + ")";
    }
    out.push_back(check);
    return;
  }
  check_plugin(context, version, out);
  check_plugstack(context, configuration.out, version, out);
  check_start_of_mpi(context, configuration.out, out);
  if (!field_of(configuration.out, "ProctrackType").empty()) {
    check_configuration(configuration.out, out);
    check_scripts(context, configuration.out, out);
  } else {
    out.push_back({"slurm.config",
                   kSlurmGroup,
                   "configuration",
                   Status::kWarn,
                   "slurmctld does not answer",
                   "its configuration is not known",
                   "you: try scontrol ping",
                   {}});
  }
}

}  // namespace clusterprof::cli::doctor
