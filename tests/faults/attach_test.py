# SPDX-License-Identifier: BSD-3-Clause
"""Attaches to programs and lets them go, again and again: their results are right, and nothing of ours is left in them but code.

    attach_test.py [--times N]     so often (default: 12)

What is left is asked from outside (/proc) after each time, and from inside by the program itself when it ends
(tests/programs/attached.c)."""

import os
import shutil
import subprocess
import sys
import time

import recording
from attached import code_of, may_trace, state_of, status_of, unnamed_of

PATIENCE_S = 120
PROGRAM = os.path.join(recording.BUILD, "programs", "plain", "attached")
TIMES = 12
THREADS = 64
MIB = 1 << 20


class AgainAndAgain(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        if not may_trace():
            self.skipTest("this user may not trace processes (kernel.yama.ptrace_scope)")
        self.stop_file = os.path.join(self.directory, "stop")

    def begin(self, mode, threads):
        # Other tests run beside it. And so the threads have a priority to get back.
        process = subprocess.Popen([PROGRAM, mode, str(threads), self.stop_file, "check"], cwd=self.directory,
                                   stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.nice(19))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def clusterprof(self, *words):
        done = subprocess.run([recording.CLUSTERPROF, *map(str, words)], cwd=self.directory, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def attach_and_let_go(self, process, threads):
        """Until our threads have ended, which they do last."""
        run = os.path.join(self.directory, "run")
        said = self.clusterprof("attach", process.pid, "-o", run)
        self.assertRegex(said, r"\(thread [0-9]+ was held for [0-9.]+ ms")
        self.assertNotEqual(status_of(process.pid, "Threads"), {"Threads": str(threads + 1)}, "it is not attached to")
        self.clusterprof("detach", run)
        shutil.rmtree(run)
        deadline = time.monotonic() + PATIENCE_S
        while status_of(process.pid, "Threads") != {"Threads": str(threads + 1)}:
            self.assertLess(time.monotonic(), deadline, "our threads' end")
            time.sleep(0.01)

    def end(self, process):
        open(self.stop_file, "w").close()
        stdout, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, stdout.splitlines()[-1:]), (0, ["ok"]), stdout)

    def test_the_program_sees_what_is_not_as_before(self):
        """While it is attached to. Or else what it says in the other tests would be worth nothing."""
        process = self.begin("threads", 2)
        self.clusterprof("attach", process.pid, "-o", os.path.join(self.directory, "run"))
        open(self.stop_file, "w").close()
        stdout, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 1, stdout)
        for what in ("a handler has changed", "a call leads to clusterprof"):
            self.assertIn(f"mistake: {what}\n", stdout)
        self.assertNotIn("computed something else", stdout)

    def test_while_many_threads_allocate(self):
        process = self.begin("storm", THREADS)
        before = state_of(process.pid)
        self.assertEqual(code_of(process.pid), [])
        code, unnamed = None, None
        for number in range(TIMES):
            self.attach_and_let_go(process, THREADS)
            with self.subTest(time=number):
                self.assertEqual(state_of(process.pid), before)
                if number == 0:
                    code, unnamed = code_of(process.pid), unnamed_of(process.pid)
                    self.assertTrue(code)
                self.assertEqual(code_of(process.pid), code)
                self.assertEqual(unnamed_of(process.pid)[2], [], "code of an attach")
        # Arenas of malloc grow and are cut anew with what the program does, but not with the number of times.
        count, size, _ = unnamed_of(process.pid)
        self.assertLess(count - unnamed[0], max(TIMES, 2 * THREADS))
        self.assertLess(size - unnamed[1], TIMES * MIB)
        self.end(process)

    def test_the_map_is_the_same_each_time(self):
        """Of a program that has no reason to change it."""
        process = self.begin("threads", 2)
        before = state_of(process.pid)
        unnamed_before, seen = unnamed_of(process.pid), []
        for _ in range(TIMES):
            self.attach_and_let_go(process, 2)
            self.assertEqual(state_of(process.pid), before)
            seen.append(unnamed_of(process.pid))
        self.assertEqual(seen[1:], seen[1:2] * (TIMES - 1), f"before: {unnamed_before}")
        self.end(process)


if __name__ == "__main__":
    if "--times" in sys.argv:
        at = sys.argv.index("--times")
        TIMES = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    recording.main()
