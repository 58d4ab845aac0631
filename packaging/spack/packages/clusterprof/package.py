# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *

try:  # Spack 1.0 has moved it there
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass


class Clusterprof(CMakePackage):
    """Profiler for MPI jobs in Python and compiled languages: call paths of both, waiting and its causes, I/O and
    counters, of every rank, for programs that stay as they are."""

    # There is no place to download it from yet: `spack dev-build clusterprof@0.1.0` in the source folder.
    version("0.1.0")

    license("BSD-3-Clause")

    # What is wrapped is the MPI of the programs to be profiled. With none, programs without MPI are profiled.
    variant("openmpi", default=True, description="Profile programs that use Open MPI")
    variant("mpich", default=False, description="Profile programs that use MPICH or a library with its ABI")
    variant("slurm", default=True, description="Build the SPANK plugin: srun --clusterprof")
    variant("python", default=True, description="clusterprof.read(): profiles as pandas data frames")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("boost@1.74:")
    depends_on("cereal@1.3:")
    depends_on("cli11@2.1:")
    depends_on("elfutils@0.186:")
    depends_on("fmt@9:")
    # A parallel HDF5 would bring its MPI into programs of ours that have none.
    depends_on("hdf5@1.10:~mpi")
    depends_on("libdeflate")
    depends_on("libpfm4")
    depends_on("ncurses")
    depends_on("papi@7:")
    depends_on("protozero")
    depends_on("rapidjson")
    depends_on("sqlite@3.36:")
    depends_on("xxhash@0.8:")
    depends_on("zlib-api")

    depends_on("openmpi", when="+openmpi")
    depends_on("mpich", when="+mpich")
    depends_on("slurm", when="+slurm")
    depends_on("python@3.8:", type="run", when="+python")
    depends_on("py-h5py@3:~mpi", type="run", when="+python")
    depends_on("py-pandas@1.5:", type="run", when="+python")

    conflicts("platform=darwin", msg="clusterprof reads Linux's /proc and signals of its timers")
    conflicts("platform=windows")
    requires("target=x86_64:", msg="unwinding and stubs are written for x86-64")
    conflicts("%gcc@:11", msg="C++20, tried from GCC 12 on")

    generator("ninja")

    def cmake_args(self):
        spec = self.spec
        args = [
            self.define("CLUSTERPROF_BUILD_TESTS", False),
            self.define("PAPI_INCLUDE_DIR", spec["papi"].prefix.include),
            self.define("PFM_INCLUDE_DIR", spec["libpfm4"].prefix.include),
        ]
        for flavour in ("openmpi", "mpich"):
            upper = flavour.upper()
            if spec.satisfies("+" + flavour):
                prefix = spec[flavour].prefix
                args.append(self.define(f"CLUSTERPROF_{upper}_INCLUDE", prefix.include))
                args.append(self.define(f"CLUSTERPROF_{upper}_LIBRARY", join_path(prefix.lib, "libmpi.so")))
            else:
                # Not the one that happens to be on PATH either.
                args.append(self.define(f"CLUSTERPROF_{upper}_INCLUDE", "OFF"))
        if spec.satisfies("+slurm"):
            args.append(self.define("SLURM_INCLUDE_DIR", spec["slurm"].prefix.include))
        else:
            args.append(self.define("SLURM_INCLUDE_DIR", ""))
        return args

    def setup_run_environment(self, env):
        env.set("CLUSTERPROF_HOME", self.prefix)
        if self.spec.satisfies("+python"):
            env.prepend_path("PYTHONPATH", join_path(self.prefix.lib, "clusterprof", "python"))
