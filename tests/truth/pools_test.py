"""Threads of a library's pool count for the line of Python that uses the pool, where that is known: compared with what the
pool's threads measure themselves."""

import json
import os
import subprocess

import recording
import truth
from truth import call_paths

PROGRAM = """
import ctypes, json, sys

lib = ctypes.CDLL(sys.argv[1])
lib.pool_start.argtypes = lib.pool_run.argtypes = [ctypes.c_double]
lib.pool_run.restype = lib.pool_wait.restype = ctypes.c_double

def first():
    return lib.pool_run(0.5)

def second():
    return lib.pool_run(0.3)

def aside():
    lib.pool_start(0.4)
    busy = ctypes.c_int.in_dll(lib, "busy")
    while busy.value:
        sum(range(1000))
    return lib.pool_wait()

lib.pool_open()
print(json.dumps({work.__name__: work() for work in (first, second, aside)}))
"""

OPENBLAS = """
import json, resource, time
import numpy as np

a = np.ones((1500, 1500))
a @ a
begin, began = time.thread_time(), time.process_time()

def multiply():
    while time.process_time() < began + 2:
        a @ a

multiply()
with open("/proc/self/maps") as maps:
    library = "openblas" in maps.read()
print(json.dumps({"openblas": library, "others": time.process_time() - began - (time.thread_time() - begin)}))
"""


def of_pool(path):
    return any(frame.name.endswith(" threads]") for frame in path.frames)


class Pools(truth.TruthTest):
    def cpu_of_others(self, run):
        """CPU time of threads but the main one, by the innermost Python function on their call paths; None: there is none."""
        cpu = {}
        for path in call_paths.read(os.path.join(self.directory, run, "profile.h5")):
            if path.main_thread:
                continue
            python = [frame.name for frame in path.frames if frame.kind == call_paths.PYTHON]
            if python:
                self.assertTrue(of_pool(path), path)
            function = python[-1] if python else None
            cpu[function] = cpu.get(function, 0) + path.cpu_s
        return cpu

    def check(self, version, python):
        self.need("cc")
        library = os.path.join(self.directory, "libworkers.so")
        subprocess.run(["cc", "-O1", "-g", "-pthread", "-shared", "-fPIC", os.path.join(truth.PROGRAMS, "workers.c"),
                        "-o", library], check=True)
        run = f"run-{version}"
        done = self.record([python, "-c", PROGRAM, library], run=run)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        told = json.loads(done.stdout)
        self.report(run)
        cpu = self.cpu_of_others(run)
        # At the ends of a call it is not known whether it goes on.
        for function in ("first", "second"):
            self.measured_near(cpu.get(function, 0), told[function], 0.05 + 0.15 * told[function], f"{version}: {function}")
        self.measured_near(cpu.get("aside", 0), 0, 0.05, f"{version}: while no line uses the pool")
        self.measured_near(sum(cpu.values()), sum(told.values()), 0.05 + 0.03 * sum(told.values()), f"{version}: all")

    def test_openblas(self):
        have = subprocess.run([recording.PYTHON, "-c", "import numpy"], capture_output=True)
        if have.returncode != 0:
            self.skipTest("no numpy")
        done = self.record([recording.PYTHON, "-c", OPENBLAS], env={**os.environ, "OPENBLAS_NUM_THREADS": "3"})
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        told = json.loads(done.stdout)
        if not told["openblas"]:
            self.skipTest("numpy without OpenBLAS")
        self.report()
        cpu = self.cpu_of_others("run")
        self.measured_near(cpu.get("multiply", 0), told["others"], 0.05 + 0.15 * told["others"], "below the line")


truth.per_python(Pools, Pools.check)

if __name__ == "__main__":
    recording.main()
