"""`cmake --install`, by an administrator with umask 077, used by somebody else from the prefix alone."""

import os
import re
import shutil

import installed
import recording

BUILD, SOURCE = recording.BUILD, recording.SOURCE
CONTRACT = ["bin/clusterprof", "libexec/clusterprof/collector", "libexec/clusterprof/analyze",
            "libexec/clusterprof/tui", "libexec/clusterprof/synth", "lib/clusterprof/libclusterprof_agent.so", "lib/clusterprof/libclusterprof_memory.so",
            "lib/clusterprof/libclusterprof_mpi_abi.so",
            "lib/clusterprof/python/clusterprof/__init__.py", "include/clusterprof.h", "include/clusterprof.f90"]
# What a program may need of the system. The rest of what it needs would be a surprise to packagers.
LIBC = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
LIBRARIES = LIBC | {"libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libdeflate.so.0",
                    "libfmt.so.9", "libdw.so.1", "libelf.so.1", "libxxhash.so.0", "libz.so.1", "libncursesw.so.6",
                    "libtinfo.so.6", "libsqlite3.so.0"}
MERGE = LIBRARIES | {"libmpi.so.40", "libmpich.so.12"}


class Prefix(installed.InstalledTest):
    @classmethod
    def setUpClass(cls):
        test = cls("install")
        test.setUp()
        cls.addClassCleanup(test.doCleanups)
        test.install()
        cls.prefix, cls.clusterprof = test.prefix, os.path.join(test.prefix, "bin", "clusterprof")

    def install(self):
        # The build tree's manifest is there to be read by who uninstalls; another test may write its own meanwhile.
        self.prefix = os.path.join(self.directory, "opt", "tools", "clusterprof")
        said = self.root_command(["bash", "-c", 'umask 077; exec cmake --install "$0" --strip --prefix "$1"', BUILD,
                                  self.prefix])
        type(self).manifest = [line.split(": ", 1)[1] for line in said.splitlines()
                               if line.startswith(("-- Installing: ", "-- Up-to-date: "))]

    def test_files_are_where_the_contract_says(self):
        there = installed.files_below(self.prefix)
        self.assertEqual([path for path in CONTRACT if path not in there], [])

    def test_objects_have_the_names_that_programs_of_other_systems_find_them_by(self):
        with open(os.path.join(SOURCE, "formats", "wire", "preload_entry.h"), encoding="utf-8") as file:
            listed = re.search(r"kLibraryDirectories\[\] = \{(.*?)\}", file.read(), re.DOTALL).group(1)
        directories = re.findall(r'"(.*?)"', listed)
        self.assertLessEqual({"lib", "lib64", "lib/x86_64-linux-gnu"}, set(directories))
        place = os.path.join(self.prefix, "lib", "clusterprof")
        # The starter is no such object: it needs no C library.
        objects = [name for name in os.listdir(place)
                   if name.startswith("libclusterprof_") and name != "libclusterprof_start.so"]
        self.assertIn("libclusterprof_agent.so", objects)
        for directory in directories:
            self.assertEqual(sorted(name for name in os.listdir(os.path.join(place, directory))
                                    if not os.path.isdir(os.path.join(place, directory, name))), sorted(objects))
            for name in objects:
                self.assertEqual(os.path.realpath(os.path.join(place, directory, name)),
                                 os.path.realpath(os.path.join(place, name)))

    def test_every_user_reads_all_of_it(self):
        self.assertEqual(installed.unreadable_below(os.path.join(self.directory, self.prefix)), [])
        self.assertEqual(installed.unreadable_below(os.path.dirname(self.prefix)), [])

    def test_other_directories_keep_their_modes(self):
        prefix = os.path.join(self.directory, "existing")
        for path, mode in ((prefix, 0o750), (os.path.join(prefix, "share"), 0o2775)):
            os.mkdir(path)
            os.chmod(path, mode)
        self.root_command(["bash", "-c", 'umask 077; exec cmake --install "$0" --strip --prefix "$1"', BUILD, prefix])
        self.assertEqual(os.stat(prefix).st_mode & 0o7777, 0o750)
        self.assertEqual(os.stat(os.path.join(prefix, "share")).st_mode & 0o7777, 0o2775)
        self.assertEqual(os.stat(os.path.join(prefix, "share", "clusterprof")).st_mode & 0o7777, 0o755)

    def test_manifest_is_all_there_is(self):
        listed = sorted(os.path.relpath(path, self.prefix) for path in self.manifest if not os.path.isdir(path))
        self.assertEqual(listed, installed.files_below(self.prefix))

    def test_records_reports_and_reads(self):
        self.assertIn("0.1.0", self.good([self.clusterprof, "--version"]).stdout)
        self.assertIn("spin() program.py", self.records(self.clusterprof))
        self.good([self.clusterprof, "report", "run", "--html", "page.html"])
        with open(os.path.join(self.work, "page.html"), "rb") as page:
            self.assertTrue(page.read(100).lower().startswith(b"<!doctype html>"))
        frames = self.good([recording.PYTHON, "-B", "-c", "import clusterprof\nwith clusterprof.read('run') as run:\n"
                            "    print(run.functions().reset_index().to_string())"],
                           variables={"PYTHONPATH": f"{self.prefix}/lib/clusterprof/python"})
        self.assertIn("program.py", frames.stdout)
        self.assertIn("spin.<locals>.<genexpr>", frames.stdout)
        self.assertEqual(installed.unreadable_below(self.prefix), [])

    def test_makes_synthetic_runs(self):
        self.good([f"{self.prefix}/libexec/clusterprof/synth", "--nodes", "2", "--ranks-per-node", "2", "--paths", "50",
                   "--seed", "1", "synthetic"])
        self.assertIn("4 ranks on 2 nodes", self.good([self.clusterprof, "report", "synthetic"]).stdout)

    def test_doctor_runs(self):
        if not os.path.exists(f"{self.prefix}/libexec/clusterprof/doctor"):
            self.skipTest("no doctor in this build")
        self.assertIn(self.user([self.clusterprof, "doctor"]).returncode, (0, 1))

    def test_regions_in_c(self):
        with open(os.path.join(self.work, "regions.c"), "w", encoding="utf-8") as file:
            file.write("#include <clusterprof.h>\nint main(void) {\n  clusterprof_region_begin(\"assembly\");\n"
                       "  for (volatile long i = 0; i < 100000000; ++i) {}\n  clusterprof_region_end(\"assembly\");\n}\n")
        self.good(["gcc", "-std=c99", "-pedantic-errors", "-Wall", "-Werror", "-O1", "regions.c", "-o", "regions"],
                  variables={"CPATH": f"{self.prefix}/include"})
        self.good([self.clusterprof, "-q", "-o", "of_regions", "./regions"])
        self.assertIn("assembly", self.good([self.clusterprof, "report", "of_regions", "--section", "regions"]).stdout)

    def test_found_through_a_link_and_after_a_move(self):
        os.symlink(self.clusterprof, os.path.join(self.work, "cp"))
        self.assertIn("spin() program.py", self.records("./cp", "linked"))

    def test_blank_in_the_prefix(self):
        """LD_PRELOAD cannot contain such a path: the program runs, and a line says why it was not recorded."""
        prefix = os.path.join(self.directory, "my tools")
        shutil.copytree(self.prefix, prefix, symlinks=True)
        done = self.good([f"{prefix}/bin/clusterprof", "-o", "blank", "echo", "hello"])
        self.assertEqual(done.stdout, "hello\n")
        self.assertIn("LD_PRELOAD cannot name a path with a blank or colon; the command runs unrecorded", done.stderr)

    def test_needs_what_is_documented(self):
        with open(os.path.join(SOURCE, "packaging", "README.md"), encoding="utf-8") as file:
            documented = file.read()
        for path in installed.elf_files(self.prefix):
            libraries, search = installed.needed(path)
            name = os.path.basename(path)
            in_job = name == "clusterprof" or "/lib/clusterprof/" in path
            allowed = LIBC if in_job else MERGE if name.startswith(("merge-", "self-test-")) else LIBRARIES
            if name == "spank_clusterprof.so":
                allowed = LIBRARIES
            self.assertLessEqual(set(libraries), allowed, path)
            if not name.startswith(("merge-", "self-test-")):
                self.assertEqual(search, "", path)
            for library in set(libraries) - LIBC - {"libm.so.6"}:
                self.assertIn(library, documented)

    def test_no_paths_of_the_build(self):
        """No file that is loaded contains the path of the build, nor does any other file, such as a manual page."""
        places = [place.encode() for place in (BUILD, SOURCE)]
        for path in installed.files_below(self.prefix):
            path = os.path.join(self.prefix, path)
            if installed.is_elf(path):
                parts = list(installed.loaded_bytes(path))
                self.assertTrue(parts, path)
            else:
                with open(path, "rb") as file:
                    parts = [file.read()]
            for place in places:
                self.assertFalse(any(place in part for part in parts), f"{path} has {place.decode()}")

    def test_uninstall_leaves_nothing(self):
        prefix = os.path.join(self.directory, "gone")
        said = self.root_command(["cmake", "--install", BUILD, "--strip", "--prefix", prefix])
        paths = re.findall(r"^-- (?:Installing|Up-to-date): (.*)$", said, re.MULTILINE)
        self.root_command(["xargs", "-d", "\n", "rm", "-f", "--"],
                          input="".join(path + "\n" for path in paths if not os.path.isdir(path)))
        self.assertEqual(installed.files_below(prefix), [])


LMOD = "/usr/share/lmod/lmod/init/bash"
OURS = ("LMOD", "_LMOD", "__LMOD", "_ModuleTable", "MODULEPATH", "MODULESHOME", "LOADEDMODULES", "_LMFILES_", "BASH_",
        "_=", "SHLVL", "PWD", "OLDPWD")


class Modules(installed.InstalledTest):
    """The module files, in Lmod, which reads Tcl ones too."""

    def setUp(self):
        super().setUp()
        self.need(LMOD)
        # A prefix in miniature: what module files look at.
        self.prefix = os.path.join(self.directory, "apps", "clusterprof", "0.1.0")
        modules = os.path.join(self.prefix, "share", "clusterprof", "modulefiles", "clusterprof")
        os.makedirs(modules)
        os.makedirs(os.path.join(self.prefix, "bin"))
        with open(os.path.join(self.prefix, "bin", "clusterprof"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho ours\n")
        os.chmod(file.name, 0o755)
        shutil.copy(os.path.join(SOURCE, "packaging", "modulefiles", "clusterprof.lua"), f"{modules}/0.1.0.lua")
        shutil.copy(os.path.join(SOURCE, "packaging", "modulefiles", "clusterprof.tcl"), f"{modules}/0.1.0")

    def shell(self, script, variables=None):
        return self.user(["bash", "--noprofile", "--norc", "-c", f"source {LMOD}\n{script}"],
                         variables={"LMOD_SYSTEM_DEFAULT_MODULES": "", **(variables or {})})

    def variables(self, text):
        return dict(entry.split("=", 1) for entry in text.split("\0")
                    if "=" in entry and not entry.startswith(OURS))

    def load_and_unload(self, path, prefix, variables=None):
        marker = "@@@\0"
        done = self.shell(f"module use {path}\nenv -0; printf '@@@\\0'\nmodule load clusterprof/0.1.0\nenv -0; "
                          "printf '@@@\\0'\nclusterprof; printf '@@@\\0'\nmodule unload clusterprof\nenv -0", variables)
        self.assertEqual(done.stderr, "")
        before, loaded, ran, after = done.stdout.split(marker)
        before, loaded, after = map(self.variables, (before, loaded, after))
        self.assertEqual(ran, "ours\n")
        self.assertEqual(after, before)
        self.assertEqual(loaded["CLUSTERPROF_HOME"], prefix)
        self.assertEqual(loaded["PATH"], f"{prefix}/bin:{before['PATH']}")
        self.assertEqual(loaded["CPATH"], ":".join(filter(None, (f"{prefix}/include", before.get("CPATH")))))
        self.assertNotIn("PYTHONPATH", loaded)
        if variables:
            self.assertEqual(loaded["MANPATH"], f"{prefix}/share/man:{before['MANPATH']}")
        else:
            self.assertNotIn("MANPATH", loaded)

    def test_lua(self):
        self.load_and_unload(f"{self.prefix}/share/clusterprof/modulefiles", self.prefix)

    def test_variables_that_were_set_before_are_kept(self):
        self.load_and_unload(f"{self.prefix}/share/clusterprof/modulefiles", self.prefix,
                             {"MANPATH": "/opt/x/man", "CPATH": "/opt/x/include"})

    def test_tcl(self):
        os.remove(f"{self.prefix}/share/clusterprof/modulefiles/clusterprof/0.1.0.lua")
        self.load_and_unload(f"{self.prefix}/share/clusterprof/modulefiles", self.prefix)
        self.load_and_unload(f"{self.prefix}/share/clusterprof/modulefiles", self.prefix,
                             {"MANPATH": "/opt/x/man", "CPATH": "/opt/x/include"})

    def test_prefix_was_moved(self):
        moved = os.path.join(self.directory, "elsewhere")
        os.rename(self.prefix, moved)
        self.load_and_unload(f"{moved}/share/clusterprof/modulefiles", moved)

    def test_links_from_a_tree_of_the_site(self):
        for name in ("0.1.0.lua", "0.1.0"):
            with self.subTest(name):
                site = os.path.join(self.directory, f"site-{name}", "clusterprof")
                os.makedirs(site)
                os.symlink(f"{self.prefix}/share/clusterprof/modulefiles/clusterprof/{name}", f"{site}/{name}")
                self.load_and_unload(os.path.dirname(site), self.prefix)

    def test_says_when_the_prefix_is_gone(self):
        for name in ("0.1.0.lua", "0.1.0"):
            with self.subTest(name):
                site = os.path.join(self.directory, f"copied-{name}", "clusterprof")
                os.makedirs(site)
                shutil.copy(f"{self.prefix}/share/clusterprof/modulefiles/clusterprof/{name}", f"{site}/{name}")
                done = self.shell(f"module use {os.path.dirname(site)}\nmodule load clusterprof && echo loaded")
                self.assertNotIn("loaded", done.stdout)
                self.assertIn("clusterprof is not where its module file", done.stderr.replace("\n", " "))

    def test_help(self):
        for name in ("0.1.0.lua", "0.1.0"):
            with self.subTest(name):
                done = self.shell(f"module use {self.prefix}/share/clusterprof/modulefiles\nmodule help clusterprof")
                self.assertIn("clusterprof report", done.stdout + done.stderr)
            if name.endswith("lua"):
                os.remove(f"{self.prefix}/share/clusterprof/modulefiles/clusterprof/{name}")


if __name__ == "__main__":
    recording.main()
