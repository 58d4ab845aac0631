"""File operations in the report: bytes agree with what the programs moved, calls are at the lines that made them."""

import os

import recording

FILES = os.path.join(recording.BUILD, "tests", "integration", "agent")
SOURCES = os.path.join(recording.SOURCE, "tests", "integration", "agent")


def line_of(path, text):
    with open(path, encoding="utf-8") as file:
        lines = [number for number, line in enumerate(file, 1) if text in line]
    assert len(lines) == 1, (path, text, lines)
    return lines[0]


class Files(recording.RecordingTest):
    def file(self, report, path):
        found = [f for f in report["io"]["files"] if f["path"] == os.path.realpath(path)]
        self.assertEqual(len(found), 1, [f["path"] for f in report["io"]["files"]])
        return found[0]

    def calls(self, report, path, operation):
        return [c for c in report["io"]["calls"]
                if c["path"] == os.path.realpath(path) and c["operation"] == operation]

    def test_python(self):
        program = os.path.join(SOURCES, "files_python.py")
        folder = os.path.join(self.directory, "data")
        os.mkdir(folder)
        report = self.recorded([recording.PYTHON, "-B", program, "plain", folder])
        direct = os.path.join(folder, "direct")
        file = self.file(report, direct)
        self.assertEqual((file["opens"], file["reads"], file["writes"]), (1, 1, 501))
        self.assertEqual((file["read_bytes"], file["written_bytes"]), (100, 5003))
        self.assertGreater(file["sync_s"], 0)
        writes = {(c["function"], c["line"]): c for c in self.calls(report, direct, "write")}
        self.assertEqual(sorted((name, line, c["count"], c["bytes"]) for (name, line), c in writes.items()),
                         [("direct_writes", line_of(program, 'os.write(file, b"0123456789")'), 500, 5000),
                          ("plain", line_of(program, "os.pwrite(file"), 1, 3)])
        self.assertTrue(all(c["file"] == program for c in writes.values()))
        buffered = self.calls(report, os.path.join(folder, "buffered"), "write")
        self.assertEqual(sum(c["bytes"] for c in buffered), 100000)
        self.assertEqual({c["function"] for c in buffered}, {"buffered"})
        systems = report["io"]["file_systems"]
        self.assertEqual(sum(s["written_bytes"] for s in systems),
                         sum(f["written_bytes"] for f in report["io"]["files"]))
        self.assertGreaterEqual(max(s["written_bytes"] for s in systems), 100000 + 100000 + 5003)

    def mpi(self, flavour):
        program = os.path.join(FILES, flavour, "files_mpi")
        self.need(program, f"mpirun.{flavour}")
        report = self.recorded([program, self.directory], before=recording.launcher(flavour, 3))
        path = os.path.join(self.directory, "collective")
        file = self.file(report, path)
        self.assertEqual((file["read_bytes"], file["written_bytes"]), (300000, 300000))
        self.assertEqual(file["ranks"], 3)
        source = os.path.join(SOURCES, "files_mpi.c")
        for operation, call in (("write", "MPI_File_write_at_all(file"), ("read", "MPI_File_read_at(file")):
            calls = self.calls(report, path, operation)
            self.assertEqual({(c["file"], c["line"]) for c in calls}, {(source, line_of(source, call))})
            self.assertEqual(sum(c["bytes"] for c in calls), 300000)

    def test_openmpi(self):
        self.mpi("openmpi")

    def test_mpich(self):
        self.mpi("mpich")


recording.main()
