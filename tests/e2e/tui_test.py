# SPDX-License-Identifier: BSD-3-Clause
"""clusterprof tui in a real terminal (tmux): what the screen shows after keys, at the smallest size and after resizing.
The terminal is left as it was."""

import os
import subprocess
import time

import recording

PROGRAM = '''
import time
def inner(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(5000):  # the clock is no hotspot then
            pass
def outer():
    inner(0.3)
outer()
'''


class Tui(recording.RecordingTest):
    def setUp(self):
        self.need("tmux")
        super().setUp()
        script = os.path.join(self.directory, "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        done = self.record([recording.PYTHON, script], options=["-r", "200", "-q"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.socket = os.path.join(self.directory, "tmux")

    def tmux(self, *arguments):
        environment = {**os.environ, "TERM": "screen-256color", "LANG": "C.UTF-8"}  # of tmux itself
        environment.pop("TMUX", None)
        return subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", *arguments], env=environment, check=True,
                              capture_output=True, text=True, timeout=60).stdout

    def start(self, columns, rows, before=""):
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "sh")
        self.addCleanup(lambda: subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True))
        run = os.path.join(self.directory, "run")
        self.keys(f"PS1='prompt:'; {before} '{recording.CLUSTERPROF}' tui '{run}'; echo status $?", "Enter")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def wait_for(self, *texts):
        """The screen that has all of them; keys take effect when the program comes to it."""
        for _ in range(900):
            screen = self.screen()
            if all(text in screen for text in texts):
                return screen
            time.sleep(0.1)
        self.fail(f"no {texts} in\n{screen}")

    def line(self, screen, text):
        return next(line for line in screen.splitlines() if text in line)

    def test_browsing(self):
        self.start(80, 24)
        self.wait_for("[1 Summary]")
        self.assertIn("program.py", self.wait_for("Main threads by category"))
        self.keys("2")
        first = self.line(self.wait_for("[2 Hotspots]", "inner()"), "inner()")
        text = subprocess.run([recording.CLUSTERPROF, "report", "--section", "hotspots", os.path.join(self.directory, "run")],
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(first.split()[:2], self.line(text, "inner()").split()[:2])  # seconds and per cent
        self.assertGreater(float(first.split()[0]), 0)
        self.keys("8")
        self.wait_for("[8 Threads]", "threads, mostly in", "main")
        self.keys("3", "c", "/", "inner", "Enter")
        tree = self.wait_for("[3 Tree]", "inner()", "/inner")
        self.assertLess(tree.index("outer()"), tree.index("inner()"))
        self.keys("Escape")
        self.wait_for("/ filter")
        self.keys("4", "Enter")
        self.wait_for("rank 0 alone", "[2 Hotspots]", "inner()")
        self.keys("Enter")
        self.wait_for("Called by", "outer()", "Ranks")
        self.keys("Down", "Enter")  # where it stands
        source = self.wait_for("[6 Source]", "def inner(seconds):")
        self.assertIn("pass", source)
        self.tmux("resize-window", "-x", "60", "-y", "20")
        self.wait_for("[6 Source]", "def inner(seconds):")
        self.tmux("resize-window", "-x", "59", "-y", "20")
        self.wait_for("needs 60 columns and 20 rows")
        self.tmux("resize-window", "-x", "120", "-y", "30")
        self.wait_for("[6 Source]")
        self.keys("q")
        self.wait_for("status 0", "prompt:")
        self.keys("echo back", "Enter")  # echoes: the terminal is sane
        self.wait_for("echo back")

    def test_interrupted(self):
        self.start(60, 20)
        self.wait_for("[1 Summary]")
        self.keys("C-c")
        self.wait_for("status 0", "prompt:")

    def test_a_terminal_that_is_not_known(self):
        self.start(80, 24, "TERM=xterm-of-tomorrow")
        self.wait_for("[1 Summary]", "Main threads by category")
        self.keys("q")
        self.wait_for("status 0", "prompt:")

    def test_a_terminal_that_cannot_move_its_cursor(self):
        self.start(80, 24, "TERM=dumb")
        self.wait_for("clusterprof: tui needs a terminal", "status 2")

    def test_a_terminal_without_a_name(self):
        self.start(80, 24, "env -u TERM")
        self.wait_for("clusterprof: tui needs a terminal", "status 2")

    def test_without_a_terminal(self):
        done = subprocess.run([recording.CLUSTERPROF, "tui", os.path.join(self.directory, "run")], capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("terminal", done.stderr)
        done = subprocess.run([recording.CLUSTERPROF, "tui", os.path.join(self.directory, "nowhere")], capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    recording.main()
