"""The recipes for Spack and EasyBuild agree with what this build needs. Neither tool is in Debian, so the recipes are
executed against the part of the tools' interfaces that they use, and CMake runs with the resulting arguments."""

import glob
import inspect
import itertools
import os
import re
import subprocess
import sys
import tempfile
import types

import recording

SOURCE = recording.SOURCE
PACKAGING = os.path.join(SOURCE, "packaging")

# The -dev packages of scripts/setup that the product is built with, and their names elsewhere.
SPACK = {"libboost-dev": "boost", "libcereal-dev": "cereal", "libcli11-dev": "cli11", "libdw-dev": "elfutils",
         "libelf-dev": "elfutils", "libfmt-dev": "fmt", "libhdf5-dev": "hdf5", "libdeflate-dev": "libdeflate",
         "libpfm4-dev": "libpfm4", "libncurses-dev": "ncurses", "libpapi-dev": "papi", "libprotozero-dev": "protozero",
         "rapidjson-dev": "rapidjson", "libxxhash-dev": "xxhash", "zlib1g-dev": "zlib-api", "libopenmpi-dev": "openmpi",
         "libmpich-dev": "mpich", "libslurm-dev": "slurm",
         "libsqlite3-dev": "sqlite"}
EASYBUILD = {"boost": "Boost", "cli11": "CLI11", "hdf5": "HDF5", "papi": "PAPI", "rapidjson": "RapidJSON",
             "sqlite": "SQLite", "xxhash": "xxHash", "zlib-api": "zlib"}
IN_EASYBUILD_OTHERWISE = {"libpfm4", "openmpi", "mpich", "slurm"}  # part of PAPI, the toolchain, other easyconfigs, the system
# For tests and packages.
NOT_FOR_THE_BUILD = {"dpkg-dev", "nlohmann-json3-dev", "libgtest-dev", "libpython3-dev", "libbz2-dev", "liblzma-dev"}


def setup_packages():
    with open(os.path.join(SOURCE, "scripts", "setup"), encoding="utf-8") as file:
        lists = re.findall(r"^(?:build|package|demo|tests)=\((.*?)\)(?:$| #)", file.read(), re.DOTALL | re.MULTILINE)
    assert len(lists) == 4, lists
    return [name for block in lists for line in block.splitlines() for name in line.split("#")[0].split()]


class Prefix(str):
    """As Spack's: prefix.include is a path below."""

    def __getattr__(self, name):
        return Prefix(os.path.join(self, name))


class Spec:
    def __init__(self, on, prefixes):
        self.on, self.prefixes = on, prefixes

    def satisfies(self, text):
        assert re.fullmatch(r"[+~][a-z]+", text), text
        return (text[1:] in self.on) == (text[0] == "+")

    def __getitem__(self, name):
        return types.SimpleNamespace(prefix=Prefix(self.prefixes[name]))


def spack_interface():
    """The module spack.package, as far as recipes here use it, with the signatures that Spack documents."""
    module, said = types.ModuleType("spack.package"), []

    def directive(signature):
        name, parameters = re.fullmatch(r"(\w+)\((.*)\)", signature).groups()
        check = inspect.signature(eval(f"lambda {parameters}: None"))  # pylint: disable=eval-used

        def call(*arguments, **keywords):
            bound = check.bind(*arguments, **keywords)
            bound.apply_defaults()
            said.append((name, dict(bound.arguments)))

        setattr(module, name, call)

    for signature in ("version(ver, sha256=None, deprecated=False, preferred=None)",
                      "variant(name, default=None, description='', values=None, multi=None, when=None)",
                      "depends_on(spec, when=None, type=('build', 'link'), patches=None)",
                      "conflicts(conflict_spec, when=None, msg=None)",
                      "requires(*requirement_specs, policy='one_of', when=None, msg=None)",
                      "license(license_identifier, checked_by=None, when=None)",
                      "generator(*names, default=None)"):
        directive(signature)

    class CMakePackage:
        @staticmethod
        def define(name, value):
            if isinstance(value, bool):
                return f"-D{name}:BOOL={'ON' if value else 'OFF'}"
            return f"-D{name}:STRING={value}"

    module.CMakePackage = CMakePackage
    module.join_path = os.path.join
    return module, said


def run_spack_recipe(name):
    module, said = spack_interface()
    sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), module
    try:
        scope = {}
        path = os.path.join(PACKAGING, "spack", "packages", name, "package.py")
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), scope)  # pylint: disable=exec-used
    finally:
        del sys.modules["spack"], sys.modules["spack.package"]
    return scope[name.capitalize()], said


def run_easyconfig(path):
    # What EasyBuild defines before it executes one.
    scope = {"SOURCE_TAR_GZ": "%(name)s-%(version)s.tar.gz", "SOURCELOWER_TAR_GZ": "%(namelower)s-%(version)s.tar.gz"}
    before = set(scope)
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), scope)  # pylint: disable=exec-used
    return {key: value for key, value in scope.items() if key not in before and key != "__builtins__"}


PARAMETERS = {"easyblock", "name", "version", "versionsuffix", "homepage", "description", "toolchain", "toolchainopts",
              "source_urls", "sources", "checksums", "builddependencies", "dependencies", "configopts",
              "sanity_check_paths", "sanity_check_commands", "modextravars", "moduleclass"}


class Recipes(recording.RecordingTest):
    def version(self):
        with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
            return re.search(r"project\(clusterprof VERSION ([0-9.]+)", file.read()).group(1)

    def configure(self, arguments):
        """Checks that CMake accepts and uses each of these arguments; returns what it printed."""
        with tempfile.TemporaryDirectory(dir=self.directory) as build:
            done = subprocess.run(["cmake", "-G", "Ninja", "-S", SOURCE, "-B", build, *arguments], capture_output=True,
                                  text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("not used by the project", done.stderr)
        return done.stdout

    def mpi_prefix(self, flavour):
        """A prefix like Spack's, with include/mpi.h and lib/libmpi.so."""
        wrapper = f"mpicc.{flavour}"
        self.need(wrapper)
        shown = subprocess.run([wrapper, "-show"], capture_output=True, text=True, check=True).stdout.split()
        include = next(word[2:] for word in shown if word.startswith("-I") and os.path.exists(f"{word[2:]}/mpi.h"))
        library = {"openmpi": "libmpi.so", "mpich": "libmpich.so"}[flavour]
        prefix = os.path.join(self.directory, flavour)
        os.makedirs(f"{prefix}/lib")
        os.symlink(include, f"{prefix}/include")
        os.symlink(f"/usr/lib/x86_64-linux-gnu/{library}", f"{prefix}/lib/libmpi.so")
        return prefix

    def test_setup_is_covered(self):
        needed = {name for name in setup_packages() if name.endswith("-dev")} - NOT_FOR_THE_BUILD
        self.assertEqual(needed, set(SPACK))

    def test_spack_directives(self):
        recipe, said = run_spack_recipe("clusterprof")
        self.assertTrue(recipe.__doc__)
        self.assertEqual([d["ver"] for name, d in said if name == "version"], [self.version()])
        variants = {d["name"] for name, d in said if name == "variant"}
        self.assertEqual(variants, {"openmpi", "mpich", "slurm", "python"})
        dependencies = {re.match(r"[a-z0-9-]+", d["spec"]).group() for name, d in said if name == "depends_on"}
        self.assertEqual(set(SPACK.values()) - dependencies, set())
        self.assertEqual(dependencies - set(SPACK.values()),
                         {"c", "cxx", "cmake", "ninja", "pkgconfig", "python", "py-h5py", "py-pandas"})
        for name, directive in said:
            if name == "depends_on" and directive["when"]:
                self.assertIn(directive["when"], {"+" + variant for variant in variants})
        minimum = next(d["spec"] for name, d in said if name == "depends_on" and d["spec"].startswith("cmake"))
        with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
            self.assertIn(f"VERSION {minimum[6:-1]})", file.readline())

    def test_spack_arguments(self):
        recipe, _ = run_spack_recipe("clusterprof")
        prefixes = {"papi": "/usr", "libpfm4": "/usr", "slurm": "/usr"}
        for flavour in ("openmpi", "mpich"):
            prefixes[flavour] = self.mpi_prefix(flavour)
        names = set()
        for on in itertools.chain.from_iterable(
                itertools.combinations(("openmpi", "mpich", "slurm", "python"), n) for n in range(5)):
            package = recipe()
            package.spec = Spec(on, prefixes)
            arguments = package.cmake_args()
            names |= {re.match(r"-D(\w+):", argument).group(1) for argument in arguments}
            if on in ((), ("openmpi", "mpich", "slurm", "python")):
                output = self.configure(arguments)
                for flavour in ("openmpi", "mpich"):
                    found = f"clusterprof: {flavour} in {prefixes[flavour]}/include" in output
                    self.assertEqual(found, flavour in on, output)
                self.assertEqual("no plugin for Slurm" in output, "slurm" not in on, output)
        self.assertIn("CLUSTERPROF_MPICH_LIBRARY", names)

    def test_spack_environment(self):
        recipe, _ = run_spack_recipe("clusterprof")
        package, said = recipe(), []
        package.prefix = Prefix("/opt/x")
        environment = types.SimpleNamespace(set=lambda *words: said.append(words),
                                            prepend_path=lambda *words: said.append(words))
        package.spec = Spec(("python",), {})
        package.setup_run_environment(environment)
        self.assertEqual(said, [("CLUSTERPROF_HOME", "/opt/x"), ("PYTHONPATH", "/opt/x/lib/clusterprof/python")])

    def test_spack_repository(self):
        with open(os.path.join(PACKAGING, "spack", "repo.yaml"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "repo:\n  namespace: clusterprof\n")
        folders = os.listdir(os.path.join(PACKAGING, "spack", "packages"))
        self.assertEqual(sorted(folders), ["clusterprof", "protozero"])
        _, said = run_spack_recipe("protozero")
        self.assertEqual([len(d["sha256"]) for name, d in said if name == "version"], [64])

    def test_easyconfigs(self):
        paths = glob.glob(os.path.join(PACKAGING, "easybuild", "*.eb"))
        self.assertEqual(len(paths), 3)
        for path in paths:
            config = run_easyconfig(path)
            self.assertEqual(set(config) - PARAMETERS, set(), path)
            toolchain = config["toolchain"]
            self.assertEqual(os.path.basename(path), f"{config['name']}-{config['version']}-{toolchain['name']}-"
                             f"{toolchain['version']}{config.get('versionsuffix', '')}.eb")
            self.assertEqual(len(config["sources"]), len(config["checksums"]))

    def test_easyconfig_of_clusterprof(self):
        path, = glob.glob(os.path.join(PACKAGING, "easybuild", "clusterprof-*.eb"))
        config = run_easyconfig(path)
        self.assertEqual(config["version"], self.version())
        there = {entry[0] for entry in config["dependencies"] + config["builddependencies"]}
        expected = {EASYBUILD.get(name, name) for name in set(SPACK.values()) - IN_EASYBUILD_OTHERWISE}
        self.assertEqual(there - {"CMake", "Ninja", "pkgconf"}, expected)
        prefix = self.mpi_prefix("openmpi")
        output = self.configure(config["configopts"].replace("$EBROOTOPENMPI", prefix).split())
        self.assertIn(f"clusterprof: openmpi in {prefix}/include", output)
        self.assertIn("no mpich found", output)


if __name__ == "__main__":
    recording.main()
