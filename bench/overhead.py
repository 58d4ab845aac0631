#!/usr/bin/env python3
"""Measures how much slower whole programs get under clusterprof and other profilers.

Program and profiler are pinned together on one core, as on a node whose cores are all taken. Bare
and profiled runs alternate (bare, A, bare, B, bare, ...), and each profiled run is divided by the
mean of its two bare neighbours, so that slow changes of the machine affect all alike. Printed, as Markdown:

  program  elapsed, from the program's own first line to its last: what a long job pays
  cpu      CPU time of everything that was started (program, launcher, collector): less noisy
  whole    elapsed as the shell sees it, with start, shard and summary: what a short run pays as well

medians over the pairs, and the lowest and highest `program`. "empty handler" is the machine's own
floor: the same timers, and a handler that does nothing (bench/empty_handler.c). It never stops the timer of a
thread that is blocked, so 64 threads at 1000 Hz ask for more signals than a core can deliver: not run.

    bench/overhead.py [--build DIR] [--pairs N] [--rates 100,1000,10000] [--length N] [--only NAME,...]
                      [--peers] [--event default;EVENT,...] [--cpu N|all] [--raw FILE]

With --event, runs with counters are divided by their two neighbours with -e none instead.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"


def programs(folder, length):
    stencil = os.path.join(folder, "stencil")
    subprocess.run(["gcc", "-O2", "-g", f"{TOP}/bench/programs/stencil.c", "-o", stencil], check=True)
    python = {name: [PYTHON, f"{TOP}/bench/programs/{file}.py", length]
              for name, file in (("call-heavy Python", "calls"), ("line-loop Python", "lines"),
                                 ("numpy", "arrays"), ("4 Python threads", "threads"),
                                 ("64 blocked threads", "blocked"))}
    return {**python, "C stencil": [stencil, length]}


class Tool:
    def __init__(self, name, before=(), environment=None, python_only=False, every_thread_hz=0, against=None):
        self.name, self.before, self.python_only, self.against = name, list(before), python_only, against
        self.environment, self.every_thread_hz = environment or {}, every_thread_hz

    def command(self, program):
        if self.every_thread_hz >= 1000 and program[1].endswith("blocked.py"):
            return None
        if not self.python_only:
            return [*self.before, *program]
        return None if program[0] != PYTHON else [program[0], *self.before, *program[1:]]


def tools(build, folder, rates, peers, events):
    empty = os.path.join(folder, "empty_handler.so")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"{TOP}/bench/empty_handler.c", "-o", empty], check=True)
    out = os.path.join(folder, "out")
    clusterprof = os.path.join(build, "bin", "clusterprof")
    made = []
    for rate in rates:
        made += [Tool(f"empty handler {rate} Hz", environment={"LD_PRELOAD": empty, "EMPTY_HANDLER_HZ": rate},
                      every_thread_hz=int(rate)),
                 Tool(f"clusterprof {rate} Hz", [clusterprof, "-q", "-r", rate, "-o", out, "--"])]
        for event in events:
            chosen = [] if event == "default" else ["-e", event]
            made += [Tool(f"clusterprof {rate} Hz, {event} events",
                          [clusterprof, "-q", "-r", rate, *chosen, "-o", out, "--"],
                          against=[clusterprof, "-q", "-r", rate, "-e", "none", "-o", out, "--"])]
    if peers:
        made += [Tool("cProfile", ["-m", "cProfile", "-o", out], python_only=True)]
        if subprocess.run([PYTHON, "-c", "import scalene"], capture_output=True).returncode == 0:
            scalene = ["-m", "scalene", "--cli", "--program-path", f"{TOP}/bench/programs", "--outfile", out]
            made += [Tool("Scalene (CPU only)", [*scalene, "--cpu-only"], python_only=True),
                     Tool("Scalene", scalene, python_only=True)]
        if shutil.which("perf"):
            made += [Tool(f"perf record {rate} Hz", ["perf", "record", "-q", "-e", "cpu-clock", "-F", rate, "-g", "-o", out])
                     for rate in rates if int(rate) <= 1000]
    return made, out


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def run(command, environment, folder, cpu):
    def pin():
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, preexec_fn=pin,
                          env=dict(os.environ, OPENBLAS_NUM_THREADS="1", **environment))
    whole_s = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("program_s")]
    if done.returncode != 0 or not own:
        sys.exit(f"{command} failed ({done.returncode}): {done.stdout[-500:]} {done.stderr[-500:]}")
    cpu_s = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return {"program": own[0], "cpu": cpu_s, "whole": whole_s}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rates", default="100,1000,10000")
    parser.add_argument("--length", default="1", help="how many times as long the programs run: their start weighs less")
    parser.add_argument("--only", default="", help="parts of program names")
    parser.add_argument("--peers", action="store_true", help="also cProfile, Scalene and perf, where installed")
    parser.add_argument("--event", default="", help="what counters cost: runs with these events (several: ;), or the "
                        "default ones, against runs with -e none before and after")
    parser.add_argument("--cpu", default="1", help="the core to pin everything on, or all")
    parser.add_argument("--raw", help="write every measurement to this file")
    arguments = parser.parse_args()
    cpu = None if arguments.cpu == "all" else int(arguments.cpu)

    raw = {}
    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        used, out = tools(os.path.abspath(arguments.build), folder, arguments.rates.split(","), arguments.peers,
                          [event for event in arguments.event.split(";") if event])
        print(f"{platform.node()}, Linux {platform.release()}, {os.cpu_count()} cores, "
              f"{'pinned on core ' + str(cpu) if cpu is not None else 'not pinned'}, {arguments.pairs} pairs, length {arguments.length}, "
              f"{time.strftime('%Y-%m-%d')}\n")
        print("| program | under | program | min – max | cpu | whole |\n|---|---|---|---|---|---|")
        for name, program in programs(folder, arguments.length).items():
            if arguments.only and not any(part in name for part in arguments.only.split(",")):
                continue
            bare = [run(program, {}, folder, cpu)]  # warms file caches
            bare = [run(program, {}, folder, cpu)]
            ratios = {}
            for _ in range(arguments.pairs):
                for tool in used:
                    command = tool.command(program)
                    if command is None:
                        continue
                    if tool.against:
                        without = [run([*tool.against, *program], {}, folder, cpu)]
                        remove(out)
                    measured = run(command, tool.environment, folder, cpu)
                    remove(out)
                    if tool.against:
                        without.append(run([*tool.against, *program], {}, folder, cpu))
                        remove(out)
                        ratios.setdefault(tool.name + " / -e none", []).append(
                            {key: measured[key] / ((without[0][key] + without[1][key]) / 2) for key in measured})
                        continue
                    bare.append(run(program, {}, folder, cpu))
                    ratios.setdefault(tool.name, []).append(
                        {key: measured[key] / ((bare[-2][key] + bare[-1][key]) / 2) for key in measured})
            for tool, pairs in ratios.items():
                column = {key: [pair[key] for pair in pairs] for key in pairs[0]}
                middle = {key: statistics.median(values) for key, values in column.items()}
                print(f"| {name} | {tool} | {middle['program']:.4f} | {min(column['program']):.3f} – "
                      f"{max(column['program']):.3f} | {middle['cpu']:.4f} | {middle['whole']:.4f} |", flush=True)
            raw[name] = {"bare": bare, "ratios": ratios}
    if arguments.raw:
        with open(arguments.raw, "w") as file:
            json.dump(raw, file, indent=1)


if __name__ == "__main__":
    main()
