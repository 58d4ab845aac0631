// SPDX-License-Identifier: BSD-3-Clause
// Checks which MPI libraries are here, and whether those used together are of one family.
#include <algorithm>
#include <map>
#include <set>

#include "cli/doctor/checks.hpp"
#include "cli/mpi_flavour.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kMpiGroup = "mpi";
constexpr std::chrono::milliseconds kCommandPatience{10'000}, kPythonPatience{20'000};

// In the loader's cache, LD_LIBRARY_PATH or the usual directories.
constexpr const char* kLibraries[] = {"libmpi.so.40",         "libmpi.so.20",         "libmpi.so.12",
                                      "libmpich.so.12",       "libmpi_abi.so.0",      "libmpi_abi.so.1",
                                      "libmpi_cray.so.12",    "libmpi_gnu.so.12",     "libmpi_gnu_91.so.12",
                                      "libmpi_gnu_103.so.12", "libmpi_gnu_112.so.12", "libmpi_gnu_123.so.12"};

std::string name_of(MpiFlavour flavour) {
  switch (flavour) {
    case MpiFlavour::kOpenMpi:
      return "Open MPI";
    case MpiFlavour::kMpich:
      return "MPICH";
    case MpiFlavour::kStandard:
      return "the MPI standard's ABI";
    case MpiFlavour::kNone:
      break;
  }
  return "no MPI";
}

std::map<MpiFlavour, std::vector<std::string>> libraries_here(const System& system) {
  std::map<MpiFlavour, std::vector<std::string>> found;
  for (const char* name : kLibraries)
    if (!system.find_library(name, "", {}).empty()) found[flavour_of_library(name)].emplace_back(name);
  return found;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

struct Command {
  MpiFlavour flavour = MpiFlavour::kNone;
  std::string text;  // "mpirun: Open MPI 4.1.4"
};

// Parses the output of `mpirun --version`.
Command launcher_of(const std::string& name, const std::string& said) {
  const std::string version = version_in(said);
  const auto of = [&](MpiFlavour flavour, const std::string& product) {
    return Command{flavour, name + " of " + product + (version.empty() ? "" : " " + version)};
  };
  if (contains(said, "Open MPI") || contains(said, "OpenRTE")) return of(MpiFlavour::kOpenMpi, "Open MPI");
  if (contains(said, "PRRTE") || contains(said, "prte")) return of(MpiFlavour::kOpenMpi, "Open MPI (PRRTE)");
  if (contains(said, "Intel(R) MPI")) return of(MpiFlavour::kMpich, "Intel MPI");
  if (contains(said, "MVAPICH")) return of(MpiFlavour::kMpich, "MVAPICH");
  if (contains(said, "HYDRA") || contains(said, "MPICH")) return of(MpiFlavour::kMpich, "MPICH");
  return {MpiFlavour::kNone, name + " of an unknown MPI"};
}

// Parses the output of `mpicc -show`.
MpiFlavour flavour_of_compiler(const std::string& said) {
  for (const std::string_view sign : {"-lmpich", "mpich", "mvapich", "-lmpifort", "-lmpi_cray", "-lmpi_gnu"})
    if (contains(said, sign)) return MpiFlavour::kMpich;
  return contains(said, "-lmpi") || contains(said, "openmpi") ? MpiFlavour::kOpenMpi : MpiFlavour::kNone;
}

constexpr const char* kFindMpi4py =
    "import glob, importlib.util, os\n"
    "s = importlib.util.find_spec('mpi4py')\n"
    "for d in (s.submodule_search_locations if s else []):\n"
    "    for f in sorted(glob.glob(os.path.join(glob.escape(d), 'MPI*.so'))): print(f)\n";

}  // namespace

MpiFlavour flavour_of_launcher(const std::string& said) { return launcher_of("", said).flavour; }

void check_mpi(const Context& context, Checks& out) {
  const auto libraries = libraries_here(context.system);
  Check check{"mpi.libraries", kMpiGroup, "MPI libraries", Status::kOk, "", "", "", {}};
  std::vector<std::string> found;
  for (const auto& [flavour, names] : libraries) {
    found.push_back(name_of(flavour) + " (" + joined(names) + ")");
    for (const std::string& name : names)
      check.details.push_back(name + ": " + context.system.find_library(name, "", {}));
  }
  check.found = found.empty() ? "none where the loader looks; loading a module may add one" : joined(found);
  out.push_back(check);

  Check preload{"mpi.preload", kMpiGroup, "MPI preloads", Status::kOk, "", "", "", {}};
  std::vector<std::string> missing, fitting;
  for (const MpiFlavour flavour : {MpiFlavour::kOpenMpi, MpiFlavour::kMpich, MpiFlavour::kStandard}) {
    const FileFacts facts = context.system.look(context.layout.mpi_preload(flavour));
    const bool is_there = facts.error == 0 && facts.may_read;
    if (is_there) fitting.push_back(name_of(flavour));
    if (!is_there && (libraries.contains(flavour) || libraries.empty())) missing.push_back(name_of(flavour));
  }
  preload.found = fitting.empty() ? "none" : "for " + joined(fitting);
  // Intel MPI, MVAPICH and Cray MPICH have the binary interface of MPICH.
  if (!missing.empty()) {
    preload.status = libraries.empty() ? Status::kWarn : Status::kFail;
    preload.found += "; missing for " + joined(missing);
    preload.costs = "no MPI calls, messages or waiting times of programs that use " + joined(missing);
    preload.fix = "whoever installed it: build where that MPI's headers are (mpicc in PATH), install again";
  }
  out.push_back(preload);
}

namespace {

// Which MPI commands and modules belong to which family.
class Families {
 public:
  // What was built for the standard's interface goes with either family.
  void add(MpiFlavour flavour, const std::string& name) {
    if (flavour != MpiFlavour::kNone && flavour != MpiFlavour::kStandard) names_[flavour].push_back(name);
  }
  [[nodiscard]] std::size_t size() const { return names_.size(); }
  // "mpicc, mpirun of Open MPI", one for each family
  [[nodiscard]] std::vector<std::string> described() const {
    std::vector<std::string> parts;
    for (const auto& [flavour, names] : names_) {
      const std::set<std::string> unique(names.begin(), names.end());
      parts.push_back(joined({unique.begin(), unique.end()}) + " of " + name_of(flavour));
    }
    return parts;
  }

 private:
  std::map<MpiFlavour, std::vector<std::string>> names_;
};

Check check_launcher(const System& system, Families& families) {
  Check launcher{"mpi.launcher", kMpiGroup, "MPI commands", Status::kOk, "", "", "", {}};
  std::vector<std::string> found;
  for (const char* name : {"mpirun", "mpiexec"}) {
    const std::string path = in_path(system, name);
    if (path.empty()) continue;
    launcher.details.push_back(path + ": " + system.resolve(path));
    const CommandOutcome outcome = system.run({path, "--version"}, kCommandPatience);
    if (outcome.end == CommandOutcome::End::kTimedOut) {
      launcher.status = Status::kWarn;
      launcher.costs = "starting jobs may hang, with clusterprof or without";
      launcher.fix = "you: try " + path + " --version";
      found.push_back(path + " does not answer");
      continue;
    }
    const Command command = launcher_of(name, outcome.out + outcome.err);
    families.add(command.flavour, name);
    found.push_back(command.text);
  }
  if (const std::string path = in_path(system, "mpicc"); !path.empty()) {
    const CommandOutcome outcome = system.run({path, "-show"}, kCommandPatience);
    const MpiFlavour flavour = flavour_of_compiler(outcome.out);
    launcher.details.push_back(path + ": " + system.resolve(path));
    families.add(flavour, "mpicc");
    found.push_back("mpicc of " + (flavour == MpiFlavour::kNone ? "an unknown MPI" : name_of(flavour)));
  }
  launcher.found = found.empty() ? "none in PATH; loading a module may add them" : joined(found);
  return launcher;
}

// Which MPI an mpi4py module is linked to, and whether the loader finds it.
void check_module(const System& system, const std::string& module, Families& families,
                  std::set<std::string>& linked, Check& mpi4py) {
  const auto object = system.needed_by(module);
  if (!object) return;
  for (const std::string& name : object->needed) {
    const MpiFlavour flavour = flavour_of_library(name);
    if (flavour == MpiFlavour::kNone) continue;
    families.add(flavour, "mpi4py");
    linked.insert(name_of(flavour) + " (" + name + ")");
    if (system.find_library(name, module, *object).empty()) {
      mpi4py.status = Status::kWarn;
      mpi4py.costs = "import mpi4py.MPI fails, with clusterprof or without: " + name + " is not found";
      mpi4py.fix = "you: load the module of that MPI, or set LD_LIBRARY_PATH";
    }
  }
}

Check check_mpi4py(const System& system, Families& families) {
  Check mpi4py{"mpi.mpi4py", kMpiGroup, "mpi4py", Status::kOk, "", "", "", {}};
  const std::string python = in_path(system, "python3");
  const CommandOutcome asked =
      python.empty() ? CommandOutcome() : system.run({python, "-c", kFindMpi4py}, kPythonPatience);
  std::set<std::string> linked;
  for (std::size_t at = 0; at < asked.out.size();) {
    const std::size_t end = std::min(asked.out.find('\n', at), asked.out.size());
    const std::string module = asked.out.substr(at, end - at);
    at = end + 1;
    mpi4py.details.push_back(module);
    check_module(system, module, families, linked, mpi4py);
  }
  if (python.empty()) {
    mpi4py.found = "no python3 in PATH";
  } else if (asked.end == CommandOutcome::End::kTimedOut) {
    mpi4py.status = Status::kWarn;
    mpi4py.found = python + " does not answer";
    mpi4py.costs = "programs start slowly, with clusterprof or without";
    mpi4py.fix = "you: try " + python + " -c pass";
  } else if (mpi4py.details.empty()) {
    mpi4py.found = "not installed for " + python;
  } else {
    mpi4py.found =
        "of " + python + ", linked to " +
        (linked.empty() ? "an MPI that is chosen at run time" : joined({linked.begin(), linked.end()}));
  }
  return mpi4py;
}

Check check_one_mpi(const Families& families) {
  Check mixed{"mpi.mixed", kMpiGroup, "one MPI", Status::kOk, "", "", "", {}};
  const std::vector<std::string> parts = families.described();
  mixed.found = parts.empty() ? "nothing to compare" : joined(parts, ", but ");
  if (families.size() > 1) {
    mixed.status = Status::kWarn;
    mixed.costs =
        "started by the other's mpirun, each rank is a job of its own: N runs of one rank, with or without "
        "clusterprof";
    mixed.fix =
        "you: load one MPI module, or name the launcher (mpirun.openmpi, mpirun.mpich); MPICC=$(which mpicc) "
        "pip "
        "install --no-binary mpi4py mpi4py";
  }
  return mixed;
}

}  // namespace

void check_mpi_commands(const Context& context, Checks& out) {
  Families families;
  out.push_back(check_launcher(context.system, families));
  out.push_back(check_mpi4py(context.system, families));
  out.push_back(check_one_mpi(families));
}

void check_merging(const Context& context, Checks& out) {
  Check check{"mpi.merge", kMpiGroup, "merging in parallel", Status::kOk, "", "", "", {}};
  std::vector<std::string> works, problems;
  for (const auto& [flavour, names] : libraries_here(context.system)) {
    if (flavour == MpiFlavour::kStandard) continue;  // a library of either family brings it
    const std::string program = context.layout.merge_program(flavour);
    const FileFacts facts = context.system.look(program);
    if (facts.error != 0 || !facts.may_execute) {
      problems.push_back("not built for " + name_of(flavour));
      continue;
    }
    const CommandOutcome outcome = context.system.run({program, "--can-run"}, kCommandPatience);
    if (outcome.succeeded()) {
      works.push_back(name_of(flavour));
    } else {
      const std::string said = first_line(outcome.err);
      problems.push_back(outcome.end == CommandOutcome::End::kTimedOut ? program + " does not answer"
                         : said.empty()                                ? program + " cannot run here"
                                                                       : said);
    }
  }
  check.found = works.empty() && problems.empty() ? "no MPI library here"
                : works.empty()                   ? joined(problems)
                                                  : "with " + joined(works);
  if (!problems.empty()) {
    check.status = Status::kWarn;
    if (!works.empty()) check.found += "; " + joined(problems);
    check.costs = "mpirun clusterprof merge merges in one process: slower for runs of thousands of ranks";
    check.fix = "you: load the module of that MPI; whoever installed it: build where its headers are";
  }
  out.push_back(check);
}

}  // namespace clusterprof::cli::doctor
