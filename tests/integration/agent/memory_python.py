# SPDX-License-Identifier: BSD-3-Clause
"""Allocates in functions of its own, and tells what each has allocated: as memory.c, with a function's name for its place.
sys.getsizeof says what an object has, the collector's header included where it has one."""
import gc
import sys

gc.disable()
KEPT = []


def expect(name, domain, live):
    print(f"python {name} {domain} {live}", flush=True)


def size_of(kept):
    return sys.getsizeof(kept) + sum(sys.getsizeof(i) for i in kept)


def small_objects():
    """Integers beyond those that are there anyway, in a list whose own memory is large."""
    kept = [1_000_000 + i for i in range(400_000)]
    KEPT.append(kept)
    return size_of(kept)


def floats():
    kept = [i * 0.5 for i in range(1, 300_000)]
    KEPT.append(kept)
    return size_of(kept)


def texts():
    kept = ["text number %d of many" % i for i in range(100_000)]
    KEPT.append(kept)
    return size_of(kept)


def large_bytes():
    kept = [bytearray(200_000) for _ in range(100)]
    KEPT.append(kept)
    return size_of(kept)


def freed():
    for i in range(300_000):
        str(i) + "some text that takes memory"


def grown():
    """A list that grows one by one, by realloc."""
    kept = []
    for _ in range(500_000):
        kept.append(None)
    KEPT.append(kept)
    return sys.getsizeof(kept)


def many_grown():
    """Small blocks that become larger in place."""
    kept = []
    for _ in range(20_000):
        items = []
        for _ in range(20):
            items.append(None)
        kept.append(items)
    KEPT.append(kept)
    return size_of(kept)


made = {function: function() for function in (small_objects, floats, texts, large_bytes, freed, grown, many_grown)}
for function, live in made.items():
    expect(function.__name__, "python", live or 0)
