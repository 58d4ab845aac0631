"""A recorded program in gdb, told about our signal as docs/recipes.md says: gdb sees the program's own end alone."""

import os
import re
import signal

import recording

PROGRAM = """import os, signal, sys, time
end = time.process_time() + 0.3
while time.process_time() < end: pass
if sys.argv[1] == 'signal': os.kill(os.getpid(), signal.SIGTERM)
sys.exit(7)
"""


class Debugger(recording.RecordingTest):
    def in_gdb(self, how):
        self.need("/usr/bin/gdb")
        with open(os.path.join(recording.SOURCE, "docs", "recipes.md"), encoding="utf-8") as page:
            handle = re.search(r"-ex '(handle SIG\d+ [a-z ]+)'", page.read())[1]
        with open(os.path.join(self.directory, "program.py"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        done = self.record(["/usr/bin/gdb", "-nx", "-batch", "-ex", handle, "-ex", "run", "-ex", "print $_exitcode",
                            "-ex", "print $_siginfo.si_signo", "--args", recording.PYTHON, "program.py", how])
        said = done.stdout.decode()
        self.assertNotIn("SIG61", said)
        return said

    def test_exit_status_is_the_programs(self):
        self.assertIn("$1 = 7\n", self.in_gdb("status"))

    def test_signal_is_the_programs(self):
        said = self.in_gdb("signal")
        self.assertIn("received signal SIGTERM", said)
        self.assertIn(f"$2 = {int(signal.SIGTERM)}\n", said)


if __name__ == "__main__":
    recording.main()
