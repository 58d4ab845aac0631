#!/usr/bin/env python3
"""Measures what recording adds to the start and end of a process that does nothing: `python3 -c pass`.

Three ways to run it alternate: bare; with the preload objects and a collector that only takes the
greeting (what every rank pays); under `clusterprof` (launcher and collector of a node included).
Printed are the medians of the differences from the neighbouring bare run: wall clock, and CPU time (user +
system) of the process, as wait4(2) reports it.

    bench/startup.py [--build DIR] [--pairs N] [--python PATH] [--no-launcher]
"""

import argparse
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=101)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--no-launcher", action="store_true")
    arguments = parser.parse_args()
    tool = os.path.join(arguments.build, "bin", "clusterprof")
    agent = os.path.join(arguments.build, "lib", "clusterprof", "libclusterprof_agent.so")
    program = [arguments.python, "-c", "pass"]
    plain = dict(os.environ)
    name, collector = start_collector()
    recorded = dict(plain, LD_PRELOAD=agent, CLUSTERPROF_AGENT_SOCKET=name, CLUSTERPROF_AGENT_PRELOAD=agent,
                    CLUSTERPROF_AGENT_RANK="0", CLUSTERPROF_AGENT_WORLD_SIZE="1")
    silent = os.open("/dev/null", os.O_RDWR)
    folder = tempfile.mkdtemp(prefix="clusterprof-bench-")
    try:
        target = os.path.join(folder, "run")
        ways = {"preload objects": (program, recorded)}
        if not arguments.no_launcher:
            ways["launcher, collector, shard"] = ([tool, "-q", "-o", target, *program], plain)
        for command, environment in ((program, plain), *ways.values()):  # warms file caches
            run(command, environment, silent)
            shutil.rmtree(target, ignore_errors=True)
        bare, added = [], {way: [] for way in ways}
        for _ in range(arguments.pairs):
            for way, (command, environment) in ways.items():
                before = run(program, plain, silent)
                with_us = run(command, environment, silent)
                after = run(program, plain, silent)
                shutil.rmtree(target, ignore_errors=True)
                bare += [before, after]
                added[way].append([ours - (a + b) / 2 for ours, a, b in zip(with_us, before, after)])
        wall, cpu = (statistics.median(pair[i] for pair in bare) for i in (0, 1))
        print(f"{'':<28}{'wall':>9}{'CPU':>9} ms   (medians of {arguments.pairs})")
        print(f"{'bare python3 -c pass':<28}{wall:>9.2f}{cpu:>9.2f}")
        for way, differences in added.items():
            wall, cpu = (statistics.median(pair[i] for pair in differences) for i in (0, 1))
            print(f"{way:<28}{wall:>+9.2f}{cpu:>+9.2f}")
    finally:
        os.kill(collector, 9)
        os.waitpid(collector, 0)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
