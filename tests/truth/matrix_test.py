"""Bytes and messages per (source, destination) in world ranks, exactly as the program sent them,
over point-to-point calls and Alltoallv on the world and on split communicators."""

import recording


class Matrix(recording.RecordingTest):
    def check(self, flavour, ranks):
        self.need(recording.program(flavour, "traffic"))
        done = self.record([recording.program(flavour, "traffic")], before=recording.launcher(flavour, ranks))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        expected = {}
        for line in done.stdout.decode().splitlines():
            _, source, destination, messages, size = line.split()
            expected[int(source), int(destination)] = (int(messages), int(size))
        self.assertEqual(len(expected), ranks * ranks)
        matrix = {(cell["src"], cell["dst"]): (cell["messages"], cell["bytes"])
                  for cell in self.report()["mpi"]["matrix"]}
        self.assertEqual(matrix, expected)

    def test_openmpi_2(self):
        self.check("openmpi", 2)

    def test_openmpi_4(self):
        self.check("openmpi", 4)

    def test_openmpi_8(self):
        self.check("openmpi", 8)

    def test_mpich_4(self):
        self.check("mpich", 4)


if __name__ == "__main__":
    recording.main()
