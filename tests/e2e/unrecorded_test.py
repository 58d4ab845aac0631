"""Programs that recorded processes execute and that cannot be recorded: they are counted, with the reason. And an
exec that fails, fails as it does without clusterprof."""

import os
import shutil
import subprocess

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


class Unrecorded(recording.RecordingTest):
    def counted(self, command, run="run", **how):
        """Records the command; returns {reason: programs}."""
        done = self.record(command, options=["-q"], run=run, **how)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        notes = [note for note in self.report(run)["run"]["note_records"] if note["code"] == "unrecorded_programs"]
        return {note["evidence"]["reason"]: note["evidence"]["programs"] for note in notes}

    def static_program(self):
        self.need("cc")
        with open(os.path.join(self.directory, "still.c"), "w", encoding="ascii") as file:
            file.write(STATIC)
        path = os.path.join(self.directory, "still")
        subprocess.run(["cc", "-static", "-o", path, "still.c"], cwd=self.directory, check=True)
        return path

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
        self.need("cc")
        with open(os.path.join(self.directory, "faults.c"), "w", encoding="ascii") as file:
            file.write(FAULTS)
        subprocess.run(["cc", "-O1", "-w", "-o", "faults", "faults.c"], cwd=self.directory, check=True)
        bare, recorded = self.bare_and_recorded(["./faults"], options=["-q"])
        self.assertEqual(bare.returncode, 0)
        self.assertEqual(recorded.stdout.decode(), bare.stdout.decode())
        self.assertEqual(recorded.returncode, 0)
        self.assertGreater(bare.stdout.count(b"posix_spawn Bad address"), 4, bare.stdout)


if __name__ == "__main__":
    recording.main()
