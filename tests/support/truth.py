"""Functions that the tests in tests/truth share: they record a program that itself prints what its profile has to say,
and compare the two.

CLUSTERPROF_TRUTH_SECONDS   how long every program runs, instead of the shorter times of the tests
CLUSTERPROF_TRUTH_PYTHONS   versions (3.8.18,system) to be tested, instead of all
CLUSTERPROF_TRUTH_FIGURES   a file to which every comparison is appended as a line of JSON
"""

import ast
import json
import os

import recording

try:
    import call_paths
except ImportError:
    call_paths = None

PROGRAMS = os.path.join(recording.SOURCE, "tests", "truth", "programs")
POINTS = 0.02  # the tolerance of a share, unless a test states another one


def pythons():
    chosen = os.environ.get("CLUSTERPROF_TRUTH_PYTHONS")
    return [found for found in recording.pythons() if not chosen or found[0] in chosen.split(",")]


def seconds(version, full, short):
    """Debian's Python and the newest one are recorded for longer than the others."""
    released = [found for found, _ in recording.pythons() if found != "system"]
    newest = max(released, key=lambda found: [int(part) for part in found.split(".")], default="system")
    is_full = version in ("system", newest)
    return os.environ.get("CLUSTERPROF_TRUTH_SECONDS", str(full if is_full else short))


def marked_lines(program, prefix):
    """{line: what stands behind `# prefix:` at its end} of a program."""
    with open(os.path.join(PROGRAMS, program)) as file:
        found = {number: line.rpartition(f"# {prefix}: ") for number, line in enumerate(file, 1)}
    return {number: mark.strip() for number, (_, is_marked, mark) in found.items() if is_marked}


class CallRules:
    """The call paths that a program can have: its lines say in `# calls:` which functions they call. With
    `# called from: anywhere` behind its `def` a function can come below any line (__del__)."""

    def __init__(self, program):
        """`program`: a file of tests/truth/programs, or the path of another one."""
        self.program = os.path.basename(program)
        self.callees = {line: set(names.split()) for line, names in marked_lines(program, "calls").items()}
        from_anywhere = marked_lines(program, "called from")
        self.lines, self.from_anywhere = {}, set()
        with open(os.path.join(PROGRAMS, program)) as file:
            for node in ast.walk(ast.parse(file.read())):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                    self.lines.setdefault(node.name, set()).update(range(first, node.end_lineno + 1))
                    if from_anywhere.get(node.lineno) == "anywhere":
                        self.from_anywhere.add(node.name)

    def fault(self, frames):
        """Says why these frames of the program, outermost first, cannot be part of a call path; None if they can."""
        for frame in frames:
            if frame.name == "<module>":
                if frame is not frames[0]:
                    return "<module> was called"
                continue
            if frame.name not in ("<listcomp>", "<genexpr>") and frame.line not in self.lines.get(frame.name, ()):
                return f"{frame.name} at line {frame.line}"
        for caller, callee in zip(frames, frames[1:]):
            if callee.name not in self.callees.get(caller.line, ()) and callee.name not in self.from_anywhere:
                return f"{caller.name} at line {caller.line} called {callee.name}"
        return None

    def judge(self, paths):
        """{why: samples} of the call paths that cannot be; the samples that lack their beginning; all samples of the
        program."""
        faults, cut, samples = {}, 0, 0
        for path in paths:
            frames = [frame for frame in path.frames if frame.file == self.program]
            if frames:
                samples += path.samples
                cut += path.samples if frames[0].name != "<module>" else 0
                fault = self.fault(frames)
                if fault is not None:
                    faults[fault] = faults.get(fault, 0) + path.samples
        return faults, cut, samples


class TruthTest(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        if call_paths is None:
            self.skipTest("/usr/bin/python3 has no h5py")

    def figure(self, **values):
        path = os.environ.get("CLUSTERPROF_TRUTH_FIGURES")
        if path:
            with open(path, "a") as file:
                file.write(json.dumps(dict(test=type(self).__name__, attempt=self.attempt, **values)) + "\n")

    def recorded_truth(self, command, seconds_, options, **more):
        """Records `command seconds_`, which prints JSON at its end: returns that, the report, the call paths."""
        done = self.record([*command, seconds_], options=options, timeout=120 + 3 * float(seconds_), **more)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        report = self.report()
        return json.loads(done.stdout), report, call_paths.read(os.path.join(self.directory, "run", "profile.h5"))

    def quality(self):
        return call_paths.quality(os.path.join(self.directory, "run", "profile.h5"))

    def compare(self, version, what, expected, seen, tolerance=POINTS):
        """Compares a share (or a ratio) in the profile with the one by the program's own clock."""
        self.figure(python=version, what=what, expected=expected, seen=seen, tolerance=tolerance)
        with self.subTest(python=version, what=what):
            self.measured_near(seen, expected, tolerance, what)

    def compare_shares(self, version, what, own_s, seen_s, tolerance=POINTS, tolerance_all=0.03):
        """Compares each part's share of the sum of all parts, and that sum."""
        own, seen = sum(own_s.values()), sum(seen_s.values())
        for part in own_s:
            self.compare(version, f"{what}: {part}", own_s[part] / own, seen_s[part] / seen, tolerance)
        self.compare(version, f"{what}: all of it", 1.0, seen / own, tolerance_all)


def per_python(test, check):
    """Adds a test method for every Python: check(self, version, path)."""
    for version, python in pythons():
        setattr(test, "test_" + version.replace(".", "_"),
                lambda self, version=version, python=python: check(self, version, python))
