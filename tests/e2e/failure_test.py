# SPDX-License-Identifier: BSD-3-Clause
"""How a program fails, and what is said of it: `failure` in JSON and the first finding. Each program fails at a known line.
Its stderr and its end are the same as without clusterprof."""

import os
import signal
import stat
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import recording
from memory_groups import MemoryGroup

MIB = 1 << 20
FLAVOURS = ("openmpi", "mpich")
PATIENCE_S = 120

C = r"""
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile int zero;
static volatile int *volatile nowhere = (volatile int *)0x10;
static int fall(volatile int depth) {
  volatile char room[4096];
  for (volatile int i = 0; i < 30000; ++i) { /* so that samples find it falling */
  }
  room[0] = (char)depth;
  return depth < 0 ? 0 : fall(depth + 1) + room[0];
}
static int fail_here(const char *how) {
  if (strcmp(how, "segv") == 0) *nowhere = 1; /* line of segv */
  if (strcmp(how, "fpe") == 0) zero = 7 / zero; /* line of fpe */
  if (strcmp(how, "assert") == 0) assert(zero != 0); /* line of assert */
  if (strcmp(how, "abort") == 0) abort(); /* line of abort */
  if (strcmp(how, "alternate") == 0) { /* as libraries do that print a stack when a program fails */
    stack_t stack = {malloc(1 << 16), 0, 1 << 16};
    sigaltstack(&stack, 0);
    abort(); /* line of alternate */
  }
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


class FailureTest(recording.RecordingTest):
    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path


class Failure(FailureTest):
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
                            ("alternate", signal.SIGABRT), ("heap", signal.SIGABRT)):
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


# Rank 1 of three fails as it is told, on a known line; the others wait for it in MPI_Barrier.
RANKS_CPP = r"""
#include <assert.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <stdexcept>
static volatile int zero;
static volatile int *volatile nowhere = (volatile int *)0x10;
static void work(double seconds) {
  clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
  while (clock() < end) zero = 0;  // line of xcpu, line of kill
}
static int fall(volatile int depth) {
  volatile char room[4096];
  for (volatile int i = 0; i < 30000; ++i) { /* so that samples find it falling */
  }
  room[0] = (char)depth;
  return depth < 0 ? 0 : fall(depth + 1) + room[0];
}
static void fill() {
  for (;;) memset(malloc(1 << 20), 1, 1 << 20);  // line of memory
}
static volatile int *past_the_end() {
  char name[] = "/tmp/clusterprof-test-XXXXXX";
  int file = mkstemp(name);
  unlink(name);
  return (volatile int *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}
static void fail_here(const char *how) {
  // Nothing is sampled at these two signals: the line is that of the last sample before.
  work(strcmp(how, "xcpu") == 0 || strcmp(how, "kill") == 0 ? 0.5 : 0.05);
  if (strcmp(how, "exit") == 0) exit(5);  // line of exit
  if (strcmp(how, "segv") == 0) *nowhere = 1;  // line of segv
  if (strcmp(how, "bus") == 0) *past_the_end() = 1;  // line of bus
  if (strcmp(how, "fpe") == 0) zero = 7 / zero;  // line of fpe
  if (strcmp(how, "ill") == 0) __asm__ volatile("ud2");  // line of ill
  if (strcmp(how, "assert") == 0) assert(zero != 0);  // line of assert
  if (strcmp(how, "abort") == 0) abort();  // line of abort
  if (strcmp(how, "overflow") == 0) fall(0);
  if (strcmp(how, "exception") == 0) throw std::out_of_range("no cell 17");  // line of exception
  if (strcmp(how, "mpi_abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);  // line of mpi_abort
  if (strcmp(how, "memory") == 0) fill();
  if (strcmp(how, "xcpu") == 0) kill(getpid(), SIGXCPU);
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
}
int main(int argc, char **argv) {
  int rank, pid = getpid(), pids[3];
  rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
  if (rank == 1 && strcmp(argv[1], "limit") == 0) {
    work(0.05);
    for (int other = 0; other < 3; ++other) kill(pids[other], SIGTERM);
    pause();
  }
  if (rank == 1) fail_here(argv[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
"""
# For Python: no mpi4py is there for both MPIs.
RANKS_C = r"""
#include <mpi.h>
int begin(void) {
  int rank;
  MPI_Init(0, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
void wait_for_all(void) { MPI_Barrier(MPI_COMM_WORLD); }
"""
RANKS_PYTHON = """
import ctypes, sys
mpi = ctypes.CDLL(sys.argv[1])
def fail(batch):
    raise ValueError(f"bad batch {batch}")  # line of python
if mpi.begin() == 1:
    fail(17)
mpi.wait_for_all()
"""


# KIND: (what `failure` has, what the first finding says). LINE is that of the line of KIND in the source.
ENDS = {
    "exit": (dict(kind="exit", status=5), r"Rank 1 exited with status 5; last sampled in fail_here\(.*\) ranks.cpp:LINE\."),
    "segv": (dict(kind="signal", signal=signal.SIGSEGV, address="0x10", stack_overflow=False),
             r"Rank 1 ended by SIGSEGV .*fail_here\(.*\) ranks.cpp:LINE: it accessed address 0x10\."),
    "bus": (dict(kind="signal", signal=signal.SIGBUS), r"Rank 1 ended by SIGBUS .*fail_here\(.*\) ranks.cpp:LINE: it accessed address 0x[0-9a-f]+000\."),
    "fpe": (dict(kind="signal", signal=signal.SIGFPE), r"Rank 1 ended by SIGFPE .*fail_here\(.*\) ranks.cpp:LINE\."),
    "ill": (dict(kind="signal", signal=signal.SIGILL), r"Rank 1 ended by SIGILL .*fail_here\(.*\) ranks.cpp:LINE\."),
    "xcpu": (dict(kind="signal", signal=signal.SIGXCPU), r"Rank 1 ended by SIGXCPU in work\(.*\) ranks.cpp:LINE\."),
    "assert": (dict(kind="signal", signal=signal.SIGABRT),
               r"Rank 1 ended by SIGABRT .*fail_here\(.*\) ranks.cpp:LINE: .*Assertion `zero != 0' failed\."),
    "abort": (dict(kind="signal", signal=signal.SIGABRT, message=None), r"Rank 1 ended by SIGABRT .*fail_here\(.*\) ranks.cpp:LINE\."),
    "overflow": (dict(kind="signal", signal=signal.SIGSEGV, stack_overflow=True), r"Rank 1 ended by SIGSEGV in fall\(.*\) ranks.cpp:\d+: its stack was used up\."),
    "exception": (dict(kind="exception", signal=signal.SIGABRT, exception="std::out_of_range", message="no cell 17"),
                  r"Rank 1 ended by an uncaught exception \(SIGABRT\) in fail_here\(.*\) ranks.cpp:LINE .*: std::out_of_range: no cell 17\."),
    "python": (dict(kind="exception", status=1, exception="ValueError", message="bad batch 17"),
               r"Rank 1 ended by an uncaught exception \(status 1\).* fail\(\) ranks.py:LINE: ValueError: bad batch 17\."),
    "mpi_abort": (dict(kind="abort", abort_code=7), r"Rank 1 called MPI_Abort with code 7 .*fail_here\(.*\) ranks.cpp:LINE\."),
    "memory": (dict(kind="oom", signal=signal.SIGKILL), r"Rank 1 was killed because memory was short in fill\(\) ranks.cpp:LINE\."),
    "kill": (dict(kind="signal", signal=signal.SIGKILL), r"Rank 1 ended by SIGKILL in work\(.*\) ranks.cpp:LINE\."),
    "limit": (dict(kind="time_limit", signal=signal.SIGTERM), r"The job's time limit had passed: ranks 0-2 ended from .*"),
}
# Its launcher kills the others, too, so that nobody knows who killed the first.
OF_MPICH = {"kill": (None, r"Ranks 0-2 were ended by SIGKILL; rank 1, the first of them, was last seen in work\(.*\) ranks.cpp:LINE\."),
            # It sends SIGKILL right after SIGTERM, and the rank may not have ended by then.
            "limit": (dict(kind="time_limit"), ENDS["limit"][1])}
FAULTS = ("segv", "bus", "fpe", "ill")


class OneOfSeveral(FailureTest):
    """What is said of each end on each MPI. The ranks that the launcher ends then are told of in one line."""

    def start(self, flavour, kind, group):
        program = [os.path.join(self.directory, f"ranks-{flavour}"), kind]
        before = recording.launcher(flavour, 3)
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        if kind == "python":
            program = [recording.PYTHON, os.path.join(self.directory, "ranks.py"), f"{program[0]}.so"]
        if kind == "limit":
            environment["SLURM_JOB_END_TIME"] = str(int(time.time()))
        if kind == "memory":
            before = [*group.enter(), *before]
        process = subprocess.Popen([*before, recording.CLUSTERPROF, "-q", "--no-html", "-o",
                                    os.path.join(self.directory, f"{kind}-{flavour}"), *program],
                                   cwd=self.directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def is_rank(words):
            return words[:-1] == program
        try:
            process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:  # tests/mpi_defects: a launcher without ranks may hang
            left = [pid for pid, words in recording.processes() if is_rank(words) and not recording.has_ended(pid)]
            recording.end_job(process, is_rank)
            self.assertEqual(left, [], "ranks that nobody ends")
        return process

    def check(self, flavour, kind, done):
        run = f"{kind}-{flavour}"
        if isinstance(done, Exception):
            raise done
        self.await_last_shard(run)
        report = self.report(run)
        failure, findings = report["failure"], report["findings"]
        self.assertNotEqual(done.returncode, 0)
        wanted, said = OF_MPICH.get(kind, ENDS[kind]) if flavour == "mpich" else ENDS[kind]
        if wanted is None:
            self.assertIsNone(failure, findings)
        else:
            self.assertIsNotNone(failure, findings)
            self.assertEqual({key: failure[key] for key in wanted}, wanted, findings)
        if "LINE" in said:
            line = line_of(RANKS_PYTHON if kind == "python" else RANKS_CPP, kind)
            self.assertEqual((failure if kind == "memory" else findings[0])["line"], line, findings)
            said = said.replace("LINE", str(line))
        text = findings[0]["text"] if kind != "memory" else " ".join(finding["text"] for finding in findings)
        self.assertRegex(text, f"^{said}$" if kind != "memory" else said)
        if kind in FAULTS:
            self.assertRegex(failure["instruction"], rf"^ranks-{flavour}\+0x[0-9a-f]+$")
            self.assertRegex(failure["address"], "^0x[0-9a-f]+$")
        if kind == "limit":
            return
        self.assertEqual(findings[0]["rank"], 1, findings)
        if failure is None:
            return
        self.assertEqual(failure["rank"], 1)
        if kind not in ("overflow", "python"):  # of a deep stack the innermost frames are kept
            frames = [frame.partition(" ")[0].partition("(")[0] for frame in failure["call_path"]]
            self.assertEqual(frames[:2], ["main", "fail_here"], failure["call_path"])
        others = [finding["kind"] for finding in findings if set(finding["ranks"]) & {0, 2}]
        self.assertEqual(others.count("ranks_ended_after"), 1, findings)
        self.assertFalse(set(others) & {"rank_failed", "ranks_lost", "ranks_unfinished", "ranks_silent", "deadlock"}, findings)

    def little_memory(self):
        with open("/proc/swaps", encoding="ascii") as file:
            if len(file.readlines()) > 1:
                self.skipTest("this machine has swap")
        return MemoryGroup(self, 256 * MIB)

    def test_ends(self):
        for flavour in FLAVOURS:
            self.need(f"mpicxx.{flavour}", recording.launcher(flavour, 3)[0])
        sources = [self.write(name, text) for name, text in (("ranks.cpp", RANKS_CPP), ("ranks.c", RANKS_C))]
        self.write("ranks.py", RANKS_PYTHON)
        kinds = list(ENDS)
        try:
            groups = {flavour: self.little_memory() for flavour in FLAVOURS}
        except unittest.SkipTest as reason:
            print(f"without the end by too little memory: {reason}", flush=True)
            groups = dict.fromkeys(FLAVOURS)
            kinds.remove("memory")

        def build_and_start(flavour):
            program = os.path.join(self.directory, f"ranks-{flavour}")
            plain = ["-g", "-O0", "-w", "-fno-stack-clash-protection"]
            subprocess.run([f"mpicxx.{flavour}", *plain, sources[0], "-o", program], check=True)
            subprocess.run([f"mpicc.{flavour}", *plain, "-shared", "-fPIC", sources[1], "-o", f"{program}.so"], check=True)
            return {kind: start(flavour, kind) for kind in kinds}

        def start(flavour, kind):
            try:
                return self.start(flavour, kind, groups[flavour])
            except (AssertionError, subprocess.TimeoutExpired) as error:  # the others are looked at, too
                return error

        # Each waits for most of its time: for its launcher, its ranks and its collector.
        with ThreadPoolExecutor() as beside:
            ended = list(zip(FLAVOURS, beside.map(build_and_start, FLAVOURS)))
        for flavour, jobs in ended:
            for kind, done in jobs.items():
                with self.subTest((flavour, kind)):
                    self.check(flavour, kind, done)


if __name__ == "__main__":
    recording.main()
