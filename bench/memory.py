#!/usr/bin/env python3
"""Measures what --memory costs, beside other profilers of memory.

Two tables, as Markdown. The first has the nanoseconds of a malloc and a free, and of a memcpy, with each allocator that is
here: the least of 301 batches of 10,000 (bench/memory_calls.c), bare, without and with --memory, and with jemalloc's own
profiler; the median over pairs of runs that alternate. The second has whole programs as in bench/overhead.py: elapsed time from the
program's own first line to its last, divided by the mean of its two bare neighbours; all on one core.

  json, dicts, objects   Python that makes and drops objects all the time (bench/programs/churn.py): close to the worst case
  numpy                  bench/programs/arrays.py
  C, 8 % in malloc       bench/programs/records.c

    bench/memory.py [--build DIR] [--pairs N] [--length N] [--only NAME,...] [--intervals BYTES,...] [--calls-only|--programs-only]
                    [--peers] [--cpu N]
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import overhead

TOP = overhead.TOP
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ALLOCATORS = {"glibc": None, "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
              "mimalloc": "libmimalloc.so.2"}
CALLS = ("pair64", "pairs10k", "copy16", "copy64", "copy255", "copy4096")
JEMALLOC_PROFILER = "prof:true,prof_active:true,lg_prof_sample:16,prof_final:false"


def call_ns(program, name, before, environment, folder, cpu):
    done = subprocess.run([*before, program, name], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, **environment}, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    if done.returncode != 0:
        sys.exit(f"{before} {name} failed ({done.returncode}): {done.stderr[-500:]}")
    return float(done.stdout.split()[0])


def has_profiler(library):
    """Debian's jemalloc may be built without it, and then says so."""
    done = subprocess.run(["/bin/true"], env={**os.environ, "LD_PRELOAD": library, "MALLOC_CONF": JEMALLOC_PROFILER},
                          capture_output=True, text=True)
    return "Invalid" not in done.stderr


def measure_calls(tool, folder, arguments, out):
    program = os.path.join(folder, "memory_calls")
    subprocess.run(["gcc", "-O2", "-fno-builtin", f"{TOP}/bench/memory_calls.c", "-o", program], check=True)
    print("| ns, the least | allocator | bare | recorded + | with --memory + | jemalloc's profiler + |\n|---|---|---|---|---|---|")
    for name in CALLS:
        for allocator, file in ALLOCATORS.items():
            library = os.path.join(LIBRARIES, file) if file else None
            if library and (name.startswith("copy") or not os.path.exists(library)):
                continue
            environment = {"LD_PRELOAD": library} if library else {}
            under = {"recorded": [tool, "-q", "-o", out], "memory": [tool, "-q", "--memory", "-o", out]}
            columns = {"bare": [], **{key: [] for key in under}, "prof": []}
            for _ in range(arguments.pairs):
                columns["bare"].append(call_ns(program, name, [], environment, folder, arguments.cpu))
                for key, before in under.items():
                    columns[key].append(call_ns(program, name, before, environment, folder, arguments.cpu) - columns["bare"][-1])
                    overhead.remove(out)
                if allocator == "jemalloc" and has_profiler(library):
                    columns["prof"].append(call_ns(program, name, [], {**environment, "MALLOC_CONF": JEMALLOC_PROFILER}, folder,
                                                   arguments.cpu) - columns["bare"][-1])
            cells = [f"{statistics.median(values):.2f}" if values else "" for values in columns.values()]
            print(f"| {name} | {allocator} | {' | '.join(cells)} |", flush=True)
    print()


def programs(folder, length):
    records = os.path.join(folder, "records")
    subprocess.run(["gcc", "-O2", "-g", f"{TOP}/bench/programs/records.c", "-o", records], check=True)
    churn = f"{TOP}/bench/programs/churn.py"
    return {**{kind: [overhead.PYTHON, churn, kind, length] for kind in ("json", "dicts", "objects")},
            "numpy": [overhead.PYTHON, f"{TOP}/bench/programs/arrays.py", length], "C, 8 % in malloc": [records, length]}


def tools(tool, arguments, out):
    made = [overhead.Tool("clusterprof", [tool, "-q", "-o", out, "--"])]
    made += [overhead.Tool(f"clusterprof --memory={interval}", [tool, "-q", f"--memory={interval}", "-o", out, "--"])
             for interval in arguments.intervals.split(",")]
    if arguments.peers:
        made.append(overhead.Tool("tracemalloc", ["-X", "tracemalloc"], python_only=True))
        if shutil.which("heaptrack"):
            made.append(overhead.Tool("heaptrack", ["heaptrack", "--record-only", "-o", out]))
        if subprocess.run([overhead.PYTHON, "-c", "import scalene"], capture_output=True).returncode == 0:
            made.append(overhead.Tool("Scalene", ["-m", "scalene", "--cli", "--program-path", f"{TOP}/bench/programs", "--outfile", out],
                                      python_only=True))
        if subprocess.run([overhead.PYTHON, "-c", "import memray"], capture_output=True).returncode == 0:
            made.append(overhead.Tool("memray", ["-m", "memray", "run", "-q", "-f", "-o", out], python_only=True))
        jemalloc = os.path.join(LIBRARIES, ALLOCATORS["jemalloc"])
        if os.path.exists(jemalloc):
            made.append(overhead.Tool("jemalloc alone", environment={"LD_PRELOAD": jemalloc}))
            if has_profiler(jemalloc):
                made.append(overhead.Tool("jemalloc's profiler", environment={"LD_PRELOAD": jemalloc, "MALLOC_CONF": JEMALLOC_PROFILER}))
    return made


def remove_all(out):
    """heaptrack appends a suffix."""
    for path in os.listdir(os.path.dirname(out)):
        if path.startswith(os.path.basename(out)):
            overhead.remove(os.path.join(os.path.dirname(out), path))


def measure_programs(tool, folder, arguments, out):
    used = tools(tool, arguments, out)
    print("| program | under | program | min – max | cpu |\n|---|---|---|---|---|")
    for name, program in programs(folder, arguments.length).items():
        if arguments.only and not any(part in name for part in arguments.only.split(",")):
            continue
        overhead.run(program, {}, folder, arguments.cpu)  # warms file caches
        bare = [overhead.run(program, {}, folder, arguments.cpu)]
        ratios = {}
        for _ in range(arguments.pairs):
            for of in used:
                command = of.command(program)
                if command is None:
                    continue
                measured = overhead.run(command, of.environment, folder, arguments.cpu)
                remove_all(out)
                bare.append(overhead.run(program, {}, folder, arguments.cpu))
                ratios.setdefault(of.name, []).append(
                    {key: measured[key] / ((bare[-2][key] + bare[-1][key]) / 2) for key in ("program", "cpu")})
        for of, pairs in ratios.items():
            column = {key: [pair[key] for pair in pairs] for key in pairs[0]}
            print(f"| {name} | {of} | {statistics.median(column['program']):.4f} | {min(column['program']):.3f} – "
                  f"{max(column['program']):.3f} | {statistics.median(column['cpu']):.4f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--length", default="1", help="how many times as long the programs run")
    parser.add_argument("--only", default="", help="parts of program names")
    parser.add_argument("--intervals", default="512K,64K,16K")
    parser.add_argument("--calls-only", action="store_true")
    parser.add_argument("--programs-only", action="store_true")
    parser.add_argument("--peers", action="store_true", help="also tracemalloc, heaptrack, Scalene, memray and jemalloc, where installed")
    parser.add_argument("--cpu", type=int, default=1, help="the core to pin everything on")
    arguments = parser.parse_args()
    tool = os.path.join(os.path.abspath(arguments.build), "bin", "clusterprof")
    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        out = os.path.join(folder, "out")
        print(f"{platform.node()}, Linux {platform.release()}, {os.cpu_count()} cores, pinned on core {arguments.cpu}, "
              f"{arguments.pairs} pairs, length {arguments.length}, {time.strftime('%Y-%m-%d')}\n")
        if not arguments.programs_only:
            measure_calls(tool, folder, arguments, out)
        if not arguments.calls_only:
            measure_programs(tool, folder, arguments, out)


if __name__ == "__main__":
    main()
