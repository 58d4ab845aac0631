"""Ranks that communicate by torch.distributed over gloo, and write down what they did when.

torch_ranks.py DIRECTORY SCENARIO: the launcher's rank and size are in OMPI_COMM_WORLD_*, PMI_* or, of torchrun, RANK. Each rank writes
DIRECTORY/rank-N.json: {"calls": [[name, enter_s, exit_s], ...], "result": a number}."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

ROUNDS, SHORT_S = 12, 0.04
RANK, SIZE = (int(next(os.environ[name] for name in names if name in os.environ))
              for names in (("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"), ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE")))
calls = []


def timed(name, function, *arguments, **options):
    enter = time.monotonic()
    result = function(*arguments, **options)
    calls.append([name, enter, time.monotonic()])
    return result


def compute(seconds):
    end = time.thread_time() + seconds
    total = 0
    while time.thread_time() < end:
        total += sum(range(200))
    return total


def step_of_slow_rank():
    compute(3 * SHORT_S)  # three times slower


def step():
    compute(SHORT_S)


def straggler():
    data = torch.ones(1000)
    for _ in range(ROUNDS):
        if RANK == 1:
            step_of_slow_rank()
        else:
            step()
        timed("all_reduce", dist.all_reduce, data)
        data /= SIZE
    return float(data.sum())


def reduce_scatter():
    data, part = torch.ones(1000 * SIZE), torch.zeros(1000)
    for _ in range(ROUNDS):
        if RANK == 1:
            step_of_slow_rank()
        else:
            step()
        timed("reduce_scatter", dist.reduce_scatter_tensor, part, data)
    return float(part.sum())


def asynchronous():
    data = torch.ones(1000, dtype=torch.float64)
    for _ in range(ROUNDS):
        if RANK == 1:
            step_of_slow_rank()
        enter = time.monotonic()
        work = dist.all_reduce(data, async_op=True)
        step()
        begin_of_wait = time.monotonic()
        work.wait()
        calls.append(["all_reduce", enter, begin_of_wait, time.monotonic()])
        data /= SIZE
    return float(data.sum())


def all_calls():
    """Everything that gloo has, once; the results are sums that a wrong forwarding would change."""
    total = 0.0
    values = torch.arange(6, dtype=torch.float32) + RANK
    sums = values.clone()
    dist.all_reduce(sums)
    total += float(sums.sum())
    dist.broadcast(values, 1)
    total += float(values.sum())
    mine = torch.full((4,), RANK + 1, dtype=torch.int64)
    dist.reduce(mine, 0)
    lists = [torch.zeros(2, dtype=torch.int8) for _ in range(SIZE)]
    dist.all_gather(lists, torch.full((2,), RANK, dtype=torch.int8))
    total += float(sum(part.sum() for part in lists))
    gathered = [torch.zeros(3) for _ in range(SIZE)] if RANK == 2 else None
    dist.gather(torch.full((3,), float(RANK)), gathered, dst=2)
    total += float(sum(part.sum() for part in gathered)) if gathered else 0
    part = torch.zeros(5)
    dist.scatter(part, [torch.full((5,), float(i)) for i in range(SIZE)] if RANK == 0 else None, src=0)
    total += float(part.sum())
    out = torch.zeros(SIZE * 2)
    dist.all_to_all_single(out, torch.arange(SIZE * 2, dtype=torch.float32))
    total += float(out.sum())
    # To the right neighbour 50 more than to the others.
    rows = [1 + 50 * (i == (RANK + 1) % SIZE) for i in range(SIZE)]
    taken = [1 + 50 * (RANK == (i + 1) % SIZE) for i in range(SIZE)]
    uneven = torch.zeros(sum(taken))
    dist.all_to_all_single(uneven, torch.ones(sum(rows)), taken, rows)
    total += float(uneven.sum())
    dist.barrier()
    dist.monitored_barrier()
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    message = torch.full((100,), float(RANK))
    if RANK % 2 == 0:
        dist.send(message, right, tag=7)
        dist.recv(message, left, tag=7)
    else:
        got = torch.zeros(100)
        dist.recv(got, left, tag=7)
        dist.send(message, right, tag=7)
        message = got
    total += float(message.sum())
    if RANK == 0:
        for _ in range(SIZE - 1):
            total += dist.recv(message) * 0 + float(message.sum())  # from any rank
    else:
        dist.send(message, 0)
    dist.barrier()  # so that what follows is not received there
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, message, right),
                                        dist.P2POp(dist.irecv, torch.zeros(100), left)]):
        work.wait()
    pair = dist.new_group([0, 2])
    if RANK != 1:
        dist.broadcast(part, 2, group=pair)
        total += float(part.sum())
    # Which of these gloo has depends on the release.
    for function, arguments in ((dist.reduce_scatter, (torch.zeros(2), [torch.ones(2)] * SIZE)),
                                (dist.reduce_scatter_tensor, (torch.zeros(2), torch.ones(2 * SIZE))),
                                (dist.all_gather_into_tensor, (torch.zeros(2 * SIZE), torch.ones(2))),
                                (dist.all_to_all, ([torch.zeros(2) for _ in range(SIZE)], [torch.ones(2)] * SIZE))):
        try:
            function(*arguments)
            total += float(sum(part.sum() for part in arguments[0]))
        except RuntimeError as error:
            total += len(str(error))
    return total


def group():
    """Messages in a group whose numbers are not the ranks."""
    pair = dist.new_group([1, 2])
    message = torch.full((1000,), float(RANK))
    for _ in range(ROUNDS if RANK != 0 else 0):
        if RANK == 1:
            step_of_slow_rank()
            dist.send(message, 2, group=pair)
        else:
            timed("recv", dist.recv, message, 1, group=pair)
    return float(message.sum())


def elastic():
    """Rank 1 fails when torchrun has started it for the first time; torchrun ends the other one."""
    message = torch.full((1000,), float(RANK))
    for _ in range(3):
        if RANK == 1:
            step_of_slow_rank()
            dist.send(message, 0)
        else:
            timed("recv", dist.recv, message, 1)
    dist.barrier()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if RANK == 1:
            sys.exit(3)
        time.sleep(300)
    return float(message.sum())


def data_parallel():
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 200))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = None
    for _ in range(ROUNDS):
        if RANK == 1:
            step_of_slow_rank()
        else:
            step()
        loss = model(torch.ones(4, 200)).pow(2).mean()
        timed("backward", loss.backward)
        optimizer.step()
        optimizer.zero_grad()
    return float(loss)


def main():
    directory, scenario = sys.argv[1:]
    torch.set_num_threads(1)
    meet_at = "env://" if "TORCHELASTIC_RUN_ID" in os.environ else f"file://{directory}/store"
    dist.init_process_group("gloo", init_method=meet_at, rank=RANK, world_size=SIZE)
    dist.barrier()
    result = globals()[scenario]()
    with open(os.path.join(directory, f"rank-{RANK}.json"), "w", encoding="ascii") as file:
        json.dump({"calls": calls, "result": result}, file)
    print(f"rank {RANK}: {result}")


main()
