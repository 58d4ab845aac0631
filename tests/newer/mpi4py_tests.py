# SPDX-License-Identifier: BSD-3-Clause
"""Runs mpi4py's own tests without clusterprof and recorded, and compares the outcome of every single one.

    mpi4py_tests.py SOURCES CLUSTERPROF RESULTS FLAVOUR[:PATH]...

FLAVOUR is openmpi or mpich; PATH has the mpi4py that was built for it, if it is not the one of the system. RESULTS is
written as ctest --output-junit does. Exit status: 0 all alike, 1 not."""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi4py_rank.py")
LIMIT_S = 1800
# Those that start processes apart: where that hangs, the others have ended.
GROUPS = {"others": ["-e", "spawn|dynproc"], "spawned": ["-i", "spawn|dynproc"]}
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"],
             "mpich": ["mpirun.mpich"]}


def run(before, flavour, path, ranks, group, folder, sources):
    """{test: its outcome by rank}, and how the job ended."""
    results = os.path.join(folder, "outcomes")
    command = [*LAUNCHERS[flavour], "-n", str(ranks), *before, "/usr/bin/python3", RANK, os.path.join(sources, "test"), results,
               *GROUPS[group]]
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
    with open(os.path.join(folder, "output"), "w+b") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            end = f"exit status {process.wait(LIMIT_S)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            end = f"no end within {LIMIT_S} s"
        output.seek(0)
        print(" ".join(command), end, output.read().decode(errors="replace"), sep="\n", flush=True)
    outcomes = {}
    for rank in range(ranks):
        try:
            with open(f"{results}.{rank}", encoding="utf-8") as file:
                for test, outcome in json.load(file).items():
                    outcomes.setdefault(test, {})[rank] = outcome
        except FileNotFoundError:
            continue  # the end of the job says so
    return outcomes, end


def compared(name, bare, recorded, suite):
    """Adds a test case; returns whether both are the same."""
    case = xml.etree.ElementTree.SubElement(suite, "testcase", name=name, status="run" if bare == recorded else "fail")
    if bare != recorded:
        xml.etree.ElementTree.SubElement(case, "failure")
    elif bare and set(bare.values()) == {"skipped"}:
        xml.etree.ElementTree.SubElement(case, "skipped")
    xml.etree.ElementTree.SubElement(case, "system-out").text = f"without: {bare}; recorded: {recorded}"
    return bare == recorded


def main():
    sources, clusterprof, results, *flavours = sys.argv[1:]
    suite = xml.etree.ElementTree.Element("testsuite", name="mpi4py")
    alike, samples = True, 0
    for flavour, _, path in (word.partition(":") for word in flavours):
        for ranks in (1, 2):
            for group in GROUPS:
                with tempfile.TemporaryDirectory(prefix="clusterprof-mpi4py-") as folder:
                    bare, bare_end = run([], flavour, path, ranks, group, folder, sources)
                    for rank in range(ranks):
                        if os.path.exists(os.path.join(folder, f"outcomes.{rank}")):
                            os.unlink(os.path.join(folder, f"outcomes.{rank}"))
                    recorded, end = run([clusterprof, "-q", "-o", "run", "--"], flavour, path, ranks, group, folder, sources)
                    report = subprocess.run([clusterprof, "report", "--json", "run"], cwd=folder, capture_output=True)
                    samples += json.loads(report.stdout)["run"]["samples"] if report.returncode == 0 else 0
                job = compared(f"{flavour}, {ranks} ranks, {group}: the job", {"end": bare_end}, {"end": end}, suite)
                tests = [compared(f"{flavour}, {ranks} ranks: {test}", bare.get(test, {}), recorded.get(test, {}), suite)
                         for test in sorted(bare.keys() | recorded.keys())]
                alike = alike and job and all(tests)
    xml.etree.ElementTree.ElementTree(suite).write(results)
    if samples == 0:
        print("nothing was recorded")
        return 1
    return 0 if alike else 1


if __name__ == "__main__":
    sys.exit(main())
