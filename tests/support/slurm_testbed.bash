#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A Slurm cluster on this machine, with nothing read or written in /etc or /var: munged, slurmctld and a slurmd on
# every simulated node, all in one directory; see fake_nodes.bash for what a node is.

set -u -o pipefail
self=$(readlink -f "${BASH_SOURCE[0]}")
# shellcheck disable=SC2034 # for the library
nodes_tool=slurm_testbed
# shellcheck source=fake_nodes.bash
source "${self%/*}/fake_nodes.bash" || exit 1
PATH=$PATH:/usr/sbin:/sbin

usage() {
    cat <<'USAGE'
usage: slurm_testbed.bash [-d DIR] start N [OPTIONS]   make nodes n1 ... nN and wait until all are idle; exit
                                                       status 77: this machine does not let us make nodes
       slurm_testbed.bash [-d DIR] run COMMAND...      on the host, with Slurm's commands using this cluster
       slurm_testbed.bash [-d DIR] exec NODE COMMAND...       as root
       slurm_testbed.bash [-d DIR] env                 prints the variables that `run` sets
       slurm_testbed.bash [-d DIR] processes           of all nodes, a line each: NODE PID UID NAME ARGUMENTS
       slurm_testbed.bash [-d DIR] fail NODE           end a node and all on it, as a power cut does
       slurm_testbed.bash [-d DIR] missing             names the programs that are not installed; status 1 if any
       slurm_testbed.bash [-d DIR] status              exit status 0 only when all daemons are up
       slurm_testbed.bash [-d DIR] stop                end the cluster and every process of every job on it
options of start:
  --cpus K                 CPUs that a node claims to have (default 4)
  --spank "SO [ARGUMENTS]" load this SPANK plugin, which is optional (repeatable)
  --prolog FILE, --epilog FILE, --task-prolog FILE, --task-epilog FILE
  --mpi TYPE               what srun --mpi is by default: none, pmi2 or pmix (default none)
  --conf LINE              one more line of slurm.conf (repeatable)
  --shared-memory          nodes share PIDs and System V memory, which MPICH needs
DIR holds the state; at most 60 characters (default: $SLURM_TESTBED_DIR or /tmp/slurm-testbed-UID).
Root's cluster serves every user. An ordinary user gets one in a user name space; `run` leads into it.
USAGE
}

# Slurm's daemons as root call setgroups(), which a user name space forbids. In there they run in one more, as the
# user that we are outside.
as_user=()
if [[ ${nodes_user:-} ]]; then
    as_user=(unshare --user --map-user="${nodes_user%:*}" --map-group="${nodes_user#*:}" --)
fi

slurm() { on_login "${as_user[@]}" env SLURM_CONF="$nodes_dir/etc/slurm.conf" "$@"; }

# --- configuration ----------------------------------------------------------------------------

write_configuration() {
    local net owner line
    net=$(node_address n1)
    owner=$("${as_user[@]}" id -un)
    cat >"$nodes_dir/etc/slurm.conf" <<CONF
ClusterName=testbed
SlurmUser=$owner
SlurmdUser=$owner
AuthType=auth/munge
AuthInfo=socket=$nodes_dir/run/munge.socket
CredType=cred/munge
StateSaveLocation=$nodes_dir/state
SlurmdSpoolDir=$nodes_dir/spool/%n
SlurmctldPidFile=$nodes_dir/run/slurmctld.pidfile
SlurmdPidFile=$nodes_dir/run/slurmd.%n.pidfile
SlurmctldLogFile=$nodes_dir/log/slurmctld.log
SlurmdLogFile=$nodes_dir/log/slurmd.%n.log
# PMIx makes directories in here whose names differ by job but not by node.
TmpFS=$nodes_dir/tmp/%n
PlugStackConfig=$nodes_dir/etc/plugstack.conf
MpiDefault=$mpi
# Without cgroups, which need systemd or a delegated tree.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# Nodes have the CPUs that are stated below, whatever the machine has.
SlurmdParameters=config_overrides
ReturnToService=2
# Batch jobs start at once, not after up to 3 s; heterogeneous jobs not after 30 s.
SchedulerParameters=batch_sched_delay=0,bf_interval=1
MailProg=/bin/true
SlurmctldHost=ctl($(node_address ctl))
NodeName=n[1-$count] NodeAddr=${net%.*}.[1-$count] CPUs=$cpus
PartitionName=test Nodes=ALL Default=YES State=UP MaxTime=INFINITE
$(printf '%s\n' "${conf[@]}")
CONF
    # With the other values 1 to 6 of 100 starts of Open MPI 4.1.4 crash in MPI_Init on a busy machine: Slurm's fence
    # lets some ranks out too early.
    echo "PMIxCollFence=ring" >"$nodes_dir/etc/mpi.conf"
    for line in "${spank[@]}"; do echo "optional $line"; done >"$nodes_dir/etc/plugstack.conf"
}

# --- daemons ----------------------------------------------------------------------------------

launch() { # NAME NODE|'' COMMAND...
    local name=$1 node=$2
    shift 2
    set -- "${as_user[@]}" env SLURM_CONF="$nodes_dir/etc/slurm.conf" "$@"
    if [[ $node ]]; then set -- bash "$self" -d "$nodes_dir" exec "$node" "$@"; fi
    (detached "$nodes_dir/log/$name.out" "$@") &
    remember "$nodes_dir/run/$name.pid" $!
}

daemons() {
    local file
    for file in "$nodes_dir"/run/*.pid; do
        if [[ -e $file ]]; then basename "$file" .pid; fi
    done
}

some_daemon_died() {
    local name
    for name in $(daemons); do
        if is_gone "$nodes_dir/run/$name.pid"; then return 0; fi
    done
    return 1
}

munge_is_up() { "${as_user[@]}" munge -S "$nodes_dir/run/munge.socket" -n &>/dev/null; }
slurmctld_is_up() { slurm scontrol ping 2>/dev/null | grep -q ' UP$'; }
nodes_are_idle() { (($(slurm sinfo -h -N -t idle -o %N 2>/dev/null | wc -l) == count)); }
up_or_hopeless() { "$1" || some_daemon_died; }

await() { # SECONDS CONDITION
    local name
    wait_for "$1" up_or_hopeless "$2"
    if "$2"; then return; fi
    for name in $(daemons); do
        if is_gone "$nodes_dir/run/$name.pid"; then warn "$name died: $(tail -n 8 "$nodes_dir/log/$name.out")"; fi
    done
    verb_stop
    die "gave up waiting: $2 (logs: $nodes_dir/log)"
}

# --- verbs ------------------------------------------------------------------------------------

# shellcheck disable=SC2034 # nodes_shared_memory is for the library
parse_start_options() {
    local file key
    count='' cpus=4 mpi=none conf=() spank=()
    while (($#)); do
        case $1 in
        --cpus) cpus=${2:-} ;;
        --mpi) mpi=${2:-} ;;
        --conf) conf+=("${2:-}") ;;
        --spank) spank+=("${2:-}") ;;
        --prolog | --epilog | --task-prolog | --task-epilog)
            file=$(realpath "${2:-}")
            [[ -f $file && -x $file ]] || die "$1: no executable file: ${2:-}"
            key=${1//-/}
            conf+=("$key=$file")
            ;;
        --shared-memory) nodes_shared_memory=1; shift; continue ;;
        -*) die "unknown option $1" ;;
        *) count=$1; shift; continue ;;
        esac
        (($# >= 2)) || die "$1 needs a value"
        shift 2
    done
    [[ $count =~ ^[1-9][0-9]*$ && $cpus =~ ^[1-9][0-9]*$ ]] || die "start needs a number of nodes"
}

verb_missing() {
    local program missing=()
    for program in munged munge slurmctld slurmd srun scontrol sinfo unshare nsenter ip pgrep; do
        if ! type -P "$program" >/dev/null; then missing+=("$program"); fi
    done
    if ((${#missing[@]})); then
        echo "${missing[*]}"
        return 1
    fi
}

verb_start() {
    local name missing
    parse_start_options "$@"
    missing=$(verb_missing) || die "not installed: $missing"
    verb_stop || exit 1
    umask 022
    rm -rf "${nodes_dir:?}"/{etc,log,state,spool,tmp,munge}
    mkdir -p "$nodes_dir"/{etc,run,log,state,spool,tmp,munge} || die "cannot write to $nodes_dir"
    for name in $(printf 'n%s ' $(seq "$count")); do
        mkdir "$nodes_dir/spool/$name" "$nodes_dir/tmp/$name"
        chmod 1777 "$nodes_dir/tmp/$name"
    done
    chmod 700 "$nodes_dir/munge"
    (umask 077 && head -c 1024 /dev/urandom >"$nodes_dir/munge/key")
    # --force: the parent directories may be another user's.
    launch munged '' munged --foreground --force --socket="$nodes_dir/run/munge.socket" \
        --key-file="$nodes_dir/munge/key" --pid-file="$nodes_dir/run/munged.pidfile" --seed-file="$nodes_dir/munge/seed"
    # shellcheck disable=SC2046
    if ! (make_nodes $(printf 'n%s ' $(seq "$count")) ctl); then
        verb_stop
        exit 77
    fi
    write_configuration
    await 60 munge_is_up
    launch slurmctld ctl slurmctld -D
    await 60 slurmctld_is_up
    for name in $(printf 'n%s ' $(seq "$count")); do launch "slurmd.$name" "$name" slurmd -D -N "$name"; done
    await 60 nodes_are_idle
    say "$count nodes are idle"
}

# The end of a node is the end of all that runs on it.
verb_stop() {
    local name status=0
    remove_nodes || status=1
    for name in $(daemons); do end_remembered "$nodes_dir/run/$name.pid" || status=1; done
    ((status == 0)) || die "could not end everything in $nodes_dir"
    rm -rf "${nodes_dir:?}/run"
}

verb_fail() {
    local file=$nodes_dir/nodes/${1:-}
    [[ -e $file.pid ]] || die "no node '${1:-}' in $nodes_dir"
    kill -KILL "$(remembered "$file.pid")"
    wait_for 20 is_gone "$file.pid" && end_all_in "$file.net"
}

verb_processes() {
    local name path number key value comm uid words
    local -A node=()
    for name in $(node_names); do node[$(stat -L -c %i "$nodes_dir/nodes/$name.net")]=$name; done
    stat -L -c '%i %n' /proc/[0-9]*/ns/net 2>/dev/null | while read -r number path; do
        [[ ${node[$number]:-} ]] || continue
        path=${path%/ns/net} uid='' words=()
        {
            while read -r key value; do
                case $key in
                Name:) comm=$value ;;
                Uid:) uid=${value%%[[:blank:]]*} ;;
                esac
            done <"$path/status"
            mapfile -d '' words <"$path/cmdline"
        } 2>/dev/null
        if [[ $uid ]]; then printf '%s\n' "${node[$number]} ${path#/proc/} $uid $comm ${words[*]//$'\n'/ }"; fi
    done
}

verb_status() {
    local name state status=0
    [[ -d $nodes_dir/run ]] || { say "no cluster in $nodes_dir"; return 3; }
    for name in $(daemons); do
        state=up
        if is_gone "$nodes_dir/run/$name.pid"; then state=down status=1; fi
        printf '%-12s %s\n' "$name" "$state"
    done
    slurm sinfo -N -o '%N %T' || status=1
    return $status
}

verb_env() {
    [[ -d $nodes_dir/run ]] || die "no cluster in $nodes_dir"
    echo "export SLURM_CONF=$nodes_dir/etc/slurm.conf"
    if [[ -e $nodes_dir/nodes/shared-memory ]]; then echo "export UCX_TLS=sysv,self"; fi
}

verb_run() {
    local variables
    (($#)) || die "run needs a command"
    variables=$(verb_env) || exit 1
    eval "$variables"
    on_login "${as_user[@]}" "$@"
}

verb_exec() {
    (($# >= 2)) || die "exec needs a node and a command"
    on_node "$@"
}

nodes_dir=${SLURM_TESTBED_DIR:-/tmp/slurm-testbed-$UID}
if [[ ${1:-} == -d ]]; then
    nodes_dir=${2:?"-d needs a directory"}
    shift 2
fi
nodes_dir=$(realpath -m "$nodes_dir")
[[ $nodes_dir != *[[:space:]]* ]] || die "$nodes_dir: no blanks, please"
((${#nodes_dir} <= 60)) || die "$nodes_dir: at most 60 characters, or the sockets below it have no names"
verb=${1:-}
if (($#)); then shift; fi
case $verb in
missing) verb_missing ;;
start | run | exec | env | processes | fail | status | stop) dispatch "$self" "$verb" "$@" ;;
-h | --help | help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac
