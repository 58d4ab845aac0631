"""iprobe.py DEPTH: prints the median nanoseconds of one MPI_Iprobe that finds nothing, called below DEPTH Python
functions, over batches."""
import statistics
import sys
import time

from mpi4py import MPI

BATCHES, ROUNDS = 201, 1000


def call_often():
    probe, batch_ns, rounds = MPI.COMM_SELF.Iprobe, [], range(ROUNDS)
    for _ in range(BATCHES):
        begin = time.perf_counter()
        for _ in rounds:
            probe()
        batch_ns.append((time.perf_counter() - begin) * 1e9 / ROUNDS)
    return statistics.median(batch_ns)


def below(depth):
    return below(depth - 1) if depth > 0 else call_often()


sys.setrecursionlimit(10000)
print(f"call_ns {below(int(sys.argv[1])):.1f}")
