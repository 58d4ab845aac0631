"""A program that gets slower with a commit and a variable of its environment: `clusterprof history` says since which run, by how much,
and with what; `diff --fail-if 'METRIC regressed'` tells it from noise. The program measures its own time."""

import json
import os
import shutil
import subprocess

import jsonschema

import recording

EACH = 5  # runs before, and behind
LATE_S = 0.02  # that the program may sleep longer than it wants to
MOST_TRIES = 20
PROGRAM = """
import os, time
def work(seconds):
    begin = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - begin
def rest(seconds):  # so that work() is not nearly all of the run, whatever starting takes
    time.sleep(seconds)
rest(0.3)
print(work(float(os.environ["OMP_OF_TEST"])))
"""
COMMITS = ("a" * 40, "b" * 40)


class History(recording.RecordingTest):
    def clusterprof(self, *arguments, status=0):
        done = subprocess.run([recording.CLUSTERPROF, *arguments], cwd=self.directory, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, status, (arguments, done.stdout.decode(), done.stderr.decode()))
        return done.stdout.decode()

    def commit(self, name):
        os.makedirs(f"{self.directory}/code/.git", exist_ok=True)
        with open(f"{self.directory}/code/.git/HEAD", "w", encoding="ascii") as file:
            file.write(name + "\n")

    def record_sleep(self, run, wanted_s):
        """Records the program until the machine has let it sleep as long as it wanted to, or nearly: the change of the program is to be
        found, not those of the machine. Returns how long that was."""
        for _ in range(MOST_TRIES):
            shutil.rmtree(os.path.join(self.directory, run), ignore_errors=True)
            done = self.record([recording.PYTHON, "code/program.py"], options=["-q", "-r", "500"], run=run,
                               env={**os.environ, "OMP_OF_TEST": str(wanted_s)})
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            slept_s = float(done.stdout)
            if slept_s < wanted_s + LATE_S:
                break
        return slept_s

    def test_since_when_it_is_slower(self):
        self.commit(COMMITS[0])
        with open(f"{self.directory}/code/program.py", "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        os.mkdir(f"{self.directory}/runs")
        own = {}
        for i in range(2 * EACH):
            late = i >= EACH
            self.commit(COMMITS[late])
            run = f"runs/{i:02}"
            own[f"{i:02}"] = self.record_sleep(run, 0.6 if late else 0.3)
        result = json.loads(self.clusterprof("history", "runs", "--json"))
        with open(f"{recording.SOURCE}/report/json/history.schema.json", encoding="utf-8") as file:
            jsonschema.validate(result, json.load(file), jsonschema.Draft7Validator)
        self.assertEqual([run["run"] for run in result["runs"]], sorted(own))
        self.assertEqual([run["commit"] for run in result["runs"]], [COMMITS[0]] * EACH + [COMMITS[1]] * EACH)
        # There has to be one step by the program's own clock: a sleep that lasts longer is one of the machine's.
        self.measured_below(max(list(own.values())[:EACH]), 0.3 + LATE_S, "by the program, before")
        self.measured_below(max(list(own.values())[EACH:]), 0.6 + LATE_S, "by the program, after")
        changes = [change for change in result["changes"] if change["metric"] == "total:work"]
        self.assertEqual(len(changes), 1, result["changes"])
        change = changes[0]
        self.assertEqual((change["run"], change["commit"]), (f"{EACH:02}", COMMITS[1]))
        self.assertIn({"kind": "variable", "name": "OMP_OF_TEST", "before": "0.3", "after": "0.6"}, change["settings"])
        # What made the whole run slower is named: not sleep(), which rest() calls, too, but its innermost caller that explains it. Where
        # the machine was slower at starting it as well, work() does not: it would have to be four fifths of that.
        slower_s = change["after"] - change["before"]
        for whole in result["changes"]:
            if (whole["metric"], whole["run"]) == ("elapsed", f"{EACH:02}") and 0.9 * (whole["after"] - whole["before"]) < slower_s:
                self.assertEqual(whole["functions"][0]["metric"], "total:work", whole)
        before, after = (sum(list(own.values())[begin:begin + EACH]) / EACH for begin in (0, EACH))
        self.measured_near(slower_s, after - before, 0.03, "how much slower work() is")
        self.assertIn("commit bbbbbbbbbb", self.clusterprof("history", "runs"))
        # The cache may go at any time.
        index, = (name for name in os.listdir(f"{self.directory}/runs") if name.endswith(".sqlite"))
        os.remove(f"{self.directory}/runs/{index}")
        self.assertEqual(json.loads(self.clusterprof("history", "runs/03", "--json")), result)

        self.clusterprof("diff", "runs/00", f"runs/{EACH:02}", "--fail-if", "total:work regressed", status=1)
        self.clusterprof("diff", f"runs/{EACH:02}", "runs/00", "--fail-if", "total:work regressed")
        self.clusterprof("diff", "runs/00", "runs/01", "--fail-if", "total:work regressed by 20%")
        said = self.clusterprof("diff", "runs/00", f"runs/{EACH:02}", "--fail-if", "total:work regressed", "--github",
                                "--junit", "result.xml", status=1)
        self.assertTrue(said.startswith("::error file=code/program.py,line="), said)
        with open(f"{self.directory}/result.xml", encoding="utf-8") as file:
            self.assertIn('failures="1"', file.read())


if __name__ == "__main__":
    recording.main()
