// SPDX-License-Identifier: BSD-3-Clause
// The launchers whose ranks are recognised: one row of kLaunchers each. A new launcher is a row here and one
// in the table of tests/unit/cli/launchers_test.cpp.
//
// The launcher of a rank is recognised twice, from the same table: by `clusterprof`, whose own environment
// has the rank ("torchrun --no-python clusterprof python3 train.py"), and by the agent in a process below it,
// when the launcher is what clusterprof started ("clusterprof torchrun train.py").
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace clusterprof::wire {

enum class LauncherKind {
  kMpi,      // starts MPI ranks; its variables stay in the environment of all that these start
  kWorkers,  // sets RANK or the like for worker processes; may itself be started by mpirun, srun or
             // clusterprof
  kTasks,    // starts tasks of a batch job, which may be launchers themselves
};

struct Launcher {
  const char* name;  // in reports: run.launcher
  LauncherKind kind;
  // Variables. The first of `rank` and of `size` that is set counts. Null: there is none.
  const char* rank[2];
  const char* size[2];
  const char* local_rank;
  const char* local_size;
  // One of these has to be set besides, where other programs may set variables of the same names. All null:
  // the names above are enough.
  const char* marks[2];
  // Equal for all ranks of a launch: together with the batch job they tell launches apart.
  const char* job[3];
  const char* restart;      // how often the ranks have been started before
  std::int32_t first_rank;  // what it calls the first rank
};

inline constexpr Launcher kLaunchers[] = {
    // MPI. What a row leaves open is taken from the rows after it.

    // Open MPI: orte/mca/schizo/ompi/schizo_ompi.c and, from 5 on, PRRTE's schizo/ompi.
    {"openmpi",
     LauncherKind::kMpi,
     {"OMPI_COMM_WORLD_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"},
     nullptr,
     0},
    // IBM's Job Step Manager: Spectrum LSF's manual of jsrun, "Environment variables". It is a PMIx server.
    {"jsrun",
     LauncherKind::kMpi,
     {"JSM_NAMESPACE_RANK"},
     {"JSM_NAMESPACE_SIZE"},
     "JSM_NAMESPACE_LOCAL_RANK",
     "JSM_NAMESPACE_LOCAL_SIZE",
     {},
     {"PMIX_NAMESPACE"},
     nullptr,
     0},
    // PMIx servers: the PMIx standard, 4.1 "Environmental variables". Sizes have to be asked for.
    {"pmix", LauncherKind::kMpi, {"PMIX_RANK"}, {}, nullptr, nullptr, {}, {"PMIX_NAMESPACE"}, nullptr, 0},
    // MVAPICH's mpirun_rsh: src/pm/mpirun/mpispawn.c, setup_global_environment() and
    // setup_local_environment().
    // MPIRUN_ID is the process id of mpirun_rsh; MPIRUN_HOST is that of the node, and so not the same for
    // all.
    {"mpirun_rsh",
     LauncherKind::kMpi,
     {"MV2_COMM_WORLD_RANK", "MPIRUN_RANK"},
     {"MV2_COMM_WORLD_SIZE", "MPIRUN_NPROCS"},
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     {"MPIRUN_ID"},
     {"MPIRUN_ID", "MPISPAWN_MPIRUN_HOST"},
     nullptr,
     0},
    // MPICH's Hydra, also of Intel MPI and MVAPICH: src/pm/hydra/proxy/pmip_cb.c. The job has no variable.
    {"hydra",
     LauncherKind::kMpi,
     {"PMI_RANK"},
     {"PMI_SIZE"},
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {},
     {},
     nullptr,
     0},
    // Flux: man 1 flux-run, "Environment variables".
    {"flux",
     LauncherKind::kMpi,
     {"FLUX_TASK_RANK"},
     {"FLUX_JOB_SIZE"},
     "FLUX_TASK_LOCAL_ID",
     nullptr,
     {},
     {"FLUX_JOB_ID"},
     nullptr,
     0},
    // HPE's PALS and ALPS: man 1 mpiexec and aprun, "Environment variables".
    {"pals",
     LauncherKind::kMpi,
     {"PALS_RANKID"},
     {},
     "PALS_LOCAL_RANKID",
     "PALS_LOCAL_SIZE",
     {},
     {"PALS_APID"},
     nullptr,
     0},
    {"aprun", LauncherKind::kMpi, {"ALPS_APP_PE"}, {}, nullptr, nullptr, {}, {"ALPS_APP_ID"}, nullptr, 0},

    // Workers.

    // Horovod with gloo: horovod/runner/gloo_run.py, create_slot_env_vars() and create_run_env_vars().
    {"horovodrun",
     LauncherKind::kWorkers,
     {"HOROVOD_RANK"},
     {"HOROVOD_SIZE"},
     "HOROVOD_LOCAL_RANK",
     "HOROVOD_LOCAL_SIZE",
     {},
     {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"},
     nullptr,
     0},
    // Hugging Face accelerate launch: it runs torch.distributed.run in its own process, with variables of
    // accelerate/utils/launch.py, prepare_multi_gpu_env().
    {"accelerate",
     LauncherKind::kWorkers,
     {"RANK"},
     {"WORLD_SIZE"},
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"ACCELERATE_MIXED_PRECISION", "ACCELERATE_DYNAMO_BACKEND"},
     {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"},
     "TORCHELASTIC_RESTART_COUNT",
     0},
    // torchrun and python -m torch.distributed.run:
    // torch/distributed/elastic/agent/server/local_elastic_agent.py, _start_workers().
    {"torchrun",
     LauncherKind::kWorkers,
     {"RANK"},
     {"WORLD_SIZE"},
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
     {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"},
     "TORCHELASTIC_RESTART_COUNT",
     0},
    // DeepSpeed: deepspeed/launcher/launch.py, main().
    {"deepspeed",
     LauncherKind::kWorkers,
     {"RANK"},
     {"WORLD_SIZE"},
     "LOCAL_RANK",
     "LOCAL_SIZE",
     {"CROSS_RANK", "CROSS_SIZE"},
     {"MASTER_ADDR", "MASTER_PORT"},
     nullptr,
     0},

    // Tasks of batch systems.

    // Slurm: man 1 srun, "Output environment variables".
    {"srun",
     LauncherKind::kTasks,
     {"SLURM_PROCID"},
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_LOCALID",
     nullptr,
     {"SLURM_STEP_ID"},
     {},
     nullptr,
     0},
    // TORQUE and OpenPBS: man 1 pbsdsh. The batch script itself is task 1 of its job, with number 0.
    {"pbsdsh", LauncherKind::kTasks, {"PBS_VNODENUM"}, {}, nullptr, nullptr, {}, {}, nullptr, 0},
    // LSF: man 1 blaunch; tasks are counted from 1, as PRRTE's ess/lsf says.
    // How many there are depends on blaunch's options.
    {"blaunch", LauncherKind::kTasks, {"LSF_PM_TASKID"}, {}, nullptr, nullptr, {}, {}, nullptr, 1},
};
inline constexpr std::uint32_t kLauncherCount = sizeof(kLaunchers) / sizeof(kLaunchers[0]);

// The row of that name, null if there is none.
constexpr const Launcher* find_launcher(const char* name) {
  for (const Launcher& launcher : kLaunchers) {
    const char *a = launcher.name, *b = name;
    while (*a != 0 && *a == *b) ++a, ++b;
    if (*a == *b) return &launcher;
  }
  return nullptr;
}

// A decimal number from 0 on, or -1.
inline std::int32_t launcher_number(const char* text) noexcept {
  if (text == nullptr || *text == 0) return -1;
  std::int64_t number = 0;
  for (; *text != 0; ++text) {
    if (*text < '0' || *text > '9') return -1;
    number = 10 * number + (*text - '0');
    if (number > 0x7fff'ffff) return -1;
  }
  return static_cast<std::int32_t>(number);
}

// `environment(name)`: a variable's value, null when unset.
template <typename Environment>
std::int32_t launcher_number(Environment&& environment, const char* const (&names)[2]) noexcept {
  for (const char* name : names) {
    const std::int32_t number = name == nullptr ? -1 : launcher_number(environment(name));
    if (number >= 0) return number;
  }
  return -1;
}

// The rank that a launcher of workers has given to this process.
struct WorkerRank {
  const Launcher* launcher = nullptr;  // null: none has
  std::int32_t rank = -1, size = -1, local_rank = -1, local_size = -1;
  // Equal for the ranks of a launch that were started together. Other launches, and most restarts, have
  // others.
  std::uint64_t launch = 0;
};

// `is_below_torch_launcher()`: whether a process above this one is such a launcher (see
// starts_torch_workers). It is called only where the rest of the environment says too little.
template <typename Environment, typename IsBelow>
WorkerRank find_worker_rank(Environment&& environment, IsBelow&& is_below_torch_launcher) noexcept {
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.kind != LauncherKind::kWorkers) continue;
    WorkerRank found;
    found.rank = launcher_number(environment, launcher.rank);
    found.size = launcher_number(environment, launcher.size);
    found.local_rank = launcher_number(environment(launcher.local_rank));
    if (found.rank < 0 || found.size <= found.rank || found.local_rank < 0) continue;
    bool is_marked = launcher.marks[0] == nullptr;
    for (const char* mark : launcher.marks) is_marked = is_marked || (mark && environment(mark) != nullptr);
    constexpr const Launcher* kTorchrun = find_launcher("torchrun");
    if (!is_marked &&
        (&launcher != kTorchrun || environment("CROSS_RANK") != nullptr || !is_below_torch_launcher()))
      continue;
    found.launcher = &launcher;
    found.local_size = launcher_number(environment(launcher.local_size));
    std::uint64_t hash = 0xcbf2'9ce4'8422'2325ull;  // FNV-1a
    const auto add = [&](const char* name) {
      const char* value = name == nullptr ? nullptr : environment(name);
      for (; value != nullptr && *value != 0; ++value)
        hash = (hash ^ static_cast<unsigned char>(*value)) * 0x100'0000'01b3ull;
      hash = (hash ^ 0x100) * 0x100'0000'01b3ull;
    };
    for (const char* name : launcher.job) add(name);
    // Each node of an elastic job counts the failures of its own workers, so all nodes of a restart need not
    // have the same count.
    if (found.local_size == found.size) add(launcher.restart);
    found.launch = hash == 0 ? 1 : hash;
    return found;
  }
  return {};
}

// Changes when a process is given another MPI rank.
template <typename Environment>
std::uint64_t mpi_rank_evidence(Environment&& environment) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325ull;
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.kind != LauncherKind::kMpi) continue;
    for (const char* name : {launcher.rank[0], launcher.rank[1], launcher.job[0]}) {
      const char* value = name == nullptr ? nullptr : environment(name);
      for (; value != nullptr && *value != 0; ++value)
        hash = (hash ^ static_cast<unsigned char>(*value)) * 0x100'0000'01b3ull;
      hash = (hash ^ 0x100) * 0x100'0000'01b3ull;
    }
  }
  return hash;
}

// Whether a process with this command line starts workers with RANK and WORLD_SIZE. `command_line`: as in
// /proc/PID/cmdline, a null after each word.
inline bool starts_torch_workers(const char* command_line, std::size_t bytes) noexcept {
  constexpr const char* kPrograms[] = {"torchrun", "accelerate", "deepspeed"};
  constexpr const char* kModules[] = {"torch.distributed.run", "torch.distributed.launch",
                                      "accelerate.commands.launch", "deepspeed.launcher.launch"};
  const char* const end = command_line + bytes;
  bool is_first = true, is_module = false;
  for (const char* word = command_line; word < end;) {
    const std::size_t length = strnlen(word, static_cast<std::size_t>(end - word));
    if (word + length == end) return false;  // cut off
    if (is_module) {
      for (const char* name : kModules)
        if (strcmp(word, name) == 0) return true;
      return false;
    }
    const char* const slash = strrchr(word, '/');
    const char* const base = slash == nullptr ? word : slash + 1;
    for (const char* name : kPrograms)
      if (strcmp(base, name) == 0) return true;
    is_module = !is_first && strcmp(word, "-m") == 0;
    // The first word is the interpreter; then come its options and a script.
    if (!is_first && !is_module && word[0] != '-') return false;
    is_first = false;
    word += length + 1;
  }
  return false;
}

}  // namespace clusterprof::wire
