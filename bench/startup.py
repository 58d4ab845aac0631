#!/usr/bin/env python3
"""Measures what recording adds to programs that do little but start and end:

    pass            python3 -c pass
    import torch    python3 -c "import torch", where PyTorch is installed
    spawn pool      a multiprocessing pool of 8 workers that are started by spawn, and one task for each

Three ways to run each alternate: bare; with the preload objects and a collector that only takes the
greetings (what every rank pays); under `clusterprof` (launcher and collector of a node included).
Printed are the medians of the differences from the neighbouring bare runs: wall clock, and CPU time (user +
system) of the process and its children, as wait4(2) reports it.

    bench/startup.py [--build DIR] [--pairs N] [--long-pairs N] [--only PROGRAM,...] [--python PATH] [--no-launcher]
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

POOL = """
import multiprocessing, os

def work(number):
    barrier.wait()  # each worker has one task
    return number

def take(shared):
    global barrier
    barrier = shared

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with context.Pool(8, take, [context.Barrier(8)]) as pool:
        pool.map(work, range(8), chunksize=1)
        pool.close()
        pool.join()
"""


def take_greetings(listener):
    kept = []
    while True:
        connection, _ = listener.accept()
        _, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
        for descriptor in descriptors:
            os.close(descriptor)
        kept.append(connection)  # it tells of the process's end, to whom it concerns
        del kept[:-64]


def start_collector():
    name = f"clusterprof-bench/{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("\0" + name)
    listener.listen(16)
    pid = os.fork()
    if pid == 0:
        try:
            take_greetings(listener)
        finally:
            os._exit(1)
    listener.close()
    return name, pid


def run(command, environment, silent):
    """Wall and CPU time of one run, in ms."""
    actions = [(os.POSIX_SPAWN_DUP2, silent, 1), (os.POSIX_SPAWN_DUP2, silent, 2)]
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - begin
    if status != 0:
        sys.exit(f"{command} failed: {status}")
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def measure(title, program, pairs, way_of, silent, target):
    """way_of: {way: function from the bare command to the recorded one and its environment}."""
    ways = {way: recorded(program) for way, recorded in way_of.items()}
    plain = dict(os.environ)
    for command, environment in ((program, plain), *ways.values()):  # warms file caches
        run(command, environment, silent)
        shutil.rmtree(target, ignore_errors=True)
    bare, added = [], {way: [] for way in ways}
    for _ in range(pairs):
        for way, (command, environment) in ways.items():
            before = run(program, plain, silent)
            with_us = run(command, environment, silent)
            shutil.rmtree(target, ignore_errors=True)
            after = run(program, plain, silent)
            bare += [before, after]
            added[way].append([ours - (a + b) / 2 for ours, a, b in zip(with_us, before, after)])
    wall, cpu = (statistics.median(pair[i] for pair in bare) for i in (0, 1))
    print(f"{title:<28}{'wall':>9}{'CPU':>9} ms   (medians of {pairs})")
    print(f"{'  bare':<28}{wall:>9.2f}{cpu:>9.2f}")
    for way, differences in added.items():
        wall, cpu = (statistics.median(pair[i] for pair in differences) for i in (0, 1))
        print(f"{'  ' + way:<28}{wall:>+9.2f}{cpu:>+9.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=101)
    parser.add_argument("--long-pairs", type=int, default=11, help="of the programs that take longer")
    parser.add_argument("--only", default="pass,import torch,spawn pool")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--no-launcher", action="store_true")
    arguments = parser.parse_args()
    tool = os.path.join(arguments.build, "bin", "clusterprof")
    agent = os.path.join(arguments.build, "lib", "clusterprof", "libclusterprof_agent.so")
    name, collector = start_collector()
    recorded = dict(os.environ, LD_PRELOAD=agent, CLUSTERPROF_AGENT_SOCKET=name, CLUSTERPROF_AGENT_PRELOAD=agent,
                    CLUSTERPROF_AGENT_RANK="0", CLUSTERPROF_AGENT_WORLD_SIZE="1")
    silent = os.open("/dev/null", os.O_RDWR)
    folder = tempfile.mkdtemp(prefix="clusterprof-bench-")
    try:
        target, pool = os.path.join(folder, "run"), os.path.join(folder, "pool.py")
        with open(pool, "w", encoding="ascii") as file:
            file.write(POOL)
        programs = {"pass": ([arguments.python, "-c", "pass"], arguments.pairs),
                    "import torch": ([arguments.python, "-c", "import torch"], arguments.long_pairs),
                    "spawn pool": ([arguments.python, pool], arguments.long_pairs)}
        ways = {"preload objects": lambda program: (program, recorded)}
        if not arguments.no_launcher:
            recorder = [tool, "-q", "-o", target]
            ways["launcher, collector, shard"] = lambda program: ([*recorder, *program], dict(os.environ))
        for title in arguments.only.split(","):
            program, pairs = programs[title]
            if title == "import torch" and subprocess.run(program, capture_output=True).returncode != 0:
                print(f"{title}: left out, PyTorch is not installed for {arguments.python}")
                continue
            measure(title, program, pairs, ways, silent, target)
    finally:
        os.kill(collector, 9)
        os.waitpid(collector, 0)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
