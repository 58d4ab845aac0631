# SPDX-License-Identifier: BSD-3-Clause
"""Spends time in states of the interpreter that it can tell by its own clock, on every thread; prints one
JSON object. states.py PART SECONDS"""
import gc
import json
import os
import queue
import select
import sys
import threading
import time

PART, SECONDS = sys.argv[1], float(sys.argv[2])
clock = time.perf_counter
cpu_clock = time.thread_time  # a thread that waits for a processor is not sampled again and again
result = {"threshold": gc.get_threshold(), "count": gc.get_count()}


def spin(seconds):
    end = clock() + seconds
    while clock() < end:
        pass


def compute(turns):
    """Without a look at the clock: that makes the kernel take the processor away, if that is due, and the timer that
    expires meanwhile takes a sample there."""
    for _ in range(turns):
        pass


def explicit_gc():
    """Collections on demand, with known pauses between them."""
    gc.disable()
    keep = [[i] for i in range(200000)]
    gc.collect()
    start = cpu_clock()
    compute(1000000)
    timed_explicit_gc(turns=int(1000000 * 0.03 / (cpu_clock() - start)))
    result.update(kept=len(keep))


def timed_explicit_gc(turns):
    inside = 0.0
    start = now = cpu_clock()
    while now < start + SECONDS:
        for _ in range(3):
            gc.collect()
        between = cpu_clock()
        inside += between - now
        compute(turns)
        now = cpu_clock()
    result.update(inside=inside, outside=now - start - inside)


def automatic_gc():
    """Collections that allocation brings about: few and large ones, since the callbacks belong to them too."""
    keep = [[i] for i in range(300000)]
    times = {"inside": 0.0, "start": 0.0}

    def on_collection(phase, info):
        now = cpu_clock()
        if phase == "start":
            times["start"] = now
        else:
            times["inside"] += now - times["start"]

    gc.collect()
    gc.set_threshold(100000, 1, 1)
    gc.callbacks.append(on_collection)
    timed_automatic_gc(times)
    gc.callbacks.remove(on_collection)
    result.update(kept=len(keep))


def timed_automatic_gc(times):
    start = cpu_clock()
    while cpu_clock() < start + SECONDS:
        for _ in range(20000):
            a, b = [], []
            a.append(b)
            b.append(a)
    result.update(inside=times["inside"], outside=cpu_clock() - start - times["inside"])


def gc_lets_go_of_gil():
    """A finalizer that the collector calls computes for so long that another thread gets the GIL in between."""
    gc.disable()

    class Garbage:
        def __del__(self):
            slow_finalizer()

    def slow_finalizer():
        end = clock() + SECONDS
        while clock() < end:
            sum(range(1000))

    def bystander():
        while not done:
            sum(range(1000))

    done = []
    thread = threading.Thread(target=bystander)
    thread.start()
    garbage = Garbage()
    garbage.itself = garbage
    del garbage
    gc.collect()
    done.append(True)
    thread.join()


def no_gc():
    gc.disable()
    timed_no_gc()


def timed_no_gc():
    end = cpu_clock() + SECONDS
    while cpu_clock() < end:
        compute(10000)
    result.update(inside=0.0, outside=SECONDS)


def fight_for_gil(thread_count=4):
    """Somebody holds the GIL all the time: of N threads N - 1 wait."""
    end = clock() + SECONDS

    def gil_fighter():
        while clock() < end:
            gil_holder()

    def gil_holder():
        for _ in range(200):
            pass

    threads = [threading.Thread(target=gil_fighter) for _ in range(thread_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result.update(threads=thread_count)


def wait_for_locks():
    """Threads that wait for anything but the GIL, in a process that is otherwise idle."""
    lock, condition, event, box = threading.Lock(), threading.Condition(), threading.Event(), queue.Queue()
    lock.acquire()
    read_end, write_end = os.pipe()
    select_end, awaken_end = os.pipe()

    def lock_waiter():
        with lock:
            pass

    def condition_waiter():
        with condition:
            condition.wait(2 * SECONDS)

    def event_waiter():
        event.wait()

    def queue_waiter():
        box.get()

    def select_waiter():
        select.select([select_end], [], [], 2 * SECONDS)

    def read_waiter():
        os.read(read_end, 1)

    threads = [threading.Thread(target=target) for target in
               (lock_waiter, condition_waiter, event_waiter, queue_waiter, select_waiter, read_waiter)]
    def all_asleep():
        time.sleep(SECONDS)

    # Before they wait and when they wake, they do wait for the GIL: states_test.py looks at all_asleep() alone.
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    all_asleep()

    def notify():
        with condition:
            condition.notify()

    # One after the other: those that wake together wait for the GIL.
    for thread, wake in zip(threads, (lock.release, notify, event.set, lambda: box.put(None),
                                      lambda: os.write(awaken_end, b"x"), lambda: os.write(write_end, b"x"))):
        wake()
        thread.join()


def read_beside_a_busy_thread():
    """Calls that let go of the GIL for an instant and then wait for it while another thread computes."""
    file = os.open("/dev/zero", os.O_RDONLY)
    end = clock() + SECONDS
    inside = 0.0
    busy = threading.Thread(target=spin, args=(SECONDS,))
    busy.start()

    def zero_reader():
        nonlocal inside
        while clock() < end:
            before = clock()
            os.read(file, 1)
            inside += clock() - before
            for _ in range(100):
                pass

    start = clock()
    zero_reader()
    busy.join()
    result.update(inside=inside, total=end - start)


globals()[PART]()
json.dump(result, sys.stdout)
