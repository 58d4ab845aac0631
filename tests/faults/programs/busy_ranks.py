# SPDX-License-Identifier: BSD-3-Clause
"""What busy_ranks.c does, in Python: busy_ranks.py THREADS SECONDS [FILE]."""
import sys
import threading
import time

from mpi4py import MPI

THREADS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
stop = threading.Event()


def mix(value):
    for _ in range(2000):
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
    return value


def way(depth, value):
    return mix(value) if depth == 0 else way(depth - 1, value)


def generated(value):
    yield from (mix(value) for _ in range(2))


def thrown(value):
    try:
        raise KeyError(mix(value))
    except KeyError as error:
        return error.args[0]


EXPECTED = mix(1)
WAYS = (lambda: way(0, 1), lambda: way(3, 1), lambda: way(6, 1), lambda: list(generated(1))[1], lambda: thrown(1))


class Worker:
    def __init__(self):
        self.steps = self.wrong = 0

    def step(self):
        if WAYS[self.steps % len(WAYS)]() != EXPECTED:
            self.wrong += 1
        self.steps += 1

    def work(self):
        while not stop.is_set():
            self.step()


def main():
    world = MPI.COMM_WORLD
    workers = [Worker() for _ in range(THREADS)]
    others = [threading.Thread(target=worker.work) for worker in workers[1:]]
    for thread in others:
        thread.start()
    begin, goes_on = time.monotonic(), True
    while goes_on:
        until = time.monotonic() + SECONDS / 16
        while time.monotonic() < until:
            workers[0].step()
        goes_on = world.bcast(time.monotonic() - begin < SECONDS, 0)
    stop.set()
    for thread in others:
        thread.join()
    steps = world.reduce(sum(worker.steps for worker in workers), MPI.SUM, 0)
    wrong = world.reduce(sum(worker.wrong for worker in workers), MPI.SUM, 0)
    if world.rank == 0:
        print("%d ranks of %d threads: %d steps went wrong" % (world.size, THREADS, wrong))
        if len(sys.argv) > 3:
            with open(sys.argv[3], "w") as file:
                file.write("%d\n" % steps)
    MPI.Finalize()
    time.sleep(0.3)  # see busy_ranks.c


main()
