"""The collector runs on the processors of its job and on no other. No samples are lost where it has no processor of its
own."""

import json
import os
import shutil
import subprocess
import tempfile
import time

import recording

# Writes where it may run, lets the test look, and ends when it may.
RANK = '''
import json, os, sys, time
folder = sys.argv[1]
if len(sys.argv) > 2:
    os.sched_setaffinity(0, {int(sys.argv[2])})
path = os.path.join(folder, f"rank-{os.environ.get('OMPI_COMM_WORLD_RANK', os.environ.get('PMI_RANK', '0'))}")
with open(path + ".tmp", "w") as file:
    json.dump(sorted(os.sched_getaffinity(0)), file)
os.rename(path + ".tmp", path)
limit = time.monotonic() + 300
while not os.path.exists(os.path.join(folder, "end")) and time.monotonic() < limit:
    time.sleep(0.01)
'''

SPIN = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: sum(range(500))\n"


def processors_of(pid):
    """Of all threads of a process."""
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            found |= os.sched_getaffinity(int(thread))
        except ProcessLookupError:
            continue
    return found


class Placement(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        self.own = sorted(os.sched_getaffinity(0))

    def placed(self, ranks, before=(), rank_arguments=(), expected=None):
        """Starts `ranks` ranks and returns where each of them may run, and where the collector may once it has
        followed them. Every place where it was on the way is in self.seen. expected(of_ranks): where it has to come to, within
        30 s on a busy machine."""
        run, folder = os.path.join(self.directory, "run"), os.path.join(self.directory, "ranks")
        os.mkdir(folder)
        self.seen = set()
        started = subprocess.Popen([*before, recording.CLUSTERPROF, "-q", "-o", run, recording.PYTHON, "-c", RANK, folder,
                                    *rank_arguments], cwd=self.directory, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        try:
            collector, names = None, [f"rank-{i}" for i in range(ranks)]
            limit = time.monotonic() + 120
            while collector is None or not all(os.path.exists(os.path.join(folder, name)) for name in names):
                self.assertLess(time.monotonic(), limit, "ranks or collector did not start")
                self.assertIsNone(started.poll(), started.poll() is not None and started.communicate())
                collector = collector or next(
                    (pid for pid, words in recording.processes() if recording.is_collector(words, run)), None)
                if collector is not None:
                    self.seen |= processors_of(collector)
                time.sleep(0.01)
            of_ranks = []
            for name in names:
                with open(os.path.join(folder, name)) as file:
                    of_ranks.append(set(json.load(file)))
            last, unchanged_since = None, time.monotonic()
            deadline = time.monotonic() + 30
            # Ranks that bind themselves are followed within 5 s.
            while time.monotonic() - unchanged_since < (6.5 if rank_arguments else 1.0) or \
                    (expected is not None and last != expected(of_ranks) and time.monotonic() < deadline):
                where = processors_of(collector)
                self.seen |= where
                if where != last:
                    last, unchanged_since = where, time.monotonic()
                time.sleep(0.02)
            return of_ranks, last
        finally:
            with open(os.path.join(folder, "end"), "w"):
                pass
            out, error = started.communicate(timeout=60)
            self.assertEqual(started.returncode, 0, error.decode())

    def test_one_process_bound_by_taskset(self):
        processor = self.own[-1]
        of_ranks, where = self.placed(1, before=["taskset", "-c", str(processor)])
        self.assertEqual(of_ranks, [{processor}])
        self.assertEqual(where, {processor})
        self.assertEqual(self.seen, {processor})

    def test_one_process_that_binds_itself(self):
        processor = self.own[-1]
        _, where = self.placed(1, rank_arguments=[str(processor)], expected=lambda _: {processor})
        self.assertEqual(where, {processor})

    def test_processors_that_no_rank_is_bound_to_come_first(self):
        self.need("mpirun.openmpi")
        if len(self.own) < 2:
            self.skipTest("one processor")
        of_ranks, where = self.placed(1, before=["mpirun.openmpi", "--bind-to", "core", "-n", "1"],
                                      expected=lambda of_ranks: set(self.own) - of_ranks[0] or set(self.own))
        if of_ranks[0] == set(self.own):
            self.skipTest("mpirun does not bind here")
        self.assertEqual(where, set(self.own) - of_ranks[0])

    def test_collector_shares_processors_if_ranks_are_bound_to_all(self):
        self.need("mpirun.openmpi")
        if not 2 <= len(self.own) <= 8:
            self.skipTest("one processor, or many")
        of_ranks, where = self.placed(len(self.own), before=["mpirun.openmpi", "--bind-to", "hwthread",
                                                             "--use-hwthread-cpus", "-n", str(len(self.own))],
                                      expected=lambda of_ranks: set(self.own) - set().union(*of_ranks) or set(self.own))
        bound = set().union(*of_ranks)
        self.assertEqual(where, set(self.own) - bound or bound)

    def test_mpirun_and_all_it_starts_on_one_processor(self):
        processor = self.own[-1]
        for flavour, bound in (("openmpi", ["--bind-to", "none", "--oversubscribe"]), ("mpich", [])):
            if not shutil.which(f"mpirun.{flavour}"):
                continue
            with self.subTest(flavour=flavour):
                shutil.rmtree(os.path.join(self.directory, "run"), ignore_errors=True)
                shutil.rmtree(os.path.join(self.directory, "ranks"), ignore_errors=True)
                of_ranks, where = self.placed(2, before=["taskset", "-c", str(processor), f"mpirun.{flavour}", *bound,
                                                         "-n", "2"])
                self.assertEqual(of_ranks, [{processor}] * 2)
                self.assertEqual(where, {processor})
                self.assertEqual(self.seen, {processor})

    def test_collector_stays_in_its_cpuset(self):
        """The kernel holds it in a cpuset, also when the launcher's daemon is outside."""
        group, processor = None, self.own[-1]
        for root in ("/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"):
            try:
                group = tempfile.mkdtemp(prefix="clusterprof-test-", dir=root)
                self.addCleanup(os.rmdir, group)
                with open(os.path.join(group, "cpuset.cpus"), "w") as file:
                    file.write(str(processor))
                if os.path.exists(os.path.join(root, "cpuset.mems")):
                    with open(os.path.join(root, "cpuset.mems")) as file, \
                            open(os.path.join(group, "cpuset.mems"), "w") as own:
                        own.write(file.read())
                break
            except OSError:
                group = None
        if group is None:
            self.skipTest("no cpuset can be made here")
        enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group]
        of_ranks, where = self.placed(1, before=enter)
        self.assertEqual(of_ranks, [{processor}])
        self.assertEqual(where, {processor})
        self.assertEqual(self.seen, {processor})


class BusyProcessor(recording.RecordingTest):
    def test_no_sample_is_lost_on_a_processor_that_is_full(self):
        """Four other processes spin on the one processor that the program, its collector and launcher have. The rings
        of a thread hold more than a second at the default rate."""
        seconds, processor = 4, max(os.sched_getaffinity(0))
        pin = ["taskset", "-c", str(processor)]
        others = [subprocess.Popen([*pin, recording.PYTHON, "-c", SPIN.format(seconds=60)]) for _ in range(4)]
        try:
            report = self.recorded([*pin, recording.PYTHON, "-c", SPIN.format(seconds=seconds)], before=pin)
        finally:
            for process in others:
                process.kill()
                process.wait()
        rank = report["ranks"][0]
        self.assertLess(rank["cpu_s"], 0.5 * rank["elapsed_s"], "the processor was not full")
        self.assertGreater(rank["samples"], 5)
        self.assertEqual(report["run"]["dropped"].get("ring_full", 0), 0, report["run"]["dropped"])
        self.assertTrue(report["run"]["complete"])


if __name__ == "__main__":
    recording.main()
