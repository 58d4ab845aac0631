# SPDX-License-Identifier: BSD-3-Clause
"""An MPI program for tests of the report page. The names of its functions, files and regions are hostile: a
careless browser page would run them as markup or script."""
import subprocess
import sys
import time

from mpi4py import MPI

import clusterprof

world = MPI.COMM_WORLD
rank = world.Get_rank()

NAMES = [  # in html_test.py, too
    "</script><img src=x onerror=window.hostile=1>",
    '"><svg onload=window.hostile=2>',
    "\u202egnp.exe\u2066 \x1b[31m\x00",
    "<b>`${window.hostile=4}`</b>{{7*7}}&lt;",
]


def named(name):
    """A function of that name, in a file of that name, that takes `seconds`."""
    source = "def function(seconds):\n    end = monotonic() + seconds\n    while monotonic() < end:\n        pass\n"
    space = {"monotonic": time.monotonic}
    exec(compile(source, f"/nowhere/{name}.py".replace("\0", ""), "exec"), space)
    function = space["function"]
    more = {"co_qualname": name} if hasattr(function.__code__, "co_qualname") else {}
    function.__code__ = function.__code__.replace(co_name=name, **more)
    return function


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass  # not in a page without sources


def straggle(seconds):
    if rank == 1:
        compute(seconds)
    world.Barrier()


hostile = [named(name) for name in NAMES]
if rank == 0:
    subprocess.run(["/bin/true", "<img src=x onerror=window.hostile=6>"], check=True)
for step in range(6):
    with clusterprof.region("steps", n=step):
        compute(0.1)
        straggle(0.1)
        world.allreduce(step)
with clusterprof.region("<img src=x onerror=window.hostile=5>"):
    for function in hostile:
        function(0.12)
