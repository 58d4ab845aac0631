"""What tests/programs/unequal_work.c prints of itself."""

from typing import NamedTuple


class Said(NamedTuple):
    load_balance: float
    useful_s: dict  # by rank: CPU time outside MPI
    elapsed_s: dict  # by rank: of its work, with its waiting for a processor

    def longest(self, doubt):
        """The ranks whose work took longest, to this share of it. What the report has of a function contains the waiting
        for a processor, with which another rank than the one with most work may take longest."""
        longest_s = max(self.elapsed_s.values())
        return [rank for rank, seconds in self.elapsed_s.items() if seconds >= (1 - doubt) * longest_s]


def parse(output):
    words = output.split()
    ranks = [int(rank) for rank in words[3::4]]
    return Said(float(words[1]), dict(zip(ranks, map(float, words[4::4]))), dict(zip(ranks, map(float, words[5::4]))))
