// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/start/decide.hpp"

#include <initializer_list>

#include "slurm/start/match.hpp"

namespace clusterprof::start {
namespace {

// The rest of `text` behind `prefix`, or nullptr.
const char* behind(const char* text, const char* prefix) noexcept {
  while (*prefix != '\0') {
    if (*text++ != *prefix++) return nullptr;
  }
  return text;
}

const char* base_name(const char* path) noexcept {
  const char* base = path;
  for (; *path != '\0'; ++path) {
    if (*path == '/') base = path + 1;
  }
  return base;
}

// mpirun.openmpi and mpiexec.hydra are mpirun and mpiexec.
bool is_one_of(const char* path, const char* const* names) noexcept {
  const char* const base = base_name(path);
  for (; *names != nullptr; ++names) {
    const char* const rest = behind(base, *names);
    if (rest != nullptr && (*rest == '\0' || *rest == '.')) return true;
  }
  return false;
}

// Our own launcher; srun, for whose step recording is decided anew; and container runtimes, inside which the
// starter may not exist.
constexpr const char* kNotForUs[] = {"clusterprof", "srun",    "apptainer",    "singularity", "podman",
                                     "docker",      "enroot",  "charliecloud", "ch-run",      "runc",
                                     "crun",        "shifter", "shifterimg",   "sarus",       nullptr};
constexpr const char* kSubmitters[] = {"sbatch", "salloc", nullptr};
// MPI launchers and their daemons on the nodes. The ranks that they start are recorded instead.
constexpr const char* kLaunchers[] = {
    "mpirun",   "mpiexec",    "orterun", "oshrun",          "shmemrun",           "orted",     "prun",
    "prterun",  "prte",       "prted",   "hydra_pmi_proxy", "hydra_bstrap_proxy", "pmi_proxy", "mpirun_rsh",
    "mpispawn", "mpirun_dbg", nullptr};

// A number and nothing else.
bool to_number(const char* text, unsigned long& number) noexcept {
  if (text == nullptr || *text == '\0') return false;
  number = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || number > 1'000'000'000'000ul) return false;
    number = number * 10 + static_cast<unsigned long>(*text - '0');
  }
  return true;
}

// From here on, Slurm's numbers are not steps of srun: the batch script, an interactive shell, extern, and
// reserved ones.
constexpr unsigned long kFirstPseudoStep = 0xfffffff0ul;

bool is_rank_of_launcher(const char* const* variables) noexcept {
  unsigned long rank = 0;
  return to_number(value_of(variables, "OMPI_COMM_WORLD_RANK"), rank) ||
         to_number(value_of(variables, "MPI_LOCALRANKID"), rank);
}

// All processes of a task inherit its variables. This is the one that Slurm started as the task.
bool is_task_of_step(const char* const* variables, long pid) noexcept {
  unsigned long step = 0, task = 0;
  return value_of(variables, kBatchVariable) == nullptr &&
         to_number(value_of(variables, "SLURM_STEP_ID"), step) && step < kFirstPseudoStep &&
         to_number(value_of(variables, "SLURM_TASK_PID"), task) && task == static_cast<unsigned long>(pid);
}

// False: not known. A component of a heterogeneous step knows only its own tasks.
bool count_ranks(const char* const* variables, unsigned long& ranks) noexcept {
  if (is_rank_of_launcher(variables))
    return to_number(value_of(variables, "OMPI_COMM_WORLD_SIZE"), ranks) ||
           to_number(value_of(variables, "PMI_SIZE"), ranks);
  if (value_of(variables, "SLURM_HET_SIZE") != nullptr || value_of(variables, "SLURM_PACK_SIZE") != nullptr)
    return false;
  return to_number(value_of(variables, "SLURM_STEP_NUM_TASKS"), ranks);
}

void remove_variable(char** variables, const char* name) noexcept {
  char** kept = variables;
  for (; *variables != nullptr; ++variables) {
    const char* const rest = behind(*variables, name);
    if (rest == nullptr || *rest != '=') *kept++ = *variables;
  }
  *kept = nullptr;
}

bool is_separator(char c) noexcept { return c == ':' || c == ' '; }

bool is_starter(const char* entry, const char* end) noexcept {
  const char* base = entry;
  for (const char* at = entry; at != end; ++at) {
    if (*at == '/') base = at + 1;
  }
  return behind(base, kObjectName) == end;
}

// Leaves the other entries with the separators between them.
void remove_from_list(char* list) noexcept {
  char* out = list;
  for (const char* at = list; *at != '\0';) {
    const char* end = at;
    while (*end != '\0' && !is_separator(*end)) ++end;
    const char* const next = *end == '\0' ? end : end + 1;
    if (is_starter(at, end)) {
      if (next == end && out != list) --out;
    } else {
      for (const char* copied = at; copied != next;) *out++ = *copied++;
    }
    at = next;
  }
  *out = '\0';
}

}  // namespace

bool same(const char* a, const char* b) noexcept {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

const char* value_of(const char* const* variables, const char* name) noexcept {
  for (; *variables != nullptr; ++variables) {
    const char* const rest = behind(*variables, name);
    if (rest != nullptr && *rest == '=') return rest + 1;
  }
  return nullptr;
}

Action decide(const Process& process) noexcept {
  const char* const launcher = value_of(process.variables, kStartVariable);
  if (launcher == nullptr || *launcher != '/') return Action::kLeave;
  // mpiexec may be a script, and mpirun a link to orterun.
  const auto either_is = [&process](const char* const* names) {
    return is_one_of(process.path, names) || is_one_of(process.executable, names);
  };
  if (either_is(kNotForUs)) return Action::kStepAside;
  if (either_is(kSubmitters)) return Action::kSubmit;
  if (either_is(kLaunchers)) return Action::kLeave;
  if (is_rank_of_launcher(process.variables) || is_task_of_step(process.variables, process.pid))
    return Action::kStart;
  return Action::kLeave;
}

const char* reason_against(const Process& process) noexcept {
  const auto listed = [&process](const char* list) {
    return matches_one(list, base_name(process.path), process.path);
  };
  const char* const excluded = value_of(process.variables, kNotCommandsVariable);
  if (excluded != nullptr && listed(excluded)) return "command-excluded";
  const char* const included = value_of(process.variables, kCommandsVariable);
  if (included != nullptr && *included != '\0' && !listed(included)) return "command-not-included";
  unsigned long least = 0, ranks = 0;
  if (to_number(value_of(process.variables, kMinRanksVariable), least) &&
      count_ranks(process.variables, ranks) && ranks < least)
    return "too-few-ranks";
  return nullptr;
}

Action action_against(const Process& process) noexcept {
  return is_rank_of_launcher(process.variables) ? Action::kStepAside : Action::kLeave;
}

bool is_explained(const char* const* variables) noexcept {
  const char* const explain = value_of(variables, kExplainVariable);
  return value_of(variables, kAskedVariable) != nullptr ||
         (explain != nullptr && *explain != '\0' && !same(explain, "0"));
}

int first_argument(const char* path, bool is_script, int argc, const char* const* argv) noexcept {
  if (argc < 1) return -1;
  if (!is_script) return 1;
  // For "#!/usr/bin/env -S python3" it is called as /usr/bin/env, "-S python3", the script's path and what
  // was given.
  for (int at = 1; at < argc; ++at) {
    if (same(argv[at], path)) return at + 1;
  }
  return -1;
}

void remove_starter(char** variables) noexcept {
  remove_variable(variables, kStartVariable);
  remove_variable(variables, kBatchVariable);
  bool is_left = false;
  for (char** at = variables; *at != nullptr; ++at) {
    if (behind(*at, "LD_PRELOAD=") == nullptr) continue;
    char* const list = *at + 11;
    remove_from_list(list);
    is_left = is_left || *list != '\0';
  }
  if (!is_left) remove_variable(variables, "LD_PRELOAD");
}

void remove_option(char** variables) noexcept {
  for (const char* const name :
       {"_SLURM_SPANK_OPTION_clusterprof_clusterprof",
        "SLURM_SPANK__SLURM_SPANK_OPTION_clusterprof_clusterprof", "SLURM_SPANK_CLUSTERPROF"})
    remove_variable(variables, name);
}

bool speaks_for_all(const char* const* variables) noexcept {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    unsigned long rank = 0;
    if (to_number(value_of(variables, name), rank)) return rank == 0;
  }
  return true;
}

bool speaks_for_node(const char* const* variables) noexcept {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    unsigned long rank = 0;
    if (to_number(value_of(variables, name), rank)) return rank == 0;
  }
  return true;
}

}  // namespace clusterprof::start
