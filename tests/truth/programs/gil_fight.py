"""gil_fight.py SECONDS: two threads of bytecode; prints how long the main thread waited for the other one: the wall time that it
did not run, by its own clocks, but for what the kernel says that others had its processor."""

import json
import sys
import threading
import time

waited_s = {}


def lacked_s():
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) * 1e-9
    except OSError:
        return 0.0


def fight(name, seconds):
    begin, ran, lacked = time.monotonic(), time.thread_time(), lacked_s()
    while time.monotonic() - begin < seconds:
        for _ in range(20000):
            pass
    elapsed = time.monotonic() - begin
    waited_s[name] = elapsed - (time.thread_time() - ran) - (lacked_s() - lacked)
    return elapsed


seconds = float(sys.argv[1])
other = threading.Thread(target=fight, args=("other", seconds))
other.start()
total_s = fight("main", seconds)
other.join()
print(json.dumps({"bound_s": waited_s["main"], "total_s": total_s}))
