"""Signals reach the recorded command as often as they were sent, and job control works."""

import ctypes
import os
import pty
import select
import signal
import subprocess
import time

import launching

libc = ctypes.CDLL(None, use_errno=True)
libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]

SENT = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, signal.SIGALRM,
        signal.SIGURG, signal.SIGPIPE, signal.SIGRTMIN, signal.SIGRTMIN + 5, signal.SIGRTMAX]


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def pending(pid):
    with open(f"/proc/{pid}/status") as file:
        return any(int(line.split()[1], 16) for line in file if line.startswith(("SigPnd", "ShdPnd")))


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


class SignalsTest(launching.LaunchingTest):
    def start(self, command=(launching.SIGNAL_PROGRAM,), **variables):
        # A group of its own in our session, so that it is not orphaned: those cannot be stopped.
        self.process = subprocess.Popen([launching.CLUSTERPROF, *command], cwd=self.directory, process_group=0,
                                        stdout=subprocess.PIPE, env=self.environment(**variables))
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.addCleanup(signal.alarm, 0)
        signal.alarm(300)
        self.addCleanup(self.process.stdout.close)
        self.launcher = self.process.pid
        self.unread = b""
        if command[0] == launching.SIGNAL_PROGRAM:
            self.program = int(self.line().split()[1])

    def line(self, seconds=60):
        while b"\n" not in self.unread:
            ready, _, _ = select.select([self.process.stdout], [], [], seconds)
            more = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not more:
                return None
            self.unread += more
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode()

    def end(self):
        os.kill(self.launcher, signal.SIGTERM)
        lines = []
        while (text := self.line()) != "15":
            self.assertTrue(text, "the program did not end")
            lines.append(text)
        self.assertEqual(self.process.wait(timeout=60), 7)
        return lines


class Forwarding(SignalsTest):
    def test_once_when_sent_to_the_launcher(self):
        self.start()
        for number in SENT:
            os.kill(self.launcher, number)
            self.assertEqual(self.line(), str(int(number)))
        self.assertEqual(self.end(), [])

    def test_once_when_sent_to_the_group(self):
        self.start()
        for number in SENT:
            os.killpg(self.launcher, number)
            self.assertEqual(self.line(), str(int(number)))
        time.sleep(0.1)
        self.assertEqual(self.end(), [])

    def test_once_each_in_any_mixture(self):
        # Real-time signals queue, so every one of them counts.
        self.start()
        number = signal.SIGRTMIN + 2
        for turn in range(60):
            (os.killpg if turn % 3 else os.kill)(self.launcher, number)
            if turn % 7 == 0:
                os.kill(self.program, number)
                self.assertEqual(self.line(), str(number))
            self.assertEqual(self.line(), str(number), f"turn {turn}")
        self.assertEqual(self.end(), [])

    def test_standard_signals_in_any_mixture(self):
        # These merge while one is pending, so each must have arrived before the next is sent.
        self.start()
        children = f"/proc/{self.launcher}/task/{self.launcher}/children"
        with open(children) as file:
            processes = [str(self.launcher), *file.read().split()]
        for turn in range(60):
            (os.killpg if turn % 3 else os.kill)(self.launcher, signal.SIGUSR1)
            self.assertEqual(self.line(), str(int(signal.SIGUSR1)), f"turn {turn}")
            # And whoever has got it has dealt with it, and waits for the next one.
            self.assertTrue(wait_until(lambda: all(not pending(pid) and state(pid) == "S" for pid in processes)))
            time.sleep(0.002)
        self.assertEqual(self.end(), [])

    def test_a_burst_for_the_group_is_not_multiplied(self):
        self.start()
        for _ in range(200):
            os.killpg(self.launcher, signal.SIGUSR1)
        lines = self.end()
        self.assertGreaterEqual(len(lines), 1)
        self.assertLessEqual(len(lines), 200)
        self.assertEqual(set(lines), {str(int(signal.SIGUSR1))})

    def test_with_its_value(self):
        self.start()
        for value in (1, 77):
            self.assertEqual(libc.sigqueue(self.launcher, signal.SIGRTMIN + 1, value), 0)
            self.assertEqual(self.line(), f"{signal.SIGRTMIN + 1} {value}")

    def test_sent_to_the_program_itself(self):
        self.start()
        os.kill(self.program, signal.SIGUSR1)
        self.assertEqual(self.line(), str(int(signal.SIGUSR1)))
        self.assertEqual(self.end(), [])

    def test_default_action_kills_both(self):
        self.start(("sleep", "60"))
        self.assertTrue(wait_until(lambda: self.runs() and len(self.events(self.runs()[0])) >= 2))
        os.kill(self.launcher, signal.SIGTERM)
        self.assertEqual(self.process.wait(timeout=60), -signal.SIGTERM)

    def test_killed_launcher_takes_the_program_along(self):
        self.start()
        os.kill(self.launcher, signal.SIGKILL)
        self.assertEqual(self.process.wait(timeout=60), -signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{self.program}")))

    def test_second_request_ends_the_wait_for_the_collector(self):
        self.start(("sh", "-c", "echo $$"), FAKE_COLLECTOR="hang")
        program = self.line()
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{program}")))
        time.sleep(0.1)
        # Slurm asks twice within milliseconds at the time limit: as a step, and as a job. SIGHUP, since a second SIGTERM may be
        # merged with the first, or come late if we wait until that is not pending.
        for number in (signal.SIGTERM, signal.SIGHUP):
            os.kill(self.launcher, number)
        # The time between two requests is that between their being heard.
        self.assertTrue(wait_until(lambda: not pending(self.launcher) and state(self.launcher) == "S"))
        time.sleep(0.6)
        self.assertIsNone(self.process.poll())
        os.kill(self.launcher, signal.SIGINT)
        self.assertEqual(self.process.wait(timeout=60), 0)


class JobControl(SignalsTest):
    def stopped(self, pid):
        return wait_until(lambda: state(pid) == "T")

    def stop_and_continue(self, stop, go_on):
        stop(self.launcher, signal.SIGTSTP)
        _, status = os.waitpid(self.launcher, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        self.assertEqual(os.WSTOPSIG(status), signal.SIGTSTP)
        self.assertTrue(self.stopped(self.program))
        go_on(self.launcher, signal.SIGCONT)
        self.assertEqual(self.line(), str(int(signal.SIGCONT)))
        self.assertNotEqual(state(self.launcher), "T")

    def test_group(self):
        self.start()
        for _ in range(5):
            self.stop_and_continue(os.killpg, os.killpg)
        self.assertEqual(self.end(), [])

    def test_launcher_alone(self):
        self.start()
        for _ in range(5):
            self.stop_and_continue(os.kill, os.kill)
        self.assertEqual(self.end(), [])

    def test_stopping_the_program_alone_does_not_leave_us_stopped(self):
        self.start()
        os.kill(self.program, signal.SIGSTOP)
        self.assertTrue(self.stopped(self.program))
        os.kill(self.program, signal.SIGCONT)
        self.assertEqual(self.line(), str(int(signal.SIGCONT)))
        self.assertEqual(self.end(), [])

    def test_sigstop_for_the_group(self):
        self.start()
        os.killpg(self.launcher, signal.SIGSTOP)
        self.assertTrue(self.stopped(self.launcher) and self.stopped(self.program))
        os.killpg(self.launcher, signal.SIGCONT)
        self.assertEqual(self.line(), str(int(signal.SIGCONT)))
        self.assertEqual(self.end(), [])


class Terminal(launching.LaunchingTest):
    def setUp(self):
        super().setUp()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(self.directory)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**os.environ, "PS1": "prompt> ", "TERM": "dumb"})
        self.seen = ""
        self.addCleanup(self.hang_up)
        self.expect("prompt> ")

    def hang_up(self):
        # Whoever is in the foreground blocks the signal that a hang-up sends.
        group = os.tcgetpgrp(self.terminal)
        if group not in (self.pid, 0):
            os.killpg(group, signal.SIGKILL)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, text):
        end = time.monotonic() + 60
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f"no {text!r} in {self.seen!r}")
            self.seen += os.read(self.terminal, 4096).decode()
        before, _, self.seen = self.seen.partition(text)
        return before

    def test_keys(self):
        self.type(f"{launching.CLUSTERPROF} {launching.SIGNAL_PROGRAM}\n")
        self.expect("ready ")
        program = int(self.expect("\r\n"))
        self.type("\x03")  # Ctrl-C
        self.expect("^C2\r\n")
        self.type("\x1a")  # Ctrl-Z
        self.expect("Stopped")
        self.expect("prompt> ")
        self.type("fg\n")
        self.expect("\r\n18\r\n")
        self.type("\x1c")  # Ctrl-\
        self.assertEqual(self.expect("3\r\n"), "^\\")  # nothing came twice meanwhile
        os.kill(program, signal.SIGTERM)
        self.expect("15\r\n")
        self.expect("prompt> ")
        self.type("echo status $?\n")
        self.expect("status 7")


if __name__ == "__main__":
    launching.main()
