"""Line-heavy Python: one function, a loop of simple statements, no calls."""

import sys
import time


def loop(count):
    a = b = c = 0
    for i in range(count):
        a = i * 3
        b = a ^ 5
        if b & 1:
            c += a
        else:
            c -= b
    return c


begin = time.perf_counter()
loop(20_000_000 * int(sys.argv[1]))
print("program_s", time.perf_counter() - begin)
