#!/usr/bin/env python3
"""Measures how exact the profiles are: runs the truth suite (tests/truth) in full length on every CPython of this machine
and prints the tables of docs/accuracy.md. They contain the figures of every run, including runs that were outside their
tolerance and were repeated.

    bench/accuracy.py [--build DIR] [--python VERSION,...] [--only shares,threads,parts,stacks,waits]
                      [--seconds S] [--stack-seconds S] [--rate HZ] [--figures FILE]

Takes about 45 minutes with all of it: 10 s for each scenario, and 110 s at 10 kHz for each of the two
programs whose call paths are checked one by one. Exit status 1 when a tolerance was exceeded.
"""

import argparse
import collections
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TESTS = ("shares", "threads", "parts", "stacks", "waits")
SCENARIOS = 7  # of programs/shares.py, which take turns


def run(test, arguments, figures):
    """Runs a module of the truth suite. Returns whether it passed, and its last line on how many runs that took."""
    seconds = {"shares": SCENARIOS * arguments.seconds, "stacks": arguments.stack_seconds}.get(test, arguments.seconds)
    environment = dict(os.environ, PYTHONPATH=f"{TOP}/tests/support", CLUSTERPROF_TEST_SOURCE=TOP,
                       CLUSTERPROF_TEST_BUILD=os.path.abspath(arguments.build), CLUSTERPROF_TRUTH_FIGURES=figures,
                       CLUSTERPROF_TRUTH_SECONDS=str(seconds), CLUSTERPROF_TRUTH_RATE=str(arguments.rate),
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if arguments.python:
        environment["CLUSTERPROF_TRUTH_PYTHONS"] = arguments.python
    done = subprocess.run(["/usr/bin/python3", "-B", f"{TOP}/tests/truth/{test}_test.py"], env=environment,
                          capture_output=True, text=True)
    if done.returncode not in (0, 77):
        print(done.stderr, file=sys.stderr)
    said = [line for line in done.stdout.splitlines() if line.startswith("measured: ")]
    return done.returncode in (0, 77), "\n".join(said)


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown CPU")
    return (f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, {time.strftime('%Y-%m-%d', time.gmtime())}, "
            f"load {os.getloadavg()[0]:.1f} before")


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def version_key(version):
    return (0,) if version in ("C", "system") else (1, *(int(part) for part in version.split(".")))


def errors(figures):
    """One row per comparison: the error in points of every run, in bold where it is more than the tolerance."""
    versions = sorted({figure["python"] for figure in figures}, key=version_key)
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    for figure in figures:
        if "tolerance" in figure:
            rows[figure["what"]][figure["python"]].append(figure)
    body = []
    for what, row in rows.items():
        cells = []
        for version in versions:
            if version not in row:
                cells.append("")
                continue
            texts = []
            for figure in row[version]:
                error = figure["seen"] - figure["expected"]
                text = f"{100 * error:+.1f}"
                texts.append(text if abs(error) <= figure["tolerance"] else f"**{text}**")
            cells.append(" / ".join(texts))
        everything = [figure for of_version in row.values() for figure in of_version]
        body.append([what, f"{100 * sum(figure['expected'] for figure in everything) / len(everything):.0f} %",
                     f"{100 * max(figure['tolerance'] for figure in everything):.1f}", *cells])
    table(["", "by the program", "tolerance", *versions], body)
    for version in versions:
        found = [figure for figure in figures if figure["python"] == version and "tolerance" not in figure]
        for figure in found:
            print(f"{version}: {figure['what']} {figure['seen']:.3f}", end="; ")
    print()


def stacks(figures):
    body = []
    for figure in sorted(figures, key=lambda figure: (figure["what"], version_key(figure["python"]), figure["attempt"])):
        body.append([figure["what"], figure["python"], f"{figure['samples']:,}", str(figure["impossible"]),
                     f"{100 * figure['merged']:.3f} %", f"{100 * figure['cut']:.3f} %", str(figure["dropped"]),
                     f"{figure['rate_hz']:.0f}"])
    table(["program", "Python", "samples", "impossible", "joined", "cut", "dropped", "Hz reached"], body)


def waits(figures):
    """One row per run of a recorded program: how long its ranks waited for each other, and the sums that were compared."""
    scenarios = collections.defaultdict(list)
    for figure in figures:
        if "scenario" in figure:
            again = f", run {figure['attempt']}" if figure["attempt"] > 1 else ""
            scenarios[figure["scenario"] + again].append(figure)
    body = []
    for scenario, compared in sorted(scenarios.items()):
        ranks = [figure for figure in compared if figure["what"].startswith("rank ")]
        waited, seen = (sum(figure[key] for figure in ranks) for key in ("expected", "seen"))
        off = [figure["seen"] - figure["expected"] for figure in compared]
        used = max(abs(error) / figure["tolerance"] for error, figure in zip(off, compared))
        body.append([scenario, f"{waited:.3f} s", f"{100 * (seen / waited - 1):+.2f} %", str(len(compared)),
                     f"{1000 * max(map(abs, off)):.1f} ms", f"{100 * used:.0f} %"])
    table(["program", "waited", "error", "sums", "largest error", "of its tolerance"], body)
    shares = collections.defaultdict(list)
    for figure in figures:
        if "python" in figure:
            shares[figure["what"].partition(" (")[0].partition(":")[0].partition(" of rank ")[0]].append(figure)
    table(["share", "compared", "largest error", "tolerance"],
          [[what, str(len(compared)),
            f"{100 * max((figure['seen'] - figure['expected'] for figure in compared), key=abs):+.1f}",
            f"{100 * max(figure['tolerance'] for figure in compared):.0f}"] for what, compared in shares.items()])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--python", default="", help="versions as ctest shows them (3.8.18,system); all by default")
    parser.add_argument("--only", default=",".join(TESTS))
    parser.add_argument("--seconds", type=float, default=10, help="for each scenario")
    parser.add_argument("--stack-seconds", type=float, default=110)
    parser.add_argument("--rate", type=int, default=10000, help="of the programs whose call paths are checked")
    parser.add_argument("--figures", help="keeps all comparisons in this file, as lines of JSON")
    arguments = parser.parse_args()
    print(f"`{shlex.join([os.path.relpath(sys.argv[0], TOP), *sys.argv[1:]])}` on {machine()}\n")

    good = True
    for test in TESTS:
        if test not in arguments.only.split(","):
            continue
        with tempfile.NamedTemporaryFile("r") as file:
            passed, said = run(test, arguments, file.name)
            good = passed and good
            lines = file.readlines()
        if arguments.figures:
            with open(arguments.figures, "a") as kept:
                kept.writelines(lines)
        figures = [json.loads(line) for line in lines]
        print(f"### {test}\n")
        if figures:
            {"stacks": stacks, "waits": waits}.get(test, errors)(figures)
        print(f"{said}\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
