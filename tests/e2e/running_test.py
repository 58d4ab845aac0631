"""A report of a run that is still running says so, and takes no rank for lost. Once its collector is killed, the run is
lost."""

import json
import os
import signal
import subprocess
import time

import recording

PROGRAM = """
import time
end = time.monotonic() + 1000
while time.monotonic() < end:
    sum(range(10000))
"""


class Running(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        self.run_directory = os.path.join(self.directory, "run")
        self.process = subprocess.Popen(
            [*recording.launcher("openmpi", 2), recording.CLUSTERPROF, "-o", self.run_directory, recording.PYTHON, "-c", PROGRAM, self.run_directory],
            cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(self.end)

    def end(self):
        recording.end_job(self.process, lambda words: words[:-1] == [recording.PYTHON, "-c", PROGRAM, self.run_directory])

    def clusterprof(self, *words):
        return subprocess.run([recording.CLUSTERPROF, *words], capture_output=True, text=True, timeout=60)

    def await_report(self, condition):
        deadline = time.monotonic() + 110
        while time.monotonic() < deadline:
            done = self.clusterprof("report", "--json", self.run_directory)
            if done.returncode == 0:
                report = json.loads(done.stdout)
                if condition(report):
                    return report
            time.sleep(0.2)
        self.fail(f"{done.stderr} {done.stdout[:500]}")

    def test_running_then_lost(self):
        report = self.await_report(lambda report: len(report["ranks"]) == 2)
        self.assertEqual(report["run"]["state"], "running")
        self.assertFalse(report["run"]["complete"])
        self.assertEqual(report["run"]["as_of_s"], max(node["as_of_s"] for node in report["nodes"]))
        self.assertLess(report["run"]["as_of_s"], 60)
        self.assertEqual([rank["exit"]["lost"] for rank in report["ranks"]], [False, False])
        of_ends = {"ranks_lost", "ranks_silent", "ranks_missing", "ranks_unfinished", "rank_failed", "launcher_gone"}
        self.assertFalse(of_ends & {finding["kind"] for finding in report["findings"]})
        self.assertNotIn("incomplete_shard", {note["code"] for note in report["run"]["note_records"]})
        for options in (["--section", "summary"], ["--oneline"]):
            self.assertRegex(self.clusterprof("report", self.run_directory, *options).stdout, "running, as of (now|[0-9]+ s ago)")
        listed, = json.loads(self.clusterprof("ls", "--json", self.directory).stdout)["runs"]
        self.assertEqual(listed["run_state"], "running")
        self.assertRegex(self.clusterprof("ls", self.directory).stdout, "running, as of")

        collector, = [pid for pid, words in recording.processes() if recording.is_collector(words, self.run_directory)]
        os.kill(collector, signal.SIGKILL)
        report = self.await_report(lambda report: report["run"]["state"] != "running")
        self.assertEqual(report["run"]["state"], "lost")
        self.assertEqual([rank["exit"]["lost"] for rank in report["ranks"]], [True, True])
        finding, = [finding for finding in report["findings"] if finding["kind"] == "ranks_silent"]
        self.assertEqual(finding["ranks"], [0, 1])


# The main thread and others keep all processors busy.
HANGS = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int stop;
static void *burn(void *unused) {
  while (!stop) {
  }
  return unused;
}
static void hang_here(void) {
  while (!stop) { /* line of the hang */
  }
}
int main(int argc, char **argv) {
  pthread_t thread;
  alarm(600);
  for (int i = 0; i < atoi(argv[1]); ++i) pthread_create(&thread, 0, burn, 0);
  close(open(argv[2], O_WRONLY | O_CREAT, 0600));
  hang_here();
}
"""


class HangsAtOnce(recording.RecordingTest):
    """The first answer of `stacks` that knows where a program is has its line, although no processor is idle."""

    def test_stacks(self):
        self.need("gcc")
        source, program, run, begun = (os.path.join(self.directory, name) for name in ("hang.c", "hang", "run", "begun"))
        with open(source, "w") as file:
            file.write(HANGS)
        subprocess.run(["gcc", "-g", "-O0", "-pthread", source, "-o", program], check=True)
        line = next(number for number, text in enumerate(HANGS.split("\n"), 1) if "line of the hang" in text)
        process = subprocess.Popen([recording.CLUSTERPROF, "-q", "-o", run, program, str(2 * len(os.sched_getaffinity(0))), begun],
                                   cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        deadline = time.monotonic() + 150
        while not os.path.exists(begun):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline, "the program does not come to where it hangs")
            time.sleep(0.02)
        begin = time.monotonic()
        deadline = begin + 110
        while True:
            done = subprocess.run([recording.CLUSTERPROF, "stacks", "--json", run], capture_output=True, text=True, timeout=60)
            found = [frame for row in json.loads(done.stdout)["classes"] for frame in row["frames"]
                     if frame["function"] == "hang_here"] if done.returncode == 0 else []
            if found:
                break
            self.assertLess(time.monotonic(), deadline, done)
            time.sleep(0.02)
        print(f"lines after {time.monotonic() - begin:.1f} s", flush=True)
        self.assertEqual([(os.path.basename(frame["file"] or ""), frame["line"]) for frame in found], [("hang.c", line)], done.stdout)
        text = subprocess.run([recording.CLUSTERPROF, "stacks", run], capture_output=True, text=True, timeout=60).stdout
        self.assertRegex(text, rf"hang_here\(\).*hang\.c:{line}")


if __name__ == "__main__":
    recording.main()
