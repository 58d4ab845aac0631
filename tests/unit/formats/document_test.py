# SPDX-License-Identifier: BSD-3-Clause
"""The examples of FORMATS.md for profiles, and the one of path_series, run as they stand there on the golden file,
give what its text (written through our own reader) says."""
import collections
import json
import os
import re
import sys
import types
import unittest

import h5py
import numpy as np

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PROFILE = os.path.join(SOURCE, "tests", "golden", "profile", "profile.h5")


def examples():
    with open(os.path.join(SOURCE, "formats", "FORMATS.md"), encoding="utf-8") as file:
        of_shards, _, of_profiles = file.read().partition("\n### A profile\n")
    blocks = lambda text: re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [*blocks(of_profiles), blocks(of_shards)[-1]]


def tables():
    with open(PROFILE[:-3] + ".dump.txt", encoding="utf-8", errors="surrogateescape") as file:
        found = {}
        for part in file.read().split("\n\n")[1:]:
            title, columns, *rows = part.rstrip("\n").split("\n")
            names = columns.split("\t")
            found[title.split("]")[0][1:]] = [dict(zip(names, row.split("\t"))) for row in rows]
    return found


def fake_pandas():
    """As much of pandas as the example uses, which not every machine with h5py has."""
    def frame(columns):
        lengths = {len(c) for c in columns.values() if np.ndim(c) != 0}
        assert len(lengths) == 1, columns.keys()
        return {name: np.full(*lengths, c) if np.ndim(c) == 0 else np.asarray(c) for name, c in columns.items()}

    def concat(frames, ignore_index):
        assert ignore_index
        return {name: np.concatenate([f[name] for f in frames]) for name in frames[0]}

    module = types.ModuleType("pandas")
    module.DataFrame, module.concat = frame, concat
    return module


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.frames, cls.one_rank, cls.one_path, cls.path_series = examples()
        cls.tables = tables()
        cls.values = cls.tables["values"]

    def test_pandas(self):
        self.assertLessEqual(len(self.frames.splitlines()), 31)
        scope = {"__name__": "example"}
        before = sys.argv, sys.modules.get("pandas")
        try:
            sys.argv, sys.modules["pandas"] = ["example", PROFILE], fake_pandas()
            exec(self.frames, scope)
        finally:
            sys.argv = before[0]
            del sys.modules["pandas"]
            if before[1] is not None:
                sys.modules["pandas"] = before[1]
        rows, paths = scope["rows"], scope["paths"]
        ranks = self.tables["ranks"]
        expected = collections.Counter()
        for v in self.values:
            rank = ranks[int(v["rank_row"])]
            expected[int(rank["node"]), int(rank["rank"]), int(v["path"]), int(v["wall_ns"]), int(v["cpu_ns"]),
                     int(v["samples"])] += 1
        found = collections.Counter(zip(*(map(int, rows[c]) for c in ("node", "rank", "path", "wall_ns", "cpu_ns",
                                                                       "samples"))))
        self.assertGreater(len(found), 100)
        self.assertEqual(found, expected)
        self.assertEqual(len(paths["ranks"]), len(self.tables["paths"]))
        for i, (path, statistics) in enumerate(zip(self.tables["paths"], self.tables["path_statistics"])):
            if i != 0:
                self.assertEqual(paths["function"][i], json.loads(self.tables["frames"][int(path["frame"])]["name"]))
            self.assertEqual(int(paths["parent"][i]), int(path["parent"]))
            self.assertEqual(int(paths["inclusive_sum_ns"][i]), int(statistics["inclusive_sum_ns"]))
            exact = int(paths["inclusive_sum_squares_ns2_high"][i]) << 64 | int(
                paths["inclusive_sum_squares_ns2_low"][i])
            self.assertEqual(float(exact), paths["inclusive_sum_squares_ns2"][i])

    def test_one_rank(self):
        with h5py.File(PROFILE) as file:
            for rank in range(len(self.tables["ranks"])):
                scope = {"file": file, "rank": rank, "np": np}
                exec(self.one_rank, scope)
                expected = sorted(int(v["wall_ns"]) for v in self.values if int(v["rank_row"]) == rank)
                self.assertGreater(len(expected), 10)
                self.assertEqual(sorted(map(int, scope["wall_ns"])), expected)

    def test_one_path(self):
        with h5py.File(PROFILE) as file:
            found = 0
            for path in range(len(self.tables["paths"])):
                scope = {"file": file, "path": path, "np": np}
                exec(self.one_path, scope)
                expected = collections.Counter()
                for v in self.values:
                    if int(v["path"]) == path:
                        expected[int(v["rank_row"])] += int(v["wall_ns"])
                self.assertEqual({int(r): int(ns) for r, ns in scope["wall_of_rank"].items()}, dict(expected))
                found += len(expected)
            self.assertGreater(found, 100)

    def test_path_series(self):
        def text(dumped):  # it writes control characters as \x00
            return json.loads(dumped.replace("\\x", "\\u00"))

        strings = [text(row["text"]) for row in self.tables["strings"]]
        frames = [text(row["name"]) for row in self.tables["frames"]]
        expected = collections.Counter()
        for row in self.tables["path_series"]:
            frame = self.tables["paths"][int(row["path"])]["frame"]
            expected["" if frame == "none" else frames[int(frame)], int(row["bin"])] += int(row["wall_ns"])
        self.assertGreater(len(expected), 100)
        with h5py.File(PROFILE) as file:
            scope = {"file": file, "np": np, "text": strings}
            exec(self.path_series, scope)
        found = scope["over_time_ns"]
        self.assertEqual({(strings[s], int(b)): int(found[s, b]) for s, b in zip(*np.nonzero(found))}, dict(expected))


if __name__ == "__main__":
    unittest.main()
