# SPDX-License-Identifier: BSD-3-Clause
"""Does everything that makes the Python stack and the C stack differ, for SECONDS of processor time. Prints one line per part that does
not depend on time or chance.

How walk_test.py checks the stacks: the line that a caller is on has to contain the name of the
function it calls. So every call below is on one line together with that name (a comment counts).
"anypart" stands for the functions in PARTS, "anycallee" for everything."""
import asyncio
import ctypes
import functools
import re
import sys
import threading
import time

SECONDS = float(sys.argv[1])
BUDGET = SECONDS / 16


class Clock:
    def __init__(self):
        self.end = time.process_time() + BUDGET

    def __bool__(self):
        return time.process_time() < self.end


# --- two functions, called in turn: each has one possible caller line
def toggle_left():
    return sum(left_item for left_item in (1, 2, 3)) if LAZY else left_inner(1)


def left_inner(value):
    return value + 1


def toggle_right():
    return right_inner(2)


def right_inner(value):
    return value - 1


LAZY = False


def toggle():
    left = right = 0
    while Clock.__bool__(CLOCK):
        for _ in range(50):
            left += toggle_left()
            right += toggle_right()
    return left == 2 * right


# --- recursion
# With -X perf every call takes C stack, which 3.12 allows little of.
DEPTH = 200 if "perf" in getattr(sys, "_xoptions", {}) else 900


def descend(depth):
    if depth == 0:
        return bottom()
    return descend(depth - 1)


def bottom():
    return 900


def descend_through_c(depth):
    if depth == 0:
        return bottom()
    return max([depth], key=lambda value: descend_through_c(value - 1))  # <lambda>


def recursion():
    good = True
    while Clock.__bool__(CLOCK):
        for _ in range(20):
            good &= descend(DEPTH) == 900
            good &= descend_through_c(60) == 60
    return good


# --- generators and coroutines
def numbers(count):
    for value in range(count):
        yield number(value)


def number(value):
    return value * 2


def delegating(count):
    yield from numbers(count)  # numbers number


def generators():
    good = True
    while Clock.__bool__(CLOCK):
        good &= sum(delegating(100)) == 9900  # delegating
        for value in numbers(50):
            good &= value % 2 == 0
    return good


LOOP = asyncio.new_event_loop()


async def awaited(value):
    await pause()
    return value


async def pause():
    await asyncio.sleep(0)


async def coroutine_main():
    total = 0
    for value in range(20):
        total += await awaited(value)
    pair = await asyncio.gather(awaited(1), awaited(2))
    return total + sum(pair)


def coroutines():
    good = True
    while Clock.__bool__(CLOCK):
        good &= LOOP.run_until_complete(coroutine_main()) == 193
    return good


# --- callbacks from C
def sort_key(value):
    return key_helper(-value)


def key_helper(value):
    return value


def map_function(value):
    return value + 1


def reduce_function(left, right):
    return left ^ right


def replace_match(match):
    return match.group(0).upper()


class Ordered:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return self.value < other.value

    @property
    def doubled(self):
        return self.value * 2

    def __getattr__(self, name):
        return missing_attribute(name)


def missing_attribute(name):
    return len(name)


class Initialised:
    def __init__(self, value):
        self.value = init_helper(value)


def init_helper(value):
    return value + 1


def callbacks():
    data = list(range(200))
    text = "one two three " * 20
    ordered = [Ordered((value * 7919) % 101) for value in data]  # <listcomp> __init__
    good = True
    while Clock.__bool__(CLOCK):
        good &= sorted(data, key=sort_key)[0] == 199
        good &= sum(map(map_function, data)) == 20100
        for value in data:
            good &= Initialised(value).value == value + 1  # __init__
        good &= functools.reduce(reduce_function, data) == 0
        good &= re.sub(r"\w+", replace_match, text).isupper()
        good &= sorted(ordered)[0].value == 0  # __lt__
        for item in ordered:
            good &= item.doubled == 2 * item.value
            good &= item.nothing == 7  # __getattr__
    return good


# --- callbacks through foreign C code
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


def compare_ints(left, right):
    return compare_inner(left[0], right[0])


def compare_inner(left, right):
    return (left > right) - (left < right)


LIBC = ctypes.CDLL(None)
LIBC.qsort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, COMPARE]
LIBC.qsort.restype = None


def foreign():
    compare = COMPARE(compare_ints)
    good = True
    while Clock.__bool__(CLOCK):
        array = (ctypes.c_int * 64)(*[(value * 37) % 64 for value in range(64)])  # <listcomp>
        LIBC.qsort(array, 64, 4, compare)  # compare_ints
        good &= list(array) == list(range(64))
    return good


# --- finalizers, exceptions, context managers
class Finalized:
    count = 0

    def __del__(self):
        finalized()


def finalized():
    Finalized.count += 1


class Managed:
    def __enter__(self):
        return enter_helper(self)

    def __exit__(self, *exception):
        return exit_helper()


def enter_helper(value):
    return value


def exit_helper():
    return True


def raising(depth):
    if depth == 0:
        raise ValueError
    return raising(depth - 1)


def objects():
    made = 0
    while Clock.__bool__(CLOCK):
        for _ in range(50):
            item = Finalized()
            del item  # __del__
            made += 1
            with Managed():  # __enter__ __exit__
                raising(10)  # __exit__
    return made == Finalized.count


# --- code that is made, run once and freed; the addresses are used again
def generated():
    good = True
    serial = 0
    while Clock.__bool__(CLOCK):
        serial += 1
        name = "fresh_%d" % (serial % 50)
        space = {}
        source = "def %s(n):\n    t = 0\n    for i in range(n):\n        t += i\n    return t\n" % name
        exec(compile(source, "<made %s>" % name, "exec"), space)  # <module>
        good &= space[name](300) == 44850  # fresh_
    return good


# --- threads
def short_thread(results):
    results.append(thread_work())


def thread_work():
    total = 0
    for value in range(200):
        total += thread_step(value)
    return total


def thread_step(value):
    return value


def threads():
    good = True
    while Clock.__bool__(CLOCK):
        results = []
        group = [threading.Thread(target=short_thread, args=(results,)) for _ in range(8)]  # <listcomp>
        for thread in group:
            thread.start()
        for thread in group:
            thread.join()
        good &= results == [19900] * 8
    return good


def busy_thread(stop):
    while not stop.is_set():
        busy_step()


def busy_step():
    total = 0
    for value in range(500):
        total += value
    return total


def contended():
    stop = threading.Event()
    group = [threading.Thread(target=busy_thread, args=(stop,)) for _ in range(3)]  # <listcomp>
    for thread in group:
        thread.start()
    while Clock.__bool__(CLOCK):
        busy_step()
        time.sleep(0.001)
    stop.set()
    for thread in group:
        thread.join()
    return True


# --- hooks that the interpreter calls for every call and line
def profile_hook(frame, event, argument):
    hook_leaf(event)


def trace_hook(frame, event, argument):
    hook_leaf(event)
    return trace_hook


def hook_leaf(event):
    return event


def hooked():
    good = True
    while Clock.__bool__(CLOCK):
        sys.setprofile(profile_hook)
        good &= left_inner(1) == 2
        sys.setprofile(None)
        sys.settrace(trace_hook)
        good &= right_inner(2) == 1
        sys.settrace(None)
    return good


# --- callbacks from an extension module
def vector_function(value):
    return vector_leaf(value)


def vector_leaf(value):
    return value * 2


def vectors():
    try:
        import numpy  # anycallee
    except ImportError:
        return True
    function, good = numpy.vectorize(vector_function, otypes=[float]), True  # anycallee
    data = numpy.arange(200.0)  # anycallee
    while Clock.__bool__(CLOCK):
        good &= float(function(data)[3]) == 6.0  # anycallee
    return good


# --- names that are not ASCII
def grüße_ασ_鼠_𐍈():
    total = 0
    for value in range(1000):
        total += value
    return total


def unicode_names():
    good = True
    while Clock.__bool__(CLOCK):
        good &= grüße_ασ_鼠_𐍈() == 499500
    return good


# --- a sub-interpreter
SUB_CODE = """
import time
def inside_sub(end):
    total = 0
    while time.process_time() < end:
        total += sub_step(1)
    return total
def sub_step(value):
    return value
inside_sub(%r)
"""


def run_sub(code):
    if sys.version_info >= (3, 13):
        import _interpreters
        sub = _interpreters.create("legacy")  # anycallee
        error = _interpreters.exec(sub, code)  # <module>
        _interpreters.destroy(sub)  # anycallee
        return error is None
    try:
        import _xxsubinterpreters
    except ImportError:  # before 3.8
        return True
    sub = _xxsubinterpreters.create()  # anycallee
    _xxsubinterpreters.run_string(sub, code)  # <module>
    _xxsubinterpreters.destroy(sub)  # anycallee
    return True


def sub_interpreter():
    return run_sub(SUB_CODE % CLOCK.end)


PARTS = [toggle, recursion, generators, coroutines, callbacks, foreign, objects, generated, threads,
         contended, hooked, vectors, unicode_names, sub_interpreter]


def main():
    global CLOCK
    sys.setrecursionlimit(3000)
    for part in PARTS:
        CLOCK = Clock()  # __init__
        good = part()  # anypart
        print(part.__name__, "ok" if good else "WRONG")
    sys.stdout.flush()


main()
