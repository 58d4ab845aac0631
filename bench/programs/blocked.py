"""One thread that computes, and 64 that mostly wait."""

import sys
import threading
import time

stop = threading.Event()


def wait():
    ticks = 0
    while not stop.wait(0.2):
        ticks += sum(range(50))


def work(count):
    total = 0
    for i in range(count):
        total += i & 7
    return total


begin = time.perf_counter()
waiting = [threading.Thread(target=wait) for _ in range(64)]
for thread in waiting:
    thread.start()
work(50_000_000 * int(sys.argv[1]))
stop.set()
for thread in waiting:
    thread.join()
print("program_s", time.perf_counter() - begin)
