#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `clusterprof scale` says of programs whose laws are known, and of runs that it was not given.

    bench/scale.py [--build DIR] [--repeat N]

Runs tests/truth/programs/scaling.c with Open MPI on 1, 2, 4 and 8 ranks, N times each (`clusterprof run --repeat`), and prints for each
function and for the barrier: a rank's time by the program itself and by the report, the law that was found, with the exponents that the
measurements allow, and whether the exponent is within a quarter of the true one, and the true one within those. Then the program is
really run on 16 ranks: is its elapsed time between the limits that were predicted for it? With three sizes instead of four nothing may
be predicted.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile

from commands import let_root_use_open_mpi, output_of
from mpi_call import TOP
from whatif import launcher

SIZES = (1, 2, 4, 8)
LARGER = 16
# A logarithm and a constant have the exponent 0.
LAWS = {"shrinking": ("1.6 / p", -1), "constant": ("0.4", 0), "linear": ("0.1 p", 1), "logarithmic": ("0.1 (1 + log2 p)", 0),
        "steep": ("0.02 p^1.5", 1.5), "MPI_Barrier": ("0.05 (p - 1)", 1)}


class Runs:
    """The program on several numbers of ranks: the names of the runs, and what the program says of each."""

    def __init__(self, build, folder, repeat):
        self.clusterprof = os.path.join(build, "bin", "clusterprof")
        self.program = os.path.join(build, "programs", "openmpi", "scaling")
        self.folder, self.repeat = folder, repeat
        self.names, self.said = {}, {}

    def make(self, ranks):
        name = os.path.join(self.folder, f"ranks-{ranks}")
        said = output_of([self.clusterprof, "run", "-q", "-r", "500", "--repeat", str(self.repeat), "-o", name, "--",
                          *launcher("openmpi", ranks), self.program, "more"])
        self.said[ranks] = [json.loads(line) for line in said.splitlines()]
        self.names[ranks] = [f"{name}-{i}" for i in range(1, self.repeat + 1)] if self.repeat > 1 else [name]

    def scale(self, sizes, *options):
        return json.loads(output_of([self.clusterprof, "scale", "--json", *options, *(name for p in sizes for name in self.names[p])]))

    def own_s(self, ranks, what):
        return statistics.mean(said[what] for said in self.said[ranks])

    def elapsed_s(self, ranks):
        return statistics.median(json.loads(output_of([self.clusterprof, "report", "--json", name]))["run"]["elapsed_s"]
                                 for name in self.names[ranks])


def row_of(result, what):
    """Of the barrier it is the call site with most time: the other one only lets all begin together."""
    table = [row for row in result["calls" if what.startswith("MPI_") else "functions"] if row["name"] == what]
    return max(table, key=lambda row: row["rank_time_s"][str(SIZES[-1])])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    let_root_use_open_mpi()
    folder = tempfile.mkdtemp(prefix="clusterprof-scale-")
    try:
        runs = Runs(options.build, folder, options.repeat)
        for ranks in SIZES:
            runs.make(ranks)
        result = runs.scale(SIZES, "--at", str(LARGER))
        print(f"{result['mode']} scaling, work grows as p^{result['work_exponent']:.2f}\n")
        print(f"| | law | program at {SIZES[0]} and {SIZES[-1]} (s) | report | found | exponents | within 1/4 | within these |")
        print("|---|---|---|---|---|---|---|---|")
        for what, (text, exponent) in LAWS.items():
            row = row_of(result, what)
            own, seen = (", ".join(f"{time(p):.3f}" for p in (SIZES[0], SIZES[-1]))
                         for time in (lambda p: runs.own_s(p, what), lambda p: row["rank_time_s"][str(p)]))
            law = row["law"]
            if law is None:
                print(f"| {what} | {text} | {own} | {seen} | none: {row['refused']} | | NO | NO |")
                continue
            found = f"{law['constant']:.3f} + {law['coefficient']:.3f} {law['term']}, a = {law['exponent']:.2f}"
            low, high = law["ci"]
            print(f"| {what} | {text} | {own} | {seen} | {found} | {low:.2f} to {high:.2f} | "
                  f"{'yes' if abs(law['exponent'] - exponent) <= 0.25 else 'NO'} | {'yes' if low <= exponent <= high else 'NO'} |")
        few = runs.scale(SIZES[:3])
        print(f"\nthree sizes: predictions {len(few['predictions'])}, refused: {few['refused']}")
        predicted = next(row for row in result["predictions"] if row["p"] == LARGER)
        runs.make(LARGER)
        real = runs.elapsed_s(LARGER)
        inside = predicted["low_s"] <= real <= predicted["high_s"]
        print(f"{LARGER} ranks: predicted {predicted['elapsed_s']:.2f} s ({predicted['low_s']:.2f} to {predicted['high_s']:.2f}), "
              f"really {real:.2f} s: {'yes' if inside else 'NO'}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
