#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks which libraries a preload object needs and which symbols it exports: every function that is wrapped and that mpi.h
has. check_object.py OBJECT GENERATOR INCLUDE"""

import re
import subprocess
import sys


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main():
    path, generator, include = sys.argv[1:]
    sys.path.insert(0, generator)
    import compare_headers
    import spec
    problems = []
    needed = [m.group(1) for line in lines("readelf", "-dW", path) if (m := re.search(r"NEEDED.*\[(.*)\]", line))]
    problems += [f"needs {n}" for n in needed if not n.startswith(("libc.so", "ld-linux", "libdl.so", "libpthread.so"))]
    offered = [line.split()[-1].split("@")[0] for line in lines("nm", "-D", "--defined-only", path)]
    # For the agent of a process that is attached to, and for another object of ours.
    own = {"clusterprof_mpi_attach_v1", "clusterprof_mpi_next_v1"}
    problems += [f"does not offer {name}" for name in own - set(offered)]
    offered = [name for name in offered if name not in own]
    problems += [f"offers {n}" for n in offered if not re.match(r"P?MPI_[A-Z]", n)]
    if len(offered) < 600:
        problems.append(f"offers only {len(offered)} functions")
    declared, _ = compare_headers.declared(include)
    for f in spec.load(compare_headers.SPEC.read_text()):
        if f.unwrapped is None and f.name in declared and f.name not in offered:
            problems.append(f"does not offer {f.name}, which mpi.h has")
    for name in offered:
        if ("P" + name if name.startswith("MPI_") else name[1:]) not in offered:
            problems.append(f"offers {name} but not its twin")
    for line in lines("nm", "-D", "--undefined-only", path):
        kind, name = line.split()[-2:]
        name = name.split("@")[0]
        if name.startswith(("_Z", "__cxa_throw", "MPI_", "PMPI_", "ompi_", "MPIR_")) or name in ("malloc", "free", "calloc"):
            problems.append(f"refers to {name}")
        if kind == "w" and name == "clusterprof_agent_v1":
            break
    else:
        problems.append("does not look for the agent")
    # Constructors of its own would run in every process.
    for line in lines("readelf", "-SW", path):
        match = re.search(r"\.init_array\s+INIT_ARRAY\s+\S+\s+\S+\s+(\S+)", line)
        if match and int(match.group(1), 16) > 8:
            problems.append("has constructors")
        if " .tbss " in line or " .tdata " in line:
            problems.append("has thread-local storage")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
