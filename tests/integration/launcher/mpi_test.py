"""Under mpirun of both kinds, on one machine and on simulated nodes: one run directory, one
collector per node that knows all its ranks, and nothing left over."""

import os
import re
import shutil
import subprocess
import tempfile

import launching

NODES = os.path.join(launching.SOURCE, "tests", "support", "mpi_nodes.bash")


class MpiTest:
    """What both kinds have in common; the subclasses say what is different."""

    def setUp(self):
        super().setUp()
        if not shutil.which(self.mpirun):
            self.skipTest(f"{self.mpirun} is not here")

    def run_ranks(self, count, *arguments, **variables):
        return self.launch(*arguments, before=[self.mpirun, *self.options, "-n", str(count)], timeout=90,
                           variables=variables)

    def ranks(self, events):
        self.assertEqual(len([event for event in events if event.startswith("start ")]), 1, events)
        return sorted(int(re.search(r"rank=(\d+)", event).group(1))
                      for event in events if event.startswith(("announced", "started")))

    def test_one_node(self):
        done = self.run_ranks(4, "sh", "-c", "echo $LD_PRELOAD $CLUSTERPROF_AGENT_WORLD_SIZE")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(len(lines), 4)
        for line in lines:
            # It may yet load a library with the interface of the MPI standard.
            self.assertRegex(line, rf"libclusterprof_mpi_{self.flavour}\.so:\S*/libclusterprof_mpi_abi\.so 4$")
        run, = self.runs()
        events = self.events(run)
        self.assertEqual(self.ranks(events), [0, 1, 2, 3])
        self.assertIn("--local-ranks 4 --world-size 4", events[0])
        self.assertRegex(events[0], " --mpi-launcher=[0-9]+ ")  # whose processors it may use
        self.assertEqual(os.listdir(self.directory), [run])

    def test_runs_do_not_share_a_directory(self):
        for _ in range(3):
            self.assertEqual(self.run_ranks(2, "true").returncode, 0)
        self.assertEqual(len(self.runs()), 3)
        for run in self.runs():
            self.assertEqual(self.ranks(self.events(run)), [0, 1])

    def test_common_errors_are_said_once(self):
        os.mkdir(self.path("taken"))
        with open(self.path("taken", "file"), "w"):
            pass
        # No rank fails for it: all of them use the next name.
        done = self.run_ranks(4, "-o", "taken", "true")
        self.assertEqual(done.returncode, 0)
        ours = [line for line in done.stderr.decode().splitlines() if line.startswith("clusterprof: ")]
        self.assertEqual(ours, ["clusterprof: taken: there are other files in it; this run is recorded in " +
                                os.path.realpath(self.path("taken-2"))])
        self.assertEqual(self.ranks(self.events("taken-2")), [0, 1, 2, 3])

    def test_status_of_a_rank(self):
        self.assertEqual(self.run_ranks(2, "sh", "-c", "exit 3").returncode, 3)

    def test_some_ranks(self):
        done = self.run_ranks(4, "--ranks", "1,3", "sh", "-c", "echo ${LD_PRELOAD:+recorded}")
        self.assertEqual(sorted(done.stdout.splitlines()), [b"", b"", b"recorded", b"recorded"])
        run, = self.runs()
        events = self.events(run)
        self.assertEqual(self.ranks(events), [1, 3])
        self.assertIn(" --ranks=1,3 --wait-ranks=2 --banner-rank=1 ", events[0])
        self.assertEqual(os.listdir(self.directory), [run])

    def test_two_nodes(self):
        state = tempfile.mkdtemp(prefix="cpn-", dir="/tmp")
        self.addCleanup(shutil.rmtree, state, ignore_errors=True)

        def nodes(*arguments):
            return subprocess.run(["bash", NODES, "-d", state, *arguments], cwd=self.directory, capture_output=True,
                                  timeout=90, env=self.environment(MPIRUN=self.mpirun))

        started = nodes("start", "2", "--slots", "2", *self.node_options)
        if started.returncode != 0:
            self.skipTest("cannot simulate nodes here: " + started.stderr.decode().strip())
        self.addCleanup(nodes, "stop")
        for options, expected in (((), None), (("-o", "given"), "given")):
            before = self.runs()
            done = nodes("run", "-n", "4", *self.by_node, launching.CLUSTERPROF, *options, "sh", "-c",
                         "echo $CLUSTERPROF_AGENT_SOCKET $CLUSTERPROF_AGENT_RANK; sleep 0.2")
            self.assertEqual(done.returncode, 0, done.stderr)
            run, = [name for name in self.runs() if name not in before]
            if expected:
                self.assertEqual(run, expected)
            ranks = [self.ranks(self.events(run, node)) for node in ("n1", "n2")]
            self.assertEqual(sorted(ranks[0] + ranks[1]), [0, 1, 2, 3])
            self.assertEqual([len(of_node) for of_node in ranks], [2, 2])
            # One key: the sockets of both nodes differ by the node's name alone.
            sockets = {line.split()[0] for line in done.stdout.decode().splitlines()}
            self.assertEqual(len(sockets), 2)
            self.assertEqual(len({name.rpartition("/")[0] for name in sockets}), 1, sockets)
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith(".")], [])


class OpenMpi(MpiTest, launching.LaunchingTest):
    mpirun = "mpirun.openmpi"
    flavour = "openmpi"
    options = ["--oversubscribe", "--bind-to", "none"]
    node_options = []
    by_node = ["--map-by", "node"]


class Mpich(MpiTest, launching.LaunchingTest):
    mpirun = "mpirun.mpich"
    flavour = "mpich"
    options = []
    node_options = ["--shared-memory"]
    by_node = ["-ppn", "2"]


if __name__ == "__main__":
    launching.main()
