"""jit.py [threads] SECONDS: takes turns at functions with loops that CPython's JIT compiles, 0.25 s each, and times each by
its own clock; with `threads`, each function has a thread, and all run at the same time. Prints, as JSON, the seconds of each."""

import json
import sys
import threading
import time

clock = time.perf_counter
own_s = {}


def integers(end):
    while clock() < end:
        total = 0
        for i in range(30000):
            total += i * 3
            total ^= i


def floats(end):
    while clock() < end:
        x = 0.5
        for i in range(30000):
            x = x * 1.0000001 + 0.1
            if i % 3 == 0:
                x -= 0.5


def increment(number):
    return number + 1


def calls(end):
    while clock() < end:
        number = 0
        for _ in range(30000):
            number = increment(number)


def sorting(end):
    """Most of it is in C."""
    while clock() < end:
        for i in range(30):
            sorted(range(4000, 0, -1), key=float)


PARTS = (integers, floats, calls, sorting)


def one(part, seconds):
    begin = clock()
    part(begin + seconds)
    own_s[part.__name__] = own_s.get(part.__name__, 0.0) + clock() - begin


if __name__ == "__main__":
    finish = clock() + float(sys.argv[-1])
    if "threads" in sys.argv:
        threads = [threading.Thread(target=one, args=(part, float(sys.argv[-1]))) for part in PARTS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        while clock() < finish:
            for part in PARTS:
                one(part, 0.25)
    print(json.dumps(own_s))
