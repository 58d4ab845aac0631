"""torch.distributed over gloo: its calls are recorded like MPI's, and waiting is explained in the same way. FakeLibrary: with
libraries that look like libtorch. Torch: with torch of /usr/bin/python3, or of the command in TORCH_PYTHON."""

import collections
import json
import os
import shlex
import subprocess

import profile_rows
import recording

ANALYZE = os.path.join(recording.BUILD, "libexec", "clusterprof", "analyze")
PROGRAM = os.path.join(recording.SOURCE, "tests", "programs", "torch_ranks.py")
PYTHON = shlex.split(os.environ.get("TORCH_PYTHON", recording.PYTHON))
CALLS_RANKS, TIMED_RANKS = 3, 2  # the timed ones have a core each


class FakeLibrary(recording.RecordingTest):
    """Without torch: a library that has its functions under the same names."""

    def run_with(self, release):
        folder = os.path.join(recording.BUILD, "programs", "torch")
        command = [os.path.join(folder, "load_torch"), os.path.join(folder, release, "libtorch_cpu.so")]
        bare, recorded = self.bare_and_recorded(command, options=["-q"])
        self.assertEqual((bare.returncode, bare.stdout, bare.stderr), (42, b"0 wrong\n", b""))
        self.assertEqual((recorded.returncode, recorded.stdout, recorded.stderr), (42, b"0 wrong\n", b""))
        return self.report()

    def check_calls(self, release):
        report = self.run_with(release)
        found = collections.defaultdict(lambda: [0, 0, 0])
        for call in report["mpi"]["calls"]:
            self.assertEqual(call["library"], "torch.distributed")
            for i, key in enumerate(("count", "sent_bytes", "recv_bytes")):
                found[call["op"]][i] += call[key]
        tensors, lists = 2 * 400, 4 * 400
        expected = {
            "new_process_group": [2, 0, 0],
            "broadcast": [1, tensors, 0],
            "all_reduce": [8, 8 * tensors, 8 * tensors],
            "reduce": [1, tensors, tensors],
            "all_gather": [3, 2 * tensors + 400, 2 * lists + 400],
            "gather": [1, tensors, lists],
            "scatter": [1, lists, tensors],
            "all_to_all": [1, 400, 400],
            "reduce_scatter": [2, 0, 0],
            "barrier": [3, 0, 0],
            "monitored_barrier": [1, 0, 0],
            "send": [1, tensors, 0],
            "recv": [2, 0, 2 * tensors],
            "Work.wait": [19, 0, 0],
            "Reducer.finalize_backward": [1, 0, 0],
        }
        more = {}
        if release.startswith("2"):
            # What is made of an all_reduce is one operation.
            more = {"all_gather": [1, tensors, tensors], "reduce_scatter": [2, 400 + tensors, 400 + tensors], "Work.wait": [3, 0, 0]}
        if release == "2_14":
            more["all_to_all"] = [1, tensors, tensors]
            more["Work.wait"][0] += 1
            more["new_process_group"] = [1, 0, 0]
        for op, numbers in more.items():
            expected[op] = [a + b for a, b in zip(expected[op], numbers)]
        self.assertEqual(dict(found), expected)
        self.assertFalse(report["ranks"][0]["exit"]["lost"])  # such programs need not say when they end
        release_number = "2" if release.startswith("2") else "1.13"
        self.assertEqual(report["run"]["mpi_library"], f"torch.distributed over gloo (libtorch {release_number})")
        self.assertNotIn("torch_not_recorded", [note["code"] for note in report["run"]["note_records"]])
        profile = profile_rows.Profile(ANALYZE, os.path.join(self.directory, "run", "profile.h5"))
        groups = profile.tables["communicators"]
        # Groups have their own names, not those of their devices. One that gets other members (in 2.14) is another one.
        names = ["process group default_pg"] * (2 if release == "2_14" else 1) + ["process group pair/"]
        self.assertEqual(sorted(row["name"].strip('"') for row in groups), names)
        # All waits are for an operation of a group, but one that throws and one that returns false.
        of_none = sum(int(row["count"]) for row in profile.tables["mpi_calls"]
                      if profile.path_frames[int(row["path"])].name == "Work.wait"
                      and not (row["communicator"].isdigit() and int(row["communicator"]) < len(groups)))
        self.assertEqual(of_none, 2)
        # The ranks of this group are not the run's, and those of other members are not known.
        self.assertIn({"rank_row": "0", "number": "0"},
                      [{name: row[name] for name in ("rank_row", "number")} for row in profile.tables["group_numbers"]])

    def check_left_alone(self, release):
        report = self.run_with(release)
        self.assertEqual(report["mpi"].get("calls", []), [])
        self.assertIsNone(report["run"]["mpi_library"])
        self.assertIn("torch_not_recorded", [note["code"] for note in report["run"]["note_records"]])

    def test_a_layout_of_no_release_is_left_alone_and_the_report_says_so(self):
        self.check_left_alone("unknown")

    def test_a_library_whose_calls_do_not_leave_it_is_left_alone_and_the_report_says_so(self):
        self.check_left_alone("symbolic")


for release_ in ("1_13", "1_13_old_abi", "2_0", "2_0_old_abi", "2_6", "2_6_old_abi", "2_14"):
    setattr(FakeLibrary, f"test_calls_of_{release_}_pass_unchanged_and_are_counted",
            lambda self, release=release_: self.check_calls(release))


class WithTorch(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        search = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        if subprocess.run([*PYTHON, "-c", search], check=False).returncode != 0:
            self.skipTest(f"{shlex.join(PYTHON)} has no torch (Debian's python3-torch)")

    def notes_of(self, folder, ranks):
        notes = []
        for rank in range(ranks):
            with open(os.path.join(folder, f"rank-{rank}.json"), encoding="ascii") as file:
                notes.append(json.load(file))
        return notes

    @staticmethod
    def cells(report):
        return {(cell["src"], cell["dst"]): (cell["messages"], cell["bytes"]) for cell in report["mpi"]["matrix"]}

    def late_senders(self, report):
        """Seconds by (who waited, for whom), and that all messages were matched."""
        quality = report["wait_analysis"]
        self.assertEqual((quality["unmatched_messages"], quality["unmatched_collectives"]), (0, 0), quality)
        waits = collections.Counter()
        for row in report["mpi"]["waits"]:
            if row["kind"] == "late_sender":
                for cause in row["caused_by"]:
                    waits[row["rank"], cause["rank"]] += cause["wait_s"]
        return waits


class Torch(WithTorch):
    def setUp(self):
        super().setUp()
        self.need("mpirun.mpich")

    def run_ranks(self, scenario, ranks=TIMED_RANKS):
        """Runs bare and recorded: (what each rank wrote down when recorded, report)."""
        results = []
        for recorded in (False, True):
            notes = os.path.join(self.directory, f"notes-{int(recorded)}")
            os.mkdir(notes)
            command = [*PYTHON, "-B", PROGRAM, notes, scenario]
            before = recording.launcher("mpich", ranks)
            done = self.record(command, before=before, options=["-q"]) if recorded else self.bare([*before, *command])
            self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
            results.append(self.notes_of(notes, ranks))
        self.assertEqual([note["result"] for note in results[0]], [note["result"] for note in results[1]])
        return results[1], self.report()

    @staticmethod
    def waited(notes):
        """By rank: how long it waited in collective calls for the last rank to come. Calls are (name, start of the
        operation, [start of the wait,] end)."""
        waited = [0.0] * len(notes)
        for calls in zip(*(note["calls"] for note in notes)):
            last = max(call[1] for call in calls)
            for rank, call in enumerate(calls):
                waited[rank] += max(0.0, min(last, call[-1]) - call[-2])
        return waited

    def check_waiting(self, notes, report):
        expected = self.waited(notes)
        self.assertGreater(expected[0], 0.5)
        self.measured_near(report["ranks"][0]["mpi_wait_s"], expected[0], 0.05 * expected[0], "waiting of rank 0")

    def check_cause(self, report):
        # On a busy machine the slow rank also waits for a processor, which has no line.
        cause = max((row for row in report["root_causes"] if row["file"]), key=lambda row: row["wait_s"])
        self.assertEqual((cause["rank"], cause["function"]), (1, "compute"), cause)
        self.assertTrue(cause["file"].endswith("torch_ranks.py"), cause)

    def test_a_rank_that_is_three_times_slower_is_named_with_its_line(self):
        notes, report = self.run_ranks("straggler")
        self.check_waiting(notes, report)
        self.check_cause(report)
        self.assertIn("torch.distributed", report["run"]["mpi_library"])
        ops = collections.Counter()
        for call in report["mpi"]["calls"]:
            ops[call["op"]] += call["count"]
        self.assertEqual(ops["all_reduce"], 12 * TIMED_RANKS)
        self.assertGreater(report["efficiency"]["parallel"], 0)

    def test_waiting_begins_when_the_program_waits_for_its_work(self):
        notes, report = self.run_ranks("asynchronous")
        expected = self.waited(notes)
        self.assertGreater(expected[0], 0.5)
        self.measured_near(report["ranks"][0]["mpi_wait_s"], expected[0], 0.05 * expected[0], "waiting of rank 0")

    def test_data_parallel_training(self):
        notes, report = self.run_ranks("data_parallel")
        self.check_cause(report)
        # backward() computes before it waits, on all ranks alike.
        expected = self.waited(notes)
        self.measured_near(report["ranks"][0]["mpi_wait_s"], expected[0], 0.05 * expected[0], "waiting of rank 0")

    def test_an_operation_that_is_made_of_others(self):
        """gloo reduces and scatters by all_reduce, and returns a Work of its own."""
        version = subprocess.run([*PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, check=True)
        if version.stdout.startswith((b"1.", b"2.0")):
            self.skipTest(f"gloo of torch {version.stdout.decode().strip()} has no reduce_scatter_tensor")
        notes, report = self.run_ranks("reduce_scatter")
        self.check_waiting(notes, report)
        self.check_cause(report)
        ops = collections.Counter()
        for call in report["mpi"]["calls"]:
            ops[call["op"]] += call["count"]
        self.assertEqual(ops["reduce_scatter"], 12 * TIMED_RANKS)
        self.assertEqual(ops["all_reduce"], 0)

    def test_messages_in_a_group_are_matched(self):
        notes, report = self.run_ranks("group", CALLS_RANKS)
        self.assertEqual(self.cells(report), {(1, 2): (12, 12 * 4000)})
        waited = sum(end - begin for _, begin, end in notes[2]["calls"])
        self.assertGreater(waited, 0.5)
        waits = self.late_senders(report)
        self.assertEqual(list(waits), [(2, 1)])
        self.measured_near(waits[2, 1], waited, 0.05 * waited, "waiting of rank 2")

    def test_every_call_is_matched_with_its_partners(self):
        _, report = self.run_ranks("all_calls", CALLS_RANKS)
        quality = report["wait_analysis"]
        self.assertEqual(quality["unmatched_messages"], 0, quality)
        self.assertEqual(quality["unmatched_collectives"], 0, quality)
        self.assertGreater(quality["messages"], 5)
        cells = {(cell["src"], cell["dst"]): cell["bytes"] for cell in report["mpi"]["matrix"]}
        for rank in range(CALLS_RANKS):
            right, left = (rank + 1) % CALLS_RANKS, (rank - 1) % CALLS_RANKS
            self.assertGreaterEqual(cells[rank, right], 800 + 51 * 4)
            self.assertLess(cells[rank, left], 800 + 51 * 4 if rank != 0 and left == 0 else 400)


class Torchrun(WithTorch):
    """torchrun itself. Before torch 2, it fails with CPython 3.11 unless output is redirected (-r, -t)."""
    TORCHRUN = [*PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--max_restarts", "1", "-r", "1", "-t", "1"]

    def run_elastic(self, form):
        results = []
        for name in ("bare", form):
            notes = os.path.join(self.directory, name)
            os.mkdir(notes)
            worker = ["-B", PROGRAM, notes, "elastic"]
            torchrun = [*self.TORCHRUN, "--log_dir", os.path.join(self.directory, "logs-" + name)]
            if name == "inside":
                recorder = [recording.CLUSTERPROF, "-q", "-o", os.path.join(self.directory, "run")]
                done = self.bare([*torchrun, "--no_python", *recorder, *PYTHON, *worker])
            elif name == "outside":
                done = self.record([*torchrun, "--no_python", *PYTHON, *worker], options=["-q"])
            else:
                done = self.bare([*torchrun, "--no_python", *PYTHON, *worker])
            self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
            results.append([note["result"] for note in self.notes_of(notes, 2)])
        self.assertEqual(results[0], results[1])
        self.await_last_shard("run")
        report = self.report()
        self.assertEqual([rank["restart"] for rank in report["ranks"]], [0, 0, 1, 1])
        # Of either start the messages of its own ranks.
        self.assertEqual(self.cells(report), {(1, 0): (3, 12_000), (3, 2): (3, 12_000)})
        waits = self.late_senders(report)
        self.assertEqual(sorted(waits), [(0, 1), (2, 3)])
        self.assertGreater(waits[0, 1], 0.1)
        self.assertGreater(waits[2, 3], 0.1)

    def test_ranks_that_are_started_again_inside(self):
        self.run_elastic("inside")

    def test_ranks_that_are_started_again_outside(self):
        self.run_elastic("outside")


if __name__ == "__main__":
    recording.main()
