# SPDX-License-Identifier: BSD-3-Clause
"""Measures what one walk costs: LD_PRELOAD=RECORDER.so WALK_OUTPUT=/dev/null WALK_RATE=1 python3 walk_time.py RECORDER.so"""
import ctypes
import sys

RECORDER = ctypes.PyDLL(sys.argv[1])
RECORDER.walk_recorder_time.restype = ctypes.c_double


def descend(depth):
    if depth > 0:
        return descend(depth - 1)
    frames = ctypes.c_int()
    ns = RECORDER.walk_recorder_time(200, ctypes.byref(frames))
    return ns, frames.value


short, few = descend(0)
for depth in (20, 200):
    ns, frames = descend(depth)
    print("%s: %4d frames %8.1f ns, %5.2f ns per further frame" %
          (sys.version.split()[0], frames, ns, (ns - short) / (frames - few)))
