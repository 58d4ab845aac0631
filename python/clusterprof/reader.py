# SPDX-License-Identifier: BSD-3-Clause
"""Recorded runs as pandas data frames.

    import clusterprof

    with clusterprof.read("clusterprof-train.py-4711") as run:
        print(run.functions().head(10))          # all ranks
        slow = run.values(ranks=[17])            # rank, node, path, category, wall_ns, ...
        print(run.ranks.sort_values("mpi_wait_ns"))

Needs h5py and pandas. Times are nanoseconds and sizes bytes, as the columns' names say; formats/FORMATS.md describes
every table and column. Rows of `paths` are referred to by index, and are the data frame's index. Tables that grow with
ranks times call paths are read a node at a time, and those of one rank without the others.

The times of a profile are those that `clusterprof report` shows: measured where calls are timed, sampled elsewhere, and so
that the main thread's categories of a rank add up to its recorded time (docs/metrics.md, "One set of numbers"). Those of a
shard, the file of one node before the merge, are what samples said.
"""
import functools
import os
import zlib

import h5py
import numpy as np
import pandas as pd

__all__ = ["Run", "read"]

CATEGORIES = ["python", "native", "system", "mpi", "io", "idle", "runnable"]
KINDS = ["python", "native", "mpi", "kernel", "region"]
WAIT_KINDS = ["late_sender", "late_receiver", "wait_at_barrier", "wait_at_nxn", "late_broadcast", "early_reduce",
              "early_scan"]
IO_OPERATIONS = ["open", "close", "read", "write", "sync", "seek", "metadata", "map"]
MEMORY_DOMAINS = ["native", "python", "mmap", "mpi", "file"]
THREAD_KINDS = ["main", "python", "openmp", "native", "helper"]
OMP_METHODS = ["none", "ompt", "gomp", "other_tool"]
OMP_KINDS = ["parallel", "teams", "loop", "sections", "single", "barrier", "implicit_barrier", "reduction", "task", "taskwait",
             "taskgroup", "lock", "critical", "atomic", "ordered"]
SPAN_ENDS = ["end", "create", "join"]
PROCESS_ORIGINS = ["unknown", "fork", "exec", "posix_spawn", "shell", "rank", "request"]
UNRECORDED = [None, "not_visible", "other_c_library", "other_architecture", "libraries_missing", "static_program",
              "privileges", "other_environment", "no_memory", "ended_early", "silent"]
_SHARD_VERSION, _PROFILE_VERSION = (2, 14), (3, 16)
_NONE = 0xFFFFFFFF
_FILTERS = [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_FLETCHER32]  # bytes are not shuffled
_MOST_DEFLATED = 1100  # times; deflate shrinks data to a 1032nd at best
# Their columns besides the rank; a shard has no tables without rows.
_MATRIX_TABLES = {"values": ["path", "category", "main_thread", "wall_ns", "cpu_ns", "samples"],
                  "path_counters": ["path", "counter", "value"],
                  "data_accesses": ["path", "samples", "accesses", *(f"blocks_{part}" for part in range(4))]}


def read(run):
    """Opens a run: its directory (merged before), a profile, or the shard of one node."""
    return Run(run)


def _damaged(dataset, how):
    return ValueError(f"{dataset.file.filename}: column {dataset.name} {how}")


def _fletcher32(data):
    """HDF5's: of big-endian words, an odd last byte being the high one of a word."""
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").astype(np.uint64)
    first = int(words.sum())
    second = int((words * np.arange(len(words), 0, -1, dtype=np.uint64) % np.uint64(65535)).sum())
    return ((second - 1) % 65535 + 1 << 16 | (first - 1) % 65535 + 1) if first else 0


def _unpacked(chunk, left_out, item_bytes, size):
    """What shuffle, deflate and fletcher32 have made a chunk of; None if it is damaged. `left_out`: HDF5's mask of filters."""
    deflate = 1 if item_bytes > 1 else 0
    if not left_out >> deflate + 1 & 1:
        chunk, checksum = chunk[:-4], chunk[-4:]
        if len(checksum) != 4 or _fletcher32(chunk) != int.from_bytes(checksum, "little"):
            return None
    if not left_out >> deflate & 1:
        inflater = zlib.decompressobj()
        try:
            chunk = inflater.decompress(chunk, size + 1)
        except zlib.error:
            return None
        if not inflater.eof or inflater.unused_data:
            return None
    if len(chunk) != size:
        return None
    content = np.frombuffer(chunk, np.uint8)
    return content.reshape(item_bytes, -1).T.ravel() if deflate and not left_out & 1 else content


def _column(dataset, rows=slice(None)):
    """Rows of a column. Nothing that a file says about its layout is believed before it is checked. HDF5 itself would take a
    chunk that inflates to less than it should for a whole one, and read what is behind it in memory."""
    if not isinstance(dataset, h5py.Dataset):
        raise ValueError(f"{dataset.file.filename}: {dataset.name} is no column")
    kind, stored = dataset.dtype, dataset.id.get_storage_size()
    if (dataset.ndim != 1 or kind.kind not in "iuf" or kind.itemsize not in (1, 4, 8) or kind != kind.newbyteorder("<")
            or dataset.id.get_type().get_size() != kind.itemsize):
        raise _damaged(dataset, "has the wrong type")
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if dataset.chunks and filters != _FILTERS[kind.itemsize == 1:]:
        raise _damaged(dataset, "is stored by filters other than ours")
    if stored > dataset.file.id.get_filesize() or (
            dataset.size * kind.itemsize > stored * (_MOST_DEFLATED if dataset.chunks else 1)):
        raise _damaged(dataset, "claims more rows than its data can hold")
    if not dataset.chunks:
        return dataset[rows]
    begin, end, _ = rows.indices(dataset.size)
    length, = dataset.chunks
    read = np.empty(max(end - begin, 0), kind)
    for first in range(begin // length * length, end, length):
        left_out, chunk = dataset.id.read_direct_chunk((first,))
        size = length * kind.itemsize
        content = _unpacked(chunk, left_out, kind.itemsize, size) if size <= _MOST_DEFLATED * len(chunk) else None
        if content is None:
            raise _damaged(dataset, "is damaged")
        low, high = max(begin, first), min(end, first + length)
        read[low - begin:high - begin] = content.view(kind)[low - first:high - first]
    return read


def _repeated(values, ends, count):
    """Each value for the rows from its end to the next one, which together are `count`."""
    if len(ends) != len(values) + 1 or ends[0] != 0 or ends[-1] != count or (ends[1:] < ends[:-1]).any():
        raise ValueError("damaged: rows that are not there")
    return np.repeat(values, np.diff(ends))


def _strings(group, column):
    data, ends = _column(group[column + "_bytes"]).tobytes(), _column(group[column + "_offsets"])
    if len(ends) and (ends[-1] > len(data) or (ends[1:] < ends[:-1]).any()):
        raise _damaged(group[column + "_offsets"], "is damaged")
    ends = ends.tolist()
    return [data[begin:end].decode(errors="replace") for begin, end in zip(ends, ends[1:])]


def _attributes(group):
    return {name: value.decode() if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value
            for name, value in group.attrs.items()}


def _named(codes, names):
    """A column of small numbers as categories; a number that a later version brought keeps its number as name."""
    codes = codes.astype(np.int64)
    later = np.unique(codes[codes >= len(names)])
    codes = np.where(codes < len(names), codes, len(names) + np.searchsorted(later, codes))
    return pd.Categorical.from_codes(codes, names + [str(code) for code in later])


def _is_all_inside(group, depth=3, seen=()):
    """Whether all data are in this file. An HDF5 file can refer to other files, which may be private or never end. A group
    that is within itself is refused."""
    seen = {*seen, h5py.h5o.get_info(group.id).addr}
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            return False
        item = group[name]
        if isinstance(item, h5py.Group):
            if depth == 0 or h5py.h5o.get_info(item.id).addr in seen or not _is_all_inside(item, depth - 1, seen):
                return False
        elif item.is_virtual or item.external:
            return False
    return True


class Run:
    """One file; closed by close() or at the end of a `with`. Data frames stay when it is closed."""

    def __init__(self, run):
        path = os.fspath(run)
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such run: give its directory, its profile.h5, or a node-*.h5 of it")
        if os.path.isdir(path):
            path = os.path.join(path, "profile.h5")
            if not os.path.exists(path):
                if not any(name.startswith("node-") and name.endswith(".h5") or name.startswith("shards-")
                           for name in os.listdir(run)):
                    raise FileNotFoundError(f"{os.fspath(run)}: no run: neither profile.h5 nor node-*.h5 in it")
                raise FileNotFoundError(f"{path}: not there; `clusterprof merge {os.fspath(run)}` makes it")
        self.path = path
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise OSError(f"{path}: cannot be read as a profile or shard: it is damaged or something else ({error})") from error
        self.is_profile = self._kind() == "clusterprof-profile"
        version = tuple(int(self._file.attrs[name]) for name in ("format_major", "format_minor"))
        expected = _PROFILE_VERSION if self.is_profile else _SHARD_VERSION
        if version != expected:
            self._file.close()
            raise ValueError(f"{path}: has format {version[0]}.{version[1]}, this reader knows {expected[0]}.{expected[1]} only"
                             + ("; merge the run's shards again" if self.is_profile else ""))
        if not _is_all_inside(self._file):
            self._file.close()
            raise ValueError(f"{path}: parts of it are not in this file")

    def _kind(self):
        kind = self._file.attrs.get("format")
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind not in ("clusterprof-profile", "clusterprof-shard"):
            self._file.close()
            raise ValueError(f"{self.path}: neither a profile nor a shard of clusterprof")
        return kind

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<clusterprof run {self.info['id']}: {len(self.ranks)} ranks, {self.path}>"

    def close(self):
        self._file.close()

    # --- the run ---

    @functools.cached_property
    def info(self):
        """What the file says about the run: id, command, rate_hz, clock, complete, ..."""
        group = self._file["run"]
        return {**_attributes(group), "command": _strings(group, "command")}

    @functools.cached_property
    def notes(self):
        """What was not recorded, and why: code, node, first_rank and last_rank (-1: not of ranks), number, text, detail.
        formats/FORMATS.md has a row for each code; `clusterprof report` makes sentences of them."""
        return self._table("notes")

    @functools.cached_property
    def nodes(self):
        return self._table("nodes")

    @functools.cached_property
    def ranks(self):
        """A row per rank, with the name of its node as `node_name`."""
        ranks = self._table("ranks")
        names = self.nodes["name"].to_numpy()
        ranks["node_name"] = names[ranks["node"]] if len(ranks) else []
        return ranks

    @functools.cached_property
    def paths(self):
        """A row per call path: its id, parent, and innermost frame (kind, function, file, module, line, function_line,
        inlined, line_approximate); of a profile also the statistics over ranks (ranks, inclusive_sum_ns, ...). Row 0 is the root."""
        group, frames, text = self._file["paths"], self._file.get("frames"), self._text
        frame, parent = _column(group["frame"]).astype(np.int64), _column(group["parent"]).astype(np.int64)
        if (parent[1:] >= np.arange(1, len(parent))).any():
            raise ValueError(f"{self.path}: damaged: a parent does not come before its child")
        known = frame != _NONE
        column = {name: np.zeros(len(frame), dtype=np.int64) for name in ("kind", "inlined", "name", "file", "module", "line",
                                                                        "function_line", "line_approximate")}
        for name, values in column.items() if known.any() else ():
            values[known] = _column(frames[name])[frame[known]]
        kind = pd.Series(_named(column["kind"], KINDS)).where(known)
        table = {
            "id": [f"{high:016x}{low:016x}" for high, low in zip(_column(group["id_high"]).tolist(),
                                                                 _column(group["id_low"]).tolist())],
            "parent": parent, "kind": kind,
            "function": text[column["name"]], "file": text[column["file"]], "module": text[column["module"]],
            "line": column["line"], "function_line": column["function_line"], "inlined": column["inlined"].astype(bool),
            "line_approximate": column["line_approximate"].astype(bool)}
        if "path_statistics" in self._file:
            table.update({name: _column(data) for name, data in self._file["path_statistics"].items()})
        return pd.DataFrame(table)

    def call_path(self, path):
        """The functions on a call path, outermost first."""
        functions, parents, names = self.paths["function"], self.paths["parent"], []
        while path != 0:
            names.append(functions[path])
            path = parents[path]
        return names[::-1]

    # --- time on call paths ---

    def values(self, ranks=None, nodes=None):
        """Exclusive time: rank, node, path, category, main_thread, wall_ns, cpu_ns, samples. The main thread's wall_ns add
        up to the rank's main_thread_*_ns, and those of a profile to its recorded time. `ranks`: numbers of ranks,
        `nodes`: names of nodes; without, all of them."""
        rows = self._rows("values", ranks, nodes)
        rows["category"] = _named(rows["category"].to_numpy(), CATEGORIES)
        rows["main_thread"] = rows["main_thread"].astype(bool)
        return rows

    def path_counters(self, ranks=None, nodes=None):
        """Exclusive counts: rank, node, path, counter, value."""
        rows = self._rows("path_counters", ranks, nodes)
        rows["counter"] = pd.Categorical.from_codes(rows["counter"].to_numpy().astype(np.int64), self._counter_names)
        return rows

    def functions(self, ranks=None, nodes=None):
        """Time by function, most exclusive time first: kind, function, file, module, line (where it starts, 0 not known),
        self_ns, total_ns, samples. The rows are those of `clusterprof report --json --all-frames`: bytecode counts for its Python
        function, recursion does not count time twice, and idle helper threads are included."""
        values, paths = self.values(ranks, nodes), self.paths
        sampled = values["rank"].map(dict(zip(self.ranks["rank"], self.ranks["samples"]))).to_numpy() != 0
        values = values[sampled | (values["category"] == "mpi").to_numpy()]
        counted = self._counted[np.where(values["category"] == "python", 1, 0), values["path"].to_numpy()]
        own = np.bincount(counted, weights=values["wall_ns"], minlength=len(paths))
        samples = np.bincount(counted, weights=values["samples"], minlength=len(paths))
        total = own.copy()
        parents = paths["parent"].to_numpy()
        for path in range(len(paths) - 1, 0, -1):  # a parent comes before its children
            total[parents[path]] += total[path]
        is_function = (paths["kind"].notna() & (paths["kind"] != "region")).to_numpy()
        # Before 3.11 methods of two classes in one file differ in their line alone.
        start = paths["function_line"].where(paths["kind"] == "python", 0)
        what = ["kind", "function", "file", "module", "start"]
        table = paths[["kind", "function", "file", "module"]].astype(str).assign(start=start)
        numbers = np.where(is_function, table.groupby(what, sort=False, dropna=False).ngroup().to_numpy(), -1)
        outermost = self._outermost(numbers, parents)
        line = paths["function_line"].where(paths["function_line"] != 0, np.iinfo(np.int64).max)
        table = table.assign(line=line, self_ns=own, total_ns=np.where(outermost, total, 0), samples=samples)[is_function]
        sums = {"line": "min", "self_ns": "sum", "total_ns": "sum", "samples": "sum"}
        table = table.groupby(what, sort=False, dropna=False, as_index=False).agg(sums).drop(columns="start")
        table["line"] = table["line"].where(table["line"] != np.iinfo(np.int64).max, 0)
        table = table[table["total_ns"] > 0].sort_values("self_ns", ascending=False, ignore_index=True)
        return table.astype({"line": np.int64, "self_ns": np.int64, "total_ns": np.int64, "samples": np.int64})

    @functools.cached_property
    def _counted(self):
        """For values that are not bytecode, and for those that are: the path that they count for, by their path."""
        paths = self.paths
        parents, kinds, names = paths["parent"].tolist(), paths["kind"].tolist(), paths["function"].tolist()
        at, python = list(range(len(parents))), [0] * len(parents)
        for path in range(1, len(parents)):
            kind = kinds[path]
            of_python = kind == "python" or (kind == "native" and names[path] == "garbage collection")
            python[path] = path if of_python else python[parents[path]]
            if kind == "kernel" and names[path] in ("of a file", "of a socket", "of a pipe or terminal"):
                at[path] = parents[path]
        return np.array([at, [python[path] or path for path in at]])

    @staticmethod
    def _outermost(numbers, parents):
        """Whether no ancestor of a path has the same number."""
        outermost, numbers, children = np.ones(len(numbers), dtype=bool), numbers.tolist(), [[] for _ in numbers]
        for path, parent in enumerate(parents.tolist()[1:], 1):
            children[parent].append(path)
        above, waiting = set(), children[0][:] if children else []
        while waiting:  # ~path: behind all that is below it
            path = waiting.pop()
            if path < 0:
                above.remove(numbers[~path])
                continue
            outermost[path] = numbers[path] not in above
            if outermost[path]:
                above.add(numbers[path])
                waiting.append(~path)
            waiting += children[path]
        return outermost

    # --- MPI ---

    @functools.cached_property
    def mpi_calls(self):
        """A row per rank, call site and communicator; `path` ends in the MPI function."""
        calls = self._by_rank("mpi_calls")
        calls["op"] = self.paths["function"].to_numpy()[calls["path"]] if len(calls) else []
        return calls

    @functools.cached_property
    def matrix(self):
        """Messages and bytes from world rank `source` to `destination`."""
        return self._table("matrix")

    @functools.cached_property
    def waits(self):
        """A profile's wait states: which rank waited, where, in which way, how long, for which rank, and where that one was."""
        waits = self._table("wait_states")
        if len(waits):
            number = self.ranks["rank"].to_numpy()
            cause = waits["cause_rank"].to_numpy().astype(np.int64)
            known = cause != _NONE
            waits["rank"] = number[waits["rank"]]
            waits["cause_rank"] = pd.array(np.where(known, number[np.where(known, cause, 0)], 0), dtype="Int64")
            waits.loc[~known, "cause_rank"] = pd.NA
            waits["kind"] = _named(waits["kind"].to_numpy(), WAIT_KINDS)
        return waits

    @functools.cached_property
    def root_causes(self):
        """The root causes of all waiting: rank, path, wait_ns, waiting_ranks."""
        return self._with_rank_numbers("root_causes")

    @functools.cached_property
    def critical_path(self):
        """Time of the critical path by rank and call path."""
        return self._with_rank_numbers("critical_times")

    @functools.cached_property
    def gains(self):
        """A profile's predictions of what changes would gain, the largest first: change, file, function, line, rank (-1: none),
        predicted_s, gain_s, error_s. They are those of `clusterprof whatif RUN`."""
        return self._table("gains")

    @functools.cached_property
    def gains_refused(self):
        """Changes that nothing could be predicted of, and why: change, reason."""
        return self._table("gains_refused")

    # --- the rest ---

    @functools.cached_property
    def counters(self):
        """Totals: a row per rank, a column per counter; NaN where a rank did not count it."""
        rows = self._with_rank_numbers("counter_values")
        names = np.array(self._counter_names, dtype=object)
        if not len(rows):
            return pd.DataFrame(index=pd.Index([], name="rank"), columns=self._counter_names)
        rows["counter"] = names[rows["counter"]]
        return rows.pivot(index="rank", columns="counter", values="value")

    @functools.cached_property
    def regions(self):
        """Times of the parts that the program named, by rank; `path` ends in the region."""
        return self._by_rank("region_times")

    @functools.cached_property
    def recording_windows(self):
        """When ranks were recorded, or recorded in full, because of `clusterprof start`; since the start of the rank."""
        return self._with_rank_numbers("recording_windows")

    @functools.cached_property
    def failures(self):
        """What failed ranks left behind: the fault, MPI_Abort's code, glibc's message, the end of stderr."""
        return self._with_rank_numbers("failures")

    @functools.cached_property
    def processes(self):
        """The processes, by rank: pid, parent_pid, origin, unrecorded (why), command, times, and `path`, the call path that made each
        (0: not known). formats/FORMATS.md has all columns."""
        rows = self._with_rank_numbers("processes")
        if len(rows):
            rows["origin"] = _named(rows["origin"].to_numpy(), PROCESS_ORIGINS)
            rows["unrecorded"] = _named(rows["unrecorded"].to_numpy(), UNRECORDED)
            rows["command"] = [command.rstrip("\0").split("\0") for command in rows["command"]]
        return rows

    @functools.cached_property
    def event_loops(self):
        """The event loops of threads, by rank: turns, times of waiting and of running, blocked turns. `path`: where the
        thread waits for events. formats/FORMATS.md has all columns."""
        return self._with_rank_numbers("event_loops")

    @functools.cached_property
    def loop_blocks(self):
        """The longest blocked turns of event loops, by rank, loop and begin: the time on each call path."""
        return self._with_rank_numbers("loop_blocks")

    @functools.cached_property
    def mutex_waits(self):
        """Waiting for mutexes and other locks, by where threads waited and where the holder, or who ended the wait, was."""
        return self._with_rank_numbers("mutex_waits")

    @functools.cached_property
    def memory_spaces(self):
        """Memory of views (Kokkos), by rank and memory space: peaks, and what was allocated and freed."""
        return self._with_rank_numbers("memory_spaces")

    @functools.cached_property
    def memory_labels(self):
        """The same by label: `space_peak_bytes` is what the label held when its space held the most."""
        return self._with_rank_numbers("memory_labels")

    @functools.cached_property
    def memory_copies(self):
        """Deep copies (Kokkos), by rank and the memory spaces between which they were."""
        return self._with_rank_numbers("memory_copies")

    @functools.cached_property
    def thread_spans(self):
        """The lives of threads, divided where one makes or joins another one; by the node's monotonic clock."""
        rows = self._with_rank_numbers("thread_spans")
        if len(rows):
            rows["how"] = _named(rows["how"].to_numpy(), SPAN_ENDS)
        return rows

    @functools.cached_property
    def span_times(self):
        """What threads did in their spans: the time on each call path."""
        return self._with_rank_numbers("span_times")

    @functools.cached_property
    def omp_ranks(self):
        """The ranks that have used OpenMP: how they were recorded (`method`), the run time, the processors of its threads."""
        rows = self._with_rank_numbers("omp_ranks")
        if len(rows):
            rows["method"] = _named(rows["method"].to_numpy(), OMP_METHODS)
        return rows

    @functools.cached_property
    def omp_regions(self):
        """OpenMP regions, by rank, call path and number of threads: times, waiting, threads that were asked for."""
        return self._openmp("omp_regions")

    @functools.cached_property
    def omp_threads(self):
        """The same by thread number."""
        return self._openmp("omp_threads")

    @functools.cached_property
    def omp_constructs(self):
        """Loops, barriers, critical sections and the like in OpenMP regions (`region_path`)."""
        return self._openmp("omp_constructs")

    def _openmp(self, name):
        rows = self._with_rank_numbers(name)
        if len(rows) and "kind" in rows:
            rows["kind"] = _named(rows["kind"].to_numpy(), OMP_KINDS)
        return rows

    @functools.cached_property
    def task_times(self):
        """Time of asyncio's tasks, by rank, `path` and name: a task's frames are below those of what awaits it."""
        return self._with_rank_numbers("task_times")

    @functools.cached_property
    def threads(self):
        """The recorded threads, by rank: pid, tid, kind, name, times; formats/FORMATS.md has all columns."""
        rows = self._with_rank_numbers("threads")
        if len(rows):
            rows["kind"] = _named(rows["kind"].to_numpy(), THREAD_KINDS)
        return rows

    @functools.cached_property
    def io_calls(self):
        """Operations on files, by rank, call path, file and operation."""
        calls = self._by_rank("io_calls")
        if len(calls):
            files = self._table("io_files")
            calls["file"] = files["path"].to_numpy()[calls["file"]]
            calls["operation"] = _named(calls["operation"].to_numpy(), IO_OPERATIONS)
        return calls

    @functools.cached_property
    def memory(self):
        """With --memory: what ranks allocated and held, by rank, call path and domain; formats/FORMATS.md has all columns.
        Empty without."""
        rows = self._by_rank("memory_sites")
        if len(rows):
            rows["domain"] = _named(rows["domain"].to_numpy(), MEMORY_DOMAINS)
        return rows

    @functools.cached_property
    def memory_ranks(self):
        """With --memory: the peak of each rank, and what the kernel says beside it."""
        return self._with_rank_numbers("memory_ranks")

    @functools.cached_property
    def memory_timeline(self):
        """With --memory: what call paths held over time, all ranks together: path, bin, time_ns, kib_ms. Divided by the length
        of a bin in ms, that is the mean in KiB."""
        rows = self._table("memory_series")
        return self._with_times(rows, "path_axis") if len(rows) else rows

    @functools.cached_property
    def timeline(self):
        """The ranks' time series: rank, series, bin, time_ns (of the bin's begin, since the run's start), value."""
        return self._on_axis(self._by_rank("rank_series"))

    @functools.cached_property
    def node_timeline(self):
        """The same of nodes."""
        rows = self._table("node_series")
        if len(rows):
            rows["node"] = self.nodes["name"].to_numpy()[rows["node"]]
        return self._on_axis(rows)

    @functools.cached_property
    def path_timeline(self):
        """Time on call paths as the run passed, all ranks together: path, bin, time_ns, wall_ns. A path's rows and those of the
        paths below it add up to its inclusive time; samples (raw_wall_ns) decide when it was spent. The time of paths
        that are too small to be kept is in the rows of the nearest path above."""
        rows = self._table("path_series")
        return self._with_times(rows, "path_axis") if len(rows) else rows

    @functools.cached_property
    def drops(self):
        """What was lost, by rank and reason."""
        return self._with_rank_numbers("drops")

    # --- tables ---

    @functools.cached_property
    def _text(self):
        return np.array(_strings(self._file["strings"], "text"), dtype=object)

    @functools.cached_property
    def _counter_names(self):
        return _strings(self._file["counters"], "name") if "counters" in self._file else []

    def _columns(self, table, rows=slice(None)):
        columns, group = {}, self._file[table]
        for name, data in group.items():
            if name.endswith("_bytes") and name[:-6] + "_offsets" in group:
                columns[name[:-6]] = _strings(group, name[:-6])
            elif not name.endswith("_offsets"):
                columns[name] = _column(data, rows)
        return columns

    def _table(self, table):
        """Empty, without columns, where the file has no such table: a shard has none without rows."""
        return pd.DataFrame(self._columns(table) if table in self._file else {})

    def _with_rank_numbers(self, table):
        rows = self._table(table)
        if len(rows):
            rows["rank"] = self.ranks["rank"].to_numpy()[rows["rank"]]
        return rows

    def _by_rank(self, table, rank_row=None):
        """A table sorted by rank, or one rank's part of it."""
        if table not in self._file:
            return pd.DataFrame({"rank": []})
        ends = _column(self._file[table]["rank_offsets"]).astype(np.int64)
        if rank_row is None:
            columns = self._columns(table)
            numbers = _repeated(self.ranks["rank"].to_numpy(), ends, len(next(iter(columns.values()), ())))
            return pd.DataFrame({"rank": numbers, **columns})
        columns = self._columns(table, slice(ends[rank_row], ends[rank_row + 1]))
        return pd.DataFrame({"rank": self.ranks["rank"].iloc[rank_row], **columns})

    def _chosen_ranks(self, ranks, nodes):
        """Rows of `ranks`; an unknown rank or node is a mistake."""
        chosen = np.ones(len(self.ranks), dtype=bool)
        for column, wanted in (("rank", ranks), ("node_name", nodes)):
            if wanted is None:
                continue
            wanted = [wanted] if isinstance(wanted, (int, str, np.integer)) else list(wanted)
            unknown = set(wanted) - set(self.ranks[column])
            if unknown:
                raise KeyError(f"not in the run: {'rank' if column == 'rank' else 'node'} {sorted(unknown)[0]}")
            chosen &= self.ranks[column].isin(wanted).to_numpy()
        return np.flatnonzero(chosen)

    def _rows(self, table, ranks, nodes):
        """A matrix table with columns rank (its number) and node (its name)."""
        assert table in _MATRIX_TABLES
        chosen = self._chosen_ranks(ranks, nodes)
        if self.is_profile:
            parts = [self._block(table, node, chosen) for node in np.unique(self.ranks["node"].to_numpy()[chosen])]
        elif ranks is None and nodes is None:
            parts = [self._by_rank(table)]
        else:
            parts = [self._by_rank(table, row) for row in chosen]
        parts = [part for part in parts if len(part)]
        if parts:
            rows = pd.concat(parts, ignore_index=True)
        else:
            rows = pd.DataFrame({"rank": np.zeros(0, np.int32),
                                 **{name: np.zeros(0, np.uint64) for name in _MATRIX_TABLES[table]}})
        node_of = dict(zip(self.ranks["rank"], self.ranks["node_name"]))
        rows.insert(1, "node", rows["rank"].map(node_of))
        return rows.sort_values(["rank", "path"], kind="stable", ignore_index=True)

    @functools.cached_property
    def _blocks(self):
        return {name: _column(data) for name, data in self._file["blocks"].items() if not name.endswith("_xxh3")}

    def _block(self, table, node, chosen):
        """The rows of a node's block that are of the chosen rows of `ranks`."""
        block = {name: int(numbers[node]) for name, numbers in self._blocks.items()}

        def part(name, first, count):
            return self._columns(name, slice(block[first], block[first] + block[count]))

        rows = part(table, f"{table}_first_row", f"{table}_rows")
        paths = part(f"{table}_paths", f"{table}_first_path", f"{table}_paths")
        ends = np.append(paths["first_row"].astype(np.int64), len(rows["rank"]))
        rank_rows = part("block_ranks", "first_rank", "ranks")["rank"][rows["rank"]]
        rows["rank"] = self.ranks["rank"].to_numpy()[rank_rows]
        if table == "path_counters":
            rows["counter"] = part("block_counters", "first_counter", "counters")["counter"][rows["counter"]]
        of_path = _repeated(paths["path"], ends, len(rows["rank"]))
        table = pd.DataFrame({"rank": rows.pop("rank"), "path": of_path, **rows})
        return table[np.isin(rank_rows, chosen)]

    def _on_axis(self, rows):
        if not len(rows):
            return rows
        rows["series"] = self._text[_column(self._file["series"]["name"])][rows["series"]]
        return self._with_times(rows, "time_axis")

    def _with_times(self, rows, axis):
        axis = _attributes(self._file[axis])
        begin_ns = rows["bin"].to_numpy().astype(np.int64) * axis["bin_ns"] + axis["origin_utc_ns"]
        starts = self.ranks["start_utc_ns"].to_numpy()
        rows["time_ns"] = begin_ns - starts[starts > 0].min(initial=np.iinfo(np.int64).max)
        return rows
