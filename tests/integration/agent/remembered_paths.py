# SPDX-License-Identifier: BSD-3-Clause
"""Asks the agent for its call path from many places, as MPI calls do, in ways that would fool a cache of call paths: the
frames nearest to the call are the same, at the same addresses, and the difference is far down the stack.

Prints how many calls there were, and in how many a path was returned that had been another one: of two calls with
the same path, every caller is in the same function at the same instruction."""
import ctypes
import functools
import random
import sys
import threading
import time


class Path(ctypes.Structure):
    _fields_ = [("hash", ctypes.c_uint64), ("offset", ctypes.c_uint64), ("words", ctypes.c_uint32)]


class Api(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32)] + [(name, ctypes.c_void_p) for name in (
        "segment", "now_ns", "enter_mpi", "leave_mpi", "call_path")]


agent = ctypes.CDLL(None).clusterprof_agent_v1
agent.restype = ctypes.POINTER(Api)
call_path = ctypes.CFUNCTYPE(Path)(agent().contents.call_path)  # releases the GIL, as mpi4py does
call_path_with_gil = ctypes.PYFUNCTYPE(Path)(agent().contents.call_path)

seen, lock = {}, threading.Lock()
calls = wrong = 0


def look():
    """Returns the path's hash."""
    global calls, wrong
    path = call_path()
    hash_now = path.hash
    frame, callers = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        callers.append((code.co_filename, code.co_firstlineno, code.co_name, frame.f_lasti))
        frame = frame.f_back
    with lock:
        calls += 1
        if path.words == 0 or seen.setdefault(hash_now, callers) != callers:
            wrong += 1
    return hash_now


# --- the caller below has gone on to another line; nothing else is different
def through(depth):
    return look() if depth == 0 else through(depth - 1)


def other_lines(depth):
    first = second = third = None
    for _ in range(4):
        before = first, second, third
        first = through(depth)
        second = through(depth)
        third = through(depth)
        assert len({first, second, third}) == 3, "lines of a caller are not told apart"
        assert before[0] is None or before == (first, second, third), "a path is not found again"


# --- generators: the frame is the same one, at the same place, resumed by others
def numbers(depth):
    while True:
        yield through(depth)


def delegating(depth):
    yield from numbers(depth)


def resumed():
    for kind in numbers, delegating:
        generator = kind(3)
        for _ in range(4):
            first = next(generator)
            second = next(generator)
            third = sum(value for value in [next(generator)])
            assert len({first, second, third}) == 3, "those who resume a generator are not told apart"
        generator.close()


# --- coroutines driven by hand, in turn
class Pause:
    def __await__(self):
        yield


async def awaiting(depth):
    for _ in range(3):
        look()
        await Pause()
        await nested(depth)


async def nested(depth):
    if depth:
        await nested(depth - 1)
    look()
    await Pause()
    through(2)


def coroutines():
    tasks = [awaiting(depth % 4) for depth in range(8)]
    while tasks:
        for task in list(tasks):
            try:
                task.send(None)
            except StopIteration:
                tasks.remove(task)


# --- exceptions unwind, and the same is called again from the handler
def raising(depth):
    if depth == 0:
        look()
        raise ValueError
    raising(depth - 1)


def exceptions():
    for _ in range(3):
        try:
            raising(8)
        except ValueError:
            try:
                raising(8)
            except ValueError:
                through(8)
        finally:
            through(8)


# --- code that is made, run once and freed: another comes to lie at its address
NAMES = [f"made_{number}" for number in range(7)]  # their strings stay


def made():
    for serial in range(200):
        name = NAMES[serial % 7]
        space = {"look": look, "through": through}
        exec(compile("\n" * (serial % 5) + f"def {name}():\n    return look() + through(2)\n", "made", "exec"), space)
        space[name]()


# --- the same call of a Python function, of C that calls it, and of a class
class Callable:
    def __call__(self):
        return look()

    def __lt__(self, other):
        look()
        return False

    @property
    def value(self):
        return look()

    def __del__(self):
        look()


def call(function):
    return function()


def by_c():
    item = Callable()
    for _ in range(3):
        for function in look, functools.partial(look), item, functools.partial(functools.partial(look)), through_c:
            call(function)
        sorted([item, item, item])
        item.value
        list(map(through, range(4)))
        max([0, 1], key=lambda _: look())
        Callable()


def through_c():
    return functools.reduce(lambda left, right: look(), range(3))


# --- anything, by chance: functions with several calls of one another
def choose(chance, depth, path):
    if depth == 0:
        return [look() for _ in range(3)][-1]
    return STEPS[chance.randrange(len(STEPS))](chance, depth - 1, path)


def step_lines(chance, depth, path):
    if chance.random() < 0.5:
        return choose(chance, depth, path)
    if chance.random() < 0.5:
        return choose(chance, depth, path)
    choose(chance, depth // 2, path)
    return choose(chance, depth // 2, path)


def step_c(chance, depth, path):
    return list(map(lambda d: choose(chance, d, path), [depth]))[0]


def step_generator(chance, depth, path):
    def generate():
        yield choose(chance, depth // 2, path)
        yield choose(chance, depth // 2, path)
    return sum(generate())


def step_kept(chance, depth, path):
    """Resumes a generator that others have begun."""
    if not path or chance.random() < 0.3:
        def generate():
            while True:
                yield look()
                yield through(depth % 5)
        path.append(generate())
    generator = path.pop(chance.randrange(len(path)))
    value = next(generator)
    if chance.random() < 0.8:
        path.append(generator)
    return value


def step_try(chance, depth, path):
    try:
        choose(chance, depth, path)
        if chance.random() < 0.3:
            raise KeyError
    except KeyError:
        return choose(chance, depth // 2, path)
    return 0


STEPS = [step_lines, step_lines, step_lines, step_c, step_generator, step_kept, step_try]


def by_chance(seed, rounds):
    chance = random.Random(seed)
    path = []
    for _ in range(rounds):
        if chance.random() < 0.3:
            choose(chance, chance.randrange(30), path)
        else:  # one of few stacks, so that they come again
            again = random.Random(chance.randrange(20))
            choose(again, 12, path)


def with_the_gil():
    return call_path_with_gil().hash


def wait_for_modules():
    """Waits until the agent has seen the module that was just loaded (ctypes). Before that, stacks through it may be cut."""
    last, since = None, time.monotonic()
    while time.monotonic() - since < 0.25:
        time.sleep(0.01)
        now = call_path_with_gil().hash
        if now != last:
            last, since = now, time.monotonic()


def main():
    rounds = int(sys.argv[1])
    wait_for_modules()
    for depth in 0, 1, 7, 8, 40, 200:
        other_lines(depth)
    resumed()
    coroutines()
    exceptions()
    made()
    by_c()
    assert len({with_the_gil(), with_the_gil()}) == 2
    by_chance(1, rounds)
    threads = [threading.Thread(target=by_chance, args=(seed, rounds // 4)) for seed in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("calls", calls)
    print("wrong", wrong)


main()
