#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs MPI jobs across simulated nodes of this machine; see fake_nodes.bash for what a node is.

set -u -o pipefail
self=$(readlink -f "${BASH_SOURCE[0]}")
# shellcheck disable=SC2034 # for the library
nodes_tool=mpi_nodes
# shellcheck source=fake_nodes.bash
source "${self%/*}/fake_nodes.bash" || exit 1

usage() {
    cat <<'USAGE'
usage: mpi_nodes.bash [-d DIR] start N [--slots K] [--shared-memory]
                                            make nodes n1 ... nN with K slots each (default 4)
       mpi_nodes.bash [-d DIR] run ARGUMENTS...    $MPIRUN (default mpirun) ARGUMENTS across them
       mpi_nodes.bash [-d DIR] exec NODE COMMAND...
       mpi_nodes.bash [-d DIR] status              exit status 0 only when all are up
       mpi_nodes.bash [-d DIR] stop                remove the nodes and every process on them
DIR holds the state; at most 60 characters (default: $MPI_NODES_DIR or /tmp/mpi-nodes-UID).
MPICH of Debian 12 hangs in MPI_Finalize over TCP; with --shared-memory it does not.
USAGE
}

# shellcheck disable=SC2034 # nodes_shared_memory is for the library
verb_start() {
    local count='' slots=4 name
    while (($#)); do
        case $1 in
        --slots) slots=${2:-}; shift ;;
        --shared-memory) nodes_shared_memory=1 ;;
        *) count=$1 ;;
        esac
        shift
    done
    [[ $count =~ ^[1-9][0-9]*$ && $slots =~ ^[1-9][0-9]*$ ]] || die "start needs a number of nodes"
    if node_names >/dev/null; then
        [[ $(node_names | wc -l) == "$count" ]] || die "there are other nodes in $nodes_dir; stop them first"
        if verb_status >/dev/null; then
            say "$count nodes are up already"
            return 0
        fi
        warn "some nodes have died; starting afresh"
    fi
    remove_nodes || die "cannot remove what an earlier run left in $nodes_dir"
    # shellcheck disable=SC2046
    make_nodes $(printf 'n%s ' $(seq "$count"))
    for name in $(node_names); do
        echo "$name slots=$slots" >&3
        echo "$name:$slots" >&4
    done 3>"$nodes_dir/hosts.openmpi" 4>"$nodes_dir/hosts.mpich"
    printf '#!/bin/bash\nexec bash %q -d %q agent "$@"\n' "$self" "$nodes_dir" >"$nodes_dir/remote-shell"
    chmod +x "$nodes_dir/remote-shell"
    say "$count nodes are up"
}

# What mpirun calls in place of ssh: [OPTIONS] HOST COMMAND...
verb_agent() {
    while [[ ${1:-} == -* ]]; do shift; done
    local host=${1:-}
    shift
    on_node "$host" bash -c "$*"
}

use_openmpi() {
    local net
    net=$(node_address n1)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=$nodes_dir/remote-shell
    export OMPI_MCA_orte_default_hostfile=$nodes_dir/hosts.openmpi
    export OMPI_MCA_oob_tcp_if_include=${net%.*}.0/24 OMPI_MCA_btl_tcp_if_include=${net%.*}.0/24
    # /tmp/ompi.HOST.0 may belong to the real root.
    mkdir -p "$nodes_dir/tmp"
    export OMPI_MCA_orte_tmpdir_base=$nodes_dir/tmp
    # All nodes share a few cores: neither pin nor spin.
    export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
}

use_mpich() {
    export HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=$nodes_dir/remote-shell
    export HYDRA_HOST_FILE=$nodes_dir/hosts.mpich HYDRA_IFACE=eth0
    if [[ -e $nodes_dir/nodes/shared-memory ]]; then export UCX_TLS=${UCX_TLS:-sysv,self}; fi
}

verb_run() {
    local mpirun=${MPIRUN:-mpirun} version
    (($#)) || die "run needs arguments for mpirun"
    node_names >/dev/null || die "no nodes in $nodes_dir; start them first"
    version=$("$mpirun" --version 2>&1) || die "cannot run $mpirun: $version"
    if [[ $version == *"Open MPI"* || $version == *OpenRTE* ]]; then use_openmpi; else use_mpich; fi
    on_login "$mpirun" "$@"
}

verb_status() {
    local name address state status=0
    node_names >/dev/null || { say "no nodes in $nodes_dir"; return 3; }
    while read -r name address; do
        state=up
        if is_gone "$nodes_dir/nodes/$name.pid"; then state=down status=1; fi
        printf '%-8s %-15s %s\n' "$name" "$address" "$state"
    done <"$nodes_dir/nodes/list"
    return $status
}

verb_exec() {
    (($# >= 2)) || die "exec needs a node and a command"
    on_node "$@"
}

verb_stop() {
    remove_nodes || die "could not remove everything in $nodes_dir"
    rm -rf "$nodes_dir"/{hosts.openmpi,hosts.mpich,remote-shell,tmp}
}

nodes_dir=${MPI_NODES_DIR:-/tmp/mpi-nodes-$UID}
if [[ ${1:-} == -d ]]; then
    nodes_dir=${2:?"-d needs a directory"}
    shift 2
fi
nodes_dir=$(realpath -m "$nodes_dir")
((${#nodes_dir} <= 60)) || die "$nodes_dir: at most 60 characters, or the sockets below it have no names"
verb=${1:-}
if (($#)); then shift; fi
case $verb in
start | run | agent | exec | status | stop) ;;
-h | --help | help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac
dispatch "$self" "$verb" "$@"
