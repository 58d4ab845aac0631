"""A profile as clusterprof dump and h5py show it, and sums of its times, written from the definitions in docs/metrics.md.
Tests compare them with what clusterprof computes from the same rows."""

import collections
import subprocess

import h5py

Frame = collections.namedtuple("Frame", "kind name file module line start")
Cell = collections.namedtuple("Cell", "rank path category main")  # rank: number; path: row


class Profile:
    def __init__(self, analyze, path):
        text = subprocess.run([analyze, "dump", path], check=True, capture_output=True, timeout=60).stdout.decode()
        self.tables = {}
        for part in text.split("\n[")[1:]:
            head, columns, *rows = part.rstrip("\n").split("\n")
            self.tables[head.split("]")[0]] = [dict(zip(columns.split("\t"), row.split("\t"))) for row in rows]
        with h5py.File(path, "r") as file:
            self.strings = self.column(file["strings"], "text")
            self.nodes = self.column(file["nodes"], "name")
            frames = file["frames"]
            self.frames = [Frame(*row) for row in zip(
                [("python", "native", "mpi", "kernel", "region")[kind] for kind in frames["kind"][:]],
                *[[self.strings[i] for i in frames[column][:]] for column in ("name", "file", "module")],
                map(int, frames["line"][:]), map(int, frames["function_line"][:]))]
            self.parents = [int(i) for i in file["paths/parent"][:]]
            frame = file["paths/frame"][:]
            self.path_frames = [None] + [self.frames[i] for i in frame[1:]]
        self.ranks = [{name: int(value) for name, value in row.items() if value.lstrip("-").isdigit()}
                      for row in self.tables["ranks"]]
        self.functions = self.first_starts()

    @staticmethod
    def column(group, name):
        data, offsets = bytes(group[name + "_bytes"][:]), group[name + "_offsets"][:]
        return [data[begin:end].decode(errors="surrogateescape") for begin, end in zip(offsets, offsets[1:])]

    def first_starts(self):
        """The line where a function starts; for native functions the first one that is known."""
        starts = {}
        for frame in self.frames:
            key = self.identity(frame)
            known = [line for line in (starts.get(key, 0), frame.start) if line]
            starts[key] = min(known, default=0)
        return starts

    @staticmethod
    def identity(frame):
        return frame.kind, frame.name, frame.file, frame.module, frame.start if frame.kind == "python" else 0

    def is_descriptor(self, path):
        frame = self.path_frames[path]
        return path != 0 and frame.kind == "kernel" and frame.name in ("of a file", "of a socket",
                                                                       "of a pipe or terminal")

    def counted(self, path, category):
        if self.is_descriptor(path):
            path = self.parents[path]
        if category == "python":
            up = path
            while up != 0:
                frame = self.path_frames[up]
                if frame.kind == "python" or (frame.kind == "native" and frame.name == "garbage collection"):
                    return up
                up = self.parents[up]
        return path

    def is_idle_helper(self, row):
        """Returns whether a row of values is of a helper thread that had nothing to do. One that waits for the GIL has work."""
        path = int(row["path"])
        leaf = self.path_frames[path]
        waits_for_gil = leaf is not None and (leaf.kind, leaf.name) == ("kernel", "waiting for the GIL")
        return row["main_thread"] == "0" and row["category"] == "idle" and not waits_for_gil

    def cells(self, idle_threads=False):
        """{Cell: [samples, time_ns, cpu_ns]}"""
        cells = collections.defaultdict(lambda: [0, 0, 0])
        for row in self.tables["values"]:
            if not idle_threads and self.is_idle_helper(row):
                continue
            rank, category = self.ranks[int(row["rank_row"])], row["category"]
            path = self.counted(int(row["path"]), category)
            if rank["samples"] == 0 and category != "mpi":
                path = 0
            add(cells[Cell(rank["rank"], path, category, row["main_thread"] == "1")],
                [int(row[column]) for column in ("samples", "wall_ns", "cpu_ns")])
        return {cell: weights for cell, weights in cells.items() if any(weights)}

    def mpi_counts(self):
        counts = collections.Counter()
        for row in self.tables["mpi_calls"]:
            counts[int(row["path"])] += int(row["count"])
        return counts

    def stack(self, path, regions=True):
        """Frames from the outermost one on, as far as they are functions or regions."""
        frames = []
        while path != 0:
            if not self.is_descriptor(path) and (regions or self.path_frames[path].kind != "region"):
                frames.append(self.path_frames[path])
            path = self.parents[path]
        return frames[::-1]


def add(into, more):
    for i, value in enumerate(more):
        into[i] += value
