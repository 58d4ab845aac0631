"""storm.py SECONDS (of CPU time): Python called from C and back, by turns in two families that share no function. The
lines that call say which functions they call: no other caller and callee can ever be seen together."""

import ctypes
import functools
import sys
import time


def leaf_a():
    return [1, 2]


def leaf_b():
    return (1, 2)


def key_a(item):
    leaf_a()  # calls: leaf_a
    return item


def key_b(item):
    leaf_b()  # calls: leaf_b
    return -item


def fold_a(total, item):
    leaf_a()  # calls: leaf_a
    return total + item


def fold_b(total, item):
    leaf_b()  # calls: leaf_b
    return total - item


def compare_a(left, right):
    leaf_a()  # calls: leaf_a
    return 0


def compare_b(left, right):
    leaf_b()  # calls: leaf_b
    return 0


class DroppedA:  # calls: DroppedA
    def __del__(self):
        leaf_a()  # calls: leaf_a


class DroppedB:  # calls: DroppedB
    def __del__(self):
        leaf_b()  # calls: leaf_b


def inner_a():
    yield leaf_a()  # calls: leaf_a
    yield leaf_a()  # calls: leaf_a


def inner_b():
    yield leaf_b()  # calls: leaf_b
    yield leaf_b()  # calls: leaf_b


def outer_a():
    yield from inner_a()  # calls: inner_a


def outer_b():
    yield from inner_b()  # calls: inner_b


def raise_a():
    leaf_a()  # calls: leaf_a
    raise KeyError


def raise_b():
    leaf_b()  # calls: leaf_b
    raise ValueError


def catch_a():
    try:
        raise_a()  # calls: raise_a
    except KeyError:
        leaf_a()  # calls: leaf_a


def catch_b():
    try:
        raise_b()  # calls: raise_b
    except ValueError:
        leaf_b()  # calls: leaf_b


libc = ctypes.CDLL(None)
Compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
c_compare_a, c_compare_b = Compare(compare_a), Compare(compare_b)
numbers = (ctypes.c_int * 4)(4, 3, 2, 1)


def turn():
    sorted((3, 1, 2), key=key_a)  # calls: key_a
    sorted((3, 1, 2), key=key_b)  # calls: key_b
    functools.reduce(fold_a, (1, 2, 3))  # calls: fold_a
    functools.reduce(fold_b, (1, 2, 3))  # calls: fold_b
    libc.qsort(numbers, 4, 4, c_compare_a)  # calls: compare_a
    libc.qsort(numbers, 4, 4, c_compare_b)  # calls: compare_b
    DroppedA()  # calls: __del__
    DroppedB()  # calls: __del__
    list(outer_a())  # calls: outer_a
    list(outer_b())  # calls: outer_b
    catch_a()  # calls: catch_a
    catch_b()  # calls: catch_b


def run(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(100):
            turn()  # calls: turn


run(float(sys.argv[1]))  # calls: run
print("{}")
