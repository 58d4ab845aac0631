# SPDX-License-Identifier: BSD-3-Clause
"""Other users of the machine, and files and processes that lie. Nobody gets access, no prepared link is followed, and no
secret gets out. A process with another user id plays the other user, so most tests need root."""

import array
import base64
import contextlib
import gzip
import os
import random
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import textwrap
import threading
import time

import h5py

import recording

STRANGER = 1  # "daemon", which is on every system
STRANGER_NAME = "another user"
WIRE_HEADER = os.path.join(recording.SOURCE, "formats", "wire", "segment.h")

# Says where its collector is, then works until told to end.
PROGRAM = '''
import os, sys, time
with open("socket.new", "w") as file:
    file.write(os.environ["CLUSTERPROF_AGENT_SOCKET"])
os.rename("socket.new", "socket")
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and not os.path.exists("enough"):
    sum(range(1000))
print("result", 42)
sys.exit(3)
'''

HOLD = '''
import os, socket, sys, time
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind("\\0" + sys.argv[1])
if sys.argv[2] != "bound":
    server.listen(0 if sys.argv[2] == "full" else 16)
if sys.argv[2] == "full":
    clients = []
    for _ in range(4):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.setblocking(False)
        try:
            client.connect("\\0" + sys.argv[1])
        except BlockingIOError:
            break
        clients.append(client)
print("holds", flush=True)
if sys.argv[2] != "answering":
    time.sleep(600)
while True:
    connection, _ = server.accept()
    try:
        connection.sendall(b"A")
        print("got", len(connection.recv(1000)), flush=True)
    except OSError:
        print("got", 0, flush=True)
'''

# Greets as a launcher and as an agent would; prints what it is told.
KNOCK = '''
import array, os, socket, struct, sys
for greeting, magic in ((b"launcher", 0x314e4e4146525043), (b"agent", 0x314f4c4846525043)):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.settimeout(60)
    try:
        client.connect("\\0" + sys.argv[1])
        rest = struct.pack("<iiii", os.getpid(), 0, 1, 1) if greeting == b"launcher" else struct.pack(
            "<iiQ", os.getpid(), 0, 1 << 20)
        memory = os.memfd_create("clusterprof")
        os.ftruncate(memory, 1 << 20)
        client.sendmsg([struct.pack("<QII", magic, MAJOR, 0) + rest],
                       [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))])
        print(greeting.decode(), client.recv(100))
    except OSError as error:
        print(greeting.decode(), type(error).__name__)
'''

FLOOD = '''
import os, socket, sys
count = 0
try:
    while not os.path.exists("enough"):
        for _ in range(50):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.connect("\\0" + sys.argv[1])
            client.close()
            count += 1
            if count == 300:
                print("many", flush=True)
except OSError:
    pass
print(count)
'''

SPIN = '''
#include <time.h>
static volatile double sink;
__attribute__((noinline)) static double inner(int n) {
  double sum = 0;
  for (int i = 1; i < n; ++i) sum += 1.0 / i;
  return sum;
}
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}
void spin(double seconds) {
  for (const double end = now() + seconds; now() < end;) sink = inner(1000);
}
'''

LOAD = '''
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** files) {
  int used = 0;
  for (int i = 1; i < count; ++i) {
    void* library = dlopen(files[i], RTLD_NOW);
    void (*spin)(double) = library ? (void (*)(double))dlsym(library, "spin") : 0;
    if (!spin) continue;
    spin(0.03);
    ++used;
  }
  printf("%d\\n", used);
  return 3;
}
'''

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e<script>h0stile()</script>"


def wire_major():
    text = ""
    for name in os.listdir(os.path.dirname(WIRE_HEADER)):
        with open(os.path.join(os.path.dirname(WIRE_HEADER), name), encoding="utf-8") as file:
            text += file.read()
    return re.search(r"kWireMajor = (\d+)", text).group(1)


def stranger(command, **how):
    """A process of another user."""
    return subprocess.Popen(["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", *command],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def own_lines(text):
    return [line for line in text.splitlines() if line.startswith("clusterprof:")]


def everything_in(path):
    """The content of a file of a run, uncompressed."""
    if os.path.islink(path):
        return os.readlink(path).encode()
    if os.path.isdir(path):
        return b"".join(everything_in(os.path.join(path, name)) for name in os.listdir(path))
    with open(path, "rb") as file:
        content = file.read()
    if path.endswith(".h5"):
        parts = []

        def take(name, item):
            parts.append(name.encode())
            parts.extend(str(value).encode() for value in item.attrs.values())
            if isinstance(item, h5py.Dataset):
                parts.append(item[()].tobytes())
        with h5py.File(path, "r") as opened:
            parts.extend(str(value).encode() for value in opened.attrs.values())
            opened.visititems(take)
        content += b"\n".join(parts)
    for data in re.findall(rb"[A-Za-z0-9+/=]{1000,}", content):
        with contextlib.suppress(Exception):
            content += gzip.decompress(base64.b64decode(data))
    return content


class SecurityTest(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def need_stranger(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be another user")
        self.need("setpriv")

    def write(self, name, content, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(content)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def clusterprof(self, *arguments, status=0, **how):
        done = subprocess.run([recording.CLUSTERPROF, *arguments], cwd=self.directory, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, **how)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stderr.decode(errors="replace"))
        return done

    def start(self, seconds):
        """The program, recorded and under way, and where its collector is."""
        process = subprocess.Popen(
            [recording.CLUSTERPROF, "-o", self.path("run"), recording.PYTHON, "-c", PROGRAM, str(seconds)],
            cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path("socket")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertTrue(os.path.exists(self.path("socket")))
        with open(self.path("socket"), encoding="utf-8") as file:
            return process, file.read()

    def seconds_of_program(self, report):
        return max(function["total_s"] for function in report["functions"] if function["name"] == "<module>")

    def end(self, process):
        """Its program ends as it would without us."""
        self.write("enough", "")
        out, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (3, "result 42\n"), errors)


class Sockets(SecurityTest):
    """The collector's socket has no file that could keep others away."""

    def test_socket_name_held_by_another_user(self):
        self.need_stranger()
        job = {"PMIX_NAMESPACE": "a-job", "PMIX_RANK": "0"}

        def attack(how):
            # The name follows from that of the run directory and its secret: each has its own.
            run = self.path("held-" + how)
            os.mkdir(run)
            place = self.path("at-" + how)
            os.mkdir(place)
            code = ("import os; open('socket', 'w').write(os.environ.get('CLUSTERPROF_AGENT_SOCKET', '')); "
                    "print('result', 42); raise SystemExit(3)")
            command = [recording.CLUSTERPROF, "--quiet", "-o", run, recording.PYTHON, "-c", code]
            first = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60,
                                   env={**os.environ, **job})
            self.assertEqual((first.returncode, first.stdout), (3, "result 42\n"), first.stderr)
            with open(os.path.join(place, "socket"), encoding="utf-8") as file:
                name = file.read()
            owner = os.readlink(os.path.join(run, ".run"))
            shutil.rmtree(run)
            os.mkdir(run)
            os.symlink(owner, os.path.join(run, ".run"))  # as if another user knew the secret
            holder = stranger([recording.PYTHON, "-c", HOLD, name, how])
            try:
                self.assertEqual(holder.stdout.readline(), "holds\n")
                begin = time.monotonic()
                done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60,
                                      env={**os.environ, **job})
                took = time.monotonic() - begin
            finally:
                holder.kill()
            said = holder.communicate()[0]
            with open(os.path.join(place, "socket"), encoding="utf-8") as file:
                agent_socket = file.read()
            return how, done, took, said, agent_socket

        results = []
        threads = [threading.Thread(target=lambda how=how: results.append(attack(how)))
                   for how in ("bound", "full", "listening", "answering")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 4)
        for how, done, took, said, agent_socket in results:
            with self.subTest(how):
                self.assertEqual((done.returncode, done.stdout), (3, "result 42\n"), done.stderr)
                said_by_us = own_lines(done.stderr)
                self.assertEqual(len(said_by_us), 1, done.stderr)
                self.assertIn("unrecorded", said_by_us[0])
                self.measured_below(took, 20, how)  # that we wait is at most 10 s
                if how in ("listening", "answering"):
                    self.assertIn("another user", said_by_us[0])
                    self.measured_below(took, 8, how)
                self.assertNotRegex(said, "got [1-9]")  # not even the greeting
                self.assertEqual(agent_socket, "")

    def test_socket_names_cannot_be_foreseen(self):
        """Two runs of the same job in the same directory: who takes the name of the first does not get the second."""
        job = {"PMIX_NAMESPACE": "a-job", "PMIX_RANK": "0"}
        run, names = self.path("run"), []
        code = "import os; print(os.environ['CLUSTERPROF_AGENT_SOCKET'])"
        for _ in range(2):
            done = subprocess.run([recording.CLUSTERPROF, "--quiet", "-o", run, recording.PYTHON, "-c", code],
                                  cwd=self.directory, capture_output=True, text=True, timeout=60,
                                  env={**os.environ, **job})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            names.append(done.stdout.strip())
            self.assertRegex(os.readlink(os.path.join(run, ".run")), "#[0-9a-f]{32}$")
            self.assertEqual(os.stat(run).st_mode & 0o777, 0o700)
            shutil.rmtree(run)
        self.assertNotEqual(*names)

    def test_connections_of_other_users_are_refused(self):
        self.need_stranger()
        process, name = self.start(300)
        knocks = stranger([recording.PYTHON, "-c", KNOCK.replace("MAJOR", wire_major()), name])
        said, errors = knocks.communicate(timeout=150)
        for line in said.splitlines():
            self.assertRegex(line, r"^(launcher|agent) (b''|ConnectionResetError|BrokenPipeError)$")
        self.assertEqual(len(said.splitlines()), 2, said + errors)
        floods = [stranger([recording.PYTHON, "-c", FLOOD, name], cwd=self.directory) for _ in range(2)]
        self.assertEqual([flood.stdout.readline() for flood in floods], ["many\n"] * 2)
        time.sleep(1.5)
        self.end(process)
        connections = sum(int(flood.communicate(timeout=60)[0]) for flood in floods)
        self.assertGreater(connections, 500)
        report = self.report()
        self.assertIn(("other_user", {"uid": STRANGER}),
                      [(note["code"], note["evidence"]) for note in report["run"]["note_records"]])
        self.assertEqual(len(report["ranks"]), 1)
        self.assertTrue(report["run"]["complete"], report["run"]["notes"])
        self.assertGreater(self.seconds_of_program(report), 0.5)
        print(f"{connections} connections refused", file=sys.stderr)

    def test_false_messages_of_own_processes_are_refused(self):
        process, name = self.start(300)
        os.mkfifo(self.path("fifo"))
        liar = os.fork()  # greeted is who connects, until it ends
        if liar == 0:
            try:
                self.lie(name)
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-except
                print("liar:", repr(error), file=sys.stderr)
                os._exit(1)
        while not os.path.exists(self.path("lied")) and os.waitpid(liar, os.WNOHANG) == (0, 0):
            time.sleep(0.02)
        self.assertTrue(os.path.exists(self.path("lied")))
        place = f"/proc/{self.collector()}/fd"
        files = len(os.listdir(place))
        sockets = set()
        for name in os.listdir(place):
            with contextlib.suppress(OSError):
                sockets.update(re.findall(r"^socket:\[(\d+)\]", os.readlink(os.path.join(place, name))))
        self.assertTrue(sockets)
        for protocol in ("tcp", "tcp6", "udp", "udp6", "raw"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{protocol}", encoding="utf-8") as table:
                self.assertEqual(sockets & {line.split()[9] for line in table.readlines()[1:]}, set())
        os.remove(self.path("lied"))
        self.assertEqual(os.waitpid(liar, 0)[1], 0)
        self.end(process)
        self.assertLess(files, 300)
        report = self.report()
        self.assertIn("process_damaged", [note["code"] for note in report["run"]["note_records"]])
        self.assertGreater(self.seconds_of_program(report), 0.3)
        self.clusterprof("validate", self.path("run"))

    def lie(self, name):
        major = int(wire_major())
        kept = []

        def send(data, descriptors=()):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.settimeout(60)
            client.connect("\0" + name)
            client.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
                           if descriptors else [])
            kept.append(client)
            if len(kept) > 100:
                kept.pop(0).close()

        def hello(size, pid=1, rank=0):
            return struct.pack("<QIIiiQ", 0x314f4c4846525043, major, 0, pid, rank, size)

        def memory(size, begin=b""):
            file = os.memfd_create("x")
            os.ftruncate(file, size)
            os.pwrite(file, begin, 0)
            return file

        for what in (self.path("fifo"), "/proc/self/maps", "/proc/self/mem", "/dev/zero", "/dev/null", self.directory,
                     "/proc/self/environ", "/usr/bin/env"):
            file = os.open(what, os.O_RDWR if what.endswith("fifo") else os.O_RDONLY | os.O_NONBLOCK)
            for size in (1 << 20, 1 << 40, 0, 2**64 - 1):
                send(hello(size), [file])
            os.close(file)
        for size, announced in ((1 << 20, 1 << 20), (1 << 45, 1 << 35), (1 << 45, 1 << 45), (100, 1 << 20), (0, 0)):
            file = memory(size)
            send(hello(announced), [file])
            os.close(file)
        # One that looks right but for its tables, and one that shrinks.
        with open(WIRE_HEADER, encoding="utf-8") as file:
            magic = int(re.search(r"kSegmentMagic = (0x[0-9a-f']+)", file.read()).group(1).replace("'", ""), 16)
        for tables in (b"\xff" * 320, b"\x00\x10\x00\x00\x00\x00\x00\x00" * 40):
            file = memory(1 << 36, struct.pack("<QIIQ", magic, major, 0, 1 << 36) + tables)
            send(hello(1 << 36), [file])
            with contextlib.suppress(OSError):  # sealed by now
                os.ftruncate(file, 0)
            os.close(file)
        many = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
        send(hello(1 << 20), many)
        for file in many:
            os.close(file)
        for data in (b"\0", b"x", b"\0" * 32, os.urandom(256), hello(1 << 20)[:31], b"A" * 60_000):
            send(data)
        for rank in (*range(0, 2000, 10), -1, -2**31, 2**31 - 1):
            send(struct.pack("<QIIiiii", 0x314e4e4146525043, major, 0, 1, rank, 2**31 - 1, 2**31 - 1))
        time.sleep(0.7)
        send(b"x")
        with contextlib.suppress(ConnectionError):
            self.assertEqual(kept[-1].recv(1), b"")  # turned away, after everything that came before it
        self.write("lied", "")
        while os.path.exists(self.path("lied")):
            time.sleep(0.02)
        for client in kept:
            client.close()

    def collector(self):
        pid, = [pid for pid, words in recording.processes() if recording.is_collector(words, self.path("run"))]
        return pid


class Places(SecurityTest):
    def record_with_umask(self, umask, run, source_mode, run_mode=None):
        if run_mode:
            os.mkdir(self.path(run))
            os.chmod(self.path(run), run_mode)
        source = self.write(f"work_{run}.py", "total = 0\nfor i in range(4 * 10**6):\n    total += i\n", source_mode)
        old = time.time() - 100
        os.utime(source, (old, old))
        done = subprocess.run([recording.CLUSTERPROF, "-o", self.path(run), recording.PYTHON, source],
                              cwd=self.directory, capture_output=True, text=True, timeout=60, umask=umask)
        self.assertEqual(done.returncode, 0, done.stderr)
        modes = {name: stat.S_IMODE(os.lstat(self.path(run, name)).st_mode) for name in os.listdir(self.path(run))
                 if not os.path.islink(self.path(run, name))}
        self.assertEqual(set(modes) - {"report.txt", "report.html", "profile.h5"},
                         {name for name in modes if name.startswith("node-")}, modes)
        self.assertEqual(len(modes), 4)
        page = modes.pop("report.html")
        self.assertEqual(len(set(modes.values())), 1, modes)
        return stat.S_IMODE(os.stat(self.path(run)).st_mode), set(modes.values()).pop(), page

    def test_file_modes_follow_umask_and_directory(self):
        for umask in (0, 0o022, 0o077):
            self.assertEqual(self.record_with_umask(umask, f"own{umask}", 0o644), (0o700, 0o600, 0o600))
        # Somebody who wants to share the run says so by its directory; the umask goes on top of it.
        self.assertEqual(self.record_with_umask(0, "a", 0o644, 0o775),
                         (0o775, 0o664, 0o664 if self.open_path() else 0o600))
        self.assertEqual(self.record_with_umask(0o022, "b", 0o600, 0o755), (0o755, 0o644, 0o600))
        self.assertEqual(self.record_with_umask(0, "c", 0o600, 0o750), (0o750, 0o640, 0o600))
        self.assertEqual(self.record_with_umask(0o077, "d", 0o600, 0o755), (0o755, 0o600, 0o600))
        # What the page quotes is what it is about: without it, it is like the other files.
        self.clusterprof("report", "b", "--no-source", "--html", "page.html")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("page.html")).st_mode), 0o644)
        # Elsewhere, too, nobody reads of a run who may not read the run.
        self.clusterprof("report", "own0", "--no-source", "--html", "own.html")
        self.clusterprof("export", "own0", "--format", "csv", "-o", "tables/")
        made = ["own.html", *(os.path.join("tables", name) for name in os.listdir(self.path("tables")))]
        self.assertGreater(len(made), 5)
        self.assertEqual({stat.S_IMODE(os.stat(self.path(name)).st_mode) for name in made}, {0o600})
        if os.geteuid() != 0:
            return
        for name, allowed in (("b/report.html", False), ("b/profile.h5", True), ("c/profile.h5", False),
                              ("own0/profile.h5", False)):
            reader = stranger(["cat", self.path(name)], errors="replace")
            reader.communicate(timeout=30)
            self.assertEqual(reader.returncode == 0, allowed, name)

    def open_path(self):
        """Returns whether other users can reach the directory of this test."""
        at = self.directory
        while at != "/":
            if not os.stat(at).st_mode & 0o001:
                return False
            at = os.path.dirname(at)
        return True

    def shared(self):
        shared = self.path("shared")
        os.mkdir(shared)
        os.chmod(shared, 0o1777)
        return shared

    def test_output_names_prepared_by_another_user_are_refused(self):
        self.need_stranger()
        self.recorded([recording.PYTHON, "-c", "for i in range(2 * 10**6): pass"])
        shared = self.shared()
        victim = self.write("victim", "precious")
        for name in ("link.html", "link.csv", "link.json"):
            os.symlink(victim, os.path.join(shared, name))
        os.symlink("/nonexistent/x", os.path.join(shared, "dangling.html"))
        os.mkfifo(os.path.join(shared, "pipe.html"), 0o666)
        os.chmod(os.path.join(shared, "pipe.html"), 0o666)
        os.mkdir(os.path.join(shared, "run"))
        os.chmod(os.path.join(shared, "run"), 0o777)
        os.symlink(self.directory, os.path.join(shared, "linked-run"))
        os.mkdir(os.path.join(shared, "tables"))
        for table in ("functions", "paths", "lines", "ranks"):
            os.symlink(victim, os.path.join(shared, "tables", table + ".csv"))
            os.lchown(os.path.join(shared, "tables", table + ".csv"), STRANGER, STRANGER)
        before = sorted(os.listdir(os.path.join(shared, "tables")))
        for name in os.listdir(shared):
            os.lchown(os.path.join(shared, name), STRANGER, STRANGER)
        reader = stranger([recording.PYTHON, "-c", "import sys; print(len(open(sys.argv[1], 'rb').read()))",
                           os.path.join(shared, "pipe.html")])
        try:
            for name in ("link.html", "dangling.html", "pipe.html"):
                done = self.clusterprof("report", "run", "--html", os.path.join(shared, name), status=3)
                self.assertIn(STRANGER_NAME, done.stderr.decode())
            for form, name in (("csv", "link.csv"), ("speedscope", "link.json")):
                done = self.clusterprof("export", "run", "--format", form, "-o", os.path.join(shared, name), status=3)
                self.assertIn(STRANGER_NAME, done.stderr.decode())
            done = self.clusterprof("diff", "run", "run", "--html", os.path.join(shared, "link.html"), status=3)
            self.assertIn(STRANGER_NAME, done.stderr.decode())
            for name in ("tables/", "run/new/"):
                done = self.clusterprof("export", "run", "--format", "csv", "-o", os.path.join(shared, name), status=3)
                self.assertIn(STRANGER_NAME, done.stderr.decode())
            for name in ("run", "linked-run", "run/deep/run"):
                done = self.clusterprof("-o", os.path.join(shared, name), "true", status=125)
                self.assertIn(STRANGER_NAME, done.stderr.decode())
            # A site's choice is no mistake of the user's: the program runs, unrecorded.
            done = self.clusterprof("true", env={**os.environ, "CLUSTERPROF_ROOT": os.path.join(shared, "run", "deep")})
            self.assertIn(STRANGER_NAME, done.stderr.decode())
        finally:
            reader.kill()
            reader.communicate()
        with open(victim, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        self.assertEqual(os.listdir(os.path.join(shared, "run")), [])
        self.assertEqual(sorted(os.listdir(os.path.join(shared, "tables"))), before)

    def test_links_in_the_run_directory(self):
        """Links as somebody could make them who may write there because the group may."""
        home = self.path("home")
        os.mkdir(home)
        self.write("home/thesis.tex", "precious")
        os.symlink("thesis.tex", self.path("home", "link"))
        os.mkdir(self.path("run"))
        done = self.clusterprof("-o", self.path("run"), recording.PYTHON, "-c",
                                f"import os; os.symlink({home!r}, {self.path('run', '.clocks')!r})")
        self.assertEqual(sorted(os.listdir(home)), ["link", "thesis.tex"], done.stderr)

    def test_run_directories_prepared_by_another_user_are_skipped(self):
        """Names that contain the time can be predicted."""
        self.need_stranger()
        shared = self.shared()
        now = time.time()
        foreseen = [time.strftime("clusterprof-true-%Y%m%d-%H%M%S", time.localtime(now + i)) for i in range(-2, 30)]
        for name in foreseen:
            os.mkdir(os.path.join(shared, name))
            os.chmod(os.path.join(shared, name), 0o777)
            os.lchown(os.path.join(shared, name), STRANGER, STRANGER)
        done = subprocess.run([recording.CLUSTERPROF, "--quiet", "true"], cwd=shared, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in foreseen:
            self.assertEqual(os.listdir(os.path.join(shared, name)), [])
        own, = set(os.listdir(shared)) - set(foreseen)
        self.assertTrue(own.endswith("-2"))
        self.assertEqual(os.stat(os.path.join(shared, own)).st_uid, os.geteuid())

    def test_report_of_another_users_run_leaves_nothing_behind(self):
        """The reader may not write to the run. Nothing is left behind, neither there nor in the temporary directory."""
        self.need_stranger()
        self.recorded([recording.PYTHON, "-c", "for i in range(2 * 10**6): pass"])
        os.remove(self.path("run", "profile.h5"))
        subprocess.run(["chmod", "-R", "go+rX", self.path("run")], check=True)
        before = sorted(os.listdir(self.path("run")))
        temporary = self.path("temporary")
        os.mkdir(temporary)
        os.chmod(temporary, 0o1777)
        reader = stranger(["strace", "-f", "-e", "trace=mkdir,openat", "-o", os.path.join(temporary, "calls"),
                           recording.CLUSTERPROF, "report", self.path("run")] if shutil.which("strace") else
                          [recording.CLUSTERPROF, "report", self.path("run")],
                          cwd="/", env={**os.environ, "TMPDIR": temporary})
        out, errors = reader.communicate(timeout=60)
        if reader.returncode in (126, 127):
            self.skipTest("the other user cannot get at this build")
        self.assertEqual(reader.returncode, 0, errors)
        self.assertIn("clusterprof report", out)
        self.assertEqual(sorted(os.listdir(self.path("run"))), before)
        calls = os.path.join(temporary, "calls")
        if os.path.exists(calls):
            with open(calls, encoding="utf-8") as file:
                text = file.read()
            made = re.findall(r'mkdir\("([^"]*)", (\d+)\) = 0', text)
            self.assertEqual([(os.path.dirname(name), mode) for name, mode in made], [(temporary, "0700")])
            self.assertNotRegex(text, r'O_CREAT(?!.*O_EXCL).* = \d+$')
            os.remove(calls)
        self.assertEqual(os.listdir(temporary), [])


class Secrets(SecurityTest):
    def test_environment_and_secrets_are_not_in_any_file(self):
        source = self.write("work.py", "for i in range(3 * 10**6): pass\n")
        canary = "c4n4ry" + "x7"
        words = [f"--password={canary}", "--api-key", canary, f"https://me:{canary}@host/x"]
        done = self.record([recording.PYTHON, source, *words, "--rate=17"],
                           env={**os.environ, "HF_TOKEN": canary, "PLAIN_VARIABLE": canary})
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in os.listdir(self.path("run")):
            self.assertNotIn(canary.encode(), everything_in(self.path("run", name)), name)
        self.assertIn(b"--rate=17", everything_in(self.path("run", "profile.h5")))
        command = self.report()["run"]["command"]
        command = command if isinstance(command, str) else " ".join(command)
        self.assertIn("--password=*** --api-key *** https://me:***@host/x", command)
        self.assertNotIn(canary, done.stderr.decode())

    def test_secrets_do_not_show_in_ps(self):
        source = self.write("look.py", textwrap.dedent('''
            import os, sys
            secret = sys.argv[1].split("=")[1]
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        words = file.read().decode(errors="replace").split("\\0")
                except OSError:
                    continue
                if int(pid) != os.getpid() and any(word.endswith("look.py") for word in words):
                    print(os.path.basename(words[0]), words[-4:-1], any(secret in word for word in words))
            print(sys.argv[1:])
            '''))
        words = ["--password=c4n4ryx7", "--api-key", "c4n4ryx7"]
        done = self.record([recording.PYTHON, source, *words])
        self.assertEqual(done.returncode, 0, done.stderr)
        *ours, own = done.stdout.decode().splitlines()
        self.assertEqual(own, str(words))
        stars = "*" * len("c4n4ryx7")
        self.assertIn(f"clusterprof {['--password=' + stars, '--api-key', stars]} False", ours)
        self.assertIn("collector ['--password=***', '--api-key', '***'] False", ours)
        self.assertFalse([line for line in ours if line.endswith("True")])


class Liars(SecurityTest):
    """Runs that somebody else made."""

    def altered(self, name, change):
        shutil.rmtree(self.path(name), ignore_errors=True)
        os.mkdir(self.path(name))
        shutil.copy(self.shard, self.path(name, "node-x.h5"))
        with h5py.File(self.path(name, "node-x.h5"), "a") as file:
            table = next(key for key in ("ranks", "functions") if key in file)
            column = next(iter(file[table]))
            change(file, table, column)
        return self.path(name)

    def test_data_in_other_files_is_refused(self):
        self.recorded([recording.PYTHON, "-c", "for i in range(2 * 10**6): pass"])
        self.shard, = [self.path("run", name) for name in os.listdir(self.path("run")) if name.startswith("node-")]
        os.mkfifo(self.path("fifo"))
        shutil.copy(self.shard, self.path("other.h5"))

        def external(file, table, column):
            old = file[table][column]
            attributes, shape, kind = dict(old.attrs), old.shape, old.dtype
            del file[table][column]
            new = file[table].create_dataset(column, shape, kind,
                                             external=[(self.path("fifo"), 0, h5py.h5f.UNLIMITED)])
            for name, value in attributes.items():
                new.attrs.create(name, value, dtype="<u8")

        def virtual(file, table, column):
            old = file[table][column]
            attributes, shape, kind = dict(old.attrs), old.shape, old.dtype
            del file[table][column]
            layout = h5py.VirtualLayout(shape, kind)
            layout[...] = h5py.VirtualSource(self.path("other.h5"), f"{table}/{column}", shape)
            new = file[table].create_virtual_dataset(column, layout)
            for name, value in attributes.items():
                new.attrs.create(name, value, dtype="<u8")

        def link_to_file(file, table, _):
            del file[table]
            file[table] = h5py.ExternalLink(self.path("other.h5"), "/" + table)

        def soft_link(file, table, column):
            file.move(f"{table}/{column}", "elsewhere")
            file[table][column] = h5py.SoftLink("/elsewhere")

        for change in (external, virtual, link_to_file, soft_link):
            with self.subTest(change.__name__):
                run = self.altered(change.__name__, change)
                for verb in (["merge", run], ["report", run], ["validate", os.path.join(run, "node-x.h5")]):
                    done = self.clusterprof(*verb, status=3)
                    text = done.stderr.decode()
                    self.assertIn("is not in this file", text)
                    self.assertEqual(len(text.splitlines()), 1, text)
                reader = subprocess.run(
                    [recording.PYTHON, "-c", "import sys, clusterprof.reader; clusterprof.reader.Run(sys.argv[1])",
                     os.path.join(run, "node-x.h5")], capture_output=True, text=True, timeout=60,
                    env={**os.environ, "PYTHONPATH": os.path.join(recording.SOURCE, "python")})
                self.assertIn("are not in this file", reader.stderr)

    def test_damaged_symbol_files(self):
        """Libraries whose symbols and debugging information were damaged, all of one program."""
        self.need("cc")
        self.write("spin.c", SPIN)
        self.write("load.c", LOAD)
        subprocess.run(["cc", "-g", "-O1", "-shared", "-fPIC", "-o", "spin.so", "spin.c"], cwd=self.directory,
                       check=True)
        subprocess.run(["cc", "-o", "load", "load.c", "-ldl"], cwd=self.directory, check=True)
        with open(self.path("spin.so"), "rb") as file:
            sound = file.read()
        start, = struct.unpack_from("<Q", sound, 0x28)
        count, of_names = struct.unpack_from("<HH", sound, 0x3c)
        headers = [struct.unpack_from("<IIQQQQIIQQ", sound, start + 64 * i) for i in range(count)]
        not_loaded = [(header[4], header[5]) for header in headers if not header[2] & 2 and header[5]]
        self.assertGreater(len(not_loaded), 5)
        self.assertLess(of_names, count)
        random_ = random.Random(9)
        files = []
        for number in range(40):
            content = bytearray(sound)
            for _ in range(random_.choice((1, 4, 30, 300))):
                offset, size = (start, 64 * count) if number % 4 == 0 else random_.choice(not_loaded)
                content[offset + random_.randrange(size)] = random_.choice(
                    (0, 127, 128, 255, random_.randrange(256)))
            files.append(self.path(f"damaged{number}.so"))
            with open(files[-1], "wb") as file:
                file.write(content)
        done = self.record([self.path("load"), *files])
        self.assertEqual((done.returncode, done.stdout), (3, b"40\n"), done.stderr)
        self.assertNotIn(b"ended early", done.stderr)
        report = self.report()
        self.assertTrue(report["run"]["complete"], report["run"]["notes"])
        self.assertGreater(sum(function["self_s"] for function in report["functions"]), 0.5)

    def test_control_sequences_formulas_and_scripts_are_text(self):
        source = self.write("hostile.py", textwrap.dedent(f"""
            import types
            def work():
                total = 0
                for i in range(3 * 10**6):
                    total += i
            for name in ({HOSTILE!r}, "=cmd|' /C calc'!A0", "@SUM(1)", "-2+3"):
                names = {{key: name for key in ("co_name", "co_qualname") if hasattr(work.__code__, key)}}
                code = work.__code__.replace(**names, co_filename="/tmp/" + name + ".py")
                types.FunctionType(code, globals())()
            """))
        place = self.path("odd" + HOSTILE.replace("/", ""))
        os.mkdir(place)
        run = os.path.join(place, "run")
        done = self.clusterprof("-o", run, recording.PYTHON, source, HOSTILE, "-c", "\x1b[31m")
        outputs = {"banner": done.stderr}
        for verb in (["report", run], ["report", run, "--oneline"], ["ls", place], ["query", run, "functions"],
                     ["diff", run, run], ["validate", run], ["merge", run], ["export", run, "--format", "folded"],
                     ["report", run + "x"], ["report", run, "--region", HOSTILE], ["query", run, HOSTILE],
                     ["report", run, "--section", HOSTILE]):
            done = self.clusterprof(*verb, status=None)
            self.assertGreaterEqual(done.returncode, 0)
            outputs[" ".join(verb[:1] + verb[2:])] = done.stdout + done.stderr
        for name, text in outputs.items():
            text.decode()
            self.assertNotRegex(text, rb"[\x00-\x09\x0b-\x1f\x7f]", name)
            self.assertNotIn("\u202e", text.decode(), name)
        self.assertIn(b"h0stile", outputs["report"])
        table = self.clusterprof("export", run, "--format", "csv").stdout.decode()
        self.assertIn("\r\n'=cmd|", table)
        for field in re.findall(r'(?:^|,)"?([^",\r\n])', table, re.MULTILINE):
            self.assertNotIn(field, "=@\t")
        with open(os.path.join(run, "report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertNotIn("h0stile", page.replace("&lt;script&gt;h0stile", ""))
        self.assertNotIn("\x1b", page)
        self.assertIn("script-src 'sha256-", page)


if __name__ == "__main__":
    recording.main()
