"""Processes that ranks make: the table of processes, and where their time is found."""

import os
import subprocess

import recording

# Makes workers in the way that its argument says. They print their processor time, which has that of their start; at the end
# RUSAGE_CHILDREN.
WORKERS = """
import multiprocessing, resource, sys, time

def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    print(time.process_time(), flush=True)

def main():
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=work, args=(0.4,)) for _ in range(3)]
    for worker in workers:
        worker.start()  # START
    for worker in workers:
        worker.join()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(usage.ru_utime + usage.ru_stime)

if __name__ == "__main__":
    main()
"""

# Workers of one fork server, started on two lines. The second one works three times as long, and starts a third. They print where
# they were started and their processor time.
REQUESTS = """
import multiprocessing, time

def work(mark, seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    if mark != "SECOND":
        print(mark, time.process_time(), flush=True)

def work_and_start(mark, seconds):
    work(mark, seconds)
    child = multiprocessing.get_context("forkserver").Process(target=work, args=("NESTED", 0.6))
    child.start()  # NESTED
    child.join()
    print(mark, time.process_time(), flush=True)

def main():
    context = multiprocessing.get_context("forkserver")
    first = context.Process(target=work, args=("FIRST", 0.3))
    second = context.Process(target=work_and_start, args=("SECOND", 0.9))
    first.start()  # FIRST
    second.start()  # SECOND
    first.join()
    second.join()

if __name__ == "__main__":
    main()
"""

# The main thread waits for what eight workers compute, all of them on line 12, and prints for how long.
POOL = """
import multiprocessing
import time







def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass

def main():
    with multiprocessing.Pool(8) as pool:
        begin = time.perf_counter()
        pool.map(work, [0.3] * 8, chunksize=1)
        print(time.perf_counter() - begin)
        pool.close()
        pool.join()

if __name__ == "__main__":
    main()
"""
assert POOL.lstrip("\n").splitlines()[11].startswith("    while")

# Each way to make a child that writes, among them some that nobody waits for, and one that lives for longer than a second.
WRITERS = """
import os, signal, subprocess, sys, time

def write(mebibytes=10):
    with open("/dev/null", "wb", buffering=0) as null:
        for _ in range(mebibytes):
            null.write(bytes(1 << 20))

def forked(*work):
    child = os.fork()
    if child == 0:
        for part in work: part()
        os._exit(0)
    return child

def wait(child):
    os.waitpid(child, 0)

def orphan():
    read_end, write_end = os.pipe()
    def leave_a_child():
        os.close(read_end)
        parent = os.getpid()
        def write_later():
            while os.getppid() == parent: time.sleep(0.01)
            write()
        forked(write_later)
    wait(forked(leave_a_child))
    os.close(write_end)
    os.read(read_end, 1)  # until the orphan has ended, too

def ignored():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        wait(forked(write))
    except ChildProcessError:  # it has ended
        pass
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)

if len(sys.argv) > 1:
    write()
else:
    write()
    wait(forked(write))
    wait(forked(write, lambda: time.sleep(1.3), write))
    wait(forked(lambda: wait(forked(write))))
    subprocess.run([sys.executable, sys.argv[0], "write"], check=True)
    orphan()
    ignored()
"""
WRITTEN_MIB = 10 * 8

# One child of each other kind. The shells execute nothing else, so they spend the time themselves.
# So long that what the kernel does after a child's last instruction, some milliseconds on a slow machine, is far below 1 %.
CHILDREN = """
import os, resource, subprocess, sys

WORK = "import time; end = time.process_time() + 1\\nwhile time.process_time() < end: pass"
LOOP = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done"

def run():
    subprocess.run([sys.executable, "-c", WORK + "\\nraise SystemExit(3)", "--password=secret"])  # SUBPROCESS

def spawn():
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", WORK], os.environ)  # SPAWN
    os.waitpid(child, 0)

def fork():
    child = os.fork()  # FORK
    if child == 0:
        exec(WORK)
        os.kill(os.getpid(), 15)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    return child

def shell():
    os.system(LOOP)  # SYSTEM

def pipe():
    with os.popen(LOOP) as output:  # POPEN
        output.read()

child = fork()
run(), spawn(), shell(), pipe()
os.waitpid(child, 0)  # until then, also who has not waited for it can be told how it ended
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime)
"""

# It exits with 0 and then crashes: in a library's destructor, or where libc writes what a stream still holds.
CRASHES_IN_DESTRUCTOR = """
#include <signal.h>
static int crashes;
void crash_in_destructor(void) { crashes = 1; }
__attribute__((destructor)) static void end(void) { if (crashes) raise(SIGSEGV); }
"""
CRASHES_AT_END = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
void crash_in_destructor(void);
static ssize_t crash(void* unused, const char* text, size_t bytes) {
  (void)unused, (void)text;
  raise(SIGSEGV);
  return (ssize_t)bytes;
}
int main(int argc, char** argv) {
  (void)argc;
  if (strcmp(argv[1], "destructor") == 0)
    crash_in_destructor();
  else
    fputs("text", fopencookie(NULL, "w", (cookie_io_functions_t){.write = crash}));
  return 0;
}
"""
RUNS_CRASHING = """
import resource, subprocess
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print([subprocess.run(["./crashes", where]).returncode for where in ("destructor", "stream")])
"""

VFORK = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* How many bytes of arguments a program may have that the child executes. */
static long largest(int by_vfork) {
  static char text[1001], *arguments[4100];
  memset(text, 'x', 1000);
  long low = 0, high = 4000000;
  while (low < high) {
    const long bytes = (low + high + 1) / 2;
    long count = 0;
    arguments[count++] = "true";
    while (count <= bytes / 1000) arguments[count++] = text;
    arguments[count++] = text + 1000 - bytes % 1000;
    arguments[count] = NULL;
    const pid_t child = by_vfork ? vfork() : fork();
    if (child == 0) {
      execv("/bin/true", arguments);
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status == 0) low = bytes; else high = bytes - 1;
  }
  return low;
}
int main(void) {
  int status = 0;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", (char*)0);
      _exit(7);
    }
    waitpid(child, &status, 0);
    printf("%d %d\n", i, status);
  }
  fflush(stdout);
  printf("%d\n", system("exit 3"));
  char text[8] = "";
  FILE* const pipe = popen("echo x; exit 4", "r");
  if (pipe != NULL && fgets(text, sizeof text, pipe) != NULL) printf("%s", text);
  printf("%d\n", pclose(pipe));
  printf("%ld\n", largest(1) - largest(0));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGBUS);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  raise(SIGBUS);
  const pid_t child = vfork();
  if (child == 0) _exit(0);
  waitpid(child, &status, 0);
  sigpending(&signals);
  printf("%d\n", sigismember(&signals, SIGBUS));
  signal(SIGBUS, SIG_IGN);
  return 0;
}
"""


class Processes(recording.RecordingTest):
    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="ascii") as file:
            file.write(text)

    @staticmethod
    def line_of(text, mark):
        return next(i for i, line in enumerate(text.splitlines(), 1) if line.endswith(f"# {mark}"))

    def recorded(self, command, run="run"):
        """Records the command; returns (what it printed, report)."""
        done = self.record(command, options=["-q"], run=run)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode(), self.report(run)

    def check_roots(self, report):
        """Everything but the start of Python is below the program itself."""
        roots = {row["name"] for row in report["call_tree"] if row["parent"] is None}
        for row in report["call_tree"]:
            self.assertNotEqual((row["name"], row["file"], row["parent"]), ("<module>", "<string>", None), roots)
            self.assertFalse(row["parent"] is None and (row["file"] or "").endswith("resource_tracker.py"), roots)

    def check_children_cpu(self, report, printed):
        # The resource tracker ends after the program.
        children = [row for row in report["processes"] if row["how"] != "rank" and
                    report["process_groups"][row["group"]]["program"] != "resource tracker"]
        own = next(row for row in report["processes"] if row["how"] == "rank")
        used = float(printed.split()[-1])
        self.assertAlmostEqual(own["children_cpu_s"], used, delta=0.002)
        # A child does not see what the kernel does after its last instruction.
        self.measured_near(sum(row["cpu_s"] for row in children), used, 0.01 * used + 0.005 * len(children), "CPU time of children")

    def check_workers(self, method):
        self.write("workers.py", WORKERS)
        path = os.path.join(self.directory, "workers.py")
        printed, report = self.recorded([recording.PYTHON, path, method], run=method)
        groups = [group for group in report["process_groups"] if group["program"] == "worker"]
        self.assertEqual(len(groups), 1, report["process_groups"])
        group = groups[0]
        self.assertEqual((group["how"], group["count"]), (method, 3))
        said = list(map(float, printed.split()[:-1]))
        self.assertEqual(len(said), 3, printed)
        for key, used in (("cpu_min_s", min(said)), ("cpu_mean_s", sum(said) / 3), ("cpu_max_s", max(said))):
            self.measured_near(group[key], used, 0.25, f"{method}: {key}")  # a worker's end comes after what it says
        self.assertEqual(group["created_by"]["line"], self.line_of(WORKERS, "START"))
        self.assertEqual(group["created_by"]["function"], "main")
        self.assertEqual(group["top"]["function"], "work")
        rows = [row for row in report["processes"] if report["process_groups"][row["group"]] is group]
        self.assertEqual(len({row["pid"] for row in rows}), 3)
        for row in rows:
            self.assertEqual(row["exit"], {"status": 0, "signal": None})
            self.assertLess(row["start_s"], row["end_s"])
        # The workers' time is below the line that started them, and below nothing else.
        self.check_roots(report)
        started = [row for row in report["lines"]
                   if row["file"] == path and row["line"] == self.line_of(WORKERS, "START")]
        work = next(row for row in report["functions"] if row["name"] == "work")
        # They work for 0.4 s of CPU time each, which takes at least that long.
        self.measured_above(work["total_s"], 0.9 * 3 * 0.4, f"{method}: time of work()")
        self.measured_below(work["total_s"], sum(row["end_s"] - row["start_s"] for row in rows), method)
        self.assertGreaterEqual(started[0]["total_s"], work["total_s"] - 0.001)
        text = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, method), "--section",
                               "processes"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn("3 x worker", text)
        return printed, report

    def test_fork(self):
        printed, report = self.check_workers("fork")
        self.check_children_cpu(report, printed)

    def test_spawn(self):
        printed, report = self.check_workers("spawn")
        self.check_children_cpu(report, printed)
        programs = {group["program"] for group in report["process_groups"]}
        self.assertIn("resource tracker", programs)

    def test_forkserver(self):
        _, report = self.check_workers("forkserver")
        server = next(group for group in report["process_groups"] if group["program"] == "fork server")
        self.assertEqual(server["count"], 1)

    def test_workers_of_one_fork_server_are_below_their_own_start(self):
        self.write("requests.py", REQUESTS)
        path = os.path.join(self.directory, "requests.py")
        printed, report = self.recorded([recording.PYTHON, path], run="requests")
        said = dict(line.split() for line in printed.splitlines())
        self.check_roots(report)
        lines = {row["line"]: row["total_s"] for row in report["lines"] if row["file"] == path}
        for mark, below_s in (("FIRST", 0.3), ("SECOND", 1.5), ("NESTED", 0.6)):
            groups = [group for group in report["process_groups"] if group["program"] == "worker" and
                      group["created_by"] and group["created_by"]["line"] == self.line_of(REQUESTS, mark)]
            self.assertEqual([(group["how"], group["count"]) for group in groups], [("forkserver", 1)], mark)
            self.measured_near(groups[0]["cpu_mean_s"], float(said[mark]), 0.25, f"{mark}: CPU time of the worker")
            self.measured_above(lines[self.line_of(REQUESTS, mark)], 0.9 * below_s, f"{mark}: time below the line")
        server = next(group for group in report["process_groups"] if group["program"] == "fork server")
        self.assertEqual((server["count"], server["created_by"]["line"]), (1, self.line_of(REQUESTS, "FIRST")))

    def test_awaited_workers_are_named_and_count_for_the_verdict(self):
        self.write("pool.py", POOL.lstrip("\n"))
        printed, report = self.recorded([recording.PYTHON, os.path.join(self.directory, "pool.py")], run="pool")
        waited_s, elapsed_s = float(printed), report["ranks"][0]["elapsed_s"]
        finding = next(f for f in report["findings"] if f["kind"] == "blocked")
        self.assertRegex(finding["text"],
                         r"They wait for 8 child processes \(worker\), which are mostly in work\(\) \S*pool\.py:12\.")
        classes = [row for row in report["bottleneck"] if row["scope"] == "run"]
        self.measured_near(sum(row["numbers"].get("workers_s", 0) for row in classes), waited_s, 0.2 * waited_s,
                           "time of workers that the verdict counts")
        idle = sum(row["share"] for row in classes if row["class"] == "idle")
        self.measured_below(idle, 1.1 - waited_s / elapsed_s, "idle share of the verdict")
        # The categories stay those of the main thread.
        self.measured_above(report["ranks"][0]["idle_s"], 0.9 * waited_s, "idle time of the main thread")

    def test_what_children_write_counts_once(self):
        self.write("writers.py", WRITERS)
        _, report = self.recorded([recording.PYTHON, os.path.join(self.directory, "writers.py")])
        self.assertAlmostEqual(report["ranks"][0]["write_bytes"] / 2**20, WRITTEN_MIB, delta=1)
        self.assertEqual(len(report["processes"]), 9)

    def test_what_a_shells_child_writes_counts_once(self):
        """A shell that ends at once when the program has ended that it has waited for."""
        self.write("writers.py", WRITERS)
        path = os.path.join(self.directory, "writers.py")
        _, report = self.recorded(["sh", "-c", '"$0" "$1" write; true', recording.PYTHON, path], run="shell")
        self.assertAlmostEqual(report["ranks"][0]["write_bytes"] / 2**20, 10, delta=1)
        self.assertEqual(len(report["processes"]), 2)

    def test_other_children(self):
        self.write("children.py", CHILDREN)
        printed, report = self.recorded([recording.PYTHON, os.path.join(self.directory, "children.py")])
        self.check_children_cpu(report, printed)
        self.check_roots(report)
        rank = next(row for row in report["processes"] if row["how"] == "rank")
        for how, mark, exits in (("subprocess", "SUBPROCESS", (3, None)), ("posix_spawn", "SPAWN", (0, None)),
                                 ("fork", "FORK", (None, 15)), ("shell", "SYSTEM", (0, None)),
                                 ("subprocess", "POPEN", (0, None))):
            rows = [row for row in report["processes"] if row["how"] == how and row["created_by"] and
                    row["created_by"]["line"] == self.line_of(CHILDREN, mark)]
            self.assertEqual(len(rows), 1, (mark, report["processes"]))
            row = rows[0]
            self.assertEqual(row["ppid"], rank["pid"], mark)
            self.assertEqual((row["exit"]["status"], row["exit"]["signal"]), exits, mark)
            made_on = report["process_groups"][row["group"]]["created_by"]
            self.assertIn("children.py", made_on["call_path"][0], mark)
            self.assertEqual(row["created_by"]["call_path"], made_on["call_path"])
        words = sum((row["command"] for row in report["processes"]), [])
        self.assertIn("--password=***", words)
        self.assertNotIn("--password=secret", words)

    def test_children_that_crash_after_they_have_exited(self):
        self.need("cc")
        self.write("library.c", CRASHES_IN_DESTRUCTOR)
        self.write("program.c", CRASHES_AT_END)
        self.write("runs.py", RUNS_CRASHING)
        subprocess.run(["cc", "-shared", "-fPIC", "library.c", "-o", "libcrash.so"], cwd=self.directory, check=True)
        subprocess.run(["cc", "program.c", "-o", "crashes", "-L.", "-lcrash", "-Wl,-rpath,$ORIGIN"], cwd=self.directory,
                       check=True)
        printed, report = self.recorded([recording.PYTHON, "runs.py"])
        self.assertEqual(printed, "[-11, -11]\n")
        ends = {row["command"][1]: row["exit"] for row in report["processes"] if row["how"] == "subprocess"}
        crashed = {"status": None, "signal": 11}
        self.assertEqual(ends, {"destructor": crashed, "stream": crashed})

    def test_results_are_the_same(self):
        """vfork returns twice, system and popen have statuses."""
        self.need("cc")
        subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", "twice"], input=VFORK.encode(), cwd=self.directory, check=True)
        program = os.path.join(self.directory, "twice")
        printed, report = self.recorded([program])
        self.assertEqual(printed.encode(), self.bare([program]).stdout)
        made = [row for row in report["processes"] if row["how"] == "exec"]
        self.assertEqual([os.path.basename(row["command"][0]) for row in made[:3]], ["true"] * 3)
        self.assertEqual({row["created_by"]["function"] for row in made[:3]}, {"main"})
        shells = [row for row in report["processes"] if row["how"] == "shell"]
        self.assertEqual([row["exit"]["status"] for row in shells], [3, 4])
        self.assertEqual({row["created_by"]["function"] for row in shells}, {"main"})
        script = "import os; pipe = os.popen('echo x; exit 4'); print(os.system('exit 3'), pipe.read(), pipe.close())"
        command = [recording.PYTHON, "-c", script]
        printed, _ = self.recorded(command, run="script")
        self.assertEqual(printed.encode(), self.bare(command).stdout)


recording.main()
