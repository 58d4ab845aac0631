# SPDX-License-Identifier: BSD-3-Clause
"""clusterprof.read(): data frames of shards (by rank) and of the profile merged from them (by block) say the same, and
the sums are those of a brute-force computation."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib

import recording

sys.path.insert(0, os.path.join(recording.SOURCE, "python"))
try:
    import numpy as np
    import pandas as pd
    import clusterprof
    import clusterprof.reader
except ImportError as missing:
    MISSING = str(missing)
else:
    MISSING = None

PROGRAM = '''
import time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
def down(n):
    if n: down(n - 1)
    else: spin(0.5)
down(5)
'''


class Reader(recording.RecordingTest):
    def setUp(self):
        if MISSING:
            self.skipTest(MISSING)
        super().setUp()
        self.run_directory = os.path.join(self.directory, "synthetic")

    def synthesize(self):
        synth = os.path.join(recording.BUILD, "libexec", "clusterprof", "synth")
        subprocess.run([synth, "--nodes", "3", "--ranks-per-node", "4", "--paths", "600", "--seed", "7",
                        "--counters", "2", self.run_directory], check=True, capture_output=True)
        subprocess.run([recording.CLUSTERPROF, "merge", "-q", self.run_directory], check=True, capture_output=True)
        shards = [clusterprof.read(os.path.join(self.run_directory, name))
                  for name in sorted(os.listdir(self.run_directory)) if name.startswith("node-")]
        profile = clusterprof.read(self.run_directory)
        for opened in [*shards, profile]:
            self.addCleanup(opened.close)
        return shards, profile

    def by_id(self, run, rows, columns, value):
        rows = rows.assign(id=run.paths["id"].to_numpy()[rows["path"]])
        rows["columns"] = rows[columns].astype(str).agg(" ".join, axis=1)
        return rows.groupby(["rank", "id", "columns"])[value].sum()

    def test_profile_agrees_with_its_shards(self):
        shards, profile = self.synthesize()
        self.assertEqual(len(profile.ranks), 12)
        self.assertEqual(len(profile.nodes), 3)
        for rows, columns, value in ((clusterprof.reader.Run.values, ["category", "main_thread"], "samples"),
                                     (clusterprof.reader.Run.path_counters, ["counter"], "value")):
            expected = pd.concat(self.by_id(shard, rows(shard), columns, value) for shard in shards).sort_index()
            seen = self.by_id(profile, rows(profile), columns, value).sort_index()
            self.assertGreater(len(expected), 1000)
            pd.testing.assert_series_equal(seen[seen != 0], expected[expected != 0])
        # The merge puts measured times of MPI calls in the place of sampled ones, and keeps the time of each rank.
        sampled = pd.concat(shard.values() for shard in shards).groupby(["rank", "main_thread"])["wall_ns"].sum()
        corrected = profile.values().groupby(["rank", "main_thread"])["wall_ns"].sum()
        pd.testing.assert_series_equal(corrected, sampled)

    def test_values_of_chosen_ranks_and_nodes(self):
        shards, profile = self.synthesize()
        everything = profile.values()
        chosen = profile.values(ranks=[2, 9])
        pd.testing.assert_frame_equal(chosen, everything[everything["rank"].isin([2, 9])].reset_index(drop=True))
        node = profile.nodes["name"][1]
        of_node = profile.values(nodes=node)
        pd.testing.assert_frame_equal(of_node, everything[everything["node"] == node].reset_index(drop=True))
        self.assertEqual(set(of_node["rank"]), set(shards[1].ranks["rank"]))
        self.assertEqual(len(profile.values(ranks=[0], nodes=[node])), 0)
        with self.assertRaisesRegex(KeyError, "rank 99"):
            profile.values(ranks=[99])

    def test_functions_and_statistics(self):
        _, profile = self.synthesize()
        values, paths = profile.values(), profile.paths
        own, total = {}, {}
        for (path, category), wall_ns in values.groupby(["path", "category"], observed=True)["wall_ns"].sum().items():
            key, seen = None, set()
            if paths.loc[path, "function"] in ("of a file", "of a socket", "of a pipe or terminal"):
                path = paths.loc[path, "parent"]
            python = path
            while category == "python" and python != 0 and paths.loc[python, "kind"] != "python":
                python = paths.loc[python, "parent"]
            path = path if python == 0 else python  # bytecode is the Python function's
            while path != 0:
                row = tuple(paths.loc[path, ["kind", "function", "file", "module"]])
                key = key or row
                if row[0] != "region":
                    seen.add(row)
                path = paths.loc[path, "parent"]
            own[key] = own.get(key, 0) + wall_ns
            for row in seen:
                total[row] = total.get(row, 0) + wall_ns
        functions = profile.functions()
        rows = functions[["kind", "function", "file", "module"]].itertuples(index=False, name=None)
        rows = [tuple(row) for row in rows]
        self.assertEqual(dict(zip(rows, functions["total_ns"])), total)
        self.assertEqual({row: ns for row, ns in zip(rows, functions["self_ns"]) if ns}, own)
        exclusive = values.groupby("path")["wall_ns"].sum().reindex(paths.index, fill_value=0)
        np.testing.assert_array_equal(paths["exclusive_sum_ns"].astype(np.int64), exclusive.astype(np.int64))

    def test_timeline_adds_up_to_the_categories(self):
        _, profile = self.synthesize()
        line = profile.timeline
        python_ns = line[line["series"] == "python_ns"].groupby("rank")["value"].sum()
        self.assertGreater(len(python_ns), 0)
        self.assertGreaterEqual(line["time_ns"].min(), -line["time_ns"].max())
        self.assertEqual(set(line["rank"]), set(profile.ranks["rank"]))

    def test_call_paths_over_time(self):
        _, profile = self.synthesize()
        line = profile.path_timeline
        self.assertEqual(int(line["wall_ns"].sum()), int(profile.values()["wall_ns"].sum()))
        self.assertGreater(line["time_ns"].max(), line["time_ns"].min())

    def test_recorded_program(self):
        script = os.path.join(self.directory, "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        report = self.recorded([recording.PYTHON, script])
        with clusterprof.read(os.path.join(self.directory, "run")) as run:
            self.assertEqual(run.info["command"][-1], script)
            functions = run.functions().set_index("function")
            self.assertAlmostEqual(functions["total_ns"]["down"] / 1e9, self.function(report, "down")["total_s"], places=6)
            self.assertGreater(functions["total_ns"]["down"], 0.4e9)
            self.assertLessEqual(functions["total_ns"]["down"] / 1e9, report["run"]["elapsed_s"])  # it calls itself
            deepest = run.values().sort_values("cpu_ns")["path"].iloc[-1]  # others may lack a processor for long
            names = run.call_path(deepest)
            self.assertEqual([name for name in names if name in ("<module>", "down", "spin")],
                             ["<module>"] + ["down"] * 6 + ["spin"])

    def test_unreadable_files_are_errors(self):
        os.mkdir(self.run_directory)
        with self.assertRaisesRegex(FileNotFoundError, "nosuch: no such run: give its directory"):
            clusterprof.read("nosuch")
        with self.assertRaisesRegex(FileNotFoundError, "neither profile.h5 nor node"):
            clusterprof.read(self.run_directory)
        import h5py

        with open(os.path.join(self.run_directory, "node-x.h5"), "w"):
            pass
        with self.assertRaisesRegex(FileNotFoundError, "clusterprof merge"):
            clusterprof.read(self.run_directory)
        with self.assertRaisesRegex(OSError, "node-x.h5: cannot be read"):
            clusterprof.read(os.path.join(self.run_directory, "node-x.h5"))

        other = os.path.join(self.directory, "other.h5")
        h5py.File(other, "w").close()
        with self.assertRaisesRegex(ValueError, "neither a profile nor a shard"):
            clusterprof.read(other)
        for kind, version in (("profile", (3, 0)), ("profile", (2, 0)), ("shard", (1, 5))):
            with h5py.File(other, "w") as file:
                file.attrs["format"] = np.bytes_("clusterprof-" + kind)
                file.attrs["format_major"], file.attrs["format_minor"] = map(np.uint32, version)
            with self.assertRaisesRegex(ValueError, rf"has format {version[0]}\.{version[1]}, this reader knows \d+\.\d+ only"):
                clusterprof.read(other)

    def forged(self, change):
        """The profile, opened, after somebody has changed it."""
        import h5py

        path = os.path.join(tempfile.mkdtemp(dir=self.directory), "forged.h5")
        shutil.copy(os.path.join(self.run_directory, "profile.h5"), path)
        with h5py.File(path, "r+") as file:
            change(file)
        run = clusterprof.read(path)
        self.addCleanup(run.close)
        return run

    def test_forged_profiles_are_errors(self):
        self.synthesize()
        usual = {"shuffle": True, "compression": 1, "fletcher32": True}

        def replace(file, name, rows, chunk=None, **how):
            del file[name]
            data = file.create_dataset(name, (rows,), "<u8", chunks=(min(rows, 32768),), **how)
            if chunk is not None:
                data.id.write_direct_chunk((0,), chunk)

        def cycle(file):
            file["paths/parent"][5], file["paths/parent"][7] = 7, 5

        with self.assertRaisesRegex(ValueError, "forged.h5: damaged: a parent does not come before its child"):
            self.forged(cycle).call_path(5)
        short = zlib.compress(os.urandom(3000))
        summed = short + clusterprof.reader._fletcher32(short).to_bytes(4, "little")
        for error, change in (
                ("claims more rows than its data can hold", lambda file: replace(file, "paths/id_low", 1 << 33, **usual)),
                ("is damaged", lambda file: replace(file, "paths/id_low", 32768, summed, **usual)),
                ("is damaged", lambda file: replace(file, "paths/id_low", 32768, b"x" * 3000, **usual)),
                ("by filters other than ours", lambda file: replace(file, "paths/id_low", 32768, short, compression=1)),
                ("by filters other than ours", lambda file: replace(file, "paths/id_low", 300, fletcher32=True))):
            with self.assertRaisesRegex(ValueError, "forged.h5: column /paths/id_low .*" + error):
                self.forged(change).paths

        def texts(file):  # each of them all bytes that there are
            ends = file["strings/text_offsets"][:]
            ends[::2], ends[1::2] = 0, ends[-1]
            file["strings/text_offsets"][:] = ends

        with self.assertRaisesRegex(ValueError, "/strings/text_offsets is damaged"):
            self.forged(texts).paths

        def many_rows(file):
            file["mpi_calls/rank_offsets"][-1] = 1 << 40

        with self.assertRaisesRegex(ValueError, "damaged: rows that are not there"):
            self.forged(many_rows).mpi_calls

        def endless(file):
            file["paths/again"] = file["paths"]

        with self.assertRaisesRegex(ValueError, "forged.h5: parts of it are not in this file"):
            self.forged(endless)

    def test_chunks_are_unpacked_as_hdf5_does_it(self):
        import h5py

        random = np.random.default_rng(1)
        with h5py.File(os.path.join(self.directory, "columns.h5"), "w") as file:
            for kind in ("<u1", "<i4", "<u4", "<i8", "<u8", "<f8"):
                for high in (1, 50, 1 << 30):
                    rows = random.integers(0, min(high, 200 if kind == "<u1" else high), 10_000, endpoint=True).astype(kind)
                    for chunk in (999, 10_000):
                        data = file.create_dataset(f"{kind}{high}of{chunk}", data=rows, chunks=(chunk,), compression=1,
                                                   fletcher32=True, shuffle=kind != "<u1")
                        for part in (slice(None), slice(0, 0), slice(998, 1000), slice(2000, 7001), slice(9999, 20_000)):
                            np.testing.assert_array_equal(clusterprof.reader._column(data, part), rows[part])
                            self.assertEqual(clusterprof.reader._column(data, part).dtype, rows.dtype)


if __name__ == "__main__":
    recording.main()
