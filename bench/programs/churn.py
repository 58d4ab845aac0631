"""Python programs that do little but make objects and drop them: churn.py json|dicts|objects LENGTH."""

import json
import sys
import time


def of_json(rounds):
    rows = [{"id": i, "name": f"row {i}", "values": [i * 0.5, i * 1.5, None, True]} for i in range(200)]
    for _ in range(rounds):
        rows = json.loads(json.dumps(rows))


def of_dicts(rounds):
    for start in range(rounds):
        counts = {}
        for i in range(400):
            counts[f"key {(start + i) % 97}"] = counts.get(i, 0.0) + i * 1.25
        {value: key for key, value in counts.items()}


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)


def of_objects(rounds):
    for i in range(rounds):
        points = [Point(float(i), float(k)) for k in range(100)]
        total = Point(0.0, 0.0)
        for point in points:
            total = total + point


KINDS = {"json": (of_json, 1200), "dicts": (of_dicts, 8000), "objects": (of_objects, 8000)}
work, rounds = KINDS[sys.argv[1]]
begin = time.perf_counter()
work(rounds * int(sys.argv[2]))
print("program_s", time.perf_counter() - begin)
