# SPDX-License-Identifier: BSD-3-Clause
"""What is around a program takes away what the recording needs: files, memory, processes, system calls, /proc, the run
directory, the collector. The program's output, its result and its end are those without clusterprof, at once, and
nothing is left behind.

    surroundings_test.py [--long]     10 times each, and more of them"""

import concurrent.futures
import ctypes
import errno
import glob
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

import recording

LONG = "--long" in sys.argv
TIMES = 10 if LONG else 1
PROGRAM = '''
import os, sys, time
def work(value):
    for _ in range(2000):
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
    return value
end, limit, results = time.thread_time() + float(sys.argv[1]), time.monotonic() + 120, set()
gate = sys.argv[2] if len(sys.argv) > 2 else os.curdir
while not results or time.thread_time() < end or (not os.path.exists(gate) and time.monotonic() < limit):
    results.add(work(1))
print(results, flush=True)
print("to stderr", file=sys.stderr, flush=True)
sys.exit(7)
'''

# x86-64
CALLS = {"perf_event_open": 298, "timer_create": 222, "memfd_create": 319, "pidfd_open": 434, "signalfd": 289,
         "symlink": 88, "connect": 42, "socketpair": 53,
         "sched_setscheduler": 144}
MORE_CALLS = {"timer_settime": 223, "close_range": 436, "eventfd": 290, "epoll_create": 291, "timerfd_create": 283,
              "ftruncate": 77, "fsync": 74, "rename": 82, "socket": 41, "bind": 49, "listen": 50, "accept": 288,
              "sendmsg": 46, "recvmsg": 47, "setsockopt": 54, "getsockopt": 55, "prctl": 157, "sigaltstack": 131,
              "tgkill": 234, "gettid": 186, "statx": 332, "getrusage": 98, "setsid": 112, "madvise": 28,
              "prlimit": 302, "process_vm_readv": 310, "unlink": 87, "setpriority": 141, "sched_setaffinity": 203,
              "sched_getaffinity": 204}
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7fff0000


def without_call(number, action):
    """For preexec_fn: a filter of system calls, as a container's, against one of them."""
    load, jump_equal, answer = 0x20, 0x15, 0x06
    words = [(load, 0, 0, 0), (jump_equal, 0, 1, number), (answer, 0, 0, action), (answer, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(words), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0):
            raise OSError(ctypes.get_errno(), "no filter" + str(code)[:0])
    return install


def limited(*limits):
    return ["bash", "-c", "".join(f"ulimit {limit} && " for limit in limits) + 'exec "$@"', "bash"]


def mounted(command):
    """The rest in a mount namespace of its own, where `command` has been run first."""
    return [*NAMESPACE, "bash", "-c", command + ' && exec "$@"', "bash"]


NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]
NOBODY = ["setpriv", "--reuid", "64123", "--regid", "64123", "--clear-groups"]


class Surroundings(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o777)
        script = os.path.join(self.directory, "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        self.program = [recording.PYTHON, script, "0.15"]
        self.numbers = itertools.count(1)  # of runs; some tests make several at once

    def start(self, command, **how):
        return subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **how)

    def end(self, process, seconds):
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            for pid, words in recording.processes():
                if any(self.directory in word for word in words):
                    os.kill(pid, signal.SIGKILL)
            process.kill()
            process.communicate()
            self.fail(f"no end after {seconds} s: {process.args}")
        lines = err.splitlines(keepends=True)
        own = [line.decode() for line in lines if line.startswith(b"clusterprof:")]
        return process.returncode, out, b"".join(line for line in lines if not line.startswith(b"clusterprof:")), own

    def same(self, command, before=(), options=(), run=None, seconds=60, meanwhile=None, left=(), **how):
        """Runs it bare and recorded, and compares; returns the run and what clusterprof has said."""
        run = run or os.path.join(self.directory, f"run{next(self.numbers)}")
        bare = self.start([*before, *command], **how)
        recorded = self.start([*before, recording.CLUSTERPROF, "-q", *options, "-o", run, *command], **how)
        if meanwhile:
            meanwhile(run)
        *expected, _ = self.end(bare, seconds)
        *seen, said = self.end(recorded, seconds)
        self.assertEqual(seen, expected, said)
        self.nothing_left(run, left)
        return run, said

    def gated(self, name):
        """A program that goes on until its gate is opened, and what opens it: something has to happen before the end."""
        gate = os.path.join(self.directory, name)
        return [*self.program, gate], lambda: open(gate, "w").close()

    def nothing_left(self, run, expected=()):
        deadline = time.monotonic() + 60
        while True:
            left = [words for _, words in recording.processes() if any(f"={run}" in word for word in words)]
            if not left:
                break
            self.assertLess(time.monotonic(), deadline, left)
            time.sleep(0.05)
        names = os.listdir(run) if os.path.isdir(run) else []
        self.assertEqual([name for name in names if name.endswith((".tmp", ".claim")) and name not in expected], [])

    def unrecorded(self, run, said, reason=""):
        line, = said
        self.assertRegex(line, f"{reason}.*; the command runs unrecorded")
        self.assertFalse(glob.glob(os.path.join(run, "node-*")))

    def needs_namespaces(self):
        if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespaces here")

    def compile(self, name, source, *options):
        self.need("cc")
        path = os.path.join(self.directory, name)
        done = subprocess.run(["cc", "-x", "c", "-", "-o", path, *options], input=source.encode(), capture_output=True)
        if done.returncode != 0:
            self.skipTest(f"cannot compile with {options}: {done.stderr.decode()[:300]}")
        return path

    # --- system calls ---

    def test_filters_of_system_calls(self):
        calls = dict(CALLS, **MORE_CALLS) if LONG else CALLS
        answers = [ERRNO | errno.EPERM, ERRNO | errno.ENOSYS] if LONG else [ERRNO | errno.EPERM]
        cases = [(name, number, answer) for name, number in calls.items() for answer in answers] * TIMES
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            done = [(name, pool.submit(self.same, self.program, preexec_fn=without_call(number, answer)))
                    for name, number, answer in cases]
            for name, one in done:
                with self.subTest(name):
                    run, said = one.result()
                    if name in ("perf_event_open", "pidfd_open", "signalfd"):  # nothing is missing then
                        self.assertEqual(said, [])
                        self.assertTrue(self.report(run)["run"]["complete"])

    def test_filters_that_kill(self):
        calls = ("perf_event_open", "timer_create", "memfd_create", "signalfd", "connect", "pidfd_open",
                 "sched_setscheduler")
        for name in calls * TIMES:
            with self.subTest(name):
                self.unrecorded(*self.same(self.program, preexec_fn=without_call(CALLS[name], KILL_PROCESS)), "seccomp")

    def test_no_memory_left_for_the_summary(self):
        groups = os.path.join(self.directory, "groups")
        os.makedirs(os.path.join(groups, "memory"))
        for name, text in (("memory.max", "400000000"), ("memory.current", "370000000"), ("memory.stat", "inactive_file 0"),
                           ("memory/memory.limit_in_bytes", "400000000"), ("memory/memory.usage_in_bytes", "370000000"),
                           ("memory/memory.stat", "total_inactive_file 0")):
            with open(os.path.join(groups, name), "w") as file:
                file.write(text + "\n")
        with open("/proc/self/cgroup") as file:
            if not any(line.startswith("0::") or ":memory:" in line for line in file):
                self.skipTest("no control groups with a memory controller here")
        run = os.path.join(self.directory, "run")
        done = self.record(["/bin/sh", "-c", "exit 7"], env={**os.environ, "CLUSTERPROF_CGROUP_ROOT": groups})
        self.assertEqual((done.returncode, done.stdout), (7, b""))
        line = done.stderr.decode()
        self.assertRegex(line, "^clusterprof: .*the summary takes more memory than the job has left; clusterprof report .*\n$")
        self.assertFalse(os.path.exists(os.path.join(run, "profile.h5")))
        self.assertTrue(self.report()["run"]["complete"])

    # --- how it is started ---

    def test_closed_standard_files(self):
        program = ["/bin/sh", "-c", 'for fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && open="$open $fd"; done; '
                                    'echo "$open" > files.$$; exit 7']
        for closed in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-") * TIMES:
            with self.subTest(closed):
                run, said = self.same(program, ["sh", "-c", f'exec "$@" {closed}', "sh"])
                self.assertEqual(said, [])
                report = self.report(run)
                self.assertTrue(report["run"]["complete"])
                self.assertEqual([rank["exit"]["status"] for rank in report["ranks"]], [7])
                alone, recorded = glob.glob(os.path.join(self.directory, "files.*"))
                with open(alone) as one, open(recorded) as other:
                    self.assertEqual(one.read(), other.read())
                os.remove(alone)
                os.remove(recorded)

    # --- limits ---

    def test_few_files(self):
        for number in (5, 8, 12, 32, 63, 64, 100) * TIMES:
            with self.subTest(number):
                run, said = self.same(self.program, limited(f"-n {number}"))
                if number < 64:
                    self.unrecorded(run, said, "Too many open files")
                else:
                    self.assertTrue(self.report(run)["run"]["complete"])

    def test_low_limits_of_every_kind(self):
        for limit in ("-l 0", "-i 0", "-f 0", "-f 100", "-v 65536", "-v 200000") * TIMES:
            with self.subTest(limit):
                self.same(["/bin/sh", "-c", "echo out; echo err >&2; exit 7"], limited(limit))

    def test_low_memory_limits(self):
        """What the collector cannot work with is found before it starts: its libraries would crash."""
        for limit in ("-d 20000", "-s 500", "-v 120000") * TIMES:
            with self.subTest(limit):
                self.unrecorded(*self.same(self.program, limited(limit)), "Cannot allocate memory")
        run, said = self.same(self.program, limited("-S -d 60000", "-S -s 500", "-S -f 1"))
        self.assertEqual(said, [])
        self.assertTrue(self.report(run)["run"]["complete"])

    def test_few_processes(self):
        if os.geteuid() != 0:
            self.skipTest("needs a user who has no processes")
        for number in range(5):  # what fails first changes with each
            for _ in range(TIMES):
                with self.subTest(number):
                    self.same(self.program, [*NOBODY, *limited(f"-u {number}")])

    # --- the run directory ---

    def on_a_disk(self, options, *words, after=""):
        """The run directory is on a file system of its own, at `disk`."""
        self.needs_namespaces()
        disk = os.path.join(self.directory, "disk")
        os.makedirs(disk, exist_ok=True)
        return self.same(self.program, mounted(f"mount -t tmpfs {options} none {disk}{after}"), words,
                         run=os.path.join(disk, "run"))

    def test_read_only(self):
        self.unrecorded(*self.on_a_disk("-o ro"), "Read-only file system")

    def test_full_disk(self):
        self.unrecorded(*self.on_a_disk("-o nr_inodes=1"), "No space left on device")
        for _ in range(TIMES):
            for kilobytes in (4, 8, 16, 64, 300) if LONG else (4, 16, 300):
                with self.subTest(kilobytes):
                    _, said = self.on_a_disk(f"-o size={kilobytes}k")
                    for line in said:
                        self.assertIn("cannot write the profile of node", line)

    def test_full_disk_with_room_again_later(self):
        """The last shard is whole, and those that failed take no space."""
        self.needs_namespaces()
        disk = os.path.join(self.directory, "disk")
        os.mkdir(disk)
        program, _ = self.gated("gate")
        errors, used_kib = os.path.join(self.directory, "errors"), f"$(df --output=used {disk} | tail -1)"
        # A shard has failed when that was said. Until the next try, seconds later, there is the filler and no more.
        script = (f'mount -t tmpfs -o size=600k none {disk}; head -c 580k /dev/zero > {disk}/filler; '
                  f'"$1" -q -o {disk}/run "${{@:2}}" 2> {errors} & '
                  f'for i in $(seq 600); do grep -q "cannot write the profile" {errors} && break; sleep 0.1; done; '
                  f'for i in $(seq 600); do used={used_kib}; [ $used -ge 592 ] || break; sleep 0.05; done; echo $((used - 580)); '
                  f'rm {disk}/filler; touch {program[-1]}; '
                  f'wait $!; status=$?; "$1" report --json {disk}/run > {disk}/../report.json; exit $status')
        done = subprocess.run([*NAMESPACE, "bash", "-c", script, "bash", recording.CLUSTERPROF, *program],
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 7, done.stderr)
        with open(errors) as file:
            said = file.read()
        self.assertIn("cannot write the profile", said)
        self.assertNotIn("ended early", said)
        self.assertLess(int(done.stdout.split()[0]), 12, done.stdout)
        with open(os.path.join(self.directory, "report.json")) as file:
            self.assertIn('"complete":true', file.read().replace(" ", ""))

    def test_run_directory_is_removed(self):
        for number in range(TIMES):
            program, go_on = self.gated(f"gate-{number}")

            def remove(run, go_on=go_on):
                self.await_(lambda: glob.glob(os.path.join(run, "node-*.h5")), "a shard")
                while os.path.exists(run):  # a file may be made in it meanwhile
                    shutil.rmtree(run, ignore_errors=True)
                go_on()
            _, said = self.same(program, meanwhile=remove)
            self.assertEqual(len(said), 1, said)
            self.assertIn("cannot write the profile", said[0])

    def test_errors_of_the_disk(self):
        """The collector's calls fail from its first shard on."""
        self.need("strace")
        cases = [("pwrite64", "EDQUOT"), ("fdatasync", "ESTALE"), ("fdatasync", "EIO")]
        if LONG:
            cases = [(call, error) for call in ("pwrite64", "fdatasync") for error in ("EDQUOT", "EIO", "ENOSPC", "ESTALE")] * TIMES

        def is_traced(pid):
            traced = []
            for path in glob.glob(f"/proc/{pid}/task/*/status"):
                try:
                    with open(path) as file:
                        traced.append("TracerPid:\t0\n" not in file.read())
                except OSError:
                    continue  # a thread that has ended
            return all(traced)

        def record(number, call, error):
            tracers = []
            program, go_on = self.gated(f"gate-{number}")

            def inject(run):
                pid = self.collector(run)
                self.await_(lambda: os.path.exists(os.path.join(run, "node-vm.h5")), "a shard")
                tracers.append(subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:error={error}",
                                                 "-p", str(pid)], stderr=subprocess.DEVNULL))
                self.await_(lambda: is_traced(pid), "strace")
                go_on()  # the last shard is written behind this
            result = self.same(program, meanwhile=inject, env=dict(os.environ, CLUSTERPROF_NODE="vm"),
                               run=os.path.join(self.directory, f"run-{number}"))
            tracers[0].wait(60)
            return result
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            done = [(call, error, pool.submit(record, number, call, error)) for number, (call, error) in enumerate(cases)]
            for call, error, one in done:
                with self.subTest(f"{call} {error}"):
                    run, said = one.result()
                    self.assertEqual(len(said), 1, said)
                    self.assertIn(os.strerror(getattr(errno, error)), said[0])
                    self.assertGreater(self.report(run)["run"]["samples"], 0)  # the shard before them

    def test_file_server_that_does_not_answer(self):
        """A frozen file system: what writes to it waits, and cannot even be killed."""
        # The collector becomes the command that merges, which names the run, too: the loop waits for both.
        self.needs_namespaces()
        self.need("mkfs.ext4", "fsfreeze")
        script = (f'cd {self.directory} && rm -rf disk gate && truncate -s 16M image && mkfs.ext4 -q -O ^has_journal image && mkdir disk && '
                  'mount -o loop image disk || exit 99; trap "fsfreeze -u disk 2> freeze.err" EXIT; '
                  '(for i in $(seq 600); do ls disk/run/node-*.h5 && break; sleep 0.1; done > ls.out 2>&1; fsfreeze -f disk || touch failed; touch gate) & '
                  '"$@" 2>&1 | cat; echo "status ${PIPESTATUS[0]}"; [ -e failed ] && exit 99; fsfreeze -u disk; wait; '
                  # By their numbers: while a process becomes another program it may have no arguments.
                  'for i in $(seq 600); do left=$(pgrep -f "$PWD/disk/[r]un") || break; for pid in $left; do '
                  'while grep -qs "^State:.[^ZX]" /proc/$pid/status; do sleep 0.1; done; done; done; '
                  f'{recording.CLUSTERPROF} validate disk/run; ls -A disk/run; '
                  f'{recording.CLUSTERPROF} report --json disk/run > report.json')
        for _ in range(TIMES):
            done = subprocess.run([*NAMESPACE, "bash", "-c", script, "bash", recording.CLUSTERPROF, "-o", "disk/run",
                                   *self.gated("gate")[0]], capture_output=True, timeout=400,
                                  env=dict(os.environ, CLUSTERPROF_END_PATIENCE="1", PATH=os.environ["PATH"] + ":/sbin:/usr/sbin"))
            if done.returncode == 99:
                self.skipTest("cannot mount and freeze an image here: " + done.stderr.decode()[-200:])
            lines = done.stdout.decode().splitlines()
            self.assertIn("status 7", lines)
            own = [line for line in lines[:lines.index("status 7")] if line.startswith("clusterprof:")]
            self.assertEqual(len(own), 1, lines)
            self.assertIn("is not waited for", own[0])
            self.assertEqual(len(lines[:lines.index("status 7")]), 3, lines)  # what the program says, and that
            self.assertIn("disk/run/node-", "".join(lines))
            self.assertEqual([line for line in lines if line.endswith((".tmp", ".claim"))], [])
            with open(os.path.join(self.directory, "report.json")) as file:
                self.assertTrue(json.load(file)["run"]["complete"])

    def test_run_directory_is_not_permitted(self):
        if os.geteuid() != 0:
            self.skipTest("needs another user")
        closed = os.path.join(self.directory, "closed")
        os.mkdir(closed, 0o700)
        run = os.path.join(closed, "run")
        self.unrecorded(*self.same(self.program, NOBODY, run=run), "Permission denied")
        done = self.start([*NOBODY, recording.CLUSTERPROF, "--strict", "-o", run, *self.program])
        status, out, _, said = self.end(done, 60)
        self.assertEqual((status, out, len(said)), (125, b"", 1))

    # --- the system ---

    def test_no_proc_no_shared_memory(self):
        self.needs_namespaces()
        self.same(self.program, mounted("umount -l /proc"))
        run, said = self.same(self.program, mounted("mount -t tmpfs -o ro none /dev/shm"))
        self.assertEqual(said, [])
        self.assertTrue(self.report(run)["run"]["complete"])

    def test_pid_namespace_of_the_children(self):
        if subprocess.run(["unshare", "-p", "true"], capture_output=True).returncode != 0:
            self.skipTest("no PID namespaces here")
        self.same(self.program, ["unshare", "-p"])

    def test_ranks_in_pid_namespaces_of_their_own(self):
        """As `srun apptainer exec --pid`: they meet all the same, and the collector sees both ends."""
        self.need("mpirun.openmpi")
        if subprocess.run(["unshare", "-p", "-f", "true"], capture_output=True).returncode != 0:
            self.skipTest("no PID namespaces here")
        script = os.path.join(self.directory, "ranks.py")
        with open(script, "w") as file:
            file.write("import os, time\nrank, total = int(os.environ['OMPI_COMM_WORLD_RANK']), 0\n"
                       "end = time.process_time() + (0.2, 0.5, 0.8)[rank]\nwhile time.process_time() < end: total += 1\n"
                       "print('done')\n")
        run, said = self.same([recording.PYTHON, script], [*recording.launcher("openmpi", 3), "unshare", "-p", "-f"],
                              env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        self.assertEqual(said, [])
        report = self.report(run)
        self.assertTrue(report["run"]["complete"])
        self.assertEqual(len(report["nodes"]), 1)
        ranks = report["ranks"]
        self.assertEqual([(rank["rank"], rank["processes"]) for rank in ranks], [(0, 1), (1, 1), (2, 1)])
        for rank, seconds in zip(ranks, (0.2, 0.5, 0.8)):
            self.assertGreater(rank["cpu_s"], seconds)
            self.assertGreater(rank["samples"], seconds * 25)

    # --- the collector ---

    def collector(self, run):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for pid, words in recording.processes():
                if recording.is_collector(words, run):
                    return pid
            time.sleep(0.02)
        self.fail("no collector")

    def await_(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def signal_collector(self, number, go_on):
        """Once it looks at its signals: it has a claim, or a shard in its place, from then on."""
        def send(run):
            pid = self.collector(run)
            self.await_(lambda: glob.glob(os.path.join(run, ".node-*.claim")) or glob.glob(os.path.join(run, "node-*.h5")), "a claim")
            os.kill(pid, number)
            go_on()
        return send

    def test_stopped_collector(self):
        for number in range(TIMES):
            program, go_on = self.gated(f"gate-{number}")
            # Nobody else wakes it: without the launcher's doing this has no end.
            run, said = self.same(program, meanwhile=self.signal_collector(signal.SIGSTOP, go_on))
            self.assertEqual(said, [])
            self.assertTrue(self.report(run)["run"]["complete"])

    def test_killed_collector(self):
        for number in (signal.SIGKILL, signal.SIGSEGV):
            for time_ in range(TIMES):
                with self.subTest(number):
                    program, go_on = self.gated(f"gate-{number}-{time_}")
                    # SIGSEGV that somebody sends is not the collector's own, and is not taken for the end.
                    _, said = self.same(program, meanwhile=self.signal_collector(number, go_on),
                                        left=[".node-here.claim"], env=dict(os.environ, CLUSTERPROF_NODE="here"))
                    self.assertEqual(len(said), 1 if number == signal.SIGKILL else 0, said)

    # --- programs of another kind ---

    def test_change_of_user(self):
        """libc makes all threads of a process change their user, and waits for each of them: also for ours, also in the
        child of a fork, also when capabilities were changed for one thread."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        program = self.compile("change", """
            #define _GNU_SOURCE
            #include <stdio.h>
            #include <sys/wait.h>
            #include <unistd.h>
            int main(void) {
              int status = 0;
              if (fork() == 0) {
                usleep(20000);
                int group = setresgid(64123, 64123, 64123), user = setresuid(64123, 64123, 64123);
                printf("%d %d %d\\n", group, user, (int)getuid());
                fflush(stdout);
                _exit(5);
              }
              wait(&status);
              return WEXITSTATUS(status);
            }""")
        for _ in range(TIMES):
            self.same([program])
            self.same([*NOBODY, "id", "-u"])

    def test_static_and_setuid_programs(self):
        source = '#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%d\\n", (int)geteuid()); return 4; }'
        self.same([self.compile("static", source, "-static")])
        if os.geteuid() == 0:
            program = self.compile("setuid", source)
            os.chmod(program, 0o4755)
            self.same([program], NOBODY)

    def test_other_preloads(self):
        malloc = self.compile("malloc.so", """
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <stddef.h>
            void* malloc(size_t bytes) {
              static void* (*real)(size_t);
              if (!real) *(void**)&real = dlsym(RTLD_NEXT, "malloc");
              return real(bytes);
            }
            int open(const char* path, int flags, int mode) {
              int (*real)(const char*, int, int);
              *(void**)&real = dlsym(RTLD_NEXT, "open");
              return real(path, flags, mode);
            }""", "-shared", "-fPIC")
        run, _ = self.same(self.program, env=dict(os.environ, LD_PRELOAD=malloc))
        self.assertTrue(self.report(run)["run"]["complete"])
        for around in (["fakeroot"], ["strace", "-f", "-o", "/dev/null"]):
            if shutil.which(around[0]):
                with self.subTest(around[0]):
                    self.same(self.program, around)
                    self.same([*around, *self.program])

    def test_preload_that_makes_threads_and_wraps_calls(self):
        """As proxychains and libfaketime do: a thread from the constructor, in the launcher, too; calls wrapped that wait
        for that constructor, or must not be made in handlers; other times."""
        library = self.compile("wraps.so", """
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <pthread.h>
            #include <sys/socket.h>
            #include <time.h>
            #include <unistd.h>
            static pthread_once_t once = PTHREAD_ONCE_INIT;
            static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
            static void* wait(void* p) { for (;;) pause(); return p; }
            static void start(void) { pthread_t t; pthread_create(&t, NULL, wait, NULL); pthread_detach(t); }
            __attribute__((constructor)) static void init(void) { pthread_once(&once, start); }
            int connect(int fd, const struct sockaddr* to, socklen_t bytes) {
              int (*real)(int, const struct sockaddr*, socklen_t);
              pthread_once(&once, start);
              *(void**)&real = dlsym(RTLD_NEXT, "connect");
              return real(fd, to, bytes);
            }
            int clock_gettime(clockid_t clock, struct timespec* t) {
              static int (*real)(clockid_t, struct timespec*);
              pthread_mutex_lock(&mutex);
              if (!real) *(void**)&real = dlsym(RTLD_NEXT, "clock_gettime");
              int result = real(clock, t);
              if (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME) t->tv_sec -= 1000;
              pthread_mutex_unlock(&mutex);
              return result;
            }""", "-shared", "-fPIC")
        run, said = self.same(self.program, options=["-r", "1000"], env=dict(os.environ, LD_PRELOAD=library))
        self.assertEqual(said, [])
        report = self.report(run)["run"]
        self.assertTrue(report["complete"])
        self.assertGreater(report["samples"], 10)

    def test_other_allocators(self):
        found = [path for name in ("jemalloc.so.2", "tcmalloc_minimal.so.4") for path in glob.glob(f"/usr/lib/*/lib{name}")]
        if not found:
            self.skipTest("neither jemalloc nor tcmalloc is here")
        hostile = os.path.join(recording.BUILD, "programs", "plain", "hostile")
        within = ["sh", "-c", 'LD_PRELOAD=$0:$LD_PRELOAD exec "$@"']  # before the agent
        for library in found * TIMES:
            environment = dict(os.environ, LD_PRELOAD=library)
            for program in ([hostile, "fork_threads"], [hostile, "short_threads"], self.program)[:3 if LONG else 2]:
                with self.subTest(f"{library} {program[-1]}"):
                    run, _ = self.same(program, options=["-r", "10000"], env=environment)
                    self.assertTrue(self.report(run)["run"]["complete"])
            run, _ = self.same([*within, library, *self.program], options=["-r", "10000"])
            self.assertTrue(self.report(run)["run"]["complete"])

    def test_sanitizers_and_valgrind(self):
        source = '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(malloc(5) ? "here" : ""); exit(4); }'
        for runtime in ("address,undefined", "thread"):
            with self.subTest(runtime):
                program = self.compile("sanitized", source, f"-fsanitize={runtime}")
                self.same([program], env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
        if shutil.which("valgrind"):
            self.same(["valgrind", "-q", self.compile("plain", source)])


if __name__ == "__main__":
    if LONG:
        sys.argv.remove("--long")
    recording.main()
