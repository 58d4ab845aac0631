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
        self.refuse("unknown 'since'", since="5.1")
        self.refuse("bad peer", peer="towards dest")

    def test_unwrapped_has_no_rules(self):
        self.refuse("unwrapped, but has the rule 'comm'", unwrapped="a reason")

    def test_events(self):
        self.refuse("bad sends", sends="dest")
        self.refuse("bad sends", sends="dest tag late")
        self.refuse("no argument 'partitions'", sends="dest tag partitioned")
        self.refuse("bad receives", receives="dest tag late", recv="count * datatype")
        self.refuse("no argument 'label'", sends="dest label")
        self.refuse("argument 'datatype' is MPI_Datatype", sends="dest datatype")
        self.refuse("not the peer", sends="tag dest")
        self.refuse("bad receives", receives="source")
        self.refuse("a message that it does not have", receives="message")
        self.refuse("receives without 'recv'", receives="dest tag")
        self.refuse("no argument 'status'", probes=True)
        self.refuse("bad epoch", epoch="begin")
        self.refuse("bad epoch", epoch="post")
        self.refuse("an epoch without 'window'", epoch="wait")

    def test_partitioned(self):
        psend = {**SEND, "prototype": SEND["prototype"].replace("int count", "int partitions, int count").replace(")", ", MPI_Request *request)"),
                 "request": "initializes request", "sends": "dest tag partitioned"}
        spec.load(text(psend))
        with self.assertRaisesRegex(spec.SpecError, "initializes no request"):
            spec.load(text({**psend, "request": "starts request"}))

    def test_new_communicators(self):
        made = {"number": 0, "name": "MPI_Comm_made", "chapter": "groups and communicators", "class": "management", "since": "4.0",
                "prototype": "int MPI_Comm_made(MPI_Group group, const char *stringtag, MPI_Comm *newcomm)",
                "new_comm": "group newcomm stringtag"}
        spec.load(text(made))
        spec.load(text({**made, "hand": True, "sync": "nxn"}))
        for why, bad in (("bad new_comm", {**made, "new_comm": "group newcomm stringtag group"}),
                         ("bad new_comm", {**made, "new_comm": "dup newcomm stringtag"}),
                         ("argument 'group' is MPI_Group", {**made, "new_comm": "group newcomm group"}),
                         ("without its parent", {**made, "new_comm": "child newcomm"}),
                         ("sync without a communicator", {**made, "sync": "nxn"})):
            with self.assertRaisesRegex(spec.SpecError, why):
                spec.load(text(bad))

    def test_synchronisation(self):
        barrier = {"number": 0, "name": "MPI_Barrier", "chapter": "collectives", "class": "collective", "since": "3.1",
                   "prototype": "int MPI_Barrier(MPI_Comm comm)", "comm": "comm", "sync": "barrier"}
        bcast = {**barrier, "prototype": "int MPI_Barrier(int root, MPI_Comm comm)", "root": "root", "sync": "1xn"}
        for good in (barrier, bcast):
            spec.load(text(good))
        for why, bad in (("unknown sync 'all'", {**barrier, "sync": "all"}),
                         ("sync '1xn' and 'root'", {**barrier, "sync": "1xn"}),
                         ("sync 'nxn' and 'root'", {**bcast, "sync": "nxn"}),
                         ("without 'sync'", {k: v for k, v in barrier.items() if k != "sync"}),
                         ("sync without a communicator", {k: v for k, v in barrier.items() if k != "comm"})):
            with self.assertRaisesRegex(spec.SpecError, why):
                spec.load(text(bad))

    def test_what_members_agree_on(self):
        bcast = {"number": 0, "name": "MPI_Bcast", "chapter": "collectives", "class": "collective", "since": "3.1",
                 "prototype": "int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, const int counts[], int root, MPI_Comm comm)",
                 "comm": "comm", "sync": "1xn", "root": "root", "agreed": "count * datatype"}
        spec.load(text(bcast))
        for why, bad in (("bad agreed 'count'", {**bcast, "agreed": "count"}),
                         ("bad agreed", {**bcast, "agreed": "counts[] * datatype"}),
                         ("bad agreed_at_root", {**bcast, "agreed_at_root": "datatype * count"}),
                         ("agreed_at_root without agreed or root", {**{k: v for k, v in bcast.items() if k != "agreed"},
                                                                    "agreed_at_root": "count * datatype"}),
                         ("operations that begin with the call", {k: v for k, v in {**bcast, "class": "management"}.items()
                                                                  if k not in ("sync", "root")})):
            with self.assertRaisesRegex(spec.SpecError, why):
                spec.load(text(bad))

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
        self.assertIn("record.start_receive(*request, source, tag);", self.wrapper("MPI_Irecv"))
        self.assertIn("record.start_send(*request, dest, tag);", self.wrapper("MPI_Isend"))
        self.assertIn("record.start_other(*request);", self.wrapper("MPI_Rput"))
        self.assertIn("record.init_partitioned_send(dest, tag, partitions);", self.wrapper("MPI_Psend_init"))
        self.assertIn("lose_partitioned(key_of(comm), dest, tag, Direction::kReceived);", self.wrapper("MPI_Precv_init"))
        self.assertIn("Derivation::kInter, *newintercomm, hash_of_text(stringtag));", self.wrapper("MPI_Intercomm_create_from_groups"))
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

    def test_functions_of_newer_releases_are_wrapped_where_the_header_is_as_new(self):
        stubs, releases = self.files["mpi-wrap/generated/stubs.cpp"], {}
        for f in spec.load(SPEC):
            releases[f.since] = releases.get(f.since, 0) + 1
            if f.unwrapped is None and not f.removed:
                version = f.since.replace(".", "_")
                # Open MPI 5.0 has the others of MPI 4.0, and calls itself MPI 3.1.
                if f.since == "4.0" and f.name.endswith("_c"):
                    version = "LARGE_COUNTS"
                entry = f"ENTRY({f.name}, {2 * f.number});\nENTRY(P{f.name}, {2 * f.number + 1});\n"
                guarded = f"#if CLUSTERPROF_MPI_HAS_{version}\n{entry}#endif\n" in stubs
                self.assertEqual((entry in stubs, guarded), (True, f.since != "3.1"), f.name)
        self.assertEqual(set(releases), {"3.1", "4.0", "4.1", "5.0"})

    def test_asking_for_requests_completes_none(self):
        for form in ("all", "any", "some"):
            self.assertNotIn("completed", self.wrapper(f"MPI_Request_get_status_{form}"))
        self.assertIn("record.start_other(*request);", self.wrapper("MPI_Comm_iflush_buffer"))

    def test_variants_have_one_rule(self):
        # MPI_X_c is MPI_X with large counts, MPI_IX its nonblocking form.
        functions = {f.name: f for f in spec.load(SPEC)}
        fields = ("sent", "recv", "peer", "sent_at", "recv_at", "root", "in_place", "comm", "class", "request", "sync",
                  "sends", "receives", "probes", "epoch", "agreed", "agreed_at_root")
        compared = 0
        for name, f in functions.items():
            if name.endswith("_c") and name[:-2] in functions:
                compared += 1
                for field in fields:
                    self.assertEqual(f.get(field), functions[name[:-2]].get(field), f"{name}: {field}")
        self.assertGreater(compared, 120)

    def test_forms_of_an_operation_synchronise_alike(self):
        functions = {f.name: f for f in spec.load(SPEC)}
        compared = 0
        for name, f in functions.items():
            if f.chapter == "collectives" and f.unwrapped is None and not f.request_verb():
                base = name.removeprefix("MPI_").removesuffix("_c")
                for form in (f"MPI_I{base.lower()}", f"MPI_{base}_init"):
                    if form in functions:
                        compared += 1
                        self.assertEqual(functions[form].get("sync"), f.get("sync"), form)
                        if not form.endswith("_init"):
                            self.assertEqual(functions[form].get("agreed"), f.get("agreed"), form)
        self.assertGreater(compared, 60)

    def test_table_of_synchronisation(self):
        header = self.files["formats/wire/mpi_functions.h"]
        for line in ("MpiSync::kNx1,  // MPI_Igather", "MpiSync::k1xN,  // MPI_Bcast_init", "MpiSync::kBarrier,  // MPI_Finalize",
                     "MpiSync::kNxN,  // MPI_Allreduce_c", "MpiSync::kScan,  // MPI_Exscan", "MpiSync::kNone,  // MPI_Send",
                     "MpiSync::kNone,  // MPI_Neighbor_allgather", "MpiSync::kNxN,  // MPI_Comm_dup",
                     "MpiSync::kNxN,  // MPI_File_open"):
            self.assertIn(f"    {line}\n", header)
        self.assertEqual(header.count("    MpiSync::k"), len(spec.load(SPEC)))

    def test_making_a_communicator_waits_for_the_parents_members(self):
        # but where not all members of the parent take part
        for f in spec.load(SPEC):
            if f.get("new_comm") and f.get("comm") and f.get("new_comm").split()[0] in ("dup", "child"):
                self.assertEqual(f.get("sync"), None if f.get("comm") == "intercomm" else "nxn", f.name)

    def test_events_become_code(self):
        self.assertIn("record.message_sent(dest, tag, wire::kEventSynchronous);", self.wrapper("MPI_Ssend"))
        self.assertIn("record.message_received(*seen_status);", self.wrapper("MPI_Recv"))
        self.assertIn("record.start_exchange(*request, dest, sendtag, source, recvtag);", self.wrapper("MPI_Isendrecv"))
        self.assertIn("record.message_taken(*message, *seen_status, true);", self.wrapper("MPI_Mprobe"))
        self.assertIn("if (*flag != 0) record.message_taken(*message, *seen_status, false);", self.wrapper("MPI_Improbe"))
        self.assertIn("record.collective_ended(root);", self.wrapper("MPI_Gatherv"))
        self.assertIn("record.start_collective(*request);", self.wrapper("MPI_Iallgatherv"))
        self.assertIn("record.init_collective(root);", self.wrapper("MPI_Gather_init"))
        self.assertIn("record.epoch_begun(win, group, true);", self.wrapper("MPI_Win_post"))
        self.assertIn("if (*flag != 0) record.epoch_ended(win, true);", self.wrapper("MPI_Win_test"))
        self.assertNotIn("collective_ended", self.wrapper("MPI_Neighbor_alltoall"))
        freeing = self.wrapper("MPI_Win_free")
        self.assertLess(freeing.index("record.collective_ended();"), freeing.index("release(subject, use);"))

    def test_wrappers_say_what_members_agree_on(self):
        self.assertIn("Intent(wire::kMPI_Bcast, key_of(comm)).rooted(root).agree(count, datatype);", self.wrapper("MPI_Bcast"))
        self.assertIn("record.agree(count, datatype).collective_ended(root);", self.wrapper("MPI_Bcast"))
        self.assertIn(".agree(root, recvcount, recvtype, sendcount, sendtype)", self.wrapper("MPI_Gather"))
        self.assertIn(".agree(root, sendcount, sendtype, recvcount, recvtype)", self.wrapper("MPI_Scatter_c"))
        self.assertIn("record.agree(recvcount, recvtype).start_collective(*request);", self.wrapper("MPI_Iallgather"))
        for name in ("MPI_Gatherv", "MPI_Alltoallv", "MPI_Reduce_scatter", "MPI_Barrier", "MPI_Bcast_init"):
            self.assertNotIn("agree(", self.wrapper(name))
        # One whose message was too long has taken part all the same.
        for name in ("MPI_Bcast", "MPI_Gatherv"):
            self.assertIn("if (record.has_message(returned)) record.", self.wrapper(name))

    def test_unmeasured_calls_still_track_objects(self):
        self.assertIn("if (start == 0) return real(buf, count, datatype, dest, tag, comm);", self.wrapper("MPI_Send"))
        self.assertIn("if (start == 0) return pass_on_free(key_at(comm), [&] { return real(comm); });",
                      self.wrapper("MPI_Comm_free"))
        self.assertIn("if (passed_on == MPI_SUCCESS && *flag != 0) release(key_of(*message));", self.wrapper("MPI_Improbe"))
        self.assertLess(self.wrapper("MPI_Mrecv").index("take_message(key_at(message));"),
                        self.wrapper("MPI_Mrecv").index("return real("))
        for f in spec.load(SPEC):
            made = [f.get(x).split()[:2][-1] for x in ("new_comm", "new_window", "new_file", "new_message") if f.get(x)]
            starts = f.request_verb() in ("starts", "initializes")
            if (made or starts) and f.unwrapped is None and not f.hand:
                succeeded = self.wrapper(f.name).split("if (passed_on == MPI_SUCCESS")[1].split("return passed_on;")[0]
                if made:
                    self.assertIn(f" release(key_of(*{made[0]}));", succeeded)
                if starts:
                    self.assertIn(f" made_unseen(key_of(*{f.request_argument()}));", succeeded)
            if f.get("frees"):
                self.assertIn("return pass_on_free(", self.wrapper(f.name))

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
