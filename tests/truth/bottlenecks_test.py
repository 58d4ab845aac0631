"""Programs that are limited by one thing for a known part of their time (programs/bound.c, programs/gil_fight.py,
unequal_work): the report's verdict has to name it, with a share within 5 points of the program's own measurement, and
what the operating system counts has to be what getrusage told the program."""

import glob
import json
import os

import recording
import truth

SHARE = 0.05

# CLASS of bound.c: the report's class, words that a finding about it has.
CLASSES = {
    "compute": ("compute", None),
    "memory": ("memory", "sweep"),
    "faults": ("memory", "page fault"),
    "fsync": ("io", "fsync"),
    "sleep": ("idle", "sleep"),
}


DATA_MIB = 384  # what bound.c sweeps over


def cache_mib():
    """The largest cache, as the collector reads it; 0: the kernel does not say."""
    units = {"K": 1 / 1024, "M": 1, "G": 1024}
    sizes = [0.0]
    for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
        with open(path) as file:
            text = file.read().strip()
        sizes.append(float(text[:-1]) * units[text[-1]])
    return max(sizes)


class BottlenecksTest(recording.RecordingTest):  # tests/CMakeLists.txt names the classes
    def measured_between(self, seen, least, most, tolerance, what):
        self.measured_near(seen, min(max(seen, least), most), tolerance, what)

    def shares(self, report, rank=None):
        return {row["class"]: row["share"] for row in report["bottleneck"]
                if (row["scope"] == "run" if rank is None else row.get("rank") == rank)}

    def finding(self, report, words):
        found = [row for row in report["findings"] if words in row["text"]]
        self.assertTrue(found, f"no finding says '{words}': {[row['text'] for row in report['findings']]}")
        return found[0]


class Bottlenecks(BottlenecksTest):
    """One thread each."""

    def check(self, kind, seconds=4):
        program = recording.program("plain", "bound")
        self.need(program)
        done = self.record([program, kind, str(seconds)], options=["-r", "250"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        own, report = json.loads(done.stdout), self.report()
        if kind == "fsync" and own["bound_s"] < 0.2 * own["total_s"]:
            self.skipTest(f"{self.directory} is on a file system that fsync() does not wait for")
        elapsed_s = report["ranks"][0]["elapsed_s"]
        class_, words = CLASSES[kind]
        shares = self.shares(report)
        # In a virtual machine whose host keeps its page tables, a part of the time that a fault takes is not the
        # kernel's, but the instruction's that touched the page.
        least_s = own["bound_system_s"] if kind == "faults" else own["bound_s"]
        if kind == "compute":
            self.measured_near(shares["compute"], own["total_s"] / elapsed_s, SHARE, "compute")
        else:
            # Filling the data counts as memory or as computing, whichever the estimate of its size says.
            most_s = own["bound_s"] + own["fill_s"]
            self.measured_between(shares[class_], least_s / elapsed_s, most_s / elapsed_s, SHARE, class_)
            self.measured_between(shares["compute"], (own["total_s"] - own["bound_s"]) / elapsed_s,
                                  (own["total_s"] + own["fill_s"] - least_s) / elapsed_s, SHARE, "compute")
            finding = self.finding(report, words)
            self.measured_between(finding["share"], least_s / elapsed_s, most_s / elapsed_s, 2 * SHARE, "finding")
            self.assertTrue(finding["file"].endswith("bound.c"), finding)
        # Or it is waiting for a processor, or computes for longer.
        if least_s > max(own["lacked_s"], own["total_s"] - least_s) + 2 * SHARE * elapsed_s:
            self.assertEqual(report["bottleneck"][0]["class"], class_)
        return own, report

    def test_compute(self):
        _, report = self.check("compute")
        self.assertNotIn("memory", self.shares(report))
        self.assertNotIn("io", self.shares(report))

    def test_memory(self):
        if not 0 < 3 * cache_mib() <= DATA_MIB:  # a size that is estimated from samples has to be clearly above it
            self.skipTest(f"the largest cache has {cache_mib():g} MiB (0: unknown), the data {DATA_MIB}")
        self.check("memory", 7)  # filling the arrays takes a while

    def test_page_faults(self):
        own, report = self.check("faults")
        seen = report["ranks"][0]["minor_faults"] + report["ranks"][0]["major_faults"]
        # The agent and the start of the process add some hundreds.
        self.measured_near(seen, own["faults"], 0.02 * own["faults"] + 2000, "page faults")

    def test_fsync(self):
        own, report = self.check("fsync")
        [file] = [row for row in report["io"]["files"] if row["path"].endswith("/bound.dat")]
        self.assertEqual(file["written_bytes"], own["written_bytes"])
        self.assertEqual(file["writes"], own["syncs"])
        [sync] = [row for row in report["io"]["calls"]
                  if row["operation"] == "sync" and row["path"].endswith("/bound.dat")]
        self.assertEqual(sync["count"], own["syncs"])
        self.assertEqual(sync["function"], "store")

    def test_sleep(self):
        own, report = self.check("sleep")
        rank = report["ranks"][0]
        self.measured_near(rank["voluntary_switches"], own["voluntary"], 0.02 * own["voluntary"] + 50, "switches")
        sleep = sum(row["time_s"] for row in report["off_cpu"] if row["kind"] == "sleep")
        self.measured_near(sleep / rank["elapsed_s"], own["bound_s"] / rank["elapsed_s"], SHARE, "sleep")


class BottlenecksOfTwo(BottlenecksTest):
    """Two threads or ranks, which need a core each."""

    def test_gil(self):
        done = self.record([recording.PYTHON, os.path.join(truth.PROGRAMS, "gil_fight.py"), "5"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        own, report = json.loads(done.stdout), self.report()
        elapsed_s = report["ranks"][0]["elapsed_s"]
        self.measured_near(self.shares(report)["idle"], own["bound_s"] / elapsed_s, SHARE, "idle")
        self.finding(report, "GIL")
        gil = sum(row["main_thread_s"] for row in report["off_cpu"] if row["kind"] == "gil")
        self.measured_near(gil / elapsed_s, own["bound_s"] / elapsed_s, SHARE, "GIL")

    def test_imbalance(self):
        program = recording.program("openmpi", "unequal_work")
        self.need(program)
        done = self.record([program, "40"], before=recording.launcher("openmpi", 2))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        balance = float(done.stdout.split()[1])
        report = self.report()
        # (max - mean) / elapsed, of which the program knows mean / max.
        most = max(rank["useful_s"] for rank in report["ranks"])
        self.measured_near(self.shares(report)["imbalance"], (1 - balance) * most / report["run"]["elapsed_s"], SHARE,
                           "imbalance")


if __name__ == "__main__":
    recording.main()
