"""What /proc says of a process that is attached to and let go again."""

import os


def may_trace():
    """Whether this user may trace processes that it has not started."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            scope = int(file.read())
    except OSError:
        scope = 0
    with open("/proc/self/status") as file:
        capabilities = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    return scope == 0 or scope < 3 and capabilities >> 19 & 1


def status_of(pid, *names):
    with open(f"/proc/{pid}/status") as file:
        return {line.split(":")[0]: line.split()[1] for line in file if line.split(":")[0] in names}


def _maps_of(pid):
    with open(f"/proc/{pid}/maps") as file:
        return [line.split(maxsplit=5) for line in file.read().splitlines()]


def files_of(pid):
    """Everything that is mapped from files, but for our code and the libraries of glibc that it names, which stay."""
    return sorted((words[0], words[1], words[5]) for words in _maps_of(pid) if len(words) > 5 and words[5].startswith("/")
                  and not os.path.basename(words[5]).startswith(("libclusterprof_", "libdl", "libpthread")))


def code_of(pid):
    """What stays. The second attach must not map it a second time."""
    return sorted((words[0], words[1], words[5]) for words in _maps_of(pid) if len(words) > 5 and words[5].startswith("/")
                  and os.path.basename(words[5]).startswith("libclusterprof_"))


def unnamed_of(pid):
    """Number, bytes, and those that may be executed, of the mappings without a name."""
    unnamed = [words for words in _maps_of(pid) if len(words) < 6]
    sizes = [int(end, 16) - int(begin, 16) for begin, end in (words[0].split("-") for words in unnamed)]
    return len(unnamed), sum(sizes), [words[:2] for words in unnamed if "x" in words[1]]


def state_of(pid):
    """What has to be as before when a process was let go."""
    timers = None
    if os.path.exists(f"/proc/{pid}/timers"):  # not in every kernel
        with open(f"/proc/{pid}/timers") as file:
            timers = file.read()
    descriptors = sorted((int(name), os.readlink(f"/proc/{pid}/fd/{name}")) for name in os.listdir(f"/proc/{pid}/fd"))
    masks = {tid: status_of(f"{pid}/task/{tid}", "SigBlk") for tid in os.listdir(f"/proc/{pid}/task")}
    priorities = {tid: (os.sched_getscheduler(int(tid)), os.getpriority(os.PRIO_PROCESS, int(tid))) for tid in masks}
    return {"files": files_of(pid), "handlers": status_of(pid, "SigCgt", "SigIgn", "Threads"), "timers": timers,
            "descriptors": descriptors, "masks": masks, "priorities": priorities}
