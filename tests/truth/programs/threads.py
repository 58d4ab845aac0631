"""threads.py SECONDS: four threads that run Python at the same time and need 40, 30, 20 and 10 % of
SECONDS by their own CPU clocks; each spends 60 % of it in one function and 40 % in another.
Prints, as JSON, the CPU seconds that each thread and each of its functions took."""

import json
import sys
import threading
import time

cpu_clock = time.thread_time
own_s = {}


def spin(seconds):
    end = cpu_clock() + seconds
    while cpu_clock() < end:
        for _ in range(5000):
            pass


def major(thread):
    before = cpu_clock()
    spin(0.0313 * 0.6)
    own_s[thread, "major"] += cpu_clock() - before


def minor(thread):
    before = cpu_clock()
    spin(0.0313 * 0.4)
    own_s[thread, "minor"] += cpu_clock() - before


def use(thread, seconds):
    own_s[thread, "major"] = own_s[thread, "minor"] = 0.0
    begin = cpu_clock()
    while cpu_clock() - begin < seconds:
        major(thread)
        minor(thread)


def forty():
    use("forty", 0.40 * whole_s)


def thirty():
    use("thirty", 0.30 * whole_s)


def twenty():
    use("twenty", 0.20 * whole_s)


def ten():
    use("ten", 0.10 * whole_s)


if __name__ == "__main__":
    whole_s = float(sys.argv[1])
    threads = [threading.Thread(target=target) for target in (forty, thirty, twenty, ten)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({f"{thread} {part}": seconds for (thread, part), seconds in own_s.items()}))
