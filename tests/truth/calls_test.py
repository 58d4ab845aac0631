"""MPI calls that never return, calls of threads besides the main one, and one-sided calls that others wait for:
programs in which their part is known by construction (programs/calls.c)."""

import os
import subprocess

import recording
import waiting


class Calls(recording.RecordingTest):
    def run_calls(self, what, ranks, flavour="openmpi"):
        program = recording.program(flavour, "calls")
        self.need(program)
        done = self.record([program, what], before=recording.launcher(flavour, ranks))
        self.await_last_shard()
        return done, self.report()

    def call(self, report, op, function=None):
        rows = [row for row in report["mpi"]["calls"]
                if row["op"] == op and (function is None or row["function"] == function)]
        self.assertEqual(len(rows), 1, f"{op} among {[(r['op'], r['function']) for r in report['mpi']['calls']]}")
        return rows[0]

    def check_hang(self, flavour):
        done, report = self.run_calls("hang", 2, flavour)
        self.assertNotEqual(done.returncode, 0)
        row = self.call(report, "MPI_Recv")
        self.assertEqual((row["count"], row["unfinished"], row["function"]), (0, 1, "wait_for_nobody"))
        with open(f"{recording.SOURCE}/tests/truth/programs/calls.c") as file:
            line = next(number for number, text in enumerate(file, 1) if "hangs here" in text)
        self.assertEqual(row["line"], line)
        # A second, and what it takes until the launcher has ended the other rank.
        self.measured_above(row["time_s"], 0.95, "time of the call")
        self.assertEqual(row["rank_max"], 0)
        rank = report["ranks"][0]
        self.assertGreater(rank["mpi_startup_s"], 0)
        self.assertLessEqual(row["time_s"], rank["elapsed_s"] - rank["mpi_startup_s"])
        # The same time is in the categories, and below the function that made the call. Between the start and this call the rank was in
        # a barrier, for as long as the other one came later, and told that one that it is there.
        before = [r for r in report["mpi"]["calls"] if r["op"] in ("MPI_Barrier", "MPI_Send")]
        least = row["time_s"] + rank["mpi_startup_s"]
        self.measured_above(rank["mpi_s"], least - 0.05, "time in MPI")
        self.measured_below(rank["mpi_s"], least + sum(r["rank_max_s"] for r in before) + 0.05, "time in MPI")
        # Sampled, but for the ends: some periods of 10 ms.
        caller = self.function(report, "wait_for_nobody")
        self.measured_near(caller["total_s"], row["time_s"], 0.05, "wait_for_nobody()")
        op = self.function(report, "MPI_Recv")
        self.measured_near(op["total_s"], row["time_s"], 0.01, "MPI_Recv")
        tree = [r for r in report["call_tree"] if r["name"] == "MPI_Recv"]
        self.measured_near(sum(r["total_s"] for r in tree), row["time_s"], 0.01, "MPI_Recv in the call tree")

    def test_hang_openmpi(self):
        self.check_hang("openmpi")

    def test_hang_mpich(self):
        self.check_hang("mpich")

    def check_first_calls(self, flavour):
        """Of a run that hangs in its first calls: who waits for whom, where each is, and where the one is that they wait for."""
        _, report = self.run_calls("first", 3, flavour)
        at_sends, at_barrier = report["mpi"]["calls_under_way"]
        for row, rank, op, function in ((at_sends, 0, "MPI_Waitall", "first"), (at_barrier, 2, "MPI_Barrier", "first")):
            self.assertEqual((row["rank"], row["op"], row["function"], row["main_thread"]), (rank, op, function, True))
            self.measured_above(row["age_s"], 0.9, f"age of {op}")
            self.assertTrue(row["call_path"][-1].startswith(op), row["call_path"])
            self.assertTrue(any(frame.startswith("first (calls.c:") for frame in row["call_path"]), row["call_path"])
        self.assertEqual(at_sends["requests"], 2)
        self.assertEqual([(request["kind"], request["peer"]) for request in at_sends["pending"]],
                         [("send", 1), ("receive", 1)])
        self.assertEqual(at_sends["waits_for"], [1])
        self.assertEqual((at_barrier["communicator"], at_barrier["sequence"], at_barrier["requests"]),
                         ("MPI_COMM_WORLD", 0, 0))
        self.assertEqual((at_barrier["waits_for"], at_barrier["waits_for_count"]), ([0, 1], 2))
        # Rank 2 waits for ranks 0 and 1, but rank 0 for rank 1 alone.
        for row in report["mpi"]["waits"]:
            self.assertEqual({cause["rank"] for cause in row["caused_by"]}, {1})
        self.assertEqual({row["rank"] for row in report["mpi"]["waits"]}, {0, 2})
        # On a busy machine the rank that computes lacks a processor now and then.
        causes = {(cause["rank"], cause["function"]): cause["waiting_ranks"] for cause in report["root_causes"]}
        causes.pop((1, waiting.LACKED_PROCESSOR), None)
        self.assertEqual(causes, {(1, "be_late"): 2}, report["root_causes"])
        text = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "run"), "--section", "summary"],
                              capture_output=True, timeout=60, check=True).stdout.decode()
        text = " ".join(text.split())
        self.assertRegex(text, r"rank 2 MPI_Barrier <- first\(\) calls.c:\d+ for \S+ m?s; operation 0 of MPI_COMM_WORLD, without ranks 0, 1")
        self.assertIn("rank 1 in no MPI call; last seen in be_late()", text)

    def test_first_calls_openmpi(self):
        self.check_first_calls("openmpi")

    def test_first_calls_mpich(self):
        self.check_first_calls("mpich")

    def test_abort_is_a_call_under_way(self):
        _, report = self.run_calls("abort", 2)
        row = self.call(report, "MPI_Abort")
        self.assertEqual((row["count"], row["unfinished"]), (0, 1))
        self.assertEqual(self.call(report, "MPI_Recv")["unfinished"], 1)

    def test_threads_that_call_mpi(self):
        done, report = self.run_calls("threads", 2)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        receiver, sender = report["ranks"]
        for rank in (receiver, sender):
            self.assertEqual(rank["mpi_helper_threads"], 2)
            # Those of the receiver wait for the sender's, which sleep, but for the first round.
            self.assertGreater(rank["mpi_helper_elapsed_s"], 2 * 49 * 0.020)
        own = {int(number): (float(inside), float(elapsed)) for number, inside, elapsed in map(bytes.split, done.stdout.splitlines())}
        inside, elapsed = own[0]
        self.measured_above(inside / elapsed, 0.2, "in MPI, by the program")  # half of it on an idle machine
        self.measured_near(receiver["mpi_helper_s"] / inside, 1, 0.05, "in MPI")
        self.measured_near(receiver["mpi_helper_elapsed_s"] / elapsed, 1, 0.05, "life of the threads")
        self.measured_near(sender["mpi_helper_s"], own[1][0], 0.05 * inside, "the sender's time in MPI")
        # Their calls are none of the main thread's time.
        receives = self.call(report, "MPI_Recv")
        self.assertAlmostEqual(receives["time_s"], receiver["mpi_helper_s"], delta=0.01)
        self.measured_below(receiver["mpi_s"], receiver["mpi_startup_s"] + 0.05, "the main thread's time in MPI")
        # The mean over all threads that call MPI, by how long they lived.
        focus = receiver["elapsed_s"] - receiver["mpi_startup_s"]
        # Waiting for a processor is not useful; None where the kernel does not tell it.
        outside = focus - (receiver["mpi_s"] - receiver["mpi_startup_s"]) - (receiver["runnable_s"] or 0)
        threads = receiver["mpi_helper_elapsed_s"] - receiver["mpi_helper_s"]
        share = (outside + threads) / (focus + receiver["mpi_helper_elapsed_s"])
        self.assertAlmostEqual(receiver["threads_useful_s"] / focus, share, delta=0.01)
        efficiency = report["threads_efficiency"]
        self.measured_below(efficiency["parallel"], report["efficiency"]["parallel"], "efficiency of all threads")
        self.assertAlmostEqual(efficiency["load_balance"],
                               sum(r["threads_useful_s"] for r in report["ranks"]) / 2
                               / max(r["threads_useful_s"] for r in report["ranks"]), delta=1e-6)

    def test_waiting_is_blamed_on_one_sided_calls(self):
        done, report = self.run_calls("get", 3)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        causes = [part for row in report["mpi"]["waits"] if row["rank"] == 2 and row["kind"] == "wait_at_barrier"
                  for part in row["caused_by"] if part["rank"] == 1]
        one_sided = sum(part["wait_s"] for part in causes if part["op"] in ("MPI_Win_lock", "MPI_Get", "MPI_Win_unlock"))
        slept = sum(part["wait_s"] for part in causes if part["function"] == "sleep_ms")
        # On a busy machine rank 1 is late for other reasons, too, as where it leaves a barrier. And rank 2 may be late
        # itself: the program says for how much of what rank 1 does it waits.
        outside, inside = map(float, done.stdout.split())
        self.measured_above(one_sided / (one_sided + slept), inside / (outside + inside) - 0.02, "share of one-sided calls")
        self.measured_above(one_sided, 0.8 * inside, "one-sided calls")
        # And so for the root causes.
        roots = {row["op"]: row["wait_s"] for row in report["root_causes"] if row["rank"] == 1 and row["op"]}
        self.measured_above(sum(roots.get(op, 0) for op in ("MPI_Win_lock", "MPI_Get", "MPI_Win_unlock")), 0.75 * one_sided,
                            "root causes")


if __name__ == "__main__":
    recording.main()
