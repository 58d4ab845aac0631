"""Spawns Python processes that work in a function of their own; both sides exchange 4000 and 3000 bytes.

    spawn.py          the first world: its rank 0 spawns two
    spawn.py child
"""

import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD


def work_of_a_child(seconds):
    """Of CPU time: a child that has no processor meanwhile would have no samples here."""
    end = time.thread_time() + seconds
    number = 0
    while time.thread_time() < end:
        number += sum(i * i for i in range(100000))
    return number


def say(line):
    time.sleep(0.2 * world.rank)  # where lines of two processes meet, mpirun may put them into one
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if sys.argv[1:] == ["child"]:
    parent = MPI.Comm.Get_parent()
    work_of_a_child(0.5)
    world.Barrier()
    buffer = bytearray(4000)
    parent.Recv([buffer, MPI.BYTE], source=0)
    parent.Send([bytes(3000), MPI.BYTE], dest=0)
    say(f"child {world.rank} of {world.size}: {sys.argv[1:]}")
    parent.Disconnect()
else:
    if world.rank == 0:
        children = MPI.COMM_SELF.Spawn(sys.executable, args=[__file__, "child"], maxprocs=2)
        for child in range(2):
            children.Send([bytes(4000), MPI.BYTE], dest=child)
        for child in range(2):
            children.Recv([bytearray(3000), MPI.BYTE], source=child)
        children.Disconnect()
    world.Barrier()
    say(f"rank {world.rank} is done")
