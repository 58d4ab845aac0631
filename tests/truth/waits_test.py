"""Who waited for whom, where, and whose fault it was: programs of ranks that are late on purpose
(programs/waits.c, waits.py) and write down themselves when they entered and left every call. Their own clock
readings, and the definitions of docs/metrics.md applied to operations that they named (support/waiting.py), against
the report.

Waiting may differ by 5 % and 1 ms for each operation: between the program's reading of the clock and the
wrapper's the rank may lose its core. Delays are 20 ms and more, so that a wait that is missed, counted twice or
charged to another rank is far outside."""

import collections
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import time

import measured
import recording
import truth
import waiting

NODES = os.path.join(recording.SOURCE, "tests", "support", "mpi_nodes.bash")
SHIFTED_CLOCK = os.path.join(recording.SOURCE, "tests", "integration", "clocks", "shifted_clock.c")
C_PROGRAM, PYTHON_PROGRAM = (os.path.join(truth.PROGRAMS, name) for name in ("waits.c", "waits.py"))

# Shares of waiting that samples charge to functions. Of what comes after a sleep up to 40 ms are taken to be
# still part of it (docs/accuracy.md), which is a fifth of these delays; where all ranks do the same afterwards that
# cancels out.
DOING, ROOT_CAUSE = 0.2, 0.1


def lines_at_fault(program):
    """{function: line} of the lines at which the ranks of a program are late."""
    with open(program) as file:
        found = [(number, re.search(r"(?://|#) at fault: (\w+)", line)) for number, line in enumerate(file, 1)]
    return {match[1]: number for number, match in found if match}


class Waits(truth.TruthTest):
    def setUp(self):
        recording.RecordingTest.setUp(self)  # without h5py
        self.off = []

    def tearDown(self):
        super().tearDown()
        if self.off:
            raise measured.Outside(f"{self.name}: " + "\n".join(self.off[:20]))

    def compare(self, version, what, expected, seen, tolerance=truth.POINTS):
        self.figure(python=version, what=what, expected=expected, seen=seen, tolerance=tolerance)
        self.judge(what, expected, seen, tolerance)

    def judge(self, what, expected, seen, tolerance):
        try:
            self.measured_near(seen, expected, tolerance, what)
        except measured.Outside as outside:  # the others are compared, too
            self.off.append(str(outside))

    def close(self, what, expected_s, seen_s, operations):
        tolerance = 0.05 * expected_s + 0.001 * operations
        self.figure(scenario=self.name, what=what, expected=expected_s, seen=seen_s, tolerance=tolerance)
        self.judge(what, expected_s, seen_s, tolerance)

    def all_close(self, what, expected_s, seen_s, operations):
        """Sums by some key, in seconds; operations by the same key."""
        for key in sorted(set(expected_s) | set(seen_s), key=str):
            self.close(f"{what} {key}", expected_s.get(key, 0.0), seen_s.get(key, 0.0), operations.get(key, 1))

    def truth_of(self, scenario, ranks, flavour="openmpi", python=False, rounds=(), before=None, runner=None, **how):
        """Records a scenario: what its ranks wrote down, and the report."""
        self.name = f"{scenario}, {ranks} ranks" + (
            ", mpi4py" if python else {"mpich": ", MPICH", "abi": ", the standard's ABI"}.get(flavour, ""))
        if runner is not None:
            self.name += ", 2 nodes"
        directory = os.path.join(self.directory, "notes")
        os.mkdir(directory)
        command = [recording.program(flavour, "waits")]
        if python:
            if importlib.util.find_spec("mpi4py") is None:
                self.skipTest("/usr/bin/python3 has no mpi4py")
            command = [recording.PYTHON, "-B", PYTHON_PROGRAM]
        self.program = PYTHON_PROGRAM if python else C_PROGRAM
        self.need(command[0])
        command += [scenario, directory, *map(str, rounds)]
        if runner is None:
            runner = self.record
            how["before"] = recording.launcher(flavour, ranks) if before is None else before
        done = runner(command, **how)
        if done.returncode == 77:
            self.skipTest(done.stderr.decode(errors="replace").strip())
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        notes = waiting.read(directory)
        self.assertEqual({note.rank for note in notes}, set(range(ranks)))
        return notes, self.report()

    # --- the parts of a report ---

    def check_sums(self, notes, report):
        """How long each rank waited, by kind, by call site and altogether."""
        all_waits = waiting.waits(notes)
        for what, key_of in (("rank", lambda wait: wait.rank), ("kind", lambda wait: (wait.kind, wait.rank)),
                             ("place", lambda wait: (wait.kind, wait.rank, wait.call, wait.where)),
                             ("call", lambda wait: (wait.call, wait.where))):
            expected, operations = collections.Counter(), collections.Counter()
            # What a rank has in MPI is its main thread's.
            for wait in (wait for wait in all_waits if wait.thread == 0 or what != "rank"):
                expected[key_of(wait)] += wait.seconds
                operations[key_of(wait)] += 1
            seen = collections.Counter()
            if what == "rank":
                seen.update({rank["rank"]: rank["mpi_wait_s"] for rank in report["ranks"]})
                for rank in report["ranks"]:
                    self.assertAlmostEqual(rank["mpi_wait_s"] + rank["mpi_transfer_s"], rank["mpi_s"], places=6)
            elif what == "kind":
                for row in report["mpi"]["waits"]:
                    seen[row["kind"], row["rank"]] += row["wait_s"]
            elif what == "place":
                for row in report["mpi"]["waits"]:
                    self.assertFalse(any("rest" in part for part in row["where"]))
                    for part in row["where"]:
                        seen[row["kind"], row["rank"], part["op"], part["function"]] += part["wait_s"]
            else:
                for call in report["mpi"]["calls"]:
                    if call["wait_s"]:
                        seen[call["op"], call["function"]] += call["wait_s"]
            self.all_close(what, expected, seen, operations)

    def check_causes(self, notes, report):
        """For whom each rank waited, by kind."""
        def late(kind, rank):
            # Odd or even ranks come equally late to what all of them call in "messages": which of them is last is chance.
            return rank % 2 if kind.startswith("wait_at") and self.name.startswith("messages") else rank

        expected, of_kind = collections.Counter(), collections.Counter()
        for wait in waiting.waits(notes):
            expected[wait.kind, wait.rank, late(wait.kind, wait.cause_rank)] += wait.seconds
            of_kind[wait.kind, wait.rank] += 1
        seen, rest = collections.Counter(), collections.Counter()
        for row in report["mpi"]["waits"]:
            for cause in row["caused_by"]:
                if "rest" in cause:  # the smallest ones are summed up
                    rest[row["kind"], row["rank"]] += cause["wait_s"]
                else:
                    seen[row["kind"], row["rank"], late(row["kind"], cause["rank"])] += cause["wait_s"]
        for key in set(expected) | set(seen):
            self.measured_below(rest[key[:2]],
                                0.3 * sum(seen[other] for other in seen if other[:2] == key[:2]) + 0.002, "the rest")
            left_s = min(rest[key[:2]], max(0.0, expected[key] - seen[key]))
            self.close(f"cause {key}", expected[key], seen[key] + left_s, of_kind[key[:2]])

    def check_quality(self, report, level=0):
        """Everything was matched, and no message came before it was sent."""
        analysis = report["wait_analysis"]
        self.assertEqual(analysis["event_level"] > 0, level > 0)
        if level == 0:
            self.assertEqual((analysis["unmatched_messages"], analysis["unmatched_collectives"]), (0, 0), analysis)
        self.assertEqual(analysis["clock_violations"], 0)
        self.assertEqual(report["run"]["dropped"].get("mpi_event_ring_full", 0), 0)

    def check(self, notes, report):
        self.check_quality(report)
        self.check_sums(notes, report)
        self.check_causes(notes, report)

    def check_doing(self, notes, report):
        """What late ranks did while others waited for them, by function, and at which line."""
        lines, work = lines_at_fault(self.program), waiting.works(notes)
        by_line = collections.Counter()
        expected, seen = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
        for wait in waiting.waits(notes):
            expected[wait.kind, wait.cause_rank].update(waiting.causes(wait, work))
        for row in report["mpi"]["waits"]:
            for cause in row["caused_by"]:
                in_mpi = cause["op"] is not None
                seen[row["kind"], cause["rank"]]["" if in_mpi else cause["function"]] += cause["wait_s"]
                if not in_mpi and cause["function"] in lines:
                    self.assertEqual(os.path.basename(cause["file"]), os.path.basename(self.program))
                    at_fault = cause["line"] == lines[cause["function"]]
                    by_line[cause["function"], at_fault] += cause["wait_s"]
        for function in {function for function, _ in by_line}:
            # The other lines of these functions take little, but may wait for a processor.
            wrong_s, right_s = by_line[function, False], by_line[function, True]
            if wrong_s + right_s > 0.1:
                self.measured_below(wrong_s / (wrong_s + right_s), 0.25, f"{function}(): waits charged to other lines")
        for key, by_function in expected.items():
            total = sum(by_function.values())
            for function in by_function if total > 0.2 else ():
                self.compare(self.name, f"doing {key}: {function}", by_function[function] / total,
                             seen[key][function] / sum(seen[key].values()), DOING)

    def roots(self, report):
        found = collections.Counter()
        for row in report["root_causes"]:
            found[row["rank"], row["function"] if row["op"] is None else ""] += row["wait_s"]
        return found

    def between(self, notes, ranks):
        """Two lists by rank: the seconds outside MPI between the calls that a rank wrote down, without its waiting for a
        processor; and how long it did wait for one in each of them."""
        both = [self.of_rank_between(notes, rank) for rank in range(ranks)]
        return [[useful for useful, _ in parts] for parts in both], [[ready for _, ready in parts] for parts in both]

    def worst_root(self, report):
        """The first root cause in the program itself: on a busy machine that one rank waits for a processor delays all."""
        return next(row for row in report["root_causes"] if row["function"] != waiting.LACKED_PROCESSOR)

    def of_rank_between(self, notes, rank):
        calls = sorted({(note.enter_ns, note.exit_ns, note.ready_at_enter_ns, note.ready_at_exit_ns) for note in notes
                        if note.rank == rank and note.what not in ("work", "program")})
        return [((call[0] - before[1] - (call[2] - before[3])) / 1e9, (call[2] - before[3]) / 1e9)
                for before, call in zip(calls, calls[1:])]

    def skew_s(self, notes):
        """How far ranks are apart when they begin, and when they end: ranks that start late make T_ideal longer."""
        lives = [(note.enter_ns, note.exit_ns) for note in notes if note.what == "program"]
        return sum(max(times) - min(times) for times in zip(*lives)) / 1e9

    # --- one node ---

    def check_scenario(self, scenario, ranks, **how):
        notes, report = self.truth_of(scenario, ranks, **how)
        self.check(notes, report)
        return notes, report

    def test_messages_2(self):
        self.check_scenario("messages", 2)

    def test_messages_4(self):
        notes, report = self.check_scenario("messages", 4)
        self.check_doing(notes, report)

    def test_messages_8(self):
        self.check_scenario("messages", 8, rounds=[1])

    def test_messages_mpich(self):
        self.check_scenario("messages", 2, flavour="mpich")

    def test_messages_abi(self):
        """A program of the MPI standard's interface, with a library that forwards to MPICH."""
        self.check_scenario("messages", 2, flavour="abi")

    def test_messages_python(self):
        notes, report = self.check_scenario("messages", 4, python=True)
        self.check_doing(notes, report)

    def test_collectives_2(self):
        self.check_scenario("collectives", 2)

    def test_collectives_4(self):
        self.check_scenario("collectives", 4)

    def test_collectives_mpich(self):
        self.check_scenario("collectives", 4, flavour="mpich")

    def test_collectives_abi(self):
        self.check_scenario("collectives", 4, flavour="abi")

    def test_partitioned(self):
        """A message has left with its last partition, and has a receiver when that has started its request."""
        notes, report = self.check_scenario("partitioned", 2, flavour="mpich")
        self.check_doing(notes, report)

    def test_partitions_that_are_asked_for(self):
        """Calls of MPI_Parrived in a row are as one that is as long as they are together. How long such a short call is
        without its recording, the program cannot say, but how the report's time is divided among the messages, and when
        the last partition of each was ready. What is left for MPI_Wait is short."""
        notes, report = self.truth_of("polled", 2, flavour="mpich")
        self.check_quality(report)
        ready_ns = {note.key: note.enter_ns for note in notes if note.what == "ready"}
        polls = [note for note in notes if note.what == "polls"]
        self.assertEqual((len(polls), len(ready_ns)), (3, 3))
        calls = {call["op"]: call for call in report["mpi"]["calls"] if call["function"] == "polled"}
        asking = calls["MPI_Parrived"]
        late_s = 3 * 0.2
        self.measured_above(asking["time_s"], 0.05 * late_s, "time in MPI_Parrived")
        inside = asking["time_s"] / sum((note.exit_ns - note.enter_ns) / 1e9 for note in polls)
        expected_s = sum(max((note.exit_ns - note.enter_ns) / 1e9 * inside - (note.exit_ns - ready_ns[note.key]) / 1e9, 0)
                         for note in polls)
        self.close("waiting in MPI_Parrived", expected_s, asking["wait_s"], 2 * len(polls))
        self.measured_below(calls["MPI_Wait"]["wait_s"], 0.05 * late_s, "waiting in MPI_Wait")
        rows = [row for row in report["mpi"]["waits"] if any(part["op"] == "MPI_Parrived" for part in row["where"])]
        self.assertEqual([(row["kind"], row["rank"]) for row in rows], [("late_sender", 0)])
        causes = collections.Counter()
        for cause in rows[0]["caused_by"]:
            causes[cause["rank"], cause["function"] if cause["op"] is None else ""] += cause["wait_s"]
        self.compare(self.name, "caused by prepare_message", 1.0, causes[1, "prepare_message"] / sum(causes.values()), DOING)
        self.measured_above(self.roots(report)[1, "prepare_message"], 0.5 * asking["wait_s"], "root cause prepare_message")

    def test_one_sided(self):
        self.check_scenario("one_sided", 4)

    def test_threads(self):
        notes, report = self.check_scenario("threads", 2)
        self.check_doing(notes, report)

    # --- whose fault ---

    def check_straggler(self, ranks, **how):
        """load_batch() makes a rank late, not the compute() of all that follows it."""
        notes, report = self.check_scenario("straggler", ranks, **how)
        self.check_doing(notes, report)
        expected, work = collections.Counter(), waiting.works(notes)
        for wait in waiting.waits(notes):
            for function, seconds in waiting.causes(wait, work).items():
                # All ranks compute equally long: that makes nobody late, however late it is done.
                expected[wait.cause_rank, "load_batch" if function == "compute" else function] += seconds
        total, seen = sum(expected.values()), self.roots(report)
        for key, seconds in expected.items():
            self.compare(self.name, f"root cause {key}", seconds / total, seen[key] / sum(seen.values()), ROOT_CAUSE)
        self.compare(self.name, "all root causes together", 1.0, sum(seen.values()) / total, 0.05)
        worst = self.worst_root(report)
        self.measured_above(expected[worst["rank"], worst["function"]], 0.8 * max(
            seconds for (_, function), seconds in expected.items() if function != waiting.LACKED_PROCESSOR), "the worst one")
        self.assertEqual(worst["waiting_ranks"], ranks - 1)
        self.assertEqual((os.path.basename(worst["file"]), worst["line"]),
                         (os.path.basename(self.program), lines_at_fault(self.program)["load_batch"]))
        if worst is report["root_causes"][0]:
            findings = " ".join(finding["text"] for finding in report["findings"])
            self.assertIn(f"rank {worst['rank']} in load_batch()", findings)
        return notes, report

    def test_straggler_2(self):
        self.check_straggler(2)

    def test_straggler_8(self):
        self.check_straggler(8, rounds=[20, 7])

    def test_straggler_python(self):
        self.check_straggler(2, python=True)

    def test_straggler_mpich(self):
        self.check_straggler(2, flavour="mpich")

    def test_straggler_of_sessions(self):
        """Without MPI_Init: on a communicator of a session, from the call that makes it to the one that ends it."""
        self.check_straggler(2, flavour="mpich", env=dict(os.environ, WAITS_SESSION="1"))

    def test_messages_of_sessions(self):
        self.check_scenario("messages", 2, flavour="mpich", rounds=[1], env=dict(os.environ, WAITS_SESSION="1"))

    def test_collectives_of_sessions(self):
        self.check_scenario("collectives", 4, flavour="mpich", env=dict(os.environ, WAITS_SESSION="1"))

    def test_straggler_4_and_efficiencies(self):
        """All ranks wait for one at a time: an ideal network would not help, and no rank has much more to do."""
        notes, report = self.check_straggler(4)
        self.check_ideal(notes, report, self.between(notes, 4), lambda parts: sum(map(max, zip(*parts))))
        critical = {row["function"]: row["time_s"] for row in report["critical_path"] if row["op"] is None}
        late_s = sum((note.exit_ns - note.enter_ns) / 1e9 for note in notes if note.where == "load_batch")
        self.compare(self.name, "critical path: load_batch", 1.0, critical["load_batch"] / late_s, 0.1)

    def check_chain(self, ranks, **how):
        """Rank 1 is late because rank 0 is, and so on: the fault is rank 0's, and rank 1's where it adds to it."""
        notes, report = self.check_scenario("chain", ranks, **how)
        expected = collections.Counter()
        for key, by_rank in waiting.root_causes(waiting.waits(notes), waiting.works(notes)).items():
            expected[key] += sum(by_rank.values())
        total, seen = sum(expected.values()), self.roots(report)
        for key in set(expected) | set(seen):
            self.compare(self.name, f"root cause {key}", expected[key] / total, seen[key] / sum(seen.values()),
                         ROOT_CAUSE)
        worst = self.worst_root(report)
        # Where the machine keeps another rank from running for long, that one is worst, as it says itself.
        self.measured_above(expected[worst["rank"], worst["function"]], 0.8 * max(
            seconds for (_, function), seconds in expected.items() if function != waiting.LACKED_PROCESSOR), "the worst one")
        if worst["rank"] == 0:
            self.assertEqual((worst["function"], worst["waiting_ranks"]), ("load_batch", ranks - 1))
        return notes, report

    def test_chain_4(self):
        self.check_chain(4)

    def test_chain_8(self):
        self.check_chain(8)

    def test_chain_python(self):
        self.check_chain(4, python=True)

    # --- efficiencies ---

    def check_ideal(self, notes, report, between, ideal_between):
        """`between`: what between() returns; `ideal_between()`: how long all of one of its lists takes when messages cost
        nothing. What ranks do before the first call and after the last one adds to it; not known is how far apart the
        ranks are there. How long a rank waited for a processor is known in sum, but not always between which calls:
        T_ideal contains a part of it, up to all."""
        useful = {rank["rank"]: rank["useful_s"] for rank in report["ranks"]}
        useful_between, ready_between = between
        around = max(useful[rank] - sum(parts) for rank, parts in enumerate(useful_between))
        shortest = ideal_between(useful_between) + around
        longest = shortest + ideal_between(ready_between) + max(
            note.ready_at_enter_ns / 1e9 for note in notes if note.what == "program")
        efficiency = report["efficiency"]
        focus_s = report["run"]["elapsed_s"] - report["run"]["mpi_startup_s"]
        tolerance = 0.03 + self.skew_s(notes) / focus_s
        busiest = max(useful.values())
        for what, least, most in (("serialization", busiest / longest, busiest / shortest),
                                  ("transfer", shortest / focus_s, longest / focus_s)):
            self.compare(self.name, what, (least + most) / 2, efficiency[what], tolerance + (most - least) / 2)
        self.assertAlmostEqual(efficiency["serialization"] * efficiency["transfer"], efficiency["communication"],
                               places=6)
        windows = report["efficiency_windows"]
        waited = sum(wait["wait_s"] for wait in report["mpi"]["waits"])
        self.measured_near(sum(window["wait_s"] for window in windows), waited, 0.02 * waited + 0.001, "windows")

    def test_pipeline(self):
        """One rank works at a time: the ideal network needs the sum of all work."""
        ranks = 4
        notes, report = self.check_scenario("pipeline", ranks)
        self.check_ideal(notes, report, self.between(notes, ranks), lambda parts: sum(map(sum, parts)))
        self.measured_below(report["efficiency"]["serialization"], 1.3 / ranks, "serialization")

    def test_balanced(self):
        """All ranks sleep equally long in each round, but for what a busy machine adds."""
        ranks = 4
        notes, report = self.check_scenario("balanced", ranks)
        between = self.between(notes, ranks)
        self.check_ideal(notes, report, between, lambda parts: sum(map(max, zip(*parts))))
        useful = [sum(parts) for parts in between[0]]
        self.measured_near(report["efficiency"]["load_balance"], sum(useful) / ranks / max(useful), 0.03, "load_balance")

    # --- a part of the events ---

    def test_budget(self):
        """With room for few events the analysis looks at a part of the operations and says so."""
        budget = 1700  # a rank has about 2000; a sample of half of them, and stretches of time
        environment = dict(os.environ, CLUSTERPROF_EVENT_BUDGET=str(budget))
        notes, report = self.truth_of("many", 4, env=environment)
        self.check_quality(report, level=1)
        self.assertLessEqual(report["wait_analysis"]["events"], 4 * budget)
        self.assertGreater(report["wait_analysis"]["operations"], 4 * 2000)
        expected = collections.Counter()
        for wait in waiting.waits(notes):
            expected[wait.rank] += wait.seconds
        for rank in report["ranks"]:
            self.compare(self.name, f"waiting from a sample of rank {rank['rank']}", 1.0,
                         rank["mpi_wait_s"] / expected[rank["rank"]], 0.15)
        by_cause, seen = collections.Counter(), collections.Counter()
        for wait in waiting.waits(notes):
            by_cause[wait.cause_rank] += wait.seconds
        for row in report["mpi"]["waits"]:
            for cause in row["caused_by"]:
                seen[cause["rank"]] += cause["wait_s"]
        for rank, seconds in by_cause.items():
            self.compare(self.name, f"cause from a sample (rank {rank})", seconds / sum(by_cause.values()),
                         seen[rank] / sum(seen.values()), 0.1)
        text = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "run")],
                              capture_output=True, timeout=60, check=True).stdout.decode()
        self.assertRegex(text, r"one in (about )?\d+")

    def test_budget_and_calls_of_which_a_part_is_known(self):
        """Messages of one MPI_Waitall have different numbers, and the sample has those with certain numbers."""
        program = recording.program("openmpi", "apart")
        self.need(program)
        self.name = "apart, 4 ranks"
        done = self.record([program, "3000"], before=recording.launcher("openmpi", 4),
                           env=dict(os.environ, CLUSTERPROF_EVENT_BUDGET="9000"))  # a rank has about 27,000
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        waited = json.loads(done.stdout)
        report = self.report()
        level = report["wait_analysis"]["event_level"]
        self.assertGreaterEqual(level, 2)
        # The messages of 32 steps in turn are kept, or left out. Of those that are kept, about a half of the calls are known in whole.
        known = 0.5 ** (level + 1)
        for rank, own in zip(report["ranks"], waited):
            if rank["rank"] != 1:  # the late one itself waits hardly ever
                error = math.sqrt(own["squares_s2"] * (1 / known - 1)) / own["sum_s"]
                self.compare(self.name, f"waiting from calls that are known in whole, rank {rank['rank']}", 1.0,
                             rank["mpi_wait_s"] / own["sum_s"], max(0.15, 4 * error))
        by_kind = collections.Counter()
        for row in report["mpi"]["waits"]:
            by_kind[row["kind"]] += row["wait_s"]
        self.measured_below(by_kind["late_receiver"], 0.05 * by_kind["late_sender"], "time of late receivers")

    # --- two nodes ---

    def on_two_nodes(self, command):
        def nodes(*arguments):
            return subprocess.run(["bash", NODES, "-d", state, *arguments], cwd=self.directory,
                                  env=dict(os.environ, MPIRUN="mpirun.openmpi"), capture_output=True, timeout=120)
        state = tempfile.mkdtemp(prefix="cpn-", dir="/tmp")
        self.addCleanup(shutil.rmtree, state, ignore_errors=True)
        done = nodes("start", "2", "--slots", "2")
        if done.returncode != 0:
            self.skipTest("cannot simulate nodes here: " + done.stderr.decode().strip())
        self.addCleanup(nodes, "stop")
        return nodes("run", "-n", "4", "--map-by", "node", recording.CLUSTERPROF, "-o",
                     os.path.join(self.directory, "run"), *command)

    def test_straggler_on_two_nodes(self):
        _, report = self.check_straggler(4, runner=self.on_two_nodes)
        self.assertEqual(len(report["nodes"]), 2)
        self.measured_below(report["wait_analysis"]["clock_error_s"], 0.001, "clock error")

    def test_messages_on_two_nodes(self):
        self.check_scenario("messages", 4, rounds=[1], runner=self.on_two_nodes)

    def test_clocks_that_differ(self):
        """Of two nodes on this machine, the second one's clock is 7 s ahead and fast by a thousandth: milliseconds by
        the end of the run. The program reads another clock, which is right."""
        self.need("cc")
        def file(name, text):
            path = os.path.join(self.directory, "prefix", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as script:
                script.write("#!/bin/sh\n" + text)
            os.chmod(path, 0o755)
            return path
        library = os.path.join(self.directory, "shifted_clock.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", SHIFTED_CLOCK, "-o", library], check=True)
        shift = f"if [ $CLUSTERPROF_NODE = part1 ]; then export LD_PRELOAD={library}; fi\n"
        wrapper = file("shifted", "export WAITS_REAL_TIME=1 CLUSTERPROF_NODE=part$((OMPI_COMM_WORLD_RANK % 2))\n"
                       "export CLOCK_SHIFT_NS=7000000000 CLOCK_DRIFT_PPM=1000 "
                       f"CLOCK_BASE_NS={time.clock_gettime_ns(time.CLOCK_MONOTONIC)}\n{shift}exec \"$@\"\n")
        # The collector does not get the program's LD_PRELOAD, but lives by the clock of its node.
        libexec = os.path.join(recording.BUILD, "libexec", "clusterprof")
        file("libexec/clusterprof/collector", f"{shift}exec {libexec}/collector \"$@\"\n")
        os.symlink(os.path.join(libexec, "analyze"), os.path.join(self.directory, "prefix/libexec/clusterprof/analyze"))
        os.symlink(os.path.join(recording.BUILD, "lib"), os.path.join(self.directory, "prefix/lib"))
        shutil.copy(recording.CLUSTERPROF, file("bin/clusterprof", ""))

        def runner(command):
            return self.bare([*recording.launcher("openmpi", 4), wrapper, f"{self.directory}/prefix/bin/clusterprof",
                              "-o", f"{self.directory}/run", *command])
        notes, report = self.truth_of("straggler", 4, runner=runner)
        self.name = "straggler, 4 ranks, clocks that differ"
        self.assertEqual(len(report["nodes"]), 2)
        self.check(notes, report)
        self.check_doing(notes, report)
        # Of milliseconds; 20 us where ranks need not wait for a processor to answer.
        self.measured_below(report["wait_analysis"]["clock_error_s"], 2e-4, "clock error")


if __name__ == "__main__":
    recording.main()
