"""MPI_Comm_spawn: the processes it starts become further ranks of the run, and nothing changes for the program. spawn.c
and spawn.py know their traffic; what they print is the same without clusterprof."""

import collections
import os
import re
import shutil
import subprocess
import tempfile

import recording

PROGRAMS = os.environ["SPAWN_TEST_PROGRAMS"]
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawn.py")
NODES = os.path.join(recording.SOURCE, "tests", "support", "mpi_nodes.bash")


def environment(oversubscribe=True):
    # For what Open MPI starts when there is no mpirun.
    return {**os.environ, **({"OMPI_MCA_rmaps_base_oversubscribe": "1"} if oversubscribe else {})}


class Spawn(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        self.program = os.path.join(PROGRAMS, self.flavour, "spawn")
        self.need(self.program, recording.launcher(self.flavour, 1)[0])

    def report(self, run="run", options=()):
        self.await_last_shard(run)  # spawned ranks may end after the launcher
        return super().report(run, options)

    def both(self, *arguments, ranks=2, options=(), status=0, run="run"):
        """Returns the output with clusterprof, after it has checked that it is the same without."""
        before = recording.launcher(self.flavour, ranks) if ranks else ()
        bare, with_us = self.bare_and_recorded(arguments, before, ["-q", *options], run, env=environment())
        self.assertEqual(bare.returncode, status, bare.stderr.decode())
        self.assertEqual(with_us.returncode, status, with_us.stderr.decode())
        lines = [sorted(done.stdout.decode().splitlines()) for done in (bare, with_us)]
        self.assertEqual(*lines)
        # What mpirun says of a failure names processes, hosts and exit codes: the words are the same.
        says = [[line for line in done.stderr.decode().splitlines() if line.startswith("clusterprof")]
                for done in (bare, with_us)]
        self.assertEqual(says, [[], []])
        return lines[1]

    def check(self, lines, ranks, spawned, run="run", nodes=1, unfinished=0):
        """Checks that the run has those ranks, is complete, and has the matrix that the program printed. `unfinished`: so many
        instances of MPI_Finalize may lack a rank; Open MPI may end spawned ones before they come back from it."""
        report = self.report(run)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(ranks)))
        self.assertEqual([rank["rank"] for rank in report["ranks"] if rank["spawned"]],
                         list(range(ranks - spawned, ranks)))
        self.assertEqual(report["run"]["world_size"], ranks)
        self.assertEqual(report["run"]["spawned_ranks"], spawned)
        self.assertEqual(report["run"]["missing_ranks"], [])
        lost = [rank["rank"] for rank in report["ranks"] if rank["exit"]["lost"]]
        self.assertTrue(not lost or (unfinished and min(lost) >= ranks - spawned), lost)
        self.assertEqual(report["run"]["complete"], not lost)
        self.assertEqual(len(report["nodes"]), nodes)
        sent, seen = collections.Counter(), collections.Counter()
        for line in lines:
            words = line.split()
            if words[0] == "sent":
                source, destination, size = map(int, words[1:])
                sent[source, destination, "bytes"] += size
                sent[source, destination, "messages"] += 1
        for cell in report["mpi"]["matrix"]:
            for what in ("messages", "bytes"):
                seen[cell["src"], cell["dst"], what] += cell[what]
        self.assertEqual(seen, sent)
        analysis = report["wait_analysis"]
        if analysis["messages"] is not None:
            self.assertEqual(analysis["unmatched_messages"], 0, analysis)
            self.assertLessEqual(analysis["unmatched_collectives"], unfinished, analysis)
        return report


class openmpi(Spawn):
    flavour = "openmpi"

    def test_exchange(self):
        lines = self.both(self.program, "exchange")
        self.assertEqual(sum(line.startswith("child") for line in lines), 3)
        report = self.check(lines, 5, 3)
        text = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "run")],
                              capture_output=True, timeout=60).stdout.decode()
        self.assertIn("5 ranks, 3 of them spawned, on 1 node", text)
        # Streams of the two worlds are told apart: each communicator with its own number of members.
        dump = subprocess.run([recording.CLUSTERPROF, "dump", os.path.join(self.directory, "run", "profile.h5")],
                              capture_output=True, timeout=60).stdout.decode()
        for row in ('\t2\t"MPI_COMM_WORLD"\n', '\t3\t"MPI_COMM_WORLD of ranks 2-4"\n'):
            self.assertEqual(dump.count(row), 1, row)

    def test_one_after_another(self):
        self.check(self.both(self.program, "twice"), 7, 5)

    def test_grandchildren(self):
        self.check(self.both(self.program, "grand"), 7, 5)

    def test_callers_in_any_order(self):
        self.check(self.both(self.program, "irregular", ranks=4), 6, 2)

    def test_multiple_commands(self):
        other = os.path.join(self.directory, "other")
        os.symlink(self.program, other)
        lines = self.both(self.program, "multiple", other)
        self.assertEqual(sorted(line for line in lines if line.startswith("child")),
                         ["child 0 of 3: spawn 'one' ''", "child 1 of 3: other 'two' ''",
                          "child 2 of 3: other 'two' ''"])
        self.check(lines, 5, 3)

    def test_two_roots_at_once(self):
        for run in ("first", "second", "third"):  # the roots meet in another order, and each has to be right
            self.both(self.program, "at-once", ranks=3, run=run)
            report = self.report(run)
            self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(9)))
            self.assertEqual(report["run"]["spawned_ranks"], 6)
            self.assertTrue(report["run"]["complete"])
            self.assertNotIn("repeated_ranks", [note["code"] for note in report["run"]["note_records"]])

    def test_late_child(self):
        lines = self.both_late()
        waited_s = float(re.search(r"sends at ([\d.]+)", lines)[1]) - float(re.search(r"waits from ([\d.]+)", lines)[1])
        report = self.report()
        waits = [wait for wait in report["mpi"]["waits"] if wait["kind"] == "late_sender" and wait["rank"] == 0]
        causes = collections.Counter()
        for wait in waits:
            for cause in wait["caused_by"]:
                causes[cause["rank"]] += cause["wait_s"]
        self.measured_above(waited_s, 0.2, "waiting by the program's clock")  # of 0.4, if its beginning is not late itself
        self.measured_near(causes[3], waited_s, 0.05 * waited_s + 0.002, "waiting for the late child")

    def both_late(self):
        done = self.record([self.program, "late"], before=recording.launcher(self.flavour, 2), options=["-q"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def test_info(self):
        os.mkdir(os.path.join(self.directory, "there"))
        shutil.copy(self.program, os.path.join(self.directory, "there", "local"))
        lines = self.both(self.program, "where", os.path.join(self.directory, "there"), "./local")
        self.assertIn(f"child 1: in {self.directory}/there, variable is set", lines)
        self.check(lines, 4, 2)

    def test_nodes_of_a_spawned_world(self):
        """The nodes compare their clocks among themselves; messages bound them against the parents' node."""
        lines = self.both(self.program, "nodes")
        report = self.check(lines, 4, 2, nodes=3)
        self.assertEqual({node["name"]: node["ranks"] for node in report["nodes"] if len(node["name"]) == 1},
                         {"b": [2], "c": [3]})
        self.assertEqual(report["run"]["command"], [self.program, "nodes"])
        self.assertFalse([note for note in report["run"]["note_records"] if note["code"].startswith("clocks_")])
        run = os.path.join(self.directory, "run")
        self.assertEqual([name for name in os.listdir(run) if name.startswith(".clocks")], [])
        dump = subprocess.run([recording.CLUSTERPROF, "dump", os.path.join(run, "node-c.h5")], capture_output=True,
                              timeout=60).stdout.decode()
        table = dump[dump.index("[clock_offsets]"):].split("\n\n")[0].splitlines()
        rows = [dict(zip(table[1].split("\t"), row.split("\t"))) for row in table[2:]]
        self.assertEqual([row["reference_rank"] for row in rows], ["2", "2"], table)
        for row in rows:
            self.assertLessEqual(abs(int(row["offset_ns"])), int(row["error_ns"]))

    def test_unknown_info_keys(self):
        lines = self.both(self.program, "unknown-key", self.directory, self.program)
        report = self.check(lines_of_first(lines, 2), 2, 0)
        self.assertIn(("spawned_with_info", [[0, 0]]),
                      [(note["code"], note["ranks"]) for note in report["run"]["note_records"]])

    def test_no_children(self):
        lines = self.both(self.program, "exchange", options=["--no-children"])
        report = self.report()
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1])

    def test_some_ranks(self):
        self.both(self.program, "exchange", options=["--ranks", "0,3"])
        self.assertEqual([rank["rank"] for rank in self.report()["ranks"]], [0, 3])
        # The root is not recorded: neither are those that it spawns.
        self.both(self.program, "exchange", options=["--ranks", "1-3"], run="other")
        self.assertEqual([rank["rank"] for rank in self.report("other")["ranks"]], [1])

    def test_command_that_does_not_exist(self):
        before = recording.launcher(self.flavour, 2)
        done = self.bare_and_recorded([self.program, "missing"], before, ["-q"])
        self.assertEqual(*(d.returncode for d in done))
        self.assertEqual(*(sorted(d.stdout.splitlines()) for d in done))
        for d in done:
            self.assertIn("Executable: /no/such/command", d.stderr.decode())

    def test_no_slots_for_children(self):
        """Open MPI has no slots for them: the same error, and no ranks are missing. (Its mpirun then ends or hangs
        in MPI_Finalize, so the program does not get there: tests/mpi_defects.)"""
        before = ["mpirun.openmpi", "--host", "localhost:2", "-n", "1"]
        bare, done = self.bare_and_recorded([self.program, "too-many"], before, ["-q"],
                                            env=environment(oversubscribe=False))
        self.assertEqual(done.returncode, bare.returncode, done.stderr.decode())
        lines = sorted(done.stdout.decode().splitlines())
        self.assertEqual(lines, sorted(bare.stdout.decode().splitlines()))
        self.assertEqual(len([line for line in lines if re.fullmatch(r"class [1-9]\d*", line)]), 1, lines)
        run = self.report()["run"]
        self.assertEqual((run["ranks"], run["spawned_ranks"], run["missing_ranks"]), (1, 0, []))

    def test_children_that_outlive_their_parents(self):
        lines = self.both(self.program, "outlive")
        report = self.check(lines, 4, 2)
        ranks = report["ranks"]
        self.assertGreater(min(rank["elapsed_s"] for rank in ranks[2:]), 0.9)

    def test_child_that_fails(self):
        before = recording.launcher(self.flavour, 2)
        bare, done = self.bare_and_recorded([self.program, "fail"], before, ["-q"])
        self.assertEqual(bare.returncode, 3)
        self.assertEqual(done.returncode, 3, done.stderr.decode())
        self.assertEqual(self.report()["ranks"][3]["exit"]["status"], 3)

    def test_without_launcher(self):
        """A single process that becomes an MPI job when it spawns."""
        lines = self.both(self.program, "exchange", ranks=0)
        self.check(lines, 4, 3, unfinished=1)  # nobody but Open MPI's own daemon waits for the children

    def test_python(self):
        self.need(recording.PYTHON)
        if subprocess.run([recording.PYTHON, "-c", "import mpi4py"], capture_output=True).returncode != 0:
            self.skipTest("no mpi4py")
        for ranks in (2, 0):
            lines = self.both(recording.PYTHON, SCRIPT, ranks=ranks, run=f"run{ranks}")
            first = max(ranks, 1)
            sent = [f"sent 0 {first + i} 4000" for i in range(2)] + [f"sent {first + i} 0 3000" for i in range(2)]
            report = self.check(sent, first + 2, 2, run=f"run{ranks}", unfinished=0 if ranks else 1)
            work = self.function(report, "work_of_a_child")
            self.assertEqual(work["kind"], "python")
            self.assertIn(work["rank_max"], (first, first + 1))
            self.assertGreater(work["total_s"], 0.8)


class openmpi_nodes(Spawn):
    flavour = "openmpi"

    def nodes(self, *arguments):
        return subprocess.run(["bash", NODES, "-d", self.state, *arguments], cwd=self.directory,
                              env=dict(os.environ, MPIRUN="mpirun.openmpi"), capture_output=True, timeout=120)

    def test_children_on_another_node(self):
        self.state = tempfile.mkdtemp(prefix="cps-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.state, ignore_errors=True)
        done = self.nodes("start", "2", "--slots", "6")
        if done.returncode != 0:
            self.skipTest("cannot simulate nodes here: " + done.stderr.decode().strip())
        self.addCleanup(self.nodes, "stop")
        command = ["run", "-n", "2", "--host", "n1:6,n2:6"]
        bare = self.nodes(*command, self.program, "host", "n2")
        self.assertEqual(bare.returncode, 0, bare.stderr.decode())
        done = self.nodes(*command, recording.CLUSTERPROF, "-o", "run", self.program, "host", "n2")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        lines = sorted(done.stdout.decode().splitlines())
        self.assertEqual(lines, sorted(bare.stdout.decode().splitlines()))
        report = self.check(lines, 4, 2, nodes=2)
        self.assertEqual({node["name"]: node["ranks"] for node in report["nodes"]}, {"n1": [0, 1], "n2": [2, 3]})
        self.assertIn("4 ranks, 2 of them spawned, on 2 nodes", done.stderr.decode())


class mpich(Spawn):
    flavour = "mpich"

    def test_exchange(self):
        done = self.bare([*recording.launcher(self.flavour, 2), self.program, "exchange"])
        if done.returncode != 0:
            said = done.stderr.decode().split("\n")
            self.skipTest("this MPICH cannot spawn: " + next((line for line in reversed(said) if line.strip()), "it says nothing"))
        self.check(self.both(self.program, "exchange"), 5, 3)


def lines_of_first(lines, ranks):
    """The lines on what the ranks of the first world have sent."""
    return [line for line in lines if line.startswith("sent") and int(line.split()[1]) < ranks]


del Spawn
recording.main()
