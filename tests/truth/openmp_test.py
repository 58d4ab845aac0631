# SPDX-License-Identifier: BSD-3-Clause
"""Programs with OpenMP (programs/openmp.c, openmp.f90, openmp_phases.c, and hybrid.c with MPI) that measure by their own clock what their
threads did, with GCC's and LLVM's run time, C and Fortran, on 1, 2 and 4 threads on two processors. Work and waiting have to be within 3 % of what the
program says, or within half a percent of the time that the threads have; with more threads than processors within 2 %, since a thread may
lose its processor between the program's look at the clock and ours. How often a region ran, and lines, are exact."""

import glob
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import textwrap

import recording
import truth

SOURCE = os.path.join(truth.PROGRAMS, "openmp.c")
OPENBLAS, NUMBA = "CLUSTERPROF_TEST_OPENBLAS", "CLUSTERPROF_TEST_NUMBA"
COMPILERS = {"gcc": ("gomp", ["gcc"]), "clang": ("ompt", ["clang"])}
UNEVEN = ("fast_main", "fast_worker")
SERIAL = ("prepare", "spin", "now", "seconds_of")  # prepare() and what is inlined into it
SCHEDULES = {"dynamic": "dynamic", "coarse": "dynamic", "guided": "guided"}
CHUNKS = {"dynamic": 100, "coarse": 20}
# The last of them: where the run time does not tell of chunks.
ADVICE = {"static": ("cyclic_schedule",), "coarse": ("smaller_chunks", "other_chunks")}
# The construct in which the threads wait, with the line's mark, where that is not the end of the region.
INSIDE = {"barriers": ("barrier", "barrier"), "critical": ("critical", "section"), "locks": ("lock", "lock")}

# What a rank may do after MPI_Finalize, on an idle machine before MPI_Init, too.
AROUND_S = 0.1


def balance_of(useful_s):
    return sum(useful_s) / len(useful_s) / max(useful_s)


def two_processors():
    return ["taskset", "-c", ",".join(str(number) for number in sorted(os.sched_getaffinity(0))[:2])]


def lines_of(source, mark="/* line of "):
    """{what: line} of the marks in a program."""
    with open(source, encoding="utf-8") as file:
        return {what.strip(): number for number, line in enumerate(file, 1) if mark in line
                for what in line.split(mark)[1].split("*/")[0].split(",")}


LINES = lines_of(SOURCE)


class OpenMpTest(recording.RecordingTest):  # tests/CMakeLists.txt names the classes below
    def compiled(self, compiler, source=SOURCE, *options):
        self.need(compiler[0])
        program = os.path.join(self.directory, "program")
        done = subprocess.run([*compiler, "-O2", "-g", "-fopenmp", *options, source, "-o", program], capture_output=True,
                              cwd=self.directory, text=True)
        if done.returncode != 0 and "omp" in done.stderr:
            self.skipTest(f"{compiler[0]} has no OpenMP: {done.stderr[:200]}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def run_recorded(self, command, threads=2, **how):
        done = self.record(command, before=two_processors(), env=dict(os.environ, OMP_NUM_THREADS=str(threads), **how.pop("env", {})),
                           **how)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout, self.report(how.get("run", "run"))

    def compare(self, what, own, row, slack):
        threads_s = own["time_s"] * own["threads"]
        for name in ("wait_s", "work_s"):
            self.measured_near(row[name], own[name], max(0.03 * own[name], slack * threads_s), f"{what}: {name}")
        self.measured_near(row["time_s"], own["time_s"], max(0.03 * own["time_s"], slack * own["time_s"]), f"{what}: time_s")
        self.measured_near(row["schedule_s"] + row["work_s"] + row["wait_s"], row["threads_s"], 0.02 * row["threads_s"] + 1e-4,
                           f"{what}: the parts of threads_s")

    @staticmethod
    def below_caller_s(rows):
        """All of the main thread and the work of the others: before and after that these are nobody's, on a busy machine for long."""
        return sum(row["time_s"] + sum(thread["work_s"] for thread in row["by_thread"] if thread["number"] != 0) for row in rows)


class Modes(OpenMpTest):
    name = ""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.kept.cleanup)

    def program(self):
        path = os.path.join(self.kept.name, "program")
        if not os.path.exists(path):
            shutil.copy(self.compiled(COMPILERS[self.name][1]), path)
        return path

    def check(self, mode, threads):
        name = self.name
        method, _ = COMPILERS[name]
        out, report = self.run_recorded([self.program(), mode], threads)
        own, openmp = json.loads(out), report["openmp"]
        what = f"{name}, {mode}, {threads} threads"
        self.assertEqual(openmp["ranks"][0]["recorded_by"], method)
        level = 1 if mode == "nested" else 0
        row, = [row for row in openmp["regions"] if row["line"] == LINES[mode] and row["level"] == level]
        self.assertEqual((os.path.basename(row["file"]), row["count"], row["threads"]), ("openmp.c", own["count"], own["threads"]))
        self.compare(what, own, row, 0.005 if threads <= 2 and mode != "nested" else 0.02)
        if mode in INSIDE and threads > 1:
            kind, mark = INSIDE[mode]
            construct = max(row["constructs"], key=lambda construct: construct["wait_s"])
            self.assertEqual((construct["kind"], construct["line"]), (kind, LINES[mark]), row["constructs"])
        if mode in SCHEDULES or mode == "static" and method == "ompt":
            loop, = [construct for construct in row["constructs"] if construct["kind"] == "loop"]
            self.assertEqual(loop["iterations"], 400, loop)
            schedule = SCHEDULES.get(mode, mode)
            # What older versions of LLVM's run time do not tell.
            unknown = method == "ompt" and mode != "static"
            self.assertIn(loop["schedules"], [[schedule], *([["handed_out"]] if unknown else [])], loop)
            if mode in CHUNKS and not (unknown and loop["chunks"] is None):
                self.assertEqual(loop["chunks"], CHUNKS[mode], loop)
        # Not told where the main thread lacked a processor for long, as on a busy machine.
        if mode in ADVICE and (report["ranks"][0]["runnable_s"] or 0) < 0.1 * own["wait_s"]:
            finding, = [finding for finding in report["findings"] if finding["kind"] == "openmp_imbalance"]
            self.assertIn(finding["action"], ADVICE[mode], finding)
        if mode in UNEVEN:
            # What the rank has outside main(), where the program measures, has hardly a sample: the lines share it.
            seen_s = sum(line["time_s"] for line in openmp["serial"] if line["function"] in SERIAL)
            rank, = openmp["ranks"]
            outside_s = rank["region_s"] + rank["serial_s"] - own["all_s"]
            self.measured_above(seen_s, 0.95 * own["serial_s"], f"{what}: serial")
            self.measured_below(seen_s, 1.05 * own["serial_s"] + outside_s, f"{what}: serial")
            if threads == 2:
                # By the program's clock: a thread that loses its processor for long has the longer work.
                shorter_s, longer_s = sorted(own["work_of_s"])
                if longer_s > 1.1 * shorter_s:
                    self.assertEqual(max(row["by_thread"], key=lambda thread: thread["work_s"])["number"],
                                     own["work_of_s"].index(longer_s))
                # Not told where the main thread lacked a processor for long, as on a busy machine.
                if (report["ranks"][0]["runnable_s"] or 0) < 0.1 * own["wait_s"]:
                    self.assertIn("openmp_imbalance", [finding["kind"] for finding in report["findings"]])
        # Outlined bodies are the function that they were written in, and the workers' stacks are below its callers.
        names = {function["name"] for function in report["functions"]}
        self.assertFalse([name for name in names if "_omp_fn" in name or "omp_outlined" in name], names)
        if threads > 1 and mode != "small":
            main, = [function for function in report["functions"] if function["name"] == "main"]
            outermost_s = sum(row["time_s"] for row in openmp["regions"] if row["level"] == 0)
            # A worker that has no processor is seen nowhere: what it ran.
            self.measured_above(main["total_s"], 0.9 * (outermost_s + own["workers_cpu_s"]), f"{what}: below main")

    def check_small_regions(self):
        # Each region waits for a thread, which on a busy machine waits for a processor.
        out, report = self.run_recorded([self.program(), "small"], timeout=600)
        row, = [row for row in report["openmp"]["regions"] if row["line"] == LINES["small"]]
        self.assertEqual(row["count"], json.loads(out)["count"])
        self.assertIn("openmp_small_regions", [finding["kind"] for finding in report["findings"]])


class OpenMpGcc(Modes):
    name = "gcc"


class OpenMpClang(Modes):
    name = "clang"


# How many threads tells something only where one of them does all, or where they share processors in waits of each kind. Which
# thread of more than there are processors has the ordered section next is the kernel's choice in the midst of the run time's call.
THREADS = {"fast_main": (1, 2), "fast_worker": (2, 4), "barriers": (1, 2, 4), "tasks": (1, 2, 4), "critical": (2, 4)}

for class_ in (OpenMpGcc, OpenMpClang):
    for mode_ in (*UNEVEN, "static", "dynamic", "coarse", "guided", "barriers", "tasks", "critical", "locks", "ordered", "single"):
        for threads_ in THREADS.get(mode_, (2,)):
            setattr(class_, f"test_{mode_}_{threads_}", lambda self, mode=mode_, threads=threads_: self.check(mode, threads))
    class_.test_nested = lambda self: self.check("nested", 4)
    class_.test_small_regions = lambda self: self.check_small_regions()


class Fortran(OpenMpTest):
    def check(self, threads):
        source = os.path.join(truth.PROGRAMS, "openmp.f90")
        lines = lines_of(source, "! line of ")
        out, report = self.run_recorded([self.compiled(["gfortran"], source), ], threads)
        own, openmp = json.loads(out), report["openmp"]
        row, = [row for row in openmp["regions"] if row["line"] == lines["fortran"]]
        self.assertEqual((row["count"], row["threads"]), (own["count"], own["threads"]))
        self.compare(f"Fortran, {threads} threads", own, row, 0.005 if threads <= 2 else 0.02)
        self.assertFalse([function["name"] for function in report["functions"] if "_omp_fn" in function["name"]])

    def test_1(self):
        self.check(1)

    def test_2(self):
        self.check(2)

    def test_4(self):
        self.check(4)


class Hybrid(OpenMpTest):
    """Two ranks of two threads, with unequal work of ranks and of threads, a critical section and serial parts (programs/hybrid.c)."""

    def check(self, compiler):
        source = os.path.join(truth.PROGRAMS, "hybrid.c")
        lines = lines_of(source)
        program = self.compiled([compiler], source)
        flavour = compiler.split(".")[1]
        # Threads that wait actively would keep processors from the ranks.
        done = self.record([program], before=[*two_processors(), *recording.launcher(flavour, 2)],
                           env=dict(os.environ, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive"))
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        own, report = json.loads(done.stdout), self.report()
        openmp = report["openmp"]
        for name in ("uneven", "brief"):
            row, = [row for row in openmp["regions"] if row["line"] == lines[name]]
            self.assertEqual([rank["rank"] for rank in row["by_rank"]], [0, 1])
            for rank, of_rank in enumerate(row["by_rank"]):
                said, what = own[rank][name], f"{compiler}, {name}, rank {rank}"
                self.assertEqual((of_rank["count"], of_rank["threads"]), (said["count"], said["threads"]))
                self.compare(what, said, of_rank, 0.005)
                slack_s = 0.005 * said["time_s"] * said["threads"]
                for key, said_s in (("serial_s", said["serial_s"]), ("schedule_s", said["begin_s"])):
                    self.measured_near(of_rank[key], said_s, max(0.03 * said_s, slack_s), f"{what}: {key}")
                self.near_share(of_rank["load_balance"], 1 - (said["wait_s"] - said["serial_s"]) / (said["work_s"] + said["wait_s"]), what)
                self.near_share(of_rank["serialization"], said["work_s"] / (said["work_s"] + said["serial_s"]), what)
        uneven, = [row for row in openmp["regions"] if row["line"] == lines["uneven"]]
        critical, = [construct for construct in uneven["constructs"] if construct["kind"] == "critical"]
        self.assertEqual(critical["line"], lines["section"])

        def sum_of(key, *names):
            return sum(rank[name][key] for rank in own for name in names or ("uneven", "brief"))

        outside_s = sum(rank["outside_s"] for rank in own)
        work_s, serial_s = sum_of("work_s") + outside_s, sum_of("serial_s") + outside_s  # one more thread, that has nothing to do
        imbalance_s, begin_s = sum_of("wait_s") - sum_of("serial_s"), sum_of("begin_s")
        threads = openmp["efficiency"]
        self.near_share(threads["serialization"], work_s / (work_s + serial_s), "serialization")
        self.near_share(threads["load_balance"], (work_s + serial_s) / (work_s + serial_s + imbalance_s), "load balance of threads")
        self.near_share(threads["scheduling"], 1 - begin_s / (work_s + serial_s + imbalance_s + begin_s), "scheduling")
        self.near_share(threads["parallel"], work_s / (work_s + serial_s + imbalance_s + begin_s), "OpenMP")
        ranks = report["efficiency"]
        said = balance_of([rank["useful_s"] for rank in own])
        # Of a rank that lacked a processor, the kernel says for how long, but not on which side of a barrier: at the most all of that
        # counts on the other side. Together the sides are as exact as all else.
        sides = [[rank["useful_s"] - rank["without_mpi_s"], rank["useful_s"] + rank["without_s"]] for rank in own]
        doubt = max(abs(balance_of(useful_s) - said) for useful_s in itertools.product(*sides))
        self.measured_near(ranks["load_balance"], said, 0.03 * said + doubt, "load balance of ranks")
        for rank, row in zip(own, report["ranks"]):
            both_s = rank["useful_s"] + rank["without_s"]
            self.measured_near(row["useful_s"] + (row["runnable_s"] or 0), both_s, 0.03 * both_s + AROUND_S + rank["started_s"],
                               f"rank {row['rank']} outside MPI")
        self.assertAlmostEqual(openmp["hybrid"]["parallel"], ranks["parallel"] * threads["parallel"], delta=1e-6)

    def near_share(self, seen, said, what):
        self.measured_near(seen, said, 0.03 * said, what)

    def test_openmpi(self):
        self.check("mpicc.openmpi")

    def test_mpich(self):
        self.check("mpicc.mpich")


class OverTime(OpenMpTest):
    """Phases of 2 s and more in which the threads, or the ranks, lose time in another way (programs/openmp_phases.c). Well inside each, the
    efficiencies over time are those of the phase, and the times of all parts of the run add up to those of the run."""

    # How long before and after a phase its neighbours are seen: the collector looks at least every 0.3 s.
    EDGE_S = 0.45
    KEYS = ("work_s", "imbalance_s", "schedule_s", "serialization_s")

    def inside(self, parts, phase, phases, report):
        """The parts of the run that are in the phase wherever between the run's begin and its end the program's time is."""
        begun_late_s = report["run"]["elapsed_s"] - max(phase["end_s"] for phase in phases.values())
        return [part for part in parts
                if part["begin_s"] > phase["begin_s"] + begun_late_s + self.EDGE_S and part["end_s"] < phase["end_s"] - self.EDGE_S]

    def check(self, compiler, *options, launcher=()):
        source = os.path.join(truth.PROGRAMS, "openmp_phases.c")
        program = self.compiled(compiler, source, *options)
        done = self.record([program], before=[*two_processors(), *launcher],
                           env=dict(os.environ, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive"))
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        phases, report = json.loads(done.stdout), self.report()
        openmp = report["openmp"]
        for key in self.KEYS:
            self.assertAlmostEqual(sum(part[key] for part in openmp["over_time"]), openmp[key], delta=1e-6, msg=key)
        for name, phase in phases.items():
            parts = self.inside(openmp["over_time"], phase, phases, report)
            self.measured_above(len(parts), 2, f"{name}: parts of the run inside it, {phase}")
            work_s, imbalance_s, schedule_s, serialization_s = (sum(part[key] for part in parts) for key in self.KEYS)
            said_work_s, said_serial_s = phase["work_s"] + phase["outside_s"], phase["outside_s"]  # one more thread, without work
            present_s = said_work_s + said_serial_s + phase["wait_s"]
            all_s = work_s + imbalance_s + schedule_s + serialization_s
            for what, seen, said in (
                    ("serialization", work_s / (work_s + serialization_s), said_work_s / (said_work_s + said_serial_s)),
                    ("load balance", 1 - imbalance_s / (work_s + serialization_s + imbalance_s), 1 - phase["wait_s"] / present_s),
                    ("scheduling", 1 - schedule_s / all_s, present_s / (present_s + phase["schedule_s"])),
                    ("parallel", work_s / all_s, said_work_s / (present_s + phase["schedule_s"]))):
                self.measured_near(seen, said, 0.04, f"{name}: {what}")
        return phases, report

    def test_gcc(self):
        self.check(["gcc"])

    def test_clang(self):
        self.check(["clang"])

    def check_hybrid(self, compiler):
        launcher = recording.launcher(compiler.split(".")[1], 2)
        phases, report = self.check([compiler], "-DWITH_MPI", launcher=launcher)
        windows = {window["begin_s"]: window for window in report["efficiency_windows"]}
        for part in report["openmp"]["over_time"]:
            hybrid = part["hybrid"]
            if hybrid["mpi"] is None:
                self.assertIsNone(hybrid["parallel"])
                continue
            window = windows[part["begin_s"]]
            self.assertEqual((hybrid["mpi"], hybrid["openmp"], hybrid["parallel"]),
                             (window["parallel"], window["openmp_parallel"], window["hybrid_parallel"]))
            self.assertAlmostEqual(hybrid["parallel"], hybrid["mpi"] * hybrid["openmp"], delta=1e-6)
        # Only here does one rank wait for the other. The time that ranks are ready without a processor, which the program cannot tell
        # from work, is no useful time.
        phase = phases["ranks"]
        inside = [window["parallel"] for window in self.inside(report["efficiency_windows"], phase, phases, report)]
        self.measured_above(len(inside), 2, f"parts of the run, {phase}")
        self.measured_near(sum(inside) / len(inside), 1 - phase["mpi_s"] / (2 * (phase["end_s"] - phase["begin_s"])), 0.1, "MPI")

    def test_openmpi(self):
        self.check_hybrid("mpicc.openmpi")

    def test_mpich(self):
        self.check_hybrid("mpicc.mpich")


class Programs(OpenMpTest):
    LIBRARY = textwrap.dedent("""\
        #include <omp.h>
        double sums(long n) {
          double sum = 0;
        #pragma omp parallel for reduction(+ : sum)
          for (long i = 1; i < n; ++i) sum += 1.0 / (double)i;
          return sum;
        }
        """)

    def library(self, compiler, name):
        self.need(compiler)
        source = os.path.join(self.directory, name + ".c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(self.LIBRARY.replace("sums", name))
        path = os.path.join(self.directory, f"lib{name}.so")
        done = subprocess.run([compiler, "-O2", "-g", "-fopenmp", "-shared", "-fPIC", source, "-o", path], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"{compiler} has no OpenMP: {done.stderr[:200]}")
        return path

    def script(self, text):
        path = os.path.join(self.directory, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def test_one_processor(self):
        taskset = two_processors()
        done = self.record([self.compiled(["gcc"]), "fast_main"], before=[*taskset[:2], taskset[2].split(",")[0]],
                           env=dict(os.environ, OMP_NUM_THREADS="2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        findings = self.report()["findings"]
        told = [kind for finding in findings for kind in (finding["kind"], *(joined["kind"] for joined in finding["joined"]))]
        self.assertIn("openmp_one_processor", told)

    def test_python_line(self):
        script = self.script(f"""\
            import ctypes
            sums = ctypes.CDLL({self.library("gcc", "sums")!r}).sums
            sums.restype = ctypes.c_double
            def work():
                for _ in range(20):
                    sums(20_000_000)
            work()
            """)
        _, report = self.run_recorded([recording.PYTHON, script])
        row, = report["openmp"]["regions"]
        self.assertEqual(row["count"], 20)
        work, = [function for function in report["functions"] if function["name"] == "work"]
        self.measured_above(work["total_s"], 0.9 * self.below_caller_s([row]), "both threads are below the Python function")

    def openblas(self):
        """OpenBLAS with OpenMP: of Debian's libopenblas0-openmp, or in CLUSTERPROF_TEST_OPENBLAS."""
        found = [os.environ[OPENBLAS]] if OPENBLAS in os.environ else sorted(glob.glob("/usr/lib/*/openblas-openmp/libopenblas.so.0"))
        if not found:
            self.skipTest(f"libopenblas0-openmp is not installed, and {OPENBLAS} names no library")
        return found[0]

    def multiply(self, threads, calls):
        script = self.script(f"""\
            import ctypes
            blas = ctypes.CDLL({self.openblas()!r})
            size = 800
            a, b, c = ((ctypes.c_double * size ** 2)() for _ in range(3))
            def multiply():
                blas.cblas_dgemm(101, 111, 111, size, size, size, ctypes.c_double(1), a, size, b, size, ctypes.c_double(0), c, size)
            def work():
                for _ in range({calls}):
                    multiply()
            work()
            """)
        return self.run_recorded([recording.PYTHON, script], threads)[1]

    def test_blas(self):
        report = self.multiply(2, 40)
        rank, = report["openmp"]["ranks"]
        self.assertEqual((rank["recorded_by"], rank["threads"]), ("gomp", 2))
        rows = report["openmp"]["regions"]
        self.assertGreaterEqual(sum(row["count"] for row in rows), 40)
        work, = [function for function in report["functions"] if function["name"] == "multiply"]
        self.measured_above(work["total_s"], 0.9 * self.below_caller_s(rows), "both threads are below the Python function")

    def test_blas_with_too_many_threads(self):
        report = self.multiply(8, 40)
        found = [*report["findings"], *(joined for finding in report["findings"] for joined in finding["joined"])]
        finding, = [finding for finding in found if finding["kind"] == "openmp_threads"]
        self.assertEqual(finding["action"], "fewer_threads")
        evidence = finding["evidence"]
        self.assertEqual((evidence["threads"], len(evidence["processors"]), evidence["pool_set_by"], evidence["pool_size"]),
                         (8, 2, "OMP_NUM_THREADS", 2))

    def test_numba(self):
        python = os.environ.get(NUMBA, recording.PYTHON)
        if subprocess.run([python, "-c", "import numba.np.ufunc.omppool"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest(f"no numba with OpenMP, and {NUMBA} names no Python that has it")
        script = self.script("""\
            import numba
            @numba.njit(parallel=True, fastmath=True)
            def sums(n):
                total = 0.0
                for i in numba.prange(1, n):
                    total += 1.0 / i
                return total
            def work():
                for _ in range(20):
                    sums(50_000_000)
            sums(100)
            work()
            """)
        _, report = self.run_recorded([python, script], env={"NUMBA_THREADING_LAYER": "omp", "NUMBA_NUM_THREADS": "2"})
        rank, = report["openmp"]["ranks"]
        self.assertIn(rank["recorded_by"], ("gomp", "ompt"))
        rows = report["openmp"]["regions"]
        self.assertGreaterEqual(sum(row["count"] for row in rows), 20)
        work, = [function for function in report["functions"] if function["name"] == "work"]
        self.measured_above(work["total_s"], 0.8 * self.below_caller_s(rows), "both threads are below the Python function")

    def check_hydro(self, name):
        """Every loop of a code in the shape of LULESH has its function and line, its time, and its threads below the phase that calls it."""
        source = os.path.join(truth.PROGRAMS, "hydro.c")
        lines = lines_of(source)
        out, report = self.run_recorded([self.compiled(COMPILERS[name][1], source)])
        own = json.loads(out)
        rows = {row["function"]: row for row in report["openmp"]["regions"]}
        self.assertEqual(set(rows), set(lines))
        for function, line in lines.items():
            row = rows[function]
            self.assertEqual((row["line"], row["count"], row["threads"]), (line, own["count"], 2))
            self.measured_near(row["time_s"], own[function], 0.03 * own[function] + 0.001, f"{name}, {function}")
        totals = {function["name"]: function["total_s"] for function in report["functions"]}
        for phase, loops in (("lagrange_nodal", ("calc_forces", "move_nodes")), ("lagrange_elements", ("calc_volumes", "find_step"))):
            self.assertGreaterEqual(totals[phase], sum(totals[loop] for loop in loops) - 1e-5, f"{name}: all threads are below {phase}")
        self.measured_above(totals["main"], 0.85 * self.below_caller_s(rows.values()), f"{name}: both threads are below main")

    def test_hydro_gcc(self):
        self.check_hydro("gcc")

    def test_hydro_clang(self):
        self.check_hydro("clang")

    def test_two_run_times(self):
        script = self.script(f"""\
            import ctypes
            for path, name in (({self.library("gcc", "one")!r}, "one"), ({self.library("clang", "two")!r}, "two")):
                function = getattr(ctypes.CDLL(path), name)
                function.restype = ctypes.c_double
                for _ in range(5):
                    function(20_000_000)
            """)
        _, report = self.run_recorded([recording.PYTHON, script])
        rank, = report["openmp"]["ranks"]
        self.assertTrue(rank["other_runtime"], rank)
        self.assertEqual(len(report["openmp"]["regions"]), 1)

    def test_fork_and_exec(self):
        library = self.library("gcc", "sums")
        script = self.script(f"""\
            import ctypes, os, sys
            sums = ctypes.CDLL({library!r}).sums
            sums.restype = ctypes.c_double
            sums(20_000_000)
            if len(sys.argv) == 1:
                child = os.fork()
                if child == 0:
                    os.execv(sys.executable, [sys.executable, __file__, "again"])
                assert os.waitpid(child, 0)[1] == 0
            sums(20_000_000)
            """)
        _, report = self.run_recorded([recording.PYTHON, script])
        self.assertEqual(sum(row["count"] for row in report["openmp"]["regions"]), 4)

    def test_a_run_time_that_tells_chunks(self):
        """As newer versions of LLVM's do (openmp_chunks.c stands for one): schedules, chunks and iterations of each loop are exact."""
        self.need("gcc")
        program = os.path.join(self.directory, "openmp_chunks")
        subprocess.run(["gcc", "-O1", "-g", "-pthread", os.path.join(truth.PROGRAMS, "openmp_chunks.c"), "-o", program, "-ldl"], check=True)
        out, report = self.run_recorded([program])
        self.assertEqual(report["openmp"]["ranks"][0]["recorded_by"], "ompt")
        row, = report["openmp"]["regions"]
        self.assertEqual((row["function"], row["count"], row["threads"]), ("region", 5, 2))
        loops = {loop["function"]: [loop["schedules"], loop["chunks"], loop["iterations"]] for loop in row["constructs"]}
        self.assertEqual(loops, json.loads(out))

    def check_pauses(self, name):
        """A region is not counted where recording was paused. Its threads are followed: recording may go on within it."""
        source = os.path.join(truth.PROGRAMS, "openmp_pauses.c")
        out, report = self.run_recorded([self.compiled(COMPILERS[name][1], source, "-I" + recording.SOURCE)])
        own = json.loads(out)
        counts = {row["function"]: row["count"] for row in report["openmp"]["regions"]}
        self.assertEqual({function: count for function, count in counts.items() if count != 0}, {"counted": own["counted"]})
        totals = {function["name"]: function["total_s"] for function in report["functions"]}
        self.measured_above(totals["main"], 0.85 * own["stretches_s"], f"{name}: both threads are below main after a pause")

    def test_pauses_gcc(self):
        self.check_pauses("gcc")

    def test_pauses_clang(self):
        self.check_pauses("clang")

    def test_jumps(self):
        """Regions that the program has left by a jump are over when it begins one further out."""
        out, report = self.run_recorded([self.compiled(["gcc"], os.path.join(truth.PROGRAMS, "openmp_jumps.c"))])
        rows = [(row["function"], row["level"], row["count"]) for row in report["openmp"]["regions"]]
        self.assertEqual(rows, [("counted", 0, json.loads(out)["counted"])])

    def test_without_a_run_time(self):
        """One thread does everything where no run time is found, and there is nothing to record."""
        self.need("gcc")
        source, path = os.path.join(self.directory, "alone.c"), os.path.join(self.directory, "libalone.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent("""\
                int loops(void) {
                  int sum = 0;
                #pragma omp parallel for schedule(dynamic, 3) reduction(+ : sum)
                  for (int i = 0; i < 100; ++i) sum += i;
                #pragma omp parallel
                #pragma omp for schedule(guided)
                  for (unsigned long long i = 100; i > 0; --i) sum += (int)i;
                #pragma omp parallel for schedule(dynamic)
                  for (int i = 5; i < 5; ++i) sum += 1000;
                  return sum;
                }
                int sections(void) {
                  int done = 0;
                #pragma omp parallel sections
                  {
                    done += 1;
                #pragma omp section
                    {
                #pragma omp parallel for schedule(dynamic)
                      for (int i = 0; i < 10; ++i) done += 100;
                    }
                #pragma omp section
                    done += 10;
                  }
                #pragma omp parallel
                #pragma omp single
                  done += 10000;
                  return done;
                }
                int tasks(int first) {
                  int sum = 0;
                #pragma omp parallel
                #pragma omp single
                  {
                #pragma omp task shared(sum) firstprivate(first)
                    sum += first;
                #pragma omp taskwait
                #pragma omp taskloop shared(sum) nogroup
                    for (int i = 0; i < 10; ++i) sum += i;
                  }
                  return sum;
                }
                """))
        for command in (["-fopenmp", "-c", source, "-o", path + ".o"], ["-shared", path + ".o", "-o", path]):
            subprocess.run(["gcc", "-O2", "-fPIC", *command], check=True)
        script = self.script(f"""\
            import ctypes
            alone = ctypes.CDLL({path!r})
            print(alone.loops(), alone.sections(), alone.tasks(3))
            """)
        out, report = self.run_recorded([recording.PYTHON, script])
        self.assertEqual(out.split(), [str(4950 + 5050).encode(), b"11011", str(3 + 45).encode()])
        self.assertIsNone(report["openmp"])

    def test_without_debug_information(self):
        program = self.compiled(["gcc"], SOURCE, "-s")
        out, report = self.run_recorded([program, "fast_main"])
        rows = report["openmp"]["regions"]
        self.assertEqual(sum(row["count"] for row in rows), json.loads(out)["count"])

    def test_a_tool_of_the_users(self):
        """It is asked as without us, and OpenMP is not recorded."""
        program = self.compiled(["clang"])
        source = os.path.join(self.directory, "tool.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent("""\
                #include <omp-tools.h>
                #include <stdio.h>
                static int begin(ompt_function_lookup_t lookup, int device, ompt_data_t* data) {
                  (void)lookup, (void)device, (void)data;
                  fprintf(stderr, "the user's tool\\n");
                  return 1;
                }
                static void end(ompt_data_t* data) { (void)data; }
                ompt_start_tool_result_t* ompt_start_tool(unsigned version, const char* runtime) {
                  static ompt_start_tool_result_t result = {begin, end, {0}};
                  (void)version, (void)runtime;
                  return &result;
                }
                """))
        tool = os.path.join(self.directory, "libtool.so")
        done = subprocess.run(["clang", "-fopenmp", "-shared", "-fPIC", source, "-o", tool], capture_output=True)
        if done.returncode != 0:
            self.skipTest("clang has no omp-tools.h")
        for variable in ("OMP_TOOL_LIBRARIES", "LD_PRELOAD"):
            with self.subTest(variable=variable):
                done = self.record([program, "fast_main"], env=dict(os.environ, OMP_NUM_THREADS="2", **{variable: tool}),
                                   run=variable)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stderr.count(b"the user's tool"), 1, done.stderr)
                self.assertEqual(self.report(variable)["openmp"]["ranks"][0]["recorded_by"], "other_tool")


if __name__ == "__main__":
    recording.main()
