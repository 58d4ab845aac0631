# SPDX-License-Identifier: BSD-3-Clause
"""Programs that name parts of themselves through NVTX, ITT, Kokkos, PETSc, LIKWID, Caliper and ROCTX (programs/annotations.c, which also
stands for the parts of these that a program is linked with), or through oneTBB: each name is a region with its domain, counted exactly, and as long as
the program says: not less than what is between its two calls, and not more than with them."""

import json
import os
import subprocess

import measured
import recording
import truth

RATE_HZ = 250
INCLUDES = ["-I/usr/local/cuda/include"]
DOMAINS = {"nvtx": "NVTX", "itt": "org.example.solver", "kokkos": "Kokkos", "petsc": "PETSc", "likwid": "LIKWID", "caliper": "Caliper",
           "roctx": "ROCTX"}
PASSED_ON = ("petsc", "likwid", "caliper", "roctx")


class Annotations(recording.RecordingTest):
    def program(self):
        self.need("gcc")
        library = os.path.join(self.directory, "libannotations.so")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", os.path.join(truth.PROGRAMS, "annotations_library.c"), "-o", library],
                       check=True)
        program = os.path.join(self.directory, "annotations")
        # All references to the library are weak: most linkers would leave it out.
        subprocess.run(["gcc", "-O2", "-g", *INCLUDES, os.path.join(truth.PROGRAMS, "annotations.c"), "-o", program, "-pthread",
                        "-L" + self.directory, "-Wl,--no-as-needed", "-lannotations", "-Wl,-rpath," + self.directory, "-ldl"],
                       check=True)
        return program

    def regions(self, interface, *arguments, run="run", environment=()):
        done = self.record([self.program(), interface, *arguments], run=run, env=dict(os.environ, **dict(environment)),
                           options=["-r", str(RATE_HZ)])
        if done.returncode == 77:
            self.skipTest("the header of NVTX is not here")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report(run)
        for reason in ("region_mismatch", "region_table_full"):
            self.assertNotIn(reason, report["run"]["dropped"])
        return json.loads(done.stdout), report, {(row["domain"], row["name"]): row for row in report["regions"]}

    def check(self, interface):
        own, _, regions = self.regions(interface)
        self.own = own
        domain = DOMAINS[interface]
        outer, inner = regions[domain, "outer"], regions[domain, "outer/inner"]
        self.assertEqual((outer["count"], inner["count"]), (20, 100))
        # A region begins and ends between two looks at the program's clock each, even where the thread loses its processor there.
        for name, row in (("outer", outer), ("inner", inner)):
            self.measured_above(row["time_s"], 0.999 * own[name + "_within_s"], f"{interface}, {name}")
            self.measured_below(row["time_s"], 1.001 * own[name + "_s"], f"{interface}, {name}")
        # On a busy machine not all samples come in time: half of them do.
        share = own["inner_s"] / own["outer_s"]
        error_s = own["outer_s"] * measured.share_error(share, RATE_HZ / 2 * own["outer_s"])
        self.measured_near(inner["sampled_s"], own["inner_s"], 4 * error_s, f"{interface}, inner, sampled")
        self.assertFalse(outer["library"])
        if interface in PASSED_ON:
            self.assertEqual(own["calls"], 240, "the library gets every call")
        return regions

    def check_cost(self, interface):
        pairs = 10 ** 6
        own, _, regions = self.regions(interface, str(pairs))
        self.assertEqual(regions[DOMAINS[interface], "outer"]["count"], pairs)
        print(f"{interface}: {own['pair_ns']:.0f} ns for a region")

    def test_nvtx(self):
        regions = self.check("nvtx")
        nccl = regions["NCCL", "AllReduce"]
        self.assertEqual((nccl["count"], nccl["library"]), (10, True))
        # By the program's clock, several may have been the longest.
        at_least_s = max(within_s for within_s, _ in self.own["reductions"])
        self.assertIn(nccl["max_n"], [n for n, (_, time_s) in enumerate(self.own["reductions"]) if time_s >= at_least_s])
        self.assertEqual(regions["solver", "assemble"]["count"], 1)
        self.assertEqual(regions["NVTX", "crossing"]["count"], 1)
        self.assertEqual(regions["NVTX", "of two threads"]["count"], 1)
        # Of 3,000 different names most are in one row, with their number.
        self.assertGreater(regions["NVTX", "[other regions]"]["count"], 2000)
        self.assertLess(len(regions), 300)
        self.assertEqual(sum(row["count"] for (domain, _), row in regions.items() if domain == "NVTX"), 20 + 100 + 1 + 1 + 3000)

    def test_a_variable_that_is_set(self):
        """The user's is left alone, and that is said."""
        done = self.record(["sh", "-c", "echo $NVTX_INJECTION64_PATH $INTEL_LIBITTNOTIFY64"],
                           env=dict(os.environ, NVTX_INJECTION64_PATH="/no/such/tool.so"))
        self.assertEqual(done.returncode, 0, done.stderr)
        nvtx, itt = done.stdout.decode().split()
        self.assertEqual(nvtx, "/no/such/tool.so")
        self.assertEqual(os.path.basename(itt), "libclusterprof_agent.so")
        notes = [note for note in self.report()["run"]["notes"] if "NVTX_INJECTION64_PATH" in note]
        self.assertEqual(len(notes), 1, self.report()["run"]["notes"])

    def test_itt(self):
        regions = self.check("itt")
        # The table of domains has 128 rows: those that find none are in ITT's own.
        many = {domain: row["count"] for (domain, name), row in regions.items() if name in ("of many", "[other regions]")}
        self.assertEqual(sum(many.values()), 300 + 1, many)  # with the one whose name found no room
        self.assertEqual(many["org.example.solver"], 1, many)
        self.assertGreater(many["ITT"], 300 - 128, many)

    def test_tbb(self):
        """The library names its algorithms through ITT: an instance each time that one of the threads takes part."""
        self.need("g++", "/usr/include/tbb/parallel_for.h")
        calls, threads, program = 20, 2, os.path.join(self.directory, "tbb")
        subprocess.run(["g++", "-std=c++20", "-O2", "-g", os.path.join(truth.PROGRAMS, "tbb.cpp"), "-o", program, "-ltbb"], check=True)
        done = self.record([program, str(calls)], options=["-r", str(RATE_HZ)])
        self.assertEqual(done.returncode, 0, done.stderr)
        own = json.loads(done.stdout)
        report = self.report()
        regions = {(row["domain"], row["name"]): row for row in report["regions"]}
        self.assertEqual(set(regions), {("tbb", "tbb_parallel_for"), ("tbb", "tbb_parallel_reduce")})
        for name in ("for", "reduce"):
            row = regions["tbb", "tbb_parallel_" + name]
            self.assertTrue(row["library"])
            self.assertGreaterEqual(row["count"], calls)
            # The main thread is in it from the call to its end, and the other one comes where there is work for it.
            self.measured_above(row["time_s"], 0.95 * own[name + "_s"], f"{name}, the main thread's")
        self.assertLessEqual(sum(row["time_s"] for row in regions.values()), threads * report["run"]["elapsed_s"])


for interface_ in DOMAINS:
    if interface_ not in ("nvtx", "itt"):
        setattr(Annotations, f"test_{interface_}", lambda self, interface=interface_: self.check(interface))
    setattr(Annotations, f"test_a_million_of_{interface_}", lambda self, interface=interface_: self.check_cost(interface))

if __name__ == "__main__":
    recording.main()
