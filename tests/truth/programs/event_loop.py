"""An asyncio program in a mode of its own. `blocked` measures its own loop: between the return of each look at what is ready
and the next look, and around each call that blocks. A thread keeps sending, and something is sent just before each such call (the
thread may not get the interpreter's lock meanwhile), so somebody always waits for the loop."""

import asyncio
import json
import selectors
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

DOCUMENT = json.dumps([[number, str(number)] for number in range(150_000)])
BLOCKED_S = 0.05  # as in docs/metrics.md
told = {"spin": [], "sleep": [], "loads": []}


def spin(seconds):
    end = time.thread_time() + seconds
    while sum(range(500)) and time.thread_time() < end: pass  # SPIN


def timed(what, call):
    begin = time.monotonic()
    call()
    told[what].append(time.monotonic() - begin)


class TimedSelector(selectors.EpollSelector):
    turns, idle_s, busy_s, blocked, returned = 0, 0.0, 0.0, [], None

    def select(self, timeout=None):
        called = time.monotonic()
        if self.returned is not None:
            self.turns += 1
            self.busy_s += called - self.returned
            if called - self.returned >= BLOCKED_S:
                self.blocked.append(called - self.returned)
        ready = super().select(timeout)
        self.returned = time.monotonic()
        self.idle_s += self.returned - called
        return ready


class Server:
    def __init__(self, near, far):
        self.near, self.far = near, far

    def on_byte(self):
        self.near.recv(4096)

    async def work(self):
        for _ in range(3):
            await asyncio.sleep(0.15)
            self.far.send(b"x")
            timed("spin", lambda: spin(0.3))
            await asyncio.sleep(0.1)
            self.far.send(b"x")
            timed("sleep", lambda: time.sleep(0.25))  # SLEEP
        await asyncio.sleep(0.1)
        self.far.send(b"x")
        begin = time.monotonic()
        for _ in range(3):
            json.loads(DOCUMENT)  # LOADS
        told["loads"].append(time.monotonic() - begin)
        await asyncio.sleep(0.1)


def send(far, ended, pause_s):
    while not ended.wait(pause_s):
        far.send(b"x")


def serve(loop, seconds, work, pause_s):
    near, far = socket.socketpair()
    near.setblocking(False)
    server = Server(near, far)
    ended = threading.Event()
    sender = threading.Thread(target=send, args=(far, ended, pause_s))
    sender.start()
    loop.add_reader(near, server.on_byte)
    loop.run_until_complete(server.work() if work else asyncio.sleep(seconds))
    loop.remove_reader(near)
    ended.set()
    sender.join()


def blocked():
    selector = TimedSelector()
    loop = asyncio.SelectorEventLoop(selector)
    serve(loop, 0, True, 0.02)
    loop.close()
    told.update(turns=selector.turns, idle_s=selector.idle_s, busy_s=selector.busy_s, blocked=selector.blocked)


def idle():
    selector = TimedSelector()
    loop = asyncio.SelectorEventLoop(selector)
    serve(loop, 2, False, 0.03)
    loop.close()
    told.update(blocked=selector.blocked)


async def naps():
    for _ in range(20):
        await asyncio.sleep(0.03)


async def computes():
    await naps()
    spin(1.0)
    await naps()


def alone():
    asyncio.run(computes())


def between():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(naps())
    spin(0.8)
    loop.run_until_complete(naps())
    loop.close()


def pool():
    with ThreadPoolExecutor(2) as executor:
        list(executor.map(spin, [0.4] * 4))


globals()[sys.argv[1]]()
print(json.dumps(told))
