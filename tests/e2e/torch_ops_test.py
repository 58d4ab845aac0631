"""--torch-ops: PyTorch's operators and record_function are regions, counted exactly, and a backward operator has the line that called
its forward one. Fake: with a library that has libtorch's functions and objects, for machines without torch. Torch: with torch of
/usr/bin/python3, or of the command in TORCH_PYTHON."""

import collections
import json
import os
import shlex
import subprocess

import recording

PYTHON = shlex.split(os.environ.get("TORCH_PYTHON", recording.PYTHON))
PROGRAMS = os.path.join(recording.BUILD, "programs", "torch_ops")
OPERATORS = os.path.join(recording.SOURCE, "tests", "programs", "torch_operators.py")
TRAINING = os.path.join(recording.SOURCE, "tests", "programs", "torch_training.py")
LOST = ("region_mismatch", "region_table_full", "torch_forward_lost", "torch_other_thread", "damaged_region")


def regions(report):
    """(domain, name, file and line of the forward operator) -> count, of PyTorch's domains."""
    counts = collections.Counter()
    for row in report["regions"]:
        if row["domain"] in ("PyTorch", "record_function"):
            forward = row.get("forward")
            place = (os.path.basename(forward["file"]), forward["line"]) if forward else None
            counts[row["domain"], row["name"], place] += row["count"]
    return counts


class Fake(recording.RecordingTest):
    def run_with(self, release, scenario="all", options=("--torch-ops",), run="run"):
        library = os.path.join(PROGRAMS, release, "libtorch_cpu.so")
        done = self.record([recording.PYTHON, "-B", OPERATORS, library, scenario], options=["-q", *options], run=run)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return json.loads(done.stdout), self.report(run)

    def notes(self, report):
        return [note["code"] for note in report["run"]["note_records"] if note["code"].startswith("torch")]

    def check_everything(self, release):
        lines, report = self.run_with(release)
        mm, linear, elsewhere = (("torch_operators.py", lines[what]) for what in ("of mm", "of linear", "elsewhere"))
        self.assertEqual(dict(regions(report)), {
            ("PyTorch", "aten::mm", None): 1007,
            ("PyTorch", "aten::linear", None): 10,
            ("PyTorch", "aten::linear/aten::addmm", None): 10,
            ("PyTorch", "aten::ones", None): 10,
            ("PyTorch", "aten::throws", None): 5,
            ("record_function", "step", None): 1,
            ("record_function", "step/inner", None): 3,
            ("PyTorch", "step/inner/aten::ones", None): 3,
            ("PyTorch", "MmBackward0", mm): 1000,
            ("PyTorch", "MmBackward0/aten::t", None): 1000 + 7,
            ("PyTorch", "MmBackward0", elsewhere): 7,
            ("PyTorch", "AddmmBackward0", linear): 10,
            ("PyTorch", "AddmmBackward0/aten::mm", None): 10,
            ("PyTorch", "torch::autograd::AccumulateGrad", None): 4,
            ("PyTorch", "torch::autograd::AccumulateGrad/aten::detach", None): 4,
        })
        for reason in LOST:
            self.assertNotIn(reason, report["run"]["dropped"])
        self.assertEqual(self.notes(report), [])
        libraries = {row["domain"]: row["library"] for row in report["regions"]}
        self.assertEqual(libraries, {"PyTorch": True, "record_function": False})

    def test_without_the_option_nothing_is_recorded(self):
        _, report = self.run_with("1_13", options=())
        self.assertEqual(report["regions"], [])
        self.assertEqual(self.notes(report), [])

    def test_the_option_by_its_variable(self):
        library = os.path.join(PROGRAMS, "1_13", "libtorch_cpu.so")
        done = self.record([recording.PYTHON, "-B", OPERATORS, library], options=["-q"], env=dict(os.environ, CLUSTERPROF_TORCH_OPS="1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(regions(self.report())["PyTorch", "aten::linear", None], 10)

    def test_a_layout_of_no_release_is_left_alone_and_that_is_said(self):
        for release in ("unknown", "older"):
            with self.subTest(release):
                _, report = self.run_with(release, run=release)
                self.assertEqual(report["regions"], [])
                self.assertEqual(self.notes(report), ["torch_ops_other_release"])

    def test_that_no_operator_was_seen_is_said(self):
        _, report = self.run_with("1_13", "nothing")
        self.assertEqual(self.notes(report), ["torch_ops_not_seen"])

    def test_forgotten_forward_operators_are_counted(self):
        _, report = self.run_with("1_13", "lost")
        self.assertEqual(report["run"]["dropped"].get("torch_forward_lost"), 64)
        found = regions(report)
        self.assertEqual(found["PyTorch", "MmBackward0", None], 64)
        self.assertEqual(sum(count for (_, name, place), count in found.items() if name == "MmBackward0" and place), 6)

    def test_a_range_that_ends_on_another_thread(self):
        _, report = self.run_with("1_13", "other_thread")
        self.assertEqual(report["run"]["dropped"].get("torch_other_thread"), 1)
        self.assertEqual(report["run"]["dropped"].get("region_mismatch"), 1)
        found = regions(report)
        self.assertEqual(found["record_function", "around", None], 1)
        self.assertEqual(found["PyTorch", "aten::mm", None], 1 + 3, "what comes afterwards is not inside it")

    def test_a_program_without_python(self):
        program, library = os.path.join(PROGRAMS, "call_operators"), os.path.join(PROGRAMS, "1_13", "libtorch_cpu.so")
        done = self.record([program, library], options=["-q", "--torch-ops"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (42, b"", b""))
        with open(os.path.join(recording.SOURCE, "tests", "integration", "torch_ops", "call_operators.c"), encoding="ascii") as file:
            line = next(n for n, text in enumerate(file, 1) if "the line of the forward operator" in text)
        self.assertEqual(dict(regions(self.report())), {
            ("PyTorch", "aten::mm", None): 10,
            ("PyTorch", "MmBackward0", ("call_operators.c", line)): 10,
            ("PyTorch", "MmBackward0/aten::mm", None): 10,
        })

    def test_what_an_operator_costs(self):
        library = os.path.join(PROGRAMS, "1_13", "libtorch_cpu.so")
        done = self.record([recording.PYTHON, "-B", OPERATORS, library, "cost"], options=["-q", "--torch-ops"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(regions(self.report())["PyTorch", "aten::add", None], 1_000_000)
        print(f"{json.loads(done.stdout)['pair_ns']:.0f} ns for an operator, with what the library does for it")


for release_ in ("1_13", "1_13_old_abi", "2", "2_old_abi"):
    setattr(Fake, f"test_operators_of_{release_}", lambda self, release=release_: self.check_everything(release))


class Torch(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        search = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        if subprocess.run([*PYTHON, "-c", search], check=False).returncode != 0:
            self.skipTest(f"{shlex.join(PYTHON)} has no torch (Debian's python3-torch)")

    def test_operators_of_a_training_loop(self):
        bare, recorded = self.bare_and_recorded([*PYTHON, "-B", TRAINING], options=["-q", "--torch-ops"])
        self.assertEqual((bare.returncode, recorded.returncode), (0, 0), recorded.stderr)
        own = json.loads(recorded.stdout)
        self.assertEqual(json.loads(bare.stdout)["result"], own["result"])
        report = self.report()
        found = regions(report)
        at = {what: ("torch_training.py", line) for what, line in own["lines"].items()}
        steps, products = own["steps"], own["products"]
        self.assertEqual(found["PyTorch", "forward/aten::mm", None], 0, "mm is called by matmul")
        self.assertEqual(found["PyTorch", "forward/aten::matmul", None], steps * products)
        self.assertEqual(found["PyTorch", "forward/aten::matmul/aten::mm", None], steps * products)
        self.assertEqual(found["record_function", "forward", None], steps)
        self.assertEqual(found["record_function", "backward", None], steps)
        # Each backward operator has the line of its forward one; each makes a product for each of its two inputs.
        self.assertEqual(found["PyTorch", "backward/MmBackward0", at["product"]], steps * products)
        self.assertEqual(found["PyTorch", "backward/SumBackward0", at["sum"]], steps)
        self.assertEqual(found["PyTorch", "backward/ReluBackward0", at["relu"]], steps * products)
        self.assertEqual(found["PyTorch", "backward/MmBackward0/aten::mm", None], steps * (2 * products - 1))
        self.assertEqual(sum(count for (_, name, place), count in found.items()
                             if name == "backward/MmBackward0" and place != at["product"]), 0, found)
        # A layer of PyTorch's own has the line of the program's that called it.
        self.assertEqual(found["PyTorch", "layer/aten::linear", None], steps)
        self.assertEqual(found["PyTorch", "layer/AddmmBackward0", at["layer"]], steps)
        for reason in LOST:
            self.assertNotIn(reason, report["run"]["dropped"])
        self.assertEqual([note["code"] for note in report["run"]["note_records"] if note["code"].startswith("torch_ops")], [])

    def test_what_an_operator_costs(self):
        bare, recorded = self.bare_and_recorded([*PYTHON, "-B", TRAINING, "cost"], options=["-q", "--torch-ops"])
        self.assertEqual((bare.returncode, recorded.returncode), (0, 0), recorded.stderr)
        without, own = json.loads(bare.stdout), json.loads(recorded.stdout)
        print(f"an operator: {without['operator_ns']:.0f} ns, recorded {own['operator_ns']:.0f} ns; "
              f"one with a node: {without['node_ns']:.0f} ns, recorded {own['node_ns']:.0f} ns")
        self.assertEqual(regions(self.report())["PyTorch", "aten::add_", None], own["operators"])


if __name__ == "__main__":
    recording.main()
