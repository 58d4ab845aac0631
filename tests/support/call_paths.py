"""Reads the call paths of a run from its profile.h5, as formats/FORMATS.md describes it."""

import os
from typing import NamedTuple

import h5py

PYTHON, NATIVE = 0, 1
CATEGORIES = ("python", "native", "system", "mpi", "io", "idle")


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


def read(profile):
    """All values of a profile as Paths."""
    with h5py.File(profile, "r") as file:
        text = _strings(file["strings"], "text")
        columns = [file["frames/" + name][:].tolist() for name in ("kind", "name", "file", "module", "line")]
        frames = [Frame(kind, text[name].rsplit(".", 1)[-1] if kind == PYTHON else text[name],
                        os.path.basename(text[source]), os.path.basename(text[module]), line)
                  for kind, name, source, module, line in zip(*columns)]
        parents, frame_of = file["paths/parent"][:].tolist(), file["paths/frame"][:].tolist()
        values = [file["values/" + name][:].tolist()
                  for name in ("path", "category", "main_thread", "wall_ns", "cpu_ns", "samples")]
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
    """What the run says was not measured, and why."""
    with h5py.File(profile, "r") as file:
        return _strings(file["run"], "notes")


def quality(profile):
    """Sums over the ranks: what the agent counted about its own samples."""
    with h5py.File(profile, "r") as file:
        counted = {name: int(file["ranks/" + name][:].sum())
                   for name in ("samples", "truncated", "merges_tried", "merges_failed", "handler_ns", "elapsed_ns")}
        counted["dropped"] = dict(zip(_strings(file["drops"], "reason"), file["drops/count"][:].tolist()))
    return counted
