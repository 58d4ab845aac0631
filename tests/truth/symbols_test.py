"""Names of compiled code: functions, source lines and inlined functions in the report of real runs, for every
language and kind of debug information that the tools of this machine can make."""

import os
import re
import subprocess
import sysconfig

import call_paths
import recording

SOURCES = os.path.join(recording.SOURCE, "tests", "truth", "symbols")


def source(name):
    return os.path.join(SOURCES, name)


def line_of(name, text):
    """The number of the line of a source file that contains `text`."""
    with open(source(name)) as file:
        (number,) = [i for i, line in enumerate(file, 1) if text in line]
    return number


class SymbolsTest(recording.RecordingTest):
    def run_tool(self, *command, **options):
        done = self.bare([str(part) for part in command], **options)
        self.assertEqual(done.returncode, 0, done.stdout.decode() + done.stderr.decode())
        return done.stdout.decode()

    def path(self, name):
        return os.path.join(self.directory, name)

    def profile(self, command, rate=500, run="run", **how):
        done = self.record(command, options=["-r", str(rate), "-q"], run=run, **how)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        self.output = done.stdout.decode()
        return self.report(run, ["--all-frames"])

    def functions_of(self, report, module):
        return {f["name"]: f for f in report["functions"] if (f["module"] or "").endswith(module)}

    def self_s(self, report, function, time="self_s"):
        return sum(f[time] for f in report["functions"] if f["name"] == function)

    def line_s(self, report, file, line, time="self_s"):
        return sum(row[time] for row in report["lines"]
                   if row["line"] == line and os.path.basename(row["file"]) == os.path.basename(file))

    def build_hot(self, *flags, linked=()):
        self.run_tool("g++", "-std=c++20", "-O2", *flags, "-c", source("hot.cpp"), "-o", "hot.o")
        self.run_tool("g++", "-O2", *flags, "hot.o", "-o", "hot", *linked)
        return self.path("hot")

    FIRST = "(anonymous namespace)::first"
    SECOND = "(anonymous namespace)::second"
    SWEEP = "(anonymous namespace)::Grid<long int>::sweep"

    def check_split(self, program, seconds=2):
        """Functions and lines of the two inlined functions share the CPU time as the program itself says."""
        report = self.profile([program, str(seconds)], rate=1000)
        truth = float(self.output)
        self.measured_near(truth, 0.7, 0.1, "share by the program")
        for name, first, second in (
                ("functions", self.self_s(report, self.FIRST, "cpu_s"), self.self_s(report, self.SECOND, "cpu_s")),
                ("lines", self.line_s(report, "hot.cpp", line_of("hot.cpp", "line of first"), "cpu_s"),
                 self.line_s(report, "hot.cpp", line_of("hot.cpp", "line of second"), "cpu_s"))):
            self.measured_above(first + second, 0.8 * seconds, f"{name}: {report[name][:6]}")
            self.measured_near(first / (first + second), truth, 0.03, name)
        # They are called from the function they are part of.
        sweep = self.function(report, self.SWEEP)
        self.measured_above(sweep["total_s"], 0.9 * seconds)
        self.measured_below(sweep["self_s"], 0.1 * sweep["total_s"])
        self.assertEqual(sweep["file"], source("hot.cpp"))

    def check_resolved(self, program, seconds=0.6):
        """As check_split without the shares: what a shorter run can show."""
        report = self.profile([program, str(seconds)])
        first = self.self_s(report, self.FIRST)
        second = self.self_s(report, self.SECOND)
        self.measured_above(first + second, 0.7 * seconds, report["functions"][:6])
        self.measured_above(first, second)
        self.measured_above(self.line_s(report, "hot.cpp", line_of("hot.cpp", "line of first")),
                           self.line_s(report, "hot.cpp", line_of("hot.cpp", "line of second")))
        self.measured_above(self.function(report, self.SWEEP)["total_s"], 0.7 * seconds)
        return report


class DebugInformation(SymbolsTest):
    def test_inlined_functions_share_the_time(self):
        self.check_split(self.build_hot("-g"))

    def test_link_time_optimisation(self):
        self.check_split(self.build_hot("-g", "-flto"))

    def test_split_debug_information(self):
        for version in ("4", "5"):
            with self.subTest(dwarf=version):
                program = self.build_hot("-g", "-gdwarf-" + version, "-gsplit-dwarf")
                self.assertTrue(os.path.exists(self.path("hot.dwo")))
                self.check_resolved_in(program, "split" + version)

    def check_resolved_in(self, program, run, seconds=0.6):
        report = self.profile([program, str(seconds)], run=run)
        first = self.self_s(report, self.FIRST)
        self.measured_above(first, self.self_s(report, self.SECOND), report["functions"][:6])
        self.measured_above(first, 0.4 * seconds)
        self.measured_above(self.function(report, self.SWEEP)["total_s"], 0.7 * seconds)
        return report

    def test_missing_split_debug_information_is_noted(self):
        program = self.build_hot("-g", "-gsplit-dwarf")
        os.remove(self.path("hot.dwo"))
        report = self.profile([program, "0.4"])
        # The skeleton has the lines, the symbol table the function around them.
        self.measured_above(self.line_s(report, "hot.cpp", line_of("hot.cpp", "line of first")), 0.1)
        self.measured_above(self.self_s(report, "(anonymous namespace)::Grid<long>::sweep(long)"), 0.3)
        dump = self.run_tool(recording.CLUSTERPROF, "report", self.path("run"))
        self.assertIn("hot.dwo", dump)

    def test_dwarf_versions_and_compression(self):
        for flags in (("-gdwarf-4",), ("-gdwarf-5",), ("-g", "-gz=zlib"), ("-gdwarf-4", "-gz=zlib-gnu")):
            with self.subTest(flags=flags):
                self.check_resolved_in(self.build_hot(*flags), "run" + "".join(flags))

    def test_clang(self):
        self.need("clang++")
        self.run_tool("clang++", "-std=c++20", "-O2", "-g", "-fno-unroll-loops", source("hot.cpp"), "-o", "hot")
        report = self.profile([self.path("hot"), "0.6"])
        first = [f for f in report["functions"] if f["name"].startswith(self.FIRST)]
        self.measured_above(sum(f["self_s"] for f in first), 0.25, report["functions"][:6])

    def test_debug_file_beside_the_program(self):
        for place in ("", ".debug"):
            with self.subTest(place=place):
                os.makedirs(self.path(place), exist_ok=True)
                program = self.build_hot("-g", "-Wl,--build-id=none")
                debug = os.path.join(place, "hot.debug")
                self.run_tool("objcopy", "--only-keep-debug", program, debug)
                self.run_tool("objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, program)
                self.check_resolved_in(program, "run" + place)
                os.remove(self.path(debug))

    def test_debug_file_by_build_id(self):
        program = self.build_hot("-g", "-Wl,--build-id=sha1")
        notes = self.run_tool("readelf", "-n", program)
        build_id = re.search(r"Build ID: ([0-9a-f]{40})", notes).group(1)
        folder = os.path.join("/usr/lib/debug/.build-id", build_id[:2])
        try:
            os.makedirs(folder, exist_ok=True)
            debug = os.path.join(folder, build_id[2:] + ".debug")
            self.addCleanup(lambda: os.path.exists(debug) and os.remove(debug))
            self.run_tool("objcopy", "--only-keep-debug", program, debug)
        except PermissionError:
            self.skipTest("/usr/lib/debug cannot be written by this user")
        self.run_tool("objcopy", "--strip-all", program)
        self.check_resolved_in(program, "run")

    def test_dwz(self):
        self.need("dwz")
        # Common entries go to a file of their own only when several files have them.
        program = self.build_hot("-gdwarf-4")
        os.rename(program, self.path("other"))
        program = self.build_hot("-gdwarf-4")
        self.run_tool("dwz", "-m", "common.debug", "-r", "hot", "other")
        self.assertIn(".gnu_debugaltlink", self.run_tool("readelf", "-SW", program))
        self.check_resolved(program)

    def test_only_a_symbol_table(self):
        program = self.build_hot()
        report = self.profile([program, "0.5"])
        sweep = self.function(report, "(anonymous namespace)::Grid<long>::sweep(long)")
        self.measured_above(sweep["self_s"], 0.35)
        self.assertFalse(sweep["file"])

    def test_small_debug_information(self):
        """.gnu_debugdata: a compressed symbol table, as Fedora has it."""
        self.need("xz")
        program = self.build_hot()
        self.run_tool("objcopy", "--only-keep-debug", program, "mini")
        self.run_tool("objcopy", "--remove-section=.comment", "mini")
        self.run_tool("xz", "-k", "mini")
        self.run_tool("objcopy", "--strip-all", program)
        self.run_tool("objcopy", "--add-section", ".gnu_debugdata=mini.xz", program)
        report = self.profile([program, "0.5"])
        self.measured_above(self.function(report, "(anonymous namespace)::Grid<long>::sweep(long)")["self_s"], 0.35)

    def test_stripped(self):
        program = self.build_hot()
        symbols = {name: int(value, 16) for value, _, name in
                   (row.split() for row in self.run_tool("nm", "--defined-only", program).splitlines())}
        self.run_tool("strip", "--strip-all", program)
        report = self.profile([program, "0.5"])
        names = self.functions_of(report, "/hot")
        self.assertTrue(names)
        self.assertEqual([n for n in names if not re.fullmatch(r"hot\+0x[0-9a-f]+", n)], [])
        (start,) = [value for name, value in symbols.items() if "sweep" in name]
        self.measured_above(names[f"hot+{start:#x}"]["self_s"], 0.35)
        self.measured_above(names[f"hot+{symbols['main']:#x}"]["total_s"], 0.35, "main")

    def test_nearest_symbol_is_not_taken_for_a_name(self):
        """Debian's python is stripped: its exported functions keep their names, no other function gets one. A copy with
        another build ID, since debug symbols may be installed for this one."""
        installed = os.path.realpath(recording.PYTHON)
        if ".symtab" in self.run_tool("readelf", "-SW", installed):
            self.skipTest(f"{installed} is not stripped")
        python = self.path(os.path.basename(installed))
        build_id = bytes.fromhex(re.search(r"Build ID: (\w+)", self.run_tool("readelf", "-n", installed))[1])
        with open(installed, "rb") as file:
            content = file.read()
        self.assertEqual(content.count(build_id), 1)
        with open(python, "wb") as file:
            file.write(content.replace(build_id, bytes(byte ^ 0xff for byte in build_id)))
        os.chmod(python, 0o755)
        exported = []  # (begin, end, name)
        for row in self.run_tool("nm", "-D", "-S", "--defined-only", python).splitlines():
            fields = row.split()
            if len(fields) == 4 and fields[2] in "TtWwi":
                exported.append((int(fields[0], 16), int(fields[0], 16) + int(fields[1], 16), fields[3].split("@")[0]))
        script = "import json\nx = [[i, str(i)] for i in range(2000)]\nfor _ in range(300): json.loads(json.dumps(x)); sorted(x, key=str)"
        report = self.profile([python, "-c", script], env=dict(os.environ, PYTHONHOME="/usr"))
        names = self.functions_of(report, "/" + os.path.basename(python))
        local = {n: f for n, f in names.items() if "+0x" in n}
        named = set(names) - set(local)
        self.assertTrue(local and named, names.keys())
        self.assertEqual(named - {name for _, _, name in exported} - {"garbage collection"}, set())
        for name in local:
            self.assertRegex(name, re.escape(os.path.basename(python)) + r"\+0x[0-9a-f]+$")
            address = int(name.split("+")[1], 16)
            self.assertEqual([s for s in exported if s[0] <= address < s[1]], [], name)


class Languages(SymbolsTest):
    def check_names(self, report, expected, module, share=0.03):
        found = self.functions_of(report, module)
        whole = sum(f["self_s"] for f in found.values())
        for name in expected:
            self.assertIn(name, found)
            # spin() is inlined into each of them, or their own.
            self.measured_above(found[name]["total_s"] / whole, share, name)

    def test_cxx(self):
        # Functions with the same instructions may be made one, which then has one name.
        self.run_tool("g++", "-std=c++20", "-O2", "-fno-ipa-icf", "-g", source("names.cpp"), "-o", "names")
        report = self.profile([self.path("names"), "1"])
        self.check_names(report, [
            "heat::Field::Field(int)", "heat::Field::~Field()", "heat::Field::operator+=(double)",
            "void heat::smooth<double, 3>(double)", "heat::(anonymous namespace)::hidden", "step", "c_function",
            f"main::{{lambda:{line_of('names.cpp', 'call([]')}}}::operator()", "main"], "/names")
        clones = self.run_tool("nm", "names")
        self.assertRegex(clones, r"step.*\.(constprop|isra)")  # the name of which is not shown
        self.assertEqual([f["name"] for f in report["functions"] if ".constprop" in f["name"] or ".isra" in f["name"]], [])

    def test_cxx_symbols_only(self):
        self.run_tool("g++", "-std=c++20", "-O2", "-fno-ipa-icf", source("names.cpp"), "-o", "names")
        report = self.profile([self.path("names"), "1"])
        self.check_names(report, [
            "heat::Field::Field(int)", "heat::Field::~Field()", "heat::Field::operator+=(double)",
            "void heat::smooth<double, 3>(double)", "heat::(anonymous namespace)::hidden()", "step(int, int)",
            "c_function", "main::{lambda()#1}::operator()() const", "main"], "/names")

    def test_fortran(self):
        self.need("gfortran")
        build = ("gfortran", "-O2", "-fno-inline", "-fopenmp", source("heat.f90"), "-o")
        self.run_tool(*build, "heat", "-g")
        report = self.profile([self.path("heat"), "2"])
        self.check_names(report, ["kernels::relax", "kernels::relax::shift", "kernels::scale", "heat"],
                         "/heat", share=0.1)
        for name, text in (("kernels::relax", "relax"), ("kernels::relax::shift", "shift"),
                           ("kernels::scale", "scale"), ("heat", "heat")):
            line = line_of("heat.f90", "line of " + text)
            on_it = sum(row["self_s"] for row in report["lines"]
                        if row["function"] == name and row["line"] in (line - 1, line))  # or the loop's
            self.measured_above(on_it / self.function(report, name)["self_s"], 0.8, name)
        self.run_tool(*build, "bare")
        report = self.profile([self.path("bare"), "1"], run="bare-run")
        self.check_names(report, ["kernels::relax", "kernels::scale", "MAIN__"], "/bare", share=0.1)

    def build_cython(self, *options):
        self.need("cython3")
        if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
            self.skipTest("Python.h is not here")
        self.run_tool("cp", source("heat.pyx"), ".")
        self.run_tool("cython3", *options, "heat.pyx")
        self.run_tool("gcc", "-O2", "-g", "-fno-inline", "-fPIC", "-shared", "-I", sysconfig.get_paths()["include"],
                      "heat.c", "-o", "heat" + sysconfig.get_config_var("EXT_SUFFIX"))
        environment = dict(os.environ, PYTHONPATH=self.directory)
        return self.profile([recording.PYTHON, "-c", "import heat; heat.run(2)"], env=environment)

    def test_cython(self):
        report = self.build_cython("--line-directives")
        module = "heat" + sysconfig.get_config_var("EXT_SUFFIX")
        self.check_names(report, ["heat.Grid.sweep", "heat.relax", "heat.step_all", "heat.run"], module, share=0.1)
        for function in ("sweep", "relax", "step_all"):
            line = line_of("heat.pyx", "line of " + function)
            near = self.line_s(report, "heat.pyx", line) + self.line_s(report, "heat.pyx", line - 1)
            self.measured_above(near, 0.3, function)  # the statement, and its loop

    def test_cython_without_line_directives(self):
        report = self.build_cython()
        module = "heat" + sysconfig.get_config_var("EXT_SUFFIX")
        self.check_names(report, ["heat.Grid.sweep", "heat.relax", "heat.step_all", "heat.run"], module, share=0.1)
        self.assertEqual({os.path.basename(f["file"]) for f in self.functions_of(report, module).values()
                          if f["name"].startswith("heat.")}, {"heat.c"})

    def test_rust(self):
        rustc = os.path.expanduser("~/.cargo/bin/rustc")
        if not os.path.exists(rustc):
            rustc = "rustc"
        self.need(rustc)
        forms = [("v0", "<heat::solver::Grid<f64> as heat::solver::Step>::step",
                  "heat::solver::each::<heat::main::{closure#0}>", "heat::main::{closure#0}"),
                 ("legacy", "<heat::solver::Grid<f64> as heat::solver::Step>::step",
                  "heat::solver::each", "heat::main::{{closure}}")]
        for mangling, step, each, closure in forms:
            for debug in ("-g", "-Cdebuginfo=0"):
                with self.subTest(mangling=mangling, debug=debug):
                    # The choice of the older form is not stable in newer compilers.
                    self.run_tool(rustc, "-O", debug, "-Zunstable-options", "-Csymbol-mangling-version=" + mangling,
                                  source("heat.rs"), "-o", "heat", env=dict(os.environ, RUSTC_BOOTSTRAP="1"))
                    report = self.profile([self.path("heat"), "1"], run=mangling + debug)
                    self.check_names(report, [step, each, "heat::main"], "/heat", share=0.15)
                    if debug == "-g":
                        self.check_names(report, [closure], "/heat", share=0.15)
                        self.measured_above(self.line_s(report, "heat.rs", line_of("heat.rs", "line of step"))
                                            + self.line_s(report, "heat.rs", line_of("heat.rs", "line of closure")), 0.1)


NUMBA_PROGRAM = """\
import sys
import time
import numba
import numpy

@numba.njit(debug=sys.argv[2] == "debug")
def kernel(a, times):
    total = 0.0
    for k in range(times):
        for i in range(a.size):
            total += a[i] * a[i]  # line of kernel
        total /= 1.000001
    return total

def call(a, seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        kernel(a, 2000)

array = numpy.ones(1000)
kernel(array, 1)
call(array, float(sys.argv[1]))
"""


class RunTimeCode(SymbolsTest):
    def build_jit(self):
        self.run_tool("gcc", "-O2", "-rdynamic", source("jit.c"), "-o", "jit")
        return self.path("jit")

    def record_jit(self, how, seconds=1):
        process = self.record([self.build_jit(), str(seconds), how], options=["-r", "500", "-q"], run=how)
        self.assertEqual(process.returncode, 0, process.stderr.decode())
        report = self.report(how)
        path = f"/tmp/perf-{report['ranks'][0]['pid']}.map"
        for left in (path, path + ".real"):
            if os.path.lexists(left):
                os.remove(left)
        return report

    def test_perf_map(self):
        report = self.record_jit("map")
        first = self.self_s(report, "jitted first loop", "cpu_s")
        second = self.self_s(report, "jitted second loop", "cpu_s")
        self.measured_above(first + second, 0.8)
        self.measured_near(first / (first + second), 0.7, 0.07, "share")
        self.assertEqual(self.self_s(report, "[unknown]"), 0)
        self.assertEqual(self.function(report, "jitted first loop")["module"], "[jit]")

    def test_reused_code_memory_has_no_name(self):
        report = self.record_jit("twice")
        self.assertEqual(self.self_s(report, "jitted first loop"), 0)
        self.assertEqual(self.self_s(report, "some other function"), 0)
        self.measured_above(self.self_s(report, "[unknown]"), 0.5)
        self.measured_above(self.self_s(report, "jitted second loop"), 0.15)

    def test_links_are_not_followed(self):
        report = self.record_jit("link")
        self.measured_above(self.self_s(report, "[unknown]"), 0.8)
        self.assertEqual([f["name"] for f in report["functions"] if f["name"].startswith("jitted")], [])

    def test_without_a_map(self):
        self.measured_above(self.self_s(self.record_jit("none"), "[unknown]"), 0.8)

    def test_described_for_debuggers(self):
        report = self.record_jit("described")
        first = self.self_s(report, "described_first_loop", "cpu_s")
        second = self.self_s(report, "described_second_loop", "cpu_s")
        self.measured_above(first + second, 0.8)
        self.measured_near(first / (first + second), 0.7, 0.07, "share")
        self.assertEqual(self.self_s(report, "[unknown]"), 0)
        self.assertEqual(self.function(report, "described_first_loop")["module"], "[jit]")
        # The loops have frame pointers, and are called by main().
        self.measured_above(self.function(report, "main")["total_s"], 0.8)

    def test_described_code_that_is_replaced(self):
        report = self.record_jit("replaced", seconds=3)
        # The program counts CPU time, of which it has had half when it replaces the code: in elapsed time either half may last longer.
        before = self.self_s(report, "described_first_loop", "cpu_s")
        after = self.self_s(report, "replaced_first_loop", "cpu_s")
        second = self.self_s(report, "described_second_loop", "cpu_s")
        self.measured_above(before + after + second, 2.4)
        # It is seen within a tenth of a second.
        self.measured_near(before / (before + after), 0.5, 0.12, "before")
        self.measured_near(second / (before + after + second), 0.3, 0.05, "second")

    def test_numba(self):
        python = "/usr/bin/python3"
        if subprocess.run([python, "-c", "import numba"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("numba is not installed")
        with open(self.path("jitted.py"), "w") as file:
            file.write(NUMBA_PROGRAM)
        for debug in (False, True):
            with self.subTest(debug=debug):
                run = "debug" if debug else "plain"
                report = self.profile([python, self.path("jitted.py"), "1.5", run], run=run)
                names = {f["name"]: f for f in report["functions"] if f["module"] == "[jit]"}
                jitted = sum(f["self_s"] for f in names.values())
                self.measured_above(jitted, 1.2, names)
                self.measured_below(self.self_s(report, "[unknown]"), 0.15)
                self.assertTrue(any("__main__::kernel" in name for name in names), names)
                self.assertFalse(any("[abi:" in name for name in names), names)
                # Below the Python function that calls it.
                below = sum(path.wall_s for path in call_paths.read(os.path.join(self.directory, run, "profile.h5"))
                            if path.frames and path.frames[-1].module == "[jit]" and "call" in path.names("jitted.py"))
                self.measured_above(below, 0.9 * jitted)
                if debug:
                    line = NUMBA_PROGRAM.splitlines().index("            total += a[i] * a[i]  # line of kernel") + 1
                    self.measured_above(sum(self.line_s(report, "jitted.py", line + i) for i in (-1, 0, 1)), 0.7)

    def test_python_trampolines(self):
        # Of CPython 3.12 and newer.
        ask = "import sys; sys.exit(not sys.is_stack_trampoline_active())"
        pythons = [(version, path) for version, path in recording.pythons()
                   if subprocess.run([path, "-X", "perf", "-c", ask], stderr=subprocess.DEVNULL).returncode == 0]
        if not pythons:
            self.skipTest("no CPython with -X perf is here")
        with open(self.path("work.py"), "w") as file:
            file.write("def work():\n    return sum(i * i for i in range(20000))\n"
                       "for _ in range(600): work()\n")
        for version, python in pythons:
            with self.subTest(python=version):
                report = self.profile([python, "-X", "perf", self.path("work.py")], run=version)
                path = f"/tmp/perf-{report['ranks'][0]['pid']}.map"
                self.assertTrue(os.path.exists(path))
                os.remove(path)
                self.assertIn("work", [f["name"] for f in report["functions"] if f["kind"] == "python"])
                # A Python function's trampoline is part of calling it; by itself it shows on its way into the loop only.
                shown = sum(f["total_s"] for f in report["functions"] if f["name"].startswith("py::"))
                self.measured_below(shown, 0.15 * self.function(report, "work")["total_s"])
                self.assertEqual(self.self_s(report, "[unknown]"), 0)


if __name__ == "__main__":
    recording.main()
