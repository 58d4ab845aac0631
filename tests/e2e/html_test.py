# SPDX-License-Identifier: BSD-3-Clause
"""The report page in Chromium, used as people use it: pages of a real run and of a synthetic one of 4,096 ranks. What
the page shows is compared with what the command line tool says of the run. The browser's part: html/check_page.mjs."""

import base64
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import recording

sys.path.insert(0, os.path.join(recording.SOURCE, "tests", "integration", "html"))
import check_bundle

HERE = os.path.join(recording.SOURCE, "tests", "e2e", "html")
PROGRAM = os.path.join(HERE, "program.py")
FOLDER = pathlib.Path(recording.SOURCE, "report", "html")
ANALYZE = os.path.join(recording.BUILD, "libexec", "clusterprof", "analyze")
SYNTH = os.path.join(recording.BUILD, "libexec", "clusterprof", "synth")
PAGES = ["summary", "timeline", "hotspots", "tree", "balance", "comm", "io", "offcpu", "processes", "source", "nodes", "memory", "info"]
REGION = "<img src=x onerror=window.hostile=5>"
# As the page writes the names in program.py: whole, with what a terminal or a reader would take for orders escaped.
NAMES = ["</script><img src=x onerror=window.hostile=1>", '"><svg onload=window.hostile=2>',
         "\\u202egnp.exe\\u2066 \\x1b[31m\\x00", "<b>`${window.hostile=4}`</b>{{7*7}}&lt;"]
RANKS = 4
LARGEST_PAGE_BYTES = 5_000_000  # of 4,096 ranks


def chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(recording.RecordingTest):
    def setUp(self):
        if not chromium():
            self.skipTest("there is no chromium")
        self.need("mpirun.openmpi")
        super().setUp()

    def path(self, name):
        return os.path.join(self.directory, name)

    def run_ok(self, *command):
        done = self.bare(command)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout

    def query(self, run, *question):
        return json.loads(self.run_ok(ANALYZE, "query", self.path(run), "--json", *question))

    def rank(self, run, page, report, name):
        """A scenario of check_page.mjs: figures of the rank that has most of the function `name`."""
        functions = report["functions"]
        names = [function["name"] for function in functions]
        rank = self.function(report, name)["rank_max"]
        totals = {f["name"] + ("()" if f["kind"] == "python" else ""): f["rank_max_s"]
                  for f in functions[:40]  # the page shows a hundred at first
                  if f["rank_max"] == rank and f["kind"] in ("python", "mpi") and f["rank_max_s"] > 0
                  and re.fullmatch(r"[\w.]{1,40}", f["name"]) and names.count(f["name"]) == 1}
        totals = dict(list(totals.items())[:20])
        self.assertIn(name + "()", totals)
        return {"scenario": "rankFollows", "file": page, "rank": rank, "functions": totals, "exact": True,
                "sampled_s": self.query(run, "rank", str(rank))["time_s"]}

    def views(self, page, name, report, rank, pages):
        """A scenario of check_page.mjs: what views have to say of the whole run, of one rank, of a time, of both."""
        categories = [key for key in report["ranks"][0]
                      if key in ("python_s", "native_s", "system_s", "mpi_s", "io_s", "idle_s", "runnable_s")]
        of_rank = next(row for row in report["ranks"] if row["rank"] == rank)
        whole = {key: sum(row[key] or 0 for row in report["ranks"]) for key in categories}
        third = report["run"]["elapsed_s"] / 3
        time = f"t={third:.3f}_{2 * third:.3f}"
        return {"scenario": "viewsAgree", "file": page, "name": name, "pages": pages, "all": f"r=0-{report['run']['ranks'] - 1}",
                "gains_s": [finding["gain_s"] for finding in report["findings"]],
                "changes": (report["whatif"] or {"candidates": []})["candidates"],
                "functions_s": sum(f["active_self_s"] for f in report["functions"]),
                "recording_share": report["quality"]["recording_share"],
                "selections": [{"query": "", "seconds": whole},
                               {"query": f"r={rank}", "seconds": {key: of_rank[key] for key in categories}},
                               {"query": time}, {"query": f"{time}&r={rank}"}]}

    def record_program(self):
        with open(self.path("on_node"), "w") as file:
            file.write("#!/bin/sh\nif [ $((OMPI_COMM_WORLD_RANK % 2)) = 0 ]\nthen CLUSTERPROF_NODE='n0\"><b>'\n"
                       "else CLUSTERPROF_NODE=n1\nfi\nexport CLUSTERPROF_NODE\nexec \"$@\"\n")
        os.chmod(self.path("on_node"), 0o755)
        path = os.path.join(recording.SOURCE, "python")
        report = self.recorded([recording.PYTHON, "-B", PROGRAM, "</script><script>window.hostile=6</script>", "<!--"],
                               before=[*recording.launcher("openmpi", RANKS), self.path("on_node")],
                               options=["-r", "250", "-q"], env={**os.environ, "PYTHONPATH": path})
        self.assertEqual(report["run"]["ranks"], RANKS)
        self.run_ok(ANALYZE, "report", self.path("run"), "--html", self.path("real.html"))
        self.run_ok(ANALYZE, "report", self.path("run"), "--html", self.path("bare.html"), "--no-source")
        return report

    def with_report(self, page, name, change):
        """The page with another report in it."""
        with open(self.path(page), encoding="utf-8") as file:
            html = file.read()
        begin = html.index(">", html.index('<script id="clusterprof-data"')) + 1
        end = html.index("<", begin)
        plain = gzip.decompress(base64.b64decode(html[begin:end]))
        length = int.from_bytes(plain[8:12], "little")
        header, arrays = json.loads(plain[12:12 + length]), plain[(12 + length + 7) // 8 * 8:]
        change(header["report"])
        text = json.dumps(header).encode()
        changed = plain[:8] + len(text).to_bytes(4, "little") + text
        changed += bytes(-len(changed) % 8) + arrays
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(html[:begin] + base64.b64encode(gzip.compress(changed)).decode() + html[end:])
        return self.path(name)

    def rare(self, report):
        """Things that this run may lack: an efficiency above 100 %, a library call that blocks."""
        report["efficiency"].update(serialization=1.03, transfer=0.9)
        report["efficiency_above_one"] = ["serialization"]
        report["off_cpu"] = [{"kind": "sleep", "file": "a.c", "line": 3, "function": "nap", "library_function": "clock_nanosleep",
                              "time_s": 2, "main_thread_s": 2, "rank_max": 0},
                             {"kind": "lock", "file": "a.c", "line": 9, "function": "wait", "library_function": None,
                              "time_s": 1, "main_thread_s": 1, "rank_max": 1}]

    def test_in_chromium(self):
        report = self.record_program()
        self.run_ok(SYNTH, "--nodes", "64", "--ranks-per-node", "64", "--paths", "200", "--bins", "64", self.path("large"))
        self.run_ok(ANALYZE, "report", self.path("large"), "--html", self.path("large.html"))
        self.assertLess(os.path.getsize(self.path("large.html")), LARGEST_PAGE_BYTES)
        real, large = self.path("real.html"), self.path("large.html")
        of_large = self.report("large")
        regions = {region["name"]: region["sampled_s"] for region in report["regions"]}
        self.assertEqual(set(regions), {"steps", REGION})
        of_synthetic = [page for page in PAGES if page != "processes"]  # its ranks make none
        expected = {
            "chromium": chromium(), "node_modules": str(FOLDER / "node_modules"), "pages": PAGES,
            "reports": [{"file": real, "name": "real", "pages": PAGES, "themes": ["light", "dark"], "access": True},
                        {"file": large, "name": "4096 ranks", "pages": of_synthetic, "themes": ["light"], "access": False}],
            "scenarios": [
                self.views(real, "real", report, 1, PAGES),
                self.views(large, "4096 ranks", of_large, 77, of_synthetic),
                {"scenario": "policy", "file": real},
                {"scenario": "timeFollows", "file": real, "elapsed_s": report["run"]["elapsed_s"]},
                {"scenario": "timeFollows", "file": large, "elapsed_s": of_large["run"]["elapsed_s"]},
                self.rank("run", real, report, "compute"),
                self.rank("large", large, of_large, "Solver.residual"),
                {"scenario": "nodeFollows", "file": real, "node": "n1", "ranks": RANKS // 2},
                {"scenario": "regionFollows", "file": real, "region": "steps", "sampled_s": regions["steps"]},
                {"scenario": "searchFinds", "file": real, "query": "compute", "name": "compute()"},
                {"scenario": "searchFinds", "file": large, "query": "solver.exch", "name": "Solver.exchange()"},
                {"scenario": "hostileStayText", "file": real, "names": NAMES, "region": REGION},
                {"scenario": "keyboardAlone", "file": real},
                {"scenario": "rareThings", "file": self.with_report("real.html", "rare.html", self.rare)},
                {"scenario": "sources", "file": real, "without": self.path("bare.html"), "name": PROGRAM,
                 "line": "not in a page without sources"},
            ],
        }
        with open(self.path("expected.json"), "w") as file:
            json.dump(expected, file)
        done = subprocess.run(["node", os.path.join(HERE, "check_page.mjs"), self.path("expected.json")], text=True,
                              capture_output=True, timeout=900)
        print(done.stdout, flush=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    check_bundle.prepare(FOLDER)
    recording.main()
