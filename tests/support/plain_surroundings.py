# SPDX-License-Identifier: BSD-3-Clause
"""Takes away what whoever starts a test has around it, and what would change what the test sees: settings of clusterprof, a job of a
batch system that the test is part of, the width of a terminal, a language, a umask, ignored signals, a closed stdin. To be imported
before anything else is done: recording and launching do."""

import os
import signal

# Who has these is a rank, or part of a job. What MPI libraries are configured by (OMPI_MCA_, PMIX_MCA_, UCX_, HYDRA_) stays: the
# machine may need it.
PREFIXES = ("CLUSTERPROF_", "SLURM_", "SPANK_", "PMI_", "PMIX_", "OMPI_", "PRTE_", "MPI_LOCAL", "MV2_COMM_", "MPIRUN_", "JSM_", "PALS_",
            "ALPS_", "FLUX_", "PBS_", "LSB_", "LSF_", "HOROVOD_", "TORCHELASTIC_", "ACCELERATE_", "DASK_")
NAMES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "CROSS_RANK", "CROSS_SIZE", "MASTER_ADDR",
         "MASTER_PORT", "COLUMNS", "LINES", "NO_COLOR", "CLICOLOR_FORCE", "LANGUAGE", "OMP_TOOL_LIBRARIES", "OMP_NUM_THREADS",
         "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64", "KOKKOS_TOOLS_LIBS", "KOKKOS_PROFILE_LIBRARY", "PYTHONUNBUFFERED",
         "PYTHONFAULTHANDLER", "PYTHONPERFSUPPORT", "PYTHONDEVMODE", "DEBUGINFOD_URLS"}
KEPT_PREFIXES = ("CLUSTERPROF_TEST_", "CLUSTERPROF_TRUTH_", "CLUSTERPROF_UPDATE_GOLDEN", "CLUSTERPROF_DEBIAN_MIRROR",
                 "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_MCA_", "PMIX_MCA_")


def is_in_the_way(name):
    return name in NAMES or name.startswith("LC_") or (name.startswith(PREFIXES) and not name.startswith(KEPT_PREFIXES))


def forget():
    for name in filter(is_in_the_way, list(os.environ)):
        del os.environ[name]
    os.environ["LANG"] = "C.UTF-8"
    os.umask(0o022)
    try:
        os.fstat(0)
    except OSError:  # or the first pipe of a test would be the stdin of what it starts
        os.open(os.devnull, os.O_RDONLY)
    # A shell starts `command &` with some ignored, nohup with another.
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP,
                   signal.SIGTTIN, signal.SIGTTOU, signal.SIGWINCH, signal.SIGALRM, signal.SIGURG):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


forget()
