"""Programs that recorded processes execute and that cannot be recorded: they are counted, with the reason. And an
exec that fails, fails as it does without clusterprof."""

import json
import os
import shutil
import subprocess
import time

import recording

STATIC = "int main(void) { return 0; }\n"

# Each exec of a child has something that cannot be read, or is at the very end of what can be.
FAULTS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char* words[] = {"true", NULL};

static void show(const char* what, const char* path, char** environment) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execve(path, words, environment);
    const int first = errno;
    execveat(AT_FDCWD, path, words, environment, 0);
    printf("%s: %s, %s\n", what, strerror(first), strerror(errno));
    fflush(stdout);
    _exit(3);
  }
  int status;
  waitpid(child, &status, 0);
  printf("%s: status %x\n", what, status);
  pid_t spawned = 0;
  const int error = posix_spawn(&spawned, path, NULL, NULL, words, environment);
  printf("%s: posix_spawn %s\n", what, strerror(error));
  if (error == 0) waitpid(spawned, &status, 0);
}

int main(void) {
  const long page = sysconf(_SC_PAGESIZE);
  char* const memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(memory + page, page);
  char* const gone = memory + page;
  const char* const program = "/bin/true";
  show("environment of nothing", program, (char**)gone);
  show("environment of no memory", program, (char**)8);
  show("kernel", program, (char**)0xffff800000000000);
  char** const last = (char**)(memory + page - sizeof(char*));
  *last = "A=b";
  show("environment without end", program, last);
  char* strange[] = {"A=b", gone, NULL};
  show("variable of nothing", program, strange);
  char* const cut = memory + page - 16;
  memcpy(cut, "LD_PRELOAD=/abcd", 16);
  char* unfinished[] = {cut, NULL};
  show("variable without end", program, unfinished);
  memcpy(cut, "LD_PRELOAD=/a.s", 16);
  show("variable at the end", program, unfinished);
  memcpy(cut, "0123456789abcde", 16);
  show("last variable", program, unfinished);
  *last = NULL;
  show("empty environment at the end", program, last);
  char* none[] = {NULL};
  show("path of nothing", gone, none);
  memcpy(cut, "/bin///////true", 16);
  show("path at the end", cut, none);
  show("no environment", program, NULL);
  return 0;
}
"""

# As Go programs do it: the system calls themselves, past libc. Or by number, through libc's syscall(2).
STARTER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static long start_past_libc(char** words) {
  long child;
  __asm__ volatile(
      "syscall\n\ttestq %%rax, %%rax\n\tjnz 1f\n\t"
      "movq %[path], %%rdi\n\tmovq %[words], %%rsi\n\tmovq %[environment], %%rdx\n\tmovl $59, %%eax\n\tsyscall\n\t"
      "movl $126, %%edi\n\tmovl $60, %%eax\n\tsyscall\n1:"
      : "=a"(child)
      : "a"((long)SYS_clone), "D"((long)(CLONE_VM | CLONE_VFORK | SIGCHLD)), "S"(0L), "d"(0L), [path] "r"(words[0]),
        [words] "r"(words), [environment] "r"(environ)
      : "rcx", "r8", "r10", "r11", "memory");
  return child;
}

static void execute_past_libc(char** words) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"((long)SYS_execve), "D"(words[0]), "S"(words), "d"(environ)
                   : "rcx", "r11", "memory");
}

static int wait_for(long child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 125;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}

int main(int count, char** words) {
  if (count < 3) return 123;
  const char* const how = words[1];
  if (strcmp(how, "start") == 0) return wait_for(start_past_libc(words + 2));
  if (strcmp(how, "execute") == 0) execute_past_libc(words + 2);
  if (strcmp(how, "execve") == 0) syscall(SYS_execve, words[2], words + 2, environ);
  if (strcmp(how, "execveat") == 0) syscall(SYS_execveat, AT_FDCWD, words[2], words + 2, environ, 0);
  return 122;
}
"""
BUSY = r"""
#include <stdio.h>
__attribute__((noinline)) double works(long n) {
  double sum = 0;
  for (long i = 1; i < n; ++i) sum += 1.0 / i;
  return sum;
}
int main(void) {
  printf("%.2f\n", works(30000000));
  return 9;
}
"""
# Works for half a second and executes its last words, through libc or past it. Prints before how long it has worked, and how long it
# has been there, by the clock on the wall.
GOES_ON = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
extern char** environ;
static double at(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}
static double now(void) { return at(CLOCK_MONOTONIC); }
static double started(void) { /* since the machine was */
  char text[1000] = "";
  FILE* const file = fopen("/proc/self/stat", "r");
  if (file == NULL || fgets(text, sizeof text, file) == NULL) return 0;
  fclose(file);
  const char* word = strrchr(text, ')');
  for (int field = 2; field < 22; ++field) word = strchr(word + 1, ' ');
  return strtod(word, NULL) / sysconf(_SC_CLK_TCK);
}
__attribute__((noinline)) void works(void) {
  const double end = now() + 0.5;
  while (now() < end);
}
int main(int count, char** words) {
  const double begin = now();
  works();
  printf("%.6f %.6f\n", now() - begin, at(CLOCK_BOOTTIME) - started());
  fflush(stdout);
  if (strcmp(words[1], "libc") == 0) execv(words[2], words + 2);
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(59L), "D"(words[2]), "S"(words + 2), "d"(environ)
                   : "rcx", "r11", "memory");
  return 120 + (count > 3);
}
"""
SLEEPS = """
#include <stdlib.h>
#include <unistd.h>
int main(int count, char** words) { sleep(atoi(words[1])); return 0; }
"""
SECONDS = ("python_s", "native_s", "system_s", "mpi_s", "io_s", "idle_s", "runnable_s")


class Unrecorded(recording.RecordingTest):
    def counted(self, command, run="run", **how):
        """Records the command; returns {reason: programs}."""
        done = self.record(command, options=["-q"], run=run, **how)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        notes = [note for note in self.report(run)["run"]["note_records"] if note["code"] == "unrecorded_programs"]
        return {note["evidence"]["reason"]: note["evidence"]["programs"] for note in notes}

    def compiled(self, name, source, *options, compiler="cc"):
        self.need(compiler)
        with open(os.path.join(self.directory, f"{name}.c"), "w", encoding="ascii") as file:
            file.write(source)
        path = os.path.join(self.directory, name)
        subprocess.run([compiler, "-O1", "-w", f"{name}.c", "-o", path, *options], cwd=self.directory, check=True)
        return path

    def static_program(self):
        return self.compiled("still", STATIC, "-static")

    def test_static_programs(self):
        program = self.static_program()
        self.assertEqual(self.counted(["sh", "-c", f"for i in 1 2 3; do {program}; done; {program} && true"]),
                         {"static_program": 4})
        spawn = f"import os, subprocess; subprocess.run(['{program}']); " \
                f"os.waitpid(os.posix_spawn('{program}', ['x'], os.environ), 0)"
        self.assertEqual(self.counted([recording.PYTHON, "-c", spawn], run="spawned"), {"static_program": 2})
        text = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "run")],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn("4 programs that recorded processes executed ran unrecorded: they are linked statically",
                      " ".join(text.split()))

    def said_of(self, command, run, options=("-q",)):
        """What is said at once of a command that cannot be recorded itself, and its row in the table of processes."""
        done = self.record(command, options=options, run=run)
        self.assertEqual(done.returncode, 0)
        rows = {row["how"]: row for row in self.report(run)["processes"]}
        self.assertEqual(rows["rank"]["command"], command)
        return done.stderr.decode(), rows

    def test_a_command_that_is_linked_statically(self):
        program = self.static_program()
        said, rows = self.said_of([program], "run")
        self.assertEqual(said, f"clusterprof: {program} is linked statically; it runs unrecorded, only programs that it starts are "
                               "recorded\n")
        self.assertEqual(rows["rank"]["unrecorded"], "static_program")
        said, _ = self.said_of([program], "alone", ["-q", "--no-children"])
        self.assertEqual(said, f"clusterprof: {program} is linked statically; it runs unrecorded\n")
        done = self.record([program], options=["--strict"], run="strict")
        self.assertEqual((done.returncode, done.stderr.decode()), (125, f"clusterprof: {program} is linked statically\n"))
        # A script that such a program executes, and the loader, which is none.
        script = os.path.join(self.directory, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!{program}\n")
        os.chmod(script, 0o755)
        self.assertIn("script is linked statically; it runs", self.said_of([script], "of-script")[0])
        self.assertEqual(self.record(["/lib64/ld-linux-x86-64.so.2", "/bin/true"], options=["-q"], run="loader").stderr, b"")
        # What it starts is recorded.
        starter, busy = self.compiled("starter", STARTER, "-static"), self.compiled("busy", BUSY, "-g")
        done = self.record([starter, "start", busy], options=["-q", "-r", "500"], run="starts")
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertGreater(self.function(self.report("starts"), "works")["self_s"], 0)

    def test_a_command_that_gets_privileges(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to give a program to another user")
        program = os.path.join(self.directory, "as_nobody")
        shutil.copy("/bin/true", program)
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        os.chmod(self.directory, 0o755)
        said, rows = self.said_of([program], "run")
        self.assertEqual(said, f"clusterprof: {program} gets privileges (set-user-ID, capabilities), so that LD_PRELOAD is ignored; "
                               "it runs unrecorded\n")
        self.assertEqual(rows["rank"]["unrecorded"], "privileges")

    def test_environment_without_preload(self):
        self.assertEqual(self.counted(["sh", "-c", "env -i /bin/true; env -u LD_PRELOAD /bin/true; /bin/true"]),
                         {"other_environment": 2})

    def test_failed_execs_and_programs_that_are_recorded_are_not_counted(self):
        missing = "import os, subprocess\nfor name in ('/nonexistent', '/etc/passwd', 'nothing-of-that-name'):\n" \
                  "  try: subprocess.run([name], env={'A': 'b'})\n  except OSError: pass\n"
        self.assertEqual(self.counted([recording.PYTHON, "-c", missing]), {})
        self.assertEqual(self.counted(["sh", "-c", "/bin/true; /lib64/ld-linux-x86-64.so.2 /bin/true"], run="run2"), {})

    def test_children_that_are_not_to_be_recorded_are_not_counted(self):
        program = self.static_program()
        done = self.record(["sh", "-c", f"{program}; env -i /bin/true; true"], options=["-q", "--no-children"])
        self.assertEqual(done.returncode, 0)
        self.assertEqual([note["code"] for note in self.report()["run"]["note_records"]], [])

    def test_privileges(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to give a program to another user")
        program = os.path.join(self.directory, "as_nobody")
        shutil.copy("/bin/true", program)
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        os.chmod(self.directory, 0o755)
        self.assertEqual(self.counted(["sh", "-c", f"{program}; true"]), {"privileges": 1})
        # Not with no_new_privs: then it is recorded as any other.
        self.assertEqual(self.counted([recording.PYTHON, "-c", "import ctypes, subprocess; ctypes.CDLL(None).prctl("
                                       f"38, 1, 0, 0, 0); subprocess.run(['{program}'])"], run="no_new_privs"), {})

    def test_what_cannot_be_read_is_no_fault_of_ours(self):
        self.compiled("faults", FAULTS)
        bare, recorded = self.bare_and_recorded(["./faults"], options=["-q"])
        self.assertEqual(bare.returncode, 0)
        self.assertEqual(recorded.stdout.decode(), bare.stdout.decode())
        self.assertEqual(recorded.returncode, 0)
        self.assertGreater(bare.stdout.count(b"posix_spawn Bad address"), 4, bare.stdout)

    def same_and_counted(self, run, *command, options=()):
        """Records the command, which ends as it does alone; returns its report and {reason: programs}."""
        bare, recorded = self.bare_and_recorded(command, options=["-q", "-r", "500", *options], run=run)
        self.assertEqual((recorded.returncode, recorded.stdout, recorded.stderr),
                         (bare.returncode, bare.stdout, bare.stderr))
        report = self.report(run)
        notes = [note for note in report["run"]["note_records"] if note["code"] == "unrecorded_programs"]
        return report, {note["evidence"]["reason"]: note["evidence"]["programs"] for note in notes}

    def test_programs_executed_past_libc(self):
        """A dynamic program inherits LD_PRELOAD and is recorded. A static one is not, and nobody counts it."""
        starter = self.compiled("starter", STARTER)
        busy, still = self.compiled("busy", BUSY, "-g"), self.static_program()
        for how in ("start", "execute"):
            report, counted = self.same_and_counted(how, starter, how, busy)
            self.assertEqual(counted, {})
            self.assertGreater(self.function(report, "works")["self_s"], 0)
            self.assertEqual(self.same_and_counted(f"{how}-static", starter, how, still)[1], {})

    def test_cpu_time_of_a_static_program_started_past_libc(self):
        """The process that waited for it has its time, but nothing recorded explains it."""
        # So long that starting the program and recording it hardly count.
        starter, hidden = self.compiled("starter", STARTER), self.compiled("hidden", BUSY.replace("30000000", "600000000"), "-static")
        report, counted = self.same_and_counted("run", starter, "start", hidden)
        self.assertEqual(counted, {})
        self.assertEqual(len(report["processes"]), 1)
        self.assertGreater(report["processes"][0]["children_cpu_s"], 5 * report["processes"][0]["cpu_s"])

    def test_programs_started_by_an_unrecorded_program(self):
        """A static Go program that recorded processes start: it is counted, what it starts is recorded if it is dynamic."""
        starter = self.compiled("starter", STARTER, "-static")
        busy, still = self.compiled("busy", BUSY, "-g"), self.static_program()
        shell = ["sh", "-c", '"$@"; exit $?', "sh", starter, "start"]
        report, counted = self.same_and_counted("dynamic", *shell, busy)
        self.assertEqual(counted, {"static_program": 1})
        self.assertGreater(self.function(report, "works")["self_s"], 0)
        self.assertEqual(self.same_and_counted("static", *shell, still)[1], {"static_program": 1})

    def test_exec_by_number(self):
        """syscall(2) with the number of an exec is an exec function as any other."""
        starter = self.compiled("starter", STARTER)
        busy, still = self.compiled("busy", BUSY, "-g"), self.static_program()
        for how in ("execve", "execveat"):
            report, counted = self.same_and_counted(how, starter, how, busy)
            self.assertEqual(counted, {})
            self.assertGreater(self.function(report, "works")["self_s"], 0)
            self.assertEqual(self.same_and_counted(f"{how}-static", starter, how, still)[1], {"static_program": 1})
            self.assertEqual(self.same_and_counted(f"{how}-missing", starter, how, "/nonexistent")[1], {})

    def test_exec_by_number_of_a_program_of_another_libc(self):
        starter = self.compiled("starter", STARTER)
        other = self.compiled("foreign", BUSY, compiler="musl-gcc")
        self.assertEqual(self.same_and_counted("other", starter, "execve", other)[1], {"other_c_library": 1})

    def test_program_of_another_libc_executed_past_libc(self):
        """It inherits an LD_PRELOAD whose objects its loader does not find."""
        starter, static = self.compiled("starter", STARTER), self.compiled("static", STARTER, "-static")
        other = self.compiled("other", BUSY, compiler="musl-gcc")
        for how in ("start", "execute"):
            self.assertEqual(self.same_and_counted(how, starter, how, other)[1], {})
            shell = ["sh", "-c", '"$@"; exit $?', "sh", static, how]
            self.assertEqual(self.same_and_counted(f"{how}-static", *shell, other)[1], {"static_program": 1})
        # What such a program executes is recorded, if it can be.
        passes_on = self.compiled("passes_on", STARTER, compiler="musl-gcc")
        busy = self.compiled("busy", BUSY, "-g")
        report, _ = self.same_and_counted("below", starter, "start", passes_on, "start", busy)
        self.assertGreater(self.function(report, "works")["self_s"], 0)

    def test_time_of_a_rank_that_goes_on_as_an_unrecorded_program(self):
        """It is recorded until its exec. What comes then is in its elapsed time, and in nothing else."""
        goes_on, sleeps = self.compiled("goes_on", GOES_ON, "-g"), self.compiled("sleeps", SLEEPS, "-static")
        # Of an exec past libc nobody tells: the collector has to see it while the program runs.
        for how, seconds, reason in (("libc", 2, "static_program"), ("past", 5, None)):
            done = self.record([goes_on, how, sleeps, str(seconds)], options=["-q"], run=how)
            self.assertEqual(done.returncode, 0, done.stderr)
            worked_s, there_s = map(float, done.stdout.split())
            report = self.report(how)
            rank, = report["ranks"]
            self.assertGreaterEqual(rank["elapsed_s"], seconds)
            # From the start of the program at the earliest, and from that of its work at the latest.
            for what, recorded_s in (("recorded time", rank["elapsed_s"] - rank["paused_s"]),
                                     ("all categories", sum(rank[key] or 0 for key in SECONDS))):
                self.measured_above(recorded_s, worked_s - 0.2, f"{what}, {how}")
                self.measured_below(recorded_s, there_s + 0.2, f"{what}, {how}")
            self.measured_near(self.function(report, "works")["total_s"], worked_s, 0.2, f"works, {how}")
            self.assertEqual([row["unrecorded"] for row in report["processes"]], [reason])
            self.assertEqual(report["processes"][0]["exit"]["status"], 0)

    def reasons(self, report):
        """{last part of the command's first word: why it is not recorded} of all processes."""
        return {os.path.basename(row["command"][0]) if row["command"] else "": row["unrecorded"]
                for row in report["processes"]}

    def test_processes_have_the_reason(self):
        """In the table of processes, with the call that made them, however they were made."""
        program = self.static_program()
        with open(os.path.join(self.directory, "makes.py"), "w", encoding="ascii") as file:
            file.write(f"""
import os, subprocess
def runs():
    subprocess.run(["{program}"])
def spawns():
    os.waitpid(os.posix_spawn("/bin/echo", ["echo"], {{"A": "b"}}), 0)
def forks():
    child = os.fork()
    if child == 0:
        os.execve("/bin/cat", ["cat", "/dev/null"], {{"A": "b"}})
    os.waitpid(child, 0)
runs(); spawns(); forks()
subprocess.run(["/bin/true"])
""")
        report = self.recorded([recording.PYTHON, "makes.py"], options=["-q"])
        self.assertEqual(self.reasons(report), {"python3": None, "still": "static_program", "echo": "other_environment",
                                                "cat": "other_environment", "true": None})
        made_by = {os.path.basename(row["command"][0]): row["created_by"]["function"] for row in report["processes"]
                   if row["created_by"]}
        self.assertEqual({name: made_by[name] for name in ("still", "echo", "cat")},
                         {"still": "runs", "echo": "spawns", "cat": "forks"})
        def text(columns):
            return subprocess.run([recording.CLUSTERPROF, "report", "--section", "processes",
                                   os.path.join(self.directory, "run")], capture_output=True, text=True, timeout=60,
                                  check=True, env={**os.environ, "COLUMNS": columns}).stdout
        self.assertIn("not recorded: linked statically", text("160"))
        # In little room, the reason is what matters.
        self.assertIn("  linked statically\n", text("80"))

    def test_the_reason_is_known_while_the_program_runs(self):
        waits = self.compiled("waits", "#include <unistd.h>\nint main(void) { char c; return read(0, &c, 1) != 0; }\n",
                              "-static")
        run = os.path.join(self.directory, "run")
        with subprocess.Popen([recording.CLUSTERPROF, "-q", "--checkpoint", "2", "-o", run, "sh", "-c", f"{waits}; true"],
                              cwd=self.directory, stdin=subprocess.PIPE) as started:
            deadline = time.monotonic() + 180
            found = []
            while not found and time.monotonic() < deadline:
                time.sleep(0.2)
                done = subprocess.run([recording.CLUSTERPROF, "report", "--json", run], capture_output=True, timeout=60)
                if done.returncode == 0:
                    found = [row for row in json.loads(done.stdout)["processes"]
                             if row["unrecorded"] == "static_program"]
            started.stdin.close()
            self.assertEqual(started.wait(timeout=60), 0)
        self.assertEqual(len(found), 1)
        self.assertIsNone(found[0]["end_s"])
        rows = [row for row in self.report()["processes"] if row["unrecorded"] is not None]
        self.assertEqual([row["unrecorded"] for row in rows], ["static_program"])
        self.assertIsNotNone(rows[0]["end_s"])

    def test_cpu_time_of_an_unrecorded_process(self):
        """As the kernel says, while it runs: at least what it had used when the collector looked last."""
        hidden = self.compiled("hidden", "#include <time.h>\n"
                               "int main(void) { while (clock() < 2.5 * CLOCKS_PER_SEC); return 0; }\n", "-static")
        report = self.recorded([recording.PYTHON, "-c", f"import subprocess; subprocess.run(['{hidden}'])"], options=["-q"])
        row, = [row for row in report["processes"] if row["unrecorded"] is not None]
        children = max(row["children_cpu_s"] for row in report["processes"])
        self.assertIsNotNone(row["cpu_s"])  # the collector looks once a second
        self.assertLessEqual(row["cpu_s"], children + 0.02)
        self.assertGreater(row["cpu_s"], 0.5)

    def test_small_address_spaces(self):
        """A process takes a smaller segment, or says that there is no room. It is the same program in any case."""
        # So long that starting the program and recording it hardly count.
        busy = self.compiled("busy", BUSY.replace("30000000", "600000000"), "-g")
        for limit_kb in (2000000, 400000, 150000, 70000, 30000):
            run = f"run-{limit_kb}"
            command = ["sh", "-c", f'ulimit -v {limit_kb} && exec "$0"', busy]
            bare, recorded = self.bare_and_recorded(command, options=["-q", "-r", "500"], run=run)
            self.assertEqual((recorded.returncode, recorded.stdout, recorded.stderr),
                             (bare.returncode, bare.stdout, bare.stderr), limit_kb)
            report = self.report(run)
            row, = report["processes"]
            self.assertEqual(row["command"][0], busy, limit_kb)
            reasons = [note["evidence"]["reason"] for note in report["run"]["note_records"]
                       if note["code"] == "unrecorded_programs"]
            if limit_kb == 30000:
                self.assertEqual((row["unrecorded"], reasons), ("no_memory", ["no_memory"]))
                continue
            self.assertEqual((row["unrecorded"], reasons), (None, []), limit_kb)
            self.measured_near(self.function(report, "works")["cpu_s"] / row["cpu_s"], 1.0, 0.15, f"ulimit -v {limit_kb}")

    def test_a_program_that_ends_before_it_can_record(self):
        """Its loader does not find a library."""
        library = self.compiled("libgone.so", "int gone(void) { return 0; }\n", "-shared", "-fPIC")
        broken = self.compiled("broken", "int gone(void); int main(void) { return gone(); }\n", library)
        os.remove(library)
        fork = f"import os\nif os.fork() == 0: os.execv('{broken}', ['broken'])\nos.wait()"
        report = self.recorded([recording.PYTHON, "-c", fork], options=["-q"])
        row, = [row for row in report["processes"] if row["unrecorded"] is not None]
        self.assertEqual((row["unrecorded"], row["exit"]["status"]), ("ended_early", 127))


if __name__ == "__main__":
    recording.main()
