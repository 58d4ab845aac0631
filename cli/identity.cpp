// SPDX-License-Identifier: BSD-3-Clause
// Finds the rank, world size, node and job of this process from the environment variables of its launcher
// (formats/wire/launchers.h), and from the process's ancestors. All ranks of a job step must come to the same
// key without communicating.
#include "cli/identity.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/base_name.hpp"
#include "base/hex_hash.hpp"
#include "base/split.hpp"
#include "base/unique_fd.hpp"
#include "formats/wire/hello.h"
#include "formats/wire/launchers.h"

namespace clusterprof::cli {
namespace {

std::optional<int> number(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || rest != end || value < 0) return std::nullopt;
  return value;
}

std::string text_of(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string read_proc(pid_t pid, const char* file) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + file;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

struct ProcessStat {
  pid_t parent = 0;
  std::uint64_t start_ticks = 0;
};

// Fields 4 (ppid) and 22 (starttime, clock ticks since boot) of proc(5) stat. The command name
// may hold blanks and parentheses: count from the last ')'.
std::optional<ProcessStat> read_stat(pid_t pid) {
  const std::string text = read_proc(pid, "stat");
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  ProcessStat stat;
  const char* at = text.c_str() + close + 1;
  for (int field = 3; field <= 22 && *at != '\0'; ++field) {
    while (*at == ' ') ++at;
    if (field == 4) stat.parent = static_cast<pid_t>(std::strtol(at, nullptr, 10));
    if (field == 22) stat.start_ticks = std::strtoull(at, nullptr, 10);
    while (*at != ' ' && *at != '\0') ++at;
  }
  return stat;
}

std::int64_t start_unix_s(const ProcessStat& stat) {
  timespec since_boot{}, now{};
  ::clock_gettime(CLOCK_BOOTTIME, &since_boot);
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto ticks_per_s = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return now.tv_sec - since_boot.tv_sec + static_cast<std::int64_t>(stat.start_ticks / ticks_per_s);
}

struct Daemon {
  std::string job;
  std::int64_t start_unix_s = 0;
};

// Walks up from our parent to the process that `job_of` knows as the launcher's daemon.
template <typename JobOf>
std::optional<Daemon> find_daemon(JobOf&& job_of) {
  pid_t pid = ::getppid();
  for (int level = 0; level < 8 && pid > 0; ++level) {
    const auto stat = read_stat(pid);
    if (!stat) return std::nullopt;
    const std::string job = job_of(split(read_proc(pid, "cmdline"), '\0'));
    if (!job.empty()) return Daemon{job, start_unix_s(*stat)};
    pid = stat->parent;
  }
  return std::nullopt;
}

std::string prrte_daemon(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return {};
  const std::string name(base_name(arguments[0]));
  return name == "prted" || name == "prterun" || name == "prte" ? name : std::string();
}

std::string random_text() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) == static_cast<ssize_t>(sizeof bytes)) {
    return std::string(reinterpret_cast<char*>(bytes), sizeof bytes);
  }
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::to_string(::getpid()) + "." + std::to_string(now.tv_sec) + "." + std::to_string(now.tv_nsec);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

bool launched_by_srun(const Environment& environment) {
  const std::string step = text_of(environment, "SLURM_STEP_ID");
  // No parallel steps: the batch script, the shell that `salloc` gives, what came by ssh.
  const bool pseudo_step = step == "4294967291" || step == "4294967290" || step == "4294967292";
  return !step.empty() && !pseudo_step && number(environment, "SLURM_PROCID").has_value();
}

bool is_mpi_launcher(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return false;
  const std::string name(base_name(arguments[0]));
  for (const char* const beginning :
       {"mpirun", "mpiexec", "mpispawn", "orte", "prte", "prun", "hydra_", "pmi_proxy"})
    if (name.compare(0, std::strlen(beginning), beginning) == 0) return true;
  return false;
}

// Whether this process is the task of srun with that number, or was started by it without an MPI launcher in
// between. (The daemons of MPI launchers are tasks of srun, too.)
bool belongs_to_task(pid_t task) {
  pid_t pid = ::getpid();
  for (int level = 0; task > 0 && level < 8 && pid > 1; ++level) {
    if (pid != ::getpid() && is_mpi_launcher(split(read_proc(pid, "cmdline"), '\0'))) return false;
    if (pid == task) return true;
    const auto stat = read_stat(pid);
    if (!stat) return false;
    pid = stat->parent;
  }
  return false;
}

// What all tasks of a step have in common and no other step has: not its number alone, which a cluster that
// was set up anew, another of the same name or a job that was requeued gives out again. What slurmd adds
// (SLURM_SRUN_COMM_PORT, SLURM_LAUNCH_NODE_IPADDR) may differ from node to node; these are srun's.
std::string slurm_step(const Environment& environment) {
  std::string step = text_of(environment, "SLURM_JOB_ID") + "." + text_of(environment, "SLURM_STEP_ID");
  for (const char* name : {"SLURM_CLUSTER_NAME", "SLURM_WORKING_CLUSTER", "SLURM_RESTART_COUNT"})
    step += "\n" + text_of(environment, name);
  // A step over several components of a heterogeneous job has one of these for each.
  if (environment("SLURM_HET_SIZE") == nullptr && environment("SLURM_PACK_SIZE") == nullptr)
    step += "\n" + text_of(environment, "SLURM_STEP_LAUNCHER_PORT");
  return step;
}

void name_after_batch_job(const Environment& environment, bool by_srun, Identity& identity) {
  for (const char* name : {"SLURM_JOB_ID", "FLUX_JOB_ID", "PBS_JOBID", "LSB_JOBID"}) {
    const std::string value = text_of(environment, name);
    if (value.empty()) continue;
    const std::string job = value.substr(0, value.find('.'));
    // Under mpirun the step's number is that of the daemons, and absent on the first node.
    const std::string step = by_srun ? "." + text_of(environment, "SLURM_STEP_ID") : "";
    identity.batch_name = identity.batch_id = job + step;
    // Tasks of an array have job numbers that users do not see.
    const auto array = number(environment, "SLURM_ARRAY_JOB_ID");
    const auto task = number(environment, "SLURM_ARRAY_TASK_ID");
    if (std::strcmp(name, "SLURM_JOB_ID") == 0 && array && task)
      identity.batch_name = std::to_string(*array) + "_" + std::to_string(*task) + step;
    return;
  }
}

using wire::Launcher;
using wire::LauncherKind;

bool is_marked(const Launcher& launcher, const Environment& environment) {
  if (launcher.marks[0] == nullptr) return true;
  return std::any_of(std::begin(launcher.marks), std::end(launcher.marks),
                     [&](const char* name) { return name != nullptr && environment(name) != nullptr; });
}

// Null: no launcher of MPI has given this process, or one above it, a rank.
const Launcher* find_mpi_row(const Environment& environment) {
  for (const Launcher& launcher : wire::kLaunchers) {
    if (launcher.kind == LauncherKind::kMpi && is_marked(launcher, environment) &&
        wire::launcher_number(environment, launcher.rank) >= 0)
      return &launcher;
  }
  return nullptr;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) { return static_cast<const char*>(std::getenv(name)); };
}

std::string hydra_job(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return {};
  const std::string name(base_name(arguments[0]));
  if (name != "hydra_pmi_proxy" && name != "hydra_bstrap_proxy" && name != "pmi_proxy") return {};
  std::string address, group;
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    const std::string& option = arguments[i];
    if (option == "--control-port" || option == "--upstream-host" || option == "--upstream-port") {
      address += arguments[i + 1] + " ";
    } else if (option == "--pgid") {
      group = arguments[i + 1];
    }
  }
  return address.empty() ? std::string() : address + group;
}

pid_t find_mpi_launcher(const Environment& environment) {
  if (find_mpi_row(environment) == nullptr && !number(environment, "MPI_LOCALRANKID")) return 0;
  pid_t pid = ::getppid(), launcher = 0;
  for (int level = 0; level < 8 && pid > 1; ++level) {
    if (is_mpi_launcher(split(read_proc(pid, "cmdline"), '\0')))
      launcher = pid;
    else if (launcher != 0)
      return launcher;
    const auto stat = read_stat(pid);
    if (!stat) return launcher;
    pid = stat->parent;
  }
  return launcher;
}

int slurm_tasks_on_node(const std::string& tasks_per_node, int index) {
  const char* at = tasks_per_node.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long tasks = std::strtol(at, &end, 10);
    if (end == at) return -1;
    long nodes = 1;
    at = end;
    if (at[0] == '(' && at[1] == 'x') {
      nodes = std::strtol(at + 2, &end, 10);
      if (*end != ')') return -1;
      at = end + 1;
    }
    if (index < nodes) return static_cast<int>(tasks);
    index -= static_cast<int>(nodes);
    if (*at == ',') ++at;
  }
  return -1;
}

namespace {

// Fills in what is not known yet.
void take_ranks(const Launcher& launcher, const Environment& environment, Identity& identity) {
  if (!is_marked(launcher, environment)) return;
  if (identity.rank < 0) {
    const int number = wire::launcher_number(environment, launcher.rank);
    if (number >= launcher.first_rank) identity.rank = number - launcher.first_rank;
  }
  if (identity.world_size < 0) identity.world_size = wire::launcher_number(environment, launcher.size);
  if (identity.local_rank < 0 && launcher.local_rank != nullptr)
    identity.local_rank = wire::launcher_number(environment(launcher.local_rank));
  if (identity.local_size < 0 && launcher.local_size != nullptr)
    identity.local_size = wire::launcher_number(environment(launcher.local_size));
}

void take_ranks_of_mpi_launcher(const Environment& environment, Identity& identity) {
  for (const Launcher& launcher : wire::kLaunchers)
    if (launcher.kind == LauncherKind::kMpi) take_ranks(launcher, environment, identity);
}

// What is the same for all ranks of one mpirun of Open MPI, and for no others.
std::string openmpi_job(const Environment& environment, Identity& identity) {
  std::string job;
  // orte_precondition_transports is a random number per mpirun; PRRTE (Open MPI 5) has the
  // name space alone, made of host and process id.
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri",
                           "OMPI_MCA_orte_precondition_transports"}) {
    const std::string value = text_of(environment, name);
    if (!value.empty()) job += value + "\n";
  }
  if (environment("OMPI_MCA_orte_precondition_transports") == nullptr) {
    if (const auto daemon = find_daemon(prrte_daemon)) identity.job_start_unix_s = daemon->start_unix_s;
  }
  return job;
}

// What the variables of other launchers have left open.
void take_ranks_of_srun(const Environment& environment, Identity& identity) {
  take_ranks(*wire::find_launcher("srun"), environment, identity);
  if (identity.local_size < 0) {
    std::string per_node = text_of(environment, "SLURM_STEP_TASKS_PER_NODE");
    if (per_node.empty()) per_node = text_of(environment, "SLURM_TASKS_PER_NODE");
    if (const auto index = number(environment, "SLURM_NODEID")) {
      identity.local_size = slurm_tasks_on_node(per_node, *index);
    }
  }
}

// What makes the ranks of a run find each other: equal for all of them, and for no others.
struct Job {
  std::string kind, name;          // "slurm", "123.0"; empty: not known
  const char* launcher = nullptr;  // null: the first that has given a rank
};

std::int64_t own_start_unix_s() {
  const auto stat = read_stat(::getpid());
  return stat ? start_unix_s(*stat) : 0;
}

std::string batch_job(const Environment& environment) {
  for (const char* name : {"SLURM_JOB_ID", "FLUX_JOB_ID", "PBS_JOBID", "LSB_JOBID"})
    if (const std::string job = text_of(environment, name); !job.empty()) return job;
  return {};
}

// The processes that a launcher started together on this node have their parent in common, at least.
Job job_of_parent(const Ancestor& parent, Identity& identity, const char* launcher) {
  identity.job_start_unix_s = start_unix_s({0, parent.start_ticks});
  return {"parent",
          host_name() + "\n" + std::to_string(parent.pid) + "\n" + std::to_string(parent.start_ticks),
          launcher};
}

// Ranks of jsrun, pbsdsh and blaunch have nothing but the batch job in common. A later launch in the same job
// is told by its time.
Job job_of_batch_job(const Environment& environment, Identity& identity, const char* launcher) {
  const std::string job = batch_job(environment);
  if (job.empty()) return {};
  identity.job_start_unix_s = own_start_unix_s();
  return {"batch", std::string(launcher) + "\n" + job, launcher};
}

// A job that has a variable of its own, of MPI launchers for which nothing better is known.
Job job_of_variable(const Environment& environment, Identity& identity) {
  for (const Launcher& launcher : wire::kLaunchers) {
    if (launcher.kind != LauncherKind::kMpi || launcher.job[0] == nullptr ||
        &launcher == wire::find_launcher("openmpi") || !is_marked(launcher, environment))
      continue;
    const bool is_jsrun = &launcher == wire::find_launcher("jsrun");
    if (is_jsrun && wire::launcher_number(environment, launcher.rank) < 0) continue;
    std::string job;
    for (const char* name : launcher.job) {
      const std::string value = name == nullptr ? "" : text_of(environment, name);
      if (!value.empty()) job += (job.empty() ? "" : "\n") + value;
    }
    if (job.empty() && is_jsrun) return job_of_batch_job(environment, identity, launcher.name);
    if (job.empty()) continue;
    if (const auto daemon = find_daemon(prrte_daemon)) identity.job_start_unix_s = daemon->start_unix_s;
    // A process id, which comes again.
    if (&launcher == wire::find_launcher("mpirun_rsh")) identity.job_start_unix_s = own_start_unix_s();
    return {&launcher == wire::find_launcher("pmix") ? "pmix" : "batch", job, launcher.name};
  }
  return {};
}

Job job_of_tasks(const Environment& environment, Identity& identity) {
  for (const Launcher& launcher : wire::kLaunchers) {
    if (launcher.kind != LauncherKind::kTasks || &launcher == wire::find_launcher("srun")) continue;
    // In the batch script and all that it starts itself.
    if (text_of(environment, "PBS_TASKNUM") == "1" && &launcher == wire::find_launcher("pbsdsh")) continue;
    if (wire::launcher_number(environment, launcher.rank) < launcher.first_rank) continue;
    take_ranks(launcher, environment, identity);
    return job_of_batch_job(environment, identity, launcher.name);
  }
  return {};
}

Job job_of(const Environment& environment, const Ancestry& ancestry, bool by_srun, bool by_openmpi,
           bool by_hydra, Identity& identity) {
  if (by_openmpi) {
    if (const std::string job = openmpi_job(environment, identity); !job.empty())
      return {"openmpi", job, "openmpi"};
  } else if (by_hydra) {
    if (const auto proxy = find_daemon(hydra_job); proxy && !proxy->job.empty()) {
      identity.job_start_unix_s = proxy->start_unix_s;
      return {"hydra", proxy->job, "hydra"};
    }
  }
  if (by_srun) {
    take_ranks_of_srun(environment, identity);
    if (const std::string step = slurm_step(environment); !step.empty()) return {"slurm", step, "srun"};
  }
  if (Job job = job_of_variable(environment, identity); !job.name.empty()) return job;
  if (identity.rank < 0)
    if (Job job = job_of_tasks(environment, identity); !job.name.empty()) return job;
  if (identity.rank >= 0 && identity.world_size != 1) {
    if (const auto parent = ancestry.at(0)) return job_of_parent(*parent, identity, nullptr);
  }
  return {};
}

// --- ranks of workers ---------------------------------------------------------------------

constexpr int kAncestors = 8;

bool has_variable(const std::string& block, const char* name, const char* value) {
  for (const std::string& entry : split(block, '\0')) {
    const std::size_t length = std::strlen(name);
    if (entry.compare(0, length, name) == 0 && entry[length] == '=' && entry.substr(length + 1) == value)
      return true;
  }
  return false;
}

// The nearest process above this one that was not started with the same value of the variable: it, or what it
// started, has set the variable.
std::optional<Ancestor> find_setter(const Environment& environment, const Ancestry& ancestry,
                                    const char* name) {
  std::optional<Ancestor> nearest;
  for (int level = 0; level < kAncestors; ++level) {
    auto ancestor = ancestry.at(level);
    if (!ancestor) break;
    nearest = ancestor;
    if (!has_variable(ancestry.environment(ancestor->pid), name, environment(name))) break;
  }
  return nearest;
}

bool is_below_torch_launcher(const Ancestry& ancestry) {
  for (int level = 0; level < kAncestors; ++level) {
    const auto ancestor = ancestry.at(level);
    if (!ancestor || is_mpi_launcher(split(ancestor->command_line, '\0'))) return false;
    if (wire::starts_torch_workers(ancestor->command_line.data(), ancestor->command_line.size())) return true;
  }
  return false;
}

// MPI scripts set RANK, too. It counts where the MPI rank is not this process's own, but that of the launcher
// that has set RANK.
bool has_own_mpi_rank(const Environment& environment, const Ancestry& ancestry, const Launcher& workers) {
  const Launcher* const mpi = find_mpi_row(environment);
  if (mpi == nullptr) return false;
  const auto setter = find_setter(environment, ancestry, workers.rank[0]);
  if (!setter) return true;
  const std::string inherited = ancestry.environment(setter->pid);
  for (const char* name : mpi->rank) {
    const char* const value = name == nullptr ? nullptr : environment(name);
    if (value != nullptr) return !has_variable(inherited, name, value);
  }
  return true;
}

wire::WorkerRank worker_rank(const Environment& environment, const Ancestry& ancestry) {
  const wire::WorkerRank found =
      wire::find_worker_rank(environment, [&] { return is_below_torch_launcher(ancestry); });
  if (found.launcher == nullptr || has_own_mpi_rank(environment, ancestry, *found.launcher)) return {};
  return found;
}

Job job_of_workers(const Environment& environment, const Ancestry& ancestry, const wire::WorkerRank& worker,
                   bool is_task, Identity& identity) {
  const Launcher& launcher = *worker.launcher;
  identity.rank = worker.rank;
  identity.world_size = worker.size;
  identity.local_rank = worker.local_rank;
  identity.local_size = worker.local_size;
  identity.launch = worker.launch;
  const auto setter = find_setter(environment, ancestry, launcher.rank[0]);
  const bool is_horovod =
      &launcher == wire::find_launcher("horovodrun");  // a shell for each rank sets its variables
  if (worker.local_size == worker.size && setter && !is_horovod)
    return job_of_parent(*setter, identity, launcher.name);

  std::string job;
  const std::string run = text_of(environment, "TORCHELASTIC_RUN_ID");
  for (const char* name : launcher.job) {
    // Where the nodes find each other by the name of the run, each restart has another port.
    if (name == nullptr || (!run.empty() && run != "none" && std::strcmp(name, "MASTER_PORT") == 0)) continue;
    job += text_of(environment, name) + "\n";
  }
  if (is_task) return {"slurm", slurm_step(environment) + "\n" + job, launcher.name};
  identity.job_start_unix_s =
      setter && !is_horovod ? start_unix_s({0, setter->start_ticks}) : own_start_unix_s();
  return {"workers", batch_job(environment) + "\n" + job, launcher.name};
}

bool is_below_rank(const Environment& environment, const Ancestry& ancestry, const Identity& identity) {
  const Launcher* launcher = wire::find_launcher(identity.launcher.c_str());
  if (launcher == nullptr) launcher = find_mpi_row(environment);
  const auto parent = ancestry.at(0);
  if (launcher == nullptr || !parent) return false;
  for (const char* name : launcher->rank) {
    const char* const value = name == nullptr ? nullptr : environment(name);
    if (value != nullptr) return has_variable(ancestry.environment(parent->pid), name, value);
  }
  return false;
}

Result<void> take_node(const Environment& environment, Identity& identity) {
  const char* forced_node = environment("CLUSTERPROF_NODE");
  if (forced_node != nullptr && *forced_node != '\0') {
    identity.node = forced_node;
    // What the launcher counts is the machine's.
    identity.local_size = -1;
  } else {
    identity.node = host_name();
    if (identity.node.empty()) return Error{"this machine has no host name; set CLUSTERPROF_NODE"};
  }
  for (const char c : identity.node) {
    if (c == '/' || static_cast<unsigned char>(c) <= ' ' || c == 127) {
      return Error{
          "CLUSTERPROF_NODE: a node's name becomes part of a file name and has no '/', blank or control "
          "character"};
    }
  }
  if (identity.node.size() > 200 || identity.node[0] == '.') {
    return Error{"CLUSTERPROF_NODE: a node's name has at most 200 characters and does not begin with a dot"};
  }
  return {};
}

}  // namespace

Ancestry process_ancestry() {
  Ancestry ancestry;
  ancestry.at = [](int level) -> std::optional<Ancestor> {
    pid_t pid = ::getppid();
    for (;; --level) {
      const auto stat = pid > 1 ? read_stat(pid) : std::nullopt;
      if (!stat) return std::nullopt;
      if (level == 0) return Ancestor{pid, stat->start_ticks, read_proc(pid, "cmdline")};
      pid = stat->parent;
    }
  };
  ancestry.environment = [](pid_t pid) { return read_proc(pid, "environ"); };
  return ancestry;
}

Result<Identity> identify(const Environment& environment, const Ancestry& ancestry) {
  Identity identity;
  const bool by_srun = launched_by_srun(environment);
  // What other launchers say then was left by one around srun: of a script that mpirun, or another srun, has
  // started.
  const bool is_task = by_srun && belongs_to_task(number(environment, "SLURM_TASK_PID").value_or(0));
  const bool by_openmpi = !is_task && number(environment, "OMPI_COMM_WORLD_RANK").has_value();
  const bool by_hydra = !is_task && !by_openmpi && environment("MPI_LOCALRANKID") != nullptr;

  // The order matters: under torchrun the variables of srun and mpirun are those of torchrun itself, and
  // under mpirun inside a Slurm job the SLURM_ variables are those of the daemons or of the batch script.
  Job job;
  const wire::WorkerRank worker = worker_rank(environment, ancestry);
  if (worker.launcher != nullptr) {
    job = job_of_workers(environment, ancestry, worker, is_task, identity);
  } else {
    if (!is_task) take_ranks_of_mpi_launcher(environment, identity);
    job = job_of(environment, ancestry, by_srun, by_openmpi, by_hydra, identity);
  }
  if (identity.rank >= 0) {
    identity.launched = true;
    if (job.launcher == nullptr) {
      // PMI_RANK without Hydra's proxy may be of any launcher.
      const Launcher* const mpi = find_mpi_row(environment);
      if (mpi != nullptr && mpi != wire::find_launcher("hydra")) job.launcher = mpi->name;
    }
    if (job.launcher != nullptr) identity.launcher = job.launcher;
    identity.is_below_rank = is_below_rank(environment, ancestry, identity);
  }
  if (job.name.empty() || (identity.world_size == 1 && worker.launcher == nullptr)) {
    // One process agrees with itself. `srun --pty bash` is such a step, with many runs in it.
    job = {"single", random_text()};
    identity.job_start_unix_s = 0;
  } else {
    identity.has_peers = true;
  }
  identity.key = job.kind + "-" + hex_hash(job.kind + "\n" + job.name);
  name_after_batch_job(environment, by_srun && !by_openmpi && !by_hydra, identity);
  if (Result<void> named = take_node(environment, identity); !named) return named.error();
  return identity;
}

std::string launch_words(const Environment& environment, const Ancestry& ancestry) {
  const wire::WorkerRank worker = worker_rank(environment, ancestry);
  char text[64];
  std::snprintf(text, sizeof text, wire::kLaunchFormat, static_cast<unsigned long long>(worker.launch),
                worker.rank, static_cast<unsigned long long>(wire::mpi_rank_evidence(environment)));
  return text;
}

bool parse_spawned_as(const std::string& text, SpawnedAs& out) {
  const std::size_t last = text.rfind(':');
  if (last == std::string::npos || last == 0) return false;
  const std::size_t middle = text.rfind(':', last - 1);
  if (middle == std::string::npos || middle == 0) return false;
  const auto whole = [&](std::size_t begin, std::size_t end, int& number) {
    const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, number);
    return error == std::errc{} && rest == text.data() + end && number > 0;
  };
  out.key = text.substr(0, middle);
  return whole(middle + 1, last, out.world) && whole(last + 1, text.size(), out.first_rank);
}

Result<void> join_run(const SpawnedAs& spawned, Identity& identity) {
  if (identity.rank < 0 || identity.world_size < 1)
    return Error{
        "a spawned process that does not know its rank: it cannot be told from those of its parents"};
  identity.key = spawned.key;
  identity.world = spawned.world;
  identity.first_rank = spawned.first_rank;
  identity.has_peers = true;
  identity.job_start_unix_s = 0;
  return {};
}

}  // namespace clusterprof::cli
