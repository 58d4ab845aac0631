# SPDX-License-Identifier: BSD-3-Clause
"""Checks what must be true of the events (formats/wire/mpi_event.h) that the ranks of one run have written."""

import collections

SEND, SEND_DONE, RECEIVE, PROBE, COLLECTIVE, COLLECTIVE_START, COLLECTIVE_DONE = range(7)
NONBLOCKING = 2
# Of events.c:
TRUNCATED_TAGS = range(4646, 4700)  # some receives fail, and calls that fail have no sizes
LET_GO_TAGS = range(4800, 4802)  # some messages are received without an event
TAKEN_BACK_TAG = 43  # a library that can take a send back gives its number again
MASK = (1 << 64) - 1

Event = collections.namedtuple("Event", "thread kind op call channel peer tag sequence bytes flags members "
                                        "enter exit start mpi agreed")


# What members have to agree on: how many times as much one of them sends and receives, by (members, whether it is the root).
AGREED = {
    "Allgather": lambda members, root: 1 + members,
    "Allreduce": lambda members, root: 2,
    "Alltoall": lambda members, root: 2 * members,
    "Bcast": lambda members, root: 1,
    "Exscan": lambda members, root: 2,
    "Gather": lambda members, root: 1 + members if root else 1,
    "Reduce": lambda members, root: 2 if root else 1,
    "Reduce_scatter_block": lambda members, root: 1 + members,
    "Scan": lambda members, root: 2,
    "Scatter": lambda members, root: 1 + members if root else 1,
}


def parse(words):
    numbers = [int(w) for w in words[:2] + words[4:]]
    return Event(numbers[0], numbers[1], words[2], words[3], *numbers[2:])


def stream_of(rank, kind, channel, peer, tag):
    """wire::event_stream"""
    if kind >= COLLECTIVE:
        return channel
    pair = min(rank, peer) << 32 | max(rank, peer)
    value = (channel ^ (pair + 1) * 0x9E3779B97F4A7C15) & MASK
    value = (value ^ (value >> 32)) * 0xD6E8FEB86659FD93 & MASK
    return value ^ ((tag & 0xFFFFFFFF) >> 6)


def is_selected(stream, sequence, level):
    """wire::event_is_selected"""
    run = sequence >> 5
    value = ((stream if run == 0 else run) + 1) * 0x9E3779B97F4A7C15 & MASK
    value = (value ^ (value >> 32)) * 0xD6E8FEB86659FD93 & MASK
    return (value ^ (value >> 32)) & ((1 << level) - 1) == 0


class Wrong(Exception):
    pass


def check(condition, *what):
    if not condition:
        raise Wrong(" ".join(map(str, what)))


def check_times(events):
    """In the order in which one thread wrote them."""
    last = None
    for event in events:
        check(event.start <= event.enter <= event.exit, "times of", event)
        begun_earlier = event.kind in (SEND_DONE, COLLECTIVE_DONE) or event.kind == RECEIVE and event.flags & NONBLOCKING
        check(begun_earlier or event.start == event.enter, "begun before its call:", event)
        if last is not None and (event.enter, event.exit) != (last.enter, last.exit):
            check(last.exit <= event.enter, "calls overlap:", last, event)
            check(event.mpi >= last.mpi + last.exit - last.enter, "time inside MPI:", last, event)
            check(event.mpi <= last.mpi + event.enter - last.enter, "more time inside MPI than passed:", last, event)
        elif last is not None:
            check((event.call, event.mpi) == (last.call, last.mpi), "events of one call:", last, event)
        last = event


def numbers_are_complete(numbers, what):
    check(sorted(numbers) == list(range(len(numbers))), "numbers of", what, sorted(numbers))


def check_messages(ranks):
    """Everything that was sent was received, with the same identity."""
    sent, received, streams, probed = {}, {}, collections.defaultdict(list), set()
    for rank, events in ranks.items():
        for event in events:
            here_first = event.kind in (SEND, SEND_DONE)
            ends = (rank, event.peer) if here_first else (event.peer, rank)
            key = (*ends, event.channel, event.tag, event.sequence)
            if event.kind == SEND:
                again = key in sent and event.tag == TAKEN_BACK_TAG
                check(key not in sent or again, "sent twice:", key, event)
                sent[key] = event
                if not again:
                    streams[key[:4]].append(event.sequence)
            elif event.kind == RECEIVE:
                check(key not in received, "received twice:", key, event)
                received[key] = event
            elif event.kind == PROBE:
                probed.add(key)
    for stream, numbers in streams.items():
        numbers_are_complete(numbers, stream)
    lost = {key for key in sent.keys() - received.keys() if key[3] not in LET_GO_TAGS}
    check(not lost and received.keys() <= sent.keys(), "sent but not received:", lost, "received but not sent:",
          received.keys() - sent.keys())
    check(probed <= received.keys(), "found but not received:", probed - received.keys())
    for key, event in received.items():
        # MPI_Win_start need not wait for the post of its peer.
        check(sent[key].enter <= event.exit or event.op == "MPI_Win_start", "received before it was sent:", key, sent[key], event)
        sizes = {event.bytes, sent[key].bytes}
        check(len(sizes) == 1 or 0 in sizes and event.tag in TRUNCATED_TAGS, "another size:", sent[key], event)
    for rank, events in ranks.items():
        done = set()
        for event in events:
            if event.kind != SEND_DONE:
                continue
            key = (rank, event.peer, event.channel, event.tag, event.sequence)
            check(key in sent and sent[key].enter == event.start and sent[key].flags & NONBLOCKING,
                  "end of a send that was not started:", event)
            check(key not in done, "ended twice:", event)
            done.add(key)
    return len(sent)


def check_agreed(rank, event):
    """What the rank has said of the operation (wire::agreed_of_bytes) is a block of what it gave and got."""
    name = event.op.removeprefix("MPI_")
    name = name[1:].capitalize() if name.startswith("I") else name
    if name not in AGREED:
        check(event.agreed == 0, "nothing to agree on:", event)
        return
    check(event.bytes > 0 and event.bytes == (event.agreed - 1) * AGREED[name](event.members, rank == event.peer), "agreed", event)


def check_collectives(ranks):
    instances = collections.defaultdict(dict)
    streams = collections.defaultdict(list)
    for rank, events in ranks.items():
        started = {}
        for event in events:
            if event.kind == COLLECTIVE_DONE:
                check(started.get((event.channel, event.sequence)) == (event.start, event.op),
                      "end of an operation that was not started:", event)
            elif event.kind in (COLLECTIVE, COLLECTIVE_START):
                check(rank not in instances[event.channel, event.sequence], "entered twice:", event)
                instances[event.channel, event.sequence][rank] = event
                streams[rank, event.channel].append(event.sequence)
                started[event.channel, event.sequence] = (event.enter, event.op)
    for stream, numbers in streams.items():
        numbers_are_complete(numbers, stream)
    for (channel, sequence), members in instances.items():
        for rank, event in members.items():
            check_agreed(rank, event)
        kinds = {(e.op, e.peer, e.members) for e in members.values()}
        check(len(kinds) == 1, "one operation:", channel, sequence, kinds)
        if channel == 2:
            continue  # MPI_COMM_SELF is another one on each rank
        check(len({e.agreed for e in members.values()}) == 1, "agreed differently:", list(members.values()))
        check(len(members) == next(iter(kinds))[2], "missing in", kinds, "on channel", channel, "only",
              list(members))
        if next(iter(kinds))[0] in ("MPI_Barrier", "MPI_Allreduce", "MPI_Alltoall"):
            check(max(e.enter for e in members.values()) <= min(e.exit for e in members.values()),
                  "left before all had entered:", list(members.values()))
    return len(instances)


def check_all(ranks, operations):
    """ranks: the events by world rank, none of which was left out or lost."""
    for rank, events in ranks.items():
        for thread in {e.thread for e in events}:
            check_times([e for e in events if e.thread == thread])
        counted = sum(e.kind in (SEND, RECEIVE, COLLECTIVE, COLLECTIVE_START) for e in events)
        check(counted == operations[rank], "rank", rank, "has", counted, "operations in events and counted", operations[rank])
    check(check_messages(ranks) > 0 and check_collectives(ranks) > 0, "there is nothing to check")


def as_lines(events, names):
    return [f"{e.kind} {e.op} {e.call} {names.get(e.channel, e.channel)} {e.peer} {e.tag} {e.sequence} {e.bytes} "
            f"{e.flags} {e.members}" for e in events]


def check_part(events, names, expected):
    """The events are some of the lines of events.c, in their order, and each operation begins before it ends."""
    lines = iter(expected)
    for got in as_lines(events, names):
        check(got in lines, "not expected there:", got)
    begun = set()
    for event in events:
        key = (event.channel, event.peer, event.tag, event.sequence, event.start)
        if event.kind in (SEND, COLLECTIVE_START):
            begun.add((event.kind, *key))
        elif event.kind in (SEND_DONE, COLLECTIVE_DONE):
            check((event.kind - 1, *key) in begun, "end of what was not begun:", event)


def check_exactly(rank, events, names, expected, level):
    """expected: lines of events.c; names: of communicators by identity."""
    identities = {name: identity for identity, name in names.items()}
    lines = []
    for line in expected:
        words = line.split()
        if level == 0 or is_selected(stream_of(rank, int(words[0]), identities[words[3]], int(words[4]), int(words[5])),
                                     int(words[6]), level):
            lines.append(line)
    recorded = as_lines(events, names)
    for number, (want, got) in enumerate(zip(lines, recorded)):
        check(want == got, f"event {number}: expected\n  {want}\nrecorded\n  {got}\nafter\n  " +
              "\n  ".join(recorded[max(0, number - 3):number]))
    check(len(lines) == len(recorded), "expected", len(lines), "events, recorded", len(recorded),
          (lines[len(recorded):] + recorded[len(lines):])[:3])
