"""A program does one thing in the first half of its time and another in the second, then starts a process that does
a third one, and says since when. Table path_series of the shard says so to a bin, read as FORMATS.md shows it, and the sum of all rows
is that of `values`."""

import glob
import os
import re

import recording

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

PROGRAM = '''
import os, subprocess, sys, time

def work_until(end):
    total = 0
    while time.time() < end:
        total += sum(range(100))

def first(end): work_until(end)
def second(end): work_until(end)
def third(end): work_until(end)

if len(sys.argv) > 1:
    begin = time.time()
    third(begin + 1)
    print(begin)
    sys.exit()
begin = time.time()
first(begin + 1.5)
second(begin + 3)
subprocess.run([sys.executable, sys.argv[0], "third"], check=True)
print(begin)
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
        third, begin = map(float, done.stdout.split())
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
        bin_of = lambda seconds: int((begin + seconds - origin_s) / width_s)
        for name, (since, until) in {"first": (0, 1.5), "second": (1.5, 3),
                                      "third": (third - begin, third - begin + 1)}.items():
            # CPU time that no sample saw is the last one's: some milliseconds may come later.
            elsewhere = np.delete(spent[name], slice(max(bin_of(since) - 1, 0), bin_of(until) + 2))
            self.measured_below(elsewhere.sum(), 0.05, f"{name} elsewhere")
            if name != "third":  # a process of its own, which is seen once it has been sampled
                self.measured_near(spent[name].sum(), until - since, 0.1, name)
                for bin in range(bin_of(since) + 2, bin_of(until) - 1):
                    self.measured_near(spent[name][bin], width_s, 0.1 * width_s, f"{name} in bin {bin}")
        self.measured_above(spent["third"].sum(), 0.5, "third")


if __name__ == "__main__":
    recording.main()
