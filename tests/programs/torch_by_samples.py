"""Two ranks of torchrun that call fake_torch; rank 1 has three times the work.

torch_by_samples.py DIRECTORY ROUNDS: each rank writes DIRECTORY/rank-N.json: {"seconds": {"all_reduce": ..., ...}, "result": ...},
by its own clock."""

import json
import os
import sys
import time

import torch.distributed as dist

WORK_S = 0.14  # of CPU time, so that a wait is longer than the time between two looks on fast processors, too
RANK = int(os.environ["RANK"])
seconds = {"init_process_group": 0.0, "all_reduce": 0.0, "barrier": 0.0}


def compute(seconds_of_cpu):
    end = time.thread_time() + seconds_of_cpu
    total = 0
    while time.thread_time() < end:
        for i in range(10_000):
            total += i
    return total


def reduce_all(value):
    begin = time.monotonic()
    result = dist.all_reduce(value)
    seconds["all_reduce"] += time.monotonic() - begin
    return result


def main():
    directory, rounds = sys.argv[1], int(sys.argv[2])
    meeting = os.path.join(directory, "socket")
    if RANK == 1:  # rank 0 waits in the rendezvous
        while not os.path.exists(meeting):
            time.sleep(0.01)
        compute(2 * WORK_S)
    begin = time.monotonic()
    dist.init_process_group(meeting)
    seconds["init_process_group"] = time.monotonic() - begin
    value = 0.0
    for _ in range(rounds):
        compute(3 * WORK_S if RANK == 1 else WORK_S)
        value = reduce_all(value + RANK + 1)
    begin = time.monotonic()
    dist.barrier()
    seconds["barrier"] = time.monotonic() - begin
    with open(os.path.join(directory, f"rank-{RANK}.json"), "w", encoding="ascii") as file:
        json.dump({"seconds": seconds, "result": value}, file)


main()
