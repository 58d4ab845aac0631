#!/usr/bin/env python3
"""Measures what merging and reporting large runs costs, and how that grows with the number of ranks.

For every number of nodes, a synthetic run is made (libexec/clusterprof/synth: 64 ranks per node with 2,048 call paths
each, 50,000 in all; each has wall time, CPU time, samples and one counter). These are measured in turn; medians count:

  floor      bench/read_floor: HDF5 reads, checks and decompresses every column of every shard, and nothing else
  merge      clusterprof merge; the old profile is removed first
  merge, 2   mpirun -n 2 clusterprof merge; the profile has to be the same, byte for byte
  report     clusterprof report, as text, as JSON and as a page, from the merged file

Memory is the peak of resident memory; for two processes, the sum and the larger of the two. Exponents come from a least
squares fit of log(time) to log(ranks). All files have been read before, so disks only matter for writing.

    bench/merge.py [--build DIR] [--nodes 16,64,256,1024] [--ranks-per-node N] [--paths N] [--bins N] [--rounds N]
                   [--processes N] [--work DIR] [--raw FILE]
    bench/merge.py --own [--build DIR] [--nodes 64,256] [--work DIR]
    bench/merge.py --length [--build DIR] [--seconds 60,1200] [--scale F]

--rounds: how often each measurement is made; once at least, and less often for runs with more than 100 MB of shards.
--own: merges runs of which each rank has some call paths of its own (synth --paths 2000), and prints the peak of memory.
--length: records examples/train.py for a minute and for twenty at 100 Hz and prints the sizes of its shards; --scale 0.1
makes both ten times as short.
"""

import argparse
import glob
import gzip
import hashlib
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from commands import fail, timed

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"
LARGE_BYTES = 100_000_000
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def merging_processes(launcher):
    """Processes below `launcher` that merge."""
    found, todo = [], [launcher]
    while todo:
        pid = todo.pop()
        try:
            for children in glob.glob(f"/proc/{pid}/task/*/children"):
                with open(children) as file:
                    todo += [int(child) for child in file.read().split()]
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if pid != launcher and b"merge" in words[1:3]:  # merge-openmpi has one argument of ours before it
            found.append(pid)
    return found


def timed_together(command, processes):
    """(seconds, sum of the peaks, largest peak) of the processes that merge. The kernel keeps each one's high-water
    mark; only what it grows by in the last 20 ms of its life is not seen."""
    environment = dict(os.environ, **AS_ROOT)
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    peaks, errors = {}, []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    while process.poll() is None:
        for pid in merging_processes(process.pid):
            try:
                with open(f"/proc/{pid}/status") as file:
                    peak = next((int(line.split()[1]) for line in file if line.startswith("VmHWM:")), 0) * 1024
            except OSError:
                continue
            peaks[pid] = max(peaks.get(pid, 0), peak)
        time.sleep(0.02)
    seconds = time.perf_counter() - begin
    reader.join()
    if process.returncode != 0:
        fail(f"{' '.join(command)}: status {process.returncode}: {errors[0].decode(errors='replace')[-500:]}")
    largest = sorted(peaks.values())[-processes:]  # a launcher in front of each is small
    return seconds, sum(largest), max(largest, default=0)


def checksum(path):
    digest = hashlib.blake2b()
    with open(path, "rb") as file:
        while block := file.read(1 << 24):
            digest.update(block)
    return digest.hexdigest()


def exponent(ranks, values):
    """The exponent b in values = a * ranks^b."""
    if len(ranks) < 2 or any(value is None or value <= 0 for value in values):
        return None
    x, y = [math.log(r) for r in ranks], [math.log(v) for v in values]
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def other_forms(shard):
    """Bytes of the same content as JSON, as JSON through gzip, and uncompressed; None without h5py."""
    done = subprocess.run([PYTHON, __file__, "--forms", shard], capture_output=True, text=True)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else None


def print_other_forms(shard):
    import h5py
    document, plain = {}, 0

    def add(name, item):
        nonlocal plain
        if isinstance(item, h5py.Dataset):
            column = item[()]
            plain += column.nbytes
            if name.endswith("_bytes") and column.dtype.itemsize == 1:
                document[name] = column.tobytes().decode(errors="replace")
            else:
                document[name] = column.tolist()
        document.update({f"{name}.{key}": value.decode(errors="replace") if isinstance(value, bytes) else
                         value.item() if hasattr(value, "item") else value for key, value in item.attrs.items()})

    with h5py.File(shard, "r") as file:
        file.visititems(add)
    text = json.dumps(document, default=str).encode()
    print(len(text), len(gzip.compress(text, 6)), plain)


def seconds_of(value):
    return "–" if value is None else f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def megabytes(value):
    return "–" if value is None else f"{value / 1e6:.0f} MB"


def measure(arguments, tools, nodes, folder):
    run = os.path.join(folder, f"run{nodes}")
    shutil.rmtree(run, ignore_errors=True)
    begin = time.perf_counter()
    subprocess.run([tools["synth"], "--nodes", str(nodes), "--ranks-per-node", str(arguments.ranks_per_node),
                    "--paths", str(arguments.paths), "--bins", str(arguments.bins), "--seed", "1", run], check=True)
    made_s = time.perf_counter() - begin
    shards, profile = sorted(glob.glob(f"{run}/node-*.h5")), os.path.join(run, "profile.h5")
    shard_bytes = sum(map(os.path.getsize, shards))
    rounds = max(1, min(arguments.rounds, int(arguments.rounds * LARGE_BYTES / shard_bytes)))
    merge = [tools["clusterprof"], "merge", run]
    page = os.path.join(run, "page.html")
    together = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", str(arguments.processes), *merge]
    columns = {name: [] for name in ("floor", "merge", "merge_peak", "together", "together_sum", "together_peak", "text",
                                     "text_peak", "json", "html", "html_peak")}
    read = None
    for _ in range(rounds):
        done = subprocess.run([tools["read_floor"], *shards], capture_output=True, text=True, check=True)
        read = done.stdout.split()
        columns["floor"].append(float(read[3]))

        if os.path.exists(profile):
            os.remove(profile)
        seconds, peak = timed(merge)
        columns["merge"].append(seconds)
        columns["merge_peak"].append(peak)
        alone = checksum(profile)

        for name, options in (("text", []), ("json", ["--json"]), ("html", ["--html", page])):
            seconds, peak = timed([tools["clusterprof"], "report", run, *options])
            columns[name].append(seconds)
            if name != "json":
                columns[f"{name}_peak"].append(peak)

        if arguments.processes > 1:
            os.remove(profile)
            seconds, total, peak = timed_together(together, arguments.processes)
            for name, value in (("together", seconds), ("together_sum", total), ("together_peak", peak)):
                columns[name].append(value)
            if checksum(profile) != alone:
                fail(f"{nodes} nodes: the profile that {arguments.processes} processes made is another one")
    result = {name: statistics.median(values) if values else None for name, values in columns.items()}
    ranks = nodes * arguments.ranks_per_node
    result.update(nodes=nodes, ranks=ranks, rounds=rounds, made_s=made_s, shard_bytes=shard_bytes, rows=int(read[1]),
                  plain_bytes=int(read[2]), profile_bytes=os.path.getsize(profile), page_bytes=os.path.getsize(page), raw=columns,
                  forms=other_forms(shards[0]))
    if not arguments.keep:
        shutil.rmtree(run)
    return result


def print_results(arguments, results):
    n = arguments.processes
    print(f"\n| ranks | floor | merge | × floor | peak | merge, {n} processes | × as fast | peaks, sum / largest | "
          "report | peak | report --json | report --html | peak | page |\n" + "|---" * 14 + "|")
    for r in results:
        faster = "–" if r["together"] is None else f"{r['merge'] / r['together']:.2f}"
        print(f"| {r['ranks']} | {seconds_of(r['floor'])} | {seconds_of(r['merge'])} | {r['merge'] / r['floor']:.2f} | "
              f"{megabytes(r['merge_peak'])} | {seconds_of(r['together'])} | {faster} | {megabytes(r['together_sum'])} / "
              f"{megabytes(r['together_peak'])} | {seconds_of(r['text'])} | {megabytes(r['text_peak'])} | "
              f"{seconds_of(r['json'])} | {seconds_of(r['html'])} | {megabytes(r['html_peak'])} | "
              f"{r['page_bytes'] / 1e6:.2f} MB |")
    ranks = [r["ranks"] for r in results]
    exponents = {name: exponent(ranks, [r[name] for r in results])
                 for name in ("floor", "merge", "merge_peak", "together", "together_sum", "together_peak", "text", "text_peak",
                              "json", "html", "html_peak")}
    if len(results) > 1:
        e = {name: "–" if value is None else f"{value:.2f}" for name, value in exponents.items()}
        print(f"| exponent | {e['floor']} | {e['merge']} | | {e['merge_peak']} | {e['together']} | | {e['together_sum']} / "
              f"{e['together_peak']} | {e['text']} | {e['text_peak']} | {e['json']} | {e['html']} | {e['html_peak']} | |")
    print("\n| ranks | shards | profile | uncompressed | JSON | JSON, gzip | measured | run made in |\n"
          "|---|---|---|---|---|---|---|---|")
    for r in results:
        def per_rank(count, of=r["ranks"]):
            return "–" if count is None else f"{count / of / 1000:.1f} kB"
        text, zipped, plain = r["forms"] or (None, None, None)
        of_one = arguments.ranks_per_node  # those are of one shard
        print(f"| {r['ranks']} | {per_rank(r['shard_bytes'])} | {per_rank(r['profile_bytes'])} | {per_rank(plain, of_one)} | "
              f"{per_rank(text, of_one)} | {per_rank(zipped, of_one)} | {r['rounds']} × | {r['made_s']:.0f} s |")
    print("\nSizes are bytes per rank.")


def memory_of_own_paths(arguments, tools, folder):
    """Measures merges of runs in which each rank has call paths that no other rank has."""
    print("| ranks | call paths | merge | peak | profile |\n|---|---|---|---|---|")
    for nodes in map(int, arguments.nodes.split(",")):
        run = os.path.join(folder, f"own{nodes}")
        subprocess.run([tools["synth"], "--nodes", str(nodes), "--ranks-per-node", str(arguments.ranks_per_node),
                        "--paths", "2000", "--bins", str(arguments.bins), "--seed", "1", run], check=True)
        seconds, peak = timed([tools["clusterprof"], "merge", run])
        done = subprocess.run([tools["clusterprof"], "merge", run], check=True, capture_output=True, text=True)
        paths = (done.stdout + done.stderr).partition(" call paths")[0].split()[-1]
        size = os.path.getsize(os.path.join(run, "profile.h5"))
        print(f"| {nodes * arguments.ranks_per_node} | {paths} | {seconds_of(seconds)} | {megabytes(peak)} | "
              f"{size / 1e6:.0f} MB |", flush=True)
        if not arguments.keep:
            shutil.rmtree(run)


def shards_of_training(arguments, tools, folder):
    """Sizes of the shards of examples/train.py, whose steps are first counted."""
    print("| length | samples | shard |\n|---|---|---|")
    command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", "1"]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", **AS_ROOT)
    train = [PYTHON, os.path.join(TOP, "examples", "train.py")]
    spent = []
    for steps in (40, 240):
        begin = time.perf_counter()
        subprocess.run([*command, *train, str(steps)], check=True, stdout=subprocess.DEVNULL, env=environment)
        spent.append(time.perf_counter() - begin)
    step_s = (spent[1] - spent[0]) / 200
    for wanted in map(float, arguments.seconds.split(",")):
        run = os.path.join(folder, f"length{wanted:.0f}")
        steps = max(1, round(wanted * arguments.scale / step_s))
        begin = time.perf_counter()
        subprocess.run([*command, tools["clusterprof"], "-q", "-r", "100", "-o", run, *train, str(steps)], check=True,
                       stdout=subprocess.DEVNULL, env=environment)
        length = time.perf_counter() - begin
        done = subprocess.run([tools["clusterprof"], "report", run, "--json"], check=True, capture_output=True)
        samples = json.loads(done.stdout)["run"]["samples"]
        size = sum(map(os.path.getsize, glob.glob(f"{run}/node-*.h5")))
        print(f"| {length:.0f} s | {samples} | {size / 1000:.1f} kB |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--nodes", help="default: 16,64,256,1024; with --own 64,256")
    parser.add_argument("--ranks-per-node", type=int, default=64)
    parser.add_argument("--paths", type=int, default=50000)
    parser.add_argument("--bins", type=int, default=128, help="of the time series")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2, help="1: only alone")
    parser.add_argument("--work", help="where the runs go; about 40 kB per rank, and as much again for the profile")
    parser.add_argument("--keep", action="store_true", help="keep the runs")
    parser.add_argument("--raw", help="write every measurement to this file")
    parser.add_argument("--length", action="store_true")
    parser.add_argument("--own", action="store_true", help="memory where ranks have call paths of their own")
    parser.add_argument("--seconds", default="60,1200", help="with --length")
    parser.add_argument("--scale", type=float, default=1, help="with --length")
    parser.add_argument("--forms", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.forms:
        print_other_forms(arguments.forms)
        return
    arguments.nodes = arguments.nodes or ("64,256" if arguments.own else "16,64,256,1024")
    build = os.path.abspath(arguments.build)
    tools = {"synth": f"{build}/libexec/clusterprof/synth", "clusterprof": f"{build}/bin/clusterprof",
             "read_floor": f"{build}/bench/read_floor"}
    for tool in tools.values():
        if not os.path.exists(tool) and not (arguments.length and tool.endswith("read_floor")):
            fail(f"{tool} is not there: configure with -DCLUSTERPROF_BUILD_BENCHMARKS=ON and build")

    if arguments.work:
        os.makedirs(arguments.work, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="clusterprof-bench-", dir=arguments.work)
    try:
        print(f"{platform.node()}, Linux {platform.release()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}")
        if arguments.length:
            shards_of_training(arguments, tools, folder)
            return
        if arguments.own:
            memory_of_own_paths(arguments, tools, folder)
            return
        print(f"{arguments.ranks_per_node} ranks per node, {arguments.paths} call paths, {arguments.bins} bins", flush=True)
        results = []
        for nodes in map(int, arguments.nodes.split(",")):
            results.append(measure(arguments, tools, nodes, folder))
            done = {key: value for key, value in results[-1].items() if key not in ("raw", "forms")}
            print(json.dumps(done), file=sys.stderr, flush=True)
            if arguments.raw:
                with open(arguments.raw, "w") as file:
                    json.dump(results, file, indent=1)
        print_results(arguments, results)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
