"""Four Python threads that compute, and share the interpreter lock."""

import sys
import threading
import time


def work(count):
    total = 0
    for i in range(count):
        total += i & 7
    return total


begin = time.perf_counter()
workers = [threading.Thread(target=work, args=(13_000_000 * int(sys.argv[1]),)) for _ in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print("program_s", time.perf_counter() - begin)
