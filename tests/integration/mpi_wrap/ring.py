# SPDX-License-Identifier: BSD-3-Clause
"""Every rank sends 1000 doubles to its right neighbour, with mpi4py."""
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
got = numpy.empty(1000)
request = world.Isend(numpy.full(1000, float(rank)), (rank + 1) % size, 5)
world.Recv(got, (rank - 1) % size, 5)
request.Wait()
assert got[-1] == (rank - 1) % size
total = numpy.zeros(1, dtype=int)
world.Allreduce(numpy.full(1, rank), total)
if rank == 0:
    print("ring done", total[0])
