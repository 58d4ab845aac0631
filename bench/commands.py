# SPDX-License-Identifier: BSD-3-Clause
"""Functions that the benchmarks of commands share."""

import os
import subprocess
import sys
import tempfile
import time


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def let_root_use_open_mpi():
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def output_of(command, env=None):
    """What the command writes; ends the program with the command's own message if it fails."""
    done = subprocess.run(command, capture_output=True, timeout=600, check=False, env=env)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace")
        fail(f"{' '.join(command)}: status {done.returncode}: {said[-1000:]}")
    return done.stdout


def timed(command, stdout=subprocess.DEVNULL):
    """(seconds, peak bytes of resident memory) of a command and what it waits for."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=stdout, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begin
        if process.returncode != 0:
            errors.seek(0)
            fail(f"{' '.join(command)}: status {process.returncode}: {errors.read().decode(errors='replace')[-500:]}")
    return seconds, used.ru_maxrss * 1024
