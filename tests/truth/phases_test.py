"""A program does one thing in the first half of its time and another in the second, then starts a process that does
a third one, and says when each began and ended, and when it did not run in between. Table path_series of the shard says so to a bin, read as FORMATS.md shows it, and the sum of all rows
is that of `values`."""

import glob
import json
import os
import re

import recording

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

PROGRAM = '''
import json, os, subprocess, sys, time

pauses = []

def work_until(end):
    total, last = 0, time.time()
    while last < end:
        total += sum(range(100))
        now = time.time()
        if now - last > 0.02:
            pauses.append((last, now))
        last = now

def first(end): work_until(end)
def second(end): work_until(end)
def third(end): work_until(end)

if len(sys.argv) > 1:
    begin = time.time()
    third(begin + 1)
    print(json.dumps([begin, time.time()]))
    sys.exit()
begin = time.time()
first(begin + 1.5)
middle = time.time()
second(middle + 1.5)
end = time.time()
subprocess.run([sys.executable, sys.argv[0], "third"], check=True)
print(json.dumps({"first": [begin, middle], "second": [middle, end], "pauses": pauses}))
'''


def example():
    with open(os.path.join(recording.SOURCE, "formats", "FORMATS.md"), encoding="utf-8") as file:
        document = file.read()
    strings = re.search(r"\ndef strings\(.*?\n\n", document, re.DOTALL).group()
    over_time = document.partition("\nIn which functions the node was when")[2]
    return strings, re.search(r"```python\n(.*?)```", over_time, re.DOTALL).group(1)


class Phases(recording.RecordingTest):
    def test_two_functions_one_after_the_other(self):
        if h5py is None:
            self.skipTest("h5py is not here")
        path = os.path.join(self.directory, "phases.py")
        with open(path, "w") as file:
            file.write(PROGRAM)
        done = self.record([recording.PYTHON, path])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        third, own = map(json.loads, done.stdout.splitlines())
        own["third"] = third
        shards = glob.glob(os.path.join(self.directory, "run", "node-*.h5"))
        self.assertEqual(len(shards), 1)
        with h5py.File(shards[0]) as file:
            scope = {"file": file, "np": np}
            strings, over_time = example()
            exec(strings, scope)
            text = scope["text"] = scope["strings"](file["strings"], "text")
            exec(over_time, scope)
            width_s = file["path_axis"].attrs["bin_ns"] / 1e9
            origin_s = file["path_axis"].attrs["origin_utc_ns"] / 1e9
            self.assertEqual(int(file["path_series/wall_ns"][:].sum()), int(file["values/wall_ns"][:].sum()))
            parent, frame = file["paths/parent"][:], file["paths/frame"][:]
            names = file["frames/name"][:]
            rows = list(zip(file["path_series/path"][:], file["path_series/bin"][:], file["path_series/wall_ns"][:]))
        self.assertLessEqual(len({bin for _, bin, _ in rows}), 64)
        self.assertEqual(int(scope["over_time_ns"].sum()), sum(int(ns) for _, _, ns in rows))
        # What is below a function is its time too.
        spent = {name: np.zeros(64) for name in ("first", "second", "third")}
        for path, bin, ns in rows:
            above = set()
            while path != 0:
                above.add(text[names[frame[path]]])
                path = parent[path]
            for name in above & spent.keys():
                spent[name][bin] += ns / 1e9
        bin_of = lambda at_s: int((at_s - origin_s) / width_s)
        paused = {bin for since, until in own["pauses"] for bin in range(bin_of(since) - 1, bin_of(until) + 2)}
        for name in spent:
            since, until = own[name]
            # CPU time that no sample saw is the last one's: some milliseconds may come later.
            elsewhere = np.delete(spent[name], slice(max(bin_of(since) - 1, 0), bin_of(until) + 2))
            self.measured_below(elsewhere.sum(), 0.05, f"{name} elsewhere")
            if name != "third":  # a process of its own, which is seen once it has been sampled
                self.measured_near(spent[name].sum(), until - since, 0.1, name)
                # A thread that lacks its processor is not sampled, and nobody knows since when.
                inside = range(bin_of(since) + 2, bin_of(until) - 1)
                known = set(inside) - paused
                self.measured_above(len(known) + 1, 0.3 * len(inside), f"{name}: bins without a pause of the machine")
                for bin in sorted(known):
                    self.measured_near(spent[name][bin], width_s, 0.1 * width_s, f"{name} in bin {bin}")
        self.measured_above(spent["third"].sum(), 0.5, "third")


if __name__ == "__main__":
    recording.main()
