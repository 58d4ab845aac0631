"""Tasks of asyncio that compute while others await them, each in a way of its own. What each way took is printed: the CPU time
and the time by the clock of all that was computed."""

import asyncio
import json
import sys
import time

told = {}


def spin(way, seconds):
    begin, began = time.monotonic(), time.thread_time()
    while sum(range(500)) and time.thread_time() < began + seconds: pass
    of_way = told.setdefault(way, [0, 0])
    of_way[0] += time.thread_time() - began
    of_way[1] += time.monotonic() - begin


async def compute(way):
    for _ in range(2):
        spin(way, 0.12)
        await asyncio.sleep(0.001)


def start(way):
    return asyncio.create_task(compute(way), name=f"{way} task")


async def directly():
    await start("directly")


async def gathered():
    await asyncio.gather(start("gathered"), asyncio.sleep(0.001))


async def gathered_twice():
    await asyncio.gather(asyncio.gather(start("gathered_twice")), asyncio.sleep(0.001))


async def waited():
    await asyncio.wait([start("waited")])


async def waited_for():
    await asyncio.wait_for(start("waited_for"), 60)


async def shielded():
    await asyncio.shield(start("shielded"))


async def generated():
    await start("generated")
    yield 1


async def by_generator():
    async for _ in generated():
        pass


async def second():
    await start("second")


async def first():
    await asyncio.create_task(second(), name="task in between")


async def group():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(compute("group"), name="group task")


async def nobody():
    task = start("nobody")
    while not task.done():
        await asyncio.sleep(0.01)


async def main():
    ways = [directly, gathered, gathered_twice, waited, waited_for, shielded, by_generator, first, nobody]
    if sys.version_info >= (3, 11):
        ways.append(group)
    for way in ways:
        await way()


asyncio.run(main())
print(json.dumps(told))
