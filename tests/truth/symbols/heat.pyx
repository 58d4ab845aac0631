# SPDX-License-Identifier: BSD-3-Clause
# cython: language_level=3
# A C method, a C function and a Python function share the time.
import time


cdef class Grid:
    cdef double value

    cdef double sweep(self, long count) except -1:
        cdef long i
        for i in range(count):
            self.value = self.value * 0.999 + i  # line of sweep
        return self.value


cdef double relax(long count) except -1:
    cdef long i
    cdef double value = 0
    for i in range(count):
        value = value * 0.999 + i  # line of relax
    return value


def step_all(long count):
    cdef long i
    cdef double value = 0
    for i in range(count):
        value = value * 0.999 + i  # line of step_all
    return value


def run(double seconds):
    grid = Grid()
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        grid.sweep(200000)
        relax(200000)
        step_all(200000)
