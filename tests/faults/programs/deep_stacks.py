# SPDX-License-Identifier: BSD-3-Clause
"""What deep_stacks.c does, in Python: deep_stacks.py STEPS LOWEST HIGHEST."""
import sys
import threading

STEPS, LOWEST, HIGHEST = (int(word) for word in sys.argv[1:])


def at_the_bottom(value):
    for _ in range(100):
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
    return value


def down(depth, value):
    if depth == 0:
        return at_the_bottom(value)
    return CALLS[depth % 2](depth - 1, value) + depth


CALLS = (down, lambda depth, value: down(depth, value))


def take_steps(results):
    results.append(sum(down(LOWEST + step * 7919 % (HIGHEST - LOWEST), step) % 1000 for step in range(STEPS)))


def main():
    sys.setrecursionlimit(4 * HIGHEST + 100)
    threading.stack_size(512 * 2**20)
    results = []
    threads = [threading.Thread(target=take_steps, args=(results,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("%d steps: %d %s" % (STEPS, results[0], "twice" if results == results[:1] * 2 else "WRONG"))


main()
