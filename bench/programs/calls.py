"""Call-heavy Python: three levels of tiny functions."""

import sys
import time


def leaf(x):
    return x + 1


def middle(x):
    return leaf(x) + leaf(x)


def outer(count):
    total = 0
    for i in range(count):
        total += middle(i)
    return total


begin = time.perf_counter()
outer(10_000_000 * int(sys.argv[1]))
print("program_s", time.perf_counter() - begin)
