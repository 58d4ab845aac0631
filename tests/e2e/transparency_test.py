"""What a program prints and how it ends is the same with clusterprof as without."""

import os
import signal

import recording


class Transparency(recording.RecordingTest):
    def same(self, command, before=(), options=(), stdin=None, compare_stderr=True, **how):
        """Runs the command bare and recorded; stdout, status and (quiet) stderr must be equal."""
        bare, recorded = self.bare_and_recorded(command, before, ["-q", *options], input=stdin, **how)
        self.assertEqual(recorded.stdout, bare.stdout)
        self.assertEqual(recorded.returncode, bare.returncode, recorded.stderr.decode(errors="replace"))
        if compare_stderr:
            self.assertEqual(recorded.stderr, bare.stderr)
        return recorded

    def test_exit_status(self):
        for status in (0, 1, 3, 77, 125, 255):
            with self.subTest(status):
                self.same(["sh", "-c", f"echo out; echo err >&2; exit {status}"], run=f"run{status}")

    def test_python_exit_status(self):
        self.same([recording.PYTHON, "-c", "import sys; print('x' * 100000); sys.exit(3)"])

    def test_signals(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1):
            with self.subTest(number.name):
                code = f"import os, sys; print('here'); sys.stdout.flush(); os.kill(os.getpid(), {int(number)})"
                done = self.same([recording.PYTHON, "-c", code], run=f"run-{number.name}")
                self.assertEqual(done.returncode, -number)
                exit_ = self.report(f"run-{number.name}")["ranks"][0]["exit"]
                self.assertEqual(exit_["signal"], number)

    def test_real_fault(self):
        done = self.same([recording.PYTHON, "-c", "import ctypes; ctypes.string_at(8)"])
        self.assertEqual(done.returncode, -signal.SIGSEGV)

    def test_faulthandler_still_reports(self):
        done = self.same([recording.PYTHON, "-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(8)"],
                         compare_stderr=False)
        self.assertIn(b"Fatal Python error: Segmentation fault", done.stderr)

    def test_missing_and_not_executable(self):
        done = self.record(["/nowhere/at/all"])
        self.assertEqual(done.returncode, 127)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        plain = os.path.join(self.directory, "plain")
        with open(plain, "w") as file:
            file.write("no program\n")
        done = self.record([plain], run="run2")
        self.assertEqual(done.returncode, 126)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_standard_input(self):
        self.same(["cat"], stdin=bytes(range(256)) * 4096)

    def test_environment_and_arguments(self):
        done = self.record(["sh", "-c", 'printf "%s|" "$0" "$@"', "a b", "--rate", "", "-o", "*"], options=["-q"])
        self.assertEqual(done.stdout, b"a b|--rate||-o|*|")

    def test_mpi_endings(self):
        ends = recording.program("openmpi", "ends")
        self.need(ends)
        before = recording.launcher("openmpi", 2)
        for how in (["normal"], ["exit", "3"], ["segv"], ["abort"], ["mpi_abort", "7"], ["no_finalize"]):
            with self.subTest(how[0]):
                bare, done = self.bare_and_recorded([ends, *how], before, ["-q"], f"run-{how[0]}")
                self.assertEqual(sorted(done.stdout.splitlines()), sorted(bare.stdout.splitlines()))
                self.assertEqual(done.returncode, bare.returncode, done.stderr.decode())

    def test_mpich_endings(self):
        ends = recording.program("mpich", "ends")
        self.need(ends)
        before = recording.launcher("mpich", 2)
        for how in (["normal"], ["exit", "3"], ["mpi_abort", "7"]):
            with self.subTest(how[0]):
                bare, done = self.bare_and_recorded([ends, *how], before, ["-q"], f"run-{how[0]}")
                if how[0] == "mpi_abort":  # mpirun may end before it has passed on what the ranks wrote
                    self.assertLessEqual(set(done.stdout.splitlines()), {b"rank 0 is here", b"rank 1 is here"})
                else:
                    self.assertEqual(sorted(done.stdout.splitlines()), sorted(bare.stdout.splitlines()))
                self.assertEqual(done.returncode, bare.returncode, done.stderr.decode())

    def test_sleeps_are_not_cut_short(self):
        code = ("import time, select, threading\n"
                "def timed(f, s):\n"
                "    b = time.monotonic(); f(); d = time.monotonic() - b\n"
                "    assert s - 0.001 <= d < s + 0.25, (f, d)\n"
                "timed(lambda: time.sleep(0.3), 0.3)\n"
                "timed(lambda: select.select([], [], [], 0.3), 0.3)\n"
                "timed(lambda: threading.Event().wait(0.3), 0.3)\n"
                "print('slept')")
        for rate in ("100", "1000"):
            self.same([recording.PYTHON, "-c", code], options=["-r", rate], run=f"run{rate}")


if __name__ == "__main__":
    recording.main()
