#!/usr/bin/env python3
"""Measures how much of one core recording takes, from the kernel's accounts of our own threads and processes and from
the handler's own clock. On a machine that others use, ratios of whole runs say nothing below two points; these figures
hardly change.

Program, launcher and collector are pinned together on one core. Printed, in ms of CPU time:

  handlers   the number of samples times the median time in the signal handler, by its own clock. The kernel's part of a
             signal is not included (bench/empty_handler.c measures that)
  watcher    the agent's thread in the program, from /proc/PID/task/TID/schedstat: in the first two seconds, and later
  collector  all of its CPU time (getrusage, in the shard): start, rings, names, shards; and what it needs per second
             after the first two, from /proc/PID/stat (in steps of 10 ms: for long runs)
  /bin/true  everything that a program which does nothing costs: the collector with its last shard, and the launcher

    bench/accounts.py [--build DIR] [--rates 100,1000,light] [--only NAME,...] [--length N] [--cpu N]
                      [--pyperformance DIR [--seconds S]]

`light` is --mode light. With --pyperformance, the programs are those of a pyperformance checkout instead: DIR has its folders
bm_NAME, PYTHONPATH one with pyperf. Each is one process that makes its measurement again and again for about --seconds.
"""

import argparse
import glob
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import overhead


class Looks(threading.Thread):
    """Reads the CPU times of the agent's thread and of the collector twice a second."""

    def __init__(self, program, out):
        super().__init__(daemon=True)
        self.program, self.out, self.end = program, out, threading.Event()
        self.agent, self.collector = [], []

    def run(self):
        agent = collector = None
        while not self.end.wait(0.5):
            if agent is None or collector is None:
                agent, collector = self.find()
            try:
                with open(f"{agent}/schedstat", encoding="ascii") as file:
                    self.agent.append((time.monotonic(), int(file.read().split()[0]) * 1e-6))
                # With the threads that have ended; in ticks of 10 ms.
                with open(f"{collector}/stat", encoding="ascii") as file:
                    ticks = sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
                self.collector.append((time.monotonic(), 1e3 * ticks / os.sysconf("SC_CLK_TCK")))
            except OSError:
                pass

    def find(self):
        agent = collector = None
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                if os.path.basename(words[0]) == "collector" and f"--run-dir={self.out}" in words:
                    collector = f"/proc/{pid}"
                if words[:len(self.program)] != self.program:
                    continue
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as file:
                        if file.read() == "clusterprof\n":
                            agent = f"/proc/{pid}/task/{thread}"
            except OSError:
                continue
        return agent, collector


def steady(looks):
    """ms in the first two seconds, and ms/s from then on."""
    first = [look for look in looks if look[0] < looks[0][0] + 2][-1]
    return first[1], (looks[-1][1] - first[1]) / (looks[-1][0] - first[0])


def recorded(tool, rate, program, folder, cpu):
    """What is told of one run."""
    out = os.path.join(folder, "out")
    looks = Looks(program, out)
    looks.start()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([tool, "-q", *(["--mode", "light"] if rate == "light" else ["-r", rate]), "-o", out, "--", *program], cwd=folder, capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {cpu}), env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    looks.end.set()
    looks.join()
    if done.returncode != 0:
        sys.exit(done.stderr)
    said = json.loads(subprocess.run([tool, "report", "--json", out], capture_output=True, text=True, check=True).stdout)
    shutil.rmtree(out)
    all_ms = 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return said, all_ms, looks


def pyperformance(folder, only, seconds):
    """The programs of pyperformance, each with as many values as it takes that long for."""
    made = {}
    for path in sorted(glob.glob(os.path.join(os.path.abspath(folder), "bm_*", "run_benchmark.py"))):
        name = os.path.basename(os.path.dirname(path)).removeprefix("bm_")
        if only and not any(part in name for part in only):
            continue

        def with_values(count):
            return [overhead.PYTHON, path, "--worker", "--loops", "1", "--warmups", "0", "--values", str(count)]

        took = []
        for count in (1, 6):
            begin = time.perf_counter()
            done = subprocess.run(with_values(count), cwd=folder, capture_output=True)
            took.append(time.perf_counter() - begin)
            if done.returncode != 0:
                break
        if done.returncode != 0:
            print(f"{name}: left out, since it fails alone: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
            continue
        made[name] = with_values(math.ceil(seconds / max(1e-4, (took[1] - took[0]) / 5)))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{overhead.TOP}/build/release")
    parser.add_argument("--rates", default="100,1000")
    parser.add_argument("--only", default="", help="parts of program names")
    parser.add_argument("--length", default="6", help="how many times as long as usual the programs run")
    parser.add_argument("--cpu", default=1, type=int)
    parser.add_argument("--pyperformance", metavar="DIR", help="measure the programs that are there")
    parser.add_argument("--seconds", default=12, type=float, help="of each of them")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else []
    tool = os.path.join(os.path.abspath(arguments.build), "bin", "clusterprof")

    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        starts = []
        for _ in range(11):
            said, all_ms, _ = recorded(tool, "100", ["/bin/true"], folder, arguments.cpu)
            program_ms = 1e3 * said["ranks"][0]["cpu_s"]
            starts.append((1e3 * said["nodes"][0]["collector_cpu_s"], all_ms - program_ms))
        collector_ms, ours_ms = (statistics.median(column) for column in zip(*starts))
        print(f"/bin/true: collector {collector_ms:.1f} ms, launcher and collector {ours_ms:.1f} ms (medians of {len(starts)})\n")
        print("| program | rate | elapsed s | samples | handler, median | handlers ms/s | watcher ms, first 2 s | watcher ms/s, then | "
              "collector ms, after its start | collector ms/s, after 2 s | in all, per cent | after 2 s, per cent |\n"
              "|---|---|---|---|---|---|---|---|---|---|---|---|")
        if arguments.pyperformance:
            programs = pyperformance(arguments.pyperformance, only, arguments.seconds)
        else:
            programs = {name: program for name, program in overhead.programs(folder, arguments.length).items()
                        if not only or any(part in name for part in only)}
        left = {}  # by rate: what each program's recording takes after its start, per cent
        for name, program in programs.items():
            for rate in arguments.rates.split(","):
                said, _, looks = recorded(tool, rate, program, folder, arguments.cpu)
                rank, elapsed_s = said["ranks"][0], said["ranks"][0]["elapsed_s"]
                if min(len(looks.agent), len(looks.collector)) < 6:
                    if not arguments.pyperformance:
                        sys.exit(f"{name} ends too soon: --length")
                    print(f"{name}: left out, since it ends too soon", flush=True)
                    continue
                first_ms, agent = steady(looks.agent)
                _, collector = steady(looks.collector)
                median_s = said["quality"]["handler_median_s"]
                handlers = 1e3 * median_s * rank["samples"] / elapsed_s
                own_ms = max(0.0, 1e3 * said["nodes"][0]["collector_cpu_s"] - collector_ms)
                whole = 100 * (handlers * elapsed_s + looks.agent[-1][1] + own_ms) / (1e3 * elapsed_s)
                print(f"| {name} | {rate} | {elapsed_s:.1f} | {rank['samples']} | {1e6 * median_s:.1f} µs | {handlers:.2f} | "
                      f"{first_ms:.2f} | {agent:.2f} | {own_ms:.1f} | {collector:.2f} | {whole:.2f} | "
                      f"{0.1 * (handlers + agent + collector):.2f} |", flush=True)
                left.setdefault(rate, []).append(0.1 * (handlers + agent + collector))
        for rate, parts in left.items():
            print(f"\n{rate}: {len(parts)} programs, after their first 2 s {min(parts):.2f} to {max(parts):.2f} %, "
                  f"median {statistics.median(parts):.2f} %")


if __name__ == "__main__":
    main()
