"""Drives libexec/clusterprof/analyze and synth: formats, merge, exit statuses. No recording.

Usage: analyze_test.py LIBEXEC_DIR SOURCE_DIR"""

import collections
import contextlib
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import plain_surroundings  # noqa: E402,F401  before any test looks at them

import h5py
import numpy as np

LIBEXEC, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
GOLDEN = os.path.join(SOURCE, "tests", "golden")


class Analyze(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="clusterprof-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.run_ = os.path.join(self.directory, "run")

    def analyze(self, *arguments, status=0, cwd=None):
        done = subprocess.run([os.path.join(LIBEXEC, "analyze"), *arguments], cwd=cwd or self.directory,
                              capture_output=True, timeout=100)
        self.assertEqual(done.returncode, status, (arguments, done.stderr))
        return done

    def refused(self, arguments, status, *words, cwd=None):
        done = self.analyze(*arguments, status=status, cwd=cwd)
        text = done.stderr.decode()
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertTrue(text.startswith("clusterprof: "), text)
        self.assertEqual(done.stdout, b"")
        for word in words:
            self.assertIn(word, text)

    def synth(self, nodes=2, ranks=2, paths=60, seed=3, options=()):
        subprocess.run([os.path.join(LIBEXEC, "synth"), "--nodes", str(nodes), "--ranks-per-node", str(ranks),
                        "--paths", str(paths), "--seed", str(seed), *options, self.run_], check=True, timeout=100)
        return sorted(glob.glob(os.path.join(self.run_, "node-*.h5")))

    def report(self, run="run"):
        return json.loads(self.analyze("report", run, "--json").stdout)


def tables_of_dump(text):
    """{table: [{column: text}]}"""
    tables = {}
    for part in text.split("\n[")[1:]:
        head, columns, *rows = part.rstrip("\n").split("\n")
        names = columns.split("\t")
        tables[head.split("]")[0]] = [dict(zip(names, row.split("\t"))) for row in rows]
    return tables


class Formats(Analyze):
    def test_golden_files(self):
        files = glob.glob(os.path.join(GOLDEN, "shard", "*.h5"))
        files += glob.glob(os.path.join(GOLDEN, "profile", "*.h5"))
        self.assertGreaterEqual(len(files), 3)
        for path in files:
            with self.subTest(path):
                with open(path[:-3] + ".dump.txt", "rb") as file:
                    self.assertEqual(self.analyze("dump", path).stdout, file.read())
                self.analyze("validate", path)

    def test_golden_shards_merge_to_the_golden_profile(self):
        os.mkdir(self.run_)
        for path in glob.glob(os.path.join(GOLDEN, "shard", "*.h5")):
            shutil.copy(path, self.run_)
        self.analyze("merge", "run")
        with open(os.path.join(GOLDEN, "profile", "profile.dump.txt"), "rb") as file:
            self.assertEqual(self.analyze("dump", "run").stdout, file.read())

    def test_the_example_of_the_documentation(self):
        with open(os.path.join(SOURCE, "formats", "FORMATS.md"), encoding="utf-8") as file:
            blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
        example = os.path.join(self.directory, "example.py")
        with open(example, "w", encoding="utf-8") as file:
            file.write(blocks[0])
        shard = self.synth()[0]
        lines = subprocess.run([sys.executable, example, shard], check=True, capture_output=True, text=True,
                               timeout=60).stdout.splitlines()
        # The same from the dump, which does not go through h5py.
        tables = tables_of_dump(self.analyze("dump", shard).stdout.decode())
        sums = collections.Counter()
        for value in tables["values"]:
            frame = tables["frames"][int(tables["paths"][int(value["path"])]["frame"])]
            sums[frame["name"], frame["file"]] += int(value["wall_ns"])
        expected = [f"{ns / 1e9:12.6f} s  {json.loads(name)}  {json.loads(file)}"
                    for (name, file), ns in sums.most_common(10)]
        self.assertEqual(lines, expected)

        scope = {}
        with h5py.File(shard) as file:
            exec(blocks[1], {"file": file, "rank": 1}, scope)
            exec(blocks[2], {"file": file, "rank": 1, "np": np}, scope)
        expected = [int(v["wall_ns"]) for v in tables["values"] if v["rank_row"] == "1"]
        self.assertEqual(list(scope["wall_ns"]), expected)
        cells = {(int(v["series"]), int(v["bin"])): int(v["value"]) for v in tables["rank_series"]
                 if v["rank_row"] == "1"}
        self.assertGreater(len(cells), 100)
        self.assertEqual({place: int(scope["timeline"][place]) for place in zip(*np.nonzero(scope["timeline"]))}, cells)

    def test_series_are_the_ranks_own_totals(self):
        self.synth(3, 2)
        self.analyze("merge", "run")
        tables = tables_of_dump(self.analyze("dump", "run").stdout.decode())
        names = [json.loads(row["name"]) for row in tables["series"]]
        self.assertEqual(names, sorted(names))
        sums = collections.Counter()
        for row in tables["rank_series"]:
            sums[int(row["rank_row"]), names[int(row["series"])]] += int(row["value"])
        for row in tables["raw_main_thread"]:  # series are of samples
            if row["category"] in ("python", "native", "mpi", "io"):
                self.assertEqual(sums[int(row["rank_row"]), f"{row['category']}_ns"], int(row["wall_ns"]), row)
        self.assertEqual([json.loads(row["path"]) for row in tables["io_files"]],
                         ["/data/stencil/input.h5"] + [f"/scratch/stencil/checkpoint.{i}" for i in range(6)])

    def test_every_column_is_documented(self):
        self.synth()
        self.analyze("merge", "run")
        with open(os.path.join(SOURCE, "formats", "FORMATS.md"), encoding="utf-8") as file:
            text = file.read()
        known = set(re.findall(r"`([^`\n]+)`", text))
        known |= {f"{raw}main_thread_{c}_ns" for raw in ("", "raw_")
                  for c in ("python", "native", "system", "mpi", "io", "idle", "runnable")}
        known |= {name.replace("inclusive_", "exclusive_") for name in known}
        # Documented for any column *column* of any matrix table *T*.
        of_blocks = [re.sub(r"[*`]", "", name) for name in re.findall(r"\*T\*`[^|,\n]*`", text)]
        tables = {"values": ("category", "main_thread", "wall_ns", "cpu_ns", "samples"),
                  "path_counters": ("value",),
                  "data_accesses": ("samples", "accesses", "blocks_0", "blocks_1", "blocks_2", "blocks_3")}
        for table, columns in tables.items():
            for column in (*columns, "rank", "counter", "path", "first_row"):
                known |= {f"blocks/{name}".replace("/T_", f"/{table}_").replace("column", column) for name in of_blocks}
        missing = []

        def visit(name, item):
            last = re.sub(r"_(bytes|offsets)$", "", name.split("/")[-1]) if isinstance(item, h5py.Dataset) else name
            if not {name, name.split("/")[-1], last, "run/" + last} & known:
                missing.append(name)
        with h5py.File(os.path.join(self.run_, "profile.h5")) as file:
            file.visititems(visit)
            groups = [file, *(item for item in file.values() if isinstance(item, h5py.Group))]
            missing += [a for group in groups for a in group.attrs if a not in known]
        self.assertEqual(missing, [])

    def test_columns_are_stored_as_documented(self):
        shard = self.synth(1, 8, 2000)[0]
        with h5py.File(shard) as file:
            seen = set()

            def visit(name, item):
                if not isinstance(item, h5py.Dataset):
                    return
                self.assertIn("xxh3", item.attrs)
                if item.size * item.dtype.itemsize <= 4096:
                    self.assertIsNone(item.chunks, name)
                    seen.add("compact")
                else:
                    self.assertTrue(item.fletcher32 and item.compression == "gzip", name)
                    self.assertLessEqual(item.chunks[0], 32768)
                    seen.add("chunked")
            file.visititems(visit)
            self.assertEqual(seen, {"compact", "chunked"})
            self.assertEqual(file["values/rank_offsets"][-1], file["values/path"].size)
            self.assertTrue(np.all(np.diff(file["values/rank_offsets"][:]) > 0))

    def edited(self, edit):
        shard = self.synth()[0]
        with h5py.File(shard, "a") as file:
            edit(file)
        return shard

    def test_other_versions_are_refused(self):
        shard = self.synth()[0]
        self.analyze("merge", "run")
        profile = os.path.join(self.run_, "profile.h5")
        for attribute in ("format_major", "format_minor"):
            for path, end in ((shard, "only"), (profile, "only; merge the run's shards again")):
                with h5py.File(path) as file:
                    version = [int(file.attrs[name]) for name in ("format_major", "format_minor")]
                for other in {1, 9} - set(version):
                    shutil.copy(path, self.run_ + ".h5")
                    with h5py.File(self.run_ + ".h5", "a") as file:
                        file.attrs[attribute] = np.uint32(other)
                        found = ".".join(str(file.attrs[name]) for name in ("format_major", "format_minor"))
                    for verb in ("dump", "validate"):
                        self.refused([verb, self.run_ + ".h5"], 3, self.run_ + f".h5: has format {found}, this clusterprof "
                                     f"reads {version[0]}.{version[1]} {end}")

    def test_a_profile_of_another_version_is_made_anew_from_its_shards(self):
        shards = self.synth()
        self.analyze("merge", "run")
        profile = os.path.join(self.run_, "profile.h5")
        expected = self.analyze("report", "run", "--json").stdout
        with h5py.File(profile, "a") as file:
            file.attrs["format_major"] = np.uint32(2)
        self.assertEqual(self.analyze("report", "run", "--json").stdout, expected)
        with h5py.File(profile) as file:
            self.assertGreater(file.attrs["format_major"], 2)
            minor = file.attrs["format_minor"]
        with h5py.File(profile, "a") as file:
            file.attrs["format_major"] = np.uint32(2)
        for shard in shards:
            os.remove(shard)
        self.refused(["report", "run"], 3, f"profile.h5: has format 2.{minor}, this clusterprof reads")

    def test_a_shard_of_another_version_is_refused(self):
        def edit(file):
            versions.append("{format_major}.{format_minor}".format(**file.attrs))
            file.attrs["format_minor"] = np.uint32(99)
            versions.append("{format_major}.{format_minor}".format(**file.attrs))
        versions = []
        self.edited(edit)
        known, other = versions
        for verb in ("report", "merge"):
            self.refused([verb, "run"], 3, f"node-node0000.h5: has format {other}, this clusterprof reads {known} only")

    def test_additions_of_others_to_a_file_are_ignored(self):
        def edit(file):
            file.attrs["mood"] = "sunny"
            file.create_dataset("values/colour", data=np.zeros(3))
            file.create_group("unheard_of").create_dataset("x", data=np.arange(5))
        before = self.analyze("dump", self.synth()[0]).stdout
        shutil.rmtree(self.run_)
        shard = self.edited(edit)
        self.assertEqual(self.analyze("dump", shard).stdout, before)
        self.analyze("merge", "run")

    def test_edited_numbers_are_noticed(self):
        def edit(file):
            file["values/wall_ns"][0] += 1
        self.refused(["validate", self.edited(edit)], 3, "values/wall_ns is damaged")


    def test_clocks_that_could_not_be_compared(self):
        def edit(file):
            file["wait_analysis"].attrs["clock_error_ns"] = np.int64(2**63 - 1)
        text = self.analyze("dump", self.edited(edit)).stdout.decode()
        self.assertEqual(tables_of_dump(text)["wait_analysis"][0]["clock_error_ns"], "not comparable")

    def test_series_that_do_not_fit_are_noticed(self):
        def edit(file):
            file["time_axis"].attrs["bin_ns"] = np.int64(3_000_000)
        self.refused(["validate", self.edited(edit)], 3, "time_axis: bin_ns is not 1 ms times a power of two")


class Merge(Analyze):
    def test_merge_and_report(self):
        self.synth(4, 4)
        done = self.analyze("merge", "run")
        self.assertIn(b"16 ranks, 4 shards", done.stdout)
        self.analyze("validate", "run")
        report = self.report()
        self.assertEqual(report["schema"], "clusterprof.report/1")
        self.assertEqual((report["run"]["nodes"], report["run"]["ranks"]), (4, 16))
        self.assertTrue(report["run"]["complete"])
        self.assertEqual([r["rank"] for r in report["ranks"]], list(range(16)))
        sent = collections.Counter()
        for cell in report["mpi"]["matrix"]:
            self.assertIn((cell["dst"] - cell["src"]) % 16, (1, 15))
            sent[cell["src"]] += cell["bytes"]
        self.assertEqual(set(sent.values()), {2 * 1200 * 65536})

    def test_any_order_gives_the_same_profile(self):
        shards = self.synth(3, 2)
        self.analyze("merge", "run")
        first = self.analyze("dump", "run").stdout.split(b"\n[sources]")[0]
        for i, path in enumerate(shards):  # another order of names
            os.rename(path, os.path.join(self.run_, f"node-{9 - i}.h5"))
        self.analyze("merge", "run")
        self.assertEqual(self.analyze("dump", "run").stdout.split(b"\n[sources]")[0], first)

    def test_report_merges_when_needed(self):
        shards = self.synth(3, 2)
        profile = os.path.join(self.run_, "profile.h5")
        self.analyze("report", "run")
        made = os.stat(profile).st_ctime_ns
        self.analyze("report", "run")
        self.assertEqual(os.stat(profile).st_ctime_ns, made)
        os.remove(shards[1])
        report = self.report()
        self.assertNotEqual(os.stat(profile).st_ctime_ns, made)
        self.assertFalse(report["run"]["complete"])
        self.assertEqual(report["run"]["ranks"], 4)

    def test_a_run_can_be_named_in_several_ways(self):
        shard = self.synth()[0]
        expected = self.analyze("report", "run").stdout
        for argument, cwd in (("run/", None), ("run/profile.h5", None), (self.run_, "/"), (shard, "/"),
                              (".", self.run_), ("profile.h5", self.run_), ("../run", self.run_)):
            with self.subTest(argument):
                self.assertEqual(self.analyze("report", argument, cwd=cwd).stdout, expected)

    def test_damaged_shard(self):
        shards = self.synth(3, 2)
        with open(shards[1], "r+b") as file:
            file.truncate(20_000)
        for verb in ("report", "merge", "validate"):
            done = self.analyze(verb, "run", status=3)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(b"node-node0001.h5", done.stderr)
        done = self.analyze("merge", "--partial", "run")
        self.assertIn(b"node-node0001.h5", done.stderr)
        self.assertIn(b"2 shards", done.stdout)
        report = self.report()
        self.assertFalse(report["run"]["complete"])
        self.assertEqual(report["run"]["ranks"], 4)

    def test_sizes(self):
        """64 nodes of 64 ranks with 2,000 call paths. The limit is generous: it is 4 s of CPU time."""
        self.synth(64, 64, 2000)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self.analyze("merge", "run")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"merge of 4096 ranks: {cpu_s:.1f} s of CPU time", file=sys.stderr)
        self.assertIn(b"4096 ranks, 64 shards", done.stdout)
        self.assertLess(cpu_s, 40)

    def test_summary_with_the_memory_that_the_job_has_left(self):
        """As far as it comes, it ends well: no process may be killed for it."""
        self.synth(8, 8, 4000, options=["--paths-per-rank", "400"])
        text = "clusterprof: run: the summary takes more memory than the job has left; clusterprof report run shows it\n"
        done = self.analyze("banner", "run", "--memory", str(31 << 20))
        self.assertEqual(done.stderr.decode(), text)
        self.assertFalse(os.path.exists(os.path.join(self.run_, "profile.h5")))
        for mib in (32, 33, 34, 35, 36, 37, 38, 40, 44, 48, 56, 64, 80, 96, 128):
            with self.subTest(mib=mib):
                shown = self.analyze("banner", "run", "--memory", str(mib << 20)).stderr.decode()
                self.assertTrue(shown.endswith(text) or "64 ranks on 8 nodes" in shown, shown)
                if os.path.exists(os.path.join(self.run_, "profile.h5")):
                    self.analyze("validate", "run")
                    os.remove(os.path.join(self.run_, "profile.h5"))
        self.assertIn("64 ranks on 8 nodes", self.analyze("banner", "run", "--memory", str(4 << 30)).stderr.decode())
        # Damaged shards are left out with a bound, too.
        os.remove(os.path.join(self.run_, "profile.h5"))
        with open(sorted(glob.glob(os.path.join(self.run_, "node-*.h5")))[0], "r+b") as file:
            file.truncate(1000)
        self.assertIn("56 ranks on 7 nodes", self.analyze("banner", "run", "--memory", str(4 << 30)).stderr.decode())

    def test_memory_where_ranks_have_call_paths_of_their_own(self):
        """Each rank has 80 call paths, with a source line each, that no other rank has. A merge takes a bounded amount
        of memory for each of them, and nothing else that grows with ranks, where there are no time series."""
        peaks = []
        for nodes in (8, 64):
            shutil.rmtree(self.run_, ignore_errors=True)
            self.synth(nodes, 8, 4000, options=["--paths-per-rank", "0", "--counters", "1", "--bins", "0"])
            merge = subprocess.Popen([os.path.join(LIBEXEC, "analyze"), "merge", "-q", self.run_],
                                     stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(merge.pid, 0)
            merge.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(merge.returncode, 0)
            peaks.append(used.ru_maxrss * 1024)
        per_path = (peaks[1] - peaks[0]) / (80 * 8 * (64 - 8))
        print(f"merge: {per_path:.0f} bytes per call path of one rank, {peaks[1] / 1e6:.0f} MB", file=sys.stderr)
        self.assertLess(per_path, 1400)

    def test_merge_prints_what_it_did(self):
        shards = self.synth(3, 2)
        done = self.analyze("merge", "run")
        self.assertRegex(done.stdout.decode(),
                         r"^run/profile.h5: 6 ranks, 3 shards, \d+ call paths, \d+\.\d s\n$")
        self.assertEqual(done.stderr, b"")  # too short for a word on progress
        self.assertEqual(self.analyze("merge", "-q", "run").stderr, b"")
        late = os.path.join(self.directory, "late.h5")
        os.rename(shards[2], late)
        os.remove(os.path.join(self.run_, "profile.h5"))
        self.assertIn(b"4 ranks, 2 shards, ", self.analyze("merge", "run").stdout)
        os.rename(late, shards[2])
        self.assertIn(b"6 ranks, 3 shards (2 merged before), ", self.analyze("merge", "run").stdout)

    def test_the_report_is_made_when_shards_are_merged(self):
        """The analysis that lies in the profile is the one that is computed without it."""
        self.synth(3, 4)
        profile = os.path.join(self.run_, "profile.h5")
        options = [[], ["--json"], ["--section", "timeline,nodes,waits,comm,matrix,io,off-cpu,regions,counters"]]
        merged = [self.analyze("report", "run", *o).stdout for o in options[:1]]
        stored = [self.analyze("report", "run", *o).stdout for o in options]
        with h5py.File(profile, "r") as file:
            self.assertGreater(len(file["report/state"]), 10_000)
        with h5py.File(profile, "a") as file:
            del file["report"]
        computed = [self.analyze("report", "run", *o).stdout for o in options]
        self.assertEqual(stored, computed)
        self.assertEqual(merged, stored[:1])

    @contextlib.contextmanager
    def read_only(self, directory):
        """Makes commands of root, who may write everywhere, treat the run as read-only."""
        os.chmod(directory, 0o555)
        try:
            yield ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
        finally:
            os.chmod(directory, 0o755)

    def test_a_run_that_cannot_be_written(self):
        self.synth(2, 2)
        with self.read_only(self.run_) as before:
            def run(*arguments):
                return subprocess.run([*before, os.path.join(LIBEXEC, "analyze"), *arguments], cwd=self.directory,
                                      capture_output=True, timeout=100)
            done = run("merge", "run")
            self.assertEqual((done.returncode, done.stdout), (3, b""))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(b"run/profile.h5", done.stderr)
            report = run("report", "run", "--json")
            self.assertEqual((report.returncode, report.stderr), (0, b""))
            rank = run("query", "run", "rank", "3", "--json")
            self.assertEqual((rank.returncode, rank.stderr), (0, b""))
        self.assertEqual(sorted(os.listdir(self.run_)), ["node-node0000.h5", "node-node0001.h5"])
        self.assertEqual(self.analyze("report", "run", "--json").stdout, report.stdout)
        self.assertEqual(self.analyze("query", "run", "rank", "3", "--json").stdout, rank.stdout)

    def test_a_profile_without_its_shards(self):
        for shard in self.synth(2, 2):
            self.analyze("merge", "run")
        expected = self.analyze("report", "run", "--json").stdout
        for shard in glob.glob(os.path.join(self.run_, "node-*.h5")):
            os.remove(shard)
        self.assertEqual(self.analyze("report", "run", "--json").stdout, expected)
        self.analyze("query", "run", "rank", "1")
        self.refused(["merge", "run"], 1, "nothing found")


class Query(Analyze):
    """Compares queries with sums over the tables of the dump."""

    def setUp(self):
        super().setUp()
        self.synth(3, 4, 200)
        self.analyze("merge", "run")
        self.tables = tables_of_dump(self.analyze("dump", "run").stdout.decode())
        self.ranks = [int(row["rank"]) for row in self.tables["ranks"]]
        self.parents = [int(row["parent"]) for row in self.tables["paths"]]

    def ask(self, *question, **more):
        return json.loads(self.analyze("query", "run", *question, "--json", **more).stdout)

    def test_rank(self):
        for rank in (0, 7):
            row = str(self.ranks.index(rank))
            self_ns = collections.Counter()
            for value in self.tables["values"]:
                if value["rank_row"] == row:
                    self_ns[int(value["path"])] += int(value["wall_ns"])
            total_ns = collections.Counter(self_ns)
            for path in range(len(self.parents) - 1, 0, -1):
                total_ns[self.parents[path]] += total_ns[path]
            answer = self.ask("rank", str(rank))
            self.assertEqual(answer["rank"], rank)
            found = {path["row"]: path for path in answer["call_paths"]}
            self.assertEqual(set(found), set(path for path in self_ns if self_ns[path] or path in found))
            for path, row_ in found.items():
                self.assertAlmostEqual(row_["self_s"], self_ns[path] / 1e9, places=8)
                self.assertAlmostEqual(row_["total_s"], total_ns[path] / 1e9, places=8)
                self.assertEqual(row_["id"], self.tables["paths"][path]["id"])
            times = [path["self_s"] for path in answer["call_paths"]]
            self.assertEqual(times, sorted(times, reverse=True))

    def times(self, path, inclusive):
        inside = {path}
        if inclusive:
            for row in range(path + 1, len(self.parents)):
                if self.parents[row] in inside:
                    inside.add(row)
        times = collections.Counter()
        for value in self.tables["values"]:
            if int(value["path"]) in inside:
                times[self.ranks[int(value["rank_row"])]] += int(value["wall_ns"])
        return times

    def test_path(self):
        busiest = max(self.tables["path_statistics"], key=lambda row: int(row["exclusive_sum_ns"]))
        for path in (0, 1, 2, int(busiest["path"]), len(self.parents) - 1):
            for inclusive in (False, True):
                with self.subTest(path=path, inclusive=inclusive):
                    options = ["--inclusive"] if inclusive else []
                    answer = self.ask("path", str(path), *options)
                    times = self.times(path, inclusive)
                    self.assertEqual({row["rank"]: round(row["time_s"] * 1e9) for row in answer["ranks"]}, dict(times))
                    statistics = answer["statistics"]
                    self.assertAlmostEqual(statistics["sum_s"], sum(times.values()) / 1e9, places=6)
                    depth, row = 0, path
                    while row:
                        depth, row = depth + 1, self.parents[row]
                    self.assertEqual(len(answer["frames"]), depth)
                    for value in answer["quantiles"].values():
                        self.assertGreaterEqual(value, statistics["min_s"])
                        self.assertLessEqual(value, statistics["max_s"])
                    named = self.ask("path", self.tables["paths"][path]["id"], *options)
                    self.assertEqual(named, answer)
                    if not times or len(times) != statistics["ranks"]:
                        continue  # an inner path has ranks that are only below it
                    self.assertAlmostEqual(statistics["max_s"], max(times.values()) / 1e9, places=8)
                    self.assertEqual(times[statistics["max_rank"]], max(times.values()))
                    deviation = np.std([t / 1e9 for t in times.values()])
                    self.assertAlmostEqual(statistics["standard_deviation_s"], deviation, delta=1e-6)
                    ordered = sorted(times.values())
                    for share, value in answer["quantiles"].items():
                        exact = ordered[max(0, int(np.ceil(float(share) * len(ordered))) - 1)] / 1e9
                        self.assertAlmostEqual(value, exact, delta=0.06 * exact + 1e-9)

    def test_functions(self):
        report = self.report()
        answer = self.ask("functions", "--top", "7")
        self.assertEqual(answer["functions"], len(report["functions"]))
        self.assertEqual(len(answer["top"]), 7)
        for mine, row in zip(answer["top"], report["functions"]):
            self.assertEqual({key: row[key] for key in mine}, mine)

    def test_node(self):
        report = self.report()
        name = report["nodes"][1]["name"]
        here = set(report["nodes"][1]["ranks"])
        answer = self.ask("node", name)
        self.assertEqual({row["rank"] for row in answer["ranks"]}, here)
        cells = [cell for cell in report["mpi"]["matrix"] if cell["src"] in here or cell["dst"] in here]
        self.assertEqual(answer["matrix"], cells)
        whole = [cell for cell in report["mpi"]["node_matrix"] if cell["src_node"] == name]
        self.assertEqual({row["node"]: row["sent_bytes"] for row in answer["nodes"] if row["sent_bytes"]},
                         {cell["dst_node"]: cell["bytes"] for cell in whole})

    def test_text(self):
        for question, words in ((["rank", "5"], ["Rank 5 on node0001", "call path"]),
                                (["path", "3"], ["Call path 3", "mean", "max"]),
                                (["functions", "--top", "3"], ["Hotspots", "more"]),
                                (["node", "node0002"], ["Node node0002", "itself", "node0001"])):
            text = self.analyze("query", "run", *question).stdout.decode()
            for word in words:
                self.assertIn(word, text)
            self.assertLess(len(text.splitlines()), 60)
            self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)

    def test_many_ranks_are_not_listed(self):
        self.run_ = os.path.join(self.directory, "large")
        self.synth(2, 40)
        text = self.analyze("query", "large", "path", "1", "--inclusive").stdout.decode()
        self.assertIn("60 more", text)  # of 80: the 15 longest and the 5 shortest
        self.assertIn("80 of 80 ranks", text)
        self.assertRegex(text, r"share of the ranks +5 % +25 % +50 % +75 % +95 % +99 % *\n +take at most( +\d+\.\d+){6} +within 5 %")

    def test_empty_answers_and_invalid_questions(self):
        for question, status, word in ((["rank", "99"], 1, "no rank 99"), (["rank", "x"], 2, "no number"),
                                       (["path", "99999"], 1, "no call path"), (["path", "f" * 32], 1, "no call path"),
                                       (["path", "z" * 32], 1, "no call path"), (["node", "x"], 1, "no node x"),
                                       ([], 2, "query --help"), (["rank"], 2, "query"), (["weather"], 2, "query")):
            self.refused(["query", "run", *question], status, word)
        self.refused(["query", "missing", "rank", "0"], 1, "nothing found")

    def test_one_rank_needs_one_block(self):
        """Damage in another node's rows is not noticed, because they are not read."""
        with h5py.File(os.path.join(self.run_, "profile.h5"), "r") as file:
            column = file["values/wall_ns"].id
            chunk = column.get_chunk_info(column.get_num_chunks() - 1)
        with open(os.path.join(self.run_, "profile.h5"), "r+b") as file:
            file.seek(chunk.byte_offset + chunk.size // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0xff]))
        self.analyze("query", "run", "rank", "0")
        self.refused(["query", "run", "rank", "11"], 3, "profile.h5")
        self.refused(["validate", os.path.join(self.run_, "profile.h5")], 3, "profile.h5")


class CommandLine(Analyze):
    def test_nothing_found(self):
        os.mkdir(self.run_)
        for verb in ("report", "merge", "validate", "ls"):
            self.refused([verb, "run"], 1, "run", "nothing found")
        for verb in ("report", "merge", "validate", "dump", "ls"):
            self.refused([verb, "missing"], 1, "missing", "nothing found")

    def test_bad_usage(self):
        self.refused([], 2, "--help")
        self.refused(["report"], 2, "RUN", "report --help")
        self.refused(["report", "run", "--colour-blind"], 2, "--colour-blind", "report --help")
        self.refused(["fly", "run"], 2, "fly")
        self.synth()
        self.refused(["report", "run", "--section", "nonsense"], 2, "nonsense", "efficiency")

    def test_foreign_files(self):
        os.mkdir(self.run_)
        shard = os.path.join(self.run_, "node-x.h5")
        with open(shard, "wb") as file:
            file.write(b"hello")
        for arguments in (["report", "run"], ["merge", "run"], ["dump", shard], ["validate", shard],
                          ["validate", "run"]):
            self.refused(arguments, 3, "node-x.h5")
        with h5py.File(shard, "w") as file:
            file["x"] = 1
        self.refused(["report", "run"], 3, "node-x.h5", "not a clusterprof file")
        self.refused(["report", "/etc/passwd"], 3, "/etc/passwd")

    def test_help(self):
        for verb in ("report", "merge", "validate", "dump", "ls", "query"):
            done = self.analyze(verb, "--help")
            self.assertIn(b"Usage: ", done.stdout)

    def test_one_region(self):
        self.synth()
        whole = self.report()
        region = next(row for row in whole["regions"] if row["name"] == "iteration/exchange")
        part = json.loads(self.analyze("report", "run", "--json", "--region", region["name"]).stdout)
        self.assertEqual(part["run"]["region"], region["name"])
        for key in ("python_s", "mpi_s"):
            self.assertAlmostEqual(sum(rank[key] for rank in part["ranks"]), region[key], delta=1e-3)
        self.assertLess(part["functions"][0]["self_s"], whole["functions"][0]["self_s"])
        self.assertIsNone(part["timeline"])
        self.refused(["report", "run", "--region", "exchange"], 1, "no region exchange")

    def test_sections(self):
        self.synth()
        whole = self.analyze("report", "run").stdout
        part = self.analyze("report", "run", "--section", "efficiency").stdout
        self.assertLess(len(part), len(whole) // 2)
        self.assertIn(b"load balance", part.lower())

    def test_ls(self):
        self.synth()
        lines = self.analyze("ls").stdout.decode().splitlines()
        self.assertEqual(len(lines), 2)
        self.assertEqual(lines[1].split()[:4], ["run", "2026-09-21T14:13:20Z", "4", "2"])
        self.assertIn("solve.py", lines[1])

    def test_names_cannot_steer_the_terminal(self):
        evil = "x\x1b[31m\u009b2J\u202e"
        shown = "x\\x1b[31m\\x9b2J\\u202e"
        self.run_ = os.path.join(self.directory, evil)
        shards = self.synth()
        with h5py.File(shards[0], "a") as file:
            file["run"].attrs["id"] = evil
        texts = {}
        for arguments in (["merge", evil], ["validate", evil], ["ls"], ["report", evil]):
            texts[arguments[0]] = self.analyze(*arguments).stdout.decode()
        texts["dump"] = self.analyze("dump", shards[0]).stdout.decode()
        texts["banner"] = self.analyze("banner", evil).stderr.decode()
        os.truncate(shards[1], 5000)
        texts["ls of a damaged run"] = self.analyze("ls").stdout.decode()
        for verb in ("merge", "validate", "report"):
            texts[verb + " complaint"] = self.analyze(verb, evil, status=3).stderr.decode()
        for verb in ("merge", "validate", "report", "dump", "ls"):
            texts[verb + " missing"] = self.analyze(verb, evil + "?", status=1).stderr.decode()
        texts["option"] = self.analyze("merge", evil, "--" + evil, status=2).stderr.decode()
        for what, text in texts.items():
            with self.subTest(what):
                self.assertNotRegex(text, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
                if what not in ("banner", "report"):  # these have their own ways with names
                    self.assertIn(shown, text)

    def test_only_one_rank_merges(self):
        self.synth()
        program = os.path.join(LIBEXEC, "..", "..", "bin", "clusterprof")
        profile = os.path.join(self.run_, "profile.h5")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "SLURM_", "CLUSTERPROF_"))}

        def merge(**environment):
            return subprocess.run([program, "merge", self.run_], env={**clean, **environment},
                                  capture_output=True, timeout=60)
        for rank in ("3", "1", "0", None):
            job = {} if rank is None else {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": "4"}
            done = merge(**job)
            # These variables promise a job that MPI then does not find.
            said = b"clusterprof: merging in one process: MPI does not know the others of this job\n" if rank == "0" else b""
            self.assertEqual((done.returncode, done.stderr), (0, said), rank)
            works = rank in ("0", None)
            self.assertEqual(b"4 ranks, 2 shards" in done.stdout, works, rank)
            self.assertEqual(done.stdout == b"", not works, rank)
            self.assertEqual(os.path.exists(profile), works, rank)

    def test_the_run_has_one_name(self):
        """run.id is the name of the directory when clusterprof records."""
        name = "clusterprof-x-1"
        self.run_ = os.path.join(self.directory, name)
        for shard in self.synth():
            with h5py.File(shard, "a") as file:
                file["run"].attrs["id"] = name
        banner = self.analyze("banner", name).stderr.decode()
        self.assertTrue(banner.endswith(f"  clusterprof report {name}\n"), banner)
        report = self.analyze("report", name).stdout.decode()
        self.assertEqual(report.splitlines()[0].split(), ["clusterprof", "report", name])
        listed = self.analyze("ls").stdout.decode()
        self.assertEqual(banner.count(name), 2, banner)
        self.assertIn(f"\n  page        {name}/report.html\n", banner)
        for text in (report, listed):
            self.assertEqual(text.count(name), 1, text)
        self.assertEqual(self.report(name)["run"]["id"], name)

    def test_full_disk(self):
        self.synth()
        with open("/dev/full", "wb") as full:
            done = subprocess.run([os.path.join(LIBEXEC, "analyze"), "report", self.run_], stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"standard output", done.stderr)


class Banner(Analyze):
    def test_banner(self):
        self.synth(2, 4)
        done = self.analyze("banner", "--wait-ranks", "8", "--timeout", "30", self.run_)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(done.stdout, b"")
        self.assertTrue(5 < len(lines) <= 25, lines)
        self.assertTrue(os.path.exists(os.path.join(self.run_, "profile.h5")))
        with open(os.path.join(self.run_, "report.txt"), "rb") as file:
            self.assertEqual(file.read(), self.analyze("report", "run").stdout)
        self.assertEqual(sorted(os.listdir(self.run_)),
                         ["node-node0000.h5", "node-node0001.h5", "profile.h5", "report.html", "report.txt"])

    def test_banner_waits_for_the_last_shard(self):
        shards = self.synth(2, 2)
        late = os.path.join(self.directory, "late.h5")
        os.rename(shards[1], late)
        timer = threading.Timer(0.7, os.rename, (late, shards[1]))
        start = time.monotonic()
        timer.start()
        self.analyze("banner", "--wait-ranks", "4", "--timeout", "30", self.run_)
        self.assertGreater(time.monotonic() - start, 0.6)
        timer.join()
        self.assertTrue(self.report()["run"]["complete"])

    def test_banner_does_not_wait_for_ever(self):
        shards = self.synth(2, 2)
        os.remove(shards[1])
        start = time.monotonic()
        self.analyze("banner", "--wait-ranks", "4", "--timeout", "0.5", self.run_)
        self.assertTrue(0.4 < time.monotonic() - start < 20)
        self.assertFalse(self.report()["run"]["complete"])

    def test_banner_does_not_wait_for_ranks_that_do_not_record(self):
        shards = self.synth(3, 2)
        os.remove(shards[2])
        late = os.path.join(self.directory, "late.h5")
        os.rename(shards[1], late)
        timer = threading.Timer(2.5, os.rename, (late, shards[1]))
        start = time.monotonic()
        timer.start()
        self.analyze("banner", "--wait-ranks", "6", "--timeout", "60", self.run_)
        took = time.monotonic() - start
        timer.join()
        self.assertTrue(3.3 < took < 20, took)  # 1 s after the late one
        self.assertEqual(self.report()["run"]["ranks"], 4)

    def test_banner_waits_for_ranks_that_still_run(self):
        with h5py.File(self.synth(1, 2)[0], "a") as file:
            file["run"].attrs["complete"] = np.uint32(0)
        start = time.monotonic()
        self.analyze("banner", "--wait-ranks", "2", "--timeout", "5", self.run_)
        self.assertGreater(time.monotonic() - start, 4.9)

    def test_report_text_is_written_through_no_link(self):
        self.synth()
        victim = os.path.join(self.directory, "victim")
        with open(victim, "w", encoding="utf-8") as file:
            file.write("mine")
        report = os.path.join(self.run_, "report.txt")
        os.symlink(victim, report)
        process = subprocess.Popen([os.path.join(LIBEXEC, "analyze"), "banner", "--wait-ranks", "99", "--timeout",
                                    "1", self.run_], stderr=subprocess.DEVNULL)
        # The name earlier versions used could be foreseen.
        os.symlink(victim, f"{report}.{process.pid}.tmp")
        self.assertEqual(process.wait(timeout=60), 0)
        with open(victim, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        self.assertFalse(os.path.islink(report))
        self.assertEqual([n for n in os.listdir(self.run_) if n.startswith(".")], [])

    def test_banner_without_shards(self):
        os.mkdir(self.run_)
        self.refused(["banner", "--wait-ranks", "1", "--timeout", "0.1", self.run_], 1, "nothing found")


class Synth(Analyze):
    def test_bad_usage(self):
        def synth(*arguments):
            return subprocess.run([os.path.join(LIBEXEC, "synth"), *arguments], cwd=self.directory,
                                  capture_output=True, timeout=60)
        self.assertEqual(synth().returncode, 2)
        self.assertEqual(synth("--nodes", "0", "x").returncode, 2)
        self.assertEqual(synth("x").returncode, 0)
        self.assertEqual(synth("x").returncode, 3, "never overwrites")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
