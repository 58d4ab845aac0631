"""numpy: matrix products, elementwise functions and sorting, from short Python functions."""

import sys
import time

import numpy as np


def product(a):
    return a @ a


def elementwise(a):
    return np.sqrt(np.abs(np.sin(a) * 2.0 + 1.0))


def order(a):
    return np.sort(a, axis=None)[::100].sum()


begin = time.perf_counter()
a = np.random.default_rng(1).random((300, 300))
total = 0.0
for _ in range(90 * int(sys.argv[1])):
    b = product(a)
    total += order(elementwise(b))
print("program_s", time.perf_counter() - begin)
