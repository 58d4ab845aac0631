# SPDX-License-Identifier: BSD-3-Clause
"""What MPI knew of a program's mistakes (programs/mistakes.c): errors that calls returned, requests that stayed open, messages that
nobody received, and errors that end the job. How many there are of each, and on which line, is known by construction."""

import os

import recording

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs/mistakes.c")
RANKS = 3
FLAVOURS = ("openmpi", "mpich")
# In MPI_Bcast: nobody waits for what rank 1 does not pass on. With three ranks, a binomial tree is that, too.
ROOT_SENDS_TO_EACH = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_bcast_algorithm": "1",
                      "MPIR_CVAR_BCAST_INTRA_ALGORITHM": "binomial"}
# Open MPI's ranks leave it to mpirun to write the text of an error that ends the job.
FATAL = {"openmpi": r"^MPI_ERR_TRUNCATE in MPI_Recv$", "mpich": r"^MPI_ERR_TRUNCATE in MPI_Recv: .*truncated"}


def line_of(what):
    with open(SOURCE) as source:
        return next(number for number, line in enumerate(source, 1) if f"/* line of {what} */" in line)


class Mistakes(recording.RecordingTest):
    def reports(self, kind):
        programs = {flavour: recording.program(flavour, "mistakes") for flavour in FLAVOURS}
        for program in programs.values():
            self.need(program)
        return [self.recorded([program, kind], before=recording.launcher(flavour, RANKS), run=f"{kind}-{flavour}")
                for flavour, program in programs.items()]

    def finding(self, report, kind):
        found = [finding for finding in report["findings"] if finding["kind"] == kind]
        self.assertEqual(len(found), 1, report["findings"])
        return found[0]

    def test_errors(self):
        for report in self.reports("errors"):
            mpi = report["mpi"]
            rows = sorted((row["rank"], row["op"], row["line"], row["error_class"], row["peer"], row["tag"], row["message"], row["count"])
                          for row in mpi["errors"] if row["rank"] != 0)
            self.assertEqual(rows, [(1, "MPI_Recv", line_of("recv"), "MPI_ERR_TRUNCATE", 0, 5, 3, 2),
                                    (2, "MPI_Waitall", line_of("waitall"), "MPI_ERR_TRUNCATE", 0, 6, 1, 1)], mpi["errors"])
            wrong, = [row for row in mpi["errors"] if row["rank"] == 0]
            self.assertEqual((wrong["op"], wrong["line"], wrong["error_class"], wrong["peer"], wrong["tag"], wrong["count"]),
                             ("MPI_Send", line_of("wrong rank"), "MPI_ERR_RANK", None, 9, 3))
            for row in mpi["errors"]:
                self.assertTrue(row["text"], row)
                self.assertTrue(0 <= row["first_s"] <= report["run"]["elapsed_s"], row)
            self.assertIn("truncated", mpi["errors"][0]["text"] + mpi["errors"][1]["text"] + mpi["errors"][2]["text"])
            self.assertEqual(self.finding(report, "mpi_errors")["severity"], "info")
            self.assertIsNone(report["failure"])
            # Messages that are too long are received all the same.
            self.assertEqual((mpi["open_requests"], mpi["unmatched"]), ([], []))

    # What a callback returns is no code that the library knows: Open MPI would end the job if it were asked about it.
    def test_errors_of_callbacks(self):
        for report in self.reports("callback"):
            row, = report["mpi"]["errors"]
            self.assertEqual((row["rank"], row["op"], row["line"], row["count"]), (0, "MPI_Comm_dup", line_of("refused copy"), 1))
            self.assertIsNone(report["failure"])

    def test_open_requests(self):
        for report in self.reports("open"):
            mpi = report["mpi"]
            rows = sorted((row["rank"], row["op"], row["line"], row["kind"], row["peer"] if row["peer"] is not None else -1, row["any_peer"],
                           row["tag"], row["count"]) for row in mpi["open_requests"])
            self.assertEqual(rows, sorted([(1, "MPI_Irecv", line_of("open receive"), "receive", 0, False, 40, 3),
                                           (1, "MPI_Irecv", line_of("any receive"), "receive", -1, True, 41, 1),
                                           (2, "MPI_Issend", line_of("open send"), "send", 0, False, 42, 2)]))
            found = self.finding(report, "requests_open")
            self.assertEqual((found["line"], found["rank"], found["evidence"]["requests"], found["evidence"]["of"]),
                             (line_of("open receive"), 1, 3, 6))
            self.assertEqual((mpi["errors"], mpi["unmatched"]), ([], []))

    def test_unmatched(self):
        for report in self.reports("unmatched"):
            mpi = report["mpi"]
            rows = [(row["src"], row["dst"], row["tag"], row["op"], row["line"], row["count"]) for row in mpi["unmatched"]]
            self.assertEqual(rows, [(0, 2, 7, "MPI_Send", line_of("send"), 3), (0, 2, 8, "MPI_Send", line_of("send"), 1)])
            self.assertEqual([(row["rank"], row["tag"], row["count"]) for row in mpi["open_requests"]], [(1, 9, 1)])
            found = self.finding(report, "messages_unmatched")
            self.assertIn("Rank 0 sent 3 messages to rank 2, tag 7, that nobody received", found["text"])

    def failed(self, flavour, kind, **more):
        """The report of a run that MPI has ended because of rank 1."""
        program = recording.program(flavour, "mistakes")
        self.need(program)
        run = f"{kind}-{flavour}"
        done = self.record([program, kind], before=recording.launcher(flavour, RANKS), run=run, **more)
        self.assertNotEqual(done.returncode, 0)
        self.await_last_shard(run)
        report = self.report(run)
        self.assertIsNotNone(report["failure"], [rank["exit"] for rank in report["ranks"]])
        self.assertEqual(report["failure"]["rank"], 1)
        return report

    def test_fatal(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour):
                failure = self.failed(flavour, "fatal")["failure"]
                self.assertRegex(failure["message"] or "", FATAL[flavour], failure["stderr_tail"])
                self.assertEqual((failure["line"], failure["mismatch"]), (line_of("recv"), []))

    # Rank 1 has taken part in the operation that it got an error of: its later ones are those of the others. MPICH's later operations are
    # not defined.
    def test_truncated_collective(self):
        program = recording.program("openmpi", "mistakes")
        self.need(program)
        report = self.recorded([program, "truncated"], before=recording.launcher("openmpi", RANKS),
                               env=dict(os.environ, **ROOT_SENDS_TO_EACH))
        row, = report["mpi"]["errors"]
        self.assertEqual((row["rank"], row["op"], row["line"], row["error_class"], row["count"]),
                         (1, "MPI_Bcast", line_of("broadcast"), "MPI_ERR_TRUNCATE", 1))
        self.assertEqual(report["wait_analysis"]["unmatched_collectives"], 0, report["wait_analysis"])
        self.assertGreaterEqual(report["wait_analysis"]["collectives"], 2)
        self.assertIsNone(report["failure"])

    def test_sizes(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour):
                report = self.failed(flavour, "sizes", env=dict(os.environ, **ROOT_SENDS_TO_EACH))
                failure = report["failure"]
                self.assertTrue(failure["ended_by_mpi"], failure)
                self.assertEqual(failure["line"], line_of("broadcast"))
                self.assertEqual([(row["ranks"], row["op"], row["root"], row["bytes"]) for row in failure["mismatch"]],
                                 [([1], "MPI_Bcast", None, 40), ([0, 2], "MPI_Bcast", None, 400)])
                self.assertIn("has different sizes: MPI_Bcast of 40 bytes on rank 1 against MPI_Bcast of 400 bytes on ranks 0, 2",
                              report["findings"][0]["text"])


if __name__ == "__main__":
    recording.main()
