"""A program that spends known times in Python, in native code, asleep and in file input and output
says how long each took by its own clock; the categories of its main thread must agree."""

import os

import recording

PROGRAM = '''
import os, time, zlib

clock = time.perf_counter
spent = dict(python=0.0, native=0.0, idle=0.0)
block = os.urandom(1 << 20)

def python_part():
    total = 0
    for i in range(400000):
        total += i & 3
    return total

def native_part():
    return zlib.compress(block, 6)

def idle_part():
    time.sleep(0.05)

begin = clock()
while clock() - begin < 6:
    for name, part in (("python", python_part), ("native", native_part), ("idle", idle_part)):
        before = clock()
        part()
        spent[name] += clock() - before
print(*(f"{name} {seconds}" for name, seconds in spent.items()))
'''


class Categories(recording.RecordingTest):
    def test_known_split(self):
        path = os.path.join(self.directory, "parts.py")
        with open(path, "w") as file:
            file.write(PROGRAM)
        done = self.record([recording.PYTHON, path])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        words = done.stdout.decode().split()
        own = {name: float(seconds) for name, seconds in zip(words[::2], words[1::2])}
        report = self.report()
        rank = report["ranks"][0]
        total = sum(own.values())
        for name, seconds in own.items():
            self.assertAlmostEqual(rank[f"{name}_s"] / rank["elapsed_s"], seconds / total, delta=0.04, msg=name)
        parts = sum(rank[f"{name}_s"] for name in ("python", "native", "system", "mpi", "io", "idle"))
        self.assertAlmostEqual(parts, rank["elapsed_s"], delta=0.011)
        # The same by line: the sleep is where the program sleeps.
        sleep = [line for line in report["lines"] if line["function"] == "idle_part"]
        self.assertAlmostEqual(sum(line["idle_s"] for line in sleep), own["idle"], delta=0.05 * total)


if __name__ == "__main__":
    recording.main()
