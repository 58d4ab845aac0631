"""torch.distributed where its calls are not recorded: samples tell the time in its operations by line and rank, and which
rank comes late. The package is a fake one in pure Python, so real torch is not needed."""

import csv
import io
import json
import os
import shutil
import subprocess

import recording

PROGRAMS = os.path.join(recording.SOURCE, "tests", "programs")
PROGRAM = os.path.join(PROGRAMS, "torch_by_samples.py")
ROUNDS, PERIOD_S = 12, 0.01


def line_of(part):
    """The number of the program's line that has this text."""
    with open(PROGRAM, encoding="ascii") as file:
        return next(number for number, line in enumerate(file, 1) if part in line)


class TorchBySamples(recording.RecordingTest):
    def run_ranks(self, *options, rounds=ROUNDS):
        """(what each rank wrote down, report) of the program under torchrun under clusterprof."""
        torchrun = os.path.join(self.directory, "torchrun")  # known by the name of its script
        shutil.copy(os.path.join(PROGRAMS, "emulated_torchrun.py"), torchrun)
        notes = os.path.join(self.directory, "notes")
        os.mkdir(notes)
        command = [recording.PYTHON, torchrun, "2", "1", recording.PYTHON, "-B", PROGRAM, notes, str(rounds)]
        done = self.record(command, options=["-q", *options],
                           env={**os.environ, "PYTHONPATH": os.path.join(PROGRAMS, "fake_torch")})
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        self.await_last_shard()
        ranks = []
        for rank in range(2):
            with open(os.path.join(notes, f"rank-{rank}.json"), encoding="ascii") as file:
                ranks.append(json.load(file))
        self.assertEqual(ranks[0]["result"], ranks[1]["result"])
        return [rank["seconds"] for rank in ranks], self.report()

    def row(self, report, op):
        rows = [row for row in report["torch_distributed"]["rows"] if row["op"] == op]
        self.assertEqual(len(rows), 1, report["torch_distributed"])
        return rows[0]

    def check_time(self, row, seconds):
        """The row's time per rank is what the ranks measured themselves. An operation that waits begins and ends within a
        period, and what one does not wait for is sampled."""
        op = row["op"]
        expected = [rank[op] for rank in seconds]
        tolerance = 0.05 * max(expected) + 3 * PERIOD_S * ROUNDS ** 0.5
        self.measured_near(row["time_s"], sum(expected), 2 * tolerance, f"{op} of all ranks")
        self.measured_near(row["rank_max_s"], max(expected), tolerance, f"{op} of the rank with most")
        self.measured_near(row["rank_min_s"], min(expected), tolerance, f"{op} of the rank with least")

    def test_the_operations_have_their_times_and_the_late_rank_is_named(self):
        seconds, report = self.run_ranks()
        torch = report["torch_distributed"]
        self.assertEqual(torch["method"], "samples")
        self.assertIn("No call over gloo", torch["why"])
        self.assertEqual(report["run"]["launcher"], "torchrun")

        reduce = self.row(report, "all_reduce")
        self.assertEqual((reduce["kind"], reduce["function"], reduce["line"], os.path.basename(reduce["file"])),
                         ("collective", "reduce_all", line_of("dist.all_reduce("), "torch_by_samples.py"))
        self.check_time(reduce, seconds)
        self.assertEqual((reduce["rank_max"], reduce["rank_min"], reduce["ranks"]), (0, 1, [[0, 1]]))
        # Rank 0 waits for rank 1 in all of it but its own additions.
        self.measured_above(reduce["blocked_s"], 0.5 * seconds[0]["all_reduce"], "blocked in all_reduce")
        self.assertGreater(reduce["running_s"], 0)
        self.assertAlmostEqual(reduce["blocked_s"] + reduce["runnable_s"] + reduce["running_s"], reduce["time_s"], 6)

        start = self.row(report, "init_process_group")
        self.assertEqual((start["kind"], start["line"], start["rank_max"]),
                         ("rendezvous", line_of("dist.init_process_group("), 0))
        self.check_time(start, seconds)

        self.assertEqual(reduce["late_ranks"], [1])
        self.measured_near(reduce["late_s"], seconds[0]["all_reduce"] - seconds[1]["all_reduce"],
                           0.1 * seconds[0]["all_reduce"] + 6 * PERIOD_S * ROUNDS ** 0.5 + reduce["runnable_s"], "lateness")
        late = [finding for finding in report["findings"] if finding["kind"] == "late_by_samples"]
        self.assertEqual(len(late), 1, [finding["text"] for finding in report["findings"]])
        self.assertEqual((late[0]["rank"], late[0]["function"]), (1, "compute"), late[0])
        self.assertIn("Judging by samples, rank 1 comes late to all_reduce", late[0]["text"])
        self.assertEqual(late[0]["evidence"]["site"]["line"], reduce["line"])
        self.check_views(reduce)

    def analyze(self, *words):
        return subprocess.run([recording.CLUSTERPROF, *words], cwd=self.directory, capture_output=True, text=True, timeout=60,
                              check=True, env={**os.environ, "COLUMNS": "160"}).stdout

    def check_views(self, reduce):
        text = self.analyze("report", "run", "--section", "torch")
        self.assertIn("from samples", text)
        self.assertIn(f"all_reduce <- reduce_all() torch_by_samples.py:{reduce['line']}", text)
        rows = list(csv.DictReader(io.StringIO(self.analyze("export", "run", "-f", "csv", "--table", "torch_distributed"))))
        row = next(row for row in rows if row["op"] == "all_reduce")
        self.assertEqual((int(row["line"]), row["count"], int(row["samples"])), (reduce["line"], "", reduce["samples"]))
        self.assertAlmostEqual(float(row["time_s"]), reduce["time_s"], 6)

    def test_without_calls_of_communication_the_report_says_so(self):
        _, report = self.run_ranks("--no-mpi", rounds=1)
        self.assertEqual(report["torch_distributed"]["method"], "samples")
        self.assertIn("--no-mpi", report["torch_distributed"]["why"])


if __name__ == "__main__":
    recording.main()
