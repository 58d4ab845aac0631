"""Ranks with work proportional to rank + 1: the report's load balance against the program's own
measurement (CPU time between its MPI calls)."""

import recording


class LoadBalance(recording.RecordingTest):
    measures = True

    def check(self, flavour, ranks):
        self.need(recording.program(flavour, "unequal_work"))
        done = self.record([recording.program(flavour, "unequal_work"), "40"],
                           before=recording.launcher(flavour, ranks))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        _, balance, _, slowest = done.stdout.split()
        report = self.report()
        self.assertAlmostEqual(report["efficiency"]["load_balance"], float(balance), delta=0.03)
        self.assertEqual(self.function(report, "work")["rank_max"], int(slowest))
        for rank in report["ranks"]:
            self.assertAlmostEqual(rank["useful_s"], rank["elapsed_s"] - rank["mpi_s"] - rank["runnable_s"], places=6)

    def test_openmpi_2(self):
        self.check("openmpi", 2)

    def test_openmpi_4(self):
        self.check("openmpi", 4)

    def test_mpich_2(self):
        self.check("mpich", 2)


if __name__ == "__main__":
    recording.main()
