"""Two ranks of torchrun that call fake_torch; rank 1 has three times the work.

torch_by_samples.py DIRECTORY ROUNDS: each rank writes DIRECTORY/rank-N.json: {"seconds": {"all_reduce": ..., ...}, "result": ...},
by its own clock."""

import json
import os
import sys
import time

import torch.distributed as dist

WORK = 3_500_000
RANK = int(os.environ["RANK"])
seconds = {"init_process_group": 0.0, "all_reduce": 0.0, "barrier": 0.0}


def compute(steps):
    total = 0
    for i in range(steps):
        total += i
    return total


def reduce_all(value):
    begin = time.monotonic()
    result = dist.all_reduce(value)
    seconds["all_reduce"] += time.monotonic() - begin
    return result


def main():
    directory, rounds = sys.argv[1], int(sys.argv[2])
    here = os.path.join(directory, "here")
    if RANK == 0:
        open(here, "x", encoding="ascii").close()
    else:  # so that rank 0 waits in the rendezvous
        while not os.path.exists(here):
            time.sleep(0.01)
        compute(2 * WORK)
    begin = time.monotonic()
    dist.init_process_group(os.path.join(directory, "socket"))
    seconds["init_process_group"] = time.monotonic() - begin
    value = 0.0
    for _ in range(rounds):
        compute(3 * WORK if RANK == 1 else WORK)
        value = reduce_all(value + RANK + 1)
    begin = time.monotonic()
    dist.barrier()
    seconds["barrier"] = time.monotonic() - begin
    with open(os.path.join(directory, f"rank-{RANK}.json"), "w", encoding="ascii") as file:
        json.dump({"seconds": seconds, "result": value}, file)


main()
