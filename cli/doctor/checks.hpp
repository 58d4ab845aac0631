// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/check.hpp"
#include "cli/doctor/system.hpp"
#include "cli/install_layout.hpp"
#include "cli/mpi_flavour.hpp"

namespace clusterprof::cli::doctor {

struct Request {
  std::string directory;         // where runs are to be; empty: CLUSTERPROF_ROOT, else the working directory
  bool node = false;             // only what may differ from node to node
  bool quick = false;            // nothing that takes long or leaves the node
  bool site = false;             // ask the nodes of a site, and compare their answers
  bool answer = false;           // this process is one that was asked
  std::string nodes, partition;  // of the site
  bool self_test = false;        // nothing but recording programs that know what their profile has to say
  std::string scratch;           // a directory of our own for what is recorded then
};

struct Context {
  const System& system;
  const InstallLayout& layout;
  const Request& request;
};

using Checks = std::vector<Check>;
using CheckFunction = void (*)(const Context&, Checks&);

// One row per function; a function adds one check or several.
struct CheckRow {
  CheckFunction check;
  bool node;   // part of --node
  bool quick;  // part of --quick
};
const std::vector<CheckRow>& all_checks();
const std::vector<CheckRow>& self_test_checks();

// --- node ---
void check_node(const Context& context, Checks& out);           // node.system, .clusterprof, .file_systems
void check_node_of_slurm(const Context& context, Checks& out);  // node.slurm
void check_counts(const Context& context, Checks& out);         // node.counts

// --- installation ---
void check_files(const Context& context, Checks& out);      // install.files
void check_access(const Context& context, Checks& out);     // install.access
void check_libraries(const Context& context, Checks& out);  // install.libraries

// --- mpi ---
void check_mpi(const Context& context, Checks& out);           // mpi.libraries, mpi.preload
void check_mpi_commands(const Context& context, Checks& out);  // mpi.launcher, mpi.mpi4py, mpi.mixed
void check_merging(const Context& context, Checks& out);       // mpi.merge

// --- counters ---
void check_events(const Context& context, Checks& out);        // counters.permission, .hardware, .seccomp
void check_papi_library(const Context& context, Checks& out);  // counters.papi, without starting it
void check_papi(const Context& context, Checks& out);          // counters.papi, counters.events

// --- sampling ---
void check_kernel(const Context& context, Checks& out);          // sampling.kernel
void check_timers(const Context& context, Checks& out);          // sampling.timers
void check_clock(const Context& context, Checks& out);           // sampling.clock
void check_synchronised(const Context& context, Checks& out);    // sampling.clock_sync
void check_frequency(const Context& context, Checks& out);       // sampling.frequency
void check_virtualisation(const Context& context, Checks& out);  // sampling.virtual
void check_ptrace(const Context& context, Checks& out);          // sampling.ptrace

// --- limits ---
void check_limits(const Context& context, Checks& out);         // limits.*: of this process
void check_shared_memory(const Context& context, Checks& out);  // limits.shm
void check_cgroup(const Context& context, Checks& out);         // limits.cgroup

// --- output ---
void check_output(const Context& context, Checks& out);  // output.place, output.operations, output.space

// --- slurm ---
void check_slurm(const Context& context, Checks& out);  // slurm.plugin, .plugstack, .mpi, .config

// --- python, symbols ---
void check_python(const Context& context, Checks& out);   // python.default, python.others
void check_symbols(const Context& context, Checks& out);  // symbols.debug

// --- self_test ---
void check_shares(const Context& context, Checks& out);  // self_test.shares, .idle, .sample_cost
void check_waits(const Context& context, Checks& out);   // self_test.waits, .call_cost

// --- parts, for these and for tests ---

// The MPI family of a launcher that prints this for --version; kNone: not known.
MpiFlavour flavour_of_launcher(const std::string& said);

// "12 MB"
std::string bytes_text(std::uint64_t bytes);
// The value behind "KEY:" of a file such as /proc/self/status, without blanks around it.
std::string field_of(const std::string& text, const std::string& key);
std::string first_line(const std::string& text);
// Whether nodes share file systems of this type: "lustre", "nfs4", "fuse.sshfs".
bool is_shared_file_system(const std::string& type);
std::string joined(const std::vector<std::string>& parts, const std::string& separator = ", ");
// The value of a variable; empty: unset.
std::string variable(const System& system, const char* name);
// The user whom the facts are about: the user for whom Slurm started the prolog, else this user.
uid_t subject(const System& system);
bool acts_for_another(const System& system);
// The path at which PATH finds the command; empty: nowhere.
std::string in_path(const System& system, const std::string& command);
// "22.05" of "slurm-wlm 22.05.8", first number with a point; empty: there is none
std::string version_in(const std::string& text);

}  // namespace clusterprof::cli::doctor
