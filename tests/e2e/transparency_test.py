"""What a program prints and how it ends is the same with clusterprof as without."""

import os
import signal
import subprocess

import recording

# Programs whose results are always the same.
WORKERS = """
import concurrent.futures, multiprocessing, os, subprocess, sys, time

def square(number):
    return number * number

def end(status):
    sys.exit(status)

def fill(queue, count):
    for number in range(count):
        queue.put(number)

def main(method):
    context = multiprocessing.get_context(method)
    with context.Pool(3) as pool:
        print(pool.map(square, range(50)))
        try:
            pool.map(int, ["no number"])
        except ValueError as error:
            print(error)
    for target, arguments in ((end, (7,)), (time.sleep, (60,))):
        worker = context.Process(target=target, args=arguments)
        worker.start()
        if target is time.sleep:
            worker.terminate()
        worker.join()
        print(worker.exitcode)
    queue = context.Queue()
    worker = context.Process(target=fill, args=(queue, 100))
    worker.start()
    print([queue.get() for _ in range(100)])
    worker.join()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        print(list(pool.map(square, range(20))))
    child = subprocess.run([sys.executable, "-c", "print(input()); raise SystemExit(4)"], input=b"text",
                           capture_output=True)
    print(child.stdout, child.stderr, child.returncode)
    print(os.system("exit 3"), os.popen("echo popen").read())
    sys.exit(5)

if __name__ == "__main__":
    main(sys.argv[1])
"""

THREADS = """
import concurrent.futures, queue, sys, threading

def fail():
    raise ValueError("in a thread")

tasks, results, local = queue.Queue(), queue.Queue(), threading.local()

def work():
    local.done = 0
    for number in iter(tasks.get, None):
        local.done += 1
        results.put(number * number)
    results.put(None)

threads = [threading.Thread(target=work, name=f"worker-{i}") for i in range(4)]
for thread in threads:
    thread.start()
for number in [*range(200), *[None] * len(threads)]:
    tasks.put(number)
for thread in threads:
    thread.join()
found = [results.get() for _ in range(200 + len(threads))]
print(sorted(number for number in found if number is not None), found.count(None))
failing = threading.Thread(target=fail, name="failing")
failing.start()
failing.join()
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    print(list(pool.map(len, ["a", "bb", "ccc"])))
print([thread.name for thread in threading.enumerate()], threading.active_count())
print(sys.getswitchinterval(), threading.stack_size())
sys.exit(6)
"""

IMPORTS = """
import sys
import decimal, email.mime.text, json, unittest.mock, xml.etree.ElementTree
import good
try:
    import bad
except ZeroDivisionError as error:
    print(error, "bad" in sys.modules)
try:
    import missing
except ModuleNotFoundError as error:
    print(error)
print(decimal.Decimal(1) / 7, json.dumps({"a": [1, 2]}), good.VALUE)
print(sorted(sys.modules), sys.path, len(sys.meta_path), len(sys.path_hooks))
import bad
"""

EVENT_LOOP = """
import asyncio, json, sys, threading, time

async def answer(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()

async def ask(port, text):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text + b"\\n")
    found = await reader.read()
    writer.close()
    return found

async def block():
    json.loads(json.dumps(list(range(200_000))))
    time.sleep(0.06)
    return "blocked"

async def fail():
    await asyncio.sleep(0.01)
    raise KeyError("in a task")

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(await asyncio.gather(*[ask(port, b"text %d" % i) for i in range(5)], block()))
    print(await asyncio.gather(fail(), return_exceptions=True))
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.05)
    except asyncio.TimeoutError:
        print("timeout")
    print(await asyncio.get_running_loop().run_in_executor(None, len, "four"))
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(1); raise SystemExit(2)",
                                                 stdout=asyncio.subprocess.PIPE)
    print(await child.communicate(), child.returncode)
    server.close()

other = threading.Thread(target=lambda: print(asyncio.run(block())))
other.start()
other.join()
asyncio.run(main())
asyncio.run(fail())
"""

# Messages that cannot be read, and one as multiprocessing sends it to its fork server; then a child.
MESSAGES = r"""
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  int ends[2], pipes[4], received[4] = {0};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || pipe(pipes) != 0 || pipe(pipes + 2) != 0) return 1;
  char byte = 4;
  struct iovec data = {&byte, 1};
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof pipes)];
  } control;
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
  printf("%zd", sendmsg(ends[0], NULL, 0));
  printf(" %d", errno);
  printf(" %zd", sendmsg(ends[0], (struct msghdr*)8, 0));
  printf(" %d", errno);
  message.msg_control = (void*)8;
  message.msg_controllen = sizeof control;
  printf(" %zd", sendmsg(ends[0], &message, 0));
  printf(" %d", errno);
  memset(&control, 0, sizeof control);
  message.msg_control = &control;
  control.head.cmsg_level = SOL_SOCKET;
  control.head.cmsg_type = SCM_RIGHTS;
  control.head.cmsg_len = CMSG_LEN(sizeof pipes);
  memcpy(CMSG_DATA(&control.head), pipes, sizeof pipes);
  message.msg_iov = (struct iovec*)8;
  printf(" %zd", sendmsg(ends[0], &message, 0));
  printf(" %d", errno);
  message.msg_iov = &data;
  errno = 0;
  printf(" %zd", sendmsg(ends[0], &message, 0));
  printf(" %d", errno);
  printf(" %zd", recvmsg(ends[1], &message, 0));
  printf(" %d %zu", errno, (size_t)message.msg_controllen);
  memcpy(received, CMSG_DATA(&control.head), sizeof received);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(write(received[1], "x", 1) == 1 ? 8 : 9);
  int status = 0;
  waitpid(child, &status, 0);
  printf(" %d %zd\n", status, read(pipes[0], &byte, 1));
  return byte == 'x' ? 2 : 3;
}
"""


class Transparency(recording.RecordingTest):
    def same(self, command, before=(), options=(), stdin=None, compare_stderr=True, **how):
        """Runs the command bare and recorded; stdout, status and (quiet) stderr must be equal."""
        bare, recorded = self.bare_and_recorded(command, before, ["-q", *options], input=stdin, **how)
        self.assertEqual(recorded.stdout, bare.stdout)
        self.assertEqual(recorded.returncode, bare.returncode, recorded.stderr.decode(errors="replace"))
        if compare_stderr:
            self.assertEqual(recorded.stderr, bare.stderr)
        return recorded

    def test_exit_status(self):
        for status in (0, 1, 3, 77, 125, 255):
            with self.subTest(status):
                self.same(["sh", "-c", f"echo out; echo err >&2; exit {status}"], run=f"run{status}")

    def test_python_exit_status(self):
        self.same([recording.PYTHON, "-c", "import sys; print('x' * 100000); sys.exit(3)"])

    def test_signals(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1):
            with self.subTest(number.name):
                code = f"import os, sys; print('here'); sys.stdout.flush(); os.kill(os.getpid(), {int(number)})"
                done = self.same([recording.PYTHON, "-c", code], run=f"run-{number.name}")
                self.assertEqual(done.returncode, -number)
                exit_ = self.report(f"run-{number.name}")["ranks"][0]["exit"]
                self.assertEqual(exit_["signal"], number)

    def test_real_fault(self):
        done = self.same([recording.PYTHON, "-c", "import ctypes; ctypes.string_at(8)"])
        self.assertEqual(done.returncode, -signal.SIGSEGV)

    def test_faulthandler_still_reports(self):
        done = self.same([recording.PYTHON, "-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(8)"],
                         compare_stderr=False)
        self.assertIn(b"Fatal Python error: Segmentation fault", done.stderr)

    def test_missing_and_not_executable(self):
        done = self.record(["/nowhere/at/all"])
        self.assertEqual(done.returncode, 127)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        plain = os.path.join(self.directory, "plain")
        with open(plain, "w") as file:
            file.write("no program\n")
        done = self.record([plain], run="run2")
        self.assertEqual(done.returncode, 126)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_standard_input(self):
        self.same(["cat"], stdin=bytes(range(256)) * 4096)

    def test_environment_and_arguments(self):
        done = self.record(["sh", "-c", 'printf "%s|" "$0" "$@"', "a b", "--rate", "", "-o", "*"], options=["-q"])
        self.assertEqual(done.stdout, b"a b|--rate||-o|*|")

    def test_mpi_endings(self):
        ends = recording.program("openmpi", "ends")
        self.need(ends)
        before = recording.launcher("openmpi", 2)
        for how in (["normal"], ["exit", "3"], ["segv"], ["abort"], ["mpi_abort", "7"], ["no_finalize"]):
            with self.subTest(how[0]):
                bare, done = self.bare_and_recorded([ends, *how], before, ["-q"], f"run-{how[0]}")
                self.assertEqual(sorted(done.stdout.splitlines()), sorted(bare.stdout.splitlines()))
                self.assertEqual(done.returncode, bare.returncode, done.stderr.decode())

    def test_mpich_endings(self):
        ends = recording.program("mpich", "ends")
        self.need(ends)
        before = recording.launcher("mpich", 2)
        for how in (["normal"], ["exit", "3"], ["mpi_abort", "7"]):
            with self.subTest(how[0]):
                bare, done = self.bare_and_recorded([ends, *how], before, ["-q"], f"run-{how[0]}")
                if how[0] == "mpi_abort":  # mpirun may end before it has passed on what the ranks wrote
                    self.assertLessEqual(set(done.stdout.splitlines()), {b"rank 0 is here", b"rank 1 is here"})
                else:
                    self.assertEqual(sorted(done.stdout.splitlines()), sorted(bare.stdout.splitlines()))
                self.assertEqual(done.returncode, bare.returncode, done.stderr.decode())

    def script(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def test_workers(self):
        path = self.script("workers.py", WORKERS)
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                done = self.same([recording.PYTHON, path, method], run=f"run-{method}")
                self.assertEqual(done.returncode, 5, done.stderr)

    def test_threads(self):
        done = self.same([recording.PYTHON, self.script("threads.py", THREADS)])
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn(b"Exception in thread failing", done.stderr)

    def test_imports(self):
        self.script("good.py", "VALUE = __file__")
        self.script("bad.py", "1 / 0")
        # Without compiled files: the two runs share the directory.
        done = self.same([recording.PYTHON, "-B", self.script("imports.py", IMPORTS)])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"ZeroDivisionError", done.stderr)

    def test_event_loops(self):
        done = self.same([recording.PYTHON, self.script("loops.py", EVENT_LOOP)])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"in a task", done.stderr)

    def test_messages_with_descriptors(self):
        self.need("cc")
        program = os.path.join(self.directory, "messages")
        subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", program], input=MESSAGES.encode(), check=True)
        done = self.same([program])
        self.assertEqual(done.returncode, 2, done.stdout)

    def test_sleeps_are_not_cut_short(self):
        code = (recording.LACKED +
                "import time, select, threading\n"
                "def timed(f):\n"
                "    l, b = lacked(), time.monotonic(); f(); e = time.monotonic(); print(e - b, lacked() - l)\n"
                "timed(lambda: time.sleep(0.3))\n"
                "timed(lambda: select.select([], [], [], 0.3))\n"
                "timed(lambda: threading.Event().wait(0.3))\n")
        for rate in ("100", "1000"):
            done = self.record([recording.PYTHON, "-c", code], options=["-q", "-r", rate], run=f"run{rate}")
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            slept = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
            self.assertEqual(len(slept), 3)
            for seconds, lacked in slept:
                self.assertGreaterEqual(seconds, 0.3 - 0.001)
                self.measured_below(seconds - lacked, 0.3 + 0.25, f"a sleep of 0.3 s at {rate} Hz")  # the host may have other things to do


if __name__ == "__main__":
    recording.main()
