# SPDX-License-Identifier: BSD-3-Clause
"""What `clusterprof report --html` and the end of a job write. The page is read as report/html/FORMAT.md has it.

Usage: page_test.py LIBEXEC_DIR"""

import array
import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

LIBEXEC = os.path.abspath(sys.argv[1])
CATEGORIES = 7
TYPES = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "f64": "d"}
NONE = 0xffffffff


class Page:
    def __init__(self, html):
        self.html = html.decode()
        block, = re.findall('<script id="clusterprof-data" type="application/octet-stream">([^<]*)</script>', self.html)
        plain = gzip.decompress(base64.b64decode(block, validate=True))
        assert plain[:8] == b"CPPAGE1\n"
        length = int.from_bytes(plain[8:12], "little")
        self.header = json.loads(plain[12:12 + length])
        self.data = memoryview(plain)[(12 + length + 7) // 8 * 8:]

    def array(self, name):
        entry = self.header["arrays"][name]
        values = array.array(TYPES[entry["type"]])
        values.frombytes(self.data[entry["offset"]:entry["offset"] + entry["length"] * values.itemsize])
        assert len(values) == entry["length"]
        return values

    def function_times(self):
        """[(self, total)] by function of the page; recursion counts once."""
        parent, frame, frame_function = self.array("path_parent"), self.array("path_frame"), self.array("frame_function")
        values = self.array("path_self_s")
        own = [sum(values[CATEGORIES * path:CATEGORIES * (path + 1)]) for path in range(len(parent))]
        inclusive = list(own)
        for path in range(len(parent) - 1, 0, -1):
            inclusive[parent[path]] += inclusive[path]
        times = [[0.0, 0.0] for _ in self.array("function_kind")]
        above = [frozenset()] * len(parent)
        for path in range(1, len(parent)):
            function = NONE if frame[path] == NONE else frame_function[frame[path]]
            above[path] = above[parent[path]] | {function}
            if function == NONE:
                continue
            times[function][0] += own[path]
            if function not in above[parent[path]]:
                times[function][1] += inclusive[path]
        return times


class Html(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="clusterprof-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.run_ = self.path("run")

    def path(self, name):
        return os.path.join(self.directory, name)

    def analyze(self, *arguments, status=0, **more):
        done = subprocess.run([os.path.join(LIBEXEC, "analyze"), *arguments], cwd=self.directory, capture_output=True,
                              timeout=100, **more)
        self.assertEqual(done.returncode, status, (arguments, done.stderr))
        if status:
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertEqual(done.stdout, b"")
        return done

    def synth(self, nodes=2, ranks=4, paths=80):
        subprocess.run([os.path.join(LIBEXEC, "synth"), "--nodes", str(nodes), "--ranks-per-node", str(ranks),
                        "--paths", str(paths), self.run_], check=True, timeout=100)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_numbers_are_the_reports(self):
        self.synth()
        self.assertEqual(self.analyze("report", "run", "--html", "first.html").stdout, b"")
        self.analyze("report", "run", "--html", "second.html")
        first = self.read("first.html")
        self.assertEqual(first, self.read("second.html"), "merging and reading the merged give one page")
        page, report = Page(first), json.loads(self.analyze("report", "run", "--json").stdout)
        embedded = page.header["report"]
        self.assertEqual(embedded["run"], report["run"])
        self.assertEqual(embedded["functions"], report["functions"])
        self.assertEqual(embedded["findings"], report["findings"])
        times, rows = page.function_times(), page.array("function_row")
        checked = 0
        for (own, total), row in zip(times, rows):
            if row == NONE:
                continue
            checked += 1
            self.assertAlmostEqual(own, report["functions"][row]["self_s"], delta=1e-5 * own + 1e-6)
            self.assertAlmostEqual(total, report["functions"][row]["total_s"], delta=1e-5 * total + 1e-6)
        self.assertEqual(checked, len(report["functions"]))
        self.assertEqual(page.header["groups"], 8)
        offsets, cells = page.array("cell_offset"), page.array("cell_self_s")
        for rank, group in enumerate(page.array("group_of_rank")):
            asked = json.loads(self.analyze("query", "run", "rank", str(rank), "--json").stdout)
            there = sum(cells[offsets[group]:offsets[group + 1]])
            self.assertAlmostEqual(there / sum(row["self_s"] for row in asked["call_paths"]), 1, delta=1e-2)
        useful = page.array("rank_useful_s")
        for i, rank in enumerate(report["ranks"]):
            self.assertAlmostEqual(useful[i], rank["useful_s"], delta=1e-6 * rank["useful_s"])
        self.assertGreater(page.header["time"]["bins"], 1)
        sampled = sum(page.array("path_time"))
        self.assertAlmostEqual(sampled / sum(own for own, _ in times), 1, delta=0.1)
        for series, name in ((i, s["name"]) for i, s in enumerate(page.header["series"])):
            values = page.array(f"series_{series}")
            self.assertEqual(len(values), page.header["rows"] * page.header["axis"]["bins"])
            if name != "python_ns":
                continue
            wanted = sum(sum(row["values"].get(name, [])) for row in report["timeline"]["ranks"])
            self.assertAlmostEqual(sum(values) / wanted, 1, delta=1e-2)

    def test_only_this_script_runs(self):
        self.synth(1, 1, 20)
        html = self.analyze("report", "run", "--html", "-").stdout.decode()
        policy, = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', html)
        script, = re.findall("<script>(.*?)</script>", html, re.DOTALL)
        style, = re.findall("<style>(.*?)</style>", html, re.DOTALL)
        self.assertIn("default-src 'none'", policy)
        for name, text in (("script-src", script), ("style-src", style)):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            self.assertIn(f"{name} 'sha256-{digest}'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertNotRegex(html, "@[A-Z]+[0-9A-Z_]*@")
        self.assertEqual(re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", html), [])

    def test_page_is_written_to_stdout_or_a_file(self):
        self.synth(1, 2, 20)
        page = self.analyze("report", "run", "--html", "-").stdout
        self.assertEqual(self.analyze("report", "run", "--html", "/dev/stdout").stdout, page)
        with tempfile.TemporaryFile() as unnamed:
            unnamed.write(b"before\n")
            unnamed.flush()
            subprocess.run([os.path.join(LIBEXEC, "analyze"), "report", self.run_, "--html", "/dev/stdout"], check=True,
                           stdout=unnamed, timeout=100)
            unnamed.seek(0)
            self.assertEqual(unnamed.read(), b"before\n" + page)
        self.assertTrue(os.path.islink("/dev/stdout"))
        old = os.umask(0o027)
        try:
            self.analyze("report", "run", "--html", "new.html")
        finally:
            os.umask(old)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("new.html")).st_mode), 0o640)
        os.symlink("new.html", self.path("link.html"))
        os.chmod(self.path("new.html"), 0o600)
        self.analyze("report", "run", "--html", "link.html")
        self.assertTrue(os.path.islink(self.path("link.html")))
        self.assertEqual(stat.S_IMODE(os.stat(self.path("new.html")).st_mode), 0o600)
        self.assertEqual(self.read("new.html"), page)
        os.mkfifo(self.path("pipe"))
        got = []
        reader = threading.Thread(target=lambda: got.append(self.read("pipe")))
        reader.start()
        self.analyze("report", "run", "--html", "pipe")
        reader.join()
        self.assertEqual(got, [page])
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith(".")], [])

    def test_bad_usage_and_files(self):
        self.synth(1, 1, 20)
        for more in (["--json"], ["--section", "lines"], ["--region", "iteration"]):
            self.assertIn(b"--html", self.analyze("report", "run", "--html", "x.html", *more, status=2).stderr)
        self.analyze("report", "run", "--html", "", status=2)
        self.assertIn(b"nowhere/x.html", self.analyze("report", "run", "--html", "nowhere/x.html", status=3).stderr)
        self.assertIn(b"No space", self.analyze("report", "run", "--html", "/dev/full", status=3).stderr)
        self.analyze("report", "none", "--html", "x.html", status=1)
        self.assertFalse(os.path.exists(self.path("x.html")))

    def test_no_source(self):
        self.synth(1, 1, 20)
        self.analyze("report", "run", "--html", "with.html")
        self.analyze("report", "run", "--html", "without.html", "--no-source")
        self.analyze("report", "run", "--html", "variable.html", env={**os.environ, "CLUSTERPROF_NO_SOURCE": "1"})
        self.assertEqual(self.read("without.html"), self.read("variable.html"))
        self.assertEqual({source["why_not"] for source in Page(self.read("with.html")).header["sources"]}, {"not found"})
        self.assertEqual({source["why_not"] for source in Page(self.read("without.html")).header["sources"]},
                         {"left out (--no-source)"})

    def test_at_the_end_of_a_job(self):
        self.synth()
        banner = self.analyze("banner", "run").stderr.decode()
        self.assertIn("\n  page        run/report.html\n", banner)
        self.assertLessEqual(len(banner.splitlines()), 25)
        self.assertEqual(self.read("run/report.html"), self.analyze("report", "run", "--html", "-").stdout)
        os.remove(self.path("run/report.html"))
        banner = self.analyze("banner", "run", "--no-html").stderr.decode()
        self.assertNotIn("page", banner)
        self.assertFalse(os.path.exists(self.path("run/report.html")))
        self.analyze("banner", "run", "--no-source")
        self.assertEqual(self.read("run/report.html"), self.analyze("report", "run", "--no-source", "--html", "-").stdout)

    def test_a_page_that_cannot_be_written_costs_only_itself(self):
        self.synth(1, 2, 20)
        os.mkdir(self.path("run/report.html"))
        done = self.analyze("banner", "run")
        self.assertRegex(done.stderr.decode(), "^clusterprof: .*report.html: cannot be written: Is a directory\n")
        self.assertIn(b"\n  clusterprof report run\n", done.stderr)

    def test_page_of_a_large_run_is_bounded(self):
        self.synth(64, 64, 200)
        banner = self.analyze("banner", "run").stderr.decode()
        self.assertIn("\n  page        large: made by clusterprof report RUN --html FILE\n", banner)
        self.assertFalse(os.path.exists(self.path("run/report.html")))
        self.analyze("report", "run", "--html", "page.html")
        html = self.read("page.html")
        self.assertLessEqual(len(html), 5_000_000)
        page = Page(html)
        self.assertEqual(len(page.array("rank_number")), 4096)
        self.assertEqual(page.header["groups"], 4096)
        self.assertLessEqual(page.header["rows"], 1024 + 128)
        self.assertEqual(page.header["report"]["ranks"], [])
        slow = next(f["rank"] for f in page.header["report"]["findings"] if f["rank"] is not None)
        row = page.array("row_of_rank")[slow]
        self.assertEqual((page.array("row_first_rank")[row], page.array("row_ranks")[row]), (slow, 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
