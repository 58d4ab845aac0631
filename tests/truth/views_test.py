# SPDX-License-Identifier: BSD-3-Clause
"""Views of Kokkos by memory space and label, of a program that tells the tool of known ones (programs/views.c): the peak of each space,
what labels held then, and all amounts to the byte."""

import csv
import io
import json
import os
import subprocess

import recording
import truth


class Views(recording.RecordingTest):
    def program(self):
        self.need("gcc")
        program = os.path.join(self.directory, "views")
        subprocess.run(["gcc", "-O2", "-g", os.path.join(truth.PROGRAMS, "views.c"), "-o", program, "-pthread", "-ldl"], check=True)
        return program

    def views(self, what, *arguments, **how):
        """What the program printed, and the report."""
        done = self.record([self.program(), what, *arguments], **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.output = done.stdout.decode()
        self.whole = self.report()
        return self.whole["labelled_memory"]

    def spaces(self, memory):
        return {row["name"]: row for row in memory["spaces"]}

    def labels(self, space):
        found = {row["label"]: row for row in space["labels"]}
        self.assertEqual(len(found), len(space["labels"]), "each label once")
        return found

    def check_sums(self, space):
        """The labels of a space have all that it has."""
        for key in "allocations", "frees", "alloc_bytes", "live_end_bytes":
            self.assertEqual(sum(row[key] for row in space["labels"]), space[key], key)
        self.assertEqual(sum(row["space_peak_bytes"] for row in space["labels"]), space["peaks_bytes"])

    def check_plan(self, memory, times):
        """`times`: by rank, what amounts are multiplied with."""
        all_times, most = sum(times), max(times)
        spaces = self.spaces(memory)
        self.assertEqual(set(spaces), {"Host", "Cuda"})
        for space in spaces.values():
            self.check_sums(space)
            self.assertEqual(space["ranks"], len(times))
            self.assertEqual(space["rank_max"], len(times) - 1)
            self.assertEqual((space["unknown_frees"], space["unknown_bytes"]), (0, 0))
            self.assertEqual(space["node_max_bytes"], space["peaks_bytes"], "there is one node")
        host, cuda = spaces["Host"], spaces["Cuda"]
        self.assertEqual((host["rank_max_bytes"], host["peaks_bytes"]), (1700 * most, 1700 * all_times))
        self.assertEqual((cuda["rank_max_bytes"], cuda["peaks_bytes"]), (8192 * most, 8192 * all_times))
        self.assertEqual([row["peak_bytes"] for row in host["by_rank"]], [1700 * n for n in sorted(times, reverse=True)])
        n = len(times)
        # allocations, frees; allocated, in the end, at the peak of the space, own peak
        known = {"grid": (1, 1, 1000, 0, 0, 1000), "halo": (2, 2, 1100, 0, 500, 600), "flux": (1, 1, 1200, 0, 1200, 1200),
                 "tail": (1, 0, 100, 100, 0, 100)}
        self.check_labels(host, known, n, all_times, most)
        self.check_labels(cuda, {"work": (2, 2, 8192, 0, 8192, 8192), "field": (1, 0, 2048, 2048, 0, 2048)}, n, all_times, most)
        self.assertEqual(next(row["label"] for row in host["labels"]), "flux", "the largest first")
        copies = {(row["from"], row["to"]): (row["count"], row["bytes"], row["rank_max"], row["rank_max_bytes"]) for row in memory["copies"]}
        self.assertEqual(copies, {("Host", "Cuda"): (3 * n, 3000 * all_times, n - 1, 3000 * most),
                                  ("Cuda", "Host"): (n, 10 * all_times, n - 1, 10 * most)})

    def check_labels(self, space, known, ranks, all_times, most):
        labels = self.labels(space)
        self.assertEqual(set(labels), set(known))
        for name, (made, freed, allocated, left, at_peak, peak) in known.items():
            row = labels[name]
            self.assertEqual((row["allocations"], row["frees"], row["ranks"]), (made * ranks, freed * ranks, ranks), name)
            self.assertEqual((row["alloc_bytes"], row["live_end_bytes"], row["space_peak_bytes"], row["peak_bytes"]),
                             (allocated * all_times, left * all_times, at_peak * all_times, peak * most), name)
            self.assertEqual(row["rank_max_bytes"], at_peak * most, name)
            if at_peak != 0:
                self.assertEqual(row["rank_max"], ranks - 1, name)

    def test_peaks(self):
        memory = self.views("plan")
        self.check_plan(memory, [1])
        own = json.loads(self.output)
        at_s = self.spaces(memory)["Host"]["rank_max_at_s"]
        self.assertGreaterEqual(at_s, own["before_s"])
        self.assertLessEqual(at_s, self.whole["run"]["elapsed_s"] - own["left_s"])
        self.assertNotIn("memory", self.whole, "that takes --memory")
        # Deep copies are regions as well.
        copies = next(row for row in self.whole["regions"] if row["name"] == "deep_copy")
        self.assertEqual((copies["domain"], copies["count"]), ("Kokkos", 4))
        text = self.analyse("report", "--section", "memory")
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80)
        for word in "Memory by label", "Host", "Cuda", "flux", "1.70 kB", "Deep copies":
            self.assertIn(word, text)
        self.assertNotIn("--memory", text)
        self.assertIn("Memory by label", self.analyse("report"))
        rows = list(csv.DictReader(io.StringIO(self.analyse("export", "-f", "csv", "--table", "memory_labels", "-o", "-"))))
        self.assertEqual({(row["space"], row["label"]): int(row["space_peak_bytes"]) for row in rows},
                         {("Host", "grid"): 0, ("Host", "halo"): 500, ("Host", "flux"): 1200, ("Host", "tail"): 0, ("Cuda", "work"): 8192,
                          ("Cuda", "field"): 0})
        compared = json.loads(self.analyse("diff", "--json", "run"))  # with itself
        self.assertEqual({(row["space"], row["label"]): (row["peak_bytes"]["a"]["mean"], row["peak_bytes"]["difference"])
                          for row in compared["memory_labels"]},
                         {("Host", "grid"): (1000, 0), ("Host", "halo"): (600, 0), ("Host", "flux"): (1200, 0), ("Host", "tail"): (100, 0),
                          ("Cuda", "work"): (8192, 0), ("Cuda", "field"): (2048, 0)})
        self.assertEqual({row["name"]: row["rank_max_bytes"]["b"]["mean"] for row in compared["memory_spaces"]},
                         {"Host": 1700, "Cuda": 8192})

    def analyse(self, verb, *arguments):
        done = subprocess.run([recording.CLUSTERPROF, verb, *arguments, "run"], cwd=self.directory, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def test_peaks_of_two_ranks(self):
        self.need("mpirun.openmpi")
        self.check_plan(self.views("plan", before=recording.launcher("openmpi", 2)), [1, 2])

    def test_labels_of_all_kinds(self):
        memory = self.views("labels")
        space = self.spaces(memory)["Host"]
        self.check_sums(space)
        labels = {label: row["live_end_bytes"] for label, row in self.labels(space).items()}
        cut = "x" * 108 + "…"
        self.assertEqual(labels.pop(None), 1 + 2, "both have no label")
        # What is freed by the beginning of its label is found.
        self.assertEqual(labels.pop(cut), 16)
        self.assertEqual(labels.pop("x" * 111), 32)
        self.assertEqual(labels.pop("a" + "ä" * 53 + "…"), 64, "not cut in the middle of a character")
        self.assertEqual(labels.pop('quoted "<b>"\n'), 128)
        (strange, bytes_), = labels.items()
        self.assertEqual(bytes_, 4)
        self.assertRegex(strange, r"^not .*UTF-8$")
        self.assertEqual(space["unknown_frees"], 0)
        self.analyse("report", "--html", os.path.join(self.directory, "page.html"))

    def test_more_labels_and_spaces_than_have_room(self):
        memory = self.views("many")
        spaces = self.spaces(memory)
        host = spaces["Host"]
        self.check_sums(host)
        everything = 1500 * 1501 // 2
        self.assertEqual((host["allocations"], host["frees"], host["alloc_bytes"]), (1500, 200, everything))
        self.assertEqual(host["rank_max_bytes"], everything)
        gone = sum(range(1, 101)) + sum(range(1401, 1501))
        self.assertEqual(host["live_end_bytes"], everything - gone)
        self.assertEqual(host["unknown_frees"], 0)
        labels = self.labels(host)
        self.assertEqual(len(labels), 1024 + 1)
        others = labels["(other labels)"]
        rest = sum(range(1025, 1501))
        self.assertEqual((others["allocations"], others["alloc_bytes"], others["space_peak_bytes"]), (1500 - 1024, rest, rest))
        self.assertEqual(others["frees"], 100)
        self.assertEqual(self.whole["run"]["dropped"]["memory_label_table_full"], 1500 - 1024 + 20)
        # Host, 14 more, and one for the rest. No space has room for labels any more.
        self.assertEqual(len(spaces), 16)
        self.assertEqual(spaces["(other spaces)"]["allocations"], 20 - 14)
        self.assertEqual(sum(row["allocations"] for row in spaces.values()), 1500 + 20)

    def test_threads(self):
        space = self.spaces(self.views("threads"))["Host"]
        self.check_sums(space)
        labels = self.labels(space)
        self.assertEqual({label: (row["allocations"], row["frees"], row["alloc_bytes"], row["live_end_bytes"]) for label, row in labels.items()},
                         {"of one": (100000, 100000, 1600000, 0), "of two": (100000, 100000, 1600000, 0), "of both": (200000, 200000, 6400000, 0)})
        self.assertLessEqual(space["rank_max_bytes"], 96)
        self.assertGreaterEqual(space["rank_max_bytes"], 48)
        self.assertEqual(space["unknown_frees"], 0)

    def test_fork(self):
        """The child's tables are empty: what it frees of its parent's was never seen."""
        space = self.spaces(self.views("fork"))["Host"]
        labels = self.labels(space)
        self.assertEqual((space["processes"], space["rank_max_bytes"]), (2, 1000))
        self.assertEqual((space["unknown_frees"], space["unknown_bytes"]), (1, 1000))
        self.assertEqual({label: (row["allocations"], row["frees"], row["space_peak_bytes"], row["live_end_bytes"]) for label, row in labels.items()},
                         {"of parent": (1, 1, 1000, 0), "of child": (1, 0, 0, 300)})

    def test_forks_beside_a_thread_that_allocates(self):
        space = self.spaces(self.views("forks"))["Host"]
        child = self.labels(space)["of child"]
        self.assertEqual((child["allocations"], child["alloc_bytes"]), (50, 50 * 64))
        self.check_sums({**space, "peaks_bytes": sum(row["space_peak_bytes"] for row in space["labels"])})

    def test_cost(self):
        self.views("pairs", "100000")
        print(f"a view that is allocated and freed: {json.loads(self.output)['pair_ns']:.0f} ns")


if __name__ == "__main__":
    recording.main()
