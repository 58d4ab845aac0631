"""Ranks with work proportional to rank + 1: the report's load balance, and how long each rank was useful, against the
program's own measurement (CPU time between its MPI calls)."""

import math

import measured
import recording
import unequal_work


ROUNDS = 40
# What a rank may do before MPI_Init and after MPI_Finalize.
AROUND_S = 0.1
# Where ranks share processors it is in doubt, for each way into and out of a barrier, on which side of it a rank waited for
# one within a sampling period: three standard deviations. A rank's barriers last for a second and more.
DOUBT_S = 3 * measured.block_error(2 * ROUNDS, 0.01, 1)
# On a busy machine a rank is not sampled while it lacks a processor for longer than that: so much of what its work lacked.
LACKED_DOUBT = 0.1


def doubt_of_balance(said):
    """Three standard deviations of mean / max, if the ranks waited for processors and each is as much in doubt."""
    longest_s = max(said.useful_s.values())
    if sum(said.elapsed_s.values()) < 1.05 * sum(said.useful_s.values()):
        return 0.0
    return DOUBT_S / longest_s * math.sqrt(1 / len(said.useful_s) + said.load_balance ** 2)


class LoadBalance(recording.RecordingTest):
    def check(self, flavour, ranks):
        self.need(recording.program(flavour, "unequal_work"))
        done = self.record([recording.program(flavour, "unequal_work"), str(ROUNDS)],
                           before=recording.launcher(flavour, ranks))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        said = unequal_work.parse(done.stdout.decode())
        report = self.report()
        self.measured_near(report["efficiency"]["load_balance"], said.load_balance,
                           0.03 + doubt_of_balance(said), "load balance")
        self.assertIn(self.function(report, "work")["rank_max"], said.longest(DOUBT_S))
        self.assertEqual(sorted(said.useful_s), list(range(ranks)))
        for rank in report["ranks"]:
            # The program's clock begins behind MPI_Init: a rank's start and end are useful, too, and much the same for all.
            own_s = said.useful_s[rank["rank"]]
            around_s = rank["useful_s"] - own_s
            lacked_s = max(said.elapsed_s[rank["rank"]] - own_s, 0)
            self.measured_near(around_s, AROUND_S / 2, DOUBT_S + AROUND_S / 2 + LACKED_DOUBT * lacked_s,
                               f"useful time of rank {rank['rank']}")

    def test_openmpi_2(self):
        self.check("openmpi", 2)

    def test_openmpi_4(self):
        self.check("openmpi", 4)

    def test_mpich_2(self):
        self.check("mpich", 2)


if __name__ == "__main__":
    recording.main()
