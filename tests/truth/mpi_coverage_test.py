"""Every family of MPI calls: how often each function was called, its bytes, and who sent how much to whom are in the
report what the program knows by construction. Open MPI and MPICH, 2 and 4 ranks."""

import collections
import os

import recording

FAMILIES = ("nonblocking", "cancelled", "persistent", "matched", "icollectives", "neighbours", "one_sided", "files",
            "intercommunicators")
# Calls for which the program has no expectation: they have no bytes.
SILENT = {"Init", "Finalize", "Comm_rank", "Comm_size", "Comm_split", "Comm_free", "Cart_create", "Graph_create",
          "Dist_graph_create_adjacent", "Intercomm_create", "Comm_group", "Group_incl", "Group_free", "Buffer_attach",
          "Buffer_detach", "Get_count", "Test_cancelled"}


class Coverage:
    def check(self, family, ranks):
        self.need(recording.program(self.flavour, "families"))
        argument = "files=" + os.path.join(self.directory, "file") if family == "files" else family
        done = self.record([recording.program(self.flavour, "families"), argument],
                           before=recording.launcher(self.flavour, ranks))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        matrix, ops = collections.Counter(), collections.defaultdict(lambda: [0, 0, 0])
        for line in done.stdout.decode().splitlines():
            kind, *words = line.split()
            if kind == "sent":
                source, destination, messages, size = map(int, words)
                matrix[source, destination, "messages"] += messages
                matrix[source, destination, "bytes"] += size
            else:
                self.assertEqual(kind, "op")
                for i, number in enumerate(map(int, words[1:])):
                    ops[words[0]][i] += number
        self.assertTrue(ops)

        mpi = self.report()["mpi"]
        seen = collections.Counter()
        for cell in mpi["matrix"]:
            for what in ("messages", "bytes"):
                seen[cell["src"], cell["dst"], what] += cell[what]
        self.assertEqual(seen, matrix)
        called = collections.defaultdict(lambda: [0, 0, 0])
        for call in mpi["calls"]:
            for i, what in enumerate(("count", "sent_bytes", "recv_bytes")):
                called[call["op"]][i] += call[what]
        for name in SILENT & {op[len("MPI_"):] for op in called}:
            self.assertEqual(called.pop("MPI_" + name)[1:], [0, 0], name)
        self.assertEqual(dict(called), dict(ops))


def add_tests(flavour):
    cases = {f"test_{family}_{ranks}": lambda self, family=family, ranks=ranks: self.check(family, ranks)
             for family in FAMILIES for ranks in (2, 4)}
    return type(flavour, (Coverage, recording.RecordingTest), {"flavour": flavour, **cases})


openmpi = add_tests("openmpi")
mpich = add_tests("mpich")
abi = add_tests("abi")  # of the MPI standard, with a library that forwards to MPICH


if __name__ == "__main__":
    recording.main()
