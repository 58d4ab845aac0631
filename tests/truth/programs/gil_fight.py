"""gil_fight.py SECONDS: two threads of bytecode; prints how much of the wall time each one did not run, by the clocks
of its own."""

import json
import sys
import threading
import time

waited_s = {}


def fight(name, seconds):
    begin, ran = time.monotonic(), time.thread_time()
    while time.monotonic() - begin < seconds:
        for _ in range(20000):
            pass
    elapsed = time.monotonic() - begin
    waited_s[name] = elapsed - (time.thread_time() - ran)
    return elapsed


seconds = float(sys.argv[1])
other = threading.Thread(target=fight, args=("other", seconds))
other.start()
total_s = fight("main", seconds)
other.join()
print(json.dumps({"bound_s": waited_s["main"], "total_s": total_s}))
