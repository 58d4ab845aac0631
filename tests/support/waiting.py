"""Who waited for whom, from what the ranks of waits.c and waits.py in tests/truth/programs wrote down: the
definitions of docs/metrics.md, applied to operations that the program itself named.

    mpirun -n 4 waits straggler DIRECTORY; waiting.py DIRECTORY     prints it as JSON
"""

import collections
import glob
import json
import os
import sys
from typing import NamedTuple

COLLECTIVE_KINDS = {"barrier": "wait_at_barrier", "nxn": "wait_at_nxn", "1xn": "late_broadcast", "nx1": "early_reduce",
                    "scan": "early_scan"}


class Note(NamedTuple):
    """One MPI call of one rank as far as one operation is concerned; or what a rank did outside MPI ("work")."""
    rank: int
    thread: int
    what: str  # send, send_done, receive, probe, collective, work; program: from MPI_Init to the end of MPI_Finalize
    key: str  # the same on all ranks that take part in the operation
    call: str
    where: str  # the function of the program
    kind: str
    number: int  # of the call: one that completes several operations has a note for each
    peer: int
    place: int  # of a collective: rank in the communicator
    root: int  # likewise, -1 without one
    enter_ns: int
    exit_ns: int
    start_ns: int  # when the operation was begun
    ready_at_enter_ns: int = 0  # how long the thread had waited for a processor until then: calls of waits.c, and work
    ready_at_exit_ns: int = 0  # of waits.py that computes


class Wait(NamedTuple):
    kind: str
    rank: int
    thread: int
    call: str
    where: str
    cause_rank: int
    cause_thread: int
    begin_ns: int
    end_ns: int

    @property
    def seconds(self):
        return (self.end_ns - self.begin_ns) / 1e9


def read(directory):
    notes = []
    for name in glob.glob(os.path.join(directory, "rank-*.jsonl")):
        with open(name) as file:
            notes += [Note(**json.loads(line)) for line in file]
    return notes


def _wait(kind, note, late_note, since_ns):
    end_ns = min(since_ns, note.exit_ns)
    return Wait(kind, note.rank, note.thread, note.call, note.where, late_note.rank, late_note.thread, note.enter_ns,
                max(end_ns, note.enter_ns))


def _message_waits(notes):
    """Of both sides of one message: (note, Wait)."""
    send = next(note for note in notes if note.what == "send")
    receive = next(note for note in notes if note.what == "receive")
    is_completed_later = any(note.what == "send_done" for note in notes)
    for note in notes:
        if note.what in ("receive", "probe"):
            yield note, _wait("late_sender", note, send, send.enter_ns)
        elif note.what == "send_done" or not is_completed_later:
            if note.exit_ns >= receive.start_ns:
                yield note, _wait("late_receiver", note, receive, receive.start_ns)


def _collective_waits(notes):
    kind = notes[0].kind
    for note in notes:
        if kind in ("barrier", "nxn"):
            causes = notes
        elif kind == "1xn":
            causes = [other for other in notes if other.place == note.root != note.place]
        elif kind == "nx1":
            causes = [other for other in notes if note.place == note.root != other.place]
        else:
            causes = [other for other in notes if other.place < note.place]
        if causes:
            last = max(causes, key=lambda other: other.start_ns)
            yield note, _wait(COLLECTIVE_KINDS[kind], note, last, last.start_ns)


def _end(wait):
    return wait.end_ns, wait.kind == "late_sender"


def waits(notes):
    """Every call that may have waited, with the longest of its operations' waits; also those of no length."""
    operations = collections.defaultdict(list)
    for note in notes:
        if note.what not in ("work", "program"):
            operations[note.what == "collective", note.key].append(note)
    of_call = {}
    for (is_collective, _), group in operations.items():
        for note, wait in (_collective_waits if is_collective else _message_waits)(group):
            call = (note.rank, note.number)
            # Of equal ones the receive is what the call surely waited for: a send may be buffered.
            if call not in of_call or _end(wait) > _end(of_call[call]):
                of_call[call] = wait
    return sorted(of_call.values(), key=lambda wait: wait.begin_ns)


def works(notes):
    """{rank: what it did outside MPI, in order of time}."""
    found = collections.defaultdict(list)
    for note in sorted(notes, key=lambda note: note.enter_ns):
        if note.what == "work":
            found[note.rank].append(note)
    return found


def _shared_ns(a, b, begin_ns, end_ns):
    return max(0, min(b, end_ns) - max(a, begin_ns))


LACKED_PROCESSOR = "waiting for a processor"  # the report has it in the place of a function


def causes(wait, work):
    """{function: seconds} of what the late rank did outside MPI while the other waited; "" for the rest."""
    found, rest = collections.Counter(), wait.end_ns - wait.begin_ns
    for note in work[wait.cause_rank]:
        shared = _shared_ns(note.enter_ns, note.exit_ns, wait.begin_ns, wait.end_ns)
        if shared and note.thread == wait.cause_thread:
            # Work that computes lacks a processor now and then, from its begin to its end.
            lacked = (note.ready_at_exit_ns - note.ready_at_enter_ns) / max(note.exit_ns - note.enter_ns, 1)
            found[note.where] += shared * (1 - lacked) / 1e9
            if lacked > 0:
                found[LACKED_PROCESSOR] += shared * lacked / 1e9
            rest -= shared
    found[""] += rest / 1e9
    return found


def root_causes(all_waits, work):
    """{(rank, function): {waiting rank: seconds}}: what a rank that was late did in the other's wait, and where it was
    waiting itself then, what that goes back to."""
    of_rank = collections.defaultdict(list)
    for wait in all_waits:
        if wait.end_ns > wait.begin_ns:
            of_rank[wait.rank].append(wait)
    found = collections.defaultdict(collections.Counter)

    def blame(wait, waiting_rank, depth):
        direct = causes(wait, work)
        for other in of_rank[wait.cause_rank]:
            begin_ns, end_ns = max(other.begin_ns, wait.begin_ns), min(other.end_ns, wait.end_ns)
            if begin_ns < end_ns and depth < 50:
                direct[""] -= (end_ns - begin_ns) / 1e9
                blame(other._replace(begin_ns=begin_ns, end_ns=end_ns), waiting_rank, depth + 1)
        for function, seconds in direct.items():
            found[wait.cause_rank, function][waiting_rank] += seconds

    for wait in all_waits:
        blame(wait, wait.rank, 0)
    return found


def summary(notes):
    all_waits, work = waits(notes), works(notes)
    pairs = collections.defaultdict(lambda: [0.0, 0, collections.Counter()])
    for wait in all_waits:
        pair = pairs[wait.kind, wait.rank, wait.cause_rank]
        pair[0] += wait.seconds
        pair[1] += 1
        pair[2].update(causes(wait, work))
    roots = [{"rank": rank, "function": function, "wait_s": round(sum(by.values()), 6),
              "waiting_ranks": sum(seconds > 0.001 for seconds in by.values())}
             for (rank, function), by in root_causes(all_waits, work).items()]
    return {"waits": [{"kind": kind, "rank": rank, "cause_rank": cause, "wait_s": round(seconds, 6), "count": count,
                       "doing": {name: round(part, 6) for name, part in doing.items() if part > 1e-4}}
                      for (kind, rank, cause), (seconds, count, doing) in sorted(pairs.items())],
            "root_causes": sorted(roots, key=lambda root: -root["wait_s"])}


if __name__ == "__main__":
    json.dump(summary(read(sys.argv[1])), sys.stdout, indent=1)
    print()
