# SPDX-License-Identifier: BSD-3-Clause
"""Samples this interpreter at 5 kHz; each native stack is compared with libgcc's unwinder.

With -X perf libgcc loses its way at the first trampoline, which has no call frame information; ours must not.

usage: python [-X perf] python_stack_check.py unwind_check.so [samples]
"""
import ctypes
import json
import re
import sys
import time
import zlib

check = ctypes.CDLL(sys.argv[1])
check.unwind_check_samples.restype = ctypes.c_uint64
wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 5000


def descend(depth):
    if depth:
        return descend(depth - 1) + 1
    return sum(sorted(range(50), key=lambda value: -value))


class Walker:
    def __init__(self, depth):
        self.depth = depth

    def __iter__(self):
        if self.depth:
            yield from Walker(self.depth - 1)
        yield self.depth


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
def compare(left, right):
    return left[0] - right[0]


libc = ctypes.CDLL(None)
text = json.dumps({"key%d" % i: [i, str(i), None] for i in range(100)})


def work():
    descend(30)
    list(Walker(10))
    json.loads(text)
    json.dumps(json.loads(text), indent=1)
    re.sub(r"(\d+)", lambda match: str(int(match.group(1)) + 1), text)
    zlib.compress(text.encode() * 3)
    values = (ctypes.c_int * 20)(*range(20, 0, -1))
    libc.qsort(values, 20, 4, compare)
    ["%s-%r" % (i, i * 1.5) for i in range(200)]
    try:
        [].remove(3)
    except ValueError:
        pass


work()  # imports what it needs
check.unwind_check_start(5000)
deadline = time.time() + 60
while check.unwind_check_samples() < wanted and time.time() < deadline:
    work()
counts = (ctypes.c_uint64 * 6)()
check.unwind_check_stop(counts)
samples, equal, stopped, different, truncated, wrong_cfi = counts
print("%s: %d samples, %d equal, libgcc stopped early in %d, different %d, truncated %d"
      % (sys.version.split()[0], samples, equal, stopped, different, truncated))
assert samples >= wanted, "too few samples"
assert different == 0
if sys._xoptions.get("perf"):
    assert stopped * 100 >= 99 * samples, "no trampolines?"
else:
    assert stopped * 1000 <= samples
assert truncated * 1000 <= samples
assert wrong_cfi * 1000 <= samples
