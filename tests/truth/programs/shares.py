"""shares.py SECONDS [SCENARIO...]: takes turns at the scenarios until SECONDS of CPU time have passed and
prints, as JSON, how many seconds of wall clock each part of each scenario took by the program's own
clock. What the parts should take of their scenario is in SHARES, known by construction: they run for
as many turns as take that much CPU time. The CPU clock is read between turns of all scenarios only: the
kernel takes the processor away from a thread that reads it, if that is due, and the sample that is due
meanwhile is taken there."""

import asyncio
import ctypes
import functools
import itertools
import json
import sys
import time
import zlib

try:
    import numpy
except ImportError:
    numpy = None

SHARES = {
    "split": {"heavy": 0.70, "light": 0.30},
    "lines": {"first": 0.60, "second": 0.40},
    "recursion": {"bottom": 0.60, "middle": 0.40},
    "callbacks": {"sort_key": 0.30, "reducer": 0.15, "compare": 0.25, "__del__": 0.20, "crc": 0.10},
    "generators": {"innermost": 0.55, "between": 0.30, "outermost": 0.15},
    "coroutines": {"awaited": 0.60, "awaiting": 0.25, "driven": 0.15},
    "vectorize": {"element": 0.65, "scalar": 0.35},
}
DEPTH = 900

clock = time.perf_counter
cpu_clock = time.thread_time
own_s = {}
spins_per_second = 1000.0  # at first, to measure it


def spin(seconds):
    for _ in range(round(seconds * spins_per_second)):
        for _ in range(500):
            pass


def turns_in(seconds, function, *arguments):
    """How often a function can be called in so much of the thread's CPU time."""
    begin = cpu_clock()
    for _ in range(10):
        function(*arguments)
    return max(1, round(10 * seconds / (cpu_clock() - begin)))


def account(part, begin):
    own_s[part] = own_s.get(part, 0.0) + clock() - begin


def work(scenario, part):
    """Spins for the part's share of a turn. Turns are no multiple of a sampling period."""
    begin = clock()
    spin(0.0713 * SHARES[scenario][part])  # calls: spin
    account(part, begin)  # calls: account


# --- two functions


def heavy():
    work("split", "heavy")  # calls: work


def light():
    work("split", "light")  # calls: work


def split():
    heavy()  # calls: heavy
    light()  # calls: light


# --- two lines of one function, which differ in nothing but the number of turns


def lines():
    a = clock()
    for x in itertools.repeat(7, 1200000): x * x  # line: first
    b = clock()
    for x in itertools.repeat(7, 800000): x * x  # line: second
    c = clock()
    own_s["first"] = own_s.get("first", 0.0) + b - a
    own_s["second"] = own_s.get("second", 0.0) + c - b


# --- recursion


def bottom():
    work("recursion", "bottom")  # calls: work


def middle():
    work("recursion", "middle")  # calls: work


def deep(levels):
    if levels == DEPTH // 2:
        middle()  # calls: middle
    if levels > 1:
        deep(levels - 1)  # calls: deep
    else:
        bottom()  # calls: bottom


def recursion():
    begin = clock()
    deep(DEPTH)  # calls: deep
    own_s["deep"] = own_s.get("deep", 0.0) + clock() - begin


# --- Python, C, Python, C


def sort_key(item):
    work("callbacks", "sort_key")  # calls: work
    return item


def by_sort():
    sorted([1], key=sort_key)  # calls: sort_key


def reducer(total, item):
    work("callbacks", "reducer")  # calls: work
    return total + item


def by_reduce():
    functools.reduce(reducer, [1, 2])  # calls: reducer


def compare(a, b):
    work("callbacks", "compare")  # calls: work
    return 0


libc = ctypes.CDLL(None)
c_compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(compare)
two_numbers = (ctypes.c_int * 2)(2, 1)


def by_qsort():
    libc.qsort(two_numbers, 2, ctypes.sizeof(ctypes.c_int), c_compare)  # calls: compare


class Dropped:  # calls: Dropped
    def __del__(self):
        work("callbacks", "__del__")  # calls: work


def by_drop():
    dropped = Dropped()
    del dropped  # calls: __del__


block = bytes(range(256)) * 4096


def crc(item):
    """Nearly all of it in zlib: asking for the CPU clock every now and then would be an occasion to lose the CPU."""
    begin = clock()
    for _ in range(crc_turns):
        zlib.crc32(block)
    account("crc", begin)  # calls: account
    return item


def by_max():
    max([1], key=crc)  # calls: crc


def callbacks():
    by_sort()  # calls: by_sort
    by_reduce()  # calls: by_reduce
    by_qsort()  # calls: by_qsort
    by_drop()  # calls: by_drop
    by_max()  # calls: by_max


# --- generators


def innermost():
    for _ in range(3):
        begin = clock()
        spin(0.0713 * SHARES["generators"]["innermost"] / 3)  # calls: spin
        account("innermost", begin)  # calls: account
        yield


def between():
    work("generators", "between")  # calls: work
    yield from innermost()  # calls: innermost


def outermost():
    yield from between()  # calls: between
    work("generators", "outermost")  # calls: work


def generators():
    for _ in outermost():  # calls: outermost
        pass


# --- coroutines; three tasks of which two wait while one works


async def awaited():
    for _ in range(3):
        begin = clock()
        spin(0.0713 * SHARES["coroutines"]["awaited"] / 9)  # calls: spin
        account("awaited", begin)  # calls: account
        await asyncio.sleep(0)


async def awaiting():
    begin = clock()
    spin(0.0713 * SHARES["coroutines"]["awaiting"] / 3)  # calls: spin
    account("awaiting", begin)  # calls: account
    await awaited()  # calls: awaited


async def driven():
    await awaiting()  # calls: awaiting
    begin = clock()
    spin(0.0713 * SHARES["coroutines"]["driven"] / 3)  # calls: spin
    account("driven", begin)  # calls: account


async def three_tasks():
    await asyncio.gather(driven(), driven(), driven())  # calls: driven


def coroutines():
    loop.run_until_complete(three_tasks())  # calls: three_tasks driven


# --- numpy calling Python, which calls numpy


def element(item):
    begin = clock()
    for _ in range(element_turns):
        numpy.sqrt(many)
    account("element", begin)  # calls: account
    return item


def scalar(item):
    begin = clock()
    spin(0.0713 * SHARES["vectorize"]["scalar"] / 4)  # calls: spin
    account("scalar", begin)  # calls: account
    return item


def by_vectorize():
    vectorized_element(four)  # calls: element
    vectorized_scalar(four)  # calls: scalar


if numpy:
    many = numpy.arange(100000.0)
    four = numpy.arange(4)
    vectorized_element = numpy.vectorize(element, otypes=[int])
    vectorized_scalar = numpy.vectorize(scalar, otypes=[int])


def vectorize():
    by_vectorize()  # calls: by_vectorize


if __name__ == "__main__":
    loop = asyncio.new_event_loop()
    begin = cpu_clock()
    spin(3.0)  # calls: spin
    spins_per_second = 3000 / (cpu_clock() - begin)
    crc_turns = turns_in(0.0713 * SHARES["callbacks"]["crc"], zlib.crc32, block)  # calls: turns_in
    if numpy:
        element_turns = turns_in(0.0713 * SHARES["vectorize"]["element"] / 4, numpy.sqrt, many)  # calls: turns_in
    sys.setrecursionlimit(4 * DEPTH)
    names = sys.argv[2:] or [name for name in SHARES if numpy or name != "vectorize"]  # calls: <listcomp>
    turns = [globals()[name] for name in names]  # calls: <listcomp>
    finish = cpu_clock() + float(sys.argv[1])
    while cpu_clock() < finish:
        for turn in turns:
            turn()  # calls: split lines recursion callbacks generators coroutines vectorize
    loop.close()
    print(json.dumps(own_s))
