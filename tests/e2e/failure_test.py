# SPDX-License-Identifier: BSD-3-Clause
"""How a program fails, and what is said of it: `failure` in JSON and the first finding. Each program fails at a known line.
Its stderr and its end are the same as without clusterprof."""

import os
import signal
import stat
import subprocess

import recording

C = r"""
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile int zero;
static volatile int *volatile nowhere = (volatile int *)0x10;
static int fall(volatile int depth) {
  volatile char room[4096];
  room[0] = (char)depth;
  return depth < 0 ? 0 : fall(depth + 1) + room[0];
}
static int fail_here(const char *how) {
  if (strcmp(how, "segv") == 0) *nowhere = 1; /* line of segv */
  if (strcmp(how, "fpe") == 0) zero = 7 / zero; /* line of fpe */
  if (strcmp(how, "assert") == 0) assert(zero != 0); /* line of assert */
  if (strcmp(how, "abort") == 0) abort(); /* line of abort */
  if (strcmp(how, "heap") == 0) {
    char *block = malloc(100);
    free(block);
    free(block); /* line of heap */
  }
  if (strcmp(how, "overflow") == 0) return fall(0);
  errno = ENOENT;
  perror("no mesh");
  return atoi(how);
}
int main(int argc, char **argv) {
  fprintf(stderr, "%s: password=%s\n", "begin", "hunter2");
  return argc > 1 ? fail_here(argv[1]) : 0;
}
"""
CPP = r"""
#include <iostream>
#include <stdexcept>
static void fail_here() { throw std::runtime_error("no mesh"); }
int main() { std::cerr << "begin" << std::endl; fail_here(); }
"""
TRAIN = """
import json, sys
def fail(batch):
    if batch == 17:
        raise ValueError(f"bad batch {batch}")  # line of fail
    return batch
def main():
    print("begin", file=sys.stderr)
    for batch in range(100):
        fail(batch)
main()
"""


def line_of(source, what):
    return next(number for number, line in enumerate(source.split("\n"), 1) if f"line of {what}" in line)


class Failure(recording.RecordingTest):
    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def compile(self, compiler, name, text):
        self.need(compiler)
        program = os.path.join(self.directory, name.split(".")[0])
        subprocess.run([compiler, "-g", "-O0", "-w", "-fno-stack-clash-protection", "-o", program, self.write(name, text)], check=True)
        return program

    def failure(self, command, run, options=()):
        """The failure of a program that ends, and says, the same as without clusterprof; and the whole report."""
        bare, recorded = self.bare_and_recorded(command, options=["-q", *options], run=run)
        self.assertEqual(recorded.returncode, bare.returncode, recorded.stderr.decode(errors="replace"))
        self.assertEqual((recorded.stdout, recorded.stderr), (bare.stdout, bare.stderr))
        report = self.report(run)
        found = report["failure"]
        self.assertIsNotNone(found, report["ranks"][0]["exit"])
        self.assertEqual(found["rank"], 0)
        self.assertEqual(report["findings"][0]["kind"], "rank_failed", report["findings"])
        return found, bare.stderr.decode(), report

    def test_c(self):
        program = self.compile("gcc", "solver.c", C)
        seen = "begin: password=***\n"
        for how, number in (("segv", signal.SIGSEGV), ("fpe", signal.SIGFPE), ("assert", signal.SIGABRT), ("abort", signal.SIGABRT),
                            ("heap", signal.SIGABRT)):
            with self.subTest(how):
                found, stderr, report = self.failure([program, how], how)
                self.assertEqual((found["kind"], found["signal"], found["status"]), ("signal", number, None))
                self.assertEqual((found["function"], os.path.basename(found["file"]), found["line"]),
                                 ("fail_here", "solver.c", line_of(C, how)), found["call_path"])
                self.assertTrue(any(frame.startswith("main") for frame in found["call_path"]), found["call_path"])
                self.assertFalse(found["stack_overflow"])
                # glibc's message is on stderr, too.
                self.assertEqual(found["stderr_tail"], stderr.replace("hunter2", "***"))
                if how == "segv":
                    self.assertEqual(found["address"], "0x10")
                    self.assertRegex(found["instruction"], r"^solver\+0x[0-9a-f]+$")
                if how == "assert":
                    self.assertIn("Assertion `zero != 0' failed.", found["message"])
                if how == "heap":
                    self.assertIn("double free", found["message"])
                self.assertIn("fail_here() solver.c", report["findings"][0]["text"])
        with self.subTest("overflow"):
            found, _, report = self.failure([program, "overflow"], "overflow")
            self.assertEqual((found["kind"], found["signal"], found["stack_overflow"]), ("signal", signal.SIGSEGV, True))
            self.assertIn("its stack was used up", report["findings"][0]["text"])
        with self.subTest("exit"):
            found, _, _ = self.failure([program, "5"], "exit")
            self.assertEqual((found["kind"], found["signal"], found["status"]), ("exit", None, 5))
            self.assertEqual(found["stderr_tail"], seen + "no mesh: No such file or directory\n")
        with self.subTest("no stderr"):
            found, _, _ = self.failure([program, "5"], "silent", ["--no-stderr"])
            self.assertIsNone(found["stderr_tail"])
            self.await_last_shard("silent")
            for folder, _, files in os.walk(os.path.join(self.directory, "silent")):
                for path in (os.path.join(folder, name) for name in files):
                    if not os.path.islink(path):
                        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode) & 0o077, 0, path)

    def test_all_is_well(self):
        program = self.compile("gcc", "solver.c", C)
        report = self.recorded([program, "0"])
        self.assertIsNone(report["failure"])

    def test_cpp(self):
        program = self.compile("g++", "mesh.cpp", CPP)
        found, stderr, _ = self.failure([program], "cpp")
        self.assertEqual((found["kind"], found["signal"]), ("exception", signal.SIGABRT))
        self.assertEqual((found["exception"], found["message"]), ("std::runtime_error", "no mesh"))
        self.assertEqual(found["stderr_tail"], stderr)

    def test_python(self):
        script = self.write("train.py", TRAIN)
        for version, python in recording.pythons():
            with self.subTest(version):
                found, stderr, report = self.failure([python, script], "python" + version)
                self.assertEqual((found["kind"], found["status"]), ("exception", 1))
                self.assertEqual((found["exception"], found["message"]), ("ValueError", "bad batch 17"))
                self.assertEqual((found["function"], found["file"], found["line"]), ("fail", script, line_of(TRAIN, "fail")))
                self.assertEqual(found["stderr_tail"], stderr)
                self.assertIn(f"fail() train.py:{line_of(TRAIN, 'fail')}: ValueError: bad batch 17.", report["findings"][0]["text"])

    def test_one_rank_of_several(self):
        for flavour in ("openmpi", "mpich"):
            for how, number in (("mpi_abort", 7), ("segv", 0)):
                with self.subTest((flavour, how)):
                    run = f"{flavour}-{how}"
                    before = recording.launcher(flavour, 3)
                    self.need(before[0])
                    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
                    done = self.record([recording.program(flavour, "ends"), how, str(number), "1"], before=before, options=["-q"],
                                       run=run, env=environment)
                    self.assertNotEqual(done.returncode, 0)
                    self.await_last_shard(run)
                    report = self.report(run)
                    found = report["failure"]
                    self.assertIsNotNone(found, report["findings"])
                    self.assertEqual(found["rank"], 1, report["findings"])
                    self.assertEqual(found["function"], "main", found)
                    self.assertEqual(report["findings"][0]["ranks"], [1])
                    if how == "mpi_abort":
                        self.assertEqual((found["kind"], found["abort_code"]), ("abort", 7))
                    else:
                        self.assertEqual((found["kind"], found["signal"], found["address"]), ("signal", signal.SIGSEGV, "0x0"))


if __name__ == "__main__":
    recording.main()
