"""toggle.py SECONDS (of CPU time): alternate() calls a() and b() by turns, which call leaf_a() and leaf_b(). The lines
that call say which functions they call: no other caller and callee can ever be seen together."""

import sys
import time


def leaf_a():
    x = 1
    x = x + 1
    return x


def leaf_b():
    x = 2
    x = x - 1
    return x


def a():
    x = leaf_a()  # calls: leaf_a
    x = x + leaf_a()  # calls: leaf_a
    return x


def b():
    x = leaf_b()  # calls: leaf_b
    x = x - leaf_b()  # calls: leaf_b
    return x


def alternate():
    for _ in range(2000):
        a()  # calls: a
        b()  # calls: b


def run(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        alternate()  # calls: alternate


run(float(sys.argv[1]))  # calls: run
print("{}")
