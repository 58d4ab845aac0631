"""asyncio's tasks, by the names that the program gives them and below the coroutines and tasks that await them, on every
CPython of this machine: compared with what the program's own clocks say."""

import json
import os

import recording
import truth

PROGRAM = os.path.join(truth.PROGRAMS, "waiting_tasks.py")
MISSED_S = 0.1  # of CPU time in a row, on a busy machine
DELTA_S = 0.03  # of the two stretches of each way, up to a sample's time at both ends

# By the program's name for each way: which coroutines await the task that computes, the outermost first.
AWAITED_BY = {
    "directly": ["main", "directly"],
    "gathered": ["main", "gathered"],
    "gathered_twice": ["main", "gathered_twice"],
    "waited": ["main", "waited"],
    "waited_for": ["main", "waited_for"],
    "shielded": ["main", "shielded"],
    "generated": ["main", "by_generator", "generated"],
    "second": ["main", "first", "second"],
    "group": ["main", "group"],
    "nobody": [],
}


class Tasks(recording.RecordingTest):
    def check(self, version, python):
        done = self.record([python, PROGRAM], run=f"run-{version}")
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        told = json.loads(done.stdout)
        report = self.report(f"run-{version}")

        # The library's own frames between them may be rows, too.
        tree = report["task_tree"]

        def callers(row):
            names = []
            while row["parent"] is not None:
                row = tree[row["parent"]]
                if (row["file"] or "").endswith("waiting_tasks.py"):
                    names.insert(0, row["name"])
            return names

        found = {}
        for row in tree:
            above = tuple(callers(row))
            # Below start() compute() only makes its coroutine.
            if row["name"] == "compute" and "start" not in above:
                found[above] = found.get(above, 0) + row["total_s"]
        self.assertEqual(set(found), {tuple(AWAITED_BY[way]) for way in told})
        by_name = {row["name"]: row for row in report["tasks"]}
        # On which side of a task's end the thread waited for a processor is known by the next sample only.
        waited_s = max(wall_s - cpu_s for cpu_s, wall_s in told.values())
        for way, (cpu_s, wall_s) in told.items():
            self.measured_near(found[tuple(AWAITED_BY[way])], wall_s, DELTA_S + 0.03 * wall_s + waited_s,
                               f"{version}: below {way}")
            task = by_name[f"{way} task"]
            self.assertEqual((task["function"], task["rank"]), ("compute", 0))
            self.assertTrue(task["file"].endswith("waiting_tasks.py"))
            # The kernel looks at CPU timers at its own ticks only: where threads take turns that are shorter, some meet none.
            self.measured_near(task["cpu_s"], cpu_s, DELTA_S + 0.03 * cpu_s + min(waited_s, MISSED_S), f"{version}: CPU time of {way}")
        # asyncio's own names are none.
        self.assertNotIn("Task-1", by_name)
        whole = sum(wall_s for _, wall_s in told.values())
        self.measured_near(sum(row["time_s"] for row in report["tasks"]), whole, 0.1 + 0.03 * whole, f"{version}: all tasks")


truth.per_python(Tasks, Tasks.check)

if __name__ == "__main__":
    recording.main()
