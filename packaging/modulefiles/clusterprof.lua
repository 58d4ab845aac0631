-- Module file of clusterprof for Lmod. It lies below the prefix that it stands for and finds it from its own place, so
-- that the prefix can be moved:  module use PREFIX/share/clusterprof/modulefiles;  module load clusterprof
-- A symbolic link to this file from a site's own tree of modules does as well. Whoever copies it names the prefix here:
local prefix = nil

if not prefix then
  local below = "^(.*)/share/clusterprof/modulefiles/clusterprof/[^/]+$"
  local file = myFileName()
  prefix = file:match(below)
  if not prefix then
    local target = capture("readlink -f -- '" .. file:gsub("'", "'\\''") .. "'"):gsub("\n$", "")
    prefix = target:match(below)
  end
end
if not prefix or not isFile(pathJoin(prefix, "bin", "clusterprof")) then
  LmodError("clusterprof is not where its module file ", myFileName(), " lies: set `prefix` in it")
end

whatis("Name: clusterprof")
whatis("Version: " .. myModuleVersion())
whatis("Category: profiler")
whatis("Description: Profiler for MPI jobs: Python and native code, MPI, I/O and counters of every rank")
help([[
srun -n 64 clusterprof python3 train.py       (or mpirun; no MPI at all does, too)
srun --clusterprof -n 64 python3 train.py     (with the plugin for Slurm)
clusterprof report clusterprof-train-*

Regions in programs: #include <clusterprof.h>, found through CPATH. In Python, `import clusterprof` works after
export PYTHONPATH=$CLUSTERPROF_HOME/lib/clusterprof/python${PYTHONPATH:+:$PYTHONPATH}
]])

setenv("CLUSTERPROF_HOME", prefix)
prepend_path("PATH", pathJoin(prefix, "bin"))
-- man looks beside bin itself, unless somebody has set MANPATH. Setting it here would hide the system's pages.
if os.getenv("MANPATH") then
  prepend_path("MANPATH", pathJoin(prefix, "share", "man"))
end
-- It holds clusterprof.h and clusterprof.f90 alone.
prepend_path("CPATH", pathJoin(prefix, "include"))
