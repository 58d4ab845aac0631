#%Module1.0
# Module file of clusterprof for Environment Modules. It lies below the prefix that it stands for and finds it from its
# own place, so that the prefix can be moved:  module use PREFIX/share/clusterprof/modulefiles;  module load clusterprof
# A symbolic link to this file from a site's own tree of modules does as well. Whoever copies it names the prefix here:
set prefix {}

set file $::ModulesCurrentModulefile
if {$prefix eq {}} {
    # `normalize` follows a link in the last place when something comes after it.
    set target [file dirname [file normalize [file join $file -]]]
    foreach place [list $file $target] {
        if {$prefix eq {}} {
            regexp {^(.*)/share/clusterprof/modulefiles/clusterprof/[^/]+$} $place whole prefix
        }
    }
}
if {![file isfile [file join $prefix bin clusterprof]]} {
    error "clusterprof is not where its module file $file lies: set `prefix` in it"
}

module-whatis {Profiler for MPI jobs: Python and native code, MPI, I/O and counters of every rank}
proc ModulesHelp {} {
    puts stderr {srun -n 64 clusterprof python3 train.py       (or mpirun; no MPI at all does, too)
srun --clusterprof -n 64 python3 train.py     (with the plugin for Slurm)
clusterprof report clusterprof-train-*

Regions in programs: #include <clusterprof.h>, found through CPATH. In Python, `import clusterprof` works after
export PYTHONPATH=$CLUSTERPROF_HOME/lib/clusterprof/python${PYTHONPATH:+:$PYTHONPATH}}
}

setenv CLUSTERPROF_HOME $prefix
prepend-path PATH [file join $prefix bin]
# man looks beside bin itself, unless somebody has set MANPATH. Setting it here would hide the system's pages.
if {[info exists ::env(MANPATH)]} {
    prepend-path MANPATH [file join $prefix share man]
}
# It holds clusterprof.h and clusterprof.f90 alone.
prepend-path CPATH [file join $prefix include]
