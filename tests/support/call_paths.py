"""Reads the call paths of a run from its profile.h5, as formats/FORMATS.md describes it."""

import os
from typing import NamedTuple

import h5py
import numpy as np

PYTHON, NATIVE = 0, 1
CATEGORIES = ("python", "native", "system", "mpi", "io", "idle", "runnable")


class Frame(NamedTuple):
    kind: int
    name: str  # without the qualification that Python 3.11 and later give
    file: str  # these two without their folders
    module: str
    line: int


class Path(NamedTuple):
    frames: tuple  # outermost first
    category: str
    main_thread: bool
    wall_s: float
    cpu_s: float
    samples: int

    def names(self, file):
        """The functions of one source file, outermost first."""
        return tuple(frame.name for frame in self.frames if frame.file == file)


def _strings(group, column):
    data, offsets = group[column + "_bytes"][:].tobytes(), group[column + "_offsets"][:]
    return [data[a:b].decode(errors="replace") for a, b in zip(offsets, offsets[1:])]


def _path_of_row(file):
    """The row of `paths` of every row of `values`: the blocks' path lists, spread out; -1 where there is padding."""
    blocks = {name: file["blocks/values_" + name][:].astype(int)
              for name in ("first_row", "rows", "first_path", "paths")}
    path, first_row = (file["values_paths/" + name][:].astype(int) for name in ("path", "first_row"))
    of_row = np.full(len(file["values/wall_ns"]), -1)
    for begin, rows, first, paths in zip(*blocks.values()):
        ends = np.append(first_row[first + 1:first + paths], rows)
        of_row[begin:begin + rows] = np.repeat(path[first:first + paths], ends - first_row[first:first + paths])
    return of_row


def read(profile):
    """All values of a profile as Paths."""
    with h5py.File(profile, "r") as file:
        text = _strings(file["strings"], "text")
        columns = [file["frames/" + name][:].tolist() for name in ("kind", "name", "file", "module", "line")]
        frames = [Frame(kind, text[name].rsplit(".", 1)[-1] if kind == PYTHON else text[name],
                        os.path.basename(text[source]), os.path.basename(text[module]), line)
                  for kind, name, source, module, line in zip(*columns)]
        parents, frame_of = file["paths/parent"][:].tolist(), file["paths/frame"][:].tolist()
        path_of_row = _path_of_row(file)
        there = path_of_row >= 0
        values = [path_of_row[there].tolist()] + [
            file["values/" + name][:][there].tolist()
            for name in ("category", "main_thread", "wall_ns", "cpu_ns", "samples")]
    paths = []
    for path, category, main_thread, wall_ns, cpu_ns, samples in zip(*values):
        chain = []
        while path != 0:
            chain.append(frames[frame_of[path]])
            path = parents[path]
        paths.append(Path(tuple(reversed(chain)), CATEGORIES[category], bool(main_thread), wall_ns / 1e9,
                          cpu_ns / 1e9, samples))
    return paths


def notes(profile):
    """The notes of the run on what was not recorded, and why: code, node, text, detail, number."""
    with h5py.File(profile, "r") as file:
        columns = [_strings(file["notes"], name) for name in ("code", "node", "text", "detail")]
        return list(zip(*columns, file["notes/number"][:].tolist()))


def quality(profile):
    """Sums over the ranks: what the agent counted about its own samples."""
    with h5py.File(profile, "r") as file:
        counted = {name: int(file["ranks/" + name][:].sum())
                   for name in ("samples", "truncated", "merges_tried", "merges_failed", "handler_ns", "elapsed_ns",
                                 "cpu_ns")}
        counted["dropped"] = dict(zip(_strings(file["drops"], "reason"), file["drops/count"][:].tolist()))
    return counted
