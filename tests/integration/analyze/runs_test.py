"""Several runs at once: ls and diff, their JSON by its schemas, colours. No recording.

Usage: runs_test.py LIBEXEC_DIR SOURCE_DIR"""

import ctypes
import json
import os
import pty
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import plain_surroundings  # noqa: E402,F401  before any test looks at them

import h5py
import jsonschema
import numpy as np

LIBEXEC, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ESCAPE = "\x1b["
XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64
XXHASH.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def schema(name):
    with open(os.path.join(SOURCE, "report", "json", f"{name}.schema.json"), encoding="utf-8") as file:
        rules = json.load(file)
    jsonschema.Draft7Validator.check_schema(rules)
    return rules


def hex_hash(content):
    """As base/hex_hash.hpp."""
    mask = (1 << 64) - 1
    value = 0xcbf29ce484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001b3 & mask
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        value = (value ^ value >> 33) * factor & mask
    return f"{value ^ value >> 33:016x}"


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="clusterprof-test-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.jobs = {"clusterprof-solve-4711.0": (2, 2, 1), "clusterprof-solve-20260921-141320-2": (2, 2, 2),
                    "mine": (1, 2, 3)}
        for name, (nodes, ranks, seed) in cls.jobs.items():
            subprocess.run([os.path.join(LIBEXEC, "synth"), "--nodes", str(nodes), "--ranks-per-node", str(ranks),
                            "--paths", "60", "--seed", str(seed), os.path.join(cls.directory, name)],
                           check=True, timeout=100)
        cls.a, cls.b, cls.small = cls.jobs

    def analyze(self, *arguments, status=0, cwd=None, **more):
        done = subprocess.run([os.path.join(LIBEXEC, "analyze"), *arguments], cwd=cwd or self.directory,
                              capture_output=True, timeout=60, **more)
        self.assertEqual(done.returncode, status, (arguments, done.stderr))
        return done

    def json(self, name, *arguments, **more):
        document = json.loads(self.analyze(*arguments, "--json", **more).stdout)
        jsonschema.validate(document, schema(name), jsonschema.Draft7Validator)
        return document

    def copy(self, *names):
        """Makes a directory with copies of these runs, including the times of their files."""
        folder = tempfile.mkdtemp(prefix="ls-", dir=self.directory)
        self.addCleanup(shutil.rmtree, folder)
        for name in names:
            shutil.copytree(os.path.join(self.directory, name), os.path.join(folder, name))
        return folder

    def on_terminal(self, *arguments, columns=80, environment=None):
        """What is printed on a terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "xterm", "COLUMNS": str(columns), **(environment or {})})
            os.execv(os.path.join(LIBEXEC, "analyze"), ["analyze", *arguments])
        text = b""
        while True:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # Linux says so that the other side is closed
                break
            if not piece:
                break
            text += piece
        self.assertEqual(os.waitpid(pid, 0)[1], 0, text)
        os.close(terminal)
        return text.decode().replace("\r\n", "\n")

    # --- ls --------------------------------------------------------------------------------------

    def test_ls_of_runs_that_are_not_merged(self):
        folder = self.copy(self.a, self.small)
        for name in os.listdir(folder):
            profile = os.path.join(folder, name, "profile.h5")
            if os.path.exists(profile):
                os.remove(profile)
        listed = self.json("ls", "ls", folder)
        self.assertEqual([(run["run"], run["state"], run["job"], run["ranks"], run["nodes"])
                          for run in listed["runs"]],
                         [(self.a, "not merged", "4711.0", 4, 2), (self.small, "not merged", None, 2, 1)])
        for run in listed["runs"]:
            self.assertIsNone(run["efficiency"]["parallel"])
            self.assertIsNone(run["finding"])
            self.assertGreater(run["elapsed_s"], 0)
            self.assertEqual([name for name in os.listdir(os.path.join(folder, run["run"])) if name == "profile.h5"],
                             [], "ls merges nothing")
        text = self.analyze("ls", folder).stdout.decode()
        self.assertEqual(text.count("not merged"), 2)

    def test_ls_of_merged_runs(self):
        self.analyze("merge", "-q", self.a)
        self.analyze("merge", "-q", self.b)
        folder = self.copy(self.a, self.b)
        report = json.loads(self.analyze("report", "--json", self.a).stdout)
        listed = {run["run"]: run for run in self.json("ls", "ls", folder)["runs"]}
        run = listed[self.a]
        self.assertEqual((run["state"], run["job"]), ("merged", "4711.0"))
        self.assertEqual(listed[self.b]["job"], "20260921-141320")
        self.assertEqual(run["efficiency"], report["efficiency"])
        self.assertEqual(run["elapsed_s"], report["run"]["elapsed_s"])
        self.assertEqual(run["command"], report["run"]["command"])
        worst = next(f for f in report["findings"] if f["severity"] != "info")
        self.assertEqual(run["finding"], {key: worst[key] for key in run["finding"]})
        self.assertEqual(set(run["finding"]) - {"kind", "severity", "share", "gain_s", "gain_method", "text", "file", "line",
                                                "function", "rank"}, set())
        lines = self.analyze("ls", folder).stdout.decode().splitlines()
        self.assertRegex(lines[0], r"^RUN +JOB +START +RANKS +NODES +ELAPSED +EFF +COMMAND +WORST FINDING$")
        self.assertEqual(len(lines), 3)
        line, = [line for line in lines if line.startswith(self.a)]
        self.assertIn(f" {100 * run['efficiency']['parallel']:.0f} % ", line)
        self.assertIn(worst["severity"] + ": " + worst["text"][:30], line)

    def test_ls_order(self):
        folder = self.copy(self.a, self.b, self.small)
        for name, start_s in ((self.a, 300), (self.b, 100), (self.small, 200)):
            for entry in os.listdir(os.path.join(folder, name)):
                path = os.path.join(folder, name, entry)
                if entry == "profile.h5":
                    os.remove(path)
                    continue
                with h5py.File(path, "a") as file:
                    file["run"].attrs["start_utc_ns"] = type(file["run"].attrs["start_utc_ns"])(start_s * 10**9)

        def order(*arguments):
            return [run["run"] for run in self.json("ls", "ls", folder, *arguments)["runs"]]
        self.assertEqual(order(), [self.b, self.small, self.a])
        self.assertEqual(order("--reverse"), [self.a, self.small, self.b])
        self.assertEqual(order("--sort", "name"), sorted(self.jobs))
        self.assertEqual(order("--sort", "ranks")[0], self.small)
        self.assertIn(b"--sort", self.analyze("ls", "--sort", "colour", folder, status=2).stderr)

    def test_ls_names_damaged_runs(self):
        folder = self.copy(self.a, self.small)
        for name in os.listdir(os.path.join(folder, self.a)):
            os.truncate(os.path.join(folder, self.a, name), 3000)
        listed = {run["run"]: run for run in self.json("ls", "ls", folder)["runs"]}
        self.assertEqual(listed[self.a]["state"], "damaged")
        self.assertIn(self.a, listed[self.a]["error"])
        self.assertIsNone(listed[self.a]["ranks"])
        self.assertNotEqual(listed[self.small]["state"], "damaged")
        self.assertIn("damaged: ", self.analyze("ls", folder).stdout.decode())

    def test_ls_of_a_damaged_profile_reads_the_shards(self):
        self.analyze("merge", "-q", self.small)
        folder = self.copy(self.small)
        with h5py.File(os.path.join(folder, self.small, "profile.h5"), "a") as file:
            del file["ranks"]
            for name in [name for name in file if "report" in name]:
                del file[name]
        run, = self.json("ls", "ls", folder)["runs"]
        self.assertEqual((run["state"], run["ranks"]), ("not merged", 2))

    def test_ls_fits_the_terminal(self):
        self.analyze("merge", "-q", self.a)
        for columns in (80, 100, 120, 200):
            text = self.on_terminal("ls", columns=columns)
            self.assertIn(ESCAPE, text)
            lines = re.sub("\x1b\\[[0-9;]*m", "", text).splitlines()
            self.assertLessEqual(max(map(len, lines)), columns)
            self.assertEqual(len(lines), 1 + len(self.jobs) * (2 if columns < 120 else 1))
            self.assertTrue(any(self.a in line for line in lines), lines)

    def test_ls_looks_where_runs_are_put(self):
        folder = self.copy(self.a, self.small)
        environment = {**os.environ, "CLUSTERPROF_ROOT": folder}
        listed = self.json("ls", "ls", env=environment)
        self.assertEqual(listed["directory"], folder)
        self.assertEqual(sorted(run["run"] for run in listed["runs"]), sorted([self.a, self.small]))
        self.assertEqual(self.json("ls", "ls", ".", env=environment)["directory"], ".")
        without = {name: value for name, value in os.environ.items() if name != "CLUSTERPROF_ROOT"}
        self.assertEqual({run["run"] for run in self.json("ls", "ls", env=without)["runs"]}, set(self.jobs))

    def test_ls_of_one_job(self):
        folder = self.copy(self.a, self.b, self.small)
        os.symlink("815_3.0 822.0", os.path.join(folder, self.small, ".job"))

        def of(job):
            return [(run["run"], run["job"]) for run in self.json("ls", "ls", folder, "--job", job)["runs"]]
        self.assertEqual(of("4711"), [(self.a, "4711.0")])
        for job in ("815", "815_3", "815_3.0", "822", "822.0"):
            self.assertEqual(of(job), [(self.small, "815_3.0")])
        said = self.analyze("ls", folder, "--job", "4711.1", status=1).stderr.decode()
        self.assertEqual(said, f"clusterprof: {folder}: nothing found: no runs in it of job 4711.1\n")

    def test_ls_shows_jobs_where_there_are_any(self):
        def head(*names):
            return self.analyze("ls", self.copy(*names)).stdout.decode().splitlines()[0].split()
        self.assertIn("JOB", head(self.a, self.small))
        self.assertNotIn("JOB", head(self.small))

    # --- runs by their jobs ------------------------------------------------------------------------

    def test_every_verb_finds_a_run_by_its_job(self):
        self.analyze("merge", "-q", self.a)
        root = self.copy(self.a, self.b)
        path = os.path.join(root, self.a)
        environment = {**os.environ, "CLUSTERPROF_ROOT": root}
        for verb, *options in (["report"], ["report", "--json"], ["report", "--oneline"], ["query", "functions"],
                               ["export", "-f", "folded", "-o", "-"], ["dump"], ["validate"]):
            expected = self.analyze(verb, path, *options).stdout
            self.assertTrue(expected)
            for name in ("4711", "4711.0", self.a):
                with self.subTest(verb=verb, name=name):
                    self.assertEqual(self.analyze(verb, name, *options, env=environment, cwd="/").stdout, expected)
        self.assertIn(path.encode(), self.analyze("merge", "4711", env=environment).stdout)
        self.assertEqual(self.json("diff", "diff", "4711", self.b, env=environment)["ranks_differ"], False)
        for name, status, said in (("4711", 2, b"tui needs a terminal"), ("4712", 1, b"no run of that job")):
            done = subprocess.run([os.path.join(LIBEXEC, "tui"), name], cwd=self.directory, env=environment,
                                  capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, status, done)
            self.assertIn(said, done.stderr)

    def test_jobs_with_no_run_or_with_several(self):
        root = self.copy(self.a)
        shutil.copytree(os.path.join(root, self.a), os.path.join(root, "clusterprof-sum-4711.1"))
        environment = {**os.environ, "CLUSTERPROF_ROOT": root}
        for verb, *options in (["report"], ["query", "functions"], ["export", "-f", "folded"], ["dump"], ["validate"],
                               ["merge"]):
            with self.subTest(verb):
                said = self.analyze(verb, "4711", *options, status=2, env=environment).stderr.decode()
                self.assertEqual(said, "clusterprof: 4711: which of these runs: "
                                       f"{self.a}, clusterprof-sum-4711.1\n")
                said = self.analyze(verb, "815_2.0", *options, status=1, env=environment).stderr.decode()
                self.assertEqual(said, f"clusterprof: 815_2.0: nothing found: no run of that job in {root}\n")
        self.analyze("report", "4711.1", env=environment)

    # --- one line ----------------------------------------------------------------------------------

    def test_one_line(self):
        root = self.copy(self.b)
        environment = {**os.environ, "CLUSTERPROF_ROOT": root}
        profile = os.path.join(root, self.b, "profile.h5")
        if os.path.exists(profile):
            os.remove(profile)  # it is merged first
        line = self.analyze("report", "--oneline", self.b, env=environment).stdout.decode("ascii")
        report = json.loads(self.analyze("report", "--json", self.b, env=environment).stdout)
        self.assertRegex(line, r"\A[ -~]{40,255}\n\Z")
        self.assertTrue(line.startswith(" ".join(report["run"]["command"])[:40]), line)
        self.assertIn("; 4 ranks on 2 nodes, ", line)
        efficiency = {name: f"{100 * value:.0f} %" for name, value in report["efficiency"].items() if isinstance(value, float)}
        self.assertIn(f"; parallel efficiency {efficiency['parallel']} = load balance {efficiency['load_balance']} x "
                      f"communication {efficiency['communication']}; bound by {report['bottleneck'][0]['class']} ", line)
        worst = report["findings"][0]
        self.assertIn(f"; {worst['severity']}: {worst['text'][:20]}", line)
        self.assertNotIn("incomplete", line)
        for others in (["--json"], ["--html", "-"], ["--section", "summary"]):
            self.analyze("report", "--oneline", *others, self.b, status=2, env=environment)

    def test_one_line_of_an_incomplete_run_with_a_hostile_name(self):
        root = self.copy(self.a)
        run = os.path.join(root, self.a)
        for name in ("profile.h5", "node-node0001.h5"):
            if os.path.exists(os.path.join(run, name)):
                os.remove(os.path.join(run, name))
        shard, = [name for name in os.listdir(run) if name.endswith(".h5")]
        with h5py.File(os.path.join(run, shard), "a") as file:
            column = file["run/command_bytes"]
            evil = b"\n\x1b[2J\r\x07\x00" * len(column)
            column[:] = np.frombuffer(evil[:len(column)], dtype="u1")
            column.attrs.modify("xxh3", np.uint64(XXHASH.XXH3_64bits(evil, len(column))))
        line = self.analyze("report", "--oneline", run).stdout.decode("ascii")
        self.assertRegex(line, r"\A[ -~]{40,255}\n\Z")
        self.assertIn("; incomplete: 2 ranks lost; ", line)

    # --- colours ---------------------------------------------------------------------------------

    def test_colours_only_where_they_are_wanted(self):
        for verb in (["report", self.a], ["ls"], ["diff", self.a, self.b]):
            with self.subTest(verb[0]):
                self.assertIn(ESCAPE, self.on_terminal(*verb))
                self.assertNotIn(ESCAPE, self.on_terminal(*verb, environment={"NO_COLOR": "1"}))
                self.assertNotIn(ESCAPE, self.on_terminal(*verb, environment={"TERM": "dumb"}))
                self.assertNotIn(ESCAPE, self.on_terminal(*verb, "--color", "never"))
                self.assertIn(ESCAPE, self.on_terminal(*verb, "--color", "always", environment={"NO_COLOR": "1"}))
                self.assertNotIn(ESCAPE, self.analyze(*verb).stdout.decode())
                self.assertIn(ESCAPE, self.analyze(*verb, "--color=always").stdout.decode())
                self.assertIn(b"--color", self.analyze(*verb, "--color", "green", status=2).stderr)

    def test_report_sections(self):
        names = "summary hotspots lines tree ranks comm waits counters nodes timeline".split()
        for columns in (80, 132):
            text = self.on_terminal("report", self.a, "--section", *names, "--color", "never", columns=columns)
            self.assertLessEqual(max(map(len, text.splitlines())), columns)
            for title in ("Findings", "Hotspots", "Lines", "Call tree", "Ranks", "MPI by call site", "Waiting", "Counters",
                          "Nodes", "Over time"):
                self.assertIn(title, text)

    def test_the_tree_adds_up(self):
        report = json.loads(self.analyze("report", "--json", self.a).stdout)
        jsonschema.validate(report, schema("report"), jsonschema.Draft7Validator)
        rows = report["call_tree"]
        self.assertGreater(len(rows), 5)
        below = [0.0] * len(rows)
        for index, row in enumerate(rows):
            if row["parent"] is not None:
                self.assertLess(row["parent"], index)
                below[row["parent"]] += row["total_s"]
            parts = sum(row[f"{name}_s"] or 0
                        for name in ("python", "native", "system", "mpi", "io", "idle", "runnable"))
            self.assertAlmostEqual(parts, row["total_s"], places=6)
        for row, callees in zip(rows, below):
            self.assertLessEqual(row["self_s"] + callees, row["total_s"] + 1e-6)
        whole = sum(f["active_self_s"] for f in report["functions"])
        self.assertGreater(sum(row["total_s"] for row in rows if row["parent"] is None), 0.9 * whole)

    # --- diff ------------------------------------------------------------------------------------

    def test_run_does_not_differ_from_itself(self):
        result = self.json("diff", "diff", self.a, self.a)
        for table in ("run", "efficiency", "categories", "functions", "lines", "mpi_calls", "waits", "counters"):
            for row in result[table]:
                for value in row.values():
                    if isinstance(value, dict):
                        self.assertIn(value["difference"], (0, None), row)
        self.assertEqual((result["findings"]["came"], result["findings"]["went"]), ([], []))
        report = json.loads(self.analyze("report", "--json", self.a).stdout)
        by_name = {(f["name"], f["file"] or f["module"]): f for f in result["functions"]}
        for function in report["functions"][:5]:
            compared = by_name[(function["name"], function["file"] or function["module"])]
            self.assertAlmostEqual(compared["self_s"]["a"]["mean"], function["active_self_s"], places=6)

    def test_two_runs(self):
        first, second = (json.loads(self.analyze("report", "--json", run).stdout) for run in (self.a, self.b))
        result = self.json("diff", "diff", self.a, self.b)
        elapsed, = [row["value"] for row in result["run"] if row["name"] == "elapsed"]
        self.assertAlmostEqual(elapsed["difference"], second["run"]["elapsed_s"] - first["run"]["elapsed_s"], places=6)
        for row in result["efficiency"]:
            value = second["efficiency"][row["name"]]
            self.assertEqual(row["value"]["b"] and row["value"]["b"]["mean"], value)
        for row in result["categories"]:
            seconds = sum(rank[f"{row['name']}_s"] for rank in first["ranks"])
            self.assertAlmostEqual(row["value"]["a"]["mean"], seconds, places=6)

    def test_several_runs_on_each_side(self):
        result = self.json("diff", "diff", self.a, self.b, "--vs", self.b, self.a, self.a)
        self.assertEqual([len(result[side]) for side in "ab"], [2, 3])
        elapsed, = [row["value"] for row in result["run"] if row["name"] == "elapsed"]
        self.assertEqual((elapsed["a"]["runs"], elapsed["b"]["runs"], elapsed["noise"]), (2, 3, "runs"))
        self.assertFalse(elapsed["significant"])
        text = self.analyze("diff", self.a, self.b, "--vs", self.b, self.a).stdout.decode()
        self.assertIn("+/-", text)

    def test_different_numbers_of_ranks(self):
        result = self.json("diff", "diff", self.a, self.small)
        self.assertTrue(result["ranks_differ"])
        value = result["categories"][0]["value"]
        self.assertAlmostEqual(value["per_rank"]["a"]["mean"] * 4, value["a"]["mean"], places=6)
        self.assertAlmostEqual(value["per_rank"]["b"]["mean"] * 2, value["b"]["mean"], places=6)

    def test_conditions(self):
        def status(expression, *more, runs=(self.a, self.a)):
            done = subprocess.run([os.path.join(LIBEXEC, "analyze"), "diff", *runs, "--fail-if", expression, *more],
                                  cwd=self.directory, capture_output=True, timeout=60)
            return done.returncode, done.stderr.decode()
        self.assertEqual(status("elapsed>+5%"), (0, ""))
        code, said = status("elapsed>=+0%", "--any-difference")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"^clusterprof: diff: elapsed>=\+0%: true \(.* -> .*\)\n$")
        self.assertEqual(status("elapsed>+5% or elapsed>1ms")[0], 1)
        code, said = status("function:nowhere>+5%")
        self.assertEqual(code, 1)
        self.assertIn("not known", said)
        for wrong in ("elapsed", "elapsed>5%", "speed>+5%", "elapsed>+5% and io>+1s"):
            code, said = status(wrong)
            self.assertEqual((code, len(said.splitlines())), (2, 1), said)
        self.assertEqual(status("elapsed>", runs=("nowhere", "nowhere"))[0], 2, "said before runs are looked at")

    def test_wrong_use(self):
        for arguments, code in ((["diff", self.a], 2), (["diff", self.a, self.b, self.small], 2), (["diff"], 2),
                                (["diff", self.a, "nowhere"], 1), (["diff", self.a, "--vs", "nowhere"], 1),
                                (["diff", self.a, self.b, "--html", "/nowhere/x.html"], 3)):
            said = self.analyze(*arguments, status=code).stderr.decode()
            self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn(b"function:NAME", self.analyze("diff", "--help").stdout)

    def test_page(self):
        path = os.path.join(self.directory, "diff.html")
        self.addCleanup(os.remove, path)
        self.assertEqual(self.analyze("diff", self.a, self.b, "--html", path).stdout, b"")
        with open(path, encoding="utf-8") as file:
            page = file.read()
        self.assertTrue(page.startswith("<!doctype html>"))
        self.assertTrue(page.endswith("</html>\n"))
        self.assertNotIn("<script", page)
        self.assertLess(len(page), 200_000)

    # --- scale -----------------------------------------------------------------------------------

    def growing(self, *sizes, repeats=2):
        """Synthetic runs of those sizes, of a program whose functions follow known laws."""
        folder = tempfile.mkdtemp(prefix="growing-", dir=self.directory)
        self.addCleanup(shutil.rmtree, folder)
        runs = []
        for size in sizes:
            for seed in range(1, repeats + 1):
                runs.append(os.path.join(folder, f"{size}-{seed}"))
                subprocess.run([os.path.join(LIBEXEC, "synth"), "--growing", "--ranks-per-node", str(size), "--seed",
                                str(seed), runs[-1]], check=True, timeout=100)
        return runs

    def test_laws_of_growth(self):
        runs = self.growing(1, 2, 4, 8, 16, 32)
        result = self.json("scale", "scale", *runs, "--at", "64,128")
        self.assertEqual((result["by"], result["mode"], result["refused"]), ("ranks", "strong", None))
        self.assertEqual([row["p"] for row in result["sizes"]], [1, 2, 4, 8, 16, 32])
        self.assertEqual([row["p"] for row in result["predictions"]], [64, 128])
        exponents = {"solve": -1, "setup": 0, "gather": 1, "compare": 1.5, "search": 0}
        laws = {row["name"]: row["law"] for row in result["functions"]}
        for name, exponent in exponents.items():
            self.assertAlmostEqual(laws[name]["exponent"], exponent, delta=0.25, msg=name)
        call, = result["calls"]
        self.assertEqual((call["name"], call["function"]), ("MPI_Allreduce", "reduce"))
        report = json.loads(self.analyze("report", runs[-1], "--json").stdout)
        last = result["runs"][-1]
        self.assertEqual(last["id"], report["run"]["id"])
        self.assertAlmostEqual(last["parallel"], report["efficiency"]["parallel"], places=6)
        text = self.analyze("scale", *runs).stdout.decode()
        self.assertIn("Strong scaling", text)
        path = os.path.join(os.path.dirname(runs[0]), "scale.html")
        self.assertEqual(self.analyze("scale", *runs, "--html", path).stdout, b"")
        with open(path, encoding="utf-8") as file:
            page = file.read()
        self.assertTrue(page.endswith("</html>\n"))
        self.assertIn("<svg", page)
        self.assertNotIn("<script", page)

    def test_scaling_of_other_sizes(self):
        runs = self.growing(2, repeats=2)
        result = self.json("scale", "scale", *runs, "--by", "size=seed")
        self.assertEqual((result["by"], result["mode"], result["refused"]), ("size=seed", None, "few_sizes"))
        self.assertEqual([run["p"] for run in result["runs"]], [1, 2])

    def test_wrong_use_of_scale(self):
        one, two = self.growing(1, 2, repeats=1)
        for arguments, code in (([one], 2), ([one, two, "--by", "cores"], 2), ([one, one], 1), ([one, "nowhere"], 1),
                                ([one, two, "--by", "size=steps"], 1), ([one, two, "--at", "1000"], 2), ([], 2),
                                ([one, two, "--html", "/nowhere/x.html"], 3)):
            said = self.analyze("scale", *arguments, status=code).stderr.decode()
            self.assertEqual(len(said.splitlines()), 1, said)

    # --- history ---------------------------------------------------------------------------------

    def test_history_and_its_cache(self):
        runs = self.growing(2, repeats=3)
        folder = os.path.dirname(runs[0])
        first = self.json("history", "history", folder)
        self.assertEqual(sorted(run["run"] for run in first["runs"]), ["2-1", "2-2", "2-3"])
        self.assertEqual(len(first["series"]), 3, "each seed is a command of its own")
        report = json.loads(self.analyze("report", runs[0], "--json").stdout)
        row, = (run for run in first["runs"] if run["run"] == "2-1")
        self.assertEqual((row["id"], row["ranks"]), (report["run"]["id"], 2))
        self.assertAlmostEqual(row["elapsed_s"], report["run"]["elapsed_s"], places=6)
        self.assertAlmostEqual(row["parallel"], report["efficiency"]["parallel"], places=6)
        cache, = (os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".sqlite"))
        self.assertEqual(os.stat(cache).st_mode & 0o077, 0)
        self.assertEqual(self.json("history", "history", folder), first)
        # A run is not looked into while the cache knows it; and neither is a cache that is damaged.
        for damaged in (b"", b"nothing", None):
            if damaged is None:
                os.remove(cache)
            else:
                with open(cache, "wb") as file:
                    file.write(damaged)
            self.assertEqual(self.json("history", "history", folder), first)
        shutil.rmtree(runs[2])
        self.assertEqual(len(self.json("history", "history", folder)["runs"]), 2)
        self.assertEqual([run["run"] for run in self.json("history", "history", runs[1])["runs"]], ["2-2"])
        program = os.path.basename(first["series"][0]["command"][0])
        self.assertEqual(len(self.json("history", "history", program, env={**os.environ, "CLUSTERPROF_ROOT": folder})["runs"]), 2)
        for option, begin in (("--html", "<!doctype html>"), ("--badge", "<svg")):
            path = os.path.join(folder, "file" + option)
            self.assertEqual(self.analyze("history", folder, option, path).stdout, b"")
            with open(path, encoding="utf-8") as file:
                self.assertTrue(file.read().startswith(begin), option)
        self.assertIn("2-1", self.analyze("history", folder).stdout.decode())

    def test_history_of_another_view(self):
        # What the cache knows is of the usual view: with other directories of one's own it does not count.
        folder = os.path.dirname(self.growing(2, repeats=1)[0])
        elapsed_s = self.json("history", "history", folder)["runs"][0]["elapsed_s"]
        cache, = (os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".sqlite"))
        with open(cache, "rb") as file:
            content = file.read()
        self.assertEqual(content[-16:].decode(), hex_hash(content[:-16]))
        with open(cache, "wb") as file:
            file.write(content[:-16])
        database = sqlite3.connect(cache)
        with database:
            database.execute("UPDATE run SET elapsed = 12345")
        database.close()
        with open(cache, "rb") as file:
            content = file.read()
        with open(cache, "ab") as file:
            file.write(hex_hash(content).encode())
        self.assertEqual(self.json("history", "history", folder)["runs"][0]["elapsed_s"], 12345, "the cache is believed")
        own = self.json("history", "history", folder, "--own", folder)
        self.assertEqual(own["runs"][0]["elapsed_s"], elapsed_s)
        self.assertEqual(self.json("history", "history", folder)["runs"][0]["elapsed_s"], 12345, "nor is it written")

    def test_what_could_not_be_read_is_read_when_it_can_be(self):
        run, = self.growing(2, repeats=1)
        folder = os.path.dirname(run)
        self.analyze("merge", run)
        somebody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        for path, mode in ((self.directory, 0o755), (folder, 0o777), (run, 0o755)):
            os.chmod(path, mode)

        def allow(mode):  # which changes no file's time of modification
            for path, _, names in os.walk(run):
                for name in names:
                    os.chmod(os.path.join(path, name), mode)
        allow(0)
        said = self.json("history", "history", folder, **somebody)
        self.assertEqual((len(said["runs"]), len(said["damaged"])), (0, 1), said)
        allow(0o644)
        said = self.json("history", "history", folder, **somebody)
        self.assertEqual((len(said["runs"]), len(said["damaged"])), (1, 0), said)

    def test_wrong_use_of_history(self):
        empty = tempfile.mkdtemp(dir=self.directory)
        self.addCleanup(shutil.rmtree, empty)
        for arguments, code in (([empty], 1), (["nowhere/at/all"], 1), (["nothing-of-this-name"], 1), (["--top", "0"], 2)):
            said = self.analyze("history", *arguments, status=code).stderr.decode()
            self.assertEqual(len(said.splitlines()), 1, said)

    # --- whatif ----------------------------------------------------------------------------------

    def test_what_if_without_mpi_events(self):
        # One rank of a program without MPI: from sums.
        run, = self.growing(1, repeats=1)
        said = self.analyze("whatif", run, "--change", "faster", status=2).stderr.decode()
        self.assertIn("is no change", said)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.analyze("whatif", "nowhere", status=1)
        merged = self.copy(self.small)
        self.analyze("merge", os.path.join(merged, self.small))
        for folder, _, names in os.walk(os.path.join(merged, self.small)):
            for name in names:
                if name.startswith("node-"):
                    os.remove(os.path.join(folder, name))
        said = self.analyze("whatif", os.path.join(merged, self.small), status=1).stderr.decode()
        self.assertIn("shards", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
