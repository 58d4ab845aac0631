"""Programs that do far more different things with files than a process has room for in its tables: operations that come
late, on a large file and inside MPI, are still reported exactly and at their line."""

import os
import subprocess

import recording

MODULES, PACKAGES = 2400, 60

LATE = '''
import os, sys
import big

def save(name):
    with open(name, "wb", buffering=0) as file:
        for _ in range(30):
            file.write(bytes(100000))

def load(name):
    with open(name, "rb", buffering=0) as file:
        return len(file.read())

save(sys.argv[1])
load(sys.argv[1])
'''

SITES = '''
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { kDepth = 16 };
static char g_data[1 << 20];

__attribute__((noinline)) static int descend(int depth, unsigned way, int file) {
  if (depth == 0) return (int)write(file, g_data, 1);
  int done;
  if (way & 1) {
    done = descend(depth - 1, way >> 1, file);
    __asm__ volatile("# one way" : "+r"(done));
  } else {
    done = descend(depth - 1, way >> 1, file);
    __asm__ volatile("# the other way" : "+r"(done));
  }
  return done;
}
__attribute__((noinline)) static void write_late(const char* name) {
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < 3; ++i)
    if (write(file, g_data, sizeof g_data) != (ssize_t)sizeof g_data) abort();
  close(file);
}
__attribute__((noinline)) static void add_up(void) {
  double mine = 1, sum;
  for (int i = 0; i < 5; ++i) MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  __asm__ volatile("" : : "r"(&sum) : "memory");
}
__attribute__((noinline)) static void share(void) {
  for (int i = 0; i < 3; ++i) MPI_Bcast(g_data, 1000, MPI_BYTE, 0, MPI_COMM_WORLD);
  __asm__ volatile("" : : : "memory");
}
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (unsigned way = 0; way < 1u << kDepth; ++way)
    if (descend(kDepth, way, file) != 1) return 1;
  close(file);
  write_late(argv[2]);
  add_up();
  share();
  MPI_Finalize();
  return 0;
}
'''


class FullTables(recording.RecordingTest):
    def file(self, report, path):
        found = [row for row in report["io"]["files"] if row["path"] == os.path.realpath(path)]
        self.assertEqual(len(found), 1, report["io"]["directories"])
        return found[0]

    def imported(self, root):
        """Makes the package `big` of many modules, each of which imports the next one of its package."""
        for package in range(PACKAGES):
            folder = os.path.join(root, "big", f"part{package}")
            os.makedirs(folder)
            names = [f"m{i}" for i in range(MODULES // PACKAGES)]
            for name, following in zip(names, names[1:] + [None]):
                with open(os.path.join(folder, name + ".py"), "w") as file:
                    file.write(f"from . import {following}\n" if following else "x = 1\n")
            with open(os.path.join(folder, "__init__.py"), "w") as file:
                file.write("from . import m0\n")
        with open(os.path.join(root, "big", "__init__.py"), "w") as file:
            file.write("".join(f"from . import part{package}\n" for package in range(PACKAGES)))

    def check_python(self, root):
        self.imported(root)
        program = os.path.join(self.directory, "late.py")
        with open(program, "w") as file:
            file.write(LATE)
        late = os.path.join(self.directory, "late.bin")
        report = self.recorded([recording.PYTHON, "-B", program, late], env={**os.environ, "PYTHONPATH": root})
        self.assertEqual({name for name in report["run"]["dropped"] if "full" in name}, set())
        row = self.file(report, late)
        self.assertEqual((row["opens"], row["writes"], row["written_bytes"], row["read_bytes"]),
                         (2, 30, 3000000, 3000000))
        calls = [c for c in report["io"]["calls"] if c["path"] == os.path.realpath(late)]
        self.assertEqual({(c["function"], c["line"], c["count"]) for c in calls if c["operation"] == "write"},
                         {("save", 8, 30)})
        self.assertEqual({(c["function"], c["line"]) for c in calls if c["operation"] == "read"}, {("load", 12)})
        self.assertEqual(report["io"]["by_file_only"]["operations"], 0)
        # All that the imports did is at the line of the program that imports.
        lines = {(c["function"], c["line"]) for c in report["io"]["calls"]
                 if c["path"] is not None and c["path"].startswith(os.path.join(os.path.realpath(root), "big"))}
        self.assertEqual(lines, {("<module>", 3)})
        return report

    def test_a_library(self):
        root = os.path.join(self.directory, "lib", "python3.99", "site-packages")
        report = self.check_python(root)
        # One row for all modules.
        rows = [row for row in report["io"]["files"] if row["path"].startswith(os.path.realpath(root) + "/")]
        self.assertEqual([row["path"] for row in rows], [os.path.join(os.path.realpath(root), "big/*")])
        self.assertGreaterEqual(rows[0]["opens"], MODULES + PACKAGES + 1)

    def test_modules_of_the_user(self):
        root = os.path.join(self.directory, "modules")
        report = self.check_python(root)
        # One row for the modules of each directory.
        big = os.path.join(os.path.realpath(root), "big")
        rows = {row["path"]: row["opens"] for row in report["io"]["files"] if row["path"].endswith("*.py")
                and row["path"].startswith(big + "/")}
        self.assertEqual(rows, {f"{big}/*.py": 1, **{f"{big}/part{i}/*.py": MODULES // PACKAGES + 1
                                                     for i in range(PACKAGES)}})

    def test_call_paths(self):
        self.need("mpicc.openmpi", "mpirun.openmpi")
        source, program = (os.path.join(self.directory, name) for name in ("sites.c", "sites"))
        with open(source, "w") as file:
            file.write(SITES)
        subprocess.run(["mpicc.openmpi", "-g", "-O2", source, "-o", program], check=True)
        early, late = (os.path.join(self.directory, name) for name in ("early", "late"))
        report = self.recorded([program, early, late], before=recording.launcher("openmpi", 1))
        self.assertNotIn("path_arena_full", report["run"]["dropped"])
        self.assertGreater(report["run"]["dropped"]["io_site_table_full"], 0)
        row = self.file(report, early)
        self.assertEqual((row["writes"], row["written_bytes"]), (65536, 65536))
        row = self.file(report, late)
        self.assertEqual((row["writes"], row["written_bytes"]), (3, 3 << 20))
        written = [c for c in report["io"]["calls"] if c["path"] == os.path.realpath(late) and c["operation"] == "write"]
        self.assertEqual([(c["function"], c["count"]) for c in written], [("write_late", 3)])
        by_file_only = report["io"]["by_file_only"]
        self.assertEqual(sum(c["count"] for c in report["io"]["calls"] if c["function"] is None and not c["mpi"]),
                         by_file_only["operations"])
        callers = {(c["op"], c["function"], c["count"]) for c in report["mpi"]["calls"]}
        self.assertLessEqual({("MPI_Allreduce", "add_up", 5), ("MPI_Bcast", "share", 3)}, callers)
        # What MPI reads when it starts is marked.
        self.assertTrue(any(c["mpi"] == "MPI_Init" for c in report["io"]["calls"]))
        text = subprocess.run([recording.CLUSTERPROF, "report", "--section", "io", os.path.join(self.directory, "run")],
                              capture_output=True, check=True).stdout.decode()
        self.assertIn("are counted by file only: the table of their callers was full", " ".join(text.split()))


recording.main()
