#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Attaches to a program in which many threads allocate memory, and lets it go, again and again.

    bench/attach.py [--build DIR] [--times N] [--threads N] [--mode storm|threads] [--seconds S]

Prints how long the thread that was used was held (median, highest), how often attaching was refused and why, how long it took, and
whether the program's result, its files, handlers, timers, descriptors and masks are what they were after the first time. Its exit
status is 1 if they are not, or if anybody was held for more than 20 ms.
"""

import argparse
import collections
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LONGEST_MS = 20


def status_of(pid, *names):
    with open(f"/proc/{pid}/status") as file:
        return {line.split(":")[0]: line.split()[1] for line in file if line.split(":")[0] in names}


def state_of(pid):
    with open(f"/proc/{pid}/maps") as file:
        lines = [line.split() for line in file]
    mapped = sorted((words[0], words[1], words[5]) for words in lines
                    if len(words) > 5 and words[5].startswith("/") and "libclusterprof_" not in words[5])
    anonymous = sum(len(words) < 6 for words in lines)
    timers = None
    if os.path.exists(f"/proc/{pid}/timers"):  # not in every kernel
        with open(f"/proc/{pid}/timers") as file:
            timers = file.read()
    masks = {tid: status_of(f"{pid}/task/{tid}", "SigBlk")["SigBlk"] for tid in os.listdir(f"/proc/{pid}/task")}
    state = {"files": mapped, "handlers": status_of(pid, "SigCgt", "SigIgn"), "threads": status_of(pid, "Threads"),
             "timers": timers, "descriptors": sorted(os.listdir(f"/proc/{pid}/fd")), "masks": masks}
    return state, anonymous, int(status_of(pid, "VmRSS")["VmRSS"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--mode", choices=("storm", "threads"), default="storm")
    parser.add_argument("--seconds", type=float, default=0, help="how long each recording lasts, besides what it takes")
    arguments = parser.parse_args()
    tool = os.path.join(arguments.build, "bin", "clusterprof")
    folder = tempfile.mkdtemp(prefix="clusterprof-attach-")
    stop = os.path.join(folder, "stop")
    program = subprocess.Popen([os.path.join(arguments.build, "programs", "plain", "attached"), arguments.mode,
                                str(arguments.threads), stop], stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    held, took, refused, wrong = [], [], collections.Counter(), []
    first = None
    for number in range(arguments.times):
        run = os.path.join(folder, f"run-{number}")
        begin = time.monotonic()
        done = subprocess.run([tool, "attach", str(program.pid), "-o", run], capture_output=True, text=True)
        found = re.search(r"held for ([0-9.]+) ms", done.stderr)
        if done.returncode != 0 or not found:
            refused[re.sub(r"\d+", "N", done.stderr.strip())] += 1
            continue
        held.append(float(found.group(1)))
        time.sleep(arguments.seconds)
        done = subprocess.run([tool, "detach", run], capture_output=True, text=True)
        took.append(time.monotonic() - begin)
        if done.returncode != 0:
            wrong.append(f"time {number}: {done.stderr.strip()}")
        shutil.rmtree(run, ignore_errors=True)
        for _ in range(1000):  # our threads end last
            if status_of(program.pid, "Threads")["Threads"] == str(arguments.threads + 1):
                break
            time.sleep(0.01)
        state, anonymous, resident_kb = state_of(program.pid)
        if first is None:
            first = (state, anonymous, resident_kb)
        wrong += [f"time {number}: {what} are not as before" for what in state if state[what] != first[0][what]]
    _, anonymous, resident_kb = state_of(program.pid)
    open(stop, "w").close()
    output, _ = program.communicate()
    shutil.rmtree(folder, ignore_errors=True)
    if held:
        print(f"attached {len(held)} times; the thread was held for {statistics.median(held):.1f} ms (highest {max(held):.1f}); "
              f"attach and detach took {statistics.median(took):.1f} s")
        print(f"anonymous mappings {first[1]} -> {anonymous}, resident {first[2]} -> {resident_kb} kB")
    for text, count in refused.most_common():
        print(f"refused {count} times: {text}")
    for text in wrong[:20]:
        print(text)
    print(f"the program: exit status {program.returncode}, {output.strip()!r}")
    fine = program.returncode == 0 and "ok" in output and not wrong and held and max(held) <= LONGEST_MS
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
