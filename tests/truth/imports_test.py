"""Packages that burn CPU time while they are imported, on every CPython of this machine. Each module measures what it
burns by time.thread_time, and the profile is of CPU time, so it does not matter how busy the machine is. The time of a
package may be off by 5 %: each is one block of hundreds of sampling periods, and finding and loading it is in."""

import json
import os

import recording
import truth

# A package that imports another one and modules of its own, one of which imports the first again; a module that is
# imported within a function; and the program's own.
FILES = {
    "site-packages/burning.py": """
import time
burnt = {}
def burn(package, seconds):
    begin = time.thread_time()
    end = begin + seconds
    number = 1
    while time.thread_time() < end:
        for i in range(1000):
            number = number * 31 % 65537
    burnt[package] = burnt.get(package, 0) + time.thread_time() - begin
""",
    "site-packages/alpha/__init__.py": """
from burning import burn
burn("alpha", 0.5)
import beta
from . import deep
""",
    "site-packages/alpha/deep.py": """
from burning import burn
import alpha
burn("alpha", 0.3)
from alpha import later
""",
    "site-packages/alpha/later.py": """
from burning import burn
burn("alpha", 0.2)
""",
    "site-packages/beta/__init__.py": """
from burning import burn
from beta.part import inner
""",
    "site-packages/beta/part/__init__.py": """
""",
    "site-packages/beta/part/inner.py": """
import alpha
from burning import burn
burn("beta", 0.6)
""",
    "site-packages/gamma.py": """
from burning import burn
burn("gamma", 0.4)
""",
    "program.py": """
import alpha, json
import model
import burning

def solve():
    import gamma
    burning.burn("program", 0.5)

solve()
print(json.dumps(burning.burnt))
""",
    "model.py": """
from burning import burn
burn("model", 0.5)
""",
}


class Imports(truth.TruthTest):
    def check(self, version, python):
        for name, text in FILES.items():
            path = os.path.join(self.directory, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        environment = dict(os.environ, PYTHONPATH=os.path.join(self.directory, "site-packages"))
        done = self.record([python, "program.py"], options=["-q", "-r", "1000", "--clock", "cpu"],
                           env=environment)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        burnt = json.loads(done.stdout)
        report = self.report()
        rows = {row["package"]: row for row in report["imports"]}
        totals = {"alpha": burnt["alpha"] + burnt["beta"], "beta": burnt["beta"], "gamma": burnt["gamma"],
                  "model": burnt["model"]}
        for package, total in totals.items():
            self.compare(version, f"self time of {package}", 1.0, rows[package]["self_s"] / burnt[package], 0.05)
            self.compare(version, f"total time of {package}", 1.0, rows[package]["time_s"] / total, 0.05)
        # Without what the program's own module burns.
        self.compare(version, "all imports", 1.0,
                     report["import_time"]["main_thread_s"] / (totals["alpha"] + totals["gamma"]), 0.1)
        with self.subTest(python=version, what="statements"):
            place = {name: (os.path.basename(row["file"] or ""), row["line"], row["direct"], row["own"])
                     for name, row in rows.items()}
            self.assertEqual(place["alpha"], ("program.py", 2, True, False))
            self.assertEqual(place["beta"], ("program.py", 2, False, False))
            self.assertEqual(place["gamma"], ("program.py", 7, True, False))
            self.assertEqual(place["model"], ("program.py", 3, True, True))
            self.assertNotIn("program", rows)


truth.per_python(Imports, Imports.check)

if __name__ == "__main__":
    recording.main()
