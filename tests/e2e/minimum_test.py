"""Runs that end before the minimum duration, or are smaller than the minimum size, leave nothing behind."""

import glob
import os
import signal
import subprocess
import time

import recording

BUSY = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: sum(range(1000))\n"


def waiting_places():
    """Without those of unit tests, which run at the same time."""
    found = glob.glob("/dev/shm/clusterprof-waiting-*") + glob.glob("/tmp/clusterprof-waiting-*")
    return {place for place in found if "test-" not in place}


class Minimum(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.directory, "busy.py"), "w") as file:
            file.write(BUSY)
        self.root = os.path.join(self.directory, "runs")
        os.mkdir(self.root)
        self.changed_ns = os.stat(self.root).st_mtime_ns
        self.places = waiting_places()

    def launch(self, *words, before=(), **variables):
        environment = dict(os.environ, CLUSTERPROF_ROOT=self.root, **variables)
        return subprocess.run([*before, recording.CLUSTERPROF, *words], cwd=self.directory, env=environment,
                              capture_output=True, timeout=100)

    def check_places(self):
        """That no waiting place is left; the collector removes it at its end, for which the command does not wait."""
        deadline = time.monotonic() + 60
        while left := waiting_places() - self.places:
            self.assertLess(time.monotonic(), deadline, left)
            time.sleep(0.05)

    def check_nothing_was_made(self, done, status):
        self.assertEqual((done.returncode, done.stderr.decode()), (status, ""))
        self.check_places()
        self.assertEqual(os.listdir(self.root), [])
        # Nor was anything made and removed again.
        self.assertEqual(os.stat(self.root).st_mtime_ns, self.changed_ns)

    def the_run(self):
        self.check_places()
        run, = os.listdir(self.root)
        return os.path.join(self.root, run)

    def test_short_runs_leave_nothing(self):
        self.check_nothing_was_made(self.launch("--min-duration", "60", "true"), 0)
        self.check_nothing_was_made(self.launch("sh", "-c", "exit 3", CLUSTERPROF_MIN_DURATION="60"), 3)
        self.check_nothing_was_made(self.launch("--min-duration=60", "sh", "-c", "kill -SEGV $$"), -signal.SIGSEGV)
        done = self.launch("--min-duration=60", "true", CLUSTERPROF_EXPLAIN="1")
        self.assertRegex(done.stderr.decode(),
                         r"^clusterprof: nothing is kept of a run of \d+\.\d s, which is less than 60 s \(too-short\)\n$")

    def test_short_runs_on_two_nodes_leave_nothing(self):
        script = 'CLUSTERPROF_NODE=n$((OMPI_COMM_WORLD_RANK % 2)) exec "$0" --min-duration 60 "$@"'
        done = subprocess.run([*recording.launcher("openmpi", 4), "sh", "-c", script, recording.CLUSTERPROF,
                               recording.PYTHON, "-c", "print(1)"], cwd=self.directory, capture_output=True, timeout=100,
                              env=dict(os.environ, CLUSTERPROF_ROOT=self.root))
        self.assertEqual(sorted(done.stdout.decode().replace("\n", "")), list("1111"))  # mpirun may mix lines
        self.check_nothing_was_made(done, 0)

    def test_a_run_that_lasts_is_kept_whole(self):
        done = self.launch("--min-duration", "1", recording.PYTHON, "busy.py", "2.5")
        self.assertEqual(done.returncode, 0)
        self.assertIn("clusterprof", done.stderr.decode())  # the summary
        run = self.the_run()
        self.assertRegex(os.path.basename(run), r"^clusterprof-busy-\d{8}-\d{6}$")
        report = self.report(run)
        self.assertEqual(report["run"]["id"], os.path.basename(run))
        self.assertTrue(report["run"]["complete"])
        rank, = report["ranks"]
        self.assertGreater(rank["elapsed_s"], 2.4)
        # Also of the time in which there was no run directory.
        self.measured_above(report["run"]["samples"], 0.8 * rank["cpu_s"] * report["run"]["rate_hz"], "samples")

    def test_a_run_on_two_nodes_that_lasts_is_one_run(self):
        script = 'CLUSTERPROF_NODE=n$((OMPI_COMM_WORLD_RANK % 2)) exec "$0" --min-duration 1 "$@"'
        done = subprocess.run([*recording.launcher("openmpi", 4), "sh", "-c", script, recording.CLUSTERPROF,
                               recording.PYTHON, "busy.py", "3"], cwd=self.directory, capture_output=True, timeout=100,
                              env=dict(os.environ, CLUSTERPROF_ROOT=self.root))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        report = self.report(self.the_run())
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1, 2, 3])
        self.assertEqual(sorted(node["name"] for node in report["nodes"]), ["n0", "n1"])
        self.assertTrue(report["run"]["complete"])

    def test_ranks_that_outlive_a_failed_one_are_kept(self):
        """The first rank's launcher ends with it, before there is a run directory."""
        script = 'test $OMPI_COMM_WORLD_RANK = 1 || exit 0; exec "$0" "$@"'
        done = subprocess.run([*recording.launcher("openmpi", 2), recording.CLUSTERPROF, "--min-duration=1", "-q", "sh",
                               "-c", script, recording.PYTHON, "busy.py", "2.5"], cwd=self.directory, timeout=100,
                              capture_output=True, env=dict(os.environ, CLUSTERPROF_ROOT=self.root))
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        self.assertEqual(len(self.report(self.the_run())["ranks"]), 2)

    def test_a_run_directory_that_cannot_be_made(self):
        with open(os.path.join(self.directory, "file"), "w"):
            pass
        done = self.launch("--min-duration=1", "-o", "file/run", recording.PYTHON, "busy.py", "1.5")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr.decode(), r"^clusterprof: node \S+ is not recorded: file: Not a directory\n$")
        self.check_places()

    def test_a_killed_collector_leaves_no_waiting_place(self):
        # It goes on until it reads that there is no more.
        program = subprocess.Popen([recording.CLUSTERPROF, "--min-duration=600", "cat"], cwd=self.directory, stdin=subprocess.PIPE)
        deadline = time.monotonic() + 60
        collectors = []
        while not collectors and time.monotonic() < deadline:
            collectors = [pid for pid, words in recording.processes()
                          if os.path.basename(words[0]) == "collector" and "--min-duration=600" in words and
                          self.is_below(pid, program.pid)]
            time.sleep(0.02)
        self.assertEqual(len(collectors), 1)
        os.kill(collectors[0], signal.SIGKILL)
        program.stdin.close()
        self.assertEqual(program.wait(timeout=60), 0)
        self.check_places()

    @staticmethod
    def is_below(pid, parent):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return int(file.read().rsplit(")", 1)[1].split()[1]) == parent
        except OSError:
            return False

    def test_small_runs_are_not_recorded(self):
        self.check_nothing_was_made(self.launch("--min-ranks", "2", "true"), 0)
        done = self.launch("--min-ranks", "3", "true", before=recording.launcher("openmpi", 2), CLUSTERPROF_EXPLAIN="1")
        self.assertEqual(done.stderr.decode(), "clusterprof: not recorded: 2 ranks, fewer than 3 (too-few-ranks)\n")
        self.assertEqual(os.listdir(self.root), [])
        done = self.launch("--min-ranks", "2", "-q", "true", before=recording.launcher("openmpi", 2))
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        self.assertEqual(len(self.report(self.the_run())["ranks"]), 2)


if __name__ == "__main__":
    recording.main()
