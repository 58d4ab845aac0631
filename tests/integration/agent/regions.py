# SPDX-License-Identifier: BSD-3-Clause
"""A program with regions, which knows how long they take: prints "name number" lines."""
import asyncio
import os
import sys
import threading
import time

import clusterprof

bounds = {}  # name: [from outside of begin and end, from inside of them]


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


class Timed:
    def __init__(self, name, **how):
        self.name, self.region = name, clusterprof.region(name, **how)

    def __enter__(self):
        self.before = time.monotonic_ns()
        self.region.__enter__()
        self.begun = time.monotonic_ns()
        return self

    def __exit__(self, *exception):
        ends = time.monotonic_ns()
        self.region.__exit__(*exception)
        self.outside, self.inside = time.monotonic_ns() - self.before, ends - self.begun
        spent = bounds.setdefault(self.name, [0, 0])
        spent[0] += self.outside
        spent[1] += self.inside


@clusterprof.region("decorated")
def decorated(number):
    spin(0.01)
    return number + 1


@clusterprof.region("generator")
def generator(count):
    for number in range(count):
        spin(0.005)
        given = yield number
        assert given is None


@clusterprof.region("coroutine")
async def coroutine():
    begun = time.monotonic_ns()
    spin(0.01)
    waits = time.monotonic_ns()
    await asyncio.sleep(0.05)  # not in the region
    goes_on = time.monotonic_ns()
    spin(0.01)
    bounds["coroutine"][1] += time.monotonic_ns() - goes_on + waits - begun
    return "done"


@clusterprof.region("async generator")
async def async_generator(count):
    for number in range(count):
        await asyncio.sleep(0.005)
        yield number


def in_thread():
    for number in range(5):
        with clusterprof.region("thread", n=number):
            spin(0.005)


async def concurrently():
    bounds["coroutine"] = [-time.monotonic_ns(), 0]
    assert await asyncio.gather(*(coroutine() for _ in range(3))) == ["done"] * 3
    bounds["coroutine"][0] += time.monotonic_ns()
    assert [number async for number in async_generator(4)] == [0, 1, 2, 3]


def main():
    print("active", int(clusterprof.active))
    instances = []
    with Timed("outer"):
        for number in range(3):
            with Timed("inner", n=number) as inner:
                spin(0.03 if number == 1 else 0.01)
            instances.append(inner)
    # Number 1, unless another one was kept from its processor.
    longest = max(range(3), key=lambda number: instances[number].inside)
    lead = instances[longest].inside - max(instances[number].outside for number in range(3) if number != longest)
    print(f"longest {longest}\nlead {lead}")
    for _ in range(4):
        try:
            with clusterprof.region("raises"):
                with clusterprof.region("inside"):
                    raise ValueError
        except ValueError:
            pass
    assert [decorated(number) for number in range(3)] == [1, 2, 3]
    assert list(generator(4)) == [0, 1, 2, 3]
    for _ in generator(4):
        break
    asyncio.run(concurrently())
    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with clusterprof.region("around fork"):
        child = os.fork()
        with clusterprof.region("child" if child == 0 else "parent"):
            spin(0.02)
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    before = time.monotonic_ns()
    with clusterprof.paused():
        begun = time.monotonic_ns()
        spin(0.1)
        time.sleep(0.05)
        ends = time.monotonic_ns()
    bounds["paused"] = [time.monotonic_ns() - before, ends - begun]
    with clusterprof.region("\u00e4\0b"):
        pass
    for name, (outer, inner) in bounds.items():
        print(f"{name}.outer {outer}\n{name}.inner {inner}")
    print("ctypes", int("ctypes" in sys.modules))


main()
