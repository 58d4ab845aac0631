# SPDX-License-Identifier: BSD-3-Clause
"""Every view of a run says the same: text, JSON, query, the Python reader, exports. Of recorded runs of several kinds, of the
golden run and of a synthetic one of 4,096 ranks. docs/metrics.md, "One set of numbers"."""

import collections
import csv
import gzip
import io
import json
import os
import pstats
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import export_test
import protobuf
import recording

sys.path.insert(0, os.path.join(recording.SOURCE, "python"))
try:
    import h5py
    import clusterprof
    import clusterprof.reader
    MISSING = None
except ImportError as missing:
    MISSING = str(missing)

ANALYZE = os.path.join(recording.BUILD, "libexec", "clusterprof", "analyze")
SYNTH = os.path.join(recording.BUILD, "libexec", "clusterprof", "synth")
OUTSIDE = "(outside all calls)"
# A row has its time in whole nanoseconds; JSON has nine digits behind the point.
EXACT_S = 1e-7

PYTHON_PROGRAM = """
import time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))
def down(n):
    return down(n - 1) if n else spin(0.4)
down(3)
time.sleep(0.2)
"""

THREADS_PROGRAM = """
import hashlib, queue, threading, time
def work(jobs):
    while jobs.get():
        for _ in range(20):
            hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2000)
        jobs.task_done()
jobs = queue.Queue()
threads = [threading.Thread(target=work, args=(jobs,)) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(12):
    jobs.put(True)
jobs.join()
time.sleep(0.5)  # in which the threads are idle
for _ in threads: jobs.put(False)
for thread in threads: thread.join()
"""

MPI_PROGRAM = """
from mpi4py import MPI
world = MPI.COMM_WORLD
def solve(n):
    return sum(i * i for i in range(n))
for step in range(8):
    solve(200000 * (1 + world.rank))  # some 50 samples in all
    world.allreduce(1)
    world.Barrier()
"""


def run_analyze(*arguments):
    done = subprocess.run([ANALYZE, *arguments], capture_output=True, timeout=120,
                          env={**os.environ, "LC_ALL": "C", "COLUMNS": "120"})
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


class Views:
    """All there is to see of a run, read once."""

    def __init__(self, run):
        self.run = run
        self.json = json.loads(run_analyze("report", run, "--json"))
        self.all_frames = json.loads(run_analyze("report", run, "--json", "--all-frames"))  # as reader and exports
        self.text = run_analyze("report", run).decode()
        self.categories = clusterprof.reader.CATEGORIES
        with clusterprof.read(run) as file:
            self.functions = file.functions()
            self.ranks = file.ranks
            self.values = file.values()
            self.paths = file.paths
            self.path_timeline = file.path_timeline

    def export(self, form, *options):
        return run_analyze("export", self.run, "-f", form, *options)

    def csv(self, table):
        return list(csv.DictReader(io.StringIO(self.export("csv", "--table", table).decode(), newline="")))

    def query(self, *question):
        return json.loads(run_analyze("query", self.run, *question, "--json"))


class EqualViews(unittest.TestCase):
    longMessage = True

    @classmethod
    def setUpClass(cls):
        if MISSING:
            raise unittest.SkipTest(MISSING)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="clusterprof-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    # --- runs ---

    def record(self, name, command, before=()):
        run = os.path.join(self.directory, name)
        done = subprocess.run([*before, recording.CLUSTERPROF, "-q", "-o", run, *command], cwd=self.directory,
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return run

    def script(self, text):
        path = os.path.join(self.directory, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return [recording.PYTHON, path]

    def test_plain_python(self):
        views = self.check(self.record("plain", self.script(PYTHON_PROGRAM)))
        self.assertIn("spin", set(views.functions["function"]))

    def test_threads(self):
        views = self.check(self.record("threads", self.script(THREADS_PROGRAM)))
        helpers = views.values[~views.values["main_thread"]]
        self.assertGreater(len(helpers[helpers["category"] == "idle"]), 0, "helper threads have to idle in this run")

    def test_c_with_mpi(self):
        program = recording.program("openmpi", "stencil")
        if not os.path.exists(program):
            self.skipTest(f"{program} is not here")
        views = self.check(self.record("c", [program], recording.launcher("openmpi", 4)))
        self.assertGreater(sum(rank["mpi_s"] for rank in views.json["ranks"]), 0)

    def test_mpi4py(self):
        if subprocess.run([recording.PYTHON, "-c", "import mpi4py"], capture_output=True).returncode != 0:
            self.skipTest("mpi4py is not here")
        views = self.check(self.record("mpi4py", self.script(MPI_PROGRAM), recording.launcher("openmpi", 3)))
        self.assertIn("solve", set(views.functions["function"]))

    def test_golden(self):
        run = os.path.join(self.directory, "golden")
        os.mkdir(run)
        shutil.copy(os.path.join(recording.SOURCE, "tests", "golden", "profile", "profile.h5"), run)
        self.check(run)

    def test_many_ranks(self):
        run = os.path.join(self.directory, "many")
        subprocess.run([SYNTH, "--nodes", "64", "--ranks-per-node", "64", "--paths", "40", "--bins", "16", "--counters", "0",
                        "--seed", "4", run], check=True, timeout=120)
        views = self.check(run)
        with h5py.File(os.path.join(run, "profile.h5")) as file:
            ranks = {name: file["ranks/" + name][:].astype(float) for name in ("main_thread_mpi_ns", "raw_main_thread_mpi_ns")}
        self.assertTrue((ranks["raw_main_thread_mpi_ns"] < 0.98 * ranks["main_thread_mpi_ns"]).all(), "samples have to differ")
        self.near(sum(rank["mpi_s"] for rank in views.json["ranks"]), ranks["main_thread_mpi_ns"].sum() / 1e9, "mpi_s", 4096)

    # --- what they say ---

    def check(self, run):
        views = Views(run)
        for of in (self.categories_of_ranks, self.text_and_json, self.self_is_part_of_total, self.lines_and_functions,
                   self.ranks_and_the_run, self.timeline, self.time_of_paths, self.measured_calls, self.query, self.reader,
                   self.tables, self.weighted_exports, self.functions_of_exports, self.perfetto,
                   self.diff, self.ls, self.oneline, self.tui):
            with self.subTest(of.__name__):
                of(views)
        return views

    def near(self, found, expected, what, rows=1):
        self.assertLessEqual(abs(found - expected), EXACT_S * max(rows, 1) ** 0.5 + 1e-9 * abs(expected),
                             f"{what}: {found} is not {expected}")

    @staticmethod
    def recorded_s(rank):
        return rank["elapsed_s"] - rank["paused_s"]

    def categories_of_ranks(self, views):
        """Categories add up to the recorded time, and the main thread's rows to the categories."""
        main = views.values[views.values["main_thread"]]
        of_rows = main.groupby(["rank", "category"], observed=False)["wall_ns"].sum().to_dict()
        stored = views.ranks.set_index("rank")
        for rank in views.json["ranks"]:
            known = {category: rank[category + "_s"] for category in views.categories}
            self.near(sum(seconds or 0 for seconds in known.values()), self.recorded_s(rank), f"rank {rank['rank']}")
            for category, seconds in known.items():
                rows_ns = int(of_rows.get((rank["rank"], category), 0))
                self.assertEqual(rows_ns, int(stored.at[rank["rank"], f"main_thread_{category}_ns"]), category)
                if seconds is not None:
                    self.near(rows_ns / 1e9, seconds, f"rank {rank['rank']} {category}")

    def text_and_json(self, views):
        part = views.text.split("Main threads by category")[1].split("\n\n")[0]
        shares = {name: float(share) for name, share in re.findall(r"^  (\w+) +([\d.]+) %", part, re.MULTILINE)}
        recorded_s = sum(self.recorded_s(rank) for rank in views.json["ranks"])
        self.assertAlmostEqual(sum(shares.values()), 100, delta=0.05 * len(shares) + 0.01)
        for category in views.categories:
            known = [rank[category + "_s"] for rank in views.json["ranks"] if rank[category + "_s"] is not None]
            if known:
                self.assertAlmostEqual(shares.get(category, 0), 100 * sum(known) / recorded_s, delta=0.051, msg=category)
        hotspots = views.text.split("\nHotspots")[1].split("\n\n")[0].splitlines()[2:]
        active = sorted((f["active_self_s"] for f in views.json["functions"]), reverse=True)
        unit = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}[
            re.search(r"in (us|ms|s|min|h)\b", views.text.split("\nHotspots")[1])[1]]
        rows = [line.split()[0] for line in hotspots if re.match(r"^ +[\d.]+ +[\d.]+ ", line)]
        self.assertTrue(rows)
        for shown, seconds in zip(rows, active):
            digits = len(shown.partition(".")[2])
            self.assertAlmostEqual(float(shown) * unit, seconds, delta=0.51 * unit / 10 ** digits)
        self.assertEqual(re.search(r"\.\. and (\d+) more", "\n".join(hotspots)) is None,
                         len(rows) == len([f for f in active if f > 0]) or len(rows) == len(active))

    def self_is_part_of_total(self, views):
        for table in ("functions", "lines", "call_tree"):
            for row in views.json[table]:
                self.assertLessEqual(row["self_s"], row["total_s"] + EXACT_S, row)
                parts = sum(row[category + "_s"] for category in views.categories if row.get(category + "_s") is not None)
                if table != "call_tree":
                    self.near(parts, row["self_s"], row["name"] if "name" in row else row["line"], len(views.categories))
        statistics = views.paths
        self.assertTrue((statistics["exclusive_sum_ns"] <= statistics["inclusive_sum_ns"]).all())

    def lines_and_functions(self, views):
        """Functions add up to the time of all threads, lines too, with what has neither; the lines of a function to the
        function, without what they call in libraries."""
        for report in (views.json, views.all_frames):
            whole = report["all_threads"]
            for table, rest in (("functions", "without_function_s"), ("lines", "without_line_s")):
                rows = report[table]
                self.near(sum(row["self_s"] for row in rows) + whole[rest], whole["time_s"], table, len(rows))
        self.assertTrue(any(row["called_s"] > 0 for row in views.json["lines"]))
        by_function, files = collections.Counter(), collections.Counter()
        for row in views.all_frames["lines"]:
            self.assertLessEqual(row["called_s"], row["self_s"] + EXACT_S)
            by_function[row["file"], row["function"]] += row["self_s"] - row["called_s"]
            files[row["file"], row["function"]] += 1
        of_python = collections.Counter()
        for row in views.all_frames["functions"]:
            if row["kind"] == "python" and row["file"]:
                of_python[row["file"], row["name"]] += row["self_s"]
        self.assertTrue(of_python or views.json["run"]["command"][0].endswith("stencil"))
        for key, seconds in of_python.items():
            self.near(by_function[key], seconds, key, files[key] + 1)

    def ranks_and_the_run(self, views):
        ranks = len(views.json["ranks"])
        for row in views.json["functions"]:
            self.near(row["rank_mean_s"] * ranks, row["total_s"], row["name"], ranks)
            self.assertLessEqual(row["rank_min_s"], row["rank_mean_s"] + EXACT_S)
            self.assertLessEqual(row["rank_mean_s"], row["rank_max_s"] + EXACT_S)
        for category, activity in (("mpi", "mpi_s"), ("io", "io_s")):
            all_threads = int(views.values.loc[views.values["category"] == category, "wall_ns"].sum())
            if views.json["activities"][activity] is not None:
                self.near(views.json["activities"][activity], all_threads / 1e9, activity, ranks)

    def timeline(self, views):
        """A rank's bins add up to its categories; a series that it does not have is 0."""
        if views.json["timeline"] is None:
            return
        names = views.json["timeline"]["series"]
        of_rank = {row["rank"]: row for row in views.json["timeline"]["ranks"]}
        for rank in views.json["ranks"]:
            row = of_rank.get(rank["rank"])
            if row is None:
                continue
            sums = {name: sum(values) for name, values in row["values"].items()}
            for category in views.categories:
                seconds = rank[category + "_s"]
                if seconds is not None and category + "_ns" in names:
                    self.assertAlmostEqual(sums.get(category + "_ns", 0) / 1e9, seconds, delta=0.02 + 0.01 * seconds,
                                           msg=f"rank {rank['rank']} {category}")

    def time_of_paths(self, views):
        """Over time, a path and those below it have the path's inclusive time, whichever of them have rows."""
        rows, paths = views.path_timeline, views.paths
        if not len(rows):
            return
        found = [0] * len(paths)
        for path, wall_ns in zip(rows["path"].to_list(), rows["wall_ns"].to_list()):
            found[path] += int(wall_ns)
        has_rows = set(rows["path"])
        for path, parent in reversed(list(enumerate(paths["parent"].to_list()))):
            if path != 0:
                found[parent] += found[path]
        for path in has_rows:
            self.assertEqual(found[path], int(paths["inclusive_sum_ns"].iloc[path]), f"path {path}")
        self.assertEqual(found[0], int(views.values["wall_ns"].sum()))

    def measured_calls(self, views):
        """MPI functions have the time of their calls in every table, whatever samples said."""
        calls = collections.Counter()
        for row in views.json["mpi"]["calls"]:
            calls[row["op"]] += row["time_s"]
        of_rows, names, kinds = collections.Counter(), views.paths["function"].to_list(), views.paths["kind"].to_list()
        for path, wall_ns in zip(views.values["path"].to_list(), views.values["wall_ns"].to_list()):
            if kinds[path] == "mpi":
                of_rows[names[path]] += int(wall_ns) / 1e9
        csv = {row["name"]: float(row["self_s"]) for row in views.csv("functions") if row["kind"] == "mpi"}
        functions = {row["name"]: row["self_s"] for row in views.json["functions"] if row["kind"] == "mpi"}
        for op, seconds in calls.items():
            for table in (functions, of_rows, csv):
                self.near(table.get(op, 0), seconds, op, len(views.ranks))

    def query(self, views):
        functions = views.query("functions")
        self.assertEqual(functions["functions"], len(views.json["functions"]))
        for mine, row in zip(functions["top"], views.json["functions"]):
            self.assertEqual(mine, {key: row[key] for key in mine})
        some = views.json["ranks"][:2] + views.json["ranks"][-1:]
        for rank in some:
            answer = views.query("rank", str(rank["rank"]))
            for category in views.categories:
                self.assertEqual(answer[category + "_s"], rank[category + "_s"], category)
            rows = answer["call_paths"]
            self.near(sum(row["main_thread_s"] for row in rows), self.recorded_s(rank), f"rank {rank['rank']}", len(rows))
            mpi = sum(row["main_thread_s"] for row in rows if row.get("kind") == "mpi")
            self.near(mpi, rank["mpi_s"] or 0, f"rank {rank['rank']} in MPI", len(rows))
            for row in rows:
                self.assertLessEqual(row["self_s"], row["total_s"] + EXACT_S)
        leaf = views.query("path", str(int(views.paths["exclusive_sum_ns"].to_numpy().argmax())))
        self.near(leaf["statistics"]["sum_s"], int(views.paths["exclusive_sum_ns"].max()) / 1e9, "query path")

    def reader(self, views):
        def key(name, file, module, kind):
            return kind, name, file or "", module or ""
        found = collections.Counter()
        for row in views.functions.itertuples():
            found[key(row.function, row.file, row.module, row.kind), row.line] += 1
        expected = collections.Counter((key(row["name"], row["file"], row["module"], row["kind"]), row["line"] or 0)
                                       for row in views.all_frames["functions"])
        self.assertEqual(found, expected)
        totals = {(key(row["name"], row["file"], row["module"], row["kind"]), row["line"] or 0):
                  (row["self_s"], row["total_s"]) for row in views.all_frames["functions"]}
        for row in views.functions.itertuples():
            self_s, total_s = totals[key(row.function, row.file, row.module, row.kind), row.line]
            self.near(row.self_ns / 1e9, self_s, row.function)
            self.near(row.total_ns / 1e9, total_s, row.function)

    def tables(self, views):
        for table in ("functions", "lines"):
            rows = views.csv(table)
            self.assertEqual(len(rows), len(views.json[table]))
            for mine, row in zip(rows, views.json[table]):
                self.assertIn("active_rank_max_s", mine)
                for column, value in mine.items():
                    if value and column.endswith("_s"):
                        self.near(float(value), row[column], column)
        for mine, rank in zip(views.csv("ranks"), views.json["ranks"]):
            for category in views.categories:
                if rank[category + "_s"] is not None:
                    self.near(float(mine[category + "_s"]), rank[category + "_s"], category)
        paths = views.csv("paths")
        self.near(sum(float(row["self_s"]) for row in paths), int(views.values["wall_ns"].sum()) / 1e9, "paths", len(paths))
        for row in paths:
            self.assertLessEqual(float(row["self_s"]), float(row["total_s"]) + EXACT_S)

    def active_ns(self, views):
        """All time without helper threads that idle."""
        kinds, names = views.paths["kind"].to_numpy(), views.paths["function"].to_numpy()
        at = views.values["path"].to_numpy()
        gil = (kinds[at] == "kernel") & (names[at] == "waiting for the GIL")
        idle = (~views.values["main_thread"]) & (views.values["category"] == "idle") & ~gil
        return int(views.values.loc[~idle, "wall_ns"].sum())

    def weighted_exports(self, views):
        active_ns, all_ns = self.active_ns(views), int(views.values["wall_ns"].sum())
        of_functions = sum(row["active_self_s"] for row in views.json["functions"])

        def folded(*options):
            rows = [line.rpartition(" ") for line in views.export("folded", *options).decode().splitlines()]
            return [(stack.split(";"), int(count)) for stack, _, count in rows]
        rows = folded()
        self.assertEqual(sum(count for _, count in rows), active_ns)
        self.assertEqual(sum(count for _, count in folded("--idle-threads")), all_ns)
        in_functions = sum(count for stack, count in rows if stack[-1] != OUTSIDE and not stack[-1].startswith("[region"))
        self.near(in_functions / 1e9, of_functions, "folded", len(views.json["functions"]))

        document = json.loads(views.export("speedscope"))
        self.near(document["profiles"][0]["endValue"], active_ns / 1e9, "speedscope")
        pprof = protobuf.Message(gzip.decompress(views.export("pprof")))
        self.assertEqual(sum(sample.packed(2)[1] for sample in pprof.messages(2)), active_ns)
        summary = re.search(r"^summary: (\d+)", views.export("callgrind").decode(), re.MULTILINE)
        self.assertEqual(int(summary[1]), active_ns)
        hatchet = json.loads(views.export("hatchet"))
        self.near(sum(row["time"] for row in hatchet["dataframe"]), active_ns / 1e9, "hatchet", len(hatchet["dataframe"]))
        with tempfile.NamedTemporaryFile() as file:
            file.write(views.export("pstats"))
            file.flush()
            self.near(pstats.Stats(file.name).total_tt, active_ns / 1e9, "pstats", len(rows))

    def functions_of_exports(self, views):
        """pprof and pstats give each function the self time that the report does, without idle helper threads."""
        expected = collections.Counter()
        for row in views.all_frames["functions"]:
            expected[row["name"]] += row["active_self_s"]
        pprof = protobuf.Message(gzip.decompress(views.export("pprof")))
        text = [string.decode() for string in pprof[6]]
        functions = {function.one(1): text[function.one(2)] for function in pprof.messages(5)}
        leaf = {location.one(1): functions[location.messages(4)[0].one(1)] for location in pprof.messages(4)}
        found = collections.Counter()
        for sample in pprof.messages(2):
            locations = sample.packed(1)
            if locations:
                found[leaf[locations[0]]] += sample.packed(2)[1] / 1e9
        of_pstats = collections.Counter()
        with tempfile.NamedTemporaryFile() as file:
            file.write(views.export("pstats"))
            file.flush()
            for (_, _, name), row in pstats.Stats(file.name).stats.items():
                of_pstats[name] += row[2]
        plain = [name for name in expected if re.fullmatch(r"[\w.]+", name)]  # exports name the nameless differently
        self.assertGreater(len(plain), 2)
        for form, seconds in (("pprof", found), ("pstats", of_pstats)):
            with self.subTest(form):
                for name in plain:
                    self.near(seconds[name], expected[name], name, len(views.ranks))

    def perfetto(self, views):
        """Each rank has a process of its elapsed time, and its categories as sampled add up to its recorded time."""
        tracks = export_test.perfetto_tracks(views.export("perfetto"))
        ranks = {row["rank"]: row for row in views.json["ranks"]}
        number, sums = {}, collections.Counter()
        for uuid, track in tracks.items():
            if track.process:
                number[uuid] = int(track.process[0].text(6).split()[1])
                (begin, end, _), = track.slices
                self.near((end - begin) / 1e9, ranks[number[uuid]]["elapsed_s"], f"rank {number[uuid]}")
        if len(ranks) <= 64:
            self.assertEqual(sorted(number.values()), sorted(ranks))
        self.assertGreater(len(number), 0)  # of very many ranks, some that differ
        for track in tracks.values():
            if track.is_counter and track.parent in number and track.name.endswith("as sampled (%)"):
                for (begin, share), (end, _) in zip(track.values, track.values[1:]):
                    sums[number[track.parent]] += share / 100 * (end - begin) / 1e9
        for rank, seconds in sums.items():
            self.assertAlmostEqual(seconds, self.recorded_s(ranks[rank]), delta=0.03 + 0.01 * seconds, msg=f"rank {rank}")

    def diff(self, views):
        """A run compared with itself: both sides are what the report says, and nothing differs."""
        result = json.loads(run_analyze("diff", views.run, views.run, "--json"))
        expected = {("run", "elapsed"): views.json["run"]["elapsed_s"]}
        for name in ("parallel", "load_balance", "communication", "serialization", "transfer"):
            expected["efficiency", name] = views.json["efficiency"][name]
        for category in views.categories:
            known = [rank[category + "_s"] for rank in views.json["ranks"] if rank[category + "_s"] is not None]
            expected["categories", category] = sum(known) if known else None
        found = {(table, row["name"]): row["value"] for table in ("run", "efficiency", "categories") for row in result[table]}
        for key, seconds in expected.items():
            for side in ("a", "b"):
                value = found[key][side]["mean"] if key in found and found[key][side] else None
                if seconds is None:
                    self.assertIsNone(value, key)
                else:
                    self.near(value, seconds, key, len(views.ranks))

        def place(row):
            return row["name"], row["file"], row["line"], row["kind"], row["module"]
        functions = {place(row): row for row in views.json["functions"]}
        for row in result["functions"]:  # without idle helper threads: docs/diff.md
            for column in ("self_s", "total_s"):
                for side in ("a", "b"):
                    self.near(row[column][side]["mean"], functions[place(row)]["active_" + column], place(row))
        self.assertTrue(result["functions"])

    def ls(self, views):
        report = views.json
        classes = [row for row in report["bottleneck"] if row["scope"] == "run"]
        listed, = [row for row in json.loads(run_analyze("ls", os.path.dirname(views.run), "--json"))["runs"]
                   if os.path.basename(row["run"]) == os.path.basename(views.run)]
        self.near(listed["elapsed_s"], report["run"]["elapsed_s"], "ls")
        self.assertEqual((listed["ranks"], listed["nodes"]), (report["run"]["ranks"], report["run"]["nodes"]))
        if os.path.basename(views.run) != "golden":  # which has no analysis that ls could read
            self.assertEqual(listed["efficiency"], report["efficiency"])
            self.assertEqual(listed["bottleneck"], classes[0]["class"] if classes else None)
            worst = next((row for row in report["findings"] if row["severity"] != "info"), None)
            self.assertEqual(listed["finding"] and {key: listed["finding"][key] for key in ("kind", "text", "gain_s", "rank")},
                             worst and {key: worst[key] for key in ("kind", "text", "gain_s", "rank")})

    def oneline(self, views):
        report = views.json
        classes = [row for row in report["bottleneck"] if row["scope"] == "run"]
        line = run_analyze("report", views.run, "--oneline").decode()

        def percent(share):
            return f"{100 * share:.0f} %"
        plural = "s" if report["run"]["ranks"] != 1 else ""
        self.assertIn(f"; {report['run']['ranks']} rank{plural} on ", line)
        efficiency = report["efficiency"]
        if efficiency["parallel"] is not None:
            self.assertIn(f"parallel efficiency {percent(efficiency['parallel'])} = load balance "
                          f"{percent(efficiency['load_balance'])} x communication {percent(efficiency['communication'])}", line)
        if classes:
            self.assertIn(f"bound by {classes[0]['class']} {percent(classes[0]['share'])}", line)

    def tui(self, views):
        """Its first pages, in a terminal."""
        if shutil.which("tmux") is None:
            return
        socket = os.path.join(self.directory, "tmux")

        def tmux(*arguments):
            environment = {key: value for key, value in os.environ.items() if key != "TMUX"}
            return subprocess.run(["tmux", "-S", socket, "-f", "/dev/null", *arguments], check=True, capture_output=True,
                                  text=True, timeout=60, env={**environment, "TERM": "screen-256color", "LANG": "C.UTF-8"}).stdout

        row_of_function = r"^ +[\d.]+ +[\d.]+ +[\d.]+ "

        def screen(*patterns, rows=0):
            """What the terminal shows once it has all of these and does not change any more: it may be half drawn before."""
            shown = before = None
            for _ in range(900):
                before, shown = shown, tmux("capture-pane", "-p")
                if shown == before and all(re.search(pattern, shown, re.MULTILINE) for pattern in patterns) and \
                        len(re.findall(row_of_function, shown, re.MULTILINE)) >= rows:
                    return shown
                time.sleep(0.1)
            self.fail(f"no {patterns} in\n{shown}")
        known = {category: [rank[category + "_s"] for rank in views.json["ranks"] if rank[category + "_s"] is not None]
                 for category in views.categories}
        share_of = {category: rf"^ +{category} +([\d.]+) %" for category, seconds in known.items() if seconds}
        tmux("new-session", "-d", "-x", "160", "-y", "40", recording.CLUSTERPROF, "tui", views.run)
        try:
            summary = screen(r"\[1 Summary\]", "Main threads by category", *share_of.values())
            tmux("send-keys", "2")
            hotspots = screen(r"\[2 Hotspots\]", rf"self (us|ms|s|min|h)\b(.*\n)+{row_of_function}", rows=3)
        finally:
            subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True)
        recorded_s = sum(self.recorded_s(rank) for rank in views.json["ranks"])
        for category, pattern in share_of.items():
            shown = re.search(pattern, summary, re.MULTILINE)
            self.assertAlmostEqual(float(shown[1]), 100 * sum(known[category]) / recorded_s, delta=0.051, msg=category)
        unit = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}[re.search(r"self (us|ms|s|min|h)\b", hotspots)[1]]
        rows = [row.split() for row in hotspots.splitlines() if re.match(row_of_function, row)]
        self.assertGreater(len(rows), 2)
        by_self = sorted(views.json["functions"], key=lambda row: -row["active_self_s"])
        for row, function in zip(rows, by_self):
            digits = len(row[0].partition(".")[2])
            self.assertAlmostEqual(float(row[0]) * unit, function["active_self_s"], delta=0.51 * unit / 10 ** digits)


if __name__ == "__main__":
    recording.main()
