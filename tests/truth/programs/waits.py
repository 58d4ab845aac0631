"""waits.py SCENARIO DIRECTORY [ROUNDS [SEED]]: what waits.c does, with mpi4py: ranks that make each other wait
and write down when they entered and left each call that can wait, and what they did instead.

    messages      buffers and pickled objects, blocking and not; odd ranks late, then even ones
    straggler     a random rank late by a random time, computing in Python, before barriers and reductions
    chain         rank 0 late, and by that 1, by that 2, ...
"""

import json
import os
import random
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
is_odd = rank % 2 == 1
partner = rank - 1 if is_odd else rank + 1
notes = []
settled = 0
numbers = list(range(100000))


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Call:
    """One call of MPI, by `with`; then what it was."""

    number = 0

    def __init__(self, call, where):
        Call.number += 1
        self.fields = dict(rank=rank, thread=0, call=call, where=where, kind="", number=Call.number, peer=-1, place=-1,
                           root=-1)

    def __enter__(self):
        self.enter_ns = now_ns()
        return self

    def __exit__(self, *_):
        self.exit_ns = now_ns()

    def note(self, what, key, start_ns=None, **more):
        notes.append({**self.fields, "what": what, "key": key, "enter_ns": self.enter_ns, "exit_ns": self.exit_ns,
                      "start_ns": start_ns or self.enter_ns, **more})


try:
    account = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
except FileNotFoundError:
    account = None


def ready_ns():
    """How long the thread has waited for a processor, by the kernel's account; 0 where it keeps none."""
    return int(os.pread(account, 100, 0).split()[1]) if account is not None else 0


def did(where, begin_ns, ready_at_begin_ns=None):
    """`ready_at_begin_ns`: for work that computes. What a sleep waits for a processor comes at its end."""
    call = Call("", where)
    call.enter_ns, call.exit_ns = begin_ns, now_ns()
    ready = {} if ready_at_begin_ns is None else {"ready_at_enter_ns": ready_at_begin_ns, "ready_at_exit_ns": ready_ns()}
    call.note("work", where, number=-1, **ready)


def load_batch(seconds):
    begin_ns, ready_at_begin_ns = now_ns(), ready_ns()
    while now_ns() < begin_ns + seconds * 1e9:
        sum(numbers)  # at fault: load_batch
    did("load_batch", begin_ns, ready_at_begin_ns)


def compute(seconds):
    begin_ns = now_ns()
    sum(range(20000))  # see waits.c
    time.sleep(seconds)  # at fault: compute
    did("compute", begin_ns)


def prepare_message(seconds):
    begin_ns = now_ns()
    sum(range(20000))  # see waits.c
    time.sleep(seconds)  # at fault: prepare_message
    did("prepare_message", begin_ns)


def unpack_message(seconds):
    begin_ns = now_ns()
    sum(range(20000))  # see waits.c
    time.sleep(seconds)  # at fault: unpack_message
    did("unpack_message", begin_ns)


def settle():
    global settled
    with Call("MPI_Barrier", "settle") as call:
        world.Barrier()
    call.note("collective", f"settle {settled}", kind="barrier", place=rank)
    settled += 1


def incoming(name, number):
    return f"{name} {number}: {partner} to {rank}"


def outgoing(name, number):
    return f"{name} {number}: {rank} to {partner}"


LATE = 0.04
small, large = bytearray(8), bytearray(4 << 20)


def buffers(number):
    if is_odd:
        prepare_message(LATE)
        with Call("MPI_Send", "buffers") as call:
            world.Send(small, partner)
        call.note("send", outgoing("Send", number))
    else:
        with Call("MPI_Recv", "buffers") as call:
            world.Recv(small, partner)
        call.note("receive", incoming("Send", number))


def objects(number):
    """mpi4py looks for a message before it receives one of unknown size."""
    if is_odd:
        prepare_message(LATE)
        with Call("MPI_Send", "objects") as call:
            world.send({"number": number}, partner)
        call.note("send", outgoing("send", number))
    else:
        with Call("MPI_Mprobe", "objects") as call:
            world.recv(source=MPI.ANY_SOURCE)
        call.note("receive", incoming("send", number))


def request(number):
    if is_odd:
        prepare_message(LATE)
        with Call("MPI_Send", "request") as call:
            world.Send(small, partner)
        call.note("send", outgoing("Irecv", number))
    else:
        start_ns = now_ns()
        started = world.Irecv(small, partner)
        compute(LATE / 2)
        with Call("MPI_Wait", "request") as call:
            started.Wait()
        call.note("receive", incoming("Irecv", number), start_ns)


def synchronous(number):
    if is_odd:
        with Call("MPI_Ssend", "synchronous") as call:
            world.Ssend(small, partner)
        call.note("send", outgoing("Ssend", number))
    else:
        unpack_message(LATE)
        with Call("MPI_Recv", "synchronous") as call:
            world.Recv(small, partner)
        call.note("receive", incoming("Ssend", number))


def large_request(number):
    if is_odd:
        with Call("MPI_Isend", "large_request") as call:
            started = world.Isend(large, partner)
        call.note("send", outgoing("Isend", number))
        with Call("MPI_Waitall", "large_request") as call:
            MPI.Request.Waitall([started])
        call.note("send_done", outgoing("Isend", number))
    else:
        unpack_message(LATE)
        with Call("MPI_Recv", "large_request") as call:
            world.Recv(large, partner)
        call.note("receive", incoming("Isend", number))


def messages(rounds):
    for number in range(rounds):
        for kind in (buffers, objects, request, synchronous, large_request):
            settle()
            kind(number)


def straggler(rounds):
    order = random.Random(seed)
    for number in range(rounds):
        who, seconds = order.randrange(size), order.uniform(0.08, 0.2)
        if rank == who:
            load_batch(seconds)
        compute(0.03)
        if number % 2 == 0:
            with Call("MPI_Barrier", "straggler") as call:
                world.Barrier()
            call.note("collective", f"step {number}", kind="barrier", place=rank)
        else:
            with Call("MPI_Allreduce", "straggler") as call:
                world.Allreduce(MPI.IN_PLACE, small, op=MPI.BXOR)
            call.note("collective", f"step {number}", kind="nxn", place=rank)


def chain(rounds):
    for number in range(rounds):
        settle()
        if rank > 0:
            with Call("MPI_Recv", "chain") as call:
                world.Recv(small, rank - 1)
            call.note("receive", f"chain {number}: {rank - 1} to {rank}")
        else:
            load_batch(0.06)
        if rank < size - 1:
            with Call("MPI_Send", "chain") as call:
                world.Send(small, rank + 1)
            call.note("send", f"chain {number}: {rank} to {rank + 1}")


SCENARIOS = {"messages": (messages, 3), "straggler": (straggler, 10), "chain": (chain, 8)}

if __name__ == "__main__":
    scenario, times = SCENARIOS[sys.argv[1]]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    settle()
    scenario(int(sys.argv[3]) if len(sys.argv) > 3 else times)
    with Call("MPI_Finalize", "<module>") as last:
        MPI.Finalize()
    last.note("collective", "finalize", kind="barrier", place=rank)
    with open(os.path.join(sys.argv[2], f"rank-{rank}.jsonl"), "w") as file:
        file.writelines(json.dumps(note) + "\n" for note in notes)
