# SPDX-License-Identifier: BSD-3-Clause
"""Things that Python programs do and that a sampler may stumble over, one per mode. The output does not depend on speed."""
import faulthandler
import gc
import os
import signal
import subprocess
import sys
import threading
import time

SECONDS = 0.2


def work(seconds=SECONDS):
    end = time.thread_time() + seconds
    total = 0
    while time.thread_time() < end:
        total = sum(i * i for i in range(2000))
    return total


def daemon_threads():
    """They run when the interpreter is finalised, and are never joined."""
    def for_ever(kind):
        while True:
            if kind == 0:
                work(0.001)
            elif kind == 1:
                time.sleep(0.0005)
            else:
                [object() for _ in range(1000)]
                gc.collect(0)
    for number in range(6):
        threading.Thread(target=for_ever, args=(number % 3,), daemon=True).start()
    print(work())
    return 11


def finalisation():
    """Python code runs until the very end: exit functions, destructors, a module that is being cleared."""
    import atexit

    class Late:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            work(0.02) if time is not None else None
            os.write(1, self.name)

    global late
    late = Late(b"of the module\n")
    late.itself = Late(b"in it\n")
    cycle = Late(b"in a cycle\n")
    cycle.itself = cycle
    del cycle
    atexit.register(lambda: print("at exit", work(0.1), flush=True))
    threading.Thread(target=work, args=(0.2,)).start()
    print(work(), flush=True)
    return 12


def own_interpreters():
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    code = ("import os\n"
            "def inner(n):\n    t = 0\n    for i in range(n): t += i % 7\n    return t\n"
            "sum_ = inner(150000)\n")
    told = code + "os.write(1, b'%d\\n' % sum_)\n"
    for turn in range(6):
        made = interpreters.create()
        interpreters.run_string(made, told)
        interpreters.destroy(made)

    def beside():
        for _ in range(4):
            made = interpreters.create()
            interpreters.run_string(made, code)
            interpreters.destroy(made)

    if sys.version_info >= (3, 9):  # 3.8 does not survive this by itself
        thread = threading.Thread(target=beside)
        thread.start()
        work(0.1)
        thread.join()
    print(work())
    return 13


def at_once():
    threads = [threading.Thread(target=work, args=(5,), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    os.write(1, b"%d\n" % work())
    os._exit(14)


def forks():
    """Every thread forks; children run Python, or a thread of their own, and end in several ways."""
    def fork_often(number):
        for i in range(6):
            child = os.fork()
            if child == 0:
                if i % 2:
                    thread = threading.Thread(target=work, args=(0.01,))
                    thread.start()
                    thread.join()
                os._exit(number * 8 + i if work(0.005) else 99)
            status = os.waitpid(child, 0)[1]
            if status != (number * 8 + i) << 8:
                os.write(1, b"status %d of child %d\n" % (status, i))
    if sys.version_info >= (3, 12):
        import warnings
        warnings.simplefilter("ignore")  # of threads of the program's own
    threads = [threading.Thread(target=fork_often, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("forked", work())
    return 15


def one_fork():
    """CPython 3.12 and later warn when they fork with several threads."""
    for _ in range(10):
        child = os.fork()
        if child == 0:
            os._exit(work(0.005) % 100)
        print(os.waitpid(child, 0)[1])
    print(work())
    return 16


def dumps():
    """Stacks are written from handlers, and by a thread that wakes up by itself: once, since those of other threads are
    read as they change, which CPython 3.13 does not always survive by itself."""
    null = open(os.devnull, "w")
    faulthandler.enable(null)
    faulthandler.register(signal.SIGUSR1, null, all_threads=False, chain=False)
    faulthandler.dump_traceback_later(0.05, file=null)
    thread = threading.Thread(target=work, args=(0.2,))
    thread.start()
    for _ in range(200):
        os.kill(os.getpid(), signal.SIGUSR1)
        work(0.001)
    thread.join()
    faulthandler.cancel_dump_traceback_later()
    print(work())
    return 17


def overflow():
    """faulthandler runs on an alternate stack when the thread's is full."""
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(open(os.devnull, "w"))
    print(work(), flush=True)
    faulthandler._stack_overflow()


def timers():
    """The program profiles itself."""
    seen = []
    signal.signal(signal.SIGPROF, lambda number, frame: seen.append(frame.f_code.co_name))
    signal.setitimer(signal.ITIMER_PROF, 0.002, 0.002)
    total = work()
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(total, len(seen) > 5)
    return 18


def closed():
    os.closerange(3, 70000)
    null = os.open(os.devnull, os.O_RDWR)
    print(null, work())
    print(subprocess.run([sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE, close_fds=True).stdout, flush=True)
    os.closerange(0, 70000)
    work()
    os._exit(19)


def coroutines_of_python():
    import asyncio

    def numbers(depth):
        if depth:
            yield from numbers(depth - 1)
        yield depth

    async def step(n):
        for _ in range(n):
            await asyncio.sleep(0)
        return sum(numbers(30))

    async def all_of_them():
        return sum(await asyncio.gather(*(step(i % 40) for i in range(600))))

    print(asyncio.run(all_of_them()))
    half = numbers(900)
    next(half)
    half.close()
    print(work())
    return 20


def greenlets():
    import greenlet
    total = [0]

    def body(depth, parent):
        if depth:
            return body(depth - 1, parent)
        while True:
            total[0] += sum(range(50))
            parent.switch()

    main = greenlet.getcurrent()
    some = [greenlet.greenlet(body) for _ in range(40)]
    for turn in range(300):
        for number, one in enumerate(some):
            one.switch(number, main) if turn == 0 else one.switch()
    del some, one
    gc.collect()

    def in_a_thread():
        here = greenlet.getcurrent()
        inner = greenlet.greenlet(lambda: [here.switch(i) for i in range(20000)])
        for _ in range(20000):
            inner.switch()

    threads = [threading.Thread(target=in_a_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(total[0], work())
    return 21


def recursion():
    """Deep stacks, exceptions through all of them."""
    sys.setrecursionlimit(6000)

    def down(depth):
        if depth == 0:
            raise KeyError("bottom")
        return down(depth - 1)

    caught = 0
    for _ in range(60):
        try:
            down(900)
        except KeyError:
            caught += 1
        try:
            down(10**9)
        except RecursionError:
            caught += 1
    print(caught, work())
    return 22


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]]())
