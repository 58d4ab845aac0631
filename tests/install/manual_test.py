"""Manual pages and completion for shells, as installed: what is in them, and that people get it."""

import functools
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import recording

BUILD, SOURCE = recording.BUILD, recording.SOURCE
SECTIONS = {"clusterprof-run": "5", "clusterprof-slurm": "7"}
BASH = "/usr/share/bash-completion/bash_completion"


def said(*command, **how):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **how)
    return done.stdout


@functools.cache
def help_of(*verb):
    return said(recording.CLUSTERPROF, *verb, "--help")


@functools.cache
def verbs():
    """The commands that `clusterprof --help` lists."""
    listed = help_of().split("Other commands", 1)[1].split("Every option", 1)[0]
    return {name for line in listed.splitlines()[1:] for name in re.findall(r"(?:^  |, )(\w+)", line[:30])}


def options_of(*verb):
    """Their names, from the program's own help."""
    return [name for names in re.findall(r"(?m)^  (-\S+)", help_of(*verb)) for name in names.split(",")]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="clusterprof-manual-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        os.chmod(cls.directory, 0o755)
        cls.prefix = os.path.join(cls.directory, "prefix")
        subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={cls.prefix}", "-P",
                        os.path.join(BUILD, "cli", "manual", "cmake_install.cmake")], check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        os.mkdir(os.path.join(cls.prefix, "bin"))
        cls.clusterprof = shutil.copy(recording.CLUSTERPROF, os.path.join(cls.prefix, "bin"))
        cls.share = os.path.join(cls.prefix, "share")
        cls.pages = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(cls.share, "man"))
                     for name in sorted(names)]

    def read(self, *path):
        with open(os.path.join(self.share, *path), encoding="ascii") as file:
            return file.read()

    def needs(self, *programs):
        for program in programs:
            if shutil.which(program) is None and not os.path.exists(program):
                self.skipTest(f"{program} is not installed")


class Pages(Installed):
    def page(self, name):
        section = SECTIONS.get(name, "1")
        return self.read("man", f"man{section}", f"{name}.{section}").replace("\\-", "-")

    def test_every_verb_and_nothing_else_has_a_page(self):
        there = verbs()
        self.assertLess({"report", "merge", "export", "diff", "ls"}, there)
        names = {os.path.basename(path).rsplit(".", 1)[0] for path in self.pages}
        self.assertEqual(names, {"clusterprof", "clusterprof-record", *SECTIONS} | {f"clusterprof-{v}" for v in there})
        main = self.page("clusterprof")
        for verb in there:
            self.assertIn(f"\\fBclusterprof-{verb}\\fR(1)", main)

    def test_pages_have_every_option(self):
        for verb in [(), *((verb,) for verb in verbs())]:
            page, options = self.page("-".join(("clusterprof", *verb))), options_of(*verb)
            self.assertGreaterEqual(len(options), 1)
            for name in options:
                self.assertRegex(page, rf"(?m)^\.TP\n(.*, )?\\fB{name}\\fR", verb)
        self.assertIn("--inclusive", self.page("clusterprof-query"))
        for hidden in ("--spawned", "--started", "banner", "--wait-ranks"):
            self.assertEqual([path for path in self.pages if hidden in self.page(
                os.path.basename(path).rsplit(".", 1)[0])], [], hidden)

    def test_conditions_of_diff_are_those_of_its_help(self):
        metrics = help_of("diff").split("METRIC  ", 1)[1].split("names with blanks", 1)[0]
        words = re.findall(r"(?<![\w(])[a-z_]+(?=[ :\n])", re.sub(r"\([^)]*\)", "", metrics))
        self.assertGreater(len(words), 20)
        for word in words:
            self.assertIn(word, self.page("clusterprof-diff"))

    def test_clusterprof_understands_the_examples(self):
        done = subprocess.run([os.path.join(BUILD, "cli", "manual", "make_manual"), "--check",
                               os.path.join(SOURCE, "docs", "man")], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"^[3-9]\d examples, 0 wrong\n$")

    def test_a_wrong_example_is_found(self):
        for example, why in (("clusterprof export run1 -f nonsense", "nonsense"), ("clusterprof --no-such true", "--no-such"),
                             ("mpirun clusterprof diff a b --fail-if 'elapsed>>5'", "elapsed")):
            with tempfile.TemporaryDirectory() as pages:
                with open(os.path.join(pages, "page.md"), "w", encoding="ascii") as file:
                    file.write(f"# clusterprof-x(1)\n\n## EXAMPLES\n\n    {example}\n")
                done = subprocess.run([os.path.join(BUILD, "cli", "manual", "make_manual"), "--check", pages],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertIn(why, done.stdout)

    def test_mandoc_finds_nothing_wrong(self):
        self.needs("mandoc")
        self.assertEqual(said("mandoc", "-T", "lint", "-W", "warning", *self.pages), "")

    def test_groff_finds_nothing_wrong(self):
        self.needs("groff")
        for path in self.pages:
            done = subprocess.run(["groff", "-man", "-ww", "-z", path], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)

    def test_man_shows_the_pages(self):
        self.needs("man")
        environment = {"PATH": os.environ["PATH"], "MANPATH": os.path.join(self.share, "man"), "MANWIDTH": "80",
                       "MANPAGER": "cat", "LC_ALL": "C"}
        for name, section in (("clusterprof-report", "1"), ("clusterprof-record", "1"), ("clusterprof-run", "5")):
            text = said("man", name, env=environment)
            title = name.replace("-record", "").upper()
            self.assertRegex(text, rf"(?m)^{title}\({section}\) .* {title}\({section}\)$")
            self.assertEqual([line for line in text.splitlines() if len(line) > 88], [])
        # Found without MANPATH by clusterprof itself.
        del environment["MANPATH"]
        for topic, title in ((["report"], "CLUSTERPROF-REPORT(1)"), ([], "CLUSTERPROF(1)"),
                             (["record"], "CLUSTERPROF(1)"), (["slurm"], "CLUSTERPROF-SLURM(7)")):
            self.assertIn(title, said(self.clusterprof, "help", *topic, env=environment))

    def test_help_without_man(self):
        nowhere = {"PATH": "/nonexistent"}
        self.assertIn("--section", said(recording.CLUSTERPROF, "help", "report", env=nowhere))
        self.assertIn("Usage: [LAUNCHER] clusterprof", said(recording.CLUSTERPROF, "help", env=nowhere))
        done = subprocess.run([recording.CLUSTERPROF, "help", "weather"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no verb weather", done.stderr)

    def test_help_names_the_page(self):
        for verb in verbs():
            self.assertIn(f"clusterprof help {verb}\n", help_of(verb))
        self.assertIn("clusterprof help COMMAND", help_of())


class Completion:
    """The same for every shell; `complete(lines)` returns a list of candidates for each line."""

    def setUp(self):
        self.work = tempfile.mkdtemp(dir=self.directory)
        for path in ("clusterprof-train-4711.0", "clusterprof-x-20261121-155541", "results", "run1", "old"):
            os.mkdir(os.path.join(self.work, path))
        for path in ("run1/node-n1.h5", "run1/node-n1.2.h5", "run1/node-n2.h5", "old/profile.h5", "page.html"):
            with open(os.path.join(self.work, path), "w", encoding="ascii"):
                pass
        self.environment = {**os.environ, "XDG_DATA_DIRS": f"{self.share}:/usr/share", "HOME": self.work,
                            "PATH": f"{self.prefix}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        self.environment.pop("CLUSTERPROF_ROOT", None)

    def test_every_verb_and_option_is_offered(self):
        commands = [("", options_of())] + [(verb, options_of(verb)) for verb in sorted(verbs())]
        lines = [f"clusterprof {verb} -" if verb else "clusterprof -" for verb, _ in commands]
        lines += [f"clusterprof {verb} --" if verb else "clusterprof --" for verb, _ in commands]
        results = self.complete(["clusterprof ", *lines])
        self.assertEqual({word for word in results[0] if not word.startswith("-")}, verbs() | {"record", "run", "help"})
        for i, (verb, options) in enumerate(commands):
            offered = set(results[1 + i]) | set(results[1 + len(commands) + i])
            offered = {re.sub(r"=$", "", word) for word in offered}
            self.assertEqual(offered, set(options), verb)

    def test_values_and_arguments(self):
        runs = {"clusterprof-train-4711.0", "clusterprof-x-20261121-155541", "run1", "old"}
        formats = set(re.search(r"\{(folded[^}]*)\}", help_of("export")).group(1).split(","))
        sections = set(re.search(r"\{(summary[^}]*)\}", help_of("report")).group(1).split(","))
        cases = [
            ("clusterprof report", {"report"}),
            ("clusterprof report --s", {"--section"}),
            ("clusterprof report ", runs),
            ("clusterprof report ol", {"old"}),
            ("clusterprof report resu", {"results"}),
            ("clusterprof report 47", {"4711.0"}),
            ("clusterprof report run1 --section ", sections),
            ("clusterprof report run1 --section comm w", {"waits"}),
            ("clusterprof report run1 --section=comm,w", {"waits"}),
            ("clusterprof report run1 --color=al", {"always"}),
            ("clusterprof report run1 --html p", {"page.html"}),
            ("clusterprof export run1 -f ", formats),
            ("clusterprof export run1 --format sp", {"speedscope"}),
            ("clusterprof ls --sort eff", {"efficiency"}),
            ("clusterprof ls resu", {"results"}),
            ("clusterprof diff run1 --vs ol", {"old"}),
            ("clusterprof query run1 ", {"rank", "path", "functions", "node"}),
            ("clusterprof query run1 node ", {"n1", "n2"}),
            ("clusterprof query run1 path 3 --inc", {"--inclusive"}),
            ("clusterprof help dif", {"diff"}),
            ("clusterprof --clock ", {"wall", "cpu"}),
            ("clusterprof --clock=w", {"wall"}),
            ("clusterprof -q --clock-sync n", {"never"}),
            ("clusterprof record --only", {"--only-regions"}),
            ("clusterprof run --rep", {"--repeat"}),
            ("clusterprof -o resu", {"results"}),
        ]
        self.check(cases)

    def test_completion_of_the_recorded_command(self):
        self.check([
            ("clusterprof falling", {"falling-command"}),
            ("clusterprof falling-command --col", {"--colour-of-its-own"}),
            ("clusterprof -r 500 --clock=cpu falling-command --col", {"--colour-of-its-own"}),
            ("clusterprof -qr 500 falling-command -x --col", {"--colour-of-its-own"}),
            ("clusterprof -- falling-command --col", {"--colour-of-its-own"}),
            ("clusterprof -q -- falling", {"falling-command"}),
            ("clusterprof record falling-command --col", {"--colour-of-its-own"}),
        ])

    def test_behind_a_launcher(self):
        self.check([("mpirun -n 4 clusterprof report", {"report"}), ("mpirun -n 4 clusterprof --only", {"--only-regions"}),
                    (f"mpirun -n 4 {self.prefix}/bin/clusterprof report --sec", {"--section"}),
                    ("mpirun -n 4 clusterprof -r 1 falling-command --col", {"--colour-of-its-own"})])

    def test_completes_runs_in_other_directories(self):
        self.environment["CLUSTERPROF_ROOT"] = root = os.path.join(self.work, "results")
        os.mkdir(os.path.join(root, "clusterprof-far-52_3.1"))
        self.check([("clusterprof report 5", {"52_3.1"}), ("clusterprof report clusterprof-f", {"clusterprof-far-52_3.1"})])

    def check(self, cases):
        for (line, expected), got in zip(cases, self.complete([line for line, _ in cases])):
            # Shells differ in whether they offer the whole word, and in what ends a directory.
            words = {re.sub(r"^(--[\w-]+=)?(comm,)?", "", word) if "=" in line else word for word in got}
            words = {word[:-1] if len(word) > 1 and word[-1] in "/=," else word for word in words}
            self.assertEqual(words, expected, line)

    def falling_command(self):
        """A program, and the folder that it is in."""
        folder = os.path.join(self.work, ".programs")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "falling-command")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n")
        os.chmod(path, 0o755)
        self.environment["PATH"] = f"{folder}:{self.environment['PATH']}"


class Bash(Completion, Installed):
    SCRIPT = r"""
        _falling_command() { COMPREPLY=($(compgen -W '--colour-of-its-own --other' -- "${COMP_WORDS[COMP_CWORD]}")); }
        complete -F _falling_command falling-command
        while IFS= read -r line && IFS=$'\x1f' read -r -a COMP_WORDS; do
            [[ $line == *' ' ]] && COMP_WORDS+=('')
            COMP_LINE=$line COMP_POINT=${#line} COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
            function=$(complete -p "${COMP_WORDS[0]}"); function=${function#*-F }
            "${function%% *}" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            ((${#COMPREPLY[@]})) && printf '%s\n' "${COMPREPLY[@]% }"
            echo END
        done
    """

    def complete(self, lines, loading=None):
        self.needs("bash", *([] if loading else [BASH]))
        self.falling_command()
        loading = loading or f". {BASH}; _completion_loader clusterprof; complete -p clusterprof >/dev/null || exit"
        typed = "".join(line + "\n" + "\x1f".join(re.findall(r"[=:]+|[^\s=:]+", line)) + "\n" for line in lines)
        done = subprocess.run(["bash", "--norc", "-c", f"{loading}\n{self.SCRIPT}"], input=typed,
                              capture_output=True, text=True, timeout=60, cwd=self.work, env=self.environment)
        results = [part.split("\n") for part in done.stdout.split("END\n")]
        self.assertEqual(len(results), len(lines) + 1, done.stderr)
        return [[word for word in result if word] for result in results[:-1]]

    def test_without_bash_completion(self):
        script = os.path.join(self.share, "bash-completion", "completions", "clusterprof")
        for line, expected in (("clusterprof report --s", {"--section"}), ("clusterprof report ol", {"old"}),
                               ("clusterprof -r 500 falling", {"falling-command"})):
            self.assertEqual(set(self.complete([line], f". {script}")[0]), expected)


class Fish(Completion, Installed):
    def complete(self, lines):
        self.needs("fish")
        self.falling_command()
        script = "complete -c falling-command -l colour-of-its-own\ncomplete -C'clusterprof ' >/dev/null\n"
        for line in lines:
            script += f"complete -C'{line}'; echo END\n"
        environment = {**self.environment, "XDG_CONFIG_HOME": self.work, "XDG_DATA_HOME": self.work}
        done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, timeout=60, cwd=self.work,
                              env=environment)
        results = [part.split("\n") for part in done.stdout.split("END\n")]
        self.assertEqual(len(results), len(lines) + 1, done.stderr)
        return [[word.split("\t")[0] for word in result if word] for result in results[:-1]]


class Zsh(Completion, Installed):
    # What is offered goes to a file, as the real completion system, on a terminal, would show it.
    SETUP = r"""
        PROMPT= RPROMPT=
        unsetopt beep
        fpath=(SHARE/zsh/site-functions $fpath)
        autoload -Uz compinit && compinit -u -d DUMP
        _falling_command() { _arguments --colour-of-its-own --other }
        compdef _falling_command falling-command
        zstyle ':completion:*' completer _complete
        zstyle ':completion:*' insert-tab false
        LISTMAX=100000
        compadd() {
            if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
                builtin compadd "$@"
                return
            fi
            local -a hits
            builtin compadd -A hits "$@"
            local -a before
            zparseopts -E P:=before p:=before
            (( $#hits )) && print -rl -- ${^hits} >>! CAPTURE
            builtin compadd "$@"
        }
        finish() { print END >>! CAPTURE; zle kill-buffer }
        go() { zle complete-word; zle finish }
        zle -C complete-word complete-word _main_complete
        zle -N finish; zle -N go
        bindkey '^I' go
        print READY >>! CAPTURE
    """

    def complete(self, lines):
        self.needs("zsh")
        self.falling_command()
        capture = os.path.join(self.work, ".capture")
        setup = os.path.join(self.work, ".setup.zsh")
        with open(setup, "w", encoding="ascii") as file:
            file.write(self.SETUP.replace("SHARE", self.share).replace("CAPTURE", capture)
                       .replace("DUMP", os.path.join(self.directory, "zcompdump")))
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**self.environment, "TERM": "dumb"})
        try:
            os.write(terminal, f". {setup}\n".encode())
            results = []
            self.wait(terminal, capture, "READY\n")
            for line in ["clusterprof ", *lines]:  # the first one loads what completes mpirun, too
                with open(capture, "w", encoding="utf-8"):
                    pass
                os.write(terminal, line.encode() + b"\t")
                results.append(self.wait(terminal, capture, "END\n").split("\n")[:-2])
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)
        return [[word for word in result if word] for result in results[1:]]

    def wait(self, terminal, path, end):
        deadline = time.monotonic() + 120
        shown = b""
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.01)[0]:
                shown += os.read(terminal, 65536)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                if text.endswith(end):
                    return text
        self.fail(f"zsh does not answer: {shown.decode(errors='replace')}")


if __name__ == "__main__":
    recording.main()
