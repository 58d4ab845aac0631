"""Control groups with a memory limit, of version 1 or 2, for tests that may make some."""

import itertools
import os
import time

_numbers = itertools.count()


class MemoryGroup:
    """Made for a test, which is skipped where that is not possible, and removed after it."""

    def __init__(self, test, most_bytes):
        name = f"clusterprof-test-{os.getpid()}-{next(_numbers)}"
        for parent, limit, self.used_file, self.droppable in (
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
                ("/sys/fs/cgroup", "memory.max", "memory.current", ("inactive_file", "active_file"))):
            self.path = os.path.join(parent, name)
            try:
                os.mkdir(self.path)
            except OSError:
                continue
            test.addCleanup(self.remove)
            try:
                with open(os.path.join(self.path, limit), "w") as file:
                    file.write(str(most_bytes))
                return
            except OSError:
                continue
        test.skipTest("no memory cgroup can be made here")

    def enter(self):
        """What a command that is to run in the group is preceded by."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    def remove(self):
        for _ in range(100):  # processes that have ended leave it a moment later
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)
