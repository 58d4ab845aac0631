"""clusterprof export: every format is read back by a reader that is not ours, and compared with sums over the
profile's rows that are made here. tests/golden/export has what the exports of a golden profile look like; after a
wanted change run this with CLUSTERPROF_UPDATE_GOLDEN=1 and read the difference."""

import collections
import csv
import gzip
import io
import json
import os
import pstats
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

import profile_rows
import protobuf
from profile_rows import add

BUILD = os.environ["CLUSTERPROF_TEST_BUILD"]
SOURCE = os.environ["CLUSTERPROF_TEST_SOURCE"]
ANALYZE = os.path.join(BUILD, "libexec", "clusterprof", "analyze")
NODE_MODULES = os.path.join(SOURCE, "report", "html", "node_modules")
OUTSIDE = "(outside all calls)"
TEXT = {"folded": "folded", "speedscope": "speedscope.json", "callgrind": "callgrind", "csv": "csv",
        "hatchet": "hatchet.json"}


def valid(name):
    """What bytes that are not UTF-8 become where the format needs text."""
    return "".join("\ufffd" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in name)


def analyze(*arguments, cwd):
    return subprocess.run([ANALYZE, *arguments], cwd=cwd, capture_output=True, timeout=60)


TIMES = ("samples", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds")
HELD = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_space", "bytes"), ("rank_peak_space", "bytes"),
        ("node_peak_space", "bytes"))
# What the profile's columns are called, by weight.
AMOUNTS = {"alloc": "alloc_bytes", "live": "live_end_bytes", "rank_peak": "rank_peak_bytes", "node_peak": "node_peak_bytes"}


def pprof_samples(data, of=TIMES, shown="wall"):
    """[(stack of (name, file, line, start) from the outermost one on, {label: value}, values)], after checking
    what pprof's own reader does."""
    profile = protobuf.Message(gzip.decompress(data))
    strings = [text.decode() for text in profile[6]]
    assert strings[0] == "" and len(set(strings)) == len(strings)
    types = [(strings[t.one(1)], strings[t.one(2)]) for t in profile.messages(1)]
    assert types == list(of)
    assert strings[profile.one(14)] == shown
    mappings = {m.one(1) for m in profile.messages(3)}
    functions = {f.one(1): (strings[f.one(2)], strings[f.one(4)], f.one(5)) for f in profile.messages(5)}
    assert len(functions) == len(profile[5]) and 0 not in functions
    locations = {}
    for location in profile.messages(4):
        assert location.one(1) not in locations and location.one(1) != 0
        assert location.one(2) == 0 or location.one(2) in mappings
        line, = location.messages(4)
        name, file, start = functions[line.one(1)]
        locations[location.one(1)] = name, file, line.one(2), start
    samples = []
    for sample in profile.messages(2):
        labels = {}
        for label in sample.messages(3):
            assert (2 in label) != (3 in label)
            assert strings[label.one(1)] not in labels
            labels[strings[label.one(1)]] = strings[label.one(2)] if 2 in label else protobuf.signed(label.one(3))
        values = sample.packed(2)
        assert len(values) == len(types)
        samples.append(([locations[i] for i in reversed(sample.packed(1))], labels, values))
    return samples


class Track:
    def __init__(self, descriptor):
        self.name, self.parent = descriptor.text(2), descriptor.one(5)
        self.process = descriptor.messages(3)
        self.is_counter = 8 in descriptor
        self.values, self.slices, self.open = [], [], []


def perfetto_tracks(data):
    """{uuid: Track}; checks the order of events and that slices nest."""
    tracks, last_time = {}, collections.Counter()
    for packet in protobuf.Message(data).messages(1):
        assert packet.one(10) != 0
        for descriptor in packet.messages(60):
            assert descriptor.one(1) not in tracks
            assert descriptor.one(5) == 0 or descriptor.one(5) in tracks
            tracks[descriptor.one(1)] = Track(descriptor)
        for event in packet.messages(11):
            track, time = tracks[event.one(11)], packet.one(8)
            assert time >= last_time[event.one(11)]
            last_time[event.one(11)] = time
            kind = event.one(9)
            assert track.is_counter == (kind == 4)
            if kind == 4:
                track.values.append((time, event.one(44)))
            elif kind == 1:
                track.open.append((time, event.text(23)))
            else:
                begin, name = track.open.pop()
                track.slices.append((begin, time, name))
    assert not any(track.open for track in tracks.values())
    return tracks


def as_text(form, data):
    """An export as golden files have it."""
    if form == "pprof":
        lines = [f"{' '.join(map(str, values))} {json.dumps(labels, sort_keys=True)} "
                 + " < ".join(f"{name} {file}:{line}({start})" for name, file, line, start in reversed(stack))
                 for stack, labels, values in pprof_samples(data)]
        return "\n".join(lines) + "\n"
    if form == "perfetto":
        lines = []
        for track in perfetto_tracks(data).values():
            process = [f"{p.one(1)} {p.text(6)} {p.text(8)}" for p in track.process]
            lines.append(f"track {track.name} of {track.parent} {' '.join(process)}")
            lines += [f"  {time} {value!r}" for time, value in track.values]
            lines += [f"  {begin} {end} {name}" for begin, end, name in track.slices]
        return "\n".join(lines) + "\n"
    if form == "pstats":
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            stats = pstats.Stats(file.name).stats
        return "".join(f"{key} {value[:4]}\n" + "".join(f"  <- {k} {v}\n" for k, v in sorted(value[4].items()))
                       for key, value in sorted(stats.items()))
    return re.sub(r"clusterprof \d+\.\d+\.\d+\w*", "clusterprof VERSION", data.decode())


class Golden(unittest.TestCase):
    def test_exports(self):
        with tempfile.TemporaryDirectory() as run:
            shutil.copy(os.path.join(SOURCE, "tests", "golden", "profile", "profile.h5"), run)
            for form in (*TEXT, "pprof", "perfetto", "pstats"):
                with self.subTest(form):
                    done = analyze("export", run, "-f", form, cwd=run)
                    self.assertEqual((done.returncode, done.stderr), (0, b""))
                    text = as_text(form, done.stdout)
                    path = os.path.join(SOURCE, "tests", "golden", "export", TEXT.get(form, form + ".txt"))
                    if os.environ.get("CLUSTERPROF_UPDATE_GOLDEN"):
                        with open(path, "w", encoding="utf-8", newline="") as file:
                            file.write(text)
                    with open(path, encoding="utf-8", newline="") as file:
                        self.assertEqual(text, file.read())


class Export(unittest.TestCase):
    """Of the run of tests/unit/report/export/make_run.cpp."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="clusterprof-test-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        subprocess.run([os.path.join(BUILD, "programs", "export_make_run"), os.path.join(cls.directory, "run")],
                       check=True, timeout=60)
        cls.profile = profile_rows.Profile(ANALYZE, os.path.join(cls.directory, "run", "profile.h5"))
        cls.cells = cls.profile.cells()
        cls.sums = collections.defaultdict(lambda: [0, 0, 0])  # by path
        cls.total = [0, 0, 0]
        for cell, weights in cls.cells.items():
            add(cls.sums[cell.path], weights)
            add(cls.total, weights)
        cls.all_cells = cls.profile.cells(idle_threads=True)
        cls.all_sums = collections.defaultdict(lambda: [0, 0, 0])
        for cell, weights in cls.all_cells.items():
            add(cls.all_sums[cell.path], weights)
        assert len(cls.cells) > 50 and len(cls.all_cells) > len(cls.cells) and len({cell.rank for cell in cls.cells}) == 5

    def export(self, form, *options):
        done = analyze("export", "run", "-f", form, *options, cwd=self.directory)
        self.assertEqual((done.returncode, done.stderr), (0, b""), form)
        return done.stdout

    def refused(self, status, word, *arguments):
        done = analyze("export", *arguments, cwd=self.directory)
        self.assertEqual(done.returncode, status, (arguments, done.stderr))
        self.assertEqual(len(done.stderr.decode().splitlines()), 1, done.stderr)
        self.assertIn(word, done.stderr.decode())
        self.assertEqual(done.stdout, b"")

    # What a frame is for tools that show stacks.
    def label(self, frame):
        start = self.profile.functions[self.profile.identity(frame)]
        if frame.kind == "region":
            return f"[region {valid(frame.name)}]", None, None
        return valid(frame.name), valid(frame.file or frame.module) or None, (start or None) if frame.file else None

    def by_stack(self, weight, ranks=None, regions=True):
        """{stack of functions: sum}"""
        stacks = collections.Counter()
        for cell, weights in self.cells.items():
            if ranks is None or cell.rank in ranks:
                stack = tuple(self.label(frame) for frame in self.profile.stack(cell.path, regions))
                stacks[stack or ((OUTSIDE, None, None),)] += weights[weight]
        return collections.Counter({stack: weight for stack, weight in stacks.items() if weight})

    # --- speedscope ---

    def speedscope(self, *options):
        """[(name, unit, {stack: weight})]"""
        document = json.loads(self.export("speedscope", *options))
        self.assertEqual(document["$schema"], "https://www.speedscope.app/file-format-schema.json")
        frames = [(f["name"], f.get("file"), f.get("line")) for f in document["shared"]["frames"]]
        profiles = []
        for profile in document["profiles"]:
            self.assertEqual(profile["type"], "sampled")
            self.assertEqual(len(profile["samples"]), len(profile["weights"]))
            self.assertAlmostEqual(profile["endValue"], sum(profile["weights"]), places=6)
            factor = 1e9 if profile["unit"] == "seconds" else 1
            stacks = collections.Counter()
            for sample, weight in zip(profile["samples"], profile["weights"]):
                stacks[tuple(frames[i] for i in sample)] += round(weight * factor)
            profiles.append((profile["name"], profile["unit"], stacks))
        return profiles

    def test_speedscope(self):
        profiles = self.speedscope()
        # Rank 3 did nothing but 43 ms of MPI, rank 4 nothing at all.
        self.assertEqual([name for name, _, _ in profiles],
                         ["all 6 ranks", "slowest: rank 4 (n1)", "median: rank 0 (node,\"0\")",
                          "fastest: rank 2 (node,\"0\")"])
        for (_, unit, stacks), ranks in zip(profiles, (None, {4}, {0}, {2})):
            self.assertEqual(unit, "seconds")
            self.assertEqual(stacks, self.by_stack(1, ranks))

    def test_speedscope_of_ranks(self):
        profiles = self.speedscope("--all-ranks", "--ranks", "1-2,9", "--weight", "samples", "--no-regions")
        self.assertEqual([name.split(" (")[0] for name, _, _ in profiles],
                         ["all 3 ranks", "rank 1", "rank 2", "rank 9"])
        for (_, unit, stacks), ranks in zip(profiles, ({1, 2, 9}, {1}, {2}, {9})):
            self.assertEqual(unit, "none")
            self.assertEqual(stacks, self.by_stack(0, ranks, regions=False))
        self.assertEqual(self.speedscope("--ranks", "1")[0][0], "rank 1 (node,\"0\")")

    def test_speedscope_has_its_schema(self):
        path = os.path.join(NODE_MODULES, "speedscope", "dist", "release", "file-format-schema.json")
        if not os.path.exists(path):
            self.skipTest(f"{path} is not here")
        with open(path, encoding="utf-8") as file:
            schema = json.load(file)

        def conforms(value, rule):
            if "$ref" in rule:
                return conforms(value, schema["definitions"][rule["$ref"].split("/")[-1]])
            if "anyOf" in rule:
                return any(conforms(value, one) for one in rule["anyOf"])
            if "const" in rule and value != rule["const"] or "enum" in rule and value not in rule["enum"]:
                return False
            kinds = {"object": dict, "array": list, "string": str, "number": (int, float)}
            if "type" in rule and not isinstance(value, kinds[rule["type"]]):
                return False
            if isinstance(value, dict):
                return all(name in value for name in rule.get("required", [])) and all(
                    conforms(value[name], part) for name, part in rule.get("properties", {}).items() if name in value)
            items = rule.get("items")
            return not isinstance(value, list) or not items or all(conforms(one, items) for one in value)

        document = json.loads(self.export("speedscope"))
        self.assertTrue(conforms(document, schema))
        del document["profiles"][0]["weights"]
        self.assertFalse(conforms(document, schema))

    # --- folded ---

    def folded(self, *options):
        lines = self.export("folded", *options).decode().split("\n")
        self.assertEqual(lines.pop(), "")
        rows = []
        for line in lines:
            self.assertRegex(line, r"^[^\x00-\x1f\x7f\u202e]* [1-9][0-9]*$")
            frames, _, count = line.rpartition(" ")
            rows.append((frames.split(";"), int(count)))
        return rows

    def test_folded(self):
        for weight, options in ((1, []), (0, ["--weight", "samples"])):
            rows = self.folded(*options)
            self.assertEqual(len({tuple(frames) for frames, _ in rows}), len(rows))
            stacks = self.by_stack(weight)
            self.assertEqual(sum(count for _, count in rows), self.total[weight])
            self.assertEqual(sorted((len(frames), count) for frames, count in rows),
                             sorted((len(stack), count) for stack, count in stacks.items()))
        names = {name for frames, _ in rows for name in frames}
        self.assertLessEqual({"[region epoch: 1]", "[region step]", "<module> (my prog.py)",
                              "run (/u/my prog.py:4)", "run (/u/my prog.py:14)", "f (f.c)", "MPI_Send", "read_[k]",
                              "(1) fake (/u/lib1.so)", "(1) fake (/u/other/lib1.so)", "js|loop_[j]", OUTSIDE}, names)
        evil, = [name for name in names if "evil" in name]
        self.assertEqual(evil, 'evil:"name",\\x0a<script>\\x01\\xff\\u202e 12 (a,b.c)')

    def test_folded_by_rank(self):
        rows = self.folded("--all-ranks", "--no-regions")
        self.assertFalse(any("[region" in name for frames, _ in rows for name in frames))
        for rank in (0, 1, 2, 9):
            mine = [(frames, count) for frames, count in rows if frames[0].startswith(f"rank {rank} (")]
            self.assertEqual(sorted((len(frames) - 1, count) for frames, count in mine),
                             sorted((len(stack), count) for stack, count in self.by_stack(1, {rank}, False).items()))

    def test_idle_threads(self):
        for weight, options in ((1, []), (0, ["--weight", "samples"])):
            rows = self.folded("--idle-threads", *options)
            self.assertEqual(sum(count for _, count in rows), sum(weights[weight] for weights in self.all_sums.values()))

    # --- pprof ---

    def test_pprof(self):
        data = self.export("pprof")
        expected = collections.Counter()
        for cell, weights in self.cells.items():
            stack = tuple((valid(f.name), valid(f.file), f.line, self.profile.functions[self.profile.identity(f)])
                          for f in self.profile.stack(cell.path, regions=False)) or ((OUTSIDE, "", 0, 0),)
            regions = "/".join(f.name for f in self.profile.stack(cell.path) if f.kind == "region")
            key = cell.rank, cell.category, "main" if cell.main else "helper", regions, stack
            for i, weight in enumerate(weights):
                expected[key, i] += weight
        found = collections.Counter()
        for stack, labels, values in pprof_samples(data):
            node = next(rank["node"] for rank in self.profile.ranks if rank["rank"] == labels["rank"])
            self.assertEqual(labels["node"], self.profile.nodes[node])
            key = labels["rank"], labels["category"], labels["thread"], labels.get("region", ""), tuple(stack)
            for i, value in enumerate(values):
                found[key, i] += value
        self.assertEqual(found, expected)

    def test_pprof_is_read_by_pprof_format(self):
        if not shutil.which("node") or not os.path.isdir(os.path.join(NODE_MODULES, "pprof-format")):
            self.skipTest(f"node or {NODE_MODULES}/pprof-format is not here")
        path = os.path.join(self.directory, "out.pprof")
        self.export("pprof", "-o", path)
        script = """
            const { Profile } = require('pprof-format');
            const data = require('zlib').gunzipSync(require('fs').readFileSync(process.argv[1]));
            const p = Profile.decode(data), sums = [0n, 0n, 0n];
            for (const s of p.sample) s.value.forEach((v, i) => sums[i] += BigInt(v));
            console.log(JSON.stringify({ sums: sums.map(Number), functions: p.function.length,
                                         locations: p.location.length, first: p.stringTable.strings[0] }));"""
        done = subprocess.run(["node", "-e", script, path], capture_output=True, timeout=60, check=True,
                              env={**os.environ, "NODE_PATH": NODE_MODULES})
        read = json.loads(done.stdout)
        self.assertEqual((read["sums"], read["first"]), (self.total, ""))
        self.assertGreaterEqual(read["locations"], read["functions"])

    # --- memory ---

    def held_by_stack(self, weight, rank=None):
        """{stack of functions: bytes}; mapped files are not held."""
        stacks = collections.Counter()
        for row in self.profile.tables["memory_sites"]:
            number = self.profile.ranks[int(row["rank_row"])]["rank"]
            if row["domain"].strip('"') == "file" or rank not in (None, number):
                continue
            path = self.profile.counted(int(row["path"]), "native")
            stack = tuple(self.label(frame) for frame in self.profile.stack(path))
            stacks[stack or ((OUTSIDE, None, None),)] += int(row[AMOUNTS[weight]])
        return +stacks

    def test_held_memory(self):
        sums = set()
        for weight in AMOUNTS:
            expected = self.held_by_stack(weight)
            sums.add(sum(expected.values()))
            _, unit, stacks = self.speedscope("--weight", weight)[0]
            self.assertEqual((unit, stacks), ("bytes", expected))
            rows = self.folded("--weight", weight)
            self.assertEqual(sorted((len(frames), count) for frames, count in rows),
                             sorted((len(stack), count) for stack, count in expected.items()))
            mine = self.folded("--weight", weight, "--ranks", "9")
            self.assertEqual(sum(count for _, count in mine), sum(self.held_by_stack(weight, 9).values()))
        self.assertEqual(len(sums), 4, "this run cannot tell")

    def test_held_memory_as_a_heap_profile(self):
        expected, found = collections.Counter(), collections.Counter()
        for row in self.profile.tables["memory_sites"]:
            if row["domain"].strip('"') != "file":
                rank = self.profile.ranks[int(row["rank_row"])]["rank"]
                depth = len(self.profile.stack(self.profile.counted(int(row["path"]), "native"), regions=False)) or 1
                for i, column in enumerate(("alloc_count", *AMOUNTS.values())):
                    expected[rank, row["domain"].strip('"'), depth, i] += int(row[column])
        for stack, labels, values in pprof_samples(self.export("pprof", "--weight", "live"), HELD, "inuse_space"):
            for i, value in enumerate(values):
                found[labels["rank"], labels["domain"], len(stack), i] += value
        self.assertEqual(+found, +expected)

    # --- pstats ---

    def pstats_name(self, frame):
        if frame is None:
            return "~", 0, OUTSIDE
        start = self.profile.functions[self.profile.identity(frame)]
        file = valid(frame.file or frame.module)
        return file or "~", start if frame.file else 0, valid(frame.name)

    def test_pstats(self):
        expected = collections.defaultdict(lambda: [0, 0, 0, 0])  # cc nc tt ct
        edges = collections.defaultdict(lambda: [0, 0, 0, 0])     # nc cc tt ct
        counts = self.profile.mpi_counts()
        for path in set(self.sums) | set(counts):
            samples, time_ns, _ = self.sums[path]
            stack = [self.pstats_name(f) for f in self.profile.stack(path, regions=False)] or [self.pstats_name(None)]
            pairs = list(zip(stack, stack[1:]))
            for i, function in enumerate(stack):
                leaf = i + 1 == len(stack)
                calls = counts[path] if leaf and counts[path] else samples
                first = function not in stack[:i]
                add(expected[function], [calls * first, calls, time_ns * leaf, time_ns * first])
                if i != 0:
                    first = pairs[i - 1] not in pairs[:i - 1]
                    add(edges[pairs[i - 1]], [calls, calls * first, time_ns * leaf, time_ns * first])
        path = os.path.join(self.directory, "out.pstats")
        self.export("pstats", "-o", path)
        text = io.StringIO()
        stats = pstats.Stats(path, stream=text)
        rounded = lambda row: (*row[:2], round(row[2] * 1e9), round(row[3] * 1e9))  # noqa: E731
        self.assertEqual({name: rounded(row) for name, row in stats.stats.items()},
                         {name: tuple(row) for name, row in expected.items()})
        found = {(caller, name): rounded(row) for name, whole in stats.stats.items()
                 for caller, row in whole[4].items()}
        self.assertEqual(found, {edge: tuple(row) for edge, row in edges.items()})
        self.assertAlmostEqual(stats.total_tt * 1e9, self.total[1], delta=100)
        f = stats.stats["/u/f.c", 1, "f"]
        self.assertLess(f[0], f[1])  # recursion
        for order in ("tottime", "cumulative", "ncalls"):
            stats.sort_stats(order).print_stats(5)
        stats.print_callers("MPI_Send")
        self.assertIn("MPI_Send", text.getvalue())

    # --- callgrind ---

    def callgrind_names(self, path):
        """"file:name" as callgrind_annotate has it, of a path's functions."""
        def printable(name):
            return re.sub(r"[\x00-\x1f\x7f\u202e\udc80-\udcff]", lambda c: "\\u202e" if c[0] == "\u202e" else
                          "\\x%02x" % (ord(c[0]) & 0xFF), name)
        names = []
        for frame in self.profile.stack(path, regions=False):
            name = (printable(frame.name) or "???") + (f":{frame.start}" if frame.name == "run" else "")
            names.append((printable(frame.file) or "???") + ":" + name)
        return names or ["???:" + OUTSIDE]

    def test_callgrind(self):
        if not shutil.which("callgrind_annotate"):
            self.skipTest("callgrind_annotate is not here")
        inclusive = collections.defaultdict(lambda: [0, 0])
        exclusive = collections.defaultdict(lambda: [0, 0])
        for path, (samples, time_ns, _) in self.sums.items():
            names = self.callgrind_names(path)
            add(exclusive[names[-1]], [time_ns, samples])
            for name in set(names):
                add(inclusive[name], [time_ns, samples])
        out = os.path.join(self.directory, "out.callgrind")
        self.export("callgrind", "-o", out)
        for option, expected in (("no", exclusive), ("yes", inclusive)):
            done = subprocess.run(["callgrind_annotate", "--threshold=100", f"--inclusive={option}", "--auto=no", out],
                                  cwd="/", capture_output=True, timeout=60)
            text = done.stdout.decode()
            self.assertEqual((done.returncode, done.stderr), (0, b""), text)
            found = {}
            for line in text.split("file:function\n")[1].splitlines()[1:]:
                row = re.fullmatch(r"\s*([\d,]+) \([ \d.]+%\)\s+([\d,.]+)(?: \([ \d.]+%\))?\s+(.*?)(?: \[.*\])?", line)
                if row and row[3] != "???:(root)":
                    values = [0 if n == "." else int(n.replace(",", "")) for n in row.groups()[:2]]
                    self.assertNotIn(row[3], found)
                    found[row[3]] = values
            expected = {name: values for name, values in expected.items() if values[0]}
            self.assertEqual(found, {**{name: found[name] for name in found if found[name][0] == 0}, **expected})
            totals, = re.findall(r"([\d,]+) \(100.0%\)\s+([\d,]+) \(100.0%\)\s+PROGRAM TOTALS", text)
            self.assertEqual([int(n.replace(",", "")) for n in totals], [self.total[1], self.total[0]])

    # --- hatchet ---

    def hatchet(self, *options):
        """As GraphFrame.from_json reads it: {(node, rank): row}, {node: children}, roots, {node: frame}."""
        document = json.loads(self.export("hatchet", *options))
        graph, = document["graph"]
        parents = collections.Counter(str(child) for node in graph.values() for child in node["children"])
        self.assertLessEqual(set(parents.values()), {1})
        self.assertLessEqual(set(parents), set(graph))
        frames = {int(node): spec["data"] for node, spec in graph.items()}
        self.assertEqual(len({tuple((k, type(v)) for k, v in sorted(f.items())) for f in frames.values()}), 1)
        indices = document["dataframe_indices"]
        rows = {tuple(row[index] for index in indices): row for row in document["dataframe"]}
        self.assertEqual(len(rows), len(document["dataframe"]))
        self.assertEqual({row["node"] for row in rows.values()}, set(frames))
        self.assertEqual(document["exclusive_metrics"], ["time", "cpu", "samples"])
        self.assertEqual(document["inclusive_metrics"], ["time (inc)", "cpu (inc)", "samples (inc)"])
        children = {int(node): spec["children"] for node, spec in graph.items()}
        return rows, children, [node for node in frames if str(node) not in parents], frames

    def test_hatchet(self):
        rows, children, roots, frames = self.hatchet()
        for i, metric in enumerate(("samples", "time", "cpu")):
            factor = 1 if metric == "samples" else 1e9
            sums = {node: round(row[f"{metric} (inc)"] * factor) for (node,), row in rows.items()}
            self.assertEqual(sum(sums[node] for node in roots), self.total[i])
            for (node,), row in rows.items():
                self.assertEqual(sums[node], round(row[metric] * factor) + sum(sums[c] for c in children[node]))
        stacks = collections.Counter()

        def walk(node, above):
            frame = frames[node]
            name = f"[region {frame['name']}]" if frame["type"] == "region" else frame["name"]
            stack = (*above, (name, frame["file"] or frame["module"] or None,
                              (frame["line"] or None) if frame["file"] else None))
            stacks[stack] += round(rows[node,]["time"] * 1e9)
            for child in children[node]:
                walk(child, stack)
        for root in roots:
            walk(root, ())
        self.assertEqual(+stacks, self.by_stack(1))

    def test_hatchet_by_rank(self):
        rows, _, roots, _ = self.hatchet("--all-ranks")
        for rank in {cell.rank for cell in self.cells}:
            expected = sum(weights[1] for cell, weights in self.cells.items() if cell.rank == rank)
            self.assertEqual(sum(round(rows[root, rank]["time (inc)"] * 1e9) for root in roots), expected)

    # --- perfetto ---

    def test_perfetto(self):
        tracks = perfetto_tracks(self.export("perfetto"))
        processes = {}
        for uuid, track in tracks.items():
            if track.process:
                process, = track.process
                processes[uuid] = process.text(6)
                self.assertEqual(len(track.slices), 1)
        self.assertEqual([name.split(" (")[0] for name in processes.values()],
                         ["rank 0", "rank 1", "rank 2", "rank 3", "rank 4", "rank 9"])
        self.assertEqual(len({t.process[0].one(1) for t in tracks.values() if t.process}), 6)
        axis = self.profile.tables["time_axis"][0]
        bin_ns, origin = int(axis["bin_ns"]), int(axis["origin_utc_ns"])
        series = [row["name"].strip('"') for row in self.profile.tables["series"]]
        shown = {"python_ns": ("python as sampled (%)", 100 / bin_ns), "native_ns": ("native as sampled (%)", 100 / bin_ns),
                 "rss_bytes": ("rss (bytes)", 1), "read_bytes": ("read (bytes/s)", 1e9 / bin_ns),
                 "context-switches": ("context-switches (1/s)", 1e9 / bin_ns)}
        expected = collections.defaultdict(dict)
        for row in self.profile.tables["rank_series"]:
            name, factor = shown[series[int(row["series"])]]
            rank = self.profile.ranks[int(row["rank_row"])]["rank"]
            expected[rank, name][origin + int(row["bin"]) * bin_ns] = int(row["value"]) * factor
        found = {(int(processes[t.parent].split()[1]), t.name): t.values for t in tracks.values()
                 if t.is_counter and t.parent in processes}
        self.assertEqual(set(found), set(expected))
        for key, values in found.items():
            self.assertEqual({time for time, _ in values}, set(expected[key]) | {t + bin_ns for t in expected[key]})
            for time, value in values:
                self.assertAlmostEqual(value, expected[key].get(time, 0), places=6)
        mostly = [t for t in tracks.values() if t.name.startswith("main thread, mostly")]
        self.assertEqual([[name for _, _, name in t.slices] for t in mostly], [["python", "native", "python"]] * 3)
        useful, = [t for t in tracks.values() if t.name == "useful, mean rank (%)"]
        self.assertEqual([value for _, value in useful.values], [0, 25, 50, 75, 50, 0, 25, 0])
        waiting, = [t for t in tracks.values() if t.name == "waiting, all ranks (ranks)"]
        self.assertEqual([value for _, value in waiting.values], [0.5, 0.5, 0.5, 0.5, 0.25, 0, 0.5, 0])
        busy, = [t for t in tracks.values() if t.name == "cpu_busy (%)"]
        self.assertEqual(tracks[busy.parent].name, 'node node,"0"')
        some = perfetto_tracks(self.export("perfetto", "--ranks", "2,9"))
        self.assertEqual(sum(bool(t.process) for t in some.values()), 2)

    def test_perfetto_has_a_track_for_each_thread(self):
        for options, ranks in (((), ("rank 0", "rank 9")), (("--ranks", "9"), ("rank 9",))):
            tracks = perfetto_tracks(self.export("perfetto", *options))
            found = {}
            for track in tracks.values():
                if track.name.startswith("tid ") or " threads: " in track.name:
                    rank = tracks[track.parent]
                    start = rank.slices[0][0]
                    found[rank.process[0].text(6).split(" (")[0], track.name] = [
                        ((begin - start) / 1e9, (end - start) / 1e9, name) for begin, end, name in track.slices]
            known = {("rank 0", "tid 1001: loader;\\x01"): [(1, 3, "loader;\\x01")],
                     ("rank 0", "tid 1002: openmp"): [(0.5, 7.5, "openmp")],
                     ("rank 0", "5 threads: pool-*"): [(0, 4, "pool-*")],
                     ("rank 9", "tid 1501: writer"): [(3, 4, "writer")]}
            self.assertEqual(found, {key: value for key, value in known.items() if key[0] in ranks})

    # --- csv and json ---

    def csv(self, *options):
        text = self.export("csv", *options).decode()
        self.assertTrue(text.endswith("\r\n"))
        head, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        self.assertTrue(rows and all(len(row) == len(head) for row in rows))
        return [dict(zip(head, row)) for row in rows]

    def test_csv_tables_of_the_report(self):
        report = json.loads(analyze("report", "run", "--json", cwd=self.directory).stdout)
        folder = os.path.join(self.directory, "tables", "")
        self.export("csv", "-o", folder)
        self.assertEqual(sorted(os.listdir(folder)),
                         ["functions.csv", "imports.csv", "lines.csv", "locks.csv", "memory.csv", "memory_labels.csv", "memory_ranks.csv", "mpi_calls.csv",
                          "openmp.csv", "openmp_ranks.csv", "openmp_threads.csv", "paths.csv", "processes.csv", "ranks.csv", "threads.csv",
                          "torch_distributed.csv"])
        for name, table in (("functions", report["functions"]), ("lines", report["lines"]),
                            ("ranks", report["ranks"]), ("mpi_calls", report["mpi"]["calls"]),
                            ("memory", report["memory"]["lines"])):
            rows = self.csv("--table", name)
            with open(os.path.join(folder, name + ".csv"), encoding="utf-8", newline="") as file:
                self.assertEqual([dict(row) for row in csv.DictReader(file)], rows)
            self.assertEqual(len(rows), len(table))
            for row, known in zip(rows, table):
                for key, value in row.items():
                    expected = {**known, **known.get("exit", {}), "exit_status": known.get("exit", {}).get("status"),
                                "exit_signal": known.get("exit", {}).get("signal")}[key]
                    if expected is None:
                        self.assertEqual(value, "")
                    elif isinstance(expected, (int, float)):
                        self.assertAlmostEqual(float(value), expected, places=8, msg=key)
                    else:
                        self.assertEqual(value, expected)
        self.assertEqual(self.csv(), self.csv("--table", "functions"))

    def test_csv_of_paths(self):
        rows = self.csv("--table", "rank_paths")
        found = {profile_rows.Cell(int(row["rank"]), int(row["path"]), row["category"], row["thread"] == "main"):
                 [int(row["samples"]), round(float(row["self_s"]) * 1e9), round(float(row["cpu_s"]) * 1e9)]
                 for row in rows}
        self.assertEqual(found, self.all_cells)
        totals = collections.defaultdict(lambda: [0, 0])
        for path, weights in self.all_sums.items():
            up = path
            while up != 0:
                add(totals[up], weights[:2])
                up = self.profile.parents[up]
            add(totals[0], weights[:2])
        paths = {int(row["path"]): row for row in self.csv("--table", "paths")}
        self.assertEqual(set(paths), set(totals))
        for path, row in paths.items():
            self.assertEqual([int(row["samples"]), round(float(row["self_s"]) * 1e9)], self.all_sums[path][:2])
            self.assertEqual([int(row["total_samples"]), round(float(row["total_s"]) * 1e9)], totals[path])
            parts = sum(round(float(row[c + "_s"]) * 1e9)
                        for c in ("python", "native", "system", "mpi", "io", "idle", "runnable"))
            self.assertEqual(parts, self.all_sums[path][1])
            if path != 0:
                self.assertEqual(row["name"], valid(self.profile.path_frames[path].name))
        self.assertEqual({row["rank"] for row in self.csv("--table", "rank_paths", "--ranks", "1")}, {"1"})

    def test_json(self):
        self.assertEqual(self.export("json"), analyze("report", "run", "--json", cwd=self.directory).stdout)

    # --- files and mistakes ---

    def test_files(self):
        path = os.path.join(self.directory, "a.folded")
        expected = self.export("folded")
        self.assertEqual(self.export("folded", "-o", path), b"")
        os.symlink("a.folded", os.path.join(self.directory, "link"))
        os.chmod(path, 0o600)
        self.export("folded", "-o", "link", "--ranks", "0")
        self.assertTrue(os.path.islink(os.path.join(self.directory, "link")))
        self.export("folded", "-o", "link")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), expected)
        self.export("folded", "-o", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        self.refused(3, "no/such", "run", "-f", "folded", "-o", "no/such/file")
        self.refused(3, "run", "run", "-f", "folded", "-o", "run")
        self.assertEqual([name for name in os.listdir(self.directory) if name.endswith(".tmp")], [])

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ANALYZE, "export", "run", "-f", "json"], cwd=self.directory, stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (3, 1))

    def test_wrong_options(self):
        self.refused(2, "-f", "run", "-f", "xml")
        self.refused(1, "nothing found", "nowhere", "-f", "folded")
        self.refused(1, "no rank 7", "run", "-f", "folded", "--ranks", "0,7")
        self.refused(1, "no ranks 5-8", "run", "-f", "pprof", "--ranks", "5-8")
        for ranks in ("x", "3-1", "1,,2", "-1", "99999999999"):
            self.refused(2, "--ranks", "run", "-f", "folded", f"--ranks={ranks}")
        self.refused(2, "samples and times always", "run", "-f", "pprof", "--weight", "samples")
        self.refused(2, "no choice of weights", "run", "-f", "callgrind", "--weight", "time")
        self.refused(2, "no way to tell ranks apart", "run", "-f", "pstats", "--all-ranks")
        self.refused(2, "no frames of regions", "run", "-f", "pprof", "--no-regions")
        self.refused(2, "has no tables", "run", "-f", "json", "--table", "functions")
        self.refused(2, "no table rows", "run", "-f", "csv", "--table", "rows")
        self.refused(2, "all ranks", "run", "-f", "json", "--ranks", "0")
        self.refused(2, "rank_paths", "run", "-f", "csv", "--ranks", "0")
        self.refused(2, "idle threads", "run", "-f", "csv", "--idle-threads")

    def test_damaged_run(self):
        run = os.path.join(self.directory, "damaged")
        shutil.copytree(os.path.join(self.directory, "run"), run)
        with open(os.path.join(run, "profile.h5"), "r+b") as file:
            file.truncate(os.path.getsize(file.name) // 2)
        for form in ("folded", "perfetto", "csv", "json"):
            self.refused(3, "profile.h5", "damaged", "-f", form)


class OfShards(unittest.TestCase):
    def test_run_is_merged_first(self):
        with tempfile.TemporaryDirectory() as directory:
            run = os.path.join(directory, "run")
            subprocess.run([os.path.join(BUILD, "libexec", "clusterprof", "synth"), "--nodes", "6", "--ranks-per-node",
                            "50", "--paths", "40", "--seed", "1", run], check=True, timeout=60)
            done = analyze("export", run, "-f", "folded", "--weight", "samples", cwd=directory)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.exists(os.path.join(run, "profile.h5")))
            samples = sum(int(line.rpartition(b" ")[2]) for line in done.stdout.splitlines())
            report = json.loads(analyze("report", run, "--json", cwd=directory).stdout)
            self.assertEqual(samples, report["run"]["samples"])
            # Of many ranks pprof has nodes alone, and perfetto three of them, unless asked for more.
            sums = collections.Counter()
            for options in ([], ["--all-ranks"]):
                done = analyze("export", run, "-f", "pprof", *options, cwd=directory)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 0 if options else 1))
                for _, labels, values in pprof_samples(done.stdout):
                    self.assertEqual("rank" in labels, bool(options))
                    sums[bool(options), labels["node"]] += values[1]
                done = analyze("export", run, "-f", "perfetto", *options, cwd=directory)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 0 if options else 1))
                tracks = [descriptor for _, packet in protobuf.fields(done.stdout) if b"(node" in packet
                          for descriptor in protobuf.Message(packet).messages(60)]
                self.assertEqual(sum(3 in descriptor for descriptor in tracks), 300 if options else 3)
            self.assertEqual(len(sums), 12)
            for node in {node for _, node in sums}:
                self.assertEqual(sums[False, node], sums[True, node])


if __name__ == "__main__":
    unittest.main(verbosity=2)
