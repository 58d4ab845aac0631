# shellcheck shell=bash disable=SC2154 # nodes_dir is the caller's
# SPDX-License-Identifier: BSD-3-Clause
# A library to simulate cluster nodes on one Linux machine. Sourced by mpi_nodes.bash and
# slurm_testbed.bash, which document the use; run by itself only as the first process of a node.
#
# A node is a network, UTS and mount name space, and normally a PID and an IPC one: it has its
# own host name, address, process numbers, /dev/shm, /run, /etc/hosts, machine id and boot id.
# Other files are shared, as on a parallel file system. The nodes' cables end in a bridge that lives in
# a name space of its own, so that the host's firewall never sees their packets. So does the end of one
# more cable, in the name space "login", from which commands reach the nodes. The host itself gets no interface: one that
# goes away makes other programs there fail (UCX looks at every interface when it starts).
#
# nodes_shared_memory=1 leaves PIDs, System V IPC and the boot id in common. MPICH on UCX then
# takes all nodes for one machine and can use shared memory between them.
#
# An ordinary user gets a user name space first, in which everything else happens as root;
# $nodes_user is "UID:GID" of that user then.
#
# State, below $nodes_dir/nodes:
#   list             "name address" per node
#   hosts            /etc/hosts of the nodes
#   NAME.pid         "pid start-time" of the process that keeps the node up
#   NAME.net         its network name space (bind mount); also of "switch" and "login"
#   shared-memory    there when made with nodes_shared_memory
#   userns.pid       holder of the user name space

export -n nodes_user # the programs that run on nodes need not see it
nodes_network=10.213.7 # the first three bytes of addresses; each set of nodes has a network of its own
nodes_library=$(readlink -f "${BASH_SOURCE[0]}")

say() { printf '%s: %s\n' "${nodes_tool:-fake_nodes}" "$*"; }
warn() { say "$@" >&2; }
die() { warn "error: $*"; exit 1; }

# --- processes: a PID alone may have been reused, so its start time goes with it --------------

# Prints the start time of a process; fails for zombies and the departed.
start_time() {
    local text fields
    { text=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    read -ra fields <<<"${text##*) }"
    [[ ${fields[0]} != Z ]] && printf '%s\n' "${fields[19]}"
}

remember() { # FILE PID
    local start
    start=$(start_time "$2") && printf '%s %s\n' "$2" "$start" >"$1"
}

# Prints the PID in FILE if that process still runs.
remembered() { # FILE
    local pid start now
    { read -r pid start <"$1"; } 2>/dev/null || return 1
    now=$(start_time "$pid") && [[ $now == "$start" ]] && printf '%s\n' "$pid"
}

is_gone() { ! remembered "$1" >/dev/null; }

# Polls a command until it succeeds or SECONDS are over.
wait_for() { # SECONDS COMMAND...
    local tries=$(($1 * 50))
    shift
    until "$@"; do
        ((tries-- > 0)) || return 1
        sleep 0.02
    done
}

# Ends the process in FILE, gently first.
end_remembered() { # FILE
    local pid
    if pid=$(remembered "$1"); then
        kill -TERM "$pid" 2>/dev/null
        if ! wait_for 2 is_gone "$1"; then
            kill -KILL "$pid" 2>/dev/null
            wait_for 20 is_gone "$1" || { warn "process $pid does not end"; return 1; }
        fi
    fi
    rm -f "$1"
}

# Becomes COMMAND, with nothing left of the caller: no terminal, files, locks or variables.
detached() { # LOG COMMAND...
    local log=$1 fd
    shift
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        if ((fd > 2)); then exec {fd}>&-; fi
    done
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/ \
        setsid "$@" </dev/null >>"$log" 2>&1
}

there_or_gone() { [[ -e $1 ]] || ! start_time "$2" >/dev/null; } # FILE PID

# --- without root -----------------------------------------------------------------------------

make_user_space() {
    local state=$nodes_dir/nodes pid
    mkdir -p "$state" || die "cannot create $state"
    rm -f "$state/userns.ready"
    (detached "$state/userns.log" unshare --user --map-root-user --net --mount --pid --fork --kill-child \
        --mount-proc -- bash "$nodes_library" keep "$state/userns.ready") &
    pid=$!
    wait_for 60 there_or_gone "$state/userns.ready" "$pid"
    # To be entered is the child of unshare: that one is in the PID name space.
    if [[ ! -e $state/userns.ready ]] || ! pid=$(pgrep -P "$pid") || ! remember "$state/userns.pid" "$pid"; then
        die "cannot make a user name space: $(<"$state/userns.log")"
    fi
}

remove_user_space() {
    end_remembered "$nodes_dir/nodes/userns.pid" || return 1
    rm -f "$nodes_dir"/nodes/userns.{ready,log}
    rmdir "$nodes_dir/nodes" 2>/dev/null || true
}

# Calls verb_VERB, inside the user name space when there must be one. SCRIPT is run in there as
# SCRIPT -d DIR VERB ARGUMENTS.
dispatch() { # SCRIPT VERB ARGUMENTS...
    local script=$1 verb=$2 pid status=0 new=
    shift 2
    if ((EUID != 0)) && ! pid=$(remembered "$nodes_dir/nodes/userns.pid") && [[ $verb == start ]]; then
        make_user_space
        new=1
        pid=$(remembered "$nodes_dir/nodes/userns.pid")
    fi
    if ((EUID == 0)) || [[ ! ${pid:-} ]]; then
        "verb_$verb" "$@"
        return
    fi
    # shellcheck disable=SC2016
    nodes_user=$EUID:$(id -g) nsenter --preserve-credentials --user --net --mount --pid --target "$pid" -- \
        bash -c 'cd "$1" 2>/dev/null || cd /; shift; exec bash "$@"' enter "$PWD" \
        "$script" -d "$nodes_dir" "$verb" "$@" || status=$?
    if [[ $verb == stop || ($new && $status -ne 0) ]]; then remove_user_space || status=1; fi
    return $status
}

# --- the inside of a node ---------------------------------------------------------------------

# Its first process: sets the stage, reaps orphans, and takes every process along when it ends.
node_main() { # NAME STATE
    local name=$1 state=$2 file
    local -A instead=([/etc/hosts]=hosts [/etc/machine-id]=$name.machine-id)
    [[ -e $state/shared-memory ]] || instead[/proc/sys/kernel/random/boot_id]=$name.boot-id
    set -e
    hostname "$name"
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t tmpfs -o mode=755 tmpfs /run
    for file in "${!instead[@]}"; do
        if [[ -e $file ]]; then mount --bind "$state/${instead[$file]}" "$file"; fi
    done
    # /sys/class/net is to show this node's interfaces. Some containers forbid it; it is not vital.
    if mkdir "$state/$name.sys" && mount -t sysfs sysfs "$state/$name.sys" 2>/dev/null; then
        mount --rbind /sys/fs/cgroup "$state/$name.sys/fs/cgroup" 2>/dev/null || true
        mount --move "$state/$name.sys" /sys 2>/dev/null || true
    fi
    keep "$state/$name.ready"
}

keep() { # READY
    ip link set lo up
    : >"$1"
    set +e
    trap 'exit 0' TERM
    while :; do
        sleep 86400 &
        wait
    done
}

# --- nodes ------------------------------------------------------------------------------------

# A stable identifier made of the directory and a name: 32 hex digits.
digest() { printf '%s/%s' "$nodes_dir" "$1" | md5sum | cut -d' ' -f1; }

node_names() { [[ -s $nodes_dir/nodes/list ]] && cut -d' ' -f1 "$nodes_dir/nodes/list"; }
node_address() { sed -n "s/^$1 //p" "$nodes_dir/nodes/list"; }

connect_nodes() { # NAME...
    local state=$nodes_dir/nodes name address port=0
    {
        echo "link add bridge type bridge"
        echo "link set bridge up"
        for name in login "$@"; do
            echo "link add port$((++port)) type veth peer name eth0 netns $state/$name.net"
            echo "link set port$port master bridge up"
        done
    } | nsenter --net="$state/switch.net" ip -batch - || return
    for name in login "$@"; do
        address=$nodes_network.254
        if [[ $name != login ]]; then address=$(node_address "$name"); fi
        printf '%s\n' "addr add $address/24 dev eth0" "link set eth0 up" "link set lo up" |
            nsenter --net="$state/$name.net" ip -batch - || return
    done
}

# Makes the nodes; when that fails, leaves nothing behind.
make_nodes() { # NAME...
    local state=$nodes_dir/nodes name id number=0 pid
    local spaces=(--uts --mount --ipc --pid --mount-proc)
    local -A holder=()
    (($# <= 250)) || die "at most 250 nodes"
    [[ " $* " != *" login "* && " $* " != *" switch "* ]] || die "a node cannot be called login or switch"
    mkdir -p "$state" || die "cannot create $state"
    if [[ ${nodes_shared_memory:-} ]]; then
        spaces=(--uts --mount)
        : >"$state/shared-memory"
    fi
    for name; do echo "$name $nodes_network.$((++number))"; done >"$state/list"
    {
        echo "127.0.0.1 localhost"
        echo "$nodes_network.254 $(hostname) login"
        sed 's/\(.*\) \(.*\)/\2 \1/' "$state/list"
    } >"$state/hosts"

    for name in switch login "$@"; do
        : >"$state/$name.net"
        unshare --net="$state/$name.net" true || { remove_nodes; die "cannot make a network name space"; }
    done
    connect_nodes "$@" || { remove_nodes; die "cannot connect the nodes"; }

    for name; do
        id=$(digest "$name")
        echo "$id" >"$state/$name.machine-id"
        echo "${id:0:8}-${id:8:4}-4${id:13:3}-8${id:17:3}-${id:20}" >"$state/$name.boot-id"
        rm -f "$state/$name.ready"
        (detached "$state/$name.log" nsenter --net="$state/$name.net" \
            unshare "${spaces[@]}" --fork --kill-child -- bash "$nodes_library" node "$name" "$state") &
        holder[$name]=$!
    done
    for name; do
        wait_for 60 there_or_gone "$state/$name.ready" "${holder[$name]}"
        if [[ -e $state/$name.ready ]] && pid=$(pgrep -P "${holder[$name]}") &&
            remember "$state/$name.pid" "$pid"; then
            continue
        fi
        warn "$(<"$state/$name.log")"
        kill -KILL "${holder[@]}" 2>/dev/null
        remove_nodes
        die "node $name did not come up"
    done
}

# Ends what still runs in a node's network; nothing does when the node had PIDs of its own.
end_all_in() { # NETWORK-NAME-SPACE
    local process left tries
    for ((tries = 1000; tries > 0; tries--)); do
        left=
        for process in /proc/[0-9]*; do
            [[ $process/ns/net -ef $1 ]] || continue
            left=${process#/proc/}
            kill -KILL "$left" 2>/dev/null
        done
        [[ $left ]] || return 0
        sleep 0.02
    done
    warn "process $left does not end"
    return 1
}

# Removes everything; harmless when there is nothing.
remove_nodes() {
    local state=$nodes_dir/nodes file status=0
    [[ -d $state ]] || return 0
    for file in "$state"/*.pid; do
        if [[ -e $file && $file != */userns.pid ]]; then end_remembered "$file" || status=1; fi
    done
    for file in "$state"/*.net; do
        [[ -e $file ]] || continue
        end_all_in "$file" || status=1
        while umount "$file" 2>/dev/null; do :; done
        rm -f "$file" || status=1
    done
    rmdir "$state"/*.sys 2>/dev/null
    rm -f "$state"/{list,hosts,shared-memory} "$state"/*.{ready,log,boot-id,machine-id}
    rmdir "$state" 2>/dev/null
    return $status
}

# Runs COMMAND on a node, in the current directory.
on_node() { # NAME COMMAND...
    local pid spaces=(--uts --net --mount --ipc --pid)
    pid=$(remembered "$nodes_dir/nodes/$1.pid") || { warn "error: no node '$1' in $nodes_dir"; return 125; }
    if [[ -e $nodes_dir/nodes/shared-memory ]]; then spaces=(--uts --net --mount); fi
    shift
    # shellcheck disable=SC2016
    nsenter "${spaces[@]}" --target "$pid" -- \
        bash -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' on-node "$PWD" "$@"
}

# Runs COMMAND on the host, but in a network where it reaches the nodes, by name.
on_login() { # COMMAND...
    # shellcheck disable=SC2016
    nsenter --net="$nodes_dir/nodes/login.net" unshare --mount -- bash -c 'mount --bind "$1" /etc/hosts && shift && exec "$@"' \
        on-login "$nodes_dir/nodes/hosts" "$@"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    case ${1:-} in
    node) node_main "$2" "$3" ;;
    keep) keep "$2" ;;
    *) die "this is a library; see mpi_nodes.bash and slurm_testbed.bash" ;;
    esac
fi
