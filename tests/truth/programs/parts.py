"""parts.py SECONDS [PART_SECONDS]: one thread takes turns at Python, native code, sleeping, waiting for a
lock, file input and output, and system calls, each for PART_SECONDS (0.2) or somewhat more. Prints, as JSON,
the seconds of wall clock each took by its own clock."""

import json
import os
import sys
import tempfile
import threading
import time
import zlib

clock = time.perf_counter
own_s = {}
block = bytes(1 << 20)
lock = threading.Lock()
locked, wanted = threading.Event(), threading.Event()


def python_part():
    end = clock() + part_s
    total = 0
    while clock() < end:
        for i in range(10000):
            total += i & 3
    return total


def native_part():
    end = clock() + part_s
    while clock() < end:
        zlib.crc32(block)  # needs no memory: page faults are the kernel's time


def sleep_part():
    time.sleep(part_s)


def lock_part():
    wanted.set()
    locked.wait()
    with lock:
        pass
    locked.clear()


def holder():
    """Holds the lock for a while whenever lock_part says that it is about to want it."""
    while True:
        wanted.wait()
        wanted.clear()
        with lock:
            locked.set()
            time.sleep(part_s)


def io_part():
    end = clock() + part_s
    while clock() < end:
        os.pwrite(scratch, many, 0)
        os.preadv(scratch, [many], 0)


def system_part():
    """Random numbers come from the kernel."""
    end = clock() + part_s
    while clock() < end:
        os.urandom(1 << 20)


if __name__ == "__main__":
    part_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.2
    threading.Thread(target=holder, daemon=True).start()
    with tempfile.TemporaryFile() as file:
        scratch = file.fileno()
        many = bytearray(4 << 20)
        os.pwrite(scratch, many, 0)
        finish = clock() + float(sys.argv[1])
        while clock() < finish:
            for part in (python_part, sleep_part, native_part, lock_part, io_part, system_part):
                begin = clock()
                part()
                own_s[part.__name__] = own_s.get(part.__name__, 0.0) + clock() - begin
    print(json.dumps(own_s))
