# SPDX-License-Identifier: BSD-3-Clause
"""Does things that are hard for a sampler, for SECONDS. Prints one line per part that does not depend on time or chance.
sampler_stress_program.py SECONDS [LIBRARY]: a small library to load and unload all the time.

`# calls:` behind a line: the functions of this file that it can call."""
import ctypes
import functools
import os
import subprocess
import sys
import threading
import time

import _ctypes

SECONDS = float(sys.argv[1])
LIBRARY = sys.argv[2] if len(sys.argv) > 2 else None
SLICE = min(0.3, SECONDS / 24)
sys.setrecursionlimit(5000)


def ping():
    return pong_leaf(1)  # calls: pong_leaf


def pong():
    return ping_leaf(1)  # calls: ping_leaf


def pong_leaf(value):
    return value + 1


def ping_leaf(value):
    return value - 1


def toggle(end):
    good = True
    while time.perf_counter() < end:
        for _ in range(200):
            good &= ping() == 2  # calls: ping
            good &= pong() == 0  # calls: pong
    return good


def gen_outer(count):
    yield from gen_inner(count)  # calls: gen_inner


def gen_inner(count):
    for value in range(count):
        yield gen_leaf(value)  # calls: gen_leaf


def gen_leaf(value):
    return value * 2


def generators(end):
    good = True
    while time.perf_counter() < end:
        good &= sum(gen_outer(100)) == 9900  # calls: gen_outer
        half = gen_outer(10)  # enters its frame from 3.11 on  # calls: gen_outer
        next(half)  # calls: gen_outer
        half.close()  # closes what it delegates to by itself  # calls: gen_outer gen_inner
    return good


def throw(depth):
    if depth == 0:
        raise KeyError(depth)
    try:
        throw(depth - 1)  # calls: throw
    finally:
        throw_leaf()  # calls: throw_leaf


def throw_leaf():
    return None


def exceptions(end):
    good = True
    while time.perf_counter() < end:
        try:
            throw(20)  # calls: throw
            good = False
        except KeyError:
            pass
    return good


def made_code(end):
    serial, good = 0, True
    while time.perf_counter() < end:
        serial = (serial + 1) % 50
        space = {}
        exec(compile("def made_%d(n):\n  t = 0\n  for i in range(n):\n    t += i\n  return t\n" % serial,
                     "<made %d>" % serial, "exec"), space)
        good &= space["made_%d" % serial](400) == 79800
    return good


def short_thread(done):
    done.append(short_leaf())  # calls: short_leaf


def short_leaf():
    return 1


def thread_storm(end):
    good = True
    while time.perf_counter() < end:
        done = []
        threads = [threading.Thread(target=short_thread, args=(done,)) for _ in range(16)]  # calls: <listcomp>
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        good &= len(done) == 16
    return good


COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
LIBC = ctypes.CDLL(None)
LIBC.qsort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, COMPARE]
LIBC.qsort.restype = None


def c_compare(left, right):
    return c_leaf(left[0], right[0])  # calls: c_leaf


def c_leaf(left, right):
    return (left > right) - (left < right)


def sort_key(value):
    return key_leaf(value)  # calls: key_leaf


def key_leaf(value):
    return -value


def reducer(left, right):
    return left ^ right


def callbacks(end):
    compare, good, data = COMPARE(c_compare), True, list(range(100))
    while time.perf_counter() < end:
        array = (ctypes.c_int * 64)(*((value * 37) % 64 for value in range(64)))  # calls: <genexpr>
        LIBC.qsort(array, 64, 4, compare)  # calls: c_compare
        good &= list(array) == data[:64]
        good &= sorted(data, key=sort_key)[0] == 99  # calls: sort_key
        good &= functools.reduce(reducer, data) == 0  # calls: reducer
    return good


class Finalized:  # calls: Finalized
    count = 0

    def __del__(self):  # called from: anywhere
        final_leaf()  # calls: final_leaf


def final_leaf():
    Finalized.count += 1


def finalizers(end):
    made, before = 0, Finalized.count
    while time.perf_counter() < end:
        for _ in range(50):
            Finalized()
            made += 1
    return made == Finalized.count - before


def descend(depth):
    return descend(depth - 1) if depth else deep_leaf()  # calls: descend deep_leaf


def deep_leaf():
    return 900


def recursion(end):
    good = True
    while time.perf_counter() < end:
        good &= descend(900) == 900  # calls: descend
    return good


def libraries(end):
    good = True
    while LIBRARY is not None and time.perf_counter() < end:
        handle = _ctypes.dlopen(LIBRARY, os.RTLD_NOW)
        good &= ctypes.CDLL(LIBRARY, handle=handle).small_sum(1000) == 499500
        _ctypes.dlclose(handle)
    return good


def fork_thread(failures):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if fork_leaf() == 4950 else 1)  # calls: fork_leaf
    failures.append(os.waitpid(pid, 0)[1])


def fork_leaf():
    return sum(range(100))


def forks(end):
    failures = []
    while time.perf_counter() < end:
        threads = [threading.Thread(target=fork_thread, args=(failures,)) for _ in range(2)]  # calls: <listcomp>
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return not any(failures)


def children(end):
    good = True
    while time.perf_counter() < end:
        good &= subprocess.run(["/bin/sh", "-c", "exec /bin/true"]).returncode == 0
    return good


FIRST_PARTS = (toggle, generators, exceptions, made_code, thread_storm)
OTHER_PARTS = (callbacks, finalizers, recursion, libraries, forks, children)


def until(stop):
    return min(stop, time.perf_counter() + SLICE)


def main():
    results = dict.fromkeys(FIRST_PARTS + OTHER_PARTS, True)
    stop = time.perf_counter() + SECONDS
    beside = threading.Thread(target=toggle, args=(stop,))  # the GIL changes hands all the time
    beside.start()
    while time.perf_counter() < stop:
        for part in FIRST_PARTS:
            results[part] &= part(until(stop))  # calls: toggle generators exceptions made_code thread_storm until
        for part in OTHER_PARTS:
            results[part] &= part(until(stop))  # calls: callbacks finalizers recursion libraries forks children until
    beside.join()
    for part, good in results.items():
        print(part.__name__, "ok" if good else "WRONG")


main()  # calls: main
