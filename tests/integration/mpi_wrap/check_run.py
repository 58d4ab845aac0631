#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs an MPI program under the fake agent and an MPI preload object, and compares what was
recorded with what the program itself says it did.

check_run.py --launcher 'mpirun ... -n' --ranks N --agent A.so --wrap W.so [--expect MODE] -- CMD...

MODE: traffic   the program wrote $EXPECT_DIR/rank*.txt (see traffic.c)
      events    the program wrote $EXPECT_DIR/events*.txt (see events.c)
      paused    the same, while recording was paused every now and then
      consistent   its events go together
      lost      it ran with rings that nobody empties
      churn     it made communicators without end (see churn.c)
      crowd     it kept more of them than the table has entries
      ring      every rank sent --bytes once to its right neighbour and nothing else
      started   start and end of MPI were seen
      nothing   no MPI call may have been recorded
      none      the same without an agent
"""

import argparse
import collections
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import events


class Dump:
    """What the fake agent of one process wrote."""

    def __init__(self, path):
        self.process, self.peers, self.communicators, self.drops = {}, {}, {}, []
        self.sites, self.sizes, self.events = [], collections.Counter(), []
        self.operations = self.level = 0
        self.intents = self.differing_intents = 0
        for line in path.read_text().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "process":
                self.process = {k: int(v) for k, v in (w.split("=") for w in rest.split())}
            elif kind == "library":
                self.library = rest
            elif kind == "comm":
                index, identity, size, name = rest.split(" ", 3)
                self.communicators[int(index)] = (int(identity), int(size), name)
            elif kind == "site":
                name, *numbers = rest.split()
                self.sites.append((name, *map(int, numbers)))
            elif kind == "peer":
                src, dst, messages, size = map(int, rest.split())
                self.peers[src, dst] = (messages, size)
            elif kind == "size":
                name, bin_number, count = rest.split()
                self.sizes[name] += int(count)
            elif kind == "operations":
                self.operations, self.level = map(int, rest.split())
            elif kind == "event":
                self.events.append(events.parse(rest.split()))
            elif kind == "intents":
                self.intents, self.differing_intents = map(int, rest.split())
            elif kind == "drop":
                self.drops.append(rest)

    def ops(self):
        sums = collections.defaultdict(lambda: [0, 0, 0])
        for name, _, count, sent, received, _ in self.sites:
            for i, value in enumerate((count, sent, received)):
                sums[name][i] += value
        return {k: tuple(v) for k, v in sums.items()}


def fail(text):
    print("FAILED:", text)
    sys.exit(1)


def check_common(dumps, ranks, has_world, lossless):
    if sorted(d.process["rank"] for d in dumps) != list(range(ranks)):
        fail(f"ranks seen: {sorted(d.process['rank'] for d in dumps)}")
    for d in dumps:
        p = d.process
        if not p["started"] or not p["ended"] or p["depth"] != 0 or p["size"] != ranks or not d.library:
            fail(f"process line of rank {p['rank']}: {p} {d.library}")
        if d.differing_intents != 0:
            fail(f"rank {p['rank']}: {d.differing_intents} of {d.intents} calls were not what was said before them")
        if d.drops and lossless:
            fail(f"rank {p['rank']} dropped {d.drops}")
        predefined = (d.communicators.get(0), d.communicators.get(1))
        if has_world and predefined != ((1, ranks, "MPI_COMM_WORLD"), (2, 1, "MPI_COMM_SELF")):
            fail(f"predefined communicators: {d.communicators}")
        for site in d.sites:
            if not site[5] and site[2] != 0:  # none: what makes a persistent request, while recording was paused
                fail(f"times of {site}")


def read_expectation(path):
    peers, ops, named = {}, {}, []
    for line in path.read_text().splitlines():
        kind, rest = line.split(" ", 1)
        if kind == "peer":
            src, dst, messages, size = map(int, rest.split())
            peers[src, dst] = (messages, size)
        elif kind == "op":
            name, *numbers = rest.split()
            ops[name] = tuple(map(int, numbers))
        else:
            name, _, size = rest.rpartition(" ")
            named.append((name, int(size)))
    return peers, ops, named


def check_traffic(dumps, directory):
    identities, names = {}, {}
    for d in dumps:
        rank = d.process["rank"]
        peers, ops, named = read_expectation(directory / f"rank{rank}.txt")
        if not peers or not ops:
            fail(f"rank {rank} expects nothing")
        if d.intents == 0:
            fail(f"rank {rank}: no call was compared with what was said before it")
        if d.peers != peers:
            for key in sorted(set(peers) | set(d.peers)):
                if peers.get(key) != d.peers.get(key):
                    print(f"{key}: expected {peers.get(key)}, recorded {d.peers.get(key)}")
            fail(f"matrix of rank {rank}")
        recorded = d.ops()
        for name, numbers in ops.items():
            if recorded.get(name) != numbers:
                fail(f"rank {rank}: {name}: expected calls, sent, received {numbers}, recorded {recorded.get(name)}")
        here = [(n, s) for _, s, n in d.communicators.values() if n and not n.startswith("MPI_COMM_")]
        if sorted(here) != sorted(named):
            fail(f"rank {rank}: communicators {sorted(here)}, expected {sorted(named)}")
        seen = [i for i, _, _ in d.communicators.values()]
        if len(set(seen)) != len(seen):
            fail(f"rank {rank}: two communicators of one identity: {d.communicators}")
        for identity, _, name in d.communicators.values():
            if name and identities.setdefault(name, identity) != identity:
                fail(f"'{name}' has another identity on rank {rank}")
            if name and names.setdefault(identity, name) != name:
                fail(f"'{name}' and '{names[identity]}' have one identity")
        # Point-to-point sizes: as many as messages were sent, or received with data or without.
        for op in ("MPI_Send", "MPI_Isend", "MPI_Sendrecv"):
            if op in ops and d.sizes[op] == 0:
                fail(f"rank {rank}: no sizes of {op}")


def check_events(dumps):
    try:
        events.check_all({d.process["rank"]: d.events for d in dumps}, {d.process["rank"]: d.operations for d in dumps})
    except events.Wrong as wrong:
        fail(wrong)


def check_expected_events(dumps, directory, level):
    for d in dumps:
        rank = d.process["rank"]
        names = {identity: name for identity, _, name in d.communicators.values() if name}
        expected = (directory / f"events{rank}.txt").read_text().splitlines()
        if level and not 0 < len(d.events) < len(expected) / 2:
            fail(f"{len(d.events)} of {len(expected)} events at level {level}")
        counted = sum(line.split()[0] in "0245" for line in expected)
        if d.operations != counted:
            fail(f"rank {rank}: {d.operations} operations counted, {counted} made")
        try:
            events.check_exactly(rank, d.events, names, expected, level)
        except events.Wrong as wrong:
            fail(f"rank {rank}: {wrong}")


def check_paused_events(dumps, directory):
    """Checks the expected events outside of pauses: they have the same numbers, and there are no ends without starts."""
    for d in dumps:
        names = {identity: name for identity, _, name in d.communicators.values() if name}
        expected = (directory / f"events{d.process['rank']}.txt").read_text().splitlines()
        if not 0.2 * len(expected) < len(d.events) < 0.8 * len(expected):
            fail(f"{len(d.events)} of {len(expected)} events, although half of the calls were paused")
        if not 0 < d.operations < 0.8 * sum(line.split()[0] in "0245" for line in expected):
            fail(f"{d.operations} operations counted")
        try:
            events.check_part(d.events, names, expected)
        except events.Wrong as wrong:
            fail(f"rank {d.process['rank']}: {wrong}")


RING_EVENTS = 8192


def check_lost(dumps, directory):
    """The ring fills, is not emptied, and the level rises by one step only."""
    for d in dumps:
        made = len((directory / f"events{d.process['rank']}.txt").read_text().splitlines())
        lost = dict(drop.split() for drop in d.drops)
        if len(d.events) != RING_EVENTS or d.level != 1:
            fail(f"{len(d.events)} of {made} events kept, level {d.level}")
        if lost.keys() != {"mpi_event_ring_full"} or not 0 < int(lost["mpi_event_ring_full"]) < made - RING_EVENTS:
            fail(f"{made} events made, lost {d.drops}")


def check_churn(dumps, count, most_entries):
    for d in dumps:
        ops = d.ops()
        if ops["MPI_Barrier"][0] < count or len(d.communicators) > most_entries or len(d.sites) > 8 * most_entries:
            fail(f"rank {d.process['rank']}: {ops}, {len(d.communicators)} communicators, {len(d.sites)} sites")
        if d.operations < 3 * count:
            fail(f"rank {d.process['rank']}: {d.operations} operations")


def check_crowd(dumps, count):
    """The last entry stands for all communicators that found no other, and that is counted once."""
    for d in dumps:
        entries = len(d.communicators)
        last = d.communicators[max(d.communicators)]
        if count < entries or last[0] != 3 or last[2] != "(further communicators)":
            fail(f"{entries} entries, the last {last}")
        if d.drops != ["communicator_table_full 1"]:
            fail(f"dropped {d.drops}")
        barriers = [s[2] for s in d.sites if s[0] == "MPI_Barrier"]
        if sum(barriers) != count or max(barriers) != count - (entries - 1 - 2):
            fail(f"{sum(barriers)} barriers, {max(barriers)} of them on one entry")


def check_ring(dumps, ranks, size, more):
    for d in dumps:
        rank = d.process["rank"]
        expected = {(rank, (rank + 1) % ranks): (1, size)}
        for recorder, src, dst, messages, more_bytes in (map(int, peer.split(",")) for peer in more):
            if recorder == rank:
                expected[src, dst] = (messages, more_bytes)
        if d.peers != expected:
            fail(f"rank {rank}: matrix {d.peers}, expected {expected}")
        received = sum(site[4] for site in d.sites)
        if received < size:
            fail(f"rank {rank}: received {received} bytes, {d.sites}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launcher", default="")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--wrap", required=True, help="preload objects, separated by colons")
    parser.add_argument("--expect", choices=("traffic", "events", "paused", "consistent", "lost", "churn", "crowd", "ring", "started", "nothing", "none"), required=True)
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="with churn, crowd: communicators made")
    parser.add_argument("--most-entries", type=int, default=0, help="with churn: for all of them")
    parser.add_argument("--min-ranges", type=int, default=1)
    parser.add_argument("--no-world", action="store_true", help="the program uses sessions alone")
    parser.add_argument("--peer", action="append", default=[], metavar="RANK,SRC,DST,MESSAGES,BYTES",
                        help="with ring: what RANK recorded besides")
    parser.add_argument("--then", help="one more object to preload, after ours")
    parser.add_argument("--output", help="what the program must print, sorted by lines")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = [c for c in options.command if c != "--"]
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        # Spawned processes are started by the launcher's daemon: they are not preloaded.
        environment = dict(os.environ, FAKE_AGENT_DIR=name, EXPECT_DIR=name, OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl_base_warn_component_unused="0",
                           OMPI_MCA_rmaps_base_oversubscribe="1",
                           # One rank waits for nobody.
                           OMPI_MCA_mpi_yield_when_idle="1" if options.ranks > 1 else "0")
        objects = [options.wrap] if options.expect == "none" else [options.agent, options.wrap]
        preload = "LD_PRELOAD=" + ":".join(objects + ([options.then] if options.then else []))
        launcher = shlex.split(options.launcher) + ([str(options.ranks)] if options.launcher else [])
        done = subprocess.run([*launcher, "env", preload, *command], env=environment, capture_output=True,
                              text=True, timeout=100)
        print(done.stderr, end="", file=sys.stderr)
        if done.returncode != 0:
            fail(f"exit status {done.returncode}\n{done.stdout}")
        wanted = sorted(options.output.replace("\\n", "\n").splitlines()) if options.output is not None else None
        if wanted is not None and sorted(done.stdout.splitlines()) != wanted:
            fail(f"output was\n{done.stdout}")
        dumps = [Dump(p) for p in directory.glob("[0-9]*.txt")]
        if options.expect == "none":
            if dumps:
                fail("an agent was loaded")
            return
        if options.expect == "nothing":
            if not dumps:
                fail("the fake agent was not loaded")
            for d in dumps:
                if d.process["started"] or d.sites or d.peers or d.communicators or d.process["ranges"]:
                    fail(f"something was recorded: {d.sites} {d.process}")
            return
        dumps = [d for d in dumps if d.process["started"]]
        check_common(dumps, options.ranks, not options.no_world, options.expect not in ("lost", "crowd"))
        if any(d.process["ranges"] < options.min_ranges for d in dumps):
            fail(f"code ranges told to the agent: {[d.process['ranges'] for d in dumps]}")
        if options.expect == "traffic":
            check_traffic(dumps, directory)
            check_events(dumps)
        elif options.expect == "events":
            level = 0 if "FAKE_AGENT_STRETCHES" in environment else int(environment.get("FAKE_AGENT_LEVEL", 0))
            check_expected_events(dumps, directory, level)
            if level == 0:
                check_events(dumps)
        elif options.expect == "paused":
            check_paused_events(dumps, directory)
        elif options.expect == "consistent":
            check_events(dumps)
        elif options.expect == "lost":
            check_lost(dumps, directory)
        elif options.expect == "churn":
            check_churn(dumps, options.count, options.most_entries)
        elif options.expect == "crowd":
            check_crowd(dumps, options.count)
        elif options.expect == "ring":
            check_ring(dumps, options.ranks, options.bytes, options.peer)
            if options.no_world:
                check_events(dumps)


if __name__ == "__main__":
    main()
