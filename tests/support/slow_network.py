# SPDX-License-Identifier: BSD-3-Clause
"""Networks as slow as one wants, without hardware: programs/mpi_delays.c makes messages late, and a token bucket in a network namespace
of its own limits how many bytes Open MPI sends over TCP."""

import os
import subprocess

PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "truth", "programs")
# Packets and bucket are small beside the messages that are to be slow: a full bucket passes at once.
LIMIT = 'ip link set lo mtu 9000 up && tc qdisc add dev lo root tbf rate "$1bit" burst 20000 limit 8000000 && shift && exec "$@"'
# Ranks on one machine would share memory.
OVER_TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]


def with_delays(flavour, source, folder, *options):
    """Compiles `source` with mpi_delays.c between it and MPI, into `folder`. Returns the program; it has to be recorded for messages to be
    late, since only who looks for PMPI functions finds those of mpi_delays.c."""
    compiler = f"mpicc.{flavour}"
    library, program = os.path.join(folder, "libmpi_delays.so"), os.path.join(folder, "delayed")
    subprocess.run([compiler, "-O2", "-g", "-shared", "-fPIC", os.path.join(PROGRAMS, "mpi_delays.c"), "-o", library,
                    "-Wl,--no-as-needed", "-ldl"], check=True, capture_output=True)
    subprocess.run([compiler, "-O2", "-g", *options, source, "-o", program, "-Wl,--no-as-needed", f"-L{folder}", "-lmpi_delays",
                    f"-Wl,-rpath,{folder}", "-ldl"], check=True, capture_output=True)
    return program


def delay(seconds):
    """The environment in which messages are as late."""
    return dict(os.environ, MPI_DELAYS_LATENCY_S=str(seconds))


def limit(bits_per_s):
    """The command before mpirun: what it starts has a network of so many bits per second to itself."""
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *mapped, "--net", "sh", "-c", LIMIT, "sh", str(bits_per_s)]


def as_root():
    """mpirun takes itself to be started by root there."""
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def why_not_limited():
    """Why there can be no such network on this machine; empty: there can."""
    try:
        done = subprocess.run([*limit(1_000_000_000), "true"], capture_output=True, text=True, timeout=60)
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"
