# SPDX-License-Identifier: BSD-3-Clause
"""Who holds memory, by programs that know it: bytes per line in C, C++, Fortran and Python, peaks of ranks and of their node at
different times, a leak, copies, and what is left of a rank that was killed, for its memory, too. Amounts of small blocks are
sampled: a sum of X bytes has a standard error of sqrt(X * interval), and tolerances are five of them."""

import ast
import glob
import json
import math
import os
import signal
import subprocess
import time

import recording

HERE = os.path.dirname(os.path.abspath(__file__))
OF_AGENT = os.path.join(recording.SOURCE, "tests", "integration", "agent")
MIB = 1 << 20
FINE = 4096  # bytes
DEFAULT = 64 << 10
COPY_INTERVALS = 16  # that a copied byte is sampled less often than an allocated one
PATIENCE_S = 120


def tolerance(bytes_, interval, slack=0):
    return 5 * math.sqrt(abs(bytes_) * interval) + slack


class MemoryTest(recording.RecordingTest):
    def path(self, name):
        return os.path.join(self.directory, name)

    def build(self, compiler, source, *options):
        self.need(compiler)
        program = self.path(os.path.splitext(os.path.basename(source))[0])
        done = self.bare([compiler, *options, source, "-o", program])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return program

    def lines(self, report, **wanted):
        return [row for row in report["memory"]["lines"] if all(row[key] == value for key, value in wanted.items())]

    def sum(self, report, key, **wanted):
        return sum(row[key] for row in self.lines(report, **wanted))

    def near(self, found, known, interval, what, slack=0):
        self.assertLessEqual(abs(found - known), tolerance(known, interval, slack), f"{what}: {found} for {known}")

    def adds_up(self, report):
        """Lines have what the peaks of ranks and nodes are made of."""
        memory = report["memory"]
        for of, key in ((memory["ranks"], "rank_peak_bytes"), (memory["nodes"], "node_peak_bytes")):
            whole = sum(row["peak_bytes"] for row in of)
            self.assertLessEqual(abs(whole - sum(row[key] for row in memory["lines"])), 0.03 * whole, key)
        for node in memory["nodes"]:
            self.assertLessEqual(sum(part["bytes"] for part in node["held"]), 1.03 * node["peak_bytes"])


class Languages(MemoryTest):
    """Programs of the agent's own test, whose functions tell what they have allocated."""

    def interval(self, report):
        """It rises with the number of changes per second, and no error is larger than with the last one."""
        interval = report["memory"]["interval_bytes"]
        self.assertGreaterEqual(interval, FINE)
        return interval

    def check_functions(self, report, output):
        checked, interval = 0, self.interval(report)
        for line in output.splitlines():
            words = line.split()
            if words[:1] != ["expect"]:
                continue
            name, domain = words[1], words[4]
            allocated, live, _, copied = map(int, words[5:9])
            shown = "mmap" if domain == "file" else domain
            self.near(self.sum(report, "alloc_bytes", function=name, domain=shown), allocated, interval, f"{name} allocated")
            self.near(self.sum(report, "mapped_file_bytes" if domain == "file" else "live_end_bytes", function=name, domain=shown),
                      live, interval, f"{name} live")
            if copied >= 0:
                self.near(self.sum(report, "copy_bytes", function=name), copied, COPY_INTERVALS * interval, f"{name} copied")
            for row in self.lines(report, function=name):
                if row["domain"] != shown:
                    self.assertEqual(row["alloc_bytes"], 0, f"{name}: nothing counts twice: {row}")
            checked += 1
        return checked

    def test_c(self):
        program = self.build("gcc", os.path.join(OF_AGENT, "memory.c"), "-std=gnu11", "-O1", "-g", "-fno-builtin",
                             "-fno-toplevel-reorder", "-pthread")
        for kind, functions in (("heap", 8), ("mappings", 7), ("copies", 2)):
            done = self.record([program, kind], options=[f"--memory={FINE}", "-q"], run=kind)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            report = self.report(kind)
            self.assertEqual(self.check_functions(report, done.stdout.decode()), functions)
            self.adds_up(report)
        self.assertGreater(self.sum(self.report("heap"), "freed_soon_bytes", function="small_freed"), 25e6)

    def test_c_that_is_killed(self):
        program = self.build("gcc", os.path.join(OF_AGENT, "memory.c"), "-std=gnu11", "-O1", "-g", "-fno-builtin",
                             "-fno-toplevel-reorder", "-pthread")
        done = self.record([program, "killed"], options=[f"--memory={FINE}", "-q"])
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr.decode())
        self.await_last_shard()
        self.assertEqual(self.check_functions(self.report(), done.stdout.decode()), 8)

    def test_cpp(self):
        program = self.build("g++", os.path.join(OF_AGENT, "memory_new.cpp"), "-std=c++20", "-O1", "-g", "-fno-builtin",
                             "-Wno-alloc-size-larger-than")
        done = self.record([program], options=[f"--memory={FINE}", "-q"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(self.check_functions(self.report(), done.stdout.decode()), 4)

    def test_fortran(self):
        program = self.build("gfortran", os.path.join(OF_AGENT, "memory_fortran.f90"), "-O1", "-g", f"-J{self.directory}")
        report = self.recorded([program], options=[f"--memory={FINE}", "-q"])
        rows = [row for row in report["memory"]["lines"] if (row["file"] or "").endswith("memory_fortran.f90")]
        with open(os.path.join(OF_AGENT, "memory_fortran.f90"), encoding="utf-8") as file:
            numbers = {what: i for i, line in enumerate(file, 1) for what in ("allocate(kept", "allocate(dropped")
                       if line.strip().startswith(what)}
        by_line = {number: [row for row in rows if row["line"] == number] for number in numbers.values()}
        kept, dropped = by_line[numbers["allocate(kept"]], by_line[numbers["allocate(dropped"]]
        self.assertEqual(sum(row["live_end_bytes"] for row in kept), 16_000_000)
        self.assertEqual(sum(row["alloc_bytes"] for row in dropped), 24_000_000)
        self.assertEqual(sum(row["live_end_bytes"] for row in dropped), 0)
        self.assertEqual(sum(row["rank_peak_bytes"] for row in kept + dropped), 24_000_000, "one of the three at a time")

    def test_python(self):
        script = os.path.join(OF_AGENT, "memory_python.py")
        with open(script, encoding="utf-8") as file:
            spans = {node.name: range(node.lineno, node.end_lineno + 1) for node in ast.parse(file.read()).body
                     if isinstance(node, ast.FunctionDef)}
        for version, python in recording.pythons():
            with self.subTest(version):
                run = f"python-{version}"
                done = self.record([python, "-S", "-E", script], options=[f"--memory={FINE}", "-q"], run=run)
                self.assertEqual(done.returncode, 0, done.stderr.decode())
                report = self.report(run)
                said = [note["code"] for note in report["run"]["note_records"]].count("memory_python_not_seen")
                self.assertEqual(said, 0)
                checked, interval = 0, self.interval(report)
                for line in done.stdout.decode().splitlines():
                    _, name, domain, live = line.split()
                    rows = [row for row in self.lines(report, file=script) if row["line"] in spans[name]]
                    of_domain = sum(row["live_end_bytes"] for row in rows if row["domain"] == domain)
                    self.near(of_domain, int(live), interval, f"{version} {name}", 50_000)
                    # Nothing counts twice. The interpreter keeps track of its pools.
                    self.near(sum(row["live_end_bytes"] for row in rows), int(live), interval, f"{version} {name}", 300_000)
                    checked += 1
                self.assertEqual(checked, 7)

    def test_numbers_in_a_list(self):
        """Each float is made of an int that is gone at once."""
        script = self.path("floats.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("count = 4_000_000\n"
                       "numbers = [float(i) for i in range(count)]\n")
        report = self.recorded([recording.PYTHON, script], options=["--memory", "-q"])
        found = [row for row in report["findings"] if row["kind"] == "python_numbers"]
        self.assertEqual([(row["file"], row["line"]) for row in found], [(script, 2)])
        evidence = found[0]["evidence"]
        # 24 bytes of a float, and 8 of the list, which has up to an eighth to spare. Most of the error is the floats'.
        error = tolerance(24 * 4e6, DEFAULT) / 24
        self.assertLessEqual(abs(evidence["objects"] - 4e6), 2 * error, evidence)
        self.assertTrue(28 <= evidence["bytes_per_object"] <= 38, evidence)
        [row] = [row for row in self.lines(report, file=script, line=2) if row["domain"] == "python"]
        self.assertLessEqual(abs(row["freed_soon_count"] - 4e6), 2 * error, row)

    def test_numpy(self):
        if subprocess.run([recording.PYTHON, "-c", "import numpy"], capture_output=True).returncode != 0:
            self.skipTest("numpy is not here")
        script = self.path("arrays.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import numpy\n"
                       "kept = numpy.ones(4_000_000)\n"
                       "twice = kept + kept\n"
                       "del twice\n"
                       "copied = kept.copy()\n")
        report = self.recorded([recording.PYTHON, script], options=["--memory", "-q"])
        for number, live, allocated in ((2, 32e6, 32e6), (3, 0, 32e6), (5, 32e6, 32e6)):
            rows = self.lines(report, file=script, line=number)
            self.near(sum(row["live_end_bytes"] for row in rows), live, 0, f"line {number}", 500_000)
            self.near(sum(row["alloc_bytes"] for row in rows), allocated, 0, f"line {number}", 500_000)
            self.assertGreater(sum(row["alloc_bytes"] for row in rows if row["domain"] == "native"), 31e6, "buffers are native")


class Peaks(MemoryTest):
    """programs/peaks.c: two ranks that hold the most at different times, and together at a third."""

    def record_peaks(self, flavour, nodes):
        program = recording.program(flavour, "peaks")
        self.need(program)
        before = recording.launcher(flavour, 2)
        if nodes > 1:
            wrapper = self.path("as_node")
            with open(wrapper, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nCLUSTERPROF_NODE=part${OMPI_COMM_WORLD_RANK:-$PMI_RANK} exec \"$@\"\n")
            os.chmod(wrapper, 0o755)
            before = [*before, wrapper]
        done = self.record([program], before=before, options=["--memory", "-q"], run=flavour)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        phases = {phase["phase"]: phase for phase in map(json.loads, done.stdout.decode().splitlines())}
        return self.report(flavour), phases

    def check_time(self, found_s, phase, rank, base_s, base_phase, base_rank):
        """The time between two peaks; the program's clock says between what it lies."""
        least = phase["before_s"][rank] - base_phase["after_s"][base_rank]
        most = phase["after_s"][rank] - base_phase["before_s"][base_rank]
        self.assertTrue(least - 0.02 <= found_s - base_s <= most + 0.02, (found_s - base_s, least, most))

    def check_lines(self, report, phases, sees_mappings=True):
        held = 2 * 64_000 * 1000
        for key in ("rank_peak_bytes", "node_peak_bytes", "live_end_bytes"):
            self.near(self.sum(report, key, function="hold"), held, DEFAULT, key)
            if sees_mappings:
                self.assertEqual(self.sum(report, key, function="mapped", domain="mmap"), 2 * 48 * MIB)
            self.assertEqual(self.sum(report, key, function="churn"), 0)
        self.assertGreaterEqual(self.sum(report, "live_end_bytes", function="by_mpi", domain="mpi"), 2 * 16 * MIB)
        churned = 2 * 3000 * 20000
        self.near(self.sum(report, "alloc_bytes", function="churn"), churned, DEFAULT, "churn")
        self.assertGreater(self.sum(report, "freed_soon_bytes", function="churn"), 0.8 * churned)
        self.near(self.sum(report, "copy_bytes", function="copy"), 2 * 200 * (MIB - 1), COPY_INTERVALS * DEFAULT, "copies")
        leaks = {row["function"] for row in report["memory"]["lines"] if row["leak"]}
        self.assertIn("leak", leaks)
        self.assertFalse(leaks & {"hold", "churn", "first", "second", "both", "mapped"}, leaks)
        self.near(self.sum(report, "live_end_bytes", function="leak"), sum(phases["leak"]["blocks"]) * 1000, DEFAULT, "leak")
        self.assertEqual(self.sum(report, "rank_peak_bytes", function="first"), 200 * MIB)
        self.assertEqual(self.sum(report, "rank_peak_bytes", function="second"), 160 * MIB)
        self.assertEqual(self.sum(report, "rank_peak_bytes", function="both"), 0)
        self.assertEqual([self.lines(report, function=name)[0]["rank_max"] for name in ("first", "second")], [0, 1])
        self.adds_up(report)

    def test_of_one_node(self):
        report, phases = self.record_peaks("openmpi", 1)
        self.check_lines(report, phases)
        node, = report["memory"]["nodes"]
        ranks = report["memory"]["ranks"]
        self.assertEqual(self.sum(report, "node_peak_bytes", function="both"), 240 * MIB, "all ranks of the node together")
        self.assertEqual(self.sum(report, "node_peak_bytes", function="first"), 0)
        self.check_time(ranks[1]["peak_at_s"], phases["second"], 1, ranks[0]["peak_at_s"], phases["first"], 0)
        # The later of the two completes it.
        later = max((0, 1), key=lambda rank: phases["both"]["before_s"][rank])
        self.check_time(node["peak_at_s"], {"before_s": phases["both"]["before_s"], "after_s": [max(phases["both"]["after_s"])] * 2},
                        later, ranks[0]["peak_at_s"], phases["first"], 0)
        parts = {(part["function"], part["rank"]): part["bytes"] for part in node["held"]}
        self.assertEqual({key: value for key, value in parts.items() if key[0] == "both"}, {("both", 0): 120 * MIB, ("both", 1): 120 * MIB})
        self.check_at(node["peak_at_s"] + 0.2)

    def check_at(self, at_s):
        done = subprocess.run([recording.CLUSTERPROF, "report", self.path("openmpi"), "--at", f"{at_s:.3f}s", "--json"],
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        held = json.loads(done.stdout)
        self.assertTrue(held["begin_s"] <= at_s <= held["end_s"], held)
        by_line = {row["function"]: row["bytes"] for row in held["lines"]}
        self.assertGreater(by_line["both"], 60 * MIB, "the mean of a part of the run in which it is held for 0.4 s")
        self.near(by_line["hold"], 2 * 64_000 * 1000, DEFAULT, "hold", 0.05 * 128e6)
        self.assertEqual([row["rank"] for row in held["ranks"]], [0, 1])

    def test_of_two_nodes(self):
        # MPICH's UCX writes a jump over the code of mmap, and nobody in front of mmap is called any more.
        report, phases = self.record_peaks("mpich", 2)
        self.check_lines(report, phases, sees_mappings=False)
        self.assertEqual(len(report["memory"]["nodes"]), 2)
        self.assertEqual(self.sum(report, "node_peak_bytes", function="first"), 200 * MIB, "each node has one rank")
        self.assertEqual(self.sum(report, "node_peak_bytes", function="second"), 160 * MIB)
        self.assertEqual(self.sum(report, "node_peak_bytes", function="both"), 0)


class Killed(MemoryTest):
    """programs/hold.c in a control group with a limit."""

    def setUp(self):
        super().setUp()
        self.program = self.build("gcc", os.path.join(HERE, "programs", "hold.c"), "-std=gnu11", "-O1", "-g", "-fno-builtin")

    def holders(self, report, mib):
        small, large = (self.sum(report, "node_peak_bytes", function=name) for name in ("small", "large"))
        self.near(small, mib * MIB, DEFAULT, "small", 0.02 * mib * MIB)
        self.near(large, mib * MIB, 0, "large", 0.02 * mib * MIB)

    def test_by_the_kernel(self):
        group = f"/sys/fs/cgroup/memory/clusterprof-test-{os.getpid()}"
        try:
            os.mkdir(group)
        except OSError as error:
            self.skipTest(f"no control group of version 1 can be made: {error}")
        self.addCleanup(self.remove, group)
        with open("/proc/swaps", encoding="ascii") as file:
            if len(file.readlines()) > 1:
                self.skipTest("this machine has swap")
        with open(f"{group}/memory.limit_in_bytes", "w", encoding="ascii") as file:
            file.write(str(400 * MIB))
        enter = self.path("enter")
        with open(enter, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\necho $$ > {group}/cgroup.procs && exec \"$@\"\n")
        os.chmod(enter, 0o755)
        done = self.record([self.program, "80"], before=[enter], options=["--memory", "-q"])
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr.decode())
        self.await_last_shard()
        report = self.report()
        self.holders(report, 80)
        finding = report["findings"][0]
        self.assertEqual((finding["kind"], finding["rank"]), ("out_of_memory", 0))
        self.assertEqual(finding["evidence"]["failure"], "oom")
        self.assertEqual(finding["evidence"]["limit_bytes"], 400 * MIB)
        held = {part["function"]: part["bytes"] for part in finding["evidence"]["held"]}
        self.assertEqual(set(held) & {"small", "large", "more"}, {"small", "large", "more"})
        self.assertGreater(held["more"], 100 * MIB)
        node, = report["memory"]["nodes"]
        self.assertEqual(node["limit_bytes"], 400 * MIB)
        self.assertGreater(node["max_used_bytes"], 380 * MIB)
        text = subprocess.run([recording.CLUSTERPROF, "report", self.path("run")], capture_output=True, timeout=60).stdout.decode()
        self.assertIn("Memory was used up on node", text)

    @staticmethod
    def remove(group):
        for _ in range(100):
            try:
                os.rmdir(group)
                return
            except OSError:
                time.sleep(0.1)  # its processes are still ending

    # A batch system kills the collector as well. What there is then was written when the memory was nearly used up.
    def test_with_the_collector(self):
        groups = self.path("groups")
        os.mkdir(groups)
        limit = 1 << 40

        def write(name, text):
            with open(os.path.join(groups, name + ".new"), "w", encoding="ascii") as file:
                file.write(text)
            os.rename(os.path.join(groups, name + ".new"), os.path.join(groups, name))

        write("memory.max", f"{limit}\n")
        write("memory.current", f"{limit // 2}\n")
        write("memory.stat", "anon 7\ninactive_file 0\n")
        write("memory.events", "oom_kill 0\n")
        process = subprocess.Popen(
            [recording.CLUSTERPROF, "--memory", "--checkpoint", "600", "-q", "-o", self.path("run"), self.program, "40", self.path("end")],
            cwd=self.directory, stdout=subprocess.PIPE, env={**os.environ, "CLUSTERPROF_CGROUP_ROOT": groups})
        self.addCleanup(process.communicate, timeout=PATIENCE_S)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"held\n")
        write("memory.current", f"{int(0.97 * limit)}\n")
        self.await_line("large")
        collectors = [pid for pid, words in recording.processes() if recording.is_collector(words, self.path("run"))]
        self.assertEqual(len(collectors), 1)
        os.kill(collectors[0], signal.SIGKILL)
        process.kill()  # it has become the program
        process.wait(timeout=PATIENCE_S)
        report = self.report()
        self.holders(report, 40)
        finding = report["findings"][0]
        self.assertEqual(finding["kind"], "out_of_memory")
        self.assertEqual(finding["evidence"]["limit_bytes"], limit)
        self.assertNotIn("failure", finding["evidence"], "who ended it is not known")

    def await_line(self, function):
        """A shard has it, long before the next checkpoint is due."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = subprocess.run([recording.CLUSTERPROF, "report", "--json", self.path("run")], capture_output=True, timeout=60)
            if done.returncode == 0 and self.sum(json.loads(done.stdout), "node_peak_bytes", function=function) > 0:
                return
            self.assertLess(time.monotonic(), deadline, (done.stderr, glob.glob(self.path("run/*"))))
            time.sleep(0.1)


if __name__ == "__main__":
    recording.main()
