# SPDX-License-Identifier: BSD-3-Clause
"""The checks of mpi-wrap's specification, and what the generator makes of its rules.

spec_test.py GENERATOR_DIR
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

GENERATOR = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(GENERATOR))

import generate  # noqa: E402
import spec  # noqa: E402

SPEC = (GENERATOR.parent / "spec/mpi_functions.toml").read_text()

SEND = {
    "number": 0, "name": "MPI_Send", "chapter": "point-to-point", "class": "p2p", "since": "3.1",
    "prototype": "int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)",
    "comm": "comm", "sent": "count * datatype", "peer": "to dest",
}


def text(*functions):
    def value(v):
        return str(v).lower() if isinstance(v, (bool, int)) else f'"{v}"'
    return "\n".join("[[function]]\n" + "\n".join(f"{k} = {value(v)}" for k, v in f.items()) for f in functions)


class Checks(unittest.TestCase):
    def refuse(self, why, **changes):
        with self.assertRaisesRegex(spec.SpecError, why):
            spec.load(text({**SEND, **changes}))

    def test_accepts_the_specification(self):
        self.assertGreater(len(spec.load(SPEC)), 600)

    def test_accepts_the_example(self):
        self.assertEqual(spec.load(text(SEND))[0].name, "MPI_Send")

    def test_unknown_field(self):
        self.refuse("unknown field 'bytes'", bytes="1")

    def test_missing_field(self):
        with self.assertRaisesRegex(spec.SpecError, "'since' is missing"):
            spec.load(text({k: v for k, v in SEND.items() if k != "since"}))

    def test_argument_that_does_not_exist(self):
        self.refuse("no argument 'destination'", peer="to destination")
        self.refuse("no argument 'elements'", sent="elements * datatype")
        self.refuse("no argument 'communicator'", comm="communicator")

    def test_argument_of_wrong_type(self):
        self.refuse("argument 'count' is int", comm="count")
        self.refuse("argument 'datatype' is MPI_Datatype", peer="to datatype")
        self.refuse("neither a count nor a datatype", sent="count * comm")
        self.refuse(r"'count\[\]'", sent="count[] * datatype")

    def test_duplicate_name(self):
        with self.assertRaisesRegex(spec.SpecError, "twice"):
            spec.load(text(SEND, {**SEND, "number": 1}))

    def test_numbers_are_positions(self):
        self.refuse("number 1 at position 0", number=1)

    def test_other_functions_prototype(self):
        self.refuse("prototype is that of MPI_Send", name="MPI_Ssend")

    def test_vocabulary(self):
        self.refuse("unknown class", **{"class": "sending"})
        self.refuse("unknown chapter", chapter="sending")
        self.refuse("unknown 'since'", since="2")
        self.refuse("bad peer", peer="towards dest")

    def test_unwrapped_has_no_rules(self):
        self.refuse("unwrapped, but has the rule 'comm'", unwrapped="a reason")

    def test_group_without_communicator(self):
        rules = {k: v for k, v in SEND.items() if k != "comm"}
        with self.assertRaisesRegex(spec.SpecError, "there is no comm"):
            spec.load(text({**rules, "sent": "count * datatype * peers"}))

    def test_peer_rule_needs_bytes(self):
        rules = {k: v for k, v in SEND.items() if k != "sent"}
        with self.assertRaisesRegex(spec.SpecError, "without 'sent'"):
            spec.load(text(rules))

    def test_variable_named_like_an_argument(self):
        changed = {**SEND, "prototype": SEND["prototype"].replace("tag", "record")}
        with self.assertRaisesRegex(spec.SpecError, "wrapper's variables"):
            generate.generate(spec.load(text(changed)))

    def test_not_toml(self):
        with self.assertRaises(spec.SpecError):
            spec.load("[[function")


class Output(unittest.TestCase):
    def setUp(self):
        self.files = generate.generate(spec.load(SPEC))

    def wrapper(self, name):
        for contents in self.files.values():
            start = contents.find(f"clusterprof_wrap_{name}(")
            if start >= 0 and " {" in contents[start:contents.index("\n", start)]:
                return contents[start:contents.index("\n}\n", start)]
        raise AssertionError(name)

    def test_rules_become_code(self):
        self.assertIn("record.send_to(dest, bytes_of(count, datatype));", self.wrapper("MPI_Send"))
        self.assertIn("record.track_receive(*request);", self.wrapper("MPI_Irecv"))
        self.assertIn("record.forget_request(*request);", self.wrapper("MPI_Isend"))
        self.assertIn("record.send_to_each(sendcounts_used, sendtypes_used);", self.wrapper("MPI_Alltoallw"))
        self.assertIn("if (role.root) record.add_received(", self.wrapper("MPI_Gather"))
        self.assertIn("if (!is_no_op(op)) record.send_to(", self.wrapper("MPI_Get_accumulate"))

    def test_rooted_and_reducing_collectives_are_not_in_the_matrix(self):
        for f in spec.load(SPEC):
            base = f.name.removeprefix("MPI_").removeprefix("I").capitalize()
            if base.startswith(("Bcast", "Gather", "Scatter", "Reduce", "Allreduce", "Scan", "Exscan", "Barrier")):
                self.assertIsNone(f.get("peer"), f.name)

    def test_every_function_is_wrapped_or_says_why_not(self):
        for f in spec.load(SPEC):
            if f.unwrapped is None:
                self.assertIn(f"ENTRY(P{f.name}, {2 * f.number + 1});", self.files["mpi-wrap/generated/stubs.cpp"])
            else:
                self.assertTrue(f.unwrapped.strip())

    def test_variants_have_one_rule(self):
        # MPI_X_c is MPI_X with large counts, MPI_IX its nonblocking form.
        functions = {f.name: f for f in spec.load(SPEC)}
        fields = ("sent", "recv", "peer", "sent_at", "recv_at", "root", "in_place", "comm", "class", "request")
        compared = 0
        for name, f in functions.items():
            if name.endswith("_c") and name[:-2] in functions:
                compared += 1
                for field in fields:
                    self.assertEqual(f.get(field), functions[name[:-2]].get(field), f"{name}: {field}")
        self.assertGreater(compared, 120)

    def test_check_finds_an_edited_file(self):
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, str(GENERATOR / "generate.py"), "--root", directory]
            self.assertEqual(subprocess.run([*command, "--check"], capture_output=True).returncode, 1)
            self.assertEqual(subprocess.run(command).returncode, 0)
            self.assertEqual(subprocess.run([*command, "--check"]).returncode, 0)
            edited = pathlib.Path(directory) / "mpi-wrap/generated/collectives.cpp"
            edited.write_text(edited.read_text() + "\n")
            self.assertEqual(subprocess.run([*command, "--check"], capture_output=True).returncode, 1)
            self.assertEqual(subprocess.run(command).returncode, 0)
            (edited.parent / "stray.cpp").write_text("")
            self.assertEqual(subprocess.run([*command, "--check"], capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main()
