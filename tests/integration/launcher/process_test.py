"""The recorded command starts, ends and prints as it does alone. Our own failures are reported plainly."""

import glob
import os
import re
import shutil
import signal
import subprocess
import time

import launching


class Command(launching.LaunchingTest):
    def test_status(self):
        for status in (0, 1, 3, 255):
            self.assertEqual(self.launch("sh", "-c", f"exit {status}").returncode, status)

    def test_death_by_signal(self):
        for number in (signal.SIGSEGV, signal.SIGTERM, signal.SIGKILL, signal.SIGABRT):
            done = self.launch("sh", "-c", "kill -%d $$" % number)
            self.assertEqual(done.returncode, -number)
            self.assertEqual(done.stderr, b"")

    def test_streams_belong_to_the_command(self):
        data = os.urandom(1 << 20)
        done = self.launch("sh", "-c", "cat; echo problem >&2", input=data)
        self.assertEqual(done.stdout, data)
        self.assertEqual(done.stderr, b"problem\n")

    def test_stdout_closes_with_the_command(self):
        # The collector goes on for a while; whoever reads our output must not wait for it.
        begin = time.monotonic()
        done = self.launch("sh", "-c", "echo out; exec >&- 2>&-; sleep 0", variables={"FAKE_COLLECTOR": "release"})
        self.assertEqual(done.stdout, b"out\n")
        reader = subprocess.run(f"{launching.CLUSTERPROF} sh -c 'yes || exit 5' | head -1", shell=True,
                                cwd=self.directory, capture_output=True, timeout=20)
        self.assertEqual(reader.stdout, b"y\n")
        self.measured_below(time.monotonic() - begin, 10, "seconds")

    def test_arguments_and_environment(self):
        done = self.launch("-r", "321", "--", "sh", "-c", 'printf "%s|" "$0" "$@" "$KEPT" "$CLUSTERPROF_RATE"', "a b",
                           "-q", "", "--rate", "*", variables={"KEPT": "k"})
        self.assertEqual(done.stdout, b"a b|-q||--rate|*|k|321|")

    def test_signal_state_is_what_it_was(self):
        script = "grep -E 'Sig(Blk|Ign)' /proc/self/status"
        alone = subprocess.run(["sh", "-c", f"trap '' HUP CHLD; exec {script}"], capture_output=True)
        done = subprocess.run(["sh", "-c", f"trap '' HUP CHLD; exec {launching.CLUSTERPROF} {script}"],
                              cwd=self.directory, capture_output=True)
        self.assertEqual(done.stdout, alone.stdout)

    def test_no_files_of_ours_are_left_open(self):
        script = "ls /proc/self/fd | wc -l"
        alone = subprocess.run(["sh", "-c", script], capture_output=True)
        self.assertEqual(self.launch("sh", "-c", script).stdout, alone.stdout)

    def test_closed_standard_files(self):
        # None of our sockets takes their place, and is closed or overwritten then.
        for closed in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
                self.assertEqual(self.launch("-o", "run", "sh", "-c", "exit 3", before=shell).returncode, 3)
                events = self.events("run")
                self.assertRegex(events[1], r"^started \d+ rank=0$")
                self.assertRegex(events[2], rf"^exited \d+ status={3 << 8}$")
                shutil.rmtree(self.path("run"))
        done = self.launch("--version", before=["sh", "-c", 'exec "$@" >&-', "sh"])
        self.assertEqual(done.returncode, 125)
        self.one_line(done.stderr, "standard output: Bad file descriptor")

    def test_preloads(self):
        # The second is for a clusterprof that is itself built with AddressSanitizer.
        done = self.launch("sh", "-c", "echo $LD_PRELOAD",
                           variables={"LD_PRELOAD": "libm.so.6", "ASAN_OPTIONS": "verify_asan_link_order=0"})
        lib = os.path.join(launching.PREFIX, "lib", "clusterprof")
        self.assertRegex(done.stdout.decode().strip(), rf"^{lib}/libclusterprof_agent.so:.*:libm.so.6$")
        start = self.events(self.runs()[0])[0]
        self.assertIn("preload=none", start)

    def test_collector_has_its_own_session(self):
        self.launch("-q", "-r", "50", "--clock", "cpu", "true", "-x", pass_fds=[os.open("/dev/null", os.O_RDONLY)])
        start = self.events(self.runs()[0])[0]
        self.assertIn("session=1", start)
        self.assertIn("files=6 ", start)  # stdin, stdout, stderr, two sockets, its own events
        self.assertRegex(start, r"--local-ranks 1 --world-size 1 --rate 50 --clock cpu --command-detail masked "
                                r"--program=\S+/true --quiet -- true -x$")

    def test_ranks_that_may_go_on_do_not_wait_for_others_without_a_limit(self):
        ranks = {"PMI_RANK": "0", "PMI_SIZE": "2"}
        self.launch("-o", "alone", "true", variables=ranks)
        self.assertNotIn("--others-patience", self.events("alone")[0])
        self.launch("-o", "in-script", "true", before=["sh", "-c", '"$@"; exit $?', "script"], variables=ranks)
        self.assertIn(" --others-patience=5 ", self.events("in-script")[0])

    def test_events(self):
        self.launch("sh", "-c", "exit 3")
        events = self.events(self.runs()[0])
        self.assertRegex(events[1], r"^started \d+ rank=0$")
        self.assertEqual(events[2], f"exited {events[1].split()[1]} status={3 << 8}")
        self.assertEqual(events[-1], "end")

    def test_other_ranks_run_untouched(self):
        done = self.launch("--ranks", "1-3", "sh", "-c", "echo ${LD_PRELOAD:-none} ${CLUSTERPROF_AGENT_SOCKET:-none}")
        self.assertEqual(done.stdout, b"none none\n")
        self.assertEqual(self.runs(), [])


class Refusals(launching.LaunchingTest):
    def test_missing_command(self):
        done = self.launch("no-such-command")
        self.assertEqual(done.returncode, 127)
        self.one_line(done.stderr, "no-such-command: command not found")
        self.assertEqual(self.launch("./nowhere").returncode, 127)
        self.assertEqual(self.runs(), [])

    def test_not_executable(self):
        with open(self.path("data"), "w") as file:
            file.write("x")
        for command in ("./data", "/"):
            done = self.launch(command)
            self.assertEqual(done.returncode, 126)
            self.one_line(done.stderr, command)
        self.assertEqual(self.runs(), [])

    def test_missing_interpreter(self):
        with open(self.path("script"), "w") as file:
            file.write("#!/no/such/interpreter\n")
        os.chmod(self.path("script"), 0o755)
        done = self.launch("./script")
        self.assertEqual(done.returncode, 126)
        self.one_line(done.stderr, "./script")
        begin = time.monotonic()
        done = self.launch("--strict", "./script", variables={"FAKE_COLLECTOR": "hang"})
        self.assertEqual(done.returncode, 126)
        self.one_line(done.stderr, "./script")
        self.measured_below(time.monotonic() - begin, 20, "seconds, of the 60 that one waits for a collector that hangs")

    def test_existing_run_and_unwritable_output(self):
        self.assertEqual(self.launch("-o", "run", "true").returncode, 0)
        done = self.launch("-o", "run", "true")
        self.assertEqual(done.returncode, 125)
        self.one_line(done.stderr, "run: a run is there already")
        done = self.launch("--strict", "-o", "/proc/x", "true")
        self.assertEqual(done.returncode, 125)
        self.one_line(done.stderr, "/proc/x: ")
        done = self.launch("-o", "/proc/x", "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 3)
        self.one_line(done.stderr, "/proc/x: ", "unrecorded")

    def test_usage(self):
        done = self.launch("--frobnicate", "true")
        self.assertEqual(done.returncode, 2)
        self.one_line(done.stderr, "--frobnicate")
        done = self.launch("srun", "-n", "2", "true")
        self.assertEqual(done.returncode, 2)
        self.one_line(done.stderr, "srun -n 2 clusterprof true")

    def test_common_errors_are_said_once(self):
        for rank, lines in (("0", 1), ("1", 0)):
            done = self.launch("--frobnicate", variables={"PMI_RANK": rank, "PMI_SIZE": "2"})
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), lines)


class Started(launching.LaunchingTest):
    """record --started: the batch system was asked to record. None of our failures may keep the command from running."""

    def start(self, *command, before=(), **how):
        return self.launch("record", "--started", "--", *(command or ("/bin/sh", "-c", "echo ran; exit 3")), **how)

    def runs_unrecorded(self, done, *words):
        self.assertEqual((done.returncode, done.stdout), (3, b"ran\n"))
        self.one_line(done.stderr, "the command runs unrecorded", *words)
        self.assertEqual(self.runs(), [])

    def test_records(self):
        done = self.start()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, b"ran\n", b""))
        self.assertEqual(len(self.runs()), 1)

    def test_name_of_the_program(self):
        for ranks in ({}, {"CLUSTERPROF_RATE": "x"}):
            done = self.launch("record", "--started", "--argv0=-other", "--", "/bin/sh", "-c", "echo $0; exit 3",
                               variables=ranks)
            self.assertEqual((done.returncode, done.stdout), (3, b"-other\n"))

    def test_bad_options(self):
        self.runs_unrecorded(self.start(variables={"CLUSTERPROF_RATE": "x"}), "CLUSTERPROF_RATE")
        self.runs_unrecorded(self.start(variables={"CLUSTERPROF_NODE": "a/b"}), "CLUSTERPROF_NODE")
        self.runs_unrecorded(self.start(variables={"CLUSTERPROF_START_PROBLEM": "no option 'rte'"}), "rte")
        for rank, lines in (("0", 1), ("1", 0)):
            for bad in ({"CLUSTERPROF_RATE": "x"}, {"CLUSTERPROF_NODE": "a/b"}):
                done = self.start(variables={"PMI_RANK": rank, "PMI_SIZE": "2", **bad})
                self.assertEqual((done.returncode, done.stdout), (3, b"ran\n"))
                self.assertEqual(len(done.stderr.splitlines()), lines, done.stderr)

    def test_no_directory_to_write_to(self):
        self.runs_unrecorded(self.start(variables={"CLUSTERPROF_ROOT": "/proc/x"}), "/proc/x")
        self.runs_unrecorded(self.start(variables={"CLUSTERPROF_OUTPUT": "/proc/x"}), "/proc/x")
        self.assertEqual(self.start(variables={"CLUSTERPROF_OUTPUT": "run"}).stderr, b"")
        done = self.start(variables={"CLUSTERPROF_OUTPUT": "run"})
        self.assertEqual((done.returncode, done.stdout), (3, b"ran\n"))
        self.one_line(done.stderr, "run: a run is there already", "runs unrecorded")

    def test_strict_is_ignored(self):
        self.runs_unrecorded(self.start(variables={"CLUSTERPROF_STRICT": "1", "CLUSTERPROF_ROOT": "/proc/x"}))

    def test_no_further_process(self):
        # One more for the program, and none for its collector.
        limit = "import os, resource, sys; os.setgid(65534); os.setuid(65534); " \
                "resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)); os.execv(sys.argv[1], sys.argv[1:])"
        if os.getuid() != 0 or not os.access("/usr/bin/setpriv", os.X_OK):
            self.skipTest("only root can be another user")
        os.chmod(self.directory, 0o777)
        probe = subprocess.run(["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x",
                                launching.CLUSTERPROF])
        if probe.returncode != 0:
            self.skipTest("the build tree is not for others")
        done = subprocess.run(["/usr/bin/python3", "-c", limit, launching.CLUSTERPROF, "record", "--started", "--",
                               "/bin/sh", "-c", "echo ran; exit 3"], cwd=self.directory, capture_output=True)
        self.runs_unrecorded(done)

    def test_it_never_runs_twice(self):
        # What cleans up after it has no memory, and what ends with an exception executes the command.
        script = "echo ran >> ran; touch ended; echo ran; exit 3"
        done = self.start("/bin/sh", "-c", script,
                          variables={"LD_PRELOAD": launching.NO_MEMORY, "FAULT_AT": self.path("ended"),
                                     "ASAN_OPTIONS": "verify_asan_link_order=0"})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, b"ran\n", b""))
        time.sleep(0.5)
        with open(self.path("ran")) as file:
            self.assertEqual(file.read(), "ran\n")

    def test_command_is_not_changed(self):
        done = self.start("./nowhere")
        self.assertEqual(done.returncode, 127)


class BrokenInstallation(launching.LaunchingTest):
    def setUp(self):
        super().setUp()
        self.prefix = self.path("prefix")
        shutil.copytree(launching.PREFIX, self.prefix)

    def launch_broken(self, *arguments):
        return subprocess.run([os.path.join(self.prefix, "bin", "clusterprof"), *arguments], cwd=self.directory,
                              capture_output=True, timeout=60)

    def runs_unrecorded(self, word):
        done = self.launch_broken("sh", "-c", "echo out ${LD_PRELOAD:-none}; exit 3")
        self.assertEqual((done.returncode, done.stdout), (3, b"out none\n"))
        self.one_line(done.stderr, word, "unrecorded")
        done = self.launch_broken("--strict", "sh", "-c", "echo out")
        self.assertEqual((done.returncode, done.stdout), (125, b""))
        self.one_line(done.stderr, word)
        self.assertEqual(self.runs(), [])

    def test_no_agent(self):
        os.remove(os.path.join(self.prefix, "lib/clusterprof/libclusterprof_agent.so"))
        self.runs_unrecorded("libclusterprof_agent.so")

    def test_no_collector(self):
        os.remove(os.path.join(self.prefix, "libexec/clusterprof/collector"))
        self.runs_unrecorded("collector")

    def test_collector_cannot_be_executed(self):
        with open(os.path.join(self.prefix, "libexec/clusterprof/collector"), "wb") as file:
            file.write(b"\x7fELF no more")
        self.runs_unrecorded("collector")


class LibraryToken(launching.LaunchingTest):
    """With links by the token of ld.so to our objects, LD_PRELOAD names them so, if this system's loader finds them."""

    def setUp(self):
        super().setUp()
        self.prefix = self.path("prefix")
        shutil.copytree(launching.PREFIX, self.prefix)
        self.lib = os.path.join(self.prefix, "lib", "clusterprof")
        for name in os.listdir(self.lib):
            for directory in ("lib", "lib64", "lib/x86_64-linux-gnu", "x86_64-linux-gnu"):
                os.makedirs(os.path.join(self.lib, directory), exist_ok=True)
                os.symlink(os.path.join(self.lib, name), os.path.join(self.lib, directory, name))

    def preload(self, *command):
        done = subprocess.run([os.path.join(self.prefix, "bin", "clusterprof"), "-q", *command], cwd=self.directory,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def script(self, program):
        path = self.path("script")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!{program}\necho $LD_PRELOAD\n")
        os.chmod(path, 0o755)
        return path

    def test_token_is_used(self):
        for command in (["sh", "-c", "echo $LD_PRELOAD"], [self.script("/bin/sh")], [self.script("/usr/bin/env sh")]):
            self.assertRegex(self.preload(*command), rf"^{self.lib}/\$LIB/libclusterprof_agent\.so(:|$)")

    def test_objects_are_loaded_by_it(self):
        self.assertIn(f" {self.lib}/libclusterprof_agent.so\n", self.preload("cat", "/proc/self/maps"))

    def test_another_loader_is_told_the_object_itself(self):
        """Nobody knows what it makes of the token."""
        sh = os.path.realpath("/bin/sh")
        with open(sh, "rb") as file:
            content = file.read()
        usual, other = b"/lib64/ld-linux-x86-64.so.2\0", b"./odds/ld-linux-x86-64.so.2\0"
        self.assertEqual(len(usual), len(other))
        if content.count(usual) != 1:
            self.skipTest(f"the loader of {sh} is not found in it")
        program = self.path("program")
        with open(program, "wb") as file:
            file.write(content.replace(usual, other))
        os.chmod(program, 0o755)
        os.mkdir(self.path("odds"))
        os.symlink(usual[:-1].decode(), self.path(other[:-1].decode()))
        for command in ([program, "-c", "echo $LD_PRELOAD"], [self.script(program)]):
            self.assertRegex(self.preload(*command), rf"^{self.lib}/libclusterprof_agent\.so(:|$)")

    def test_nothing_is_named_that_is_not_found(self):
        for directory, _, names in os.walk(self.lib):
            for link in (os.path.join(directory, name) for name in names):
                if os.path.islink(link):
                    os.remove(link)
        self.assertRegex(self.preload("sh", "-c", "echo $LD_PRELOAD"), rf"^{self.lib}/libclusterprof_agent\.so(:|$)")


class BrokenCollector(launching.LaunchingTest):
    def test_collector_that_dies(self):
        # It dies behind its first words, and is a child of the launcher's until that has noticed.
        until_then = "for i in $(seq 600); do ls */events-* >seen 2>&1 && break; sleep 0.1; done; rm seen; sleep 0.3; " \
                     "for i in $(seq 600); do pgrep -P $PPID -x collector >/dev/null 2>&1 || break; sleep 0.1; done"
        done = self.launch("sh", "-c", f"{until_then}; echo out; exit 4", variables={"FAKE_COLLECTOR": "die"}, timeout=150)
        self.assertEqual((done.returncode, done.stdout), (4, b"out\n"))
        self.one_line(done.stderr, "collector", "exit status 9", "incomplete")

    def test_collector_that_dies_is_fatal_with_strict(self):
        done = self.launch("--strict", "echo", "out", variables={"FAKE_COLLECTOR": "die"})
        self.assertEqual((done.returncode, done.stdout), (125, b""))
        self.one_line(done.stderr, "collector")

    def test_strict_waits_for_a_working_collector(self):
        done = self.launch("--strict", "sh", "-c", "echo out; exit 3")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, b"out\n", b""))
        events = self.events(self.runs()[0])
        self.assertRegex(events[1], r"^announced \d+ rank=0 of=1 local=1$")
        self.assertIn(events[1].split()[1], events[2])

    def end_collectors(self):
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(path + "/comm") as file:
                    is_collector = file.read() == "collector\n"
                if is_collector and os.readlink(path + "/cwd").startswith(self.directory):
                    os.kill(int(os.path.basename(path)), signal.SIGKILL)
            except OSError:
                continue

    def test_collector_that_releases_the_launcher(self):
        self.addCleanup(self.end_collectors)
        begin = time.monotonic()
        # Its stderr stays open, so no pipe here, nor whatever this test writes to.
        done = subprocess.run([launching.CLUSTERPROF, "sh", "-c", "exit 6"], cwd=self.directory,
                              env=self.environment(FAKE_COLLECTOR="release", FAKE_COLLECTOR_SECONDS="40"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 6)
        self.measured_below(time.monotonic() - begin, 20, "seconds, of the 40 that the collector takes")


class ManyAtOnce(launching.LaunchingTest):
    def start(self, count, of_rank=lambda rank: {}, **variables):
        return [subprocess.Popen([launching.CLUSTERPROF, "sh", "-c", "sleep 0.2; exit $PMI_RANK"], cwd=self.directory,
                                 env=self.environment(PMI_SIZE=str(count), PMI_RANK=str(rank), **variables,
                                                      **of_rank(rank)), stderr=subprocess.PIPE)
                for rank in range(count)]

    def finish(self, processes):
        for rank, process in enumerate(processes):
            _, error = process.communicate(timeout=60)
            self.assertEqual((process.returncode, error), (rank, b""))

    def one_collector_knows(self, events, ranks):
        self.assertEqual(len([event for event in events if event.startswith("start ")]), 1, events)
        self.assertEqual(sorted(int(re.search(r"rank=(\d+)", event).group(1))
                                for event in events if event.startswith(("announced", "started"))), list(ranks))

    def test_one_directory_and_one_collector(self):
        for place in ("a", "b", "c"):
            self.finish(self.start(64, CLUSTERPROF_ROOT=place))
            run, = self.runs(self.path(place))
            self.one_collector_knows(self.events(os.path.join(place, run)), range(64))

    def test_two_nodes_on_one_machine(self):
        self.finish(self.start(16, lambda rank: {"CLUSTERPROF_NODE": f"n{rank % 2}"}))
        run, = self.runs()
        for node in (0, 1):
            self.one_collector_knows(self.events(run, f"n{node}"), range(node, 16, 2))
        self.assertEqual(os.listdir(self.directory), [run])

    def test_one_collector_when_the_first_fails(self):
        # The elected one's collector dies: the others must not wait for it for long.
        begin = time.monotonic()
        processes = self.start(8, FAKE_COLLECTOR="die")
        for rank, process in enumerate(processes):
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, rank)
        self.measured_below(time.monotonic() - begin, 20, "seconds")


class Repeat(launching.LaunchingTest):
    def test_each_run_has_a_directory(self):
        done = self.launch("run", "--repeat", "3", "-o", "fast", "--", "sh", "-c", "echo once")
        self.assertEqual((done.returncode, done.stdout), (0, b"once\n" * 3))
        self.assertEqual(self.runs(), ["fast-1", "fast-2", "fast-3"])
        self.assertIn(b"3 runs: fast-1 fast-2 fast-3", done.stderr)
        done = self.launch("run", "--repeat", "2", "-q", "-o", "fast", "true")
        self.assertEqual(self.runs(), [f"fast-{i}" for i in range(1, 6)])
        self.assertEqual(done.stderr, b"")

    def test_one_run_has_the_name_itself(self):
        self.assertEqual(self.launch("run", "-o", "alone", "--", "sh", "-c", "exit 0").returncode, 0)
        self.assertEqual(self.runs(), ["alone"])

    def test_the_first_failure_ends_it(self):
        script = "test -e ran && exit 7; touch ran"
        done = self.launch("run", "--repeat", "4", "-o", "r", "--", "sh", "-c", script)
        self.assertEqual(done.returncode, 7)
        self.assertEqual(self.runs(), ["r-1", "r-2"])
        self.one_line(done.stderr, "run 2 of 4 failed")
        done = self.launch("run", "--repeat", "2", "-q", "--", "sh", "-c", "kill -TERM $$")
        self.assertEqual(done.returncode, -signal.SIGTERM)

    def test_a_signal_reaches_the_command_and_ends_the_rest(self):
        script = "trap 'exit 9' TERM; touch ready; while :; do sleep 0.01; done"
        process = subprocess.Popen([launching.CLUSTERPROF, "run", "--repeat", "5", "-q", "-o", "s", "--", "sh", "-c", script],
                                   cwd=self.directory, stderr=subprocess.PIPE)
        while not os.path.exists(self.path("ready")):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 9)
        process.stderr.close()
        self.assertEqual(self.runs(), ["s-1"])

    def test_options_reach_every_run(self):
        done = self.launch("run", "--repeat", "2", "-r", "321", "-o", "o", "--", "sh", "-c", "echo $CLUSTERPROF_RATE")
        self.assertEqual(done.stdout, self.launch("-r", "321", "-o", "p", "sh", "-c", "echo $CLUSTERPROF_RATE").stdout * 2)

    def test_only_of_the_verb_run(self):
        done = self.launch("--repeat", "2", "true")
        self.assertEqual(done.returncode, 2)
        self.one_line(done.stderr, "clusterprof run")
        self.one_line(self.launch("run", "--repeat", "2", "--", "mpirun", "-n", "2", "/no/such/program").stderr,
                      "where the program begins")
        self.assertEqual(self.launch("run", "--repeat", "2", "/no/such/program").returncode, 127)


if __name__ == "__main__":
    launching.main()
